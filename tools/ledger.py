"""Measures judges on published answers with human labels, and writes the ledger.

Run ``python -m tools.ledger --data FOLDER --judge rules`` with the folder that holds the files below
(``data/labelled`` of ``REFRACT_TEST_DATA``). The answers are not part of the repository; rates and
counts are. Entries of other judges stay as they are. A judge that was trained on some of the
sources is to be measured on each by one that was not: a training script writes those rows with
``add_to_ledger``, and this one leaves that judge alone.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.agreement.ledger import (
    LEDGER,
    LedgerEntry,
    ledger_entries,
    read_ledger,
    shown_gap,
    write_ledger,
)
from refract.agreement.scores import PARTIALS
from refract.core.jsonl import read_rows
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate.judge_errors import judge_pairs
from refract.judges import open_judge
from refract.project import find_judge, find_project
from refract.rates.rate import Prompts

# Sources all of whose prompts are of one kind, by what their authors say of them.
KINDS: dict[str, Prompts] = {
    "chatgpt_refusals": "other",
    "do_not_answer": "harmful",
    "orfuzz": "other",
    "refusalbench": "other",
}


def kind_of(source: str, row: Row) -> Prompts:
    """Whether the prompt of a published row is harmful or not; empty where its file does not
    say."""
    if source == "xstest":
        safe: dict[object, Prompts] = {True: "other", False: "harmful"}
        return safe.get(row.get("prompt_safe"), "")
    if source == "xstest_extension":
        kind = row.get("prompt_type")
        if not kind:
            return ""
        return "harmful" if kind.startswith("contrast") else "other"
    if source in ("wildguard", "wildguardtest"):
        kinds: dict[str, Prompts] = {"harmful": "harmful", "unharmful": "other"}
        return kinds.get(row.get("prompt_harm", ""), "")
    if source == "real_answers":
        return "other" if row["condition"].startswith("harmless") else "harmful"
    return KINDS.get(source, "")


class Published(NamedTuple):
    """A file of labelled answers: the column that says whether an answer refuses, what its values mean
    among ``LABELS``, and the column that names what answers share, where that is not the prompt."""

    file: str
    label: str = "refused"
    labels: Mapping[object, str] = {True: "refusal", False: "compliance"}
    cluster: str = "prompt"


XSTEST = {
    "1_full_compliance": "compliance",
    "2_full_refusal": "refusal",
    "3_partial_refusal": "partial_refusal",
}
SOURCES = {
    "chatgpt_refusals": Published("chatgpt_refusals_dev.jsonl"),
    "do_not_answer": Published("do_not_answer_dev.jsonl"),
    "orfuzz": Published("orfuzz_dev.jsonl"),
    "pyrit": Published("pyrit_refusal.jsonl"),
    "refusalbench": Published("refusalbench_2026_dev.jsonl", cluster="prompt_id"),
    "wildguardtest": Published("wildguardtest_dev.jsonl"),
    "xstest": Published("xstest_dev.jsonl", "label", XSTEST),
    "xstest_extension": Published("xstest_extension_dev.jsonl", "label", XSTEST),
}
# Whoever wrote the rules had read answers of these, or cut them by what they say of them.
SHAPED = {"rules": tuple(SOURCES)}


def read_source(folder: Path, name: str) -> tuple[list[Row], list[str]]:
    """The answers of a source, and their human labels among ``LABELS``."""
    source = SOURCES[name]
    rows, truth = [], []
    for row in read_rows(folder / source.file):
        if row[source.label] is not None and row["response"] is not None:
            texts = {"prompt": row.get("prompt") or "", "response": row["response"]}
            cluster = row[source.cluster]
            about = {"source": name, "model": row["model"], "prompts": kind_of(name, row)}
            rows.append({**texts, **about, "cluster": cluster})
            truth.append(source.labels[row[source.label]])
    return rows, truth


def measured(folder: Path, judges: Sequence[str]) -> list[LedgerEntry]:
    """The entries of judges on every source in the folder, partial refusals counted both ways."""
    project = find_project()
    opened = {name: open_judge(name, find_judge(name, project)) for name in judges}
    entries: list[LedgerEntry] = []
    for source in SOURCES:
        if not (folder / SOURCES[source].file).is_file():
            say(f"{source}: no {SOURCES[source].file} in {folder}")
            continue
        rows, truth = read_source(folder, source)
        for judge, verdicts in judge_pairs(rows, opened).items():
            labels = [verdict["label"] for verdict in verdicts]
            for partial in PARTIALS:
                given = (opened[judge].version, rows, truth, labels, partial)
                entries += ledger_entries(judge, *given, SHAPED.get(judge, ()))
    return entries


def add_to_ledger(path: Path, entries: Iterable[LedgerEntry]) -> None:
    """Writes entries into a file, in place of those with the same key."""
    known = {entry.key: entry for entry in (*read_ledger(path), *entries)}
    write_ledger(path, known.values())


def main() -> None:
    """Reads the options, measures and writes."""
    outside = os.environ.get("REFRACT_TEST_DATA")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(outside) / "data/labelled" if outside else None,
        required=outside is None,
    )
    parser.add_argument("--judge", action="append", help="default: rules")
    parser.add_argument("--out", type=Path, default=LEDGER)
    given = parser.parse_args()
    entries = measured(given.data, given.judge or ["rules"])
    add_to_ledger(given.out, entries)
    for entry in entries:
        say(
            f"{entry.judge} {entry.source} {entry.model or 'not stated'}, partial = {entry.partial}: "
            f"{entry.n} answers, rate gap {shown_gap(entry)} points, κ {entry.kappa}"
        )


if __name__ == "__main__":
    main()
