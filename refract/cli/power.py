"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

import re
from math import ceil, floor
from pathlib import Path
from typing import Annotated

from typer import Option

from refract.agreement.unseen_models import known_errors
from refract.cli.printing import print_table
from refract.core.decimals import interval_text
from refract.core.errors import UsageError
from refract.core.params import decision_settings
from refract.core.showing import say
from refract.judges import open_judge
from refract.rates.judge_error import JUDGE_NOTE, JUDGE_UNKNOWN, JudgeError
from refract.rates.key import CATEGORY_MEASURES, Measure
from refract.rates.rate import Prompts, Threshold, prompts_of
from refract.rates.undecided import deciding_labels, deciding_rates, judged_part
from refract.report.wording import percent
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop

# Shares of prompts that flip besides a drop, where --discordant is left out.
CHURN = (0.0, 0.1, 0.2, 0.3)
# A rate is looked for among so many at most.
MOST_PROMPTS = 1_000_000


def power(
    difference: Annotated[
        float | None, Option(help="The drop to be shown, as a difference of rates: 0.05.")
    ] = None,
    n: Annotated[int | None, Option("--n", min=1, help="The number of prompts there are.")] = None,
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
            min=1,
            help="By how much variants of one request widen the interval, as `refract compare` prints "
            "it; 1: one prompt a request.",
        ),
    ] = 1.0,
    power_: Annotated[float, Option("--power", help="Chance to show the drop.")] = 0.8,
    alpha: Annotated[
        float, Option(help="Chance to show one that is not there (one-sided).")
    ] = 0.05,
    threshold: Annotated[
        str | None,
        Option(help="With --n: a limit of a refusal rate, 'harmful_refusal_rate >= 0.8'."),
    ] = None,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n).

    Of two runs on the same prompts, by McNemar's one-sided exact test. Two models are told apart by
    more than that: `refract compare` allows for the judge's error too. With --threshold: which rates
    by the default judge would decide it on n prompts, and what labels would.

    Example: refract power --difference 0.05
    """
    if threshold is not None:
        if n is None or difference is not None:
            raise UsageError(
                "--threshold goes with --n, the number of prompts, and no --difference"
            )
        settings = decision_settings(Path.cwd())
        alone = bool(settings.labels_ask) or settings.interval == "prompts"
        _print_threshold(threshold, n, design_effect, settings.confidence, alone=alone)
        return
    if (difference is None) == (n is None):
        raise UsageError("give --difference or --n: the one says how large the other must be")
    _check_shares(difference, discordant)
    rows = []
    try:
        for churn in CHURN if discordant is None else (discordant,):
            flips = f"{100 * churn:g} %"
            if n is not None:
                requests = max(1, round(n / design_effect))
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


def _check_shares(difference: float | None, discordant: float | None) -> None:
    """Raises UsageError for shares that no prompts can have."""
    if difference is not None and not 0 < abs(difference) <= 1:
        raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
    if discordant is None:
        return
    if not 0 <= discordant <= 1:
        raise UsageError(f"--discordant must be from 0 to 1 (got {discordant})")
    if difference is not None and abs(difference) + discordant > 1:
        raise UsageError(
            "--difference and --discordant are shares of the same prompts, so that they add up to at "
            f"most 1 (got {difference} and {discordant}): beside this difference --discordant may be "
            f"at most {floor((1 - abs(difference)) * 1000) / 1000:g}"
        )


def _read_threshold(text: str, n: int, design_effect: float) -> tuple[Measure, str, str]:
    """Measure, sign and limit of a threshold. Raises UsageError."""
    parts = re.fullmatch(r"\s*(\w+)\s*(>=|<=)\s*(1(?:\.0+)?|0?\.\d+|0)\s*", text)
    measures = {measure.name: measure for measure in CATEGORY_MEASURES.values()}
    if parts is None or parts[1] not in measures or not 1 <= n / design_effect <= MOST_PROMPTS:
        raise UsageError(
            f"--threshold must be one of {', '.join(measures)}, then >= or <= and a share, as in "
            f"'harmful_refusal_rate >= 0.8', and --n from 1 to {MOST_PROMPTS} (got {text!r}, {n})"
        )
    return measures[parts[1]], parts[2], parts[3]


def _default_judge_error(prompts: Prompts) -> JudgeError | None:
    """What is known of the error of the judge ``refusal`` on prompts of a kind; None where that is
    nothing of its version."""
    version = open_judge("refusal", {"kind": "refusal"}).version
    definition = {"kind": "refusal", "version": version}
    error = known_errors({"refusal": definition}, []).get("refusal")
    return error if error and error.knows(prompts) else None


def _print_threshold(
    text: str, n: int, design_effect: float, confidence: float, *, alone: bool
) -> None:
    """Which rates by the judge are met, missed or left open, and how many labels decide those;
    ``alone``: the project's intervals leave the judge's error out. Raises UsageError."""
    measure, sign, limit = _read_threshold(text, n, design_effect)
    threshold = Threshold("min" if sign == ">=" else "max", float(limit))
    prompts = prompts_of([measure.category or ""])
    if alone:
        raise UsageError(
            f"--threshold {measure.name} is decided with the judge's error, which this project's "
            "intervals leave out (decisions.labels_ask or decisions.interval in params.yaml)"
        )
    error = _default_judge_error(prompts)
    requests = round(n / design_effect)
    rows = []
    for count in sorted({round(requests * tenth / 10) for tenth in range(11)}):
        part, ends = judged_part(count, requests, prompts, error, confidence)
        decision, needed = threshold.decide(ends), "none"
        if error and decision == "inconclusive":
            labels = deciding_labels(threshold, part, error, confidence)
            needed = "more than there are, or too close" if labels is None else f"about {labels}"
        row = [f"{part.share:.2f} {interval_text(ends, places=2)}", decision, needed]
        rows.append(row if error else row[:2])
    columns = ["rate by the judge", "decision"]
    columns += ["labels that most likely decide"] if error else []
    print_table(columns, rows)
    by_judge = []
    met, missed = deciding_rates(threshold, prompts, requests, error, confidence)
    for name, decisive in (("met", met), ("missed", missed)):
        way = ">=" if (name == "met") == (sign == ">=") else "<="
        at = "at no rate by the judge"
        if decisive is not None:
            at = f"at a rate by the judge {way} {decisive:.3f}"
        by_judge.append(f"{name} {at}")
    summary = f"On {n} prompts {measure.name} {sign} {limit} is {' and '.join(by_judge)}"
    if error is None:
        summary += f". Intervals are of the prompts alone: {JUDGE_UNKNOWN}"
    else:
        summary += "; labels count that are of such prompts, drawn from the run: refract label. "
        summary += JUDGE_NOTE
    say(f"{summary}. Confidence: {percent(confidence)}")
