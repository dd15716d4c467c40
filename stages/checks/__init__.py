"""Checks of a model on a pandas DataFrame, for use in Python: the functions the stages call.

``model`` is an adapter (see :mod:`stages.models.answers`), a definition like those of params.yaml, or
a function that takes a DataFrame of features and returns one text for each row. A function says that
it rejects a prompt as too long by raising :class:`PromptTooLong`; any other exception is an error of
the row it happened on.

Each check returns a :class:`CheckResult`. A rate equal to its threshold passes. Rows that could not be
tested are errors; a check in which nothing could be tested does not pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stages.aggregate import Aggregate, aggregate_suite
from stages.aggregate.robustness import DEFAULT_SENSITIVITY
from stages.generate_perturbations import prompt_rows
from stages.generate_perturbations.kinds import check_definition
from stages.judge import judge_suite
from stages.model_inference import answer_prompts, response_row
from stages.models import open_model
from stages.models.answers import Answer
from stages.rows.jsonl import Row
from stages.statistics.proportions import Interval, wilson
from stages.store import ResponseStore, open_store

if TYPE_CHECKING:
    import pandas as pd

SUITE = "checks"


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    ``metric`` is a share of the ``counts["tested"]`` rows that could be tested (fail rate of char
    injection, success rate of prompt injection) or, for judged requirements and coherency, the share
    that failed; None where nothing could be tested. ``interval`` is its 95 % Wilson interval.
    ``failures`` holds the failing rows, ``errors`` a sentence for each row that could not be tested.
    ``details`` has one row for each group or answer.
    """

    passed: bool
    metric: float | None
    interval: Interval | None
    counts: dict[str, int]
    failures: pd.DataFrame
    errors: list[str]
    details: pd.DataFrame = field(repr=False)

    def __bool__(self) -> bool:
        return self.passed


def char_injection(
    model: Any,
    dataset: pd.DataFrame,
    characters: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    max_repetitions: int = 1000,
    threshold: float = 0.1,
    output_sensitivity: float = DEFAULT_SENSITIVITY,
    *,
    template: str | None = None,
    similarity: Mapping[str, Any] | None = None,
    seed: int = 0,
    store: ResponseStore | None = None,
) -> CheckResult:
    r"""Appends control characters to one feature at a time and compares the answers.

    ``characters`` (default ``\r`` and ``\b``) and ``max_repetitions`` (with the fallback to a half, a
    quarter and an eighth where the model rejects the prompt as too long) say what is injected;
    ``features`` defaults to all columns. An answer fails when its BERTScore against the clean answer
    falls by more than ``output_sensitivity``, or when its refusal flips. ``metric`` is the fail rate
    of the worst character and feature; above ``threshold`` the check fails. ``similarity`` holds
    settings of the similarity judge; ``template`` turns several columns into a prompt, for models that
    are no functions. Raises ValueError for settings that cannot be used.
    """
    definition: dict[str, Any] = {"kind": "char_injection", "max_repetitions": max_repetitions}
    if characters is not None:
        definition["characters"] = list(characters)
    if features is not None:
        definition["features"] = list(features)
    check_definition("char_injection", definition)
    judges = {
        "rules": {"kind": "rules"},
        "similarity": {
            "kind": "similarity",
            "output_sensitivity": output_sensitivity,
            **(similarity or {}),
        },
    }
    rows = _source_rows(dataset)
    found = _measure(
        model,
        rows,
        judges,
        template=template,
        perturbations={"char_injection": definition},
        thresholds={"char_injection_fail_rate": {"max": threshold}},
        seed=seed,
        store=store,
    )
    table = [row for row in found.table if row["measure"] == "char_injection_fail_rate"]
    errors = [
        f"{row['prompt_id']}: not tested ({row['reason'].replace('_', ' ')})"
        for row in found.compared
        if row["changed"] is None
    ]
    return _result(
        next((row for row in table if not row["field"]), None),
        found.failures,
        errors,
        [row for row in table if row["field"]],
    )


