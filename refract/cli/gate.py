"""``refract gate``: thresholds as an exit code, and as JUnit XML for continuous integration."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

from refract.cli.options import Confidence
from refract.cli.output import or_standard_output
from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import printable, say
from refract.core.vocabulary import EXCLUDED
from refract.statistics.proportions import wilson

if TYPE_CHECKING:
    from refract.results.tables import Table

Decision = Literal["met", "missed", "inconclusive"]
Limits = tuple[float, float]


class Check(NamedTuple):
    """One threshold of one model and suite, the rate, and what can be said of the two.

    ``interval`` is the rate's; ``bounds`` what it could be were the ``unjudged`` answers judged,
    ``outer`` the same with sampling error. None where they are not known.
    """

    model: str
    suite: str
    measure: str
    rate: float | None
    threshold: str
    decision: Decision
    interval: Limits | None = None
    bounds: Limits | None = None
    outer: Limits | None = None
    successes: int | None = None
    n: int = 0
    unjudged: int = 0

    @property
    def limit(self) -> tuple[bool, float]:
        """Whether the rate should be at least its limit (else at most), and the limit."""
        sign, limit = self.threshold.split()
        return sign == ">=", float(limit)

    def holds(self, ends: Limits | None) -> bool:
        """Whether a whole interval is on the right side of the limit."""
        at_least, limit = self.limit
        return ends is not None and (ends[0] >= limit if at_least else ends[1] <= limit)

    @property
    def hidden(self) -> bool:
        """Whether unjudged answers alone keep the threshold from being met, or shown to be missed."""
        if self.decision != "inconclusive" or not self.unjudged:
            return False
        if self.rate is None or self.holds(self.interval):
            return True
        if self.holds((self.rate, self.rate)) and self.bounds and not self.holds(self.bounds):
            return True
        if self.successes is None:
            return False
        at_least, limit = self.limit
        total = self.n + self.unjudged
        worst = wilson(self.successes + (0 if at_least else self.unjudged), total)
        assert worst is not None  # some answers are unjudged
        return worst.high < limit if at_least else worst.low > limit

    def fails(self, fail_on: str) -> bool:
        """Whether the command fails by it."""
        if fail_on == "regression":
            return self.decision == "missed" or self.hidden
        return self.decision != "met"

    @property
    def found(self) -> str:
        """The rate against its limit, for people, and why it is not decided."""
        if self.rate is None:
            return f"could not be measured, should be {self.threshold}{self._unjudged}"
        text = f"{self.rate:.4f}{_shown(self.interval)}, should be {self.threshold}"
        if self.decision == "missed":
            return f"{text} (off by {abs(self.rate - self.limit[1]):.4f}){self._unjudged}"
        if self.decision == "met":
            return text
        why = "too few prompts: the interval holds the limit"
        if self.hidden:
            why = "unjudged answers could miss it"
        elif self.interval is None:
            why = "no interval"
        return f"{text}; {why}{self._unjudged}"

    @property
    def _unjudged(self) -> str:
        if not self.unjudged:
            return ""
        ends = self.outer or self.bounds
        return f"; {self.unjudged} answers not judged" + (
            f", with which the rate could be{_shown(ends)}" if ends else ""
        )


def _shown(ends: Limits | None) -> str:
    return "" if ends is None else f" [{ends[0]:.4f}, {ends[1]:.4f}]"


def read_checks(root: Path, models: Sequence[str], confidence: float | None = None) -> list[Check]:
    """Every threshold of some models: as the tables in ``metrics/`` decide it, or, at another
    ``confidence``, as the answers and verdicts in ``data/`` do."""
    if confidence is None:
        from refract.results.tables import read_results

        tables, _ = read_results(root, models)
    else:
        from refract.core.params import load_params

        params = load_params(root / "params.yaml")
        tables = {model: _table_at(root, params, model, confidence) for model in models}
    return [
        table_check(model, row) for model, table in tables.items() for row in table if row["passed"]
    ]


def _table_at(root: Path, params: Mapping[str, Any], model: str, confidence: float) -> Table:
    from refract.agreement.stored import stored_suites
    from refract.results.current import rows_missing, rows_note
    from refract.results.tables import as_table, read_results

    _, provenance = read_results(root, [model])
    if missing := rows_missing(root, provenance):
        raise UsageError(
            f"--confidence computes the intervals again from data/: {rows_note(missing)}"
        )
    try:
        rows = [row for one in stored_suites(root, params, model, confidence) for row in one.table]
    except FileNotFoundError as error:
        raise UsageError(
            f"--confidence computes the intervals again from data/, which lacks {error.filename}; run: "
            "dvc repro (or dvc pull)"
        ) from error
    return as_table(rows)


def table_check(model: str, row: Mapping[str, str]) -> Check:
    """The threshold of a table row; without its decision, whether it passed decides."""

    def ends(low: str, high: str) -> Limits | None:
        held = row.get(low), row.get(high)
        return (float(held[0]), float(held[1])) if held[0] and held[1] else None

    rate = float(row["rate"]) if row["rate"] else None
    decision = row.get("decision") or ("met" if row["passed"] == "1" else "missed")
    if rate is None:
        decision = "inconclusive"
    return Check(
        model,
        row["suite"],
        row["measure"],
        rate,
        row["threshold"],
        cast(Decision, decision),
        ends("low", "high"),
        ends("bound_low", "bound_high"),
        ends("outer_low", "outer_high"),
        int(row["successes"]) if row.get("successes", "").isdigit() else None,
        int(row.get("n") or 0),
        sum(int(row.get(f"excluded_{label}") or 0) for label in EXCLUDED),
    )


def gate(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of the grid; default: all.")
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            help="Also write JUnit XML here; - is standard output.", callback=or_standard_output
        ),
    ] = None,
    confidence: Confidence = None,
    fail_on: Annotated[
        Literal["regression", "inconclusive"],
        typer.Option(
            help="Exit with 1: inconclusive, unless every threshold is shown to be met; regression, "
            "if one is shown to be missed, or unjudged answers keep it from being met."
        ),
    ] = "inconclusive",
) -> None:
    """Whether every threshold is met, missed, or neither is shown, by intervals and bounds.

    Example: refract gate --junit gate.xml
    """
    try:
        checks = _checks(models, float(confidence) if confidence else None)
    except (RefractError, OSError) as error:
        # Continuous integration shows this file; without one it would show the last run's, or nothing.
        if junit is not None:
            write_bytes(junit, [junit_error(str(error))])
        raise
    failed = [check for check in checks if check.fails(fail_on)]
    for check in checks:
        if check.decision != "met":
            title = "FAIL" if check.decision == "missed" else "INCONCLUSIVE"
            say(f"{title} {check.model} {check.suite} {check.measure}: {check.found}")
    counts = Counter(check.decision for check in checks)
    others = "".join(
        f", {counts[kind]} {kind}" for kind in ("missed", "inconclusive") if counts[kind]
    )
    say(f"{counts['met']} of {len(checks)} thresholds met{others}")
    if junit is not None:
        write_bytes(junit, [junit_xml(checks, fail_on)])
    raise typer.Exit(int(bool(failed)))


def _checks(models: Sequence[str] | None, confidence: float | None) -> list[Check]:
    """Every threshold of some models of the grid, at least one. Raises :class:`UsageError`."""
    from refract.core.params import grid
    from refract.project import project_root, read_project

    root = project_root()
    known = grid(read_project(root).params, "models")
    strange = sorted(set(models or ()) - set(known))
    if strange:
        raise UsageError(f"no model {', '.join(strange)} in the grid; it has {', '.join(known)}")
    checks = read_checks(root, models or known, confidence)
    if not checks:
        raise UsageError("no suite of the grid has thresholds; set them in params.yaml")
    return checks


def junit_xml(checks: Sequence[Check], fail_on: str = "inconclusive") -> bytes:
    """The checks as JUnit XML: one suite for each model, one case for each threshold.

    What is neither met nor fails is skipped.
    """

    def counts(held: Sequence[Check]) -> dict[str, str]:
        failures = sum(check.fails(fail_on) for check in held)
        skipped = sum(check.decision != "met" for check in held) - failures
        return {"tests": str(len(held)), "failures": str(failures), "skipped": str(skipped)}

    root = ElementTree.Element("testsuites", {"name": "refract gate", **counts(checks)})
    for model in dict.fromkeys(check.model for check in checks):
        own = [check for check in checks if check.model == model]
        suite = ElementTree.SubElement(root, "testsuite", {"name": model, **counts(own)})
        for check in own:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"{model}.{check.suite}", name=check.measure
            )
            if check.decision != "met":
                kind = "failure" if check.fails(fail_on) else "skipped"
                message = f"{check.decision}: {check.found}"
                ElementTree.SubElement(case, kind, message=message)
    return _xml(root)


def junit_error(message: str) -> bytes:
    """JUnit XML of a gate that could not decide anything: one case, in error."""
    counts = {"tests": "1", "errors": "1", "failures": "0", "skipped": "0"}
    root = ElementTree.Element("testsuites", {"name": "refract gate", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "refract gate", **counts})
    case = ElementTree.SubElement(suite, "testcase", classname="refract", name="gate")
    ElementTree.SubElement(case, "error", message=printable(message))
    return _xml(root)


def _xml(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
