"""judge: response rows in, verdict rows out. To add a judge: write its function, name it in ``KINDS``.

A judge takes the cases of one suite that have a text to judge, and its definition from params.yaml;
it returns one verdict for each case, in order: ``label`` (None where it says nothing), ``refused``
(where the label means that), ``score``, ``evidence`` and ``error``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.params import ParamsError
from stages.rows.jsonl import Row

KINDS = {
    "rules": "stages.judge.rules:judge_cases",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with what it answers.

    ``prompt`` and ``response`` are rows of those types, ``source`` the suite row, ``clean`` the
    response row to the unperturbed prompt (None where the prompt is unperturbed itself).
    """

    prompt: Row
    response: Row
    source: Row
    clean: Row | None = None


def unjudged(error: str | None = None) -> Row:
    """The verdict of a judge that did not give one; ``error`` says why it could not."""
    return {"label": None, "refused": None, "score": None, "evidence": [], "error": error}


def judgeable(response: Row) -> bool:
    """Whether there is a text of the model's own to judge."""
    return response["finish_reason"] in ("stop", "length") and bool(response["response"].strip())


def judge_suite(
    prompts: Sequence[Row],
    responses: Sequence[Row],
    sources: Mapping[str, Row],
    judges: Mapping[str, Mapping[str, Any]],
) -> list[Row]:
    """Verdict rows for the responses of one suite, in their order.

    ``sources`` are the suite's rows by id; ``judges`` maps names to definitions. Raises
    :class:`ParamsError` for an unknown kind of judge.
    """
    by_id = {row["prompt_id"]: row for row in responses}
    cases = []
    for prompt in prompts:
        clean = by_id.get(prompt["source_id"]) if prompt["perturbation"] is not None else None
        cases.append(
            Case(prompt, by_id[prompt["prompt_id"]], sources[prompt["source_id"]], clean)
        )
    rows: list[Row] = [{"prompt_id": case.prompt["prompt_id"], "judges": {}} for case in cases]
    open_cases = [index for index, case in enumerate(cases) if judgeable(case.response)]
    for name, definition in judges.items():
        kind = definition.get("kind")
        if kind not in KINDS:
            raise ParamsError(
                f"judge {name!r}: kind must be one of {', '.join(sorted(KINDS))} (got {kind!r})"
            )
        module, _, function = KINDS[kind].partition(":")
        judge = getattr(importlib.import_module(module), function)
        verdicts = judge([cases[index] for index in open_cases], definition)
        for row in rows:
            row["judges"][name] = unjudged()
        for index, verdict in zip(open_cases, verdicts, strict=True):
            rows[index]["judges"][name] = verdict
    return rows


def judge_version(definition: Mapping[str, Any]) -> str:
    """What identifies a judge beyond its definition: the version of its code or prompt."""
    module = KINDS[definition["kind"]].partition(":")[0]
    return importlib.import_module(module).VERSION
