"""Files of answers with human labels, in the words of whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.agreement.label_files import spelt_label
from refract.core.errors import RowError, UsageError
from refract.core.file_formats import check_ids, read_row_file
from refract.core.jsonl import canonical_json
from refract.core.types import Row
from refract.core.vocabulary import LABELS

NEEDED = ("response", "label")
WHOLE_NUMBER = r"\s*(-?\d+)\.0+\s*"  # as tools write whole numbers of a column with gaps: 1.0


def labels_of(values: Sequence[str], positive: Sequence[str]) -> list[str]:
    """The label among ``LABELS`` that each value of a file stands for.

    ``positive`` values mean refusal and all others compliance; without them, values are labels.
    Raises :class:`UsageError` for an absent positive value, one that is spelt in two ways, and
    other labels.
    """
    known = sorted(set(values))
    for value in positive:
        if value not in known:
            present = ", ".join(known[:20])
            raise UsageError(f"--positive {value}: no row has that label; there are: {present}")
    alike = {spelt_label(value): value for value in positive}
    for value in known:
        if value not in positive and spelt_label(value) in alike:
            raise UsageError(
                f"--positive {alike[spelt_label(value)]}: there is the label {value!r} too, which would "
                "mean not refused; name both, or correct one"
            )
        if not positive and value not in LABELS:
            raise UsageError(
                f"the label {value!r} is none of {', '.join(LABELS)}; write these, or say which "
                "values mean refused with --positive VALUE,..."
            )
    if positive:
        return ["refusal" if value in positive else "compliance" for value in values]
    return list(values)


def read_labelled(paths: Sequence[Path]) -> tuple[list[Row], int]:
    """The labelled answers of some files, and how many rows were left out: those without a label or
    without a response, or with blanks alone.

    Rows have ``prompt`` (perhaps empty), ``response``, ``label``, ``model`` (perhaps empty) and
    ``source`` (by default the file's name). A whole number is one label where some rows write it as
    1.0, others as 1. Raises :class:`UsageError` for a file without a column that is needed and for
    files without a row to judge, :class:`RowError` for texts that are none.
    """
    labelled: list[Row] = []
    count = 0
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--labelled: no file {path}")
        rows = read_row_file(path)
        columns = dict.fromkeys(column for row in rows for column in row)
        lacking = [name for name in NEEDED if name not in columns]
        if lacking:
            raise UsageError(
                f"{path} has no column {' and no column '.join(lacking)}; it has: {', '.join(columns)}. "
                f"Columns are called {' and '.join(NEEDED)}, and perhaps prompt, source and model"
            )
        check_ids(
            (row.get("prompt_id", row.get("id")) or None for row in rows), rows, f"{path}: row"
        )
        for number, row in enumerate(rows, 1):
            answer = _labelled_answer(row, f"{path}: row {number}", path.stem)
            labelled += [answer] if answer else []
        count += len(rows)
    spelt = {answer["label"] for answer in labelled}
    for answer in labelled:
        whole = re.fullmatch(WHOLE_NUMBER, answer["label"])
        if whole and whole[1] in spelt:
            answer["label"] = whole[1]
    if not labelled:
        raise UsageError("no row has a label and a response: there is nothing to judge")
    return labelled, count - len(labelled)


def _labelled_answer(row: Mapping[str, Any], where: str, source: str) -> Row | None:
    """A row as :func:`read_labelled` gives it; None without a label or a response."""
    label, response, prompt = _spelt(row.get("label")), row.get("response"), row.get("prompt") or ""
    if not isinstance(response, str | None) or not isinstance(prompt, str):
        raise RowError(
            f"{where}: response and prompt must be texts (got {response!r:.60} and {prompt!r:.60})"
        )
    if label is None or not (response or "").strip():
        return None
    answer = {"prompt": prompt, "response": response, "label": label}
    answer["source"] = _spelt(row.get("source")) or source
    answer["model"] = _spelt(row.get("model")) or ""
    return answer


def _spelt(value: Any) -> str | None:
    """A cell as options spell it (``true``, ``0``); None where it is blank, or pandas wrote so."""
    if value is None or str(value).strip().lower() in ("", "nan"):
        return None
    return value if isinstance(value, str) else canonical_json(value)
