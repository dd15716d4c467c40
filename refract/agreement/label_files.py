"""The file that people label: a sample of answers goes out, labels come back."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import sha256_json
from refract.core.showing import csv_cell
from refract.core.tables import parse_table, read_table, write_table
from refract.core.tool_calls import with_calls
from refract.core.types import Attempt, Row, conversation_text
from refract.core.vocabulary import LABELS, REFUSED
from refract.rates.rate import HumanLabels, stale_text
from refract.statistics.weighted import draw_size

# Of one model and suite, from a project's folder.
LABEL_FILE = "data/labels/{model}/{suite}.csv"
COLUMNS = ("suite", "prompt_id", "pair_sha256", "prompt", "response", "label", "notes", "rank")
# Further columns where some answers were drawn more often than others: the size by which each was
# drawn, and the place of the next one in the draw. An answer was among those up to a row with
# probability min(1, size x that row's next_place).
DRAWN_COLUMNS = ("size", "next_place")
# How many answers could be drawn, and the start of a hash of their ids.
DRAWN_FROM = "drawn_from"
DRAW_AGAIN = (
    "`refract label --keep FILE --out NEW.csv` draws anew and keeps the labels of the same answers; "
    "then put NEW.csv in FILE's place"
)
NO_LABEL = "no drawn answer has a label yet"
# What a reader must know where these columns are gone.
NO_SIZES = (
    "the judge gives probabilities, and no row of the labels has a size and a next_place: the labels "
    "count as drawn alike. If the judge's doubt drew them, the rates are wrong: put both columns back"
)
# A hash of earlier releases that a spreadsheet took for a number.
NUMBER = r"\d[\d.,]*E[+-]?\d+|\d{1,15}|h\d{15}0"
# The keys of labels on the page.
KEYS = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}


class JudgedAnswer(NamedTuple):
    """An answer of a run with its judge's label (``outcome``: a refusal, full or partial, or
    compliance) and ``probability`` of a refusal. Answers of one ``cluster`` resemble each other;
    ``sample`` is its number among the samples of its prompt."""

    suite: str
    prompt_id: str
    category: str
    prompt: Attempt
    response: str
    outcome: str
    cluster: str
    probability: float | None = None
    sample: int = 1

    @property
    def prompt_key(self) -> tuple[str, str]:
        """What all samples of its prompt have in common."""
        further = f"~{self.sample}" if self.sample > 1 else ""
        return self.suite, self.prompt_id.removesuffix(further)

    @property
    def refused(self) -> bool:
        """Whether the judge took it for a refusal, full or partial."""
        return self.outcome in REFUSED

    @property
    def key(self) -> tuple[object, object]:
        """Its name in a file of labels."""
        return csv_cell(self.suite), csv_cell(self.prompt_id)

    @property
    def pair_sha256(self) -> str:
        """The start of a hash of prompt and answer, which ties a label to both; by the letter before
        it no spreadsheet takes it for a number."""
        return "h" + sha256_json([self.prompt, self.response])[:16]

    @property
    def row(self) -> Row:
        """The row that is to be labelled."""
        suite, prompt_id = self.key
        return {
            "suite": suite,
            "prompt_id": prompt_id,
            "pair_sha256": self.pair_sha256,
            "prompt": csv_cell(conversation_text(self.prompt)),
            "response": csv_cell(self.response),
        }


class JoinedLabels(NamedTuple):
    """Human labels joined to the answers of a run, by prompt id.

    ``stale`` are ids whose prompt or answer is no longer the one that was drawn. ``blank`` are ids
    of rows without a label before the last labelled one: the labelled rows alone are no random
    sample. Rows after it were not reached, which leaves a smaller random sample. ``inclusion`` is
    the probability of each labelled answer to be drawn, where these differ. ``by_models`` counts
    labels whose annotator is a model. ``doubts`` are sentences on what the file does not show of its
    draw. ``why_stale`` says why labels are stale and what helps, unless their answers have changed."""

    by_id: Mapping[str, str]
    stale: Sequence[str] = ()
    blank: Sequence[str] = ()
    inclusion: Mapping[str, float] | None = None
    by_models: int = 0
    doubts: Sequence[str] = ()
    why_stale: str = ""

    @property
    def counts(self) -> HumanLabels:
        """How many labels there are, and how many answers keep them from being a random sample."""
        return HumanLabels(len(self.by_id), len(self.stale), len(self.blank))

    @property
    def warnings(self) -> list[str]:
        """What a reader must know of these labels."""
        warnings = [*self.doubts]
        if not (self.by_id or self.stale):
            warnings.append(NO_LABEL)
        if self.blank:
            unlabelled = f"{len(self.blank)} drawn answers have no human label"
            warnings.append(f"{unlabelled}; there is no rate from labels")
        if self.stale:
            warnings.append(self.why_stale or stale_text(len(self.stale)))
        if self.by_models:
            warnings.append(f"{self.by_models} labels are a language model's, not a person's")
        return warnings


def drawn_by_doubt(answers: Sequence[JudgedAnswer]) -> bool:
    """Whether :func:`draw` takes some of these answers more often: each has a probability."""
    return all(answer.probability is not None for answer in answers)


def draw(answers: Sequence[JudgedAnswer], size: int, seed: int) -> list[Row]:
    """A seeded sample as rows to be labelled, in the order of the draw: its first rows are a sample
    too.

    Where the judge gave each answer a probability, the answers whose label teaches most about the
    rate are drawn more often (:mod:`refract.statistics.weighted`), and rows have ``DRAWN_COLUMNS``."""
    by_doubt = drawn_by_doubt(answers)
    drawn = []
    for number, answer in enumerate(answers):
        digest = sha256_json(["label", seed, answer.suite, answer.prompt_id])
        weight = draw_size(answer.probability or 0.0) if by_doubt else 1.0
        place = (int(digest[:16], 16) + 0.5) / 16**16 / weight
        drawn.append((place, weight, number))
    drawn.sort()
    drawn_from = _drawn_from(answers)
    rows = []
    for rank, (_, weight, number) in enumerate(drawn[:size], 1):
        row = {**answers[number].row, "rank": str(rank)}
        if by_doubt:
            row["size"] = f"{weight:.9g}"
            row["next_place"] = f"{drawn[rank][0]:.9g}" if rank < len(drawn) else ""
        rows.append({**row, DRAWN_FROM: drawn_from})
    return rows


def _drawn_from(answers: Sequence[JudgedAnswer]) -> str:
    """What a draw from these answers says of them: a text to every spreadsheet."""
    digest = sha256_json(sorted([answer.suite, answer.prompt_id] for answer in answers))
    return f"{len(answers)} answers, {digest[:12]}"


def response_sha256(row: Mapping[str, Any]) -> str:
    """A hash of the answer of a response row, the same for its cell in a file of labels (whose line
    ends a spreadsheet may have changed)."""
    cell = str(csv_cell(with_calls(row)))
    return sha256_json(cell.replace("<U+000D>\n", "\n"))


def write_sample(path: Path, sample: Sequence[Row]) -> None:
    """Writes rows as a CSV to be labelled by hand; it shows no verdict."""
    named = ("annotator", *DRAWN_COLUMNS, DRAWN_FROM)
    further = [name for name in named if any(name in row for row in sample)]
    write_table(path, [*COLUMNS, *further], sample)


def keep_labels(
    sample: Sequence[Row], earlier: Sequence[Mapping[str, str]], where: str
) -> tuple[int, int]:
    """Gives rows of a draw the labels that the same rows of an earlier one have; those that it lacks the
    label of all its rows of the same prompt and answer, unless these disagree. Returns how many of the
    earlier labels were kept, and how many there were. Raises :class:`RowError`."""
    given: dict[object, list[Mapping[str, str]]] = defaultdict(list)
    labelled = set()
    for number, row in enumerate(earlier, 1):
        given[_place(row)].append(row)
        if label_of(row, f"{where}: row {number}"):
            given[row["pair_sha256"]].append(row)
            labelled.add(_place(row))
    kept: set[tuple[str, ...]] = set()
    for drawn in sample:
        same = given.get(_place(drawn)) or given.get(drawn["pair_sha256"], [])
        labels = {spelt_label(row["label"]): row for row in same if row["label"].strip()}
        if len(labels) == 1:
            (row,) = labels.values()
            drawn.update({name: row.get(name) or "" for name in ("label", "notes", "annotator")})
            kept.update(map(_place, same))
    return len(kept), len(labelled)


def _place(row: Mapping[str, str]) -> tuple[str, ...]:
    """Which answer a row of a file of labels is of."""
    return row["suite"], row["prompt_id"], row["pair_sha256"]


def label_rows(path: Path, *further: str) -> list[dict[str, str]]:
    """The rows of a file of :func:`write_sample`. Raises :class:`RowError` for another, for one
    without a row, one that lacks these ``further`` columns, and for a text beyond the last column."""
    rows = []
    for number, row in enumerate(read_table(path), 1):
        beyond = [cell for cell in row.pop(None, []) if cell.strip()]  # type: ignore[call-overload]
        if beyond:
            raise RowError(
                f"{path}: row {number} has more cells than there are columns (got {beyond[0]!r:.60}): "
                "put the text in a column of its own, or delete it"
            )
        if any(row.values()):  # a spreadsheet may add empty ones
            rows.append(row)
    if not rows:
        raise RowError(
            f"{path}: holds no row: draw answers with `refract label`, or delete the file"
        )
    needed = ("suite", "prompt_id", "pair_sha256", "label", *further)
    lacking = [name for name in needed if name not in rows[0]]
    if lacking:
        raise RowError(f"{path}: no column {lacking[0]!r}; keep those that `refract label` wrote")
    for number, row in enumerate(rows, 1):
        if any(row[name] is None for name in needed):
            raise RowError(
                f"{path}: row {number}, which begins {next(iter(row.values()))!r:.40}, has fewer cells "
                "than there are columns: a merge that was not resolved, or a line that was cut"
            )
    for row in rows:
        if re.fullmatch("[0-9a-f]{16}", row["pair_sha256"]):  # without a letter in earlier releases
            row["pair_sha256"] = f"h{row['pair_sha256']}"
    return rows


def spelt_label(text: str) -> str:
    """A label as Refract spells it: partial_refusal for "Partial refusal"."""
    return "_".join(text.strip().lower().replace("-", " ").split())


def label_of(row: Mapping[str, str], where: str) -> str:
    """The label of a row, or none. Raises :class:`RowError` for an unknown one."""
    label = spelt_label(row["label"])
    if label and label not in LABELS:
        raise RowError(
            f"{where}: label must be one of {', '.join(LABELS)}, or empty (got {row['label']!r:.60})"
        )
    return label


def is_model(annotator: str) -> bool:
    """Whether an annotator is a language model: model, or model-NAME, however spelt."""
    return re.match(r"\W*model\b", annotator, re.IGNORECASE) is not None


def labels_sha256(content: bytes | None) -> str | None:
    """The hash of what counts in a file of labels, None where there is no label yet: a draw that nobody
    has labelled and a note change no number."""
    try:
        rows = parse_table(content or b"")
    except (csv.Error, ValueError):
        return hashlib.sha256(content or b"").hexdigest()
    if not any((row.get("label") or "").strip() for row in rows):
        return None
    counted = [{name: cell for name, cell in row.items() if name != "notes"} for row in rows]
    return sha256_json(counted)


def read_labels(path: Path, answers: Sequence[JudgedAnswer]) -> JoinedLabels:
    """The labels of a file that :func:`write_sample` wrote, joined to the answers of a run.

    Raises :class:`RowError` for a file of another form, a label that is not among ``LABELS``, two
    rows on one prompt, or a part of the answers of which it does not say what they were drawn from."""
    rows = label_rows(path, "rank")
    numbered = _as_drawn(rows, str(path))
    known = {answer.key: answer for answer in answers}
    by_doubt = any((row.get(name) or "").strip() for row in rows for name in DRAWN_COLUMNS)
    by_id: dict[str, str] = {}
    sizes: dict[str, float] = {}
    stale: list[str] = []
    unlabelled: list[str] = []
    by_models = 0
    place, reached, blank_before = 0.0, 0.0, 0  # the last two: at the last row that has a label
    seen: dict[tuple[str, str], int] = {}
    for number, row in numbered:
        where = f"{path}: row {number}"
        label = label_of(row, where)
        key = (row["suite"], row["prompt_id"])
        if seen.setdefault(key, number) != number:
            raise RowError(
                f"{where} is the second on {' '.join(key)}, after row {seen[key]}: delete the one whose "
                "label is not meant"
            )
        answer = known.get(key)
        name = row["prompt_id"] if answer is None else answer.prompt_id
        if by_doubt:
            # The last of all answers has none after it: with it, all are drawn.
            whole = (row.get(DRAWN_FROM) or f"{len(rows)}").partition(" ")[0]
            last = row is numbered[-1][1] and whole == f"{len(rows)}"
            sizes[name], place = _size_and_place(row, place, last, where=where)
        if not label:
            unlabelled.append(name)
            continue
        if answer is None or answer.pair_sha256 != row["pair_sha256"]:
            stale.append(row["prompt_id"])
        else:
            by_id[name] = label
            by_models += is_model(row.get("annotator") or "")
        reached, blank_before = place, len(unlabelled)
    inclusion = {name: min(1.0, sizes[name] * reached) for name in by_id} if by_doubt else None
    are_of_all = len(by_id) == len(answers)
    if not are_of_all and (by_id or stale):
        other_draw = _other_draw(rows, answers, str(path))
        if other_draw:
            return JoinedLabels({}, [*stale, *by_id], why_stale=other_draw)
    unsized = by_id and not are_of_all and drawn_by_doubt(answers) and not by_doubt
    doubts = [NO_SIZES] if unsized else []
    why_stale = _rewritten(rows, known) if stale else ""
    blank = unlabelled[:blank_before]
    return JoinedLabels(by_id, stale, blank, inclusion, by_models, doubts, why_stale)


def _rewritten(
    rows: Sequence[Mapping[str, str]], known: Mapping[tuple[object, object], JudgedAnswer]
) -> str:
    """What to say where a spreadsheet seems to have rewritten what ties a label to its answer; empty
    where none has."""
    by_hash = {answer.pair_sha256: answer for answer in known.values()}
    cells = []
    for row in rows:
        answer = known.get((row["suite"], row["prompt_id"]))
        digest = row["pair_sha256"]
        if answer is None and digest in by_hash:
            name = "suite" if row["suite"] != csv_cell(by_hash[digest].suite) else "prompt_id"
        elif answer and answer.pair_sha256 != digest and re.fullmatch(NUMBER, digest):
            name = "pair_sha256"
        else:
            continue
        if row["label"].strip():
            shown = row[name].removeprefix("h") if name == "pair_sha256" else row[name]
            cells.append(f"{name} {shown!r:.40}")
    if not cells:
        return ""
    return (
        "a spreadsheet seems to have rewritten what ties labels to answers "
        f"({len(cells)} cells, such as {cells[0]}): put that column back from a fresh file of "
        "`refract label` with the same options, whose rows have the same ranks; until then there is no "
        "rate from labels"
    )


def _other_draw(
    rows: Sequence[Mapping[str, str]], answers: Sequence[JudgedAnswer], where: str
) -> str:
    """What to say of labels that were drawn from other answers than these; empty where they were not.
    Raises :class:`RowError` for rows that do not say what they were drawn from."""
    expected = _drawn_from(answers)
    for number, row in enumerate(rows, 1):
        cell = (row.get(DRAWN_FROM) or "").strip()
        if not cell:
            raise RowError(
                f"{where}: row {number} has no cell {DRAWN_FROM!r} (files of earlier releases have "
                "none), so that nothing shows whether all answers of the run could be drawn; "
                f"{DRAW_AGAIN}"
            )
        if cell != expected:
            return (
                f"the labels were drawn from {cell.partition(',')[0]:.30}, which are not the "
                f"{len(answers)} of the run now: they are no random sample of these, and count for no "
                f"rate; {DRAW_AGAIN}"
            )
    return ""


def _as_drawn(rows: Sequence[Mapping[str, str]], where: str) -> list[tuple[int, Mapping[str, str]]]:
    """Rows and their numbers, in the order of their draw. Raises :class:`RowError` where one of it
    was taken out: the others are no random sample."""
    cells = [(row.get("rank") or "").strip().removesuffix(".0") for row in rows]
    ranks = [int(cell) if cell.isdecimal() else inf for cell in cells]
    for rank, next_rank in enumerate(sorted({*ranks}), 1):
        if next_rank != rank:
            raise RowError(
                f"{where}: no row has the rank {rank}, which the draw gave one: without it the others "
                f"are no random sample. Put that row back and label it, or {DRAW_AGAIN}"
            )
    return sorted(enumerate(rows, 1), key=lambda pair: ranks[pair[0] - 1])


def _size_and_place(
    row: Mapping[str, str], before: float, last: bool, where: str
) -> tuple[float, float]:
    """The size and the next place of a row of a draw by doubt. Raises :class:`RowError` where they
    are incomplete, a size is none that a draw gives, or the place is not after ``before``."""
    least, most = draw_size(0.0), draw_size(0.5)
    try:
        size, text = float(row.get("size") or ""), row.get("next_place") or ""
        place = inf if last and not text else float(text)
    except ValueError:
        size = place = nan
    if not (least - 1e-6 < size < most + 1e-6 and place > before):
        raise RowError(
            f"{where}: size and next_place must be as `refract label` wrote them, sizes from "
            f"{least:.3f} to {most:.3f} and the rows in the order of the draw (got "
            f"{row.get('size')!r:.30} and {row.get('next_place')!r:.30}): put both columns back "
            "from the file as it was drawn"
        )
    return size, place
