"""Published labels of published answers, as a judge.

A label belongs to one answer to one prompt. It is given where the file has that prompt, by id or by
text, with exactly that answer; anything else is not judged, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.errors import ParamsError
from refract.judges.cases import Case, unjudged
from refract.models.recorded import ID_COLUMNS, PROMPT_COLUMNS, RESPONSE_COLUMNS, read_answers
from refract.rows.jsonl import Row
from refract.rows.labels import JUDGED, LABELS, REFUSED

VERSION = "1"
SETTINGS = (
    "path",  # a file of labelled answers (.csv, .jsonl, .json), or a list of such files
    "label_column",  # the column of labels
    "labels",  # what stands there: a label of LABELS, or null for none
    "where",  # column: value, to take some rows of a file
    "id_column",  # default: the first of ID_COLUMNS that the file has
    "prompt_column",  # default: the first of PROMPT_COLUMNS
    "response_column",  # default: the first of RESPONSE_COLUMNS; null: labels hold for any answer
)


def judge_recorded(cases: Sequence[Case], definition: Mapping[str, Any]) -> list[Row]:
    """One verdict for each case; see the module. Raises :class:`ParamsError`."""
    known = _known(definition)
    any_answer = _any_answer(definition)
    verdicts = []
    for case in cases:
        answer = None if any_answer else case.response["response"]
        labels = known.get(("id", case.prompt["prompt_id"], answer))
        if labels is None:
            labels = known.get(("prompt", case.asked, answer))
        if labels is None:
            verdicts.append(unjudged("the file has no label for this answer to this prompt"))
        elif len(labels) > 1:
            verdicts.append(unjudged("the file has labels for this answer that differ"))
        else:
            (label,) = labels
            verdict = unjudged(None if label else "the file's label says nothing about refusal")
            refused = label in REFUSED if label in JUDGED else None
            verdicts.append({**verdict, "label": label, "refused": refused})
    return verdicts


def recorded_version(definition: Mapping[str, Any]) -> str:
    """The version of this code, and the SHA-256 of the files' contents."""
    digest = hashlib.sha256(b"".join(_read(path) for path in _paths(definition)))
    return f"{VERSION}, labels {digest.hexdigest()}"


def check_recorded(definition: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for a definition that cannot be used."""
    _paths(definition)
    if not isinstance(definition.get("label_column"), str):
        raise ParamsError(f"label_column must name a column (got {definition.get('label_column')})")
    labels = definition.get("labels")
    if not isinstance(labels, Mapping) or not labels:
        raise ParamsError(f"labels must map the file's values to labels (got {labels!r})")
    for value, label in labels.items():
        if label is not None and label not in LABELS:
            raise ParamsError(
                f"labels: {value!r} must be {', '.join(LABELS)} or null (got {label!r})"
            )


def _any_answer(definition: Mapping[str, Any]) -> bool:
    return "response_column" in definition and definition["response_column"] is None


def _paths(definition: Mapping[str, Any]) -> list[Path]:
    given = definition.get("path")
    paths = given if isinstance(given, list) else [given]
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ParamsError(f"path must name a file of labelled answers, or several (got {given!r})")
    return [Path(path) for path in paths]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParamsError(f"{path} cannot be read ({error.strerror})") from None


def _known(definition: Mapping[str, Any]) -> dict[tuple[str, str, Any], set[str | None]]:
    """The labels of each (id or prompt, answer); one, unless the files disagree."""
    check_recorded(definition)
    mapping = {_spelt(value): label for value, label in definition["labels"].items()}
    known: dict[tuple[str, str, Any], set[str | None]] = {}
    for path in _paths(definition):
        try:
            rows = read_answers(path)
        except (OSError, ValueError) as error:
            raise ParamsError(f"{path} cannot be read: {error}") from None
        for column, value in (definition.get("where") or {}).items():
            rows = [row for row in rows if _spelt(row.get(column)) == _spelt(value)]
        present = sorted({column for row in rows for column in row})
        response = (
            None
            if _any_answer(definition)
            else _column(path, present, definition, "response_column", RESPONSE_COLUMNS)
        )
        label_column = definition["label_column"]
        if label_column not in present or (response is None and not _any_answer(definition)):
            raise ParamsError(
                f"{path} needs the label column {label_column!r} and a response column (set "
                "response_column: null if its labels hold for any answer); "
                f"it has {', '.join(present) or 'no rows'}"
            )
        by = {
            "id": _column(path, present, definition, "id_column", ID_COLUMNS),
            "prompt": _column(path, present, definition, "prompt_column", PROMPT_COLUMNS),
        }
        for row in rows:
            value = _spelt(row.get(label_column))
            if value not in mapping:
                raise ParamsError(
                    f"{path}: {label_column!r} holds {value!r}, which labels does not map; it maps "
                    f"{', '.join(mapping)}"
                )
            answer = None if response is None else row.get(response)
            for kind, column in by.items():
                if column is not None and row.get(column) is not None:
                    key = (kind, str(row[column]), answer)
                    known.setdefault(key, set()).add(mapping[value])
    return known


def _column(
    path: Path,
    present: Sequence[str],
    definition: Mapping[str, Any],
    setting: str,
    usual: Sequence[str],
) -> str | None:
    named = definition.get(setting)
    if named is not None and named not in present:
        raise ParamsError(f"{path} has no column {named!r}; it has {', '.join(present)}")
    return named or next((column for column in usual if column in present), None)


def _spelt(value: Any) -> str:
    """A value as params.yaml and CSV files spell it: ``true`` for a JSON true."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
