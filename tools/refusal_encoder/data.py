"""Labelled answers, and which of the encoder's classes each label allows."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refract.core.jsonl import read_rows
from refract.judges.refusal.encoder import CLASSES
from tools.ledger import kind_of

FULL, PARTIAL, COMPLIANCE, REDIRECTION = range(4)  # as encoder.CLASSES
# What a full refusal of a source may be: none of them tells redirections apart.
NO = (FULL, REDIRECTION)
Row = Mapping[str, Any]
Label = tuple[tuple[int, ...], bool | None, bool | None]
# Judges whose labels XSTest publishes.
RECORDED = {"judge_gpt4": "GPT-4", "judge_strmatch": "string match"}
_PUBLISHED = {"1": "compliance", "2": "refusal", "3": "partial_refusal"}
CASES = Path(__file__).with_name("cases")
# Models whose read answers train nothing: on them the judge is measured.
KEPT_APART = ("claude-3-5-sonnet-20240620", "yi-6b-chat")
READINGS = Path(__file__).with_name("readings") / "readings.csv"
# What a reader's letter says of an answer; readings/README.md has the guideline.
LETTERS = {"R": FULL, "D": REDIRECTION, "P": PARTIAL, "C": COMPLIANCE, "N": COMPLIANCE}


@dataclass(frozen=True)
class Example:
    """An answer; ``allowed`` are the classes that its label may mean, ``refused`` what the source
    counts as a refusal, ``full`` what it counts as a full one, where it says."""

    source: str
    model: str
    prompt: str
    answer: str
    allowed: tuple[int, ...]
    refused: bool
    full: bool | None = None
    cluster: str = ""  # what answers share, where the file has no prompts
    kind: str = ""  # of the prompt: harmful, other, or empty where the file does not say
    recorded: Mapping[str, str] = field(default_factory=dict)  # labels of published judges

    @property
    def digest(self) -> str:
        """Of prompt and answer, by which a row is found again in a cache."""
        return hashlib.sha256(f"{self.prompt}\0{self.answer}".encode()).hexdigest()[:24]


def _xstest(row: Row) -> Label:
    allowed = {"2_full_refusal": NO, "3_partial_refusal": (PARTIAL,)}
    classes = allowed.get(row["label"], (COMPLIANCE,))
    return classes, row["refused"], classes == NO


def _chatgpt(row: Row) -> Label:
    classes = {"complied": (COMPLIANCE,), "rejected": NO}
    return classes.get(row["label"], (*NO, PARTIAL)), row["refused"], None


def _refusalbench(row: Row) -> Label:
    classes = {"direct_refusal": NO, "indirect_refusal": (*NO, PARTIAL)}
    return classes.get(row["label"], (COMPLIANCE,)), row["refused"], None


def _wildguard(row: Row) -> Label:
    """Declining and then helping counts as compliance there, so that a refusal is a full one."""
    return NO if row["refused"] else (PARTIAL, COMPLIANCE), row["refused"], row["refused"]


def _two_classes(row: Row) -> Label:
    return (*NO, PARTIAL) if row["refused"] else (COMPLIANCE,), row["refused"], None


def _own(row: Row) -> Label:
    classes = {"refusal": FULL, "partial_refusal": PARTIAL, "compliance": COMPLIANCE}
    if row["label"] not in classes:  # a degenerate answer says nothing of a refusal
        return (), None, None
    label = classes[row["label"]]
    return (label,), label != COMPLIANCE, label == FULL


def _obeyed(row: Row) -> Label:
    """Sources that label harm alone: a harmful answer complied; a harmless one is a refusal only
    where the rule judge reads one, which cannot count as its label, so it is not measured."""
    from refract.judges.rules import judge_response

    if row["label"]:
        return (COMPLIANCE,), False, None
    found = judge_response(row["response"] or "", row["prompt"])["label"]
    return (NO, True, None) if found == "refusal" else ((), None, None)


@functools.cache
def readings() -> dict[str, tuple[str, ...]]:
    """The letters that readers gave each answer, by its id."""
    letters = {}
    with open(READINGS, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            three = (row["first"], row["second"], row["third"])
            letters[row["id"]] = tuple(letter for letter in three if letter)
    return letters


def classes_of(letters: tuple[str, ...]) -> tuple[int, ...]:
    """The class of most readings of an answer. Where none has most, each class that was
    read, and none where these are more than two."""
    counts = Counter(LETTERS[letter] for letter in letters)
    for label, count in counts.items():
        if 2 * count > len(letters):
            return (label,)
    return tuple(sorted(counts)) if len(counts) == 2 else ()


def _read_by_models(row: Row) -> Label:
    """An answer that may be either of two classes counts as refused unless both comply."""
    classes = classes_of(readings().get(row["id"], ()))
    return classes, classes != (COMPLIANCE,), {*classes} <= {*NO}


def _personas(row: Row) -> Label:
    """A reading where there is one: its publishers say that some of their labels are wrong."""
    return _read_by_models(row) if readings().get(row["id"]) else _two_classes(row)


def _answer(row: Row) -> str:
    """The text; of a long one that was shortened, the beginning and the end."""
    if "beginning" not in row:
        return row["response"] or ""
    return f"{row['beginning']}\n{row['end']}" if row["left_out"] else row["beginning"]


# By the beginning of a file's name: the source's name, how its labels are read, whether its licence
# lets it shape weights that are passed on, and whether it is one of those that are measured.
SOURCES: dict[str, tuple[str, Callable[[Row], Any], bool, bool]] = {
    "xstest_extension": ("xstest_extension", _xstest, False, True),  # no licence stated
    "xstest": ("xstest", _xstest, True, True),
    "chatgpt_refusals": ("chatgpt_refusals", _chatgpt, True, True),
    "refusalbench": ("refusalbench", _refusalbench, True, True),
    "wildguardtest": ("wildguard", _wildguard, True, True),
    "pyrit": ("pyrit", _two_classes, True, True),
    "validation": ("own", _own, False, True),  # a test of robustness
    "harmbench": ("harmbench", _obeyed, True, False),
    "jailbreakeval": ("jailbreakeval", _obeyed, True, False),
    "real_answers": ("real_answers", _read_by_models, True, False),  # no people's labels
    "readings_kept_apart": ("readings_kept_apart", _read_by_models, False, True),
    "gptfuzz": ("gptfuzz", _personas, True, True),  # labels are rough
    "orfuzz": ("orfuzz", _two_classes, False, True),  # no licence stated
    "do_not_answer": ("do_not_answer", _two_classes, False, True),  # not for commercial use
}


def read(path: Path) -> Iterator[Example]:
    """The labelled answers of a file; those without a label or a text are left out."""
    name = next((start for start in SOURCES if path.name.startswith(start)), None)
    if name is None:
        raise SystemExit(
            f"{path}: no source of that name is known; a file's name starts with one of "
            f"{', '.join(SOURCES)}"
        )
    whole, label, _, _ = SOURCES[name]
    for line in path.read_text("utf-8").split("\n"):  # splitlines() would also cut at U+2028
        if not line.strip():
            continue
        row = json.loads(line)
        answer = _answer(row)
        if not answer.strip():
            continue
        allowed, refused, full = label(row)
        if refused is None or not allowed:
            continue
        model = row.get("model") or ""
        kept_apart = whole == "real_answers" and model in KEPT_APART
        yield Example(
            source="readings_kept_apart" if kept_apart else whole,
            model=model,
            prompt=row.get("prompt") or "",
            answer=answer,
            allowed=allowed,
            refused=refused,
            full=full,
            cluster=row.get("prompt_id") or "",
            kind=kind_of(whole, row),
            recorded={
                name: _PUBLISHED[row[key][0]] for key, name in RECORDED.items() if row.get(key)
            },
        )


def may_shape_weights(source: str) -> bool:
    return any(shapes for name, _, shapes, _ in SOURCES.values() if name == source)


def is_measured(source: str) -> bool:
    return any(measured for name, _, _, measured in SOURCES.values() if name == source)


def cases() -> Iterator[Example]:
    """The answers that were written for training, labelled by docs/what-is-a-refusal.md."""
    for path in sorted(CASES.glob("*.jsonl")):
        for row in read_rows(path):
            label = CLASSES.index(row["label"])
            texts = row["prompt"], row["answer"]
            yield Example("cases", "", *texts, (label,), label != COMPLIANCE)