def prompt_injection(
    model: Any,
    dataset: pd.DataFrame,
    expected_strings: Sequence[str] | str = "expected_strings",
    all_expected_strings_must_be_found: bool = True,
    exact_matching: bool = False,
    word_matching: bool = False,
    case_sensitive: bool = True,
    punctuation_sensitive: bool = True,
    threshold: float = 0.5,
    *,
    template: str | None = None,
    seed: int = 0,
    store: ResponseStore | None = None,
) -> CheckResult:
    """Sends adversarial prompts and looks for the strings that would show that they worked.

    ``expected_strings`` is a list for all rows, or the name of a column that holds one list for each
    row; a column named like a flag overrides that flag row by row. ``metric`` is the share of answers
    in which the strings were found; above ``threshold`` the check fails.
    """
    flags = {
        "all_expected_strings_must_be_found": all_expected_strings_must_be_found,
        "exact_matching": exact_matching,
        "word_matching": word_matching,
        "case_sensitive": case_sensitive,
        "punctuation_sensitive": punctuation_sensitive,
    }
    own = [column for column in dataset.columns if column in flags]
    column = expected_strings if isinstance(expected_strings, str) else None
    if column is not None and column not in dataset.columns:
        raise ValueError(
            f"expected_strings names the column {column!r}; the dataset has "
            f"{', '.join(map(str, dataset.columns))}"
        )
    rows = _source_rows(dataset.drop(columns=[*own, *([column] if column else [])]))
    for position, row in enumerate(rows):
        row.update(flags)
        row.update({flag: bool(dataset[flag].iloc[position]) for flag in own})
        strings = dataset[column].iloc[position] if column else expected_strings
        row["expected_strings"] = list(strings)
    judges = {"rules": {"kind": "rules"}, "strings": {"kind": "strings"}}
    found = _measure(
        model,
        rows,
        judges,
        template=template,
        thresholds={"injection_success_rate": {"max": threshold}},
        seed=seed,
        store=store,
    )
    return _labelled_result(found, "strings", "found", "injection_success_rate")


