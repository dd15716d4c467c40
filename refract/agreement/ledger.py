"""The ledger: how far each judge is from people, by source of the answers and by model that gave
them.

A judge's κ over many models hides that its errors depend on the model: the rate gap of each model
is what biases a comparison of two. A row of the ledger is one judge on one model's answers of one
source; rows with ``model`` ``ALL`` pool a source that has several."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.agreement.scores import Partial, refuses, rounded_numbers, score_labels
from refract.core.tables import read_table, write_table
from refract.core.types import Row
from refract.rates.rate import Prompts, rounded
from refract.statistics.clusters import clustered_difference

# The question that a rate of refusals here asks, of those in sources.toml.
ANY = "any"
# What labels of each source ask (``questions``), and which models stand in which (``unmeasured``,
# ``same_models``).
SOURCES = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
# Judges on published answers, as ``python -m tools.ledger`` measured them.
LEDGER = Path(__file__).with_name("ledger.csv")
ALL = "(all)"


class LedgerEntry(NamedTuple):
    """One judge on the answers of one model (empty where the source does not say which).

    Rates are shares of the ``n`` judged answers; the interval of the gap is of paired shares,
    clustered by prompt. ``partial`` says how partial refusals count, ``shaped_by`` names the
    sources that the judge was trained on or written with, ``reads`` the judges whose verdicts it is
    made of, both separated by spaces. ``question`` is what else the source's labels ask
    (``sources.toml``). It is over ``harmful`` ``prompts`` alone, over ``other`` ones, or (empty)
    over all. Of the answers that people call refusals the judge ``missed`` so many, and of the
    others it called so many refusals (``false``)."""

    judge: str
    version: str
    source: str
    model: str
    n: int
    unjudged: int
    human_rate: float | None
    judge_rate: float | None
    gap_low: float | None
    gap_high: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    precision: float | None
    recall: float | None
    partial: Partial
    shaped_by: str
    clusters: int | None = None
    question: str = ""
    reads: str = ""
    prompts: Prompts = ""
    missed: int | None = None
    false: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """A ledger has one entry with this key."""
        return self.judge, self.source, self.model, self.partial, self.prompts

    @property
    def gap(self) -> float | None:
        """The judge's rate minus the human one."""
        if self.human_rate is None or self.judge_rate is None:
            return None
        # The rates are rounded; the difference of the counts behind them is exact.
        return rounded((round(self.judge_rate * self.n) - round(self.human_rate * self.n)) / self.n)


COLUMNS = LedgerEntry._fields
COUNTS = ("n", "unjudged", "clusters", "missed", "false")
NUMBERS = COLUMNS[COLUMNS.index("human_rate") : COLUMNS.index("partial")]


def ledger_entries(
    judge: str,
    version: str,
    pairs: Sequence[Row],
    truth: Sequence[str],
    labels: Sequence[str | None],
    partial: Partial = "refusal",
    shaped_by: Iterable[str] = (),
    confidence: float = 0.95,
    *,
    reads: Iterable[str] = (),
) -> list[LedgerEntry]:
    """The entries of one judge's labels on answers, worst first, then one for each source of
    several models.

    ``pairs`` may name the ``source`` and ``model`` of an answer, and whether its prompt is
    ``harmful`` or ``other`` (``prompts``): a model that answered both kinds has an entry for each
    besides. Those with the same ``cluster``, or else the same ``prompt``, are one cluster.
    ``truth`` and ``labels`` are among ``LABELS``; None is unjudged."""
    of_judge: Row = {"judge": judge, "version": version, "partial": partial}
    of_judge |= {"shaped_by": " ".join(sorted(shaped_by)), "reads": " ".join(sorted(reads))}
    entries = []
    for (source, model, kind), numbers in _answers_of(pairs).items():
        scores = score_labels(
            truth=[truth[number] for number in numbers],
            labels=[labels[number] for number in numbers],
            partial=partial,
            confidence=confidence,
        )
        human, verdicts, clusters = [], [], []
        for number in sorted(numbers):
            label, pair = labels[number], pairs[number]
            if label is not None:
                human.append(refuses(truth[number], partial))
                verdicts.append(refuses(label, partial))
                clusters.append(pair.get("cluster") or pair.get("prompt") or number)
        gap = clustered_difference(verdicts, human, clusters=clusters, confidence=confidence)
        if gap is not None:
            n = len(human)
            rates = {"human_rate": sum(human) / n, "judge_rate": sum(verdicts) / n}
            scores |= rounded_numbers({**rates, "gap_low": gap.low, "gap_high": gap.high})
        both = Counter(zip(human, verdicts, strict=True))
        scores |= {"missed": both[True, False], "false": both[False, True]}
        scores |= {"source": source, "model": model, "prompts": kind, "clusters": len({*clusters})}
        scores |= {**of_judge, "question": SOURCES["questions"].get(source, "")}
        values: Row = {name: scores.get(name) for name in COLUMNS}
        entries.append(LedgerEntry(**values))
    return worst_first(entries)


def _answers_of(pairs: Sequence[Row]) -> dict[tuple[str, str, Prompts], list[int]]:
    """The places of the answers of each source and model, and kind of prompts."""
    groups: dict[tuple[str, str, Prompts], list[int]] = {}
    by_kind: dict[tuple[str, str, Prompts], list[int]] = {}
    for number, pair in enumerate(pairs):
        source, model = str(pair.get("source") or ""), str(pair.get("model") or "")
        groups.setdefault((source, model, ""), []).append(number)
        if pair.get("prompts"):
            by_kind.setdefault((source, model, pair["prompts"]), []).append(number)
    models = Counter(source for source, _, _ in groups)
    for (source, _, _), numbers in list(groups.items()):
        if models[source] > 1:
            groups.setdefault((source, ALL, ""), []).extend(numbers)
    return groups | by_kind


def worst_first(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Entries of single models, the largest absolute gap first; then the pooled ones."""

    def rank(entry: LedgerEntry) -> tuple[bool, float, tuple[str, ...]]:
        return entry.model == ALL, -abs(entry.gap or 0.0), entry.key

    return sorted(entries, key=rank)


def read_ledger(path: Path) -> list[LedgerEntry]:
    """The entries of a ledger file; none where there is no file."""
    entries = []
    for row in read_table(path) if path.is_file() else ():
        values: Row = {**row, **dict.fromkeys(COUNTS)}
        for name in NUMBERS:
            values[name] = float(row[name]) if row[name] else None
        for name in COUNTS:
            if row.get(name):
                values[name] = int(row[name])
        entries.append(LedgerEntry(**values))
    return entries


def write_ledger(path: Path, entries: Iterable[LedgerEntry]) -> None:
    """Writes entries, by judge, source, model, ``partial`` and ``prompts``."""
    in_order = sorted(entries, key=lambda entry: entry.key)
    write_table(path, COLUMNS, (entry._asdict() for entry in in_order))


def shown_gap(entry: LedgerEntry) -> str:
    """A rate gap in points with its interval, such as ``+3.2 [-1.0, +7.4]``."""
    if entry.gap is None:
        return "—"
    if entry.gap_low is None or entry.gap_high is None:
        return f"{100 * entry.gap:+.1f} (no interval)"
    return f"{100 * entry.gap:+.1f} [{100 * entry.gap_low:+.1f}, {100 * entry.gap_high:+.1f}]"
