"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, sqrt
from typing import Annotated, Literal

from typer import Option

from refract.agreement.unseen_models import known_errors
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.judges.refusal import Refusal, RefusalSettings
from refract.rates.comparison import beyond_judge
from refract.rates.judge_error import JudgeError
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop

# Shares of prompts that flip besides a drop, where --discordant is left out.
CHURN = (0.0, 0.1, 0.2, 0.3)
# More prompts than these leave the judge's error as it is.
MOST_PROMPTS = 5000
LABELS = (50, 200)


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
    rate: Annotated[
        float, Option(help="Share of harmful prompts that the first model refuses.")
    ] = 0.8,
    interval: Annotated[
        Literal["prompts", "prompts_and_judge"],
        Option(help="What decisions allow for, as of `refract compare`."),
    ] = "prompts_and_judge",
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n).

    On the same prompts, as `refract compare` decides: of two runs of one model by McNemar's one-sided
    exact test, of two models the drop must also be more than the default judge's error.

    Example: refract power --difference 0.05
    """
    if (difference is None) == (n is None):
        raise UsageError("give --difference or --n: the one says how large the other must be")
    if difference is not None and not 0 < abs(difference) <= 1:
        raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
    if design_effect < 1:
        raise UsageError(f"--design-effect must be 1 or more (got {design_effect:g})")
    if not 0 < rate < 1:
        raise UsageError(f"--rate must be above 0 and below 1 (got {rate:g})")
    beyond: Beyond | None = None
    if interval == "prompts_and_judge":
        judge_error = default_judge_error()
        beyond = partial(beyond_judge, before=rate, error=judge_error, power=power_, alpha=alpha)
    rows = []
    try:
        for churn in CHURN if discordant is None else (discordant,):
            row = [f"{100 * churn:g} %"]
            if n is not None:
                # An n below 1 is passed on as it is, so that the error names it.
                requests = n if n < 1 else max(1, round(n / design_effect))
                drop = smallest_drop(requests, churn, power_, alpha=alpha)
                row += [str(n), "none" if drop is None else f"{drop:.3f}"]
                if beyond:
                    row.append(_drop_of_two(beyond, requests, churn, drop=drop, rate=rate))
            elif difference is not None and abs(difference) + churn <= 1:
                requests = drop_sample_size(abs(difference), churn, power_, alpha=alpha)
                row += [f"{abs(difference):g}", str(ceil(requests * design_effect))]
                if beyond:
                    needed = _prompts_of_two(beyond, requests, churn, drop=abs(difference))
                    row.append("none" if needed is None else str(ceil(needed * design_effect)))
            if len(row) > 1:
                rows.append(row)
    except ValueError as error:
        raise UsageError(str(error)) from None
    columns = ["prompts", "drop"] if n is not None else ["drop", "prompts"]
    if beyond:
        columns.append(f"{columns[-1]}, two models")
    print_table(["flip besides", *columns], rows)
    clusters = "one prompt a request" if design_effect == 1 else f"design effect {design_effect:g}"
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases; {clusters}. Besides flips what two runs of one model differ in."
    )
    if beyond:
        # What labels of both runs make of a difference, in place of the judge's error.
        answers = n or MOST_PROMPTS
        widths = []
        for labels in LABELS:
            if labels <= answers:
                half = judge_error.with_labels(
                    rate, answers, labels, prompts="harmful", confidence=0.95
                )
                widths.append(f"{labels} of each ±{sqrt(2) * half:.2f}")
        shown = f" and would give the difference: {', '.join(widths)}" if widths else ""
        say(
            f"Two models: more than the judge's error too, where the first refuses {rate:g} of harmful "
            f"prompts (--rate; none: no number of prompts shows it). Labels of both runs replace that "
            f"error (refract correct){shown}."
        )


# Whether on so many prompts a drop, with so many flips besides, is more than the judge's error.
Beyond = Callable[[int, float, float], bool]


def _drop_of_two(beyond: Beyond, n: int, churn: float, drop: float | None, rate: float) -> str:
    """The smallest drop of at least ``drop`` that is more than the judge's error."""
    least, most = drop or 0.0, rate - churn / 2
    if drop is None or most <= least or not beyond(n, most, churn):
        return "none"
    while most - least > 0.0005:
        middle = (least + most) / 2
        least, most = (least, middle) if beyond(n, middle, churn) else (middle, most)
    return f"{most:.3f}"


def _prompts_of_two(beyond: Beyond, least: int, churn: float, drop: float) -> int | None:
    """The number of prompts, at least ``least``, on which a drop is more than the
    judge's error."""
    if beyond(least, drop, churn):
        return least
    most = max(MOST_PROMPTS, least)
    if not beyond(most, drop, churn):
        return None
    while most - least > max(1, least // 100):
        middle = (least + most) // 2
        least, most = (least, middle) if beyond(middle, drop, churn) else (middle, most)
    return most


def default_judge_error() -> JudgeError:
    """What is known of the default judge's error."""
    version = Refusal("refusal", RefusalSettings(redirection="refusal")).version
    error = known_errors({"refusal": {"kind": "refusal", "version": version}}, [])
    if not error:
        raise UsageError("the ledger does not have the default judge; take --interval prompts")
    return error["refusal"]
