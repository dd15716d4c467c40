"""Published labels of published answers, as a judge.

A label belongs to one answer to one prompt. It is given where the file has that prompt, by id or by
text, with exactly that answer; anything else is not judged, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from refract.core.errors import ParamsError
from refract.core.settings import Settings
from refract.core.types import Label, Verdict
from refract.core.vocabulary import LABELS, refusal_of
from refract.judges.cases import Case, Judge, unjudged
from refract.models.recorded import ID_COLUMNS, PROMPT_COLUMNS, RESPONSE_COLUMNS, read_answers

VERSION = "1"
ABSENT = "no label for this answer to this prompt"
# (id or prompt, its text), and the answer or None for any, to labels: one, unless files disagree.
Known = dict[tuple[tuple[str, str], Any], set[str | None]]


class RecordedLabelsSettings(Settings):
    """Where the labels are and what they mean."""

    path: str | list[str] = Field(
        description="labelled answers",
        json_schema_extra={"allowed": "a file (.csv, .jsonl, .json) or a list of such files"},
    )
    label_column: str = Field(
        description="the column of labels", json_schema_extra={"allowed": "the name of a column"}
    )
    labels: dict[Any, Label | None] = Field(
        min_length=1,
        description="what the values of that column mean",
        json_schema_extra={
            "allowed": f"a mapping of the file's values to {', '.join(LABELS)} or null (no label)"
        },
    )
    where: dict[str, Any] | None = Field(
        None,
        description="to take some rows of a file",
        json_schema_extra={"allowed": "column: value, or null"},
    )
    id_column: str | None = Field(
        None, description=f"null: the first of {', '.join(ID_COLUMNS)} that the file has"
    )
    prompt_column: str | None = Field(
        None, description=f"null: the first of {', '.join(PROMPT_COLUMNS)} that the file has"
    )
    response_column: str | None = Field(
        None,
        description=f"default: the first of {', '.join(RESPONSE_COLUMNS)} that the file has; null, "
        "where it is written out: labels hold for any answer to the prompt",
    )


class RecordedLabels(Judge):
    """See the module."""

    Settings = RecordedLabelsSettings
    FAMILY = "refusal"

    def __init__(self, name: str, settings: RecordedLabelsSettings) -> None:
        super().__init__(name, settings)
        paths = settings.path if isinstance(settings.path, list) else [settings.path]
        self._paths = [Path(path) for path in paths]
        self._where = f"judges.{name}"
        self._any_answer = (
            "response_column" in settings.model_fields_set and settings.response_column is None
        )
        try:
            content = b"".join(path.read_bytes() for path in self._paths)
        except OSError as error:
            raise ParamsError(
                f"{self._where}: {error.filename} cannot be read ({error.strerror})"
            ) from None
        self.version = f"{VERSION}, labels {hashlib.sha256(content).hexdigest()}"

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case; see the module. Raises :class:`ParamsError`."""
        known: Known = {}
        for path in self._paths:
            self._read(path, known)
        return [self._verdict(case, known) for case in cases]

    def _verdict(self, case: Case, known: Known) -> Verdict:
        answer = None if self._any_answer else case.answer
        asked = (("id", case.prompt["prompt_id"]), ("prompt", case.prompt_text))
        labels = next((known[key, answer] for key in asked if (key, answer) in known), set())
        if len(labels) != 1:
            what = "labels for this answer that differ"
            return unjudged(f"the file has {what if labels else ABSENT}")
        (label,) = labels
        if label is None:
            return unjudged("the file's label says nothing about refusal")
        return {**unjudged(), "label": label, "refused": refusal_of(label)}

    def _read(self, path: Path, known: Known) -> None:
        """Adds the labels of a file."""
        given = self.settings
        mapping = {_spelt(value): label for value, label in given.labels.items()}
        try:
            rows = read_answers(path)
        except (OSError, ValueError) as error:
            raise ParamsError(f"{self._where}: {path} cannot be read: {error}") from None
        for column, wanted in (given.where or {}).items():
            rows = [row for row in rows if _spelt(row.get(column)) == _spelt(wanted)]
        present = sorted({column for row in rows for column in row})
        response = None
        if not self._any_answer:
            response = self._column(path, present, given.response_column, RESPONSE_COLUMNS)
        if given.label_column not in present or (response is None and not self._any_answer):
            raise ParamsError(
                f"{self._where}: {path} needs the label column {given.label_column!r} and a "
                "response column (set response_column: null if its labels hold for any "
                f"answer); it has {', '.join(present) or 'no rows'}"
            )
        columns = {
            "id": self._column(path, present, given.id_column, ID_COLUMNS),
            "prompt": self._column(path, present, given.prompt_column, PROMPT_COLUMNS),
        }
        for row in rows:
            value = _spelt(row.get(given.label_column))
            if value not in mapping:
                raise ParamsError(
                    f"{self._where}: {path}: {given.label_column!r} holds {value!r}, which "
                    f"labels does not map; it maps {', '.join(mapping)}"
                )
            answer = None if response is None else row.get(response)
            for kind, column in columns.items():
                if column is not None and row.get(column) is not None:
                    key = (kind, str(row[column])), answer
                    known.setdefault(key, set()).add(mapping[value])

    def _column(
        self, path: Path, present: Sequence[str], named: str | None, usual: Sequence[str]
    ) -> str | None:
        if named is not None and named not in present:
            raise ParamsError(
                f"{self._where}: {path} has no column {named!r}; it has {', '.join(present)}"
            )
        return named or next((column for column in usual if column in present), None)


def _spelt(value: Any) -> str:
    """A value as params.yaml and CSV files spell it: ``true`` for a JSON true."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
