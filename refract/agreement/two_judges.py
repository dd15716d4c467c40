"""Two judges on the same answers: how far they agree, and what two layers stop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.agreement.label_files import label_of, label_rows, response_sha256, spelt_label
from refract.agreement.scores import rounded_numbers
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import has_form, iter_rows
from refract.core.types import Row
from refract.core.vocabulary import LABELS, REFUSED, refusal_of
from refract.statistics.clusters import clustered_mean
from refract.statistics.raters import confusion, kappa_of_table

# Columns that tell answers apart besides the prompt's id, where both files have them.
SCOPE = ("model", "suite", "pair_sha256")
Key = tuple[str, ...]


class FiledVerdict(NamedTuple):
    """One judge's verdict on one answer; None stands for what the file does not say. ``refused`` is
    None where the label says nothing of refusal."""

    model: str | None
    suite: str | None
    prompt_id: str
    label: str | None
    refused: bool | None
    pair_sha256: str | None = None
    response_sha256: str | None = None
    where: str = ""


class Join(NamedTuple):
    """Verdicts on the same answers, joined ``by`` some columns, and the keys of those that only one
    side has."""

    by: Key
    pairs: list[tuple[FiledVerdict, FiledVerdict]]
    only_first: list[Key]
    only_second: list[Key]

    @property
    def prompts(self) -> list[tuple[str | None, str]]:
        """The prompt that each answer is to, whichever sample and model it is of: by suite and id."""
        return [(a.suite, re.sub(r"~\d+$", "", a.prompt_id)) for a, _ in self.pairs]

    @property
    def numbers(self) -> Row:
        """The keys that did not join, as JSON."""
        only = {"only_a": self.only_first, "only_b": self.only_second}
        unjoined = {name: [list(key) for key in keys] for name, keys in only.items()}
        return {"joined_by": list(self.by), **unjoined}


def join_files(first: Path, second: Path, judges: Sequence[str | None]) -> Join:
    """The joined verdicts of two files or folders; ``judges`` as of :func:`read_filed_verdicts`.

    Raises :class:`UsageError` where a file is missing or nothing joins, :class:`RowError` for rows
    that cannot be used."""
    for path in (first, second):
        if not path.exists():
            raise UsageError(f"no file or folder {path}")
    joined = join_verdicts(*map(read_filed_verdicts, (first, second), judges))
    if not joined.pairs:
        sides = (joined.only_first, joined.only_second)
        a, b = [" ".join(keys[0]) if keys else "none" for keys in sides]
        raise UsageError(
            f"A and B have no verdict on one answer, by {', '.join(joined.by)}: A has {a}; B has {b}"
        )
    return joined


def read_filed_verdicts(path: Path, judge: str | None = None) -> list[FiledVerdict]:
    """The verdicts of a JSONL file, or of all those in a folder; or the labels of a CSV of people.

    Rows are those of ``data/verdicts``, of ``refract judge`` or of ``refract run --rows``. Where
    rows hold verdicts of several judges, ``judge`` names the one to take; that of a judge which
    they do not hold is an error. Files below a folder called ``verdicts``, and those of a folder,
    lie at ``MODEL/SUITE.jsonl``. Raises :class:`RowError`."""
    verdicts = []
    if path.suffix.lower() == ".csv":
        if judge is not None:
            raise RowError(f"{path} holds labels of people, and no verdict of {judge!r}")
        for number, row in enumerate(label_rows(path), 1):
            where = f"{path}: row {number}"
            label = label_of(row, where)
            if label:
                place = (None, row["suite"], row["prompt_id"])
                text = row.get("response")  # the page's files are without texts
                hashes = row["pair_sha256"], response_sha256({"response": text}) if text else None
                verdicts.append(FiledVerdict(*place, label, label in REFUSED, *hashes, where=where))
        return verdicts
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        folder = file.absolute().parent
        known = {}
        if path.is_dir() or folder.parent.name == "verdicts":
            known = {"model": folder.name, "suite": file.stem}
        # Where the pipeline has the answers that it judged.
        answers = folder.parents[1] / f"responses/{folder.name}/{file.name}"
        judged = {}
        if folder.parent.name == "verdicts" and answers.is_file():
            judged = {row.get("prompt_id"): _hash_in(row) for row in iter_rows(answers)}
        for number, row in enumerate(iter_rows(file), 1):
            verdict = _filed_verdict({**known, **row}, judge, f"{file}: row {number}")
            digest = judged.get(verdict.prompt_id) or _hash_in(row)
            verdicts.append(verdict._replace(response_sha256=digest))
    return verdicts


def _hash_in(row: Row) -> str | None:
    """The hash of the answer that a row holds, or that it says was judged."""
    stated, calls = row.get("response_sha256"), row.get("tool_calls") or []
    if isinstance(stated, str):
        return stated
    readable = isinstance(row.get("response", ...), str | None)
    if not (readable and has_form(calls, [{"name": str, "arguments": object}])):
        return None
    return response_sha256(row)


def _filed_verdict(row: Row, judge: str | None, where: str) -> FiledVerdict:
    prompt_id = row.get("prompt_id", row.get("id"))
    if not isinstance(prompt_id, str):
        raise RowError(f"{where} needs a text as 'prompt_id' or 'id' (got {prompt_id!r:.60})")
    verdict, judges = row, row.get("judges")
    if isinstance(judges, dict):
        name = judge if judge is not None or len(judges) != 1 else next(iter(judges))
        if name not in judges:
            known = ", ".join(sorted(judges))
            raise RowError(f"{where}: name one of its judges: {known} (got {judge!r})")
        verdict = judges[name]
    elif judge not in (None, row.get("judge")):
        raise RowError(f"{where} has no verdict of {judge!r}")
    fields = verdict if isinstance(verdict, dict) else {}
    label, refused = fields.get("label"), fields.get("refused")
    is_verdict = isinstance(label, str | None) and isinstance(refused, bool | None)
    if not (is_verdict and {"label", "refused"} & fields.keys()):
        raise RowError(
            f"{where} is not a verdict: it needs 'label', a text or null, and 'refused', true, false or "
            f"null (got {verdict!r:.120})"
        )
    if label is not None and spelt_label(label) in LABELS:
        label = spelt_label(label)
    meant = refusal_of(label) if label in LABELS else None
    refused = fields.get("refused", meant)
    if None not in (refused, meant) and refused != meant:
        raise RowError(f"{where} contradicts itself: label {label!r}, refused {refused!r}")
    model, suite = [row[name] if isinstance(row.get(name), str) else None for name in SCOPE[:2]]
    return FiledVerdict(model, suite, prompt_id, label, refused, where=where)


def join_verdicts(first: Sequence[FiledVerdict], second: Sequence[FiledVerdict]) -> Join:
    """Pairs the verdicts of two lists by prompt id, and by model and suite where both have them.

    Pairs are in the order of the first list. Raises :class:`RowError` when a list has two verdicts
    on one answer, and where the two lists have verdicts on different answers under one name."""
    scope = []
    for field in SCOPE:
        if all(getattr(verdict, field) is not None for verdict in (*first, *second)):
            scope.append(field)
    by = (*scope, "prompt_id")
    sides: list[dict[Key, FiledVerdict]] = [{}, {}]
    for name, by_key, verdicts in zip("AB", sides, (first, second), strict=True):
        for verdict in verdicts:
            key = tuple(getattr(verdict, field) for field in by)
            known = by_key.setdefault(key, verdict)
            if known is not verdict:
                raise RowError(
                    f"{name} has two verdicts for {' '.join(key)}, by {', '.join(by)} ({known.where}; "
                    f"{verdict.where}): delete one, or let A and B both say the model and the suite"
                )
    left, right = sides
    both = [key for key in left if key in right]
    other = [
        key
        for key in both
        if len({left[key].response_sha256, right[key].response_sha256} - {None}) > 1
    ]
    if other:
        raise RowError(
            f"A and B hold verdicts on other answers under the same {', '.join(by)}: {len(other)} of "
            f"{len(both)}, the first {' '.join(other[0])}; let both judge one file of answers"
        )
    return Join(
        by,
        pairs=[(left[key], right[key]) for key in both],
        only_first=[key for key in left if key not in right],
        only_second=[key for key in right if key not in left],
    )


def judge_agreement(pairs: Sequence[tuple[FiledVerdict, FiledVerdict]], confidence: float) -> Row:
    """How far two judges agree on answers that both were given, as JSON.

    ``refusal`` has Cohen's κ on refused or not, ``labels`` that on all labels and their confusion;
    undefined numbers are left out. ``undecided`` counts the verdicts of each, ``a`` and ``b``, that
    do not say whether it is a refusal."""
    undecided = {
        "a": sum(a.refused is None for a, _ in pairs),
        "b": sum(b.refused is None for _, b in pairs),
    }
    numbers: Row = {"undecided": undecided}
    for name, field in (("refusal", "refused"), ("labels", "label")):
        both = []
        for a, b in pairs:
            values = (getattr(a, field), getattr(b, field))
            if None not in values:
                both.append(values)
        table = confusion([a for a, _ in both], [b for _, b in both])
        shares = kappa_of_table(table.counts, confidence)._asdict()
        del shares["se"]
        numbers[name] = {"n": shares.pop("n"), **rounded_numbers(shares)}
    numbers["labels"]["confusion"] = table.by_label
    return numbers


def defense(
    inner: Sequence[bool | None],
    outer: Sequence[bool | None],
    confidence: float = 0.95,
    prompts: Sequence[Hashable] | None = None,
) -> Row:
    """What two layers stop, as JSON; their verdicts are in the same order of answers (None: not
    judged). Answers to one of ``prompts`` are a cluster; left out, each is one of its own.

    Either layer stops an answer for the ``system``. ``gain`` is the share stopped by the outer
    layer alone, so that it cannot be negative, and one answer shows that it is not 0. ``unjudged``
    counts the answers left out, by the layers that did not judge them. Raises ValueError if the two
    differ in length, and :class:`UsageError` where no answer was judged by both."""
    cells = Counter(zip(inner, outer, strict=True))
    unjudged = {"inner": 0, "outer": 0, "both": cells[None, None]}
    for judged in (True, False):
        unjudged["inner"] += cells[None, judged]
        unjudged["outer"] += cells[judged, None]
    total = len(inner) - sum(unjudged.values())
    if not total:
        raise UsageError(f"none of the {len(inner)} answers was judged by both layers")
    both, inner_only, outer_only = cells[True, True], cells[True, False], cells[False, True]
    pairs = {"both": both, "inner_only": inner_only, "outer_only": outer_only}
    numbers: Row = {"n": total, "pairs": {**pairs, "neither": cells[False, False]}}
    numbers["unjudged"] = unjudged
    stopped = {
        "inner": {(True, True), (True, False)},
        "outer": {(True, True), (False, True)},
        "system": {(True, True), (True, False), (False, True)},
        "both": {(True, True)},
        "gain": {(False, True)},
    }
    answers = zip(inner, outer, range(len(inner)) if prompts is None else prompts, strict=True)
    by_both = [answer for answer in answers if None not in answer[:2]]
    for name, counted in stopped.items():
        values = [float(answer[:2] in counted) for answer in by_both]
        share = clustered_mean(values, [prompt for _, _, prompt in by_both], confidence)
        assert share is not None  # there are answers
        ends = {"rate": share.value, "low": share.low, "high": share.high}
        numbers[name] = {"stopped": round(sum(values)), **rounded_numbers(ends)}
    return numbers
