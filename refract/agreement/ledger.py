"""The ledger: how far each judge is from people, by source of the answers and by model that gave them.

A judge's κ over many models hides that its errors depend on the model: what biases a comparison of
two models is the rate gap of each. A row of the ledger is one judge on one model's answers of one
source; the rows with ``model`` ``ALL`` pool a source that has several.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from refract.core.errors import RowError
from refract.core.tables import read_table, write_table
from refract.core.types import Row
from refract.core.vocabulary import (
    DIGITS,
    REFUSED,
)
from refract.statistics.clusters import clustered_difference
from refract.statistics.raters import cohen_kappa, detection

# Judges on published answers, as ``python -m tools.ledger`` measured them.
LEDGER = Path(__file__).with_name("ledger.csv")
# The same of the labelled pairs of a project, which the stage validate-judges writes.
MEASURED = Path("metrics/judges_by_model.csv")
# How a partial refusal counts, of a judge's labels and of people's.
Partial = Literal["refusal", "compliance"]
PARTIALS: tuple[Partial, ...] = get_args(Partial)
ALL = "(all)"
# From this many answers on, a model's rate gap says more than that its answers are few.
ENOUGH = 100


class Answer(NamedTuple):
    """One answer with its human label and the judge's, both among ``LABELS``; None is unjudged.

    ``cluster`` names what answers share that resemble each other, such as the prompt.
    """

    source: str
    model: str
    human: str
    judge: str | None
    cluster: Hashable


class Entry(NamedTuple):
    """One judge on the answers of one model (empty where the source does not say which).

    Rates are shares of the ``n`` judged answers, the gap the judge's minus the human one, with an
    interval for paired shares in which answers to one prompt are one cluster. ``partial`` says how
    partial refusals count. ``shaped_by`` names the sources that the judge was tuned or trained on,
    separated by spaces.
    """

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

    @property
    def gap(self) -> float | None:
        """The judge's rate minus the human one."""
        if self.human_rate is None or self.judge_rate is None:
            return None
        # Of the counts, which the rounded rates stand for.
        return (round(self.judge_rate * self.n) - round(self.human_rate * self.n)) / self.n

    @property
    def unseen(self) -> bool:
        """Whether nothing of the source has shaped the judge."""
        return self.source not in self.shaped_by.split()


COLUMNS = Entry._fields
_WHOLE = ("n", "unjudged")
_TEXTS = ("judge", "version", "source", "model", "partial", "shaped_by")


def refuses(label: str, partial: Partial) -> bool:
    """Whether a label counts as a refusal; a degenerate answer never does."""
    return label in REFUSED and (partial == "refusal" or label == "refusal")


def measure(
    judge: str,
    version: str,
    answers: Sequence[Answer],
    partial: Partial = "refusal",
    shaped_by: Iterable[str] = (),
    confidence: float = 0.95,
) -> list[Entry]:
    """The entries of one judge, worst first, then one for each source of several models."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        groups.setdefault((answer.source, answer.model), []).append(answer)
    sources: dict[str, list[str]] = {}
    for source, model in groups:
        sources.setdefault(source, []).append(model)
    for source, models in sources.items():
        if len(models) > 1:
            groups[source, ALL] = [answer for answer in answers if answer.source == source]
    shaped = " ".join(sorted(shaped_by))
    return worst_first(
        [
            Entry(
                judge,
                version,
                source,
                model,
                **_numbers(members, partial, confidence),
                partial=partial,
                shaped_by=shaped,
            )
            for (source, model), members in groups.items()
        ]
    )


def _numbers(answers: Sequence[Answer], partial: Partial, confidence: float) -> dict[str, Any]:
    judged = [a for a in answers if a.judge is not None]
    human = [refuses(a.human, partial) for a in judged]
    found = [refuses(str(a.judge), partial) for a in judged]
    gap = clustered_difference(found, human, [a.cluster for a in judged], confidence)
    kappa = cohen_kappa(human, found, confidence)
    errors = detection(found, human, confidence)
    numbers = {
        "human_rate": sum(human) / len(human) if human else None,
        "judge_rate": sum(found) / len(found) if found else None,
        "gap_low": gap and gap.low,
        "gap_high": gap and gap.high,
        "kappa": kappa.kappa,
        "kappa_low": kappa.low,
        "kappa_high": kappa.high,
        "precision": errors.precision and errors.precision.value,
        "recall": errors.recall and errors.recall.value,
    }
    rounded = {
        name: None if value is None else round(value, DIGITS) + 0.0
        for name, value in numbers.items()
    }
    return {"n": len(judged), "unjudged": len(answers) - len(judged), **rounded}


def worst_first(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of single models by absolute rate gap, the largest first; then the pooled ones."""
    return sorted(entries, key=lambda e: (e.model == ALL, -abs(e.gap or 0.0), *_key(e)))


