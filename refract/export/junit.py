"""Decisions on thresholds as JUnit XML, for continuous integration."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.core.errors import RefractError
from refract.core.jsonl import write_bytes
from refract.core.settings import Settings
from refract.export import Export
from refract.rates.rate import Rate
from refract.rates.thresholds import FailOn, explained, fails
from refract.results.current import current_note
from refract.results.sources import find_side


class JUnitCase(NamedTuple):
    """One case; ``kind`` is failure, skipped, error or "" (passed), ``message`` says why."""

    suite: str
    classname: str
    name: str
    kind: str = ""
    message: str = ""


class JUnitSettings(Settings):
    """What counts as a failure."""

    fail_on: FailOn = "inconclusive"


def write_junit(export: Export) -> Iterator[str]:
    """A case for each threshold, as the results have decided it. Raises
    :class:`RefractError` for numbers of other params."""
    fail_on = export.settings(JUnitSettings).fail_on
    side = find_side(Path.cwd(), export.source)
    if side.reasons:
        raise RefractError(f"not decided: {current_note(side.reasons)}")
    cases = []
    for result in side.results.values():
        for rate in result.rates:
            wanted = not export.models or rate.model in export.models
            wanted &= not export.suites or rate.suite in export.suites
            if rate.decision and wanted:
                cases.append(junit_case(rate, fail_on))
    path = export.out / "junit.xml"
    write_bytes(path, [junit_xml(cases)])
    yield f"{path}: {len(cases)} thresholds"


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    case = JUnitCase(rate.model, f"{rate.model}.{rate.suite}", rate.name)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")


def junit_xml(cases: Sequence[JUnitCase]) -> bytes:
    """Cases as JUnit XML, by suite."""
    root = ElementTree.Element("testsuites", _header("refract gate", cases))
    suites: dict[str, list[JUnitCase]] = {}
    for case in cases:
        suites.setdefault(case.suite, []).append(case)
    for name, members in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", _header(name, members))
        for member in members:
            attributes = {"classname": member.classname, "name": member.name}
            element = ElementTree.SubElement(suite, "testcase", attributes)
            if member.kind:
                ElementTree.SubElement(element, member.kind, message=member.message)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _header(name: str, cases: Sequence[JUnitCase]) -> dict[str, str]:
    kinds = [case.kind for case in cases]
    return {
        "name": name,
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
    }
