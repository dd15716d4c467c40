"""Every prompt, answer and verdict, as the page's script reads them: columns, and each text once.

Rows are read one after another: columns stay in memory, and texts as far as the page holds them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import canonical_json, iter_prompts, iter_responses, iter_verdicts
from refract.core.played import with_own_answers
from refract.core.tables import iter_table
from refract.core.tool_calls import with_calls
from refract.core.types import (
    OWN_ANSWER,
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    clean_id,
    conversation_text,
    is_last,
    sample_prompts,
)
from refract.core.vocabulary import JUDGED
from refract.report.view import View
from refract.results.current import ROWS, rows_missing, rows_note
from refract.suites.draws import draw_of

# Longer texts are cut in the page, which says so; the rows themselves are whole.
LONGEST = 20_000
NAMED = ("model", "suite", "category", "outcome", "perturbation")
TEXTS = ("prompt", "answer", "thinking", "error")
COLUMNS = (*NAMED, "id", "clean", *TEXTS, "verdict", "changed", "disagree", "finish")
# What stands as the perturbation of those turns of a conversation that no headline counts.
EARLIER = "earlier turn"


class Answered(NamedTuple):
    """One prompt variant with one model's answer to it. ``ended`` says how the answer
    ended, where that is known."""

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

    Raises :class:`RowError` where the texts are not here, or not those that the numbers were made
    of."""

    def __init__(self, root: Path, view: View) -> None:
        missing = rows_missing(root, view.provenance)
        if missing:
            raise RowError(rows_note(missing))
        self.root, self.view = root, view

    def __iter__(self) -> Iterator[Answered]:
        for model, facts in self.view.provenance.items():
            recorded = facts["model"]["definition"]["adapter"] == "recorded"
            outcomes = {}
            for row in iter_table(self.root / f"metrics/outcomes/{model}.csv"):
                outcomes[row["suite"], row["prompt_id"]] = row["outcome"], row["changed"]
            for suite, about in facts["suites"].items():
                names = [path.format(model=model, suite=suite) for path in ROWS.values()]
                prompts, responses, verdicts = (self.root / name for name in names)
                earlier: dict[str, Any] = {}
                # Stages write all three in the order of the prompts.
                for prompt, response, verdict in zip(
                    sample_prompts(iter_prompts(prompts), draw_of(about).samples),
                    iter_responses(responses),
                    iter_verdicts(verdicts),
                    strict=True,
                ):
                    # A file of answers need not say how they ended; "stop" is what they get then.
                    reason = response["finish_reason"]
                    ended = None if recorded and reason == "stop" else reason
                    outcome, changed = outcomes[suite, prompt["prompt_id"]]
                    yield Answered(
                        model=model,
                        suite=self.view.label(suite),
                        prompt=with_own_answers(prompt, response, earlier),
                        response=response,
                        verdicts=verdict["judges"],
                        outcome=outcome,
                        changed=changed,
                        ended=ended,
                    )


def page_json(value: Any) -> bytes:
    """A value as JSON that can stand inside a script element, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "backslashreplace")


class PageData(NamedTuple):
    """Answers as columns, with a value for each of them: in most a place in the list of
    that name, or in ``texts``, of which ``cut`` are cut. ``verdicts`` are JSON already, which
    the page's script reads when an answer is opened. ``scripts`` are the user's turns of conversations
    that are played, by the place of the whole."""

    columns: dict[str, list[Any]]
    names: dict[str, list[str]]
    texts: list[str]
    verdicts: list[str]
    cut: int
    scripts: dict[int, str]

    def json(self, **more: object) -> bytes:
        """All of it as one JSON object, and ``more`` with it."""
        data = {"columns": self.columns, "names": self.names, "texts": self.texts}
        return page_json({**data, "verdicts": self.verdicts, **more}) + b"\n"

    def clean(self) -> Iterator[dict[str, str]]:
        """What became of the answers to prompts without perturbation, in the order of the
        columns: the names of each, its id and its prompt, without answers of the model's own."""
        for place, id_ in enumerate(self.columns["id"]):
            row = {key: self.names[key][self.columns[key][place]] for key in NAMED}
            if self.columns["clean"][place] is None and row["perturbation"] != EARLIER:
                text = self.columns["prompt"][place]
                row["prompt"] = self.scripts.get(text, self.texts[text])
                yield row | {"id": id_}


