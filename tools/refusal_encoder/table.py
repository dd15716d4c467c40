"""How well each judge reads answers of sources that had no part in it.

A source that trains is read by the run that lacks it, one that does not by the mean that ships. Curves
are fitted on other sources. The rule judge was written with some
of these files at hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refract.agreement.ledger import LedgerEntry, ledger_entries
from refract.agreement.scores import PARTIALS
from refract.core.jsonl import read_rows, write_rows
from refract.judges.refusal import decided, overrule, probabilities
from refract.judges.refusal.encoder import Logits
from refract.statistics.raters import cohen_kappa
from tools.refusal_encoder import curves
from tools.refusal_encoder.data import Example, may_shape_weights

DIGITS = 4  # of logits
# Fewer answers of one model have no line of their own.
LEAST = 100
START = "<!-- ledger: written by `python -m tools.refusal_encoder table FILES --into FILE` -->"
END = "<!-- end of ledger -->"
# Which refusals count, where not those of either kind alone; declining and then helping is compliance in
# WildGuardTest.
WAYS = {
    "wildguard": ("full",),
    **dict.fromkeys(("xstest", "xstest_extension", "own"), ("any", "full")),
}
# The one source that neither wrote a rule nor cut one.
UNREAD = "own"
# Sources with human labels of refusal, and their names in the ledger where those differ.
SOURCES = (
    "chatgpt_refusals",
    "do_not_answer",
    "orfuzz",
    "pyrit",
    "readings_kept_apart",
    "refusalbench",
    "wildguard",
    "xstest",
    "xstest_extension",
)
LEDGER_NAMES = {"wildguard": "wildguardtest"}
# What the second encoder makes of answers that it reads.
SERVING = "serving.jsonl"


@dataclass(frozen=True)
class Line:
    """A labelled answer, the labels of two judges, and the sources that shaped the second."""

    example: Example
    rules: str
    refusal: str
    shaped_by: tuple[str, ...]


def read_by(
    examples: Sequence[Example], logits: Path, lacking: Sequence[tuple[str, ...]]
) -> list[Line]:
    """Every measured answer, read by a run that lacks its source, or by what ships where the source
    trains nothing. ``lacking`` are the sources that each run lacks."""
    shaping = sorted({e.source for e in examples if may_shape_weights(e.source)})
    pairs = read_pairs(logits)
    lines: list[Line] = []
    for number, without in enumerate(lacking):
        path = logits / f"run{number}.jsonl"
        shaped_by = [source for source in shaping if source not in without]
        lines += _lines(examples, pairs, path, [*without], [*shaped_by, *curves.FITTED_ON])
    others = [
        source for source in dict.fromkeys(e.source for e in examples) if source not in shaping
    ]
    shaped_by = [*shaping, *curves.FITTED_ON]
    return lines + _lines(examples, pairs, logits / "ships.jsonl", others, shaped_by)


def write_logits(path: Path, logits: Mapping[str, Sequence[Logits]]) -> None:
    """Of each digest those of the answer and its paragraphs, to four digits; no text."""
    rows = []
    for digest, parts in sorted(logits.items()):
        rounded = [[round(value, DIGITS) for value in part] for part in parts]
        rows.append({"digest": digest, "logits": rounded})
    write_rows(path, rows)


def read_logits(path: Path) -> dict[str, list[Logits]]:
    """What :func:`write_logits` wrote."""
    if not path.is_file():
        raise SystemExit(f"no logits in {path}; run train FILES..., then join FILES...")
    return {row["digest"]: row["logits"] for row in read_rows(path)}


def write_serving(path: Path, serving: Mapping[str, float]) -> None:
    """Of each digest the second encoder's log-odds, to four digits; no text."""
    rows = [
        {"digest": digest, "serves": round(serves, DIGITS)}
        for digest, serves in sorted(serving.items())
    ]
    write_rows(path, rows)


def read_serving(path: Path) -> dict[str, float]:
    """What :func:`write_serving` wrote."""
    if not path.is_file():
        raise SystemExit(f"no log-odds in {path}; run serve FILES...")
    return {row["digest"]: row["serves"] for row in read_rows(path)}


def read_pairs(folder: Path) -> list[curves.Scored]:
    """The written pairs that no training saw, as what ships reads them."""
    logits, serving = read_logits(folder / "ships.jsonl"), read_serving(folder / SERVING)
    return curves.scored(curves.pairs_apart(), logits, serving)


