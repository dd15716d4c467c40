"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from math import ceil
from typing import Annotated

from typer import Option

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop

# Shares of prompts that flip besides a drop, where --discordant is left out.
CHURN = (0.0, 0.1, 0.2, 0.3)


def power(
    difference: Annotated[
        float | None, Option(help="The drop to be shown, as a difference of rates: 0.05.")
    ] = None,
    n: Annotated[int | None, Option("--n", help="The number of prompts there are.")] = None,
    discordant: Annotated[
        float | None,
        Option(
            help="Share of prompts that flip besides the drop, half of them either way; default: 0 to "
            "30 %, a line each."
        ),
    ] = None,
    design_effect: Annotated[
        float,
        Option(
            help="By how much variants of one request widen the interval, as `refract compare` prints "
            "it; 1: one prompt a request."
        ),
    ] = 1.0,
    power_: Annotated[float, Option("--power", help="Chance to show the drop.")] = 0.8,
    alpha: Annotated[
        float, Option(help="Chance to show one that is not there (one-sided).")
    ] = 0.05,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n).

    Of two runs on the same prompts, by McNemar's one-sided exact test. Two models are told apart by
    more than that: `refract compare` allows for the judge's error too.

    Example: refract power --difference 0.05
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
                # An n below 1 is passed on as it is, so that the error names it.
                requests = n if n < 1 else max(1, round(n / design_effect))
                drop = smallest_drop(requests, churn, power_, alpha=alpha)
                rows.append([flips, str(n), "none" if drop is None else f"{drop:.3f}"])
            elif difference is not None and abs(difference) + churn <= 1:
                requests = drop_sample_size(abs(difference), churn, power_, alpha=alpha)
                prompts = ceil(requests * design_effect)
                rows.append([flips, f"{abs(difference):g}", str(prompts)])
    except ValueError as error:
        raise UsageError(str(error)) from None
    columns = ["prompts", "drop"] if n is not None else ["drop", "prompts"]
    print_table(["flip besides", *columns], rows)
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases. Besides flips what two runs of one model differ in; of two "
        "models the judge's error counts too (refract compare)."
    )
