"""Checks in which a model judges the answers: requirements, and coherency of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refract.checks.measuring import (
    Measured,
    measure_rows,
    single_input,
    source_rows,
    why_untested,
)
from refract.checks.result import CheckResult, exchange, labelled_result, unjudged
from refract.core.types import Row
from refract.judges.cases import judgeable

if TYPE_CHECKING:
    import pandas as pd


def output_requirement(
    model: Any,
    dataset: pd.DataFrame,
    requirement: str | Sequence[str] | None = None,
    *,
    requirement_column: str | None = None,
    judge: Any = None,
    eval_prompt: str | None = None,
    description: str | None = None,
    template: str | None = None,
    seed: int = 0,
) -> CheckResult:
    """Has a judge model decide whether each answer meets one or more requirements.

    ``requirement_column`` names a column with one more requirement for each row. ``eval_prompt``
    replaces what the judge is told to do; the fenced exchange and the form of its reply stay.
    ``description`` tells the judge what the model is for. ``metric`` is the share of judged answers
    that fail; the check passes when every row was judged and none fails. Raises ValueError for
    settings that cannot be used.
    """
    wanted = [requirement] if isinstance(requirement, str) else list(requirement or [])
    if not wanted and requirement_column is None:
        raise ValueError("give a requirement, or the name of a requirement_column")
    rows = source_rows(dataset)
    if requirement_column is not None:
        if requirement_column not in dataset.columns:
            raise ValueError(
                f"requirement_column {requirement_column!r} is not a column; the dataset has "
                f"{', '.join(map(str, dataset.columns))}"
            )
        rows = source_rows(dataset.drop(columns=requirement_column))
        for row, own in zip(rows, source_rows(dataset), strict=True):
            row["requirement"] = own["features"][str(requirement_column)].strip()
    judges = {
        "rules": {"kind": "rules"},
        "requirement": _judge("requirement", judge, eval_prompt, description, requirements=wanted),
    }
    found = measure_rows(model, rows, judges, template=template, seed=seed)
    ids = list(found.prompts)
    details = [{**exchange(found, id_), **_opinion(found, id_, "requirement")} for id_ in ids]
    return _judged_result(details, unjudged(found, ids, "requirement"))


def single_output_requirement(
    model: Any,
    input_var: str,
    requirement: str | Sequence[str],
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`output_requirement` on one input: a text, or a JSON object of features.

    A text is the only feature, ``prompt``.
    """
    return output_requirement(
        model, single_input(input_var, input_as_json), requirement, **settings
    )


def output_coherency(
    model: Any,
    dataset_1: pd.DataFrame,
    dataset_2: pd.DataFrame | None = None,
    eval_prompt: str | None = None,
    *,
    judge: Any = None,
    description: str | None = None,
    template: str | None = None,
    seed: int = 0,
) -> CheckResult:
    """Has a judge model decide whether answers to paired inputs are coherent.

    The rows of ``dataset_2`` are paired with those of ``dataset_1`` by index label, in whatever order
    they are; without it the inputs of ``dataset_1`` are sent a second time. ``eval_prompt``
    replaces what the judge is told to do. ``metric`` is the share of judged pairs that contradict
    each other; the check passes when every pair was judged and none does. Raises ValueError where
    the two datasets do not have the same labels and columns.
    """
    first = source_rows(dataset_1)
    second = source_rows(dataset_1 if dataset_2 is None else dataset_2)
    for what, one, two in (
        ("index labels", *({row["id"] for row in rows} for rows in (first, second))),
        ("columns", *(set(rows[0]["features"]) for rows in (first, second))),
    ):
        only_one = sorted(set(one) ^ set(two))
        if only_one:
            raise ValueError(
                f"dataset_1 and dataset_2 must have the same {what}; only one of them has "
                f"{', '.join(only_one[:10])}"
            )
    ids = [row["id"] for row in first]
    suffix = "/2"
    while any(f"{id_}{suffix}" in ids for id_ in ids):
        suffix += "/2"
    pairs = [{**row, "id": f"{row['id']}{suffix}", "pair_id": row["id"]} for row in second]
    judges = {
        "rules": {"kind": "rules"},
        "coherency": _judge("coherency", judge, eval_prompt, description),
    }
    found = measure_rows(
        model,
        first + pairs,
        judges,
        template=template,
        seed=seed,
        fresh=frozenset(row["id"] for row in pairs) if dataset_2 is None else frozenset(),
    )
    details = []
    errors = []
    for id_ in ids:
        one, two = exchange(found, id_), exchange(found, f"{id_}{suffix}")
        details.append(
            {
                "id": one["id"],
                **{f"{key}_1": one[key] for key in ("prompt", "response")},
                **{f"{key}_2": two[key] for key in ("prompt", "response")},
                **_opinion(found, f"{id_}{suffix}", "coherency"),
            }
        )
        if details[-1]["label"] is None:
            if judgeable(found.responses[id_]):
                why = why_untested(found, f"{id_}{suffix}", "coherency")
            else:
                why = f"of the first answer: {why_untested(found, id_)}"
            errors.append(f"{id_}: not judged ({why})")
    return _judged_result(details, errors)


def _judge(
    kind: str, judge: Any, eval_prompt: str | None, description: str | None, **more: Any
) -> dict[str, Any]:
    if judge is None:
        raise ValueError(
            "say which model judges, as in judge={'adapter': 'openai', 'model_id': 'gpt-4.1-mini'}; "
            "nothing is sent to a provider that was not named"
        )
    own = dict(judge) if isinstance(judge, Mapping) and "model" in judge else {"model": judge}
    settings = {"eval_prompt": eval_prompt, "description": description, **more}
    return {"kind": kind, **own, **{key: value for key, value in settings.items() if value}}


def _opinion(found: Measured, prompt_id: str, judge: str) -> Row:
    verdict = found.verdicts[prompt_id][judge]
    return {
        "label": verdict["label"],
        "reason": verdict.get("reason"),
        "raw": verdict.get("raw"),
        "error": verdict["error"],
    }


def _judged_result(details: list[Row], errors: list[str]) -> CheckResult:
    # No row may fail: one that was not judged could be the one that does.
    failures = [row for row in details if row["label"] == "fail"]
    return labelled_result(not failures and not errors, failures, errors, details)
