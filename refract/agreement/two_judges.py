"""Two judges' verdicts on the same answers: how far they agree, and what they stop as two layers."""

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

# Beside the prompt's id, what tells answers apart where both files say it.
SCOPE = ("model", "suite")
ANSWER = "pair_sha256"


class FiledVerdict(NamedTuple):
    """One judge's verdict on one answer, as a file has it; ``label`` is None where it gave none.

    ``refused`` is None where the label says nothing of refusal. ``model`` and ``suite`` are None where
    the file does not say, as is ``pair_sha256`` but in files of human labels."""

    model: str | None
    suite: str | None
    prompt_id: str
    label: str | None
    refused: bool | None
    pair_sha256: str | None = None


class Join(NamedTuple):
    """Verdicts on the same answers, and the keys of those that only one side has.

    ``by`` names what they were joined by."""

    by: tuple[str, ...]
    pairs: list[tuple[FiledVerdict, FiledVerdict]]
    only_first: list[tuple[str, ...]]
    only_second: list[tuple[str, ...]]

    @property
    def numbers(self) -> Row:
        """What did not join, as JSON."""
        return {
            "joined_by": list(self.by),
            "only_a": [list(key) for key in self.only_first],
            "only_b": [list(key) for key in self.only_second],
        }


def join_files(first: Path, second: Path, judges: Sequence[str | None]) -> Join:
    """The joined verdicts of two files or folders; ``judges`` as of :func:`read_filed_verdicts`. Raises
    :class:`UsageError` where a file is missing or nothing joins, :class:`RowError` for rows that cannot
    be used."""
    for path in (first, second):
        if not path.exists():
            raise UsageError(f"no file or folder {path}")
    joined = join_verdicts(*map(read_filed_verdicts, (first, second), judges))
    if not joined.pairs:
        alone = (("A", joined.only_first), ("B", joined.only_second))
        examples = "; ".join(f"{name} has {' '.join(keys[0])}" for name, keys in alone if keys)
        raise UsageError(
            f"no verdict of A ({len(joined.only_first)}) and B ({len(joined.only_second)}) is on the "
            f"same answer, by {', '.join(joined.by)}: {examples or 'both are empty'}"
        )
    return joined


def read_filed_verdicts(path: Path, judge: str | None = None) -> list[FiledVerdict]:
    """The verdicts of a JSONL file, or of all those in a folder; or the labels of a CSV of people.

    Rows are those of ``data/verdicts``, of ``refract judge`` or of ``refract run --rows``. Where rows
    hold verdicts of several judges, ``judge`` names the one to take. Files below a folder called
    ``verdicts``, and those of a folder, lie at ``MODEL/SUITE.jsonl``. Raises :class:`RowError`."""
    if path.suffix == ".csv":
        return [
            FiledVerdict(None, row["suite"], row["prompt_id"], label, label in REFUSED, row[ANSWER])
            for number, row in enumerate(label_rows(path), 1)
            if (label := label_of(row, f"{path}: row {number}"))
        ]
    verdicts = []
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
    told = isinstance(verdict, dict) and bool({"label", "refused"} & verdict.keys())
    label, refused = (verdict.get("label"), verdict.get("refused")) if told else (None, None)
    if not told or not isinstance(label, str | None) or not isinstance(refused, bool | None):
        raise RowError(
            f"{where} is not a verdict: it needs 'label', a text or null, and 'refused', true, false or "
            f"null, or 'judges' as data/verdicts has it (got {verdict!r:.120})"
        )
    model, suite = (row[key] if isinstance(row.get(key), str) else None for key in SCOPE)
    return FiledVerdict(model, suite, prompt_id, label, refused)


def join_verdicts(first: Sequence[FiledVerdict], second: Sequence[FiledVerdict]) -> Join:
    """Pairs the verdicts of two lists by prompt id, and by model and suite where both have them.

    Pairs are in the order of the first list. Raises :class:`RowError` when a list has two verdicts on
    one answer, which would pair at random."""
    every = (*first, *second)
    scope = [key for key in (*SCOPE, ANSWER) if all(getattr(v, key) is not None for v in every)]
    by = (*scope, "prompt_id")

    def keyed(name: str, verdicts: Sequence[FiledVerdict]) -> dict[tuple[str, ...], FiledVerdict]:
        by_key: dict[tuple[str, ...], FiledVerdict] = {}
        for verdict in verdicts:
            key = tuple(getattr(verdict, field) for field in by)
            if by_key.setdefault(key, verdict) is not verdict:
                of = f"{' '.join(key)} (by {', '.join(by)})"
                raise RowError(f"the {name} file has two verdicts for {of}")
        return by_key

    left, right = keyed("first", first), keyed("second", second)
    return Join(
        by,
        [(verdict, right[key]) for key, verdict in left.items() if key in right],
        [key for key in left if key not in right],
        [key for key in right if key not in left],
    )


