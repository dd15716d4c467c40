"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

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
from refract.export.junit import JUnitCase, junit_case, junit_xml
from refract.project import project_root, read_project
from refract.project.inputs import changed_files
from refract.rates.rate import Rate
from refract.rates.thresholds import FailOn, explained, fails
from refract.results.current import current_note, rows_missing, rows_note
from refract.results.sources import read_side
from refract.results.stored import stored_suites


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
            case = JUnitCase("refract", "gate", kind="error", message=printable(str(error)))
            write_bytes(junit, [junit_xml([case])])
        raise
    for rate in rates:
        if rate.decision != "met":
            title = "FAIL" if rate.decision == "missed" else "INCONCLUSIVE"
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
