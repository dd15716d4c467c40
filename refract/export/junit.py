"""Decisions as JUnit XML, for continuous integration."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import NamedTuple


class JUnitCase(NamedTuple):
    """One case; ``kind`` is failure, skipped, error or "" (passed), ``message`` says why."""

    suite: str
    classname: str
    name: str
    kind: str = ""
    message: str = ""


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
