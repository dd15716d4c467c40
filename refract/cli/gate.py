"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from refract.cli.options import (
    PIPELINE,
    Confidence,
    EstimandOf,
    IntervalOf,
    decided_by,
    keep_inputs,
)
from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import printable, say

if TYPE_CHECKING:
    from refract.export.junit import JUnitCase
    from refract.rates.rate import Interval, Rate

FailOn = Literal["regression", "inconclusive"]


def gate(
    models: Annotated[list[str] | None, Argument(help="Models of the grid; default: all.")] = None,
    junit: Annotated[Path | None, Option(help="Also write JUnit XML here.")] = None,
    confidence: Confidence = None,
    interval: IntervalOf = None,
    estimand: EstimandOf = None,
    fail_on: Annotated[
        FailOn,
        Option(
            help="Exit with 1: inconclusive, unless every threshold is shown to be met; regression, if "
            "one is shown to be missed, or unjudged answers keep it from being met."
        ),
    ] = "inconclusive",
) -> None:
    """Whether every threshold is met, missed, or neither is shown, by intervals and bounds.

    Example: refract gate --junit gate.xml
    """
    from refract.export.junit import JUnitCase, junit_xml
    from refract.rates.thresholds import owed_to_max_unjudged

    keep_inputs({"--junit": junit}, PIPELINE)
    try:
        rates = decided_rates(models or (), confidence, interval, estimand)
    except (RefractError, OSError) as error:
        # Continuous integration shows this file; without one it would show the last run's, or nothing.
        if junit is not None:
            case = JUnitCase("refract gate", "refract", "gate", "error", printable(str(error)))
            write_bytes(junit, [junit_xml([case])])
        raise
    titles = {"missed": "FAIL", "met": "MET by judged answers alone"}
    for rate in rates:
        if rate.decision != "met" or owed_to_max_unjudged(rate):
            title = titles.get(str(rate.decision), "INCONCLUSIVE")
            say(f"{title} {rate.model} {rate.suite} {rate.measure}: {explained(rate)}")
    counts = Counter(rate.decision for rate in rates)
    summary = f"{counts['met']} of {len(rates)} thresholds met"
    for decision in ("missed", "inconclusive"):
        if counts[decision]:
            summary += f", {counts[decision]} {decision}"
    say(summary)
    if junit is not None:
        write_bytes(junit, [junit_xml([junit_case(rate, fail_on) for rate in rates])])
    raise typer.Exit(int(any(fails(rate, fail_on) for rate in rates)))


def decided_rates(
    models: Sequence[str], confidence: str | None, interval: str | None, estimand: str | None = None
) -> list[Rate]:
    """Every rate with a threshold of some models of the grid (none: all).

    They are read from ``metrics/`` or, with one of the options, computed again from ``data/``. Raises
    :class:`RefractError` for numbers of other params, :class:`UsageError`.
    """
    from refract.agreement.stored import stored_suites
    from refract.core.params import decision_settings, grid
    from refract.project import project_root, read_project
    from refract.results.current import current_note, rows_missing, rows_note
    from refract.results.sources import read_side

    root = project_root()
    params = read_project(root).params
    known = grid(params, "models")
    strange = sorted(set(models) - set(known))
    if strange:
        raise UsageError(f"no model {', '.join(strange)} in the grid; it has {', '.join(known)}")
    side = read_side(root, models or known)
    if side.reasons:
        raise RefractError(f"not decided: {current_note(side.reasons)}")
    usual = decision_settings(root)
    settings = decided_by(usual, confidence, interval, estimand)
    rates: list[Rate] = []
    if settings == usual and not confidence:
        for result in side.results.values():
            rates += result.rates
    else:
        provenance = {model: result.provenance or {} for model, result in side.results.items()}
        missing = rows_missing(root, provenance)
        if missing:
            options = {"--confidence": confidence, "--interval": interval, "--estimand": estimand}
            names = ", ".join(name for name, value in options.items() if value)
            raise UsageError(f"{names} decides again from data/: {rows_note(missing)}")
        for model in provenance:
            for suite in stored_suites(root, params, model, settings):
                rates += suite.table
    decided = [rate.asked(settings.estimand) for rate in rates if rate.decision]
    if not decided:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    return decided


def fails(rate: Rate, fail_on: FailOn) -> bool:
    """Whether the command fails by a rate's threshold."""
    from refract.rates.thresholds import hidden_by_unjudged

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
    from refract.rates.thresholds import hidden_by_unjudged

    if hidden_by_unjudged(rate):
        return "unjudged answers could miss it"
    alone = rate.threshold.decide(rate.interval) if rate.threshold else "inconclusive"
    if rate.with_judge and alone != "inconclusive":
        return f"the judge's error could move it: of the prompts alone it is{_ends(rate.interval)}"
    if rate.interval is None:
        return "no interval"
    return "too few prompts: the interval holds the limit"


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval.low:.4f}, {interval.high:.4f}]"


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    from refract.export.junit import JUnitCase

    case = JUnitCase(rate.model, f"{rate.model}.{rate.suite}", rate.measure)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")
