"""What made a model's answers and verdicts, beside the numbers: ``metrics/ran/MODEL.json``.

The file is in git and no output of the pipeline: a processor, a time and a version differ where the
answers do not. What it says of a file of rows is valid while that file's hash matches, so that making
the same results again changes nothing in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from refract.core.environment import this_run, utc
from refract.core.jsonl import canonical_json, read_responses, sha256_file, sha256_json, write_json
from refract.core.progress import read_object
from refract.core.types import ResponseRow, Row
from refract.models.protocol import AnswerOrigin
from refract.models.store import ResponseStore


def learn_origins(path: Path, folder: Path, store: ResponseStore) -> None:
    """Has the store know by which run the rows in a folder of responses were made.

    They may have come with ``dvc pull``, and the file at ``path`` with git.
    """
    noted = read_object(path)
    origins: dict[str, AnswerOrigin] = {}
    for suite in noted.get("suites", {}):
        rows = folder / f"{suite}.jsonl"
        runs = _noted_runs(noted, suite, sha256_file(rows)) if rows.is_file() else []
        if runs:
            for row, run in zip(read_responses(rows), runs, strict=True):
                if run is not None:
                    origins[row["request_sha256"]] = AnswerOrigin(run)
    store.learn_origins(origins)


def note_answers(
    path: Path,
    folder: Path,
    responses: Mapping[str, Sequence[ResponseRow]],
    origins: Mapping[str, AnswerOrigin],
) -> None:
    """Notes which runs made the answers of each suite, which stand in ``folder``.

    A row whose run was not known gets the one that is known now.
    """
    noted = read_object(path)
    hashes = {suite: sha256_file(folder / f"{suite}.jsonl") for suite in responses}
    write_json(path, {**noted, **made_by(responses, hashes, origins, noted)})


def made_rows(rows: Sequence[Row], origins: Mapping[str, AnswerOrigin]) -> Row:
    """What :func:`made_by` says of the rows of one run of ``refract run``. The hash of a suite's
    responses is that of their checksums, since they may be in no file."""
    by_suite: dict[str, list[Any]] = {}
    for row in rows:
        by_suite.setdefault(row["suite"], []).append(row)
    hashes = {
        suite: sha256_json([row["answer_sha256"] for row in of_suite])
        for suite, of_suite in by_suite.items()
    }
    return made_by(by_suite, hashes, origins, {})


def made_by(
    responses: Mapping[str, Sequence[ResponseRow]],
    hashes: Mapping[str, str],
    origins: Mapping[str, AnswerOrigin],
    noted: Mapping[str, Any],
) -> Row:
    """``runs``, the earliest first, and for each of the ``suites`` the hash of its responses and which
    run made how many rows, in their order; null stands for a run that is not known. What is
    ``noted`` of a suite's rows goes before ``origins``."""
    records: dict[str, Mapping[str, Any]] = {}
    answers: dict[str, dict[str, ResponseRow]] = {}
    makers: dict[str, list[str | None]] = {}  # of each row
    names: dict[int, str] = {}  # by the run's place in memory: rows share few runs
    for suite, rows in responses.items():
        makers[suite] = []
        before = _noted_runs(noted, suite, hashes[suite]) or [None] * len(rows)
        for row, old in zip(rows, before, strict=True):
            origin = origins.get(row["request_sha256"])
            run = old or (origin and origin.run)
            if run is None:
                makers[suite].append(None)
                continue
            name = names.get(id(run)) or names.setdefault(id(run), _name(run))
            makers[suite].append(name)
            # What was measured of a run when it was first noted stays, whichever of its rows do.
            if "measured" in run or name not in records:
                records[name] = run
            answers.setdefault(name, {})[row["request_sha256"]] = row
    order = sorted(records, key=lambda name: (records[name]["started_at"], name))
    places = {name: place for place, name in enumerate(order)}
    return {
        "runs": [
            {"measured": measured(records[name], answers[name], origins), **records[name]}
            for name in order
        ],
        "suites": {
            suite: {
                "responses_sha256": hashes[suite],
                "runs": [
                    [name and places[name], len(list(same))] for name, same in groupby(of_rows)
                ],
            }
            for suite, of_rows in makers.items()
        },
    }


def measured(
    run: Mapping[str, Any], rows: Mapping[str, ResponseRow], origins: Mapping[str, AnswerOrigin]
) -> Row | None:
    """How many of a run's answers, by request, were made in which time; None where that was not
    measured. ``seconds`` go from the run's start to its last answer, without loading weights."""
    ends = [end for key in rows if key in origins if (end := origins[key].at) is not None]
    if not ends:
        return None
    tokens = [row["completion_tokens"] for row in rows.values()]
    return {
        "answers": len(rows),
        "completion_tokens": None if None in tokens else sum(count or 0 for count in tokens),
        "seconds": round(max(ends) - (run["runtime"].get("load_seconds") or 0.0), 3),
    }


def note_verdicts(path: Path, folder: Path, suites: Iterable[str]) -> None:
    """Notes what judged: this process, unless the verdicts in ``folder`` are those that are noted."""
    noted = read_object(path)
    hashes = {suite: sha256_file(folder / f"{suite}.jsonl") for suite in suites}
    if noted.get("judged", {}).get("verdicts_sha256") != hashes:
        judged = {"verdicts_sha256": hashes, "judged_at": utc(time.time()), **this_run(None)}
        write_json(path, {**noted, "judged": judged})


def _noted_runs(noted: Mapping[str, Any], suite: str, sha256: str) -> list[Any]:
    """The run of each row of a suite as a file notes it, None where it is not known; [] where the
    file is of other rows."""
    of_suite = noted.get("suites", {}).get(suite, {})
    if of_suite.get("responses_sha256") != sha256:
        return []
    return [
        None if place is None else noted["runs"][place]
        for place, count in of_suite["runs"]
        for _ in range(count)
    ]


def _name(run: Mapping[str, Any]) -> str:
    """What a run is told apart by: all but what was measured of it."""
    return canonical_json({key: value for key, value in run.items() if key != "measured"})
