"""Every prompt, answer and verdict, as the page's script reads them: columns, and each text once.

Rows are read one after another: columns stay in memory, and texts as far as the page holds them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import (
    canonical_json,
    iter_prompts,
    iter_responses,
    iter_verdicts,
)
from refract.core.tables import iter_table
from refract.core.types import (
    Attempt,
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    clean_id,
    sample_prompts,
)
from refract.core.vocabulary import JUDGED, REFUSED
from refract.report.view import Titles, View
from refract.results.current import ROWS, rows_missing, rows_note

ANSWERS = Path("data/report/answers.json")
# Longer texts are cut in the page, which says so; the rows themselves are whole.
LONGEST = 20_000
# Bytes of all texts of a page together: with more, a browser opens it slowly or not at all.
MOST = 50_000_000


class Answered(NamedTuple):
    """One prompt variant with one model's answer to it. ``ended`` says how the answer ended, where that
    is known."""

    model: str
    suite: str
    prompt: PromptRow
    response: ResponseRow
    verdicts: Mapping[str, Verdict]
    outcome: str
    changed: str  # "1", "0", or "" where nothing was compared
    ended: str | None


class StoredAnswers:
    """All answers of a project, read from its files whenever they are iterated.

    Raises :class:`RowError` where the texts are not here, or not those that the numbers were made of.
    """

    def __init__(self, root: Path, view: View) -> None:
        if missing := rows_missing(root, view.provenance):
            raise RowError(rows_note(missing))
        self.root, self.view = root, view

    def __iter__(self) -> Iterator[Answered]:
        for model, facts in self.view.provenance.items():
            yield from read_answers(self.root, model, facts, self.view.titles)


def read_answers(
    root: Path, model: str, provenance: Mapping[str, Any], titles: Titles
) -> Iterator[Answered]:
    """All prompts, answers and verdicts of one model, in the order of the grid's suites.

    The files must be those that the numbers were made of, which :class:`StoredAnswers` checks: stages
    write all three in the order of the prompts.
    """
    recorded = provenance["model"]["definition"]["adapter"] == "recorded"
    outcomes = {
        (row["suite"], row["prompt_id"]): (row["outcome"], row["changed"])
        for row in iter_table(root / f"metrics/outcomes/{model}.csv")
    }
    for suite, facts in provenance["suites"].items():
        paths = [root / path.format(model=model, suite=suite) for path in ROWS.values()]
        prompts = sample_prompts(iter_prompts(paths[0]), facts.get("samples", 1))
        rows = zip(prompts, iter_responses(paths[1]), iter_verdicts(paths[2]), strict=True)
        for prompt, response, verdict in rows:
            outcome, changed = outcomes[suite, prompt["prompt_id"]]
            reason = response["finish_reason"]
            yield Answered(
                titles.model(model),
                titles.suite(suite),
                prompt,
                response,
                verdict["judges"],
                outcome,
                changed,
                # A file of answers need not say how they ended; "stop" is what they get then.
                None if recorded and reason == "stop" else reason,
            )


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def page_json(value: Any) -> bytes:
    """A value as JSON that can stand inside a script element, whatever its texts hold."""
    text = _dumps(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "backslashreplace")


class Pool:
    """Different texts with their places, cut at ``longest`` characters; ``cut`` of them were longer."""

    def __init__(self, longest: int = sys.maxsize) -> None:
        self.longest, self.cut = longest, 0
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Where the text is among all."""
        more = len(text) - self.longest
        if more > 0:
            text = f"{text[: self.longest]}\n[{more} more characters are not in this page]"
        self.cut += more > 0 and text not in self.places
        return self.places.setdefault(text, len(self.places))


class PageData(NamedTuple):
    """Answers as columns, with a value for each of them: in most a place in the list of that name, or in
    ``texts``. ``verdicts`` are JSON already, which the page's script reads when an answer is opened."""

    columns: dict[str, list[Any]]
    names: dict[str, list[str]]
    texts: Pool
    verdicts: Pool

    def json(self) -> bytes:
        """All of it as one JSON object."""
        texts = {key: [*pool.places] for key, pool in zip(self._fields[2:], self[2:], strict=True)}
        return page_json({"columns": self.columns, "names": self.names, **texts}) + b"\n"

    def over_refused(self) -> Iterator[tuple[str, str, str, str, str]]:
        """The prompts without perturbation that are helpful or borderline and were refused, fully or
        partly: model, suite, category, id and outcome."""
        for place, id_ in enumerate(self.columns["id"]):
            model, suite, category, outcome, _ = (
                self.names[key][self.columns[key][place]] for key in NAMED
            )
            clean = self.columns["clean"][place] is None
            if clean and category != "harmful" and outcome in REFUSED:
                yield model, suite, category, id_, outcome.replace("_", " ")


NAMED = ("model", "suite", "category", "outcome", "perturbation")
COLUMNS = (
    *(*NAMED, "id", "clean", "prompt", "answer", "thinking", "error", "verdict", "similarity"),
    *("changed", "flipped", "disagree", "repetitions", "finish"),
)


