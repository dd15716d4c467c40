"""Decisions on thresholds as JUnit XML, for continuous integration."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import NamedTuple

from refract.rates.rate import Rate
from refract.rates.thresholds import FailOn, explained, fails


class JUnitCase(NamedTuple):
    """One case; ``kind`` is failure, skipped, error or "" (passed), ``message`` says why."""

    classname: str
    name: str
    kind: str = ""
    message: str = ""


def junit_case(rate: Rate, fail_on: FailOn) -> JUnitCase:
    """The decision on one threshold. What is neither met nor fails is skipped."""
    case = JUnitCase(f"{rate.model}.{rate.suite}", rate.name)
    if rate.decision == "met":
        return case
    kind = "failure" if fails(rate, fail_on) else "skipped"
    return case._replace(kind=kind, message=f"{rate.decision}: {explained(rate)}")


def junit_xml(cases: Sequence[JUnitCase]) -> bytes:
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
