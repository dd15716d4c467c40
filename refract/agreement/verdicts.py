"""Verdict files of any command, and the pairs of two of them that are about the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import iter_rows
from refract.core.types import Row

# Beside the prompt's id, what tells answers apart where both files say it.
SCOPE = ("model", "suite")


class Verdict(NamedTuple):
    """One judge's verdict on one answer; ``label`` is None where it gave none.

    ``refused`` is None where the label says nothing of refusal. ``model`` and ``suite`` are None
    where the file does not say.
    """

    model: str | None
    suite: str | None
    prompt_id: str
    label: str | None
    refused: bool | None


class Join(NamedTuple):
    """Verdicts on the same answers, and the keys of those that only one side has.

    ``by`` names what they were joined by.
    """

    by: tuple[str, ...]
    pairs: list[tuple[Verdict, Verdict]]
    only_first: list[tuple[str, ...]]
    only_second: list[tuple[str, ...]]


def read_verdicts(path: Path, judge: str | None = None) -> list[Verdict]:
    """The verdicts of a JSONL file, or of all those in a folder.

    Rows are those of ``data/verdicts``, of ``refract judge`` or of ``refract run --rows``. Where
    rows hold verdicts of several judges, ``judge`` names the one to take. Files below a folder
    called ``verdicts``, and those of a folder, lie at ``MODEL/SUITE.jsonl``. Raises
    :class:`RowError`.
    """
    if path.is_dir():
        files = sorted(path.rglob("*.jsonl"))
        if not files:
            raise RowError(f"{path}: holds no JSONL files")
        return [verdict for file in files for verdict in _read_file(file, judge, placed=True)]
    return _read_file(path, judge, placed=path.absolute().parent.parent.name == "verdicts")


def _read_file(path: Path, judge: str | None, *, placed: bool) -> list[Verdict]:
    verdicts = []
    place = {"model": path.absolute().parent.name, "suite": path.stem} if placed else {}
    for number, row in enumerate(iter_rows(path), 1):
        where = f"{path}: row {number}"
        prompt_id = row.get("prompt_id", row.get("id"))
        if not isinstance(prompt_id, str):
            raise RowError(f"{where} needs a text as 'prompt_id' or 'id' (got {prompt_id!r:.60})")
        verdict = _verdict_of(row, judge, where)
        label, refused = verdict.get("label"), verdict.get("refused")
        if not isinstance(label, str | None) or not isinstance(refused, bool | None):
            raise RowError(
                f"{where}: label must be a text or null, and refused true, false or null "
                f"(got {label!r:.60} and {refused!r:.60})"
            )
        model, suite = (
            value if isinstance(value := row.get(key, place.get(key)), str) else None
            for key in SCOPE
        )
        verdicts.append(Verdict(model, suite, prompt_id, label, refused))
    return verdicts


def _verdict_of(row: Row, judge: str | None, where: str) -> Row:
    judges = row.get("judges")
    if judges is None:
        if "label" not in row and "refused" not in row:
            raise RowError(
                f"{where} is not a verdict: it needs 'label', or 'judges' as data/verdicts has it "
                f"(got {', '.join(sorted(row))})"
            )
        return row
    if not isinstance(judges, dict) or not all(isinstance(v, dict) for v in judges.values()):
        raise RowError(f"{where}: judges must map names to verdicts (got {judges!r:.60})")
    names = ", ".join(sorted(judges))
    if judge is None and len(judges) != 1:
        raise RowError(f"{where} has verdicts of several judges; name one of: {names}")
    if judge is not None and judge not in judges:
        raise RowError(f"{where} has no verdict of {judge!r}; it has: {names}")
    return judges[judge] if judge is not None else next(iter(judges.values()))


def join_verdicts(first: Sequence[Verdict], second: Sequence[Verdict]) -> Join:
    """Pairs the verdicts of two lists by prompt id, and by model and suite where both have them.

    Pairs are in the order of the first list. Raises :class:`RowError` when a list has two verdicts
    on one answer, which would pair at random.
    """
    by = tuple(
        field
        for field in SCOPE
        if all(getattr(verdict, field) is not None for verdict in (*first, *second))
    )
    by = (*by, "prompt_id")
    keyed = []
    for name, verdicts in (("first", first), ("second", second)):
        found: dict[tuple[str, ...], Verdict] = {}
        for verdict in verdicts:
            key = tuple(getattr(verdict, field) for field in by)
            if key in found:
                raise RowError(
                    f"the {name} file has two verdicts for {' '.join(key)} (by {', '.join(by)}); "
                    "each answer needs one"
                )
            found[key] = verdict
        keyed.append(found)
    left, right = keyed
    return Join(
        by,
        [(verdict, right[key]) for key, verdict in left.items() if key in right],
        [key for key in left if key not in right],
        [key for key in right if key not in left],
    )
