"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.cli.options import (
    PIPELINE,
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
from refract.results.current import current_note
from refract.results.sources import read_side


def gate(
    models: Annotated[list[str] | None, Argument(help="Models of the grid; default: all.")] = None,
    junit: Annotated[Path | None, Option(help="Also write JUnit XML here.")] = None,
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
    try:
        rates = decided_rates(models or ())
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


def decided_rates(models: Sequence[str]) -> list[Rate]:
    """Every rate with a threshold of some models of the grid (none: all). Raises
    :class:`RefractError` for numbers of other params."""
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
    estimand = decision_settings(root).estimand
    decided = []
    for result in side.results.values():
        for rate in result.rates:
            if rate.decision:
                # Limits of perturbations are on prompts like these in any case.
                decided.append(rate if rate.key.perturbation else rate.asked(estimand))
    if not decided:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    return decided
