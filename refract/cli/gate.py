"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

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
    from refract.rates.rate import Interval, Rate

FailOn = Literal["regression", "inconclusive"]
# Suite, class and name of a case of JUnit XML; failure, skipped or error (empty: passed); and why.
JUnitCase = tuple[str, str, str, str, str]


def gate(
    models: Annotated[list[str] | None, typer.Argument()] = None,
    junit: Path | None = None,
    confidence: Confidence = None,
    interval: IntervalOf = None,
    estimand: EstimandOf = None,
    fail_on: FailOn = "inconclusive",
) -> None:
    """Whether every threshold is met, missed, or neither is shown, by intervals and bounds.

    Example: refract gate --junit gate.xml

    Args:
        models: Models of the grid; default: all.
        junit: Also write JUnit XML here.
        fail_on: Exit with 1: inconclusive, unless every threshold is shown to be met; regression, if
          one is shown to be missed, or unjudged answers keep it from being met.
    """
    keep_inputs({"--junit": junit}, PIPELINE)
    try:
        rates = decided_rates(models or (), confidence, interval, estimand)
    except (RefractError, OSError) as error:
        # Continuous integration shows this file; without one it would show the last run's, or nothing.
        if junit is not None:
            case = "refract gate", "refract", "gate", "error", printable(str(error))
            write_bytes(junit, [junit_xml([case])])
        raise
    from refract.rates.thresholds import owed_to_max_unjudged

    titles = {"missed": "FAIL", "met": "MET by judged answers alone"}
    for rate in rates:
        if rate.decision != "met" or owed_to_max_unjudged(rate):
            where = f"{rate.model} {rate.suite} {rate.measure}"
            say(f"{titles.get(str(rate.decision), 'INCONCLUSIVE')} {where}: {explained(rate)}")
    counts = Counter(rate.decision for rate in rates)
    others = "".join(f", {counts[x]} {x}" for x in ("missed", "inconclusive") if counts[x])
    say(f"{counts['met']} of {len(rates)} thresholds met{others}")
    if junit is not None:
        write_bytes(junit, [junit_xml([junit_case(rate, fail_on) for rate in rates])])
    raise typer.Exit(int(any(fails(rate, fail_on) for rate in rates)))


def decided_rates(
    models: Sequence[str], confidence: str | None, interval: str | None, estimand: str | None = None
) -> list[Rate]:
    """Every rate with a threshold of some models of the grid (none: all), as ``metrics/`` has them or,
    with one of the options, as the answers in ``data/`` give them. Raises
    :class:`RefractError` for numbers of other params, :class:`UsageError`."""
    from refract.agreement.stored import stored_suites
    from refract.core.params import decision_settings, grid
    from refract.project import project_root, read_project
    from refract.results.current import current_note, rows_missing, rows_note
    from refract.results.sources import read_side

    root = project_root()
    params = read_project(root).params
    known = grid(params, "models")
    if strange := sorted(set(models) - set(known)):
        raise UsageError(f"no model {', '.join(strange)} in the grid; it has {', '.join(known)}")
    side = read_side(root, models or known)
    if side.reasons:
        raise RefractError(f"not decided: {current_note(side.reasons)}")
    provenance = {model: result.provenance or {} for model, result in side.results.items()}
    rates = [rate for result in side.results.values() for rate in result.rates]
    made_with = decision_settings(root)
    settings = decided_by(made_with, confidence, interval, estimand)
    if settings != made_with or confidence:
        if missing := rows_missing(root, provenance):
            said = {"--confidence": confidence, "--interval": interval, "--estimand": estimand}
            why = f"{', '.join(name for name in said if said[name])} decides again from data/"
            raise UsageError(f"{why}: {rows_note(missing)}")
        stored = (one for x in provenance for one in stored_suites(root, params, x, settings))
        rates = [rate for suite in stored for rate in suite.table]
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
    from refract.rates.thresholds import hidden_by_unjudged

    counts, threshold = rate.counts, rate.threshold
    assert threshold is not None  # it was decided
    unjudged = ""
    if counts.unjudged:
        ends = (rate.with_judge or rate).outer or rate.bounds
        could_be = f", with which the rate could be{_ends(ends)}" if ends else ""
        unjudged = f"; {counts.unjudged} answers not judged{could_be}"
    if rate.value is None:
        return f"could not be measured, should be {threshold}{unjudged}"
    text = f"{rate.value:.4f}{_ends(rate.shown)}, should be {threshold}"
    if rate.decision == "missed":
        return f"{text} (off by {abs(rate.value - threshold.limit):.4f}){unjudged}"
    if rate.decision == "met":
        return f"{text}; max_unjudged decides without what was not judged{unjudged}"
    why = "too few prompts: the interval holds the limit"
    if hidden_by_unjudged(rate):
        why = "unjudged answers could miss it"
    elif rate.with_judge and threshold.decide(rate.interval) != "inconclusive":
        why = f"the judge's error could move it: of the prompts alone it is{_ends(rate.interval)}"
    elif rate.interval is None:
        why = "no interval"
    return f"{text}; {why}{unjudged}"


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f" [{interval.low:.4f}, {interval.high:.4f}]"


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    kind, why = "", ""
    if rate.decision != "met":
        kind = "failure" if fails(rate, fail_on) else "skipped"
        why = f"{rate.decision}: {explained(rate)}"
    return rate.model, f"{rate.model}.{rate.suite}", rate.measure, kind, why


def junit_xml(cases: Sequence[JUnitCase]) -> bytes:
    """Cases as JUnit XML, by suite."""

    def header(name: str, members: Sequence[JUnitCase]) -> dict[str, str]:
        kinds = [kind for *_, kind, _ in members]
        counts = {f"{kind}s": kinds.count(kind) for kind in ("failure", "error")}
        counts = {"tests": len(members), **counts, "skipped": kinds.count("skipped")}
        return {"name": name, **{key: str(count) for key, count in counts.items()}}

    root = ElementTree.Element("testsuites", header("refract gate", cases))
    for name, of_suite in itertools.groupby(cases, lambda case: case[0]):
        suite = ElementTree.SubElement(root, "testsuite", header(name, members := [*of_suite]))
        for _, classname, measure, kind, why in members:
            case = ElementTree.SubElement(suite, "testcase", classname=classname, name=measure)
            if kind:
                ElementTree.SubElement(case, kind, message=why)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
