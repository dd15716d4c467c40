"""What made a model's answers and verdicts, beside the numbers:
``metrics/ran/MODEL.json``.

The file is in git and no output of the pipeline, since processor, time and versions
differ where the answers do not. A note on a file of rows is valid while that file's
hash matches, so that making the same results again changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from refract.core.environment import this_run, utc
from refract.core.jsonl import (
    canonical_json,
    iter_responses,
    sha256_file,
    sha256_json,
    write_json,
)
from refract.core.progress import read_object
from refract.core.types import ResponseRow, Row
from refract.models.protocol import Answer, AnswerOrigin, Certificate
from refract.models.store import (
    ResponseStore,
    answer_in,
    answer_sha256,
    store_file,
)

# What is known here of exact answers: made or checked by exact arithmetic; come in a
# file and not checked; errors, and what a store has of earlier releases.
STATES = ("certified", "stated", "unchecked")


def learn_origins(path: Path, folder: Path, store: ResponseStore) -> None:
    """Has the store know which run made the rows in a folder of responses, which may
    have come with ``dvc pull``, and the file at ``path`` with git."""
    noted = read_object(path)
    answers: dict[str, Answer] = {}
    for suite in noted.get("suites", {}):
        rows = folder / f"{suite}.jsonl"
        runs = _noted_runs(noted, suite, sha256_file(rows)) if rows.is_file() else []
        if runs:
            for row, run in zip(iter_responses(rows), runs, strict=True):
                if run is not None:
                    answers[row["request_sha256"]] = Answer("", origin=run)
    if answers:
        store.learn(answers)


def note_answers(
    path: Path,
    folder: Path,
    responses: Mapping[str, Sequence[ResponseRow]],
    origins: Mapping[str, AnswerOrigin],
    certificates: Mapping[str, Certificate],
) -> None:
    """Notes which runs made the answers of each suite in ``folder``, and their certificates."""
    noted = read_object(path)
    hashes = {suite: sha256_file(folder / f"{suite}.jsonl") for suite in responses}
    runs = made_by(responses, hashes, origins=origins, noted=noted, certificates=certificates)
    write_json(path, {**noted, **runs})


def made_rows(
    rows: Sequence[Row],
    origins: Mapping[str, AnswerOrigin],
    certificates: Mapping[str, Certificate],
) -> Row:
    """What :func:`made_by` says of the rows of one ``refract run``. Their checksums
    stand for the hash of a file."""
    suites: dict[str, list[Any]] = {}
    for row in rows:
        suites.setdefault(row["suite"], []).append(row)
    hashes = {name: sha256_json([row["answer_sha256"] for row in suites[name]]) for name in suites}
    return made_by(suites, hashes, origins=origins, noted={}, certificates=certificates)


def made_by(
    responses: Mapping[str, Sequence[ResponseRow]],
    hashes: Mapping[str, str],
    origins: Mapping[str, AnswerOrigin],
    noted: Mapping[str, Any],
    certificates: Mapping[str, Certificate] = MappingProxyType({}),
) -> Row:
    """The ``runs``, the earliest first, and for each of the ``suites`` the hash of its
    responses, which run made how many rows, in their order (null: not known), and its
    certificates in sum. What is ``noted`` of a suite's rows stays as it is, whatever a store has
    learnt of them since: a tree that has its note in git stays clean."""
    runs: dict[str, AnswerOrigin] = {}
    makers: dict[str, list[str | None]] = {}  # the name of each row's run
    names: dict[int, str] = {}  # by the run's place in memory: rows share few runs
    for suite, rows in responses.items():
        makers[suite] = []
        before = _noted_runs(noted, suite, hashes[suite])
        for number, row in enumerate(rows):
            run = before[number] if before else origins.get(row["request_sha256"])
            if run is not None and id(run) not in names:
                names[id(run)] = canonical_json(run)
                runs.setdefault(names[id(run)], run)
            makers[suite].append(None if run is None else names[id(run)])
    order = sorted(runs, key=lambda name: (runs[name]["started_at"], name))
    places = {name: place for place, name in enumerate(order)}
    suites = {}
    for suite, row_makers in makers.items():
        stretches = []
        for name, rows_alike in groupby(row_makers):
            stretches.append([name and places[name], len(list(rows_alike))])
        suites[suite] = {"responses_sha256": hashes[suite], "runs": stretches}
        known = _noted(noted, suite, hashes[suite]) or _certified(responses[suite], certificates)
        if "certificates" in known:
            suites[suite]["certificates"] = known["certificates"]
    return {"runs": [runs[name] for name in order], "suites": suites}


def _certified(rows: Sequence[ResponseRow], certificates: Mapping[str, Certificate]) -> Row:
    """The ``certificates`` of a suite's rows in sum, with each margin; {} without any."""
    known = []
    margins = []
    for row in rows:
        certificate = certificates.get(row["request_sha256"])
        margin = None
        if certificate:
            known.append(certificate)
            margin = certificate["margin"]
        margins.append("-" if margin is None else f"{float(f'{margin:.2g}'):g}")
    if not known:
        return {}
    sums = {
        "answers": len(known),
        "float64": sum(certificate["float64"] for certificate in known),
        "ties": sum(certificate["ties"] for certificate in known),
        "margins": " ".join(margins),
    }
    return {"certificates": sums}


