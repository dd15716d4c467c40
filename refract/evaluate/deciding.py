"""Which thresholds are met, missed, or neither, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from refract.core.errors import RefractError, UsageError
from refract.core.params import DecisionSettings, decision_settings, grid
from refract.core.showing import say
from refract.project import read_project
from refract.project.inputs import changed_files
from refract.rates.rate import Interval, Rate
from refract.rates.thresholds import hidden_by_unjudged
from refract.results.current import current_note, rows_missing, rows_note
from refract.results.sources import read_side
from refract.results.stored import stored_suites

FailOn = Literal["regression", "inconclusive"]


def decided_rates(
    root: Path, models: Sequence[str], settings: DecisionSettings, options: Sequence[str] = ()
) -> list[Rate]:
    """Every rate with a threshold of some models of the grid (none: all).

    They are read from ``metrics/``, or computed again from ``data/`` where
    ``settings`` are other ones than the project's, by the ``options`` of these names.
    Raises :class:`RefractError` for numbers of other params, :class:`UsageError`.
    """
    params = read_project(root).params
    known = grid(params, "models")
    strange = sorted(set(models) - set(known))
    if strange:
        raise UsageError(f"no model {', '.join(strange)} in the grid; it has {', '.join(known)}")
    side = read_side(root, models or known)
    for remark in side.remarks:
        say(f"note: {remark}", file=sys.stderr)
    reasons = [*side.reasons, *changed_files(params)]
    if reasons:
        raise RefractError(f"not decided: {current_note(reasons)}")
    rates: list[Rate] = []
    if settings == decision_settings(root) and "--confidence" not in options:
        for result in side.results.values():
            rates += result.rates
    else:
        provenance = {model: result.provenance or {} for model, result in side.results.items()}
        missing = rows_missing(root, provenance)
        if missing:
            names = ", ".join(options)
            raise UsageError(f"{names} decides again from data/: {rows_note(missing)}")
        for model in provenance:
            for suite in stored_suites(root, params, model, settings):
                rates += suite.numbers.rates
    decided = []
    for rate in rates:
        if rate.decision:
            # Limits of perturbations are on prompts like these in any case.
            limited = rate.key.perturbation
            decided.append(rate if limited else rate.asked(settings.estimand))
    if not decided:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    return decided


def fails(rate: Rate, fail_on: FailOn) -> bool:
    """Whether the command fails by a rate's threshold."""
    if fail_on == "regression":
        return rate.decision == "missed" or hidden_by_unjudged(rate)
    return rate.decision != "met"


def explained(rate: Rate) -> str:
    """The rate against its limit, for people, and why it is not decided."""
    threshold = rate.threshold
    assert threshold is not None  # it was decided
    unjudged = ""
    if rate.counts.unjudged:
        unjudged = f"; {rate.counts.unjudged} answers not judged"
        ends = (rate.with_judge or rate).outer or rate.bounds
        if ends:
            unjudged += f", with which the rate could be{_ends(ends)}"
    if rate.value is None:
        return f"could not be measured, should be {threshold}{unjudged}"
    text = f"{rate.value:.4f}{_ends(rate.shown)}, should be {threshold}"
    if rate.decision == "missed":
        return f"{text} (off by {abs(rate.value - threshold.limit):.4f}){unjudged}"
    if rate.decision == "met":
        return f"{text}; max_unjudged decides without what was not judged{unjudged}"
    return f"{text}; {_undecided_because(rate)}{unjudged}"


def _undecided_because(rate: Rate) -> str:
    if hidden_by_unjudged(rate):
        return "unjudged answers could miss it"
    alone = rate.threshold.decide(rate.interval) if rate.threshold else "inconclusive"
    if rate.with_judge and alone != "inconclusive":
        return f"the judge's error could move it: of the prompts alone it is{_ends(rate.interval)}"
    if rate.interval is None:
        unknown = "how far the judge is wrong there is not known"
        return unknown if rate.judge_unknown else "no interval"
    return "too few prompts: the interval holds the limit"


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval.low:.4f}, {interval.high:.4f}]"
