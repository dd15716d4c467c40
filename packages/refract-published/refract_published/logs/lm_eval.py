"""lm-evaluation-harness's samples as rows of answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import RowError
from refract.core.file_formats import Log, read_row_file
from refract.core.types import Row
from refract_published.logs.messages import sent


def read(path: Path) -> Log:
    """The answers in a file of samples, which says nothing of its run. Raises RowError."""
    try:
        return Log(lm_eval_rows(read_row_file(path)))
    except KeyError as error:
        raise RowError(
            f"{path}: has no {error}; answers are in samples_*.jsonl, which --log_samples writes"
        ) from None
    except RowError as error:
        raise RowError(f"{path}: {error}") from None


def lm_eval_rows(rows: Sequence[Row]) -> list[Row]:
    """A row for each answer in lm-evaluation-harness's samples, before its filters.

    ``prompt`` is what was sent: with a chat template, the rendered text. The fields of the task's
    data are ``doc.NAME``; ``repeat`` numbers the answers to a prompt. These files state neither why
    an answer ended nor its tokens. Raises RowError for a task that generates no text or sends several
    requests for a document, and for two tasks, shards or runs in one file, whose numbers start anew."""
    answers: dict[tuple[str, int], tuple[int, Row]] = {}
    for number, row in enumerate(rows, 1):
        id_ = str(row["doc_id"])
        responses = row["resps"]
        if not isinstance(responses, list):
            raise RowError(f"doc_id {id_}: resps must be a list (got {responses!r:.40})")
        texts = responses[0] if responses else None
        for repeat, text in enumerate(texts or [None] if isinstance(texts, list) else [texts], 1):
            if not isinstance(text, str | None):
                raise RowError(
                    f"doc_id {id_}: no generated text (got {text!r:.40}); tasks that compare "
                    "likelihoods have nothing to judge"
                )
            # null: a refusal or a filter of the provider, or an error; the file does not say.
            answer = {"id": id_, "repeat": repeat, "response": text}
            answer |= _asked(row["arguments"])
            if isinstance(row["doc"], dict):
                answer |= {f"doc.{name}": value for name, value in row["doc"].items()}
            # A file has a row for each of the task's filters.
            first, known = answers.setdefault((id_, repeat), (number, answer))
            if known != answer:
                differing = [name for name in answer if answer.get(name) != known.get(name)]
                raise RowError(
                    f"rows {first} and {number} are both doc_id {id_} and differ in "
                    f"{', '.join(differing)}: two tasks, shards or runs in one file; "
                    "give each a file of its own"
                )
        if len(responses) > 1:
            raise RowError(f"doc_id {id_}: answers to {len(responses)} requests; one can be judged")
    return [answer for _, answer in answers.values()]


def _asked(arguments: Any) -> Row:
    """What was sent, and its ``images`` where it has any."""
    if isinstance(arguments, list):  # before version 0.4.3
        first = next(iter(arguments), None)
        return sent(first[0] if isinstance(first, list) and first else first)
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    text = first.get("arg_0") if isinstance(first, dict) else None
    if isinstance(text, list) and len(text) == 1:
        text = text[0]
    return sent(text)
