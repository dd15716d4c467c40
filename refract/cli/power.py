"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from typing import Annotated

import typer

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop


def power(
    difference: Annotated[
        float | None, typer.Option(help="The drop to be shown, as a difference of rates: 0.05.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="The number of prompts there are.")] = None,
    discordant: Annotated[
        float,
        typer.Option(
            help="Share of prompts expected to flip besides the drop, half of them either way; at 0 "
            "the fewest prompts."
        ),
    ] = 0.0,
    power_: Annotated[float, typer.Option("--power", help="Chance to show the drop.")] = 0.8,
    alpha: Annotated[
        float, typer.Option(help="Chance to show one that is not there (one-sided).")
    ] = 0.05,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n).

    On the same prompts by McNemar's one-sided exact test, as `refract compare` decides, which says of
    the prompts at hand what drop they show (detectable).

    Example: refract power --difference 0.05
    """
    if (difference is None) == (n is None):
        raise UsageError("give --difference or --n: the one says how large the other must be")
    try:
        if n is not None:
            drop = smallest_drop(n, discordant, power_, alpha)
            print_table(["prompts", "drop"], [[str(n), "none" if drop is None else f"{drop:.3f}"]])
        elif difference is not None:
            if not 0 < abs(difference) <= 1:
                raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
            needed = drop_sample_size(abs(difference), discordant, power_, alpha)
            print_table(["drop", "prompts"], [[f"{abs(difference):g}", str(needed)]])
    except ValueError as error:
        raise UsageError(str(error)) from None
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases; {100 * discordant:g} % of prompts flip besides. Variants of one "
        "request count as one prompt."
    )
