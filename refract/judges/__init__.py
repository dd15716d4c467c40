"""judge: response rows in, verdict rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refract.errors import ParamsError
from refract.judges.cases import Case, judgeable, unjudged
from refract.judges.kinds import KINDS
from refract.rows.jsonl import Row


def check_judge(name: str, definition: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for an unknown kind of judge, a setting that it does not have, or
    one whose value it cannot use."""
    kind = definition.get("kind")
    if kind not in KINDS:
        raise ParamsError(f"judge {name!r}: kind must be one of {', '.join(KINDS)} (got {kind!r})")
    # `validate` is for the stage validate-judges; it changes no verdict.
    unknown = sorted(set(definition) - {"kind", "validate", *KINDS[kind].settings})
    if unknown:
        allowed = ", ".join(KINDS[kind].settings) or "no settings"
        raise ParamsError(f"judge {name!r}: unknown {', '.join(unknown)}; {kind} has {allowed}")
    try:
        KINDS[kind].check(definition)
    except ParamsError as error:
        raise ParamsError(f"judge {name!r}: {error}") from None


def judge_suite(
    prompts: Sequence[Row],
    responses: Sequence[Row],
    sources: Mapping[str, Row],
    judges: Mapping[str, Mapping[str, Any]],
) -> list[Row]:
    """Verdict rows for the responses of one suite, in the order of its prompts.

    ``sources`` are the suite's rows by id; ``judges`` maps names to definitions. Raises
    :class:`ParamsError` for a definition that cannot be used.
    """
    prompt_of = {row["prompt_id"]: row for row in prompts}
    response_of = {row["prompt_id"]: row for row in responses}
    cases = [_case(prompt, prompt_of, response_of, sources) for prompt in prompts]
    rows: list[Row] = [{"prompt_id": case.prompt["prompt_id"], "judges": {}} for case in cases]
    judged = [index for index, case in enumerate(cases) if judgeable(case.response)]
    for name, definition in judges.items():  # all, before the first one costs anything
        check_judge(name, definition)
    for name, definition in judges.items():
        verdicts = KINDS[definition["kind"]].judge([cases[index] for index in judged], definition)
        for row in rows:
            row["judges"][name] = unjudged()
        for index, verdict in zip(judged, verdicts, strict=True):
            rows[index]["judges"][name] = verdict
    return rows


def judge_version(definition: Mapping[str, Any]) -> str:
    """What identifies a judge beyond its definition: the version of its code or prompt."""
    return KINDS[definition["kind"]].version(definition)


def _case(
    prompt: Row,
    prompts: Mapping[str, Row],
    responses: Mapping[str, Row],
    sources: Mapping[str, Row],
) -> Case:
    id_, source_id = prompt["prompt_id"], prompt["source_id"]
    source = sources[source_id]
    perturbed = prompt["perturbation"] is not None
    other = source_id if perturbed else source.get("pair_id")
    pair = None
    if other != id_ and other in prompts and judgeable(responses[other]):
        pair = Case(prompts[other], responses[other], sources[prompts[other]["source_id"]])
    clean = responses.get(source_id) if perturbed else None
    return Case(prompt, responses[id_], source, clean, pair)