def page_data(answers: Iterable[Answered]) -> PageData:
    """The answers as columns."""
    places: dict[str, dict[str, int]] = {key: {} for key in (*NAMED, "texts", "verdicts")}
    columns: dict[str, list[Any]] = {key: [] for key in COLUMNS}
    scripts: dict[int, str] = {}
    cut = 0

    def place(text: str, key: str) -> int:
        return places[key].setdefault(text, len(places[key]))

    for row in answers:
        texts: dict[str, int | None] = {}
        for key, text in _texts(row).items():
            if text is None:
                texts[key] = None
                continue
            if len(text) > LONGEST:
                more = len(text) - LONGEST
                text = f"{text[:LONGEST]}\n[{more} more characters are not in this page]"
                cut += text not in places["texts"]
            texts[key] = place(text, "texts")
        if "script" in row.prompt and texts["prompt"] is not None:
            asked = row.prompt["script"][row.response["attempt"]]
            if not isinstance(asked, str):
                asked = [message for message in asked if message != OWN_ANSWER]
            scripts[texts["prompt"]] = conversation_text(asked)
        perturbation: Row = row.prompt["perturbation"] or {}
        # Labels that say different things of refusal, those of judges of something else aside.
        of_answers = [verdict for verdict in row.verdicts.values() if "reads" not in verdict]
        refused = {verdict["refused"] for verdict in of_answers} - {None}
        labels = {verdict["label"] for verdict in of_answers} & {*JUDGED, "degenerate"}
        shown = [_verdict(row, judge, texts=texts) for judge in row.verdicts]
        named = perturbation.get("name", "none") if is_last(row.prompt) else EARLIER
        values = {
            "model": place(row.model, "model"),
            "suite": place(row.suite, "suite"),
            "category": place(row.prompt["category"], "category"),
            "outcome": place(row.outcome, "outcome"),
            "perturbation": place(named, "perturbation"),
            "id": sys.intern(row.prompt["prompt_id"]),  # the same for every model
            "clean": sys.intern(clean_id(row.prompt)) if perturbation else None,
            **{key: texts[key] for key in TEXTS},
            "verdict": place(canonical_json(shown), "verdicts"),
            "changed": int(row.changed) if row.changed else None,
            "disagree": int(len(refused) > 1 or len(labels) > 1),
            "finish": row.ended,
        }
        for column, value in values.items():
            columns[column].append(value)
    names = {key: list(places[key]) for key in NAMED}
    shown_texts, verdicts = list(places["texts"]), list(places["verdicts"])
    return PageData(columns, names, shown_texts, verdicts, cut, scripts)


def _texts(row: Answered) -> dict[str, str | None]:
    """All texts of an answer that the page shows, those of a verdict by judge and kind."""
    response, error = row.response, row.response["error"]
    texts: dict[str, Any] = {
        "thinking": response.get("thinking"),
        "error": error and f"{error['type']}: {error['message']}",
    }
    for judge, verdict in row.verdicts.items():
        texts |= {f"{judge} reason": verdict.get("reason"), f"{judge} error": verdict["error"]}
    return {
        "prompt": conversation_text(row.prompt["attempts"][response["attempt"]]),
        "answer": with_calls(response),
        **{key: str(text) if text else None for key, text in texts.items()},
    }


def _verdict(row: Answered, judge: str, texts: Mapping[str, int | None]) -> Row:
    """A verdict with the places of its texts, and evidence (in characters) that the page shows."""
    verdict = row.verdicts[judge]
    text = row.response["thinking"] if "reads" in verdict else row.response["response"]
    end = min(LONGEST, len(text or ""))
    evidence = []
    for hit in verdict["evidence"]:
        if isinstance(hit, dict) and 0 <= hit.get("start", -1) < hit.get("end", 0) <= end:
            says = str(hit.get("rule") or hit.get("string") or "")[:200]
            evidence.append({"start": hit["start"], "end": hit["end"], "says": says})
    return {
        "judge": judge,
        **({"reads": "thinking"} if "reads" in verdict else {}),
        "label": verdict["label"],
        "score": verdict["score"],
        "evidence": evidence,
        "reason": texts[f"{judge} reason"],
        "error": texts[f"{judge} error"],
    }
