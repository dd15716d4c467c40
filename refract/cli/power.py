"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from math import ceil
from typing import Annotated

import typer

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop

# Shares of prompts that flip besides a drop, where none is given.
CHURN = (0.0, 0.1, 0.2, 0.3)


def power(
    difference: float | None = None,
    n: Annotated[int | None, typer.Option("--n")] = None,
    discordant: float | None = None,
    design_effect: float = 1.0,
    power_: Annotated[float, typer.Option("--power")] = 0.8,
    alpha: float = 0.05,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n).

    On the same prompts by McNemar's one-sided exact test, as `refract compare` decides, which says of
    the prompts at hand what drop they show (detectable).

    Example: refract power --difference 0.05

    Args:
        difference: The drop to be shown, as a difference of rates: 0.05.
        n: The number of prompts there are.
        discordant: Share of prompts expected to flip besides the drop, half of them either way; left
          out, 0 to 30 %, a line each.
        design_effect: By how much variants of one request widen the interval, as `refract compare` and
          the report print it; 1: one prompt a request.
        power_: Chance to show the drop.
        alpha: Chance to show one that is not there (one-sided).
    """
    if (difference is None) == (n is None):
        raise UsageError("give --difference or --n: the one says how large the other must be")
    if difference is not None and not 0 < abs(difference) <= 1:
        raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
    if design_effect < 1:
        raise UsageError(f"--design-effect must be 1 or more (got {design_effect:g})")
    rows = []
    try:
        for churn in CHURN if discordant is None else (discordant,):
            flips = f"{100 * churn:g} %"
            if n is not None:
                # Of no prompts left the error is of the number given.
                alone = n if n < 1 else max(1, round(n / design_effect))
                drop = smallest_drop(alone, churn, power_, alpha)
                rows.append([flips, str(n), "none" if drop is None else f"{drop:.3f}"])
            elif difference is not None and abs(difference) + churn <= 1:
                alone = drop_sample_size(abs(difference), churn, power_, alpha)
                rows.append([flips, f"{abs(difference):g}", str(ceil(alone * design_effect))])
    except ValueError as error:
        raise UsageError(str(error)) from None
    given = ["prompts", "drop"] if n is not None else ["drop", "prompts"]
    print_table(["flip besides", *given], rows)
    clusters = "one prompt a request" if design_effect == 1 else f"design effect {design_effect:g}"
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases; {clusters}. Besides flips what two runs of one model differ in."
    )
