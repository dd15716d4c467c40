"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from refract.errors import UsageError
from refract.rows.jsonl import write_bytes
from refract.rows.showing import say


class Check(NamedTuple):
    """One threshold of one model and suite: the rate, the limit, and whether it was met."""

    model: str
    suite: str
    measure: str
    rate: float | None
    threshold: str
    passed: bool

    @property
    def distance(self) -> str:
        """How far the rate is beyond its limit, for people."""
        if self.rate is None:
            return "could not be measured"
        beyond = abs(self.rate - float(self.threshold.split()[1]))
        return f"{self.rate:.4f}, should be {self.threshold} (off by {beyond:.4f})"


def read_checks(root: Path, models: Sequence[str]) -> list[Check]:
    """Every threshold in the tables of some models."""
    from refract.results.tables import read_results

    tables, _ = read_results(root, models)
    return [
        Check(
            model,
            row["suite"],
            row["measure"],
            float(row["rate"]) if row["rate"] else None,
            row["threshold"],
            row["passed"] == "1",
        )
        for model, table in tables.items()
        for row in table
        if row["passed"]
    ]


def gate(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of the grid; default: all.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML here.")] = None,
) -> None:
    """Exit with 1 unless every threshold is met, listing which are not and by how much.

    Example: refract gate --junit gate.xml
    """
    from refract.params import grid, load_params
    from refract.project import project_root

    root = project_root()
    known = grid(load_params(root / "params.yaml"), "models")
    strange = sorted(set(models or ()) - set(known))
    if strange:
        raise UsageError(f"no model {', '.join(strange)} in the grid; it has {', '.join(known)}")
    checks = read_checks(root, models or known)
    if not checks:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    failed = [check for check in checks if not check.passed]
    for check in failed:
        say(f"FAIL {check.model} {check.suite} {check.measure}: {check.distance}")
    say(f"{len(checks) - len(failed)} of {len(checks)} thresholds met")
    if junit is not None:
        write_bytes(junit, [junit_xml(checks)])
    raise typer.Exit(int(bool(failed)))


def junit_xml(checks: Sequence[Check]) -> bytes:
    """The checks as JUnit XML: one suite for each model, one case for each threshold."""
    failures = sum(not check.passed for check in checks)
    root = ElementTree.Element(
        "testsuites", name="refract gate", tests=str(len(checks)), failures=str(failures)
    )
    for model in dict.fromkeys(check.model for check in checks):
        own = [check for check in checks if check.model == model]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=model,
            tests=str(len(own)),
            failures=str(sum(not check.passed for check in own)),
        )
        for check in own:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{model}.{check.suite}", name=check.measure
            )
            if not check.passed:
                ElementTree.SubElement(case, "failure", message=check.distance)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
