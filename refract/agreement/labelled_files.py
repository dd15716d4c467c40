"""Files of answers with human labels, of any columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError, UsageError
from refract.core.jsonl import canonical_json
from refract.core.types import Row
from refract.core.vocabulary import LABELS
from refract.suites.importing.file_formats import read_table


class LabelMeaning(NamedTuple):
    """What a file's labels mean: ``positive`` values refused and all others not; without them,
    ``labels`` maps values to ``LABELS``. Rows with a value of ``skip`` are left out."""

    positive: Sequence[str] = ()
    labels: Mapping[str, str] = {}
    skip: Sequence[str] = ()

    def label_of(self, value: str) -> str:
        """The label among ``LABELS`` that a value stands for; of values that are only positive or not,
        refusal or compliance."""
        if self.positive:
            return "refusal" if value in self.positive else "compliance"
        return self.labels.get(value, value)

    def check(self, values: Sequence[str]) -> None:
        """Raises :class:`UsageError` unless all values have a meaning, and all with one are there."""
        unknown = [value for value in self.positive if value not in values]
        if unknown:
            raise UsageError(
                f"--positive {unknown[0]}: no row has that label; there are: "
                f"{', '.join(values[:20])}"
            )
        for label in self.labels.values():
            if label not in LABELS:
                raise UsageError(
                    f"--map: a label must be one of {', '.join(LABELS)} (got {label!r})"
                )
        strange = [value for value in values if self.label_of(value) not in LABELS]
        if strange:
            raise UsageError(
                f"the label {strange[0]!r} is none of {', '.join(LABELS)}; say which values mean "
                "refused with --positive VALUE,..., or which label each is with --map VALUE=LABEL"
            )


def read_labelled(
    paths: Sequence[Path], response: str, label: str, prompt: str | None, skip: Sequence[str] = ()
) -> tuple[list[Row], dict[str, int]]:
    """The labelled answers of some files, and how many rows were left out, by reason.

    ``response``, ``label`` and ``prompt`` name columns. Rows have ``prompt`` and ``response``,
    ``label``, the file's value, ``model`` (or nothing) and ``source`` (the file's name, where it says
    none). Raises :class:`UsageError` for a column that a file lacks and files without a row to judge,
    :class:`RowError` for others.
    """
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--labelled: no file {path}")
        table = read_table(path)
        for name in filter(None, (response, label, prompt)):
            if name not in table.columns:
                raise UsageError(
                    f"{path} has no column {name!r}; it has: {', '.join(table.columns)}"
                )
        for row, line in zip(table.rows, table.lines, strict=True):
            value, answer = _spelt(row.get(label)), row.get(response)
            asked = (row.get(prompt) if prompt else "") or ""
            if not isinstance(answer, str | None) or not isinstance(asked, str):
                raise RowError(
                    f"{path}:{line}: response and prompt must be texts "
                    f"(got {answer!r:.60} and {asked!r:.60})"
                )
            if value is None:
                left_out["no label"] += 1
            elif value in skip:
                left_out[f"label {value} (--skip)"] += 1
            elif answer is None:
                left_out["no response"] += 1
            else:
                source, model = _spelt(row.get("source")), _spelt(row.get("model"))
                given = {"prompt": asked, "response": answer, "label": value}
                rows.append({**given, "source": source or path.stem, "model": model or ""})
    if not rows:
        raise UsageError(f"no row is left to judge: {shown_counts(left_out)}")
    return rows, dict(sorted(left_out.items()))


def _spelt(value: Any) -> str | None:
    """A cell as options spell it: ``true`` for a JSON true, ``0`` for 0; None where it is empty."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else canonical_json(value)


def shown_counts(counts: Mapping[str, int]) -> str:
    """Counts for people: ``3 no label, 1 no response``."""
    return ", ".join(f"{n} {what}" for what, n in counts.items()) or "none"