def arithmetic_lines(root: Path, provenance: Mapping[str, Row]) -> list[str]:
    """How models' answers were computed, and how many of exact ones were certified
    here; equal lines once, with the models' names. ``provenance`` is by model."""
    models: dict[str, list[str]] = {}
    path = store_file()
    with ResponseStore(path if path and path.is_file() else None) as store:
        for model, facts in provenance.items():
            line = arithmetic_line(root / "data/responses" / model, facts, store)
            if line:
                models.setdefault(line, []).append(model)
    return [f"{', '.join(names)}: {line}" for line, names in models.items()]


def arithmetic_line(folder: Path, facts: Mapping[str, Any], store: ResponseStore) -> str:
    """How a local model's answers were computed, from its provenance, and how many of
    those in ``folder`` the store knows as certified or stated; "" for other models.

    What a file says of certificates does not count: it may be anybody's."""
    arithmetic = facts["model"]["identity"].get("arithmetic")
    if arithmetic != "exact":
        return f"{arithmetic} arithmetic: of this machine" if arithmetic else ""
    counts: Counter[str] = Counter()
    for suite, suite_facts in facts["suites"].items():
        path = folder / f"{suite}.jsonl"
        if path.is_file() and sha256_file(path) == suite_facts.get("responses_sha256"):
            counts += counted_states(list(iter_responses(path)), store)
    if not counts:
        return "exact arithmetic; no answers here"
    parts = [f"{counts[state]:,} {state}" for state in STATES if counts[state]]
    return f"of {counts.total():,} answers {', '.join(parts)}"


def counted_states(rows: Sequence[ResponseRow], store: ResponseStore) -> Counter[str]:
    """How many rows are in each of ``STATES``.

    A row of which the store has no answer came in a file: with ``dvc pull``, say. An
    error is no answer that anything could speak for."""
    keys = [row["request_sha256"] for row in rows]
    known, states = store.get(keys), store.states(keys)
    counts: Counter[str] = Counter()
    for row in rows:
        key = row["request_sha256"]
        state = states.get(key)
        same = state is not None and state.answer_sha256 == answer_sha256(key, answer_in(row))
        if same and state is not None and state.certificate:
            counts["certified"] += 1
        elif row["finish_reason"] == "error" or (key in known and state is None):
            counts["unchecked"] += 1
        else:
            counts["stated"] += 1
    return counts


def note_verdicts(path: Path, folder: Path, suites: Iterable[str]) -> None:
    """Notes what judged: this process, unless the verdicts in ``folder`` are those that
    are noted."""
    noted = read_object(path)
    hashes = {suite: sha256_file(folder / f"{suite}.jsonl") for suite in suites}
    if noted.get("judged", {}).get("verdicts_sha256") != hashes:
        judged = {"verdicts_sha256": hashes, "judged_at": utc(time.time()), **this_run(None)}
        write_json(path, {**noted, "judged": judged})


def _noted_runs(noted: Mapping[str, Any], suite: str, sha256: str) -> list[Any]:
    """The run of each row of a suite as a file notes it, None where it is not known; []
    where the file is of other rows."""
    runs = []
    for place, count in _noted(noted, suite, sha256).get("runs", ()):
        run = None if place is None else noted["runs"][place]
        runs += [run] * count
    return runs


def _noted(noted: Mapping[str, Any], suite: str, sha256: str) -> Row:
    """What a file notes of a suite, {} where it is of other rows."""
    notes: Row = noted.get("suites", {}).get(suite, {})
    return notes if notes.get("responses_sha256") == sha256 else {}
