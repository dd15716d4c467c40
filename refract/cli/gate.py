"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

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
from refract.core.params import decision_settings, grid
from refract.core.showing import printable, say
from refract.export.junit import JUnitCase, junit_xml
from refract.project import project_root, read_project
from refract.project.inputs import changed_files
from refract.rates.rate import Interval, Rate
from refract.rates.thresholds import hidden_by_unjudged, owed_to_max_unjudged
from refract.results.current import current_note, rows_missing, rows_note
from refract.results.sources import read_side
from refract.results.stored import stored_suites

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
    keep_inputs({"--junit": junit}, PIPELINE)
    options = {"confidence": confidence, "interval": interval, "estimand": estimand}
    try:
        rates = decided_rates(models or (), options)
    except (RefractError, OSError) as error:
        # Continuous integration shows this file; without one it would show the last run's, or nothing.
        if junit is not None:
            case = JUnitCase(
                "refract gate", "refract", "gate", kind="error", message=printable(str(error))
            )
            write_bytes(junit, [junit_xml([case])])
        raise
    titles = {"missed": "FAIL", "met": "MET by judged answers alone"}
    for rate in rates:
        if rate.decision != "met" or owed_to_max_unjudged(rate):
            title = titles.get(str(rate.decision), "INCONCLUSIVE")
            say(f"{title} {rate.model} {rate.suite} {rate.name}: {explained(rate)}")
    counts = Counter(rate.decision for rate in rates)
    summary = f"{counts['met']} of {len(rates)} thresholds met"
    for decision in ("missed", "inconclusive"):
        if counts[decision]:
            summary += f", {counts[decision]} {decision}"
    say(summary)
    if junit is not None:
        write_bytes(junit, [junit_xml([junit_case(rate, fail_on) for rate in rates])])
    raise typer.Exit(int(any(fails(rate, fail_on) for rate in rates)))


def decided_rates(models: Sequence[str], options: Mapping[str, str | None]) -> list[Rate]:
    """Every rate with a threshold of some models of the grid (none: all).

    They are read from ``metrics/``, or computed again from ``data/`` where ``options`` ask for other
    intervals than the project's. Raises :class:`RefractError` for numbers of other params.
    """
    root = project_root()
    params = read_project(root).params
    known = grid(params, "models")
    unknown = sorted(set(models) - set(known))
    if unknown:
        raise UsageError(f"no model {', '.join(unknown)} in the grid; it has {', '.join(known)}")
    side = read_side(root, models or known)
    for remark in side.remarks:
        say(f"note: {remark}", file=sys.stderr)
    reasons = [*side.reasons, *changed_files(params)]
    if reasons:
        raise RefractError(f"not decided: {current_note(reasons)}")
    own = decision_settings(root)
    settings = decided_by(own, **options)
    rates: list[Rate] = []
    if settings == own and not options["confidence"]:
        for result in side.results.values():
            rates += result.rates
    else:
        provenance = {model: result.provenance or {} for model, result in side.results.items()}
        missing = rows_missing(root, provenance)
        if missing:
            names = ", ".join(f"--{name}" for name, value in options.items() if value)
            raise UsageError(f"{names} decides again from data/: {rows_note(missing)}")
        for model in provenance:
            for suite in stored_suites(root, params, model, settings=settings):
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
        text += f" (off by {abs(rate.value - threshold.limit):.4f})"
    elif rate.decision == "met":
        text += "; max_unjudged decides without what was not judged"
    elif hidden_by_unjudged(rate):
        text += "; unjudged answers could miss it"
    elif rate.with_judge and threshold.decide(rate.interval) != "inconclusive":
        alone = _ends(rate.interval)
        text += f"; the judge's error could move it: of the prompts alone it is{alone}"
    elif rate.interval is not None:
        text += "; too few prompts: the interval holds the limit"
    elif rate.judge_unknown:
        text += "; how far the judge is wrong there is not known"
    else:
        text += "; no interval"
    return text + unjudged


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval.low:.4f}, {interval.high:.4f}]"


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    case = JUnitCase(rate.model, f"{rate.model}.{rate.suite}", rate.name)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")