def _key(entry: Entry) -> tuple[str, ...]:
    return entry.judge, entry.source, entry.model, entry.partial


def as_row(entry: Entry) -> Row:
    """An entry as JSON, with its gap; numbers that are undefined are left out."""
    row: Row = {name: value for name, value in entry._asdict().items() if value is not None}
    return row if entry.gap is None else {**row, "gap": round(entry.gap, DIGITS) + 0.0}


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a ledger file; none where there is no file. Raises :class:`RowError`."""
    if not path.is_file():
        return []
    entries = []
    for number, row in enumerate(read_table(path), 1):
        lacking = [name for name in COLUMNS if row.get(name) is None]
        if lacking:
            raise RowError(
                f"{path}: row {number} has no {lacking[0]!r}; a ledger has the columns "
                f"{', '.join(COLUMNS)}"
            )
        if row["partial"] not in PARTIALS:
            raise RowError(
                f"{path}: row {number}: partial must be one of {', '.join(PARTIALS)} "
                f"(got {row['partial']!r:.60})"
            )
        try:
            values: dict[str, Any] = dict(row)
            values |= {name: _number(name, row[name]) for name in COLUMNS if name not in _TEXTS}
            entries.append(Entry(**{name: values[name] for name in COLUMNS}))
        except ValueError as error:
            raise RowError(f"{path}: row {number}: {error}") from None
    return entries


def _number(name: str, text: str) -> float | int | None:
    if name in _WHOLE:
        return int(text)
    return float(text) if text else None


def write_ledger(path: Path, entries: Iterable[Entry]) -> None:
    """Writes entries, by judge, source, model and ``partial``."""
    write_table(path, COLUMNS, (entry._asdict() for entry in sorted(entries, key=_key)))


def add_to_ledger(path: Path, entries: Iterable[Entry]) -> None:
    """Writes entries into a file, in place of those of the same judge, source, model and ``partial``.

    Raises :class:`RowError` for a file that is no ledger.
    """
    found = {_key(entry): entry for entry in read_ledger(path)}
    write_ledger(path, (found | {_key(entry): entry for entry in entries}).values())


def shown_gap(entry: Entry) -> str:
    """A rate gap in points with its interval, such as ``+3.2 [-1.0, +7.4]``."""
    if entry.gap is None:
        return "—"
    if entry.gap_low is None or entry.gap_high is None:
        return f"{100 * entry.gap:+.1f} (no interval)"
    return f"{100 * entry.gap:+.1f} [{100 * entry.gap_low:+.1f}, {100 * entry.gap_high:+.1f}]"


def known_entries(root: Path) -> list[Entry]:
    """What is known of judges: the ledger that comes with the package, and that of a project."""
    return read_ledger(LEDGER) + read_ledger(root / MEASURED)


def closest(
    entries: Iterable[Entry], judges: Collection[str], rate: float, count: int = 3
) -> list[Entry]:
    """The entries of a judge whose own rate is nearest to a rate, nearest first.

    Only entries of one named model with ``ENOUGH`` answers or more, partial refusals counted as the
    pipeline counts them (as refusals). ``judges`` are the names that the judge goes by.
    """
    near = [
        (abs(entry.judge_rate - rate), _key(entry), entry)
        for entry in entries
        if entry.judge in judges
        and entry.partial == "refusal"
        and entry.model not in ("", ALL)
        and entry.n >= ENOUGH
        and entry.judge_rate is not None
    ]
    near.sort(key=lambda one: one[:2])
    return [entry for _, _, entry in near[:count]]


def below_gaps(
    entries: Sequence[Entry],
    judges: Collection[str],
    first: float | None,
    second: float | None,
) -> float | None:
    """The largest absolute rate gap on the models closest to two rates, if their difference is below it.

    A judge that errs by that much on one of the two alone would make the difference. None where the
    difference is larger, or nothing was measured.
    """
    if first is None or second is None:
        return None
    near = [*closest(entries, judges, first), *closest(entries, judges, second)]
    largest = max((abs(entry.gap) for entry in near if entry.gap is not None), default=0.0)
    return largest if abs(first - second) < largest else None
