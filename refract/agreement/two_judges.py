"""Two judges on the same answers: how far they agree, and what two layers stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from refract.agreement.label_files import label_of, label_rows
from refract.agreement.scores import rounded_numbers
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import iter_rows
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import REFUSED
from refract.statistics.paired import count_pairs
from refract.statistics.proportions import normal_quantile, wilson_at
from refract.statistics.raters import confusion, kappa_of_table

# Columns that tell answers apart besides the prompt's id, where both files have
# them.
SCOPE = ("model", "suite")
ANSWER = "pair_sha256"


class FiledVerdict(NamedTuple):
    """One judge's verdict on one answer; None stands for what the file does not
    say.

    ``refused`` is None where the label says nothing of refusal.
    """

    model: str | None
    suite: str | None
    prompt_id: str
    label: str | None
    refused: bool | None
    pair_sha256: str | None = None


class Join(NamedTuple):
    """Verdicts on the same answers, and the keys of those that only one side has."""

    by: tuple[str, ...]
    """The columns that verdicts were joined by."""

    pairs: list[tuple[FiledVerdict, FiledVerdict]]
    only_first: list[tuple[str, ...]]
    only_second: list[tuple[str, ...]]

    @property
    def numbers(self) -> Row:
        """The keys that did not join, as JSON."""
        return {
            "joined_by": list(self.by),
            "only_a": [list(key) for key in self.only_first],
            "only_b": [list(key) for key in self.only_second],
        }


def join_files(first: Path, second: Path, judges: Sequence[str | None]) -> Join:
    """The joined verdicts of two files or folders; ``judges`` as of
    :func:`read_filed_verdicts`.

    Raises :class:`UsageError` where a file is missing or nothing joins,
    :class:`RowError` for rows that cannot be used.
    """
    for path in (first, second):
        if not path.exists():
            raise UsageError(f"no file or folder {path}")
    judge_a, judge_b = judges
    joined = join_verdicts(
        first=read_filed_verdicts(first, judge_a), second=read_filed_verdicts(second, judge_b)
    )
    if not joined.pairs:
        examples = []
        for name, keys in (("A", joined.only_first), ("B", joined.only_second)):
            if keys:
                examples.append(f"{name} has {' '.join(keys[0])}")
        raise UsageError(
            f"no verdict of A ({len(joined.only_first)}) and B ({len(joined.only_second)}) is on the "
            f"same answer, by {', '.join(joined.by)}: {'; '.join(examples) or 'both are empty'}"
        )
    return joined


def read_filed_verdicts(path: Path, judge: str | None = None) -> list[FiledVerdict]:
    """The verdicts of a JSONL file, or of all those in a folder; or the labels
    of a CSV of people.

    Rows are those of ``data/verdicts``, of ``refract judge`` or of ``refract
    run --rows``. Where rows hold verdicts of several judges, ``judge`` names
    the one to take; that of a judge which they do not hold is an error. Files
    below a folder called ``verdicts``, and those of a folder, lie at
    ``MODEL/SUITE.jsonl``. Raises :class:`RowError`.
    """
    verdicts = []
    if path.suffix == ".csv" and judge is not None:
        raise RowError(f"{path} holds labels of people, and no verdict of {judge!r}")
    if path.suffix == ".csv":
        for number, row in enumerate(label_rows(path), 1):
            label = label_of(row, f"{path}: row {number}")
            if label:
                verdict = FiledVerdict(
                    model=None,
                    suite=row["suite"],
                    prompt_id=row["prompt_id"],
                    label=label,
                    refused=label in REFUSED,
                    pair_sha256=row[ANSWER],
                )
                verdicts.append(verdict)
        return verdicts
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        place: dict[str, str] = {}
        if path.is_dir() or file.absolute().parent.parent.name == "verdicts":
            place = {"model": file.absolute().parent.name, "suite": file.stem}
        for number, row in enumerate(iter_rows(file), 1):
            verdicts.append(_filed_verdict({**place, **row}, judge, f"{file}: row {number}"))
    return verdicts


def _filed_verdict(row: Row, judge: str | None, where: str) -> FiledVerdict:
    prompt_id = row.get("prompt_id", row.get("id"))
    if not isinstance(prompt_id, str):
        raise RowError(f"{where} needs a text as 'prompt_id' or 'id' (got {prompt_id!r:.60})")
    verdict, judges = row, row.get("judges")
    if isinstance(judges, dict):
        names = ", ".join(sorted(judges))
        if judge is None and len(judges) != 1:
            raise RowError(f"{where} has verdicts of several judges; name one of: {names}")
        if judge is not None and judge not in judges:
            raise RowError(f"{where} has no verdict of {judge!r}; it has: {names}")
        verdict = judges[judge or next(iter(judges))]
    elif judge not in (None, row.get("judge")):
        own = f"that of {row['judge']!r}" if "judge" in row else "one, whose judge it does not name"
        raise RowError(f"{where} has no verdict of {judge!r}; it has {own}")
    if not _is_verdict(verdict):
        raise RowError(
            f"{where} is not a verdict: it needs 'label', a text or null, and 'refused', true, false or "
            f"null, or 'judges' as data/verdicts has it (got {verdict!r:.120})"
        )
    model, suite = row.get("model"), row.get("suite")
    return FiledVerdict(
        model=model if isinstance(model, str) else None,
        suite=suite if isinstance(suite, str) else None,
        prompt_id=prompt_id,
        label=verdict.get("label"),
        refused=verdict.get("refused"),
    )


def _is_verdict(verdict: object) -> bool:
    if not isinstance(verdict, dict) or not {"label", "refused"} & verdict.keys():
        return False
    label, refused = verdict.get("label"), verdict.get("refused")
    return isinstance(label, str | None) and isinstance(refused, bool | None)


def join_verdicts(first: Sequence[FiledVerdict], second: Sequence[FiledVerdict]) -> Join:
    """Pairs the verdicts of two lists by prompt id, and by model and suite
    where both have them.

    Pairs are in the order of the first list. Raises :class:`RowError` when a
    list has two verdicts on one answer.
    """
    scope = []
    for field in (*SCOPE, ANSWER):
        if all(getattr(verdict, field) is not None for verdict in (*first, *second)):
            scope.append(field)
    by = (*scope, "prompt_id")
    left, right = _by_key(first, by, "first"), _by_key(second, by, "second")
    return Join(
        by=by,
        pairs=[(verdict, right[key]) for key, verdict in left.items() if key in right],
        only_first=[key for key in left if key not in right],
        only_second=[key for key in right if key not in left],
    )


def _by_key(
    verdicts: Sequence[FiledVerdict], by: tuple[str, ...], name: str
) -> dict[tuple[str, ...], FiledVerdict]:
    by_key: dict[tuple[str, ...], FiledVerdict] = {}
    for verdict in verdicts:
        key = tuple(getattr(verdict, field) for field in by)
        if key in by_key:
            raise RowError(
                f"the {name} file has two verdicts for {' '.join(key)} (by {', '.join(by)})"
            )
        by_key[key] = verdict
    return by_key


def write_agreed(labels: Path, joined: Join, out: Path) -> None:
    """Writes a file of labels with blanks where the other file does not agree."""
    agreed = {(a.suite, a.prompt_id) for a, b in joined.pairs if a.label == b.label}
    rows = label_rows(labels)
    for row in rows:
        row["label"] = row["label"] if (row["suite"], row["prompt_id"]) in agreed else ""
    write_table(out, list(rows[0]), rows)


def judge_agreement(
    pairs: Sequence[tuple[FiledVerdict, FiledVerdict]], confidence: float = 0.95
) -> Row:
    """How far two judges agree on answers that both were given, as JSON.

    ``refusal`` has Cohen's κ on refused or not, ``labels`` that on all labels
    and their confusion; undefined numbers are left out. ``undecided`` counts
    the verdicts of each, ``a`` and ``b``, that do not say whether it is a
    refusal.
    """
    numbers: Row = {
        "undecided": {
            "a": sum(first.refused is None for first, _ in pairs),
            "b": sum(second.refused is None for _, second in pairs),
        }
    }
    for name, field in (("refusal", "refused"), ("labels", "label")):
        first, second = [], []
        for pair in pairs:
            values = [getattr(verdict, field) for verdict in pair]
            if None not in values:
                first.append(values[0])
                second.append(values[1])
        table = confusion(first, second)
        shares = kappa_of_table(table.counts, confidence)._asdict()
        del shares["se"]
        numbers[name] = {"n": shares.pop("n"), **rounded_numbers(shares)}
    numbers["labels"]["confusion"] = table.by_label
    return numbers


def defense(
    inner: Sequence[bool | None], outer: Sequence[bool | None], confidence: float = 0.95
) -> Row:
    """What two layers stop, as JSON; their verdicts are in the same order of
    answers (None: not judged).

    Either layer stops an answer for the ``system``. ``gain`` is the share
    stopped by the outer layer alone, so that it cannot be negative, and one
    answer shows that it is not 0. ``unjudged`` counts the answers left out, by
    the layers that did not judge them. Raises ValueError if the two differ in
    length, and :class:`UsageError` where no answer was judged by both.
    """
    unjudged = {"inner": 0, "outer": 0, "both": 0}
    judged_inner, judged_outer = [], []
    for by_inner, by_outer in zip(inner, outer, strict=True):
        if by_inner is not None and by_outer is not None:
            judged_inner.append(bool(by_inner))
            judged_outer.append(bool(by_outer))
        elif by_inner is None and by_outer is None:
            unjudged["both"] += 1
        else:
            unjudged["inner" if by_inner is None else "outer"] += 1
    total = len(judged_inner)
    if not total:
        raise UsageError(
            f"none of the {len(inner)} answers was judged by both layers (unjudged by the inner alone "
            f"{unjudged['inner']}, by the outer alone {unjudged['outer']}, by both {unjudged['both']})"
        )
    pairs = count_pairs(judged_inner, judged_outer)
    cells = {
        "both": pairs.both,
        "inner_only": pairs.first_only,
        "outer_only": pairs.second_only,
        "neither": pairs.neither,
    }
    numbers: Row = {"n": total, "pairs": cells, "unjudged": unjudged}
    stopped = {
        "inner": pairs.both + pairs.first_only,
        "outer": pairs.both + pairs.second_only,
        "system": total - pairs.neither,
        "both": pairs.both,
        "gain": pairs.second_only,
    }
    for name, count in stopped.items():
        limits = wilson_at(count, total, normal_quantile(confidence))
        share = rounded_numbers({"rate": count / total, **limits._asdict()})
        numbers[name] = {"stopped": count, **share}
    return numbers