def write_agreed(labels: Path, joined: Join, out: Path) -> None:
    """Writes a file of labels again, with blanks where the other file has none or another one."""
    agreed = {(a.suite, a.prompt_id) for a, b in joined.pairs if a.label == b.label}
    rows = label_rows(labels)
    for row in rows:
        row["label"] = row["label"] if (row["suite"], row["prompt_id"]) in agreed else ""
    write_table(out, list(rows[0]), rows)


def judge_agreement(
    pairs: Sequence[tuple[FiledVerdict, FiledVerdict]], confidence: float = 0.95
) -> Row:
    """How far two judges agree on answers that both were given, as JSON: Cohen's κ on refused or not
    (``refusal``) and on all ``labels``, with their confusion; undefined numbers are left out.

    ``undecided`` counts the verdicts of each, ``a`` and ``b``, that do not say whether it is a refusal.
    """
    undecided = [sum(pair[side].refused is None for pair in pairs) for side in (0, 1)]
    numbers: Row = {"undecided": dict(zip("ab", undecided, strict=True))}
    for name, field in (("refusal", "refused"), ("labels", "label")):
        values = [(getattr(a, field), getattr(b, field)) for a, b in pairs]
        both = [pair for pair in values if None not in pair]
        crossed = confusion([a for a, _ in both], [b for _, b in both])
        kappa = kappa_of_table(crossed.counts, confidence)
        shares = {k: v for k, v in kappa._asdict().items() if k not in ("n", "se")}
        numbers[name] = {"n": kappa.n, **rounded_numbers(shares)}
    numbers["labels"]["confusion"] = crossed.by_label
    return numbers


def defense(
    inner: Sequence[bool | None], outer: Sequence[bool | None], confidence: float = 0.95
) -> Row:
    """What two layers stop, listed in the same order of answers (None: not judged), as JSON.

    Either layer stops an answer for the ``system``. ``gain`` is what the outer layer adds, system minus
    inner: the share stopped by the outer layer alone. Since the system stops whatever the inner layer
    stops, that share is all there is to the difference: it cannot be negative, and one answer shows that
    it is not 0. ``unjudged`` counts the answers left out, by the layers that did not judge them. Raises
    ValueError if the two differ in length, and :class:`UsageError` where no answer was judged by both.
    """
    pairs = list(zip(inner, outer, strict=True))
    judged = [(bool(a), bool(b)) for a, b in pairs if a is not None and b is not None]
    unjudged = {
        "inner": sum(a is None and b is not None for a, b in pairs),
        "outer": sum(a is not None and b is None for a, b in pairs),
        "both": pairs.count((None, None)),
    }
    pairs_of = count_pairs([a for a, _ in judged], [b for _, b in judged])
    stopped = {
        "inner": pairs_of.both + pairs_of.first_only,
        "outer": pairs_of.both + pairs_of.second_only,
        "system": len(judged) - pairs_of.neither,
        "both": pairs_of.both,
        "gain": pairs_of.second_only,
    }
    if not judged:
        alone = f"inner alone {unjudged['inner']}, by the outer alone {unjudged['outer']}"
        raise UsageError(
            f"none of the {len(pairs)} answers was judged by both layers (unjudged by the {alone}, by "
            f"both {unjudged['both']})"
        )
    cells = dict(zip(("both", "inner_only", "outer_only", "neither"), pairs_of, strict=True))
    numbers: Row = {"n": len(judged), "pairs": cells, "unjudged": unjudged}
    for name, count in stopped.items():
        limits = wilson_at(count, len(judged), normal_quantile(confidence))
        share = rounded_numbers({"rate": count / len(judged), **limits._asdict()})
        numbers[name] = {"stopped": count, **share}
    return numbers
