"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

from collections import Counter
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
from refract.core.errors import RefractError
from refract.core.jsonl import write_bytes
from refract.core.showing import printable, say

if TYPE_CHECKING:
    from refract.export.junit import JUnitCase
    from refract.rates.rate import Rate

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
    from refract.core.params import decision_settings
    from refract.evaluate.deciding import decided_rates, explained, fails
    from refract.export.junit import JUnitCase, junit_xml
    from refract.project import project_root
    from refract.rates.thresholds import owed_to_max_unjudged

    keep_inputs({"--junit": junit}, PIPELINE)
    try:
        root = project_root()
        settings = decided_by(
            decision_settings(root), confidence, interval=interval, estimand=estimand
        )
        options = {"--confidence": confidence, "--interval": interval, "--estimand": estimand}
        named = [name for name, value in options.items() if value]
        rates = decided_rates(root, models or (), settings, named)
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


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    from refract.evaluate.deciding import explained, fails
    from refract.export.junit import JUnitCase

    case = JUnitCase(rate.model, f"{rate.model}.{rate.suite}", rate.name)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")
