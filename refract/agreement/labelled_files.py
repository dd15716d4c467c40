"""Files of answers with human labels, of any columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.agreement.label_files import spelt_label
from refract.core.errors import RowError, UsageError
from refract.core.file_formats import check_ids, read_row_file
from refract.core.jsonl import canonical_json
from refract.core.types import Row
from refract.core.vocabulary import LABELS


def labels_of(
    values: Sequence[str], positive: Sequence[str], labels: Mapping[str, str]
) -> list[str]:
    """The label among ``LABELS`` that each value of a file stands for.

    ``positive`` values mean refusal and all others compliance; without them, ``labels`` maps values
    to labels. Raises :class:`UsageError` for an absent positive value, one that is spelt in two ways,
    and other labels.
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
    if positive:
        return ["refusal" if value in positive else "compliance" for value in values]
    for label in (*labels.values(), *(labels.get(value, value) for value in known)):
        if label not in LABELS:
            raise UsageError(
                f"the label {label!r} is none of {', '.join(LABELS)}; say which values mean refused "
                "with --positive VALUE,..., or which label each is with --map VALUE=LABEL"
            )
    return [labels.get(value, value) for value in values]


def read_labelled(
    paths: Sequence[Path], response: str, label: str, prompt: str | None, skip: Sequence[str] = ()
) -> tuple[list[Row], dict[str, int]]:
    """The labelled answers of some files, and how many rows were left out, by reason.

    ``response``, ``label`` and ``prompt`` name columns; without ``prompt``, a column of that name
    is read where there is one. Rows have ``prompt``, ``response``, ``label``, ``model`` (perhaps
    empty) and ``source`` (by default the file's name). Raises :class:`UsageError` for a column that
    a file lacks and for files without a row to judge, :class:`RowError` for texts that are none.
    """
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--labelled: no file {path}")
        table = read_row_file(path)
        present = dict.fromkeys(column for row in table for column in row)
        for name in filter(None, (response, label, prompt)):
            if name not in present:
                raise UsageError(
                    f"{path} has no column {name!r}; it has: {', '.join(present)}; name it with "
                    "--response-column, --label-column or --prompt-column"
                )
        columns = (response, label, prompt or "prompt")
        kept, reasons = _labelled_rows(table, columns, f"{path}: row", skip, path.stem)
        rows += kept
        left_out.update(reasons)
    if not rows:
        raise UsageError(f"no row is left to judge: {shown_counts(left_out)}")
    return rows, dict(sorted(left_out.items()))


def _labelled_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: tuple[str, str, str],
    where: str,
    skip: Sequence[str],
    source: str,
) -> tuple[list[Row], Counter[str]]:
    """The labelled answers among rows, as :func:`read_labelled` gives them. ``columns`` hold
    response, label and prompt, ``where`` stands before the number of a row in messages, ``source``
    is that of rows that name none."""
    response, label, prompt = columns
    kept: list[Row] = []
    left_out: Counter[str] = Counter()
    ids = [row.get("prompt_id", row.get("id")) or None for row in rows]
    check_ids(ids, rows, where)
    for number, row in enumerate(rows, 1):
        value, answer = _spelt(row.get(label)), row.get(response)
        asked = row.get(prompt) or ""
        if not isinstance(answer, str | None) or not isinstance(asked, str):
            raise RowError(
                f"{where} {number}: response and prompt must be texts (got {answer!r:.60} and "
                f"{asked!r:.60})"
            )
        if value is None:
            left_out["no label"] += 1
        elif value in skip:
            left_out[f"label {value} (--skip)"] += 1
        elif answer is None:
            left_out["no response"] += 1
        else:
            read = {"prompt": asked, "response": answer, "label": value}
            read["source"] = _spelt(row.get("source")) or source
            read["model"] = _spelt(row.get("model")) or ""
            kept.append(read)
    return kept, left_out


def _spelt(value: Any) -> str | None:
    """A cell as options spell it (``true``, ``0``); None where it is empty, or pandas wrote so."""
    if value is None or value == "" or str(value).lower() == "nan":
        return None
    return value if isinstance(value, str) else canonical_json(value)


def shown_counts(counts: Mapping[str, int]) -> str:
    """Counts for people: ``3 no label, 1 no response``."""
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"
