"""Verdicts in the response store, by the hash of what decides them, so that a change
judges what it changed.

A verdict is stored as an answer is: under a hash, with a checksum. Those with an error
are not, and judges that ask a model keep its replies there instead.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from refract.core.environment import code_sha256
from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json, sha256_file, sha256_json
from refract.core.registry import code_files, package_code
from refract.core.types import ResponseRow, Row, Verdict
from refract.judges.cases import Case, Judge
from refract.judges.processes import judged_by_processes
from refract.models.protocol import Answer
from refract.models.store import open_store

# What the store calls verdicts; no model can have this name.
VERDICTS = "(verdicts)"
# New verdicts are stored so many at a time, which is some minutes of the default judge: a run that
# is stopped goes on from there.
STORED_TOGETHER = 10_000
# Of an answer, what a judge may read that names its columns.
ANSWER_FIELDS = ("response", "finish_reason", "thinking", "tool_calls")


def judge_kept(
    judge: Judge, cases: Sequence[Case], counts: Counter[str] | None = None
) -> list[Verdict]:
    """The verdicts of a judge on some cases, in order; those that are stored come from
    the store. Cases that are equal to the judge are judged once.

    ``counts`` is added to: how many verdicts were ``reused`` and ``judged``, of a
    judge whose verdicts are kept."""
    if not cases:
        return []
    keys = verdict_keys(judge, cases)
    if keys is None:
        return judged_by_processes(judge, cases)
    with open_store() as store:
        verdicts = {key: answer.response for key, answer in store.get(keys).items()}
        missing = {}
        for key, case in zip(keys, cases, strict=True):
            if key not in verdicts:
                missing[key] = case
        waiting = list(missing)
        for start in range(0, len(waiting), STORED_TOGETHER):
            part = waiting[start : start + STORED_TOGETHER]
            judged = judged_by_processes(judge, [missing[key] for key in part])
            new = {}
            if len(judged) != len(part):
                raise ParamsError(
                    f"judges.{judge.name}: {type(judge).__name__}.judge must give a verdict for each "
                    f"case (got {len(judged)} for {len(part)})"
                )
            for key, verdict in zip(part, judged, strict=True):
                verdicts[key] = _text(judge, verdict)
                if not verdict["error"]:
                    new[key] = Answer(verdicts[key])
            store.put(new.items(), VERDICTS)
    if counts is not None:
        counts["judged"] += len(missing)
        counts["reused"] += len(cases) - len(missing)
    # Each case gets a verdict of its own: callers change them.
    return [json.loads(verdicts[key]) for key in keys]


def _text(judge: Judge, verdict: Verdict) -> str:
    try:
        return json.dumps(verdict, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParamsError(
            f"judges.{judge.name}: gives a verdict that is no JSON: {error}"
        ) from None


def verdict_keys(judge: Judge, cases: Sequence[Case]) -> list[str] | None:
    """The hash of all that decides a judge's verdict on each case; None where its
    verdicts are not kept."""
    decided_by = judge.decided_by()
    if decided_by is None:
        return None
    kind = type(judge)
    code = [f"{kind.__module__}:{kind.__qualname__}", code_sha256("judges"), _code_of(kind)]
    shared = canonical_json([*code, judge.version, decided_by])
    return [sha256_json([shared, _read(case, judge.columns)]) for case in cases]


@functools.cache
def _code_of(kind: type[Judge]) -> list[list[str]]:
    """The paths and hashes of the code of a judge that another package brings: all files of its
    package, since a word list may decide, and the modules of its base classes."""
    files = {}
    for each in filter(_from_elsewhere, kind.__mro__):
        files[f"{each.__module__}:"] = Path(inspect.getfile(each))
    for folder in package_code(kind.__module__).values() if _from_elsewhere(kind) else ():
        files |= {file.relative_to(folder).as_posix(): file for file in code_files(folder)}
    return [[name, sha256_file(file)] for name, file in sorted(files.items())]


def _from_elsewhere(kind: type) -> bool:
    top = kind.__module__.partition(".")[0]
    return top != "refract" and top not in sys.stdlib_module_names


def _read(case: Case, columns: Sequence[str] | None) -> list[Any]:
    """What a judge that reads these columns may read of a case."""
    pair = None if case.pair is None else _read(case.pair, columns)
    clean = None if case.clean is None else _answer(case.clean, columns)
    answer = _answer(case.response, columns)
    if columns is None:
        return [case.prompt, answer, case.source, clean, pair, case.plain]
    row = {name: case.source[name] for name in columns if name in case.source}
    return [case.turns, answer, row, clean, pair, case.request]


def _answer(response: ResponseRow, columns: Sequence[str] | None) -> Mapping[str, Any]:
    if columns is None:
        return response
    fields = cast(Row, response)
    return {name: fields.get(name) for name in ANSWER_FIELDS}