def page_data(answers: Iterable[Answered], most: int = MOST) -> PageData:
    """The answers as columns; they are iterated twice.

    Texts are cut at ``LONGEST`` characters, or at fewer, so that all are ``most`` bytes at most.
    Offsets of evidence count UTF-16 units, as JavaScript's do.
    """
    texts, verdicts = Pool(_longest(answers, most)), Pool()
    names = {key: Pool() for key in NAMED}
    columns: dict[str, list[Any]] = {key: [] for key in COLUMNS}
    clean: dict[tuple[str, str], dict[str, int]] = {}  # by model and suite
    variants: list[tuple[int, tuple[str, str], str]] = []
    for index, row in enumerate(answers):
        id_ = sys.intern(row.prompt["prompt_id"])  # the same for every model
        perturbation, attempt = row.prompt["perturbation"], row.response["attempt"]
        if perturbation:
            variants.append((index, (row.model, row.suite), clean_id(row.prompt)))
        else:
            clean.setdefault((row.model, row.suite), {})[id_] = index
        repetitions = (perturbation or {}).get("repetitions")
        scores = [v["score"] for v in row.verdicts.values() if "truncated" in v]
        named = {
            "model": row.model,
            "suite": row.suite,
            "category": row.prompt["category"],
            "outcome": row.outcome,
            "perturbation": (perturbation or {}).get("name", "none"),
        }
        shown, said = _texts(row, texts.place)
        added = {
            **{key: names[key].place(name) for key, name in named.items()},
            **shown,
            "id": id_,
            "clean": None,
            "verdict": verdicts.place(canonical_json(_verdicts(row, said, texts.longest))),
            "similarity": scores[0] if perturbation and scores else None,
            "changed": int(row.changed) if row.changed else None,
            "flipped": 0,
            "disagree": int(_disagree(row.verdicts)),
            "repetitions": repetitions[attempt] if repetitions else None,
            "finish": row.ended,
        }
        for key, value in added.items():
            columns[key].append(value)
    outcomes = [*names["outcome"].places]
    for index, where, source in variants:
        place = columns["clean"][index] = clean[where][source]
        before, after = (outcomes[columns["outcome"][row]] for row in (place, index))
        both = before in JUDGED and after in JUDGED
        columns["flipped"][index] = int(both and (before in REFUSED) != (after in REFUSED))
    return PageData(columns, {key: [*pool.places] for key, pool in names.items()}, texts, verdicts)


def _texts(
    row: Answered, place: Callable[[str], int]
) -> tuple[dict[str, int | None], dict[str, dict[str, int | None]]]:
    """The places of all texts of an answer by column, and of those of its verdicts by judge."""

    def optional(text: object) -> int | None:
        return place(str(text)) if text else None

    error = row.response["error"]
    return {
        "prompt": place(_conversation(row.prompt["attempts"][row.response["attempt"]])),
        "answer": place(row.response["response"]),
        "thinking": optional(row.response.get("thinking")),
        "error": optional(error and f"{error['type']}: {error['message']}"),
    }, {
        judge: {"reason": optional(verdict.get("reason")), "error": optional(verdict["error"])}
        for judge, verdict in row.verdicts.items()
    }


def _longest(answers: Iterable[Answered], most: int) -> int:
    """The length at which texts are cut, so that all different ones are about so many bytes at most."""
    sizes: Counter[int] = Counter()  # bytes of all texts of a length
    seen: set[bytes] = set()

    def note(text: str) -> int:
        encoded = text.encode("utf-8", "surrogatepass")
        known = hashlib.blake2b(encoded, digest_size=16).digest()
        if known not in seen:
            seen.add(known)
            sizes[len(text)] += len(encoded)
        return 0

    def bytes_cut_at(length: int) -> int:
        return sum(size * min(length, own) // (own or 1) for own, size in sizes.items())

    for row in answers:
        _texts(row, note)
    return bisect_right(range(LONGEST + 1), most, key=bytes_cut_at) - 1


def _disagree(verdicts: Mapping[str, Verdict]) -> bool:
    """Whether two judges of refusal say different things, full or partial refusal included."""
    refused = {verdict["refused"] for verdict in verdicts.values()} - {None}
    labels = {verdict["label"] for verdict in verdicts.values()} & {*JUDGED, "degenerate"}
    return len(refused) > 1 or len(labels) > 1


def _conversation(attempt: Attempt) -> str:
    if isinstance(attempt, str):
        return attempt
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in attempt)


def _verdicts(row: Answered, said: Mapping[str, Row], longest: int) -> list[Row]:
    """The verdicts as the page shows them, with evidence that lies within what it shows; ``said`` are
    the places of their texts."""
    text = row.response["response"][:longest]
    units = [0, *accumulate(1 + (char > "\uffff") for char in text)] if not text.isascii() else None
    shown = []
    for judge, verdict in row.verdicts.items():
        spans = [
            {
                "start": hit["start"] if units is None else units[hit["start"]],
                "end": hit["end"] if units is None else units[hit["end"]],
                "says": str(hit.get("rule") or hit.get("string") or "")[:200],
            }
            for hit in verdict["evidence"]
            if isinstance(hit, dict) and 0 <= hit.get("start", -1) < hit.get("end", 0) <= len(text)
        ]
        shown.append(
            {
                "judge": judge,
                "label": verdict["label"],
                "score": verdict["score"],
                "evidence": spans,
                **said[judge],
            }
        )
    return shown
