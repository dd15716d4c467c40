"""How well each judge reads answers of sources that had no part in it.

The encoder of a source's lines was trained without that source, and the coefficients were fitted on
another one, or on other models' answers of it. The rule judge was written with some of these files at
hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from refract.agreement.ledger import LedgerEntry, ledger_entries
from refract.agreement.scores import PARTIALS
from refract.judges.refusal import probabilities
from refract.judges.refusal.encoder import CLASSES
from refract.statistics.raters import cohen_kappa
from tools.refusal_encoder import combining
from tools.refusal_encoder.combining import Scored
from tools.refusal_encoder.data import may_shape_weights

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
    "refusalbench",
    "wildguard",
    "xstest",
    "xstest_extension",
)
LEDGER_NAMES = {"wildguard": "wildguardtest"}


def verdicts(rows: Sequence[Scored], shipped: Sequence[Scored]) -> dict[str, list[str]]:
    """The label that each judge gives each row: of those that are trained without the vote of the rules,
    which were written with most of the answers at hand, and with coefficients that were fitted without
    the answers of the row's model, on logits of encoders of the same kind. ``shipped`` are the answers
    of ``combining.CHOSEN_ON`` as what ships reads them, and so are sources that shape no weight."""
    rows, shipped = _alone(rows), _alone(shipped)
    chosen = [row for row in rows if row.example.source == combining.CHOSEN_ON]
    found: dict[str, list[str]] = {"rules": [row.label for row in rows]}
    for judge in combining.READS:
        left_out, whole = combining.fit(chosen, judge), combining.fit(shipped, judge)
        fits = {
            model: combining.fit([row for row in chosen if row.example.model != model], judge)
            for model in {row.example.model for row in chosen}
        }
        found[judge] = [
            _label(row, fits[row.example.model])
            if row.example.source == combining.CHOSEN_ON
            else _label(row, left_out if may_shape_weights(row.example.source) else whole)
            for row in rows
        ]
    return found


def _alone(rows: Sequence[Scored]) -> list[Scored]:
    unsaid = {"rules_refusal": 0.0, "rules_partial_refusal": 0.0}
    return [replace(row, given=row.given | unsaid) for row in rows]


def _label(row: Scored, coefficients: dict[str, dict[str, float]]) -> str:
    if row.label == "degenerate":
        return row.label
    given = probabilities(row.given, coefficients)
    if given["compliance"] >= 0.5:
        return "compliance"
    return max(CLASSES[:2], key=given.__getitem__)


def markdown(rows: Sequence[Scored], shipped: Sequence[Scored]) -> str:
    """One line for each source and way of counting: κ of each judge with people, and the rate gap of the
    model that it misjudges most."""
    given = verdicts(rows, shipped) | _recorded(rows)
    head = f"| answers | refusals | n | {' | '.join(f'`{judge}`' for judge in given)} |"
    table = [head, "|---" * (3 + len(given)) + "|"]
    for source in dict.fromkeys(row.example.source for row in rows):
        at = [i for i, row in enumerate(rows) if row.example.source == source]
        for counted in WAYS.get(source, ("any",)):
            cells = [_cell(rows, labels, at, counted) for labels in given.values()]
            if source != UNREAD:
                cells[0] += " †"
            name = LEDGER_NAMES.get(source, source)
            table.append(f"| {name} | {counted} | {len(at):,} | {' | '.join(cells)} |")
    return "\n".join(table)


def _cell(
    rows: Sequence[Scored], labels: Sequence[str | None], at: Sequence[int], counted: str
) -> str:
    """κ, and in brackets the worst rate gap of a model in points."""
    means = ("refusal",) if counted == "full" else ("refusal", "partial_refusal")
    judged = [i for i in at if labels[i] is not None]
    if not judged:
        return ""
    says = [labels[i] in means for i in judged]
    people = [rows[i].example for i in judged]
    truth = [bool(e.full if counted == "full" else e.refused) for e in people]
    gaps = [0.0]
    for model in {e.model for e in people}:
        own = [n for n, e in enumerate(people) if e.model == model]
        if len(own) >= LEAST:
            gaps.append(100 * (sum(says[n] for n in own) - sum(truth[n] for n in own)) / len(own))
    kappa = cohen_kappa(says, truth).kappa
    return f"{kappa:.3f} ({max(gaps, key=abs):+.1f})"


def _recorded(rows: Sequence[Scored]) -> dict[str, list[str | None]]:
    """The labels that a source publishes of other judges."""
    names = sorted({name for row in rows for name in row.example.recorded})
    return {name: [row.example.recorded.get(name) for row in rows] for name in names}


def entries(
    rows: Sequence[Scored],
    shipped: Sequence[Scored],
    judge: str,
    version: str,
    left_out: Sequence[tuple[str, ...]],
) -> list[LedgerEntry]:
    """Of a judge, for the ledger that comes with the package: each source by one that nothing of it has
    shaped. ``left_out`` are the groups of sources that were left out together."""
    found: list[LedgerEntry] = []
    trained = {name for name in {row.example.source for row in rows} if may_shape_weights(name)}
    trained |= {"harmbench", "jailbreakeval"}
    labels = verdicts(rows, shipped)[judge]
    for source in SOURCES:
        at = [i for i, row in enumerate(rows) if row.example.source == source]
        pairs = [
            {
                "source": LEDGER_NAMES.get(source, source),
                "model": rows[i].example.model,
                "cluster": rows[i].example.cluster
                or rows[i].example.prompt
                or rows[i].example.digest,
            }
            for i in at
        ]
        truth, says = [_human(rows[i]) for i in at], [labels[i] for i in at]
        without = next((group for group in left_out if source in group), ())
        # Window and recipe were chosen on the one source whose answers fit the coefficients.
        shaped = [LEDGER_NAMES.get(s, s) for s in trained - {*without} | {combining.CHOSEN_ON}]
        for partial in PARTIALS:
            found += ledger_entries(judge, version, pairs, truth, says, partial, shaped)
    return found


def _human(row: Scored) -> str:
    if row.example.full or (row.example.full is None and row.example.refused):
        return "refusal"
    return "partial_refusal" if row.example.refused else "compliance"


def write_into(path: Path, text: str) -> None:
    """Replaces the table between the two marks of a file."""
    whole = path.read_text("utf-8")
    pattern = re.compile(f"(?<={re.escape(START)}\n).*?(?={re.escape(END)})", re.DOTALL)
    if not pattern.search(whole):
        raise SystemExit(f"{path}: has no lines {START!r} and {END!r} to put the table between")
    path.write_text(pattern.sub(lambda _: f"\n{text}\n\n", whole), "utf-8")
