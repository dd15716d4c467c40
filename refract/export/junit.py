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
    rates = [rate for result in side.results.values() for rate in result.rates if rate.decision]
    cases = [junit_case(rate, fail_on) for rate in rates if export.wants(rate.model, rate.suite)]
    path = export.out / "junit.xml"
    write_bytes(path, [junit_xml(cases)])
    yield f"{path}: {len(cases)} thresholds"


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    case = JUnitCase(f"{rate.model}.{rate.suite}", rate.name)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")


def junit_xml(cases: Sequence[JUnitCase]) -> bytes:
    """Cases as JUnit XML."""
    kinds = [case.kind for case in cases]
    header = {
        "name": "refract gate",
        "tests": str(len(cases)),
        "skipped": str(kinds.count("skipped")),
    }
    header |= {f"{kind}s": str(kinds.count(kind)) for kind in ("failure", "error")}
    root = ElementTree.Element("testsuites", header)
    suite = ElementTree.SubElement(root, "testsuite", header)
    for case in cases:
        attributes = {"classname": case.classname, "name": case.name}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if case.kind:
            ElementTree.SubElement(element, case.kind, message=case.message)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
