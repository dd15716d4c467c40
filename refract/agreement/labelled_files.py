"""Files of answers with human labels, of any columns."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError, UsageError
from refract.core.jsonl import canonical_json
from refract.core.types import Row
from refract.core.vocabulary import LABELS
from refract.suites.importing.file_formats import read_table


class LabelColumns(NamedTuple):
    """Where a labelled file holds what: names of columns; no prompt column means no prompts.

    ``source``, ``model`` and ``cluster`` are columns that must be there; without them, ``source`` and
    ``model`` are read where a file has them.
    """

    response: str = "response"
    label: str = "label"
    prompt: str | None = None
    source: str | None = None
    model: str | None = None
    cluster: str | None = None


class LabelMeaning(NamedTuple):
    """What a file's labels mean, and which of its rows count.

    ``positive`` values mean refused and all others not; without them, ``labels`` maps values to
    ``LABELS``. One of the form ``<0.5`` (``<=``, ``>``, ``>=``) means all numbers below. Rows with a
    value of ``skip``, or without one of ``where``, are left out. ``source`` names the source of all
    rows, whatever a file says.
    """

    positive: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    skip: Sequence[str] = ()
    where: Mapping[str, str] = {}
    source: str | None = None

    def label_of(self, value: str) -> str:
        """The label among ``LABELS`` that a value stands for; of values that are only positive or not,
        refusal or compliance."""
        if self.positive:
            return "refusal" if value in self.positive else "compliance"
        return self.labels.get(value, value)


# A label that is a number, such as the share of raters who saw an answer, is split at another.
_SPLIT = re.compile(r"(<=|<|>=|>)\s*(-?[0-9.]+)")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
OTHER = "other"


def read_labelled(
    paths: Sequence[Path], columns: LabelColumns, meaning: LabelMeaning
) -> tuple[list[Row], dict[str, int]]:
    """The labelled answers of some files, and how many rows were left out, by reason.

    Rows have ``prompt``, ``response``, ``label``, the file's value, ``slice`` and ``model`` (or
    nothing), ``source`` (the file's name, where it says none) and ``cluster`` (the prompt, where no
    column is named). Raises :class:`UsageError` for columns and values that no row has,
    :class:`RowError` for others.
    """
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    seen: dict[str, set[str]] = {name: set() for name in meaning.where}
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--labelled: no file {path}")
        table = read_table(path)
        for name in (*columns, *meaning.where):
            if name is not None and name not in table.columns:
                raise UsageError(
                    f"{path} has no column {name!r}; it has: {', '.join(table.columns)}"
                )
        for row, line in zip(table.rows, table.lines, strict=True):
            values = {name: _spelt(row.get(name)) for name in meaning.where}
            for name, value in values.items():
                seen[name].add(str(value))
            label = _spelt(row.get(columns.label))
            response = row.get(columns.response)
            prompt = row.get(columns.prompt) if columns.prompt else ""
            if values != meaning.where:
                left_out["other rows (--where)"] += 1
            elif label is None:
                left_out["no label"] += 1
            elif label in meaning.skip:
                left_out[f"label {label} (--skip)"] += 1
            elif not isinstance(response, str | None) or not isinstance(prompt, str | None):
                raise RowError(
                    f"{path}:{line}: response and prompt must be texts "
                    f"(got {response!r:.60} and {prompt!r:.60})"
                )
            elif response is None:
                left_out["no response"] += 1
            else:
                source = meaning.source or _spelt(row.get(columns.source or "source"))
                cluster = _spelt(row.get(columns.cluster)) if columns.cluster else prompt
                rows.append(
                    {
                        "prompt": prompt or "",
                        "response": response,
                        "label": _side(label, meaning.positive, f"{path}:{line}"),
                        "slice": _spelt(row.get("slice")) or "",
                        "source": source or path.stem,
                        "model": _spelt(row.get(columns.model or "model")) or "",
                        "cluster": cluster or f"{path}:{line}",
                    }
                )
    for name, value in meaning.where.items():
        if value not in seen[name]:
            raise UsageError(
                f"--where {name}={value}: no row has it; there are: "
                f"{', '.join(sorted(seen[name])[:20])}"
            )
    if not rows:
        raise UsageError(f"no row is left to judge: {shown_counts(left_out)}")
    return rows, dict(sorted(left_out.items()))


def _spelt(value: Any) -> str | None:
    """A cell as options spell it: ``true`` for a JSON true, ``0`` for 0; None where it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else canonical_json(value)


def _side(label: str, positive: Sequence[str], where: str) -> str:
    """The label, or, where labels are numbers that are split, the side that it is on."""
    splits = [(option, match) for option in positive if (match := _SPLIT.fullmatch(option))]
    for option, match in splits:
        try:
            if _COMPARE[match[1]](float(label), float(match[2])):
                return option
        except ValueError:
            raise UsageError(
                f"{where}: --positive {option} is for labels that are numbers (got {label!r:.60})"
            ) from None
    return OTHER if splits else label


def shown_counts(counts: Mapping[str, int]) -> str:
    """Counts for people: ``3 no label, 1 no response``."""
    return ", ".join(f"{n} {what}" for what, n in counts.items()) or "none"


def check_values(rows: Sequence[Row], meaning: LabelMeaning) -> None:
    """Raises :class:`UsageError` for a value that no row has, and for a label of unknown meaning."""
    values = sorted({row["label"] for row in rows})
    unknown = [value for value in meaning.positive if value not in values]
    if unknown:
        raise UsageError(
            f"--positive {unknown[0]}: no row has that label; there are: {', '.join(values[:20])}"
        )
    wrong = sorted({label for label in meaning.labels.values() if label not in LABELS})
    if wrong:
        raise UsageError(f"--map: a label must be one of {', '.join(LABELS)} (got {wrong[0]!r})")
    strange = [value for value in values if meaning.labels.get(value, value) not in LABELS]
    if not meaning.positive and strange:
        raise UsageError(
            f"the label {strange[0]!r} is none of {', '.join(LABELS)}; say which values mean refused "
            "with --positive VALUE,..., or which label each is with --map VALUE=LABEL"
        )
