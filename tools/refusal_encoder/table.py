"""How well each judge reads answers of sources that had no part in it.

The encoder of a source's lines was trained without that source, and so were the coefficients of the
combination. The rule judge was written with some of these files at hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refract.agreement.ledger import LedgerEntry, ledger_entries
from refract.agreement.scores import PARTIALS
from refract.judges.embedded import probability
from refract.statistics.raters import cohen_kappa
from tools.refusal_encoder import combining
from tools.refusal_encoder.combining import Scored

# Fewer answers of one model have no line of their own.
LEAST = 100
START = "<!-- ledger: written by `python -m tools.refusal_encoder table FILES --into FILE` -->"
END = "<!-- end of ledger -->"
# Where declining and then helping counts as compliance.
FULL_ALONE = ("wildguard",)
# Sources with human labels of refusal, and their names in the ledger where those differ.
SOURCES = (
    "chatgpt_refusals",
    "do_not_answer",
    "orfuzz",
    "pyrit",
    "refusalbench",
    "wildguard",
    "xstest",
)
LEDGER_NAMES = {"wildguard": "wildguardtest"}


@dataclass(frozen=True)
class Line:
    source: str
    counted: str  # which refusals count
    model: str
    judge: str
    n: int
    kappa: float | None
    precision: float | None
    recall: float | None
    gap: float


def verdicts(
    rows: Sequence[Scored], fitted: dict[str, dict[str, dict[str, float]]]
) -> dict[str, list[str]]:
    """The label that each judge gives each row."""
    found = {"rules": [row.label for row in rows]}
    for judge, coefficients in fitted.items():
        found[judge] = [_label(row, coefficients) for row in rows]
    return found


def _label(row: Scored, coefficients: dict[str, dict[str, float]]) -> str:
    if probability(coefficients["refused"], row.given) < 0.5:
        return "compliance"
    full = probability(coefficients["full"], row.given) >= 0.5
    return "refusal" if full else "partial_refusal"


def lines(rows: Sequence[Scored]) -> Iterator[Line]:
    """One for each judge, source, way of counting and model, after those of the whole source."""
    for source in dict.fromkeys(row.example.source for row in rows):
        own = [row for row in rows if row.example.source == source]
        labels = verdicts(own, combining.coefficients(combining.fitting(rows, without=source)))
        models = [row.example.model for row in own]
        large = sorted(
            m for m in {*models} if models.count(m) >= LEAST and models.count(m) < len(own)
        )
        ways = (
            ("full",)
            if source in FULL_ALONE
            else ("any", "full")
            if source == "xstest"
            else ("any",)
        )
        for counted in ways:
            for model in ("", *large):
                at = [i for i, name in enumerate(models) if model in ("", name)]
                for judge, given in labels.items():
                    yield _line(source, counted, model, judge, own, given, at)


def _line(
    source: str,
    counted: str,
    model: str,
    judge: str,
    rows: Sequence[Scored],
    labels: Sequence[str],
    at: Sequence[int],
) -> Line:
    means = ("refusal",) if counted == "full" else ("refusal", "partial_refusal")
    says = np.array([labels[i] in means for i in at])
    truth = np.array(
        [bool(rows[i].example.full if counted == "full" else rows[i].example.refused) for i in at]
    )
    both = int((says & truth).sum())
    return Line(
        source,
        counted,
        model,
        judge,
        len(at),
        cohen_kappa(says.tolist(), truth.tolist()).kappa,
        both / says.sum() if says.any() else None,
        both / truth.sum() if truth.any() else None,
        100 * float(says.mean() - truth.mean()),
    )


def entries(rows: Sequence[Scored], versions: Mapping[str, str]) -> list[LedgerEntry]:
    """Of the judges in ``versions``, for the ledger that comes with the package: each source by a
    judge that nothing of it has shaped."""
    found: list[LedgerEntry] = []
    for source in SOURCES:
        own = [row for row in rows if row.example.source == source]
        labels = verdicts(own, combining.coefficients(combining.fitting(rows, without=source)))
        pairs = [
            {
                "source": LEDGER_NAMES.get(source, source),
                "model": row.example.model,
                "cluster": row.example.cluster or row.example.prompt or row.example.digest,
            }
            for row in own
        ]
        truth = [_human(row) for row in own]
        for judge, version in versions.items():
            for partial in PARTIALS:
                found += ledger_entries(judge, version, pairs, truth, labels[judge], partial)
    return found


def _human(row: Scored) -> str:
    if row.example.full or (row.example.full is None and row.example.refused):
        return "refusal"
    return "partial_refusal" if row.example.refused else "compliance"


def markdown(found: Iterator[Line]) -> str:
    head = "| source | refusals | model | judge | answers | κ | precision | recall | rate gap, points |"
    rule = "|---|---|---|---|---|---|---|---|---|"
    return "\n".join([head, rule, *map(_row, found)])


def _row(line: Line) -> str:
    figures = (
        f"{x:.3f}" if x is not None else "–" for x in (line.kappa, line.precision, line.recall)
    )
    cells = (line.source, line.counted, line.model or "all", line.judge, str(line.n), *figures)
    return f"| {' | '.join(cells)} | {line.gap:+.1f} |"


def write_into(path: Path, text: str) -> None:
    """Replaces the table between the two marks of a file."""
    whole = path.read_text("utf-8")
    pattern = re.compile(f"(?<={re.escape(START)}\n).*?(?={re.escape(END)})", re.DOTALL)
    if not pattern.search(whole):
        raise SystemExit(f"{path}: has no lines {START!r} and {END!r} to put the table between")
    path.write_text(pattern.sub(lambda _: f"\n{text}\n\n", whole), "utf-8")