def _lines(
    examples: Sequence[Example],
    pairs: Sequence[curves.Scored],
    path: Path,
    sources: list[str],
    shaped_by: list[str],
) -> list[Line]:
    logits = read_logits(path)
    known = [e for e in examples if e.digest in logits]
    rows = curves.scored(known, logits, read_serving(path.with_name(SERVING)))
    fitting = [row for row in rows if row.example.source in curves.FITTED_ON]
    fitted = curves.fit(fitting, pairs)
    # The answers of one source by curves of the others'.
    without_source = {}
    for source in sorted({row.example.source for row in fitting}):
        others = [row for row in fitting if row.example.source != source]
        without_source[source] = curves.fit(others, pairs)
    lines = []
    for row in rows:
        example = row.example
        if example.source in sources:
            chosen = without_source.get(example.source, fitted)
            chances = probabilities(row.reading, chosen)
            verdict = decided(row.text, example.prompt, row.by_rules, chances)
            overrule(verdict, row.paragraphs)
            lines.append(
                Line(
                    example=example,
                    rules=str(row.by_rules["label"]),
                    refusal=str(verdict["label"]),
                    shaped_by=tuple(name for name in shaped_by if name != example.source),
                )
            )
    return lines


def markdown(lines: Sequence[Line]) -> str:
    """One line for each source and way of counting: κ of each judge with the labels, and the rate gap
    of the model that it misjudges most."""
    labels: dict[str, list[str | None]] = {
        "rules": [line.rules for line in lines],
        "refusal": [line.refusal for line in lines],
    }
    for name in sorted({name for line in lines for name in line.example.recorded}):
        labels[name] = [line.example.recorded.get(name) for line in lines]
    head = f"| answers | refusals | n | {' | '.join(f'`{judge}`' for judge in labels)} |"
    table = [head, "|---" * (3 + len(labels)) + "|"]
    sources = sorted({line.example.source for line in lines} - {UNREAD})
    for source in [*sources, UNREAD]:
        at = [i for i, line in enumerate(lines) if line.example.source == source]
        for counted in WAYS.get(source, ("any",)):
            cells = []
            for given in labels.values():
                examples = [lines[i].example for i in at if given[i] is not None]
                cells.append(_cell(examples, [str(given[i]) for i in at if given[i]], counted))
            if source != UNREAD:
                cells[0] += " †"
            name = LEDGER_NAMES.get(source, source)
            table.append(f"| {name} | {counted} | {len(at):,} | {' | '.join(cells)} |")
    return "\n".join(table)


def _cell(examples: Sequence[Example], labels: Sequence[str], counted: str) -> str:
    """κ, and in brackets the worst rate gap of a model in points."""
    if not examples:
        return ""
    means = ("refusal",) if counted == "full" else ("refusal", "partial_refusal")
    says = [label in means for label in labels]
    truth = [bool(e.full if counted == "full" else e.refused) for e in examples]
    gaps = [0.0]
    for model in {e.model for e in examples}:
        own = [n for n, e in enumerate(examples) if e.model == model]
        if len(own) >= LEAST:
            gaps.append(100 * (sum(says[n] for n in own) - sum(truth[n] for n in own)) / len(own))
    return f"{cohen_kappa(says, truth).kappa:.3f} ({max(gaps, key=abs):+.1f})"


def entries(lines: Sequence[Line], version: str) -> list[LedgerEntry]:
    """Of the judge ``refusal``, for the ledger that comes with the package."""
    found: list[LedgerEntry] = []
    for source in SOURCES:
        own = [line for line in lines if line.example.source == source]
        pairs = []
        for line in own:
            example = line.example
            pairs.append(
                {
                    "source": LEDGER_NAMES.get(source, source),
                    "model": example.model,
                    "prompts": example.kind,
                    "cluster": example.cluster or example.prompt or example.digest,
                }
            )
        truth = [_human(line.example) for line in own]
        says = [line.refusal for line in own]
        shaped = [LEDGER_NAMES.get(name, name) for name in own[0].shaped_by] if own else []
        for partial in PARTIALS:
            found += ledger_entries("refusal", version, pairs, truth, says, partial, shaped)
    return found


def _human(example: Example) -> str:
    if example.full or (example.full is None and example.refused):
        return "refusal"
    return "partial_refusal" if example.refused else "compliance"


def write_into(path: Path, text: str) -> None:
    """Replaces the table between the two marks of a file."""
    whole = path.read_text("utf-8")
    pattern = re.compile(f"(?<={re.escape(START)}\n).*?(?={re.escape(END)})", re.DOTALL)
    if not pattern.search(whole):
        raise SystemExit(f"{path}: has no lines {START!r} and {END!r} to put the table between")
    path.write_text(pattern.sub(lambda _: f"\n{text}\n\n", whole), "utf-8")