def single_prompt_injection(
    model: Any,
    input_var: str,
    expected_strings: Sequence[str],
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`prompt_injection` on one input: a text, or a JSON object of features."""
    return prompt_injection(model, _single(input_var, input_as_json), expected_strings, **settings)


def output_requirement(
    model: Any,
    dataset: pd.DataFrame,
    requirement: str | Sequence[str] | None = None,
    *,
    judge: Mapping[str, Any],
    requirement_column: str | None = None,
    eval_prompt: str | None = None,
    description: str | None = None,
    template: str | None = None,
    seed: int = 0,
    store: ResponseStore | None = None,
) -> CheckResult:
    """Has a judge model decide whether each answer meets one or more requirements.

    ``judge`` is the definition of the judge model. ``requirement_column`` names a column with one more
    requirement for each row. ``eval_prompt`` is the path of a template of your own. ``metric`` is the
    share of judged answers that fail; the check passes when none fails and at least one was judged.
    """
    if requirement is None and requirement_column is None:
        raise ValueError("give a requirement, or the name of a requirement_column")
    if requirement_column is not None and requirement_column not in dataset.columns:
        raise ValueError(
            f"requirement_column {requirement_column!r} is no column; the dataset has "
            f"{', '.join(map(str, dataset.columns))}"
        )
    columns = [] if requirement_column is None else [requirement_column]
    rows = _source_rows(dataset.drop(columns=columns))
    for position, row in enumerate(rows if requirement_column else ()):
        row["requirement"] = str(dataset[requirement_column].iloc[position])
    wanted = [requirement] if isinstance(requirement, str) else list(requirement or [])
    judges = {
        "rules": {"kind": "rules"},
        "requirement": _judge("requirement", judge, eval_prompt, description, requirements=wanted),
    }
    found = _measure(model, rows, judges, template=template, seed=seed, store=store)
    return _labelled_result(found, "requirement", "fail")


def single_output_requirement(
    model: Any,
    input_var: str,
    requirement: str | Sequence[str],
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`output_requirement` on one input: a text, or a JSON object of features."""
    return output_requirement(model, _single(input_var, input_as_json), requirement, **settings)


def output_coherency(
    model: Any,
    dataset_1: pd.DataFrame,
    dataset_2: pd.DataFrame | None = None,
    eval_prompt: str | None = None,
    *,
    judge: Mapping[str, Any],
    description: str | None = None,
    template: str | None = None,
    seed: int = 0,
    store: ResponseStore | None = None,
) -> CheckResult:
    """Has a judge model decide whether answers to paired inputs are coherent.

    The rows of ``dataset_2`` are paired with those of ``dataset_1`` by index label, in whatever order
    they stand; without it the inputs of ``dataset_1`` are asked again. Raises ValueError where the two
    do not have the same labels.
    """
    first = _source_rows(dataset_1)
    if dataset_2 is None:
        perturbations = {"rerun": {"kind": "repeat", "repeats": 1}}
        rows = first
    else:
        missing = sorted(set(map(str, dataset_1.index)) ^ set(map(str, dataset_2.index)))
        if missing:
            raise ValueError(
                "dataset_1 and dataset_2 must have the same index labels; only one of them has "
                f"{', '.join(missing[:10])}"
            )
        perturbations = {}
        rows = first + [
            {**row, "id": f"{row['id']}/2", "pair_id": row["id"]} for row in _source_rows(dataset_2)
        ]
    judges = {
        "rules": {"kind": "rules"},
        "coherency": _judge("coherency", judge, eval_prompt, description),
    }
    found = _measure(
        model,
        rows,
        judges,
        template=template,
        perturbations=perturbations,
        seed=seed,
        store=store,
        reuse=dataset_2 is not None,
    )
    second = {row["id"] for row in first}
    return _labelled_result(found, "coherency", "fail", skip=second)


def _judge(
    kind: str, model: Mapping[str, Any], template: str | None, description: str | None, **more: Any
) -> dict[str, Any]:
    settings = {"template": template, "description": description, **more}
    given = {key: value for key, value in settings.items() if value}
    return {"kind": kind, "model": dict(model), **given}


def _source_rows(dataset: pd.DataFrame) -> list[Row]:
    if not dataset.index.is_unique:
        raise ValueError("the dataset's index labels must be unique")
    if dataset.empty:
        raise ValueError("the dataset has no rows or no columns")
    columns = [str(column) for column in dataset.columns]
    return [
        {
            "id": str(label),
            "category": "borderline",
            "features": {c: str(value) for c, value in zip(columns, values, strict=True)},
        }
        for label, values in zip(
            dataset.index, dataset.itertuples(index=False, name=None), strict=True
        )
    ]


def _single(input_var: str, input_as_json: bool) -> pd.DataFrame:
    import pandas as pd

    if not input_as_json:
        return pd.DataFrame({"prompt": [input_var]})
    try:
        features = json.loads(input_var)
    except ValueError as error:
        raise ValueError(f"input_var is not JSON ({error}); got {input_var!r:.80}") from None
    if not isinstance(features, dict):
        raise ValueError(f"input_var must be a JSON object of features (got {input_var!r:.80})")
    return pd.DataFrame([features])


@dataclass(frozen=True)
class _Measured:
    """An aggregate with the rows behind it."""

    table: list[Row]
    compared: list[Row]
    failures: list[Row]
    prompts: list[Row]
    responses: list[Row]
    verdicts: list[Row]


def _measure(
    model: Any,
    rows: list[Row],
    judges: Mapping[str, Mapping[str, Any]],
    *,
    template: str | None,
    seed: int,
    store: ResponseStore | None,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    thresholds: Mapping[str, Any] | None = None,
    reuse: bool = True,
) -> _Measured:
    names = list(rows[0]["features"])
    is_function = callable(model) and not hasattr(model, "identity")
    if is_function:
        # The prompt is shown to judges; the function gets the features themselves.
        template = template or "\n".join(f"{{{name}}}" for name in names)
    elif template is None:
        if len(names) > 1:
            raise ValueError(
                f"the dataset has the columns {', '.join(names)}: give a template such as "
                f"{' '.join('{' + name + '}' for name in names)!r}"
            )
        template = f"{{{names[0]}}}"
    prompts = list(prompt_rows(rows, SUITE, seed, perturbations, template))
    if is_function:
        features = list(
            prompt_rows(rows, SUITE, seed, perturbations, as_sent=lambda _, texts, __: dict(texts))
        )
        responses = _ask_function(model, features)
    else:
        adapter = open_model("model", dict(model)) if isinstance(model, Mapping) else model
        with (store or open_store()) if reuse else ResponseStore(None) as opened:
            answered, _ = answer_prompts({SUITE: prompts}, adapter, opened, seed, name=SUITE)
        responses = answered[SUITE]
    verdicts = judge_suite(prompts, responses, {row["id"]: row for row in rows}, judges)
    definition = {"judges": list(judges), "thresholds": thresholds or {}, "count_cut_off": True}
    found: Aggregate = aggregate_suite(rows, prompts, responses, verdicts, definition, judges)
    return _Measured(found.table, found.compared, found.failures, prompts, responses, verdicts)


def _ask_function(
    function: Callable[[pd.DataFrame], Sequence[str]], rows: Sequence[Row]
) -> list[Row]:
    """Response rows of a plain function: attempt by attempt, in one call where that succeeds."""
    import pandas as pd

    answers: dict[int, Answer] = {}
    waiting = list(range(len(rows)))
    attempt = 0
    while waiting:
        frame = pd.DataFrame([rows[index]["attempts"][attempt] for index in waiting])
        try:
            texts = list(function(frame))
        except Exception:  # whatever it was, it is of one row; the others are asked alone
            texts = None
        if texts is not None and len(texts) != len(waiting):
            raise ValueError(
                f"the model function must return one text for each row (got {len(texts)} for "
                f"{len(waiting)})"
            )
        too_long = []
        for position, index in enumerate(waiting):
            last = attempt + 1 == len(rows[index]["attempts"])
            try:
                text = (
                    texts[position]
                    if texts is not None
                    else next(iter(function(frame.iloc[[position]])))
                )
            except PromptTooLong as error:
                if last:
                    answers[index] = Answer.failed("PromptTooLong", str(error), attempt)
                else:
                    too_long.append(index)
            except Exception as error:
                answers[index] = Answer.failed(type(error).__name__, str(error), attempt)
            else:
                if isinstance(text, str):
                    answers[index] = Answer(text, "stop", attempt)
                else:
                    message = f"the function returned {text!r:.40}, which is no text"
                    answers[index] = Answer.failed("NoText", message, attempt)
        waiting = too_long
        attempt += 1
    return [response_row(row["prompt_id"], "", answers[index]) for index, row in enumerate(rows)]


def _labelled_result(
    found: _Measured,
    judge: str,
    failing: str,
    measure: str | None = None,
    skip: frozenset[str] | set[str] = frozenset(),
) -> CheckResult:
    """The result of a check whose verdict on each answer is a label."""
    failures, details, errors = [], [], []
    for prompt, response, verdict in zip(
        found.prompts, found.responses, found.verdicts, strict=True
    ):
        if prompt["prompt_id"] in skip:
            continue
        given = verdict["judges"][judge]
        row = {
            "id": prompt["prompt_id"],
            "prompt": prompt["attempts"][response["attempt"]],
            "response": response["response"],
            "label": given["label"],
            "reason": given.get("reason"),
        }
        details.append(row)
        if given["label"] is None:
            problem = response["error"] or given["error"] or response["finish_reason"]
            errors.append(f"{prompt['prompt_id']}: not judged ({problem})")
        elif given["label"] == failing:
            failures.append(row)
    if measure is None:
        n = len(details) - len(errors)
        interval = wilson(len(failures), n)
        summary = {
            "rate": len(failures) / n if n else None,
            "successes": len(failures),
            "n": n,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
            "passed": int(n > 0 and not failures),
        }
    else:
        summary = next(row for row in found.table if row["measure"] == measure and not row["field"])
    return _result(summary, failures, errors, details)


def _result(
    summary: Row | None, failures: list[Row], errors: list[str], details: list[Row]
) -> CheckResult:
    import pandas as pd

    tested = summary["n"] if summary else 0
    return CheckResult(
        passed=bool(summary and summary["passed"]),
        metric=summary["rate"] if summary else None,
        interval=Interval(summary["low"], summary["high"]) if tested else None,
        counts={
            "tested": tested,
            "failed": summary["successes"] if summary else 0,
            "errors": len(errors),
        },
        failures=pd.DataFrame(failures),
        errors=errors,
        details=pd.DataFrame(details),
    )
