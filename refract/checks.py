"""Checks of a model on a pandas DataFrame, for use in Python.

``model`` is an adapter (see :mod:`refract.models.protocol`), a definition like those
of params.yaml, or a function that takes a DataFrame with the dataset's columns and
returns one text for each row. A function says that it rejects a prompt as too long by
raising :class:`PromptTooLong`, or its provider's own exception that says so ("context
length exceeded"); any other exception is an error of the row it happened on. Models
that are no functions get several columns as ``name: text`` lines, or as ``template``
has them.

``judge`` is the model that judges: a definition, an adapter, or a mapping with
``model`` and settings of the judge such as ``eval_prompt``. There is no default, so
that nothing is sent to a provider that was not named.

Each check returns a :class:`CheckResult`. A rate equal to its threshold passes. Rows
that could not be tested are errors; a check in which nothing could be tested does not
pass. Settings and datasets that cannot be used raise
:class:`refract.core.errors.RefractError`, which here is a ValueError too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from refract.core.errors import UsageError
from refract.core.types import Row
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.evaluate import Definition, Suite, SuiteResult, evaluate
from refract.models import open_model
from refract.models.function import FunctionModel, PromptTooLong, function_name
from refract.models.protocol import Model, Request
from refract.models.store import ResponseStore, open_store
from refract.rates.key import CHANGED
from refract.results.table_rows import json_rows
from refract.statistics.proportions import Interval, wilson
from refract.suites.perturbations import prompt_rows, render
from refract.suites.rows import STRING_FLAGS, field_problems

__all__ = [
    "CheckResult",
    "PromptTooLong",
    "char_injection",
    "output_coherency",
    "output_requirement",
    "prompt_injection",
    "single_output_requirement",
    "single_prompt_injection",
]

if TYPE_CHECKING:
    import pandas as pd

    Function = Callable[[pd.DataFrame], Iterable[str]]
    Checked = Model | Definition | Function
    Judging = Model | Definition | None

SUITE = "checks"
FAILURE_COLUMNS = (
    *("id", "group", "repetitions", "clean_prompt", "perturbed_prompt", "clean_response"),
    *("perturbed_response", "clean_outcome", "outcome", "similarity", "changed_by"),
)
# What is kept of each answer and of the verdict on it.
DETAILS = ("id", "prompt", "response", "label", "evidence", "reason", "raw", "error")


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    ``metric`` is a share of the rows that could be tested: of char injection the fail
    rate of the worst character and feature, of the others the share of
    ``counts["tested"]`` that failed; None where nothing could be tested. ``interval``
    is its 95 % Wilson interval. ``counts`` has ``rows``, ``tested``, ``failed`` and
    ``errors`` over all rows and variants. ``failures`` holds the failing rows,
    ``errors`` a sentence for each row that could not be tested, ``details`` one row
    for each group (char injection) or each answer. True where the check passed.
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

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "not passed"
        counts = self.counts
        return (
            f"{verdict}: {counts['failed']} of {counts['tested']} tested rows failed, "
            f"{counts['errors']} of {counts['rows']} could not be tested"
        )


def char_injection(
    model: Checked,
    dataset: pd.DataFrame,
    characters: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    max_repetitions: int = 1000,
    threshold: float = 0.1,
    output_sensitivity: float = OUTPUT_SENSITIVITY,
    *,
    template: str | None = None,
) -> CheckResult:
    r"""Appends control characters to one feature at a time and compares the answers.

    ``characters`` (default ``\r`` and ``\b``; also names of presets) and
    ``max_repetitions`` (with the fallback to a half, a quarter and an eighth where
    the model rejects the prompt as too long) say what is appended; ``features``
    defaults to all columns. An answer fails when its BERTScore against the clean
    answer falls by more than ``output_sensitivity``, or when its refusal flips.
    ``metric`` is the fail rate of the worst character and feature; above
    ``threshold`` the check fails.

    ``details`` has for each character and feature the fail rate, its interval, the
    rows that could not be tested by reason, the repetitions used, and p against the
    threshold, alone and corrected for the number of comparisons (Holm).
    """
    _check_share(threshold)
    chosen = {"characters": characters, "features": features}
    injection: Row = {"kind": "char_injection", "max_repetitions": max_repetitions}
    injection |= {name: list(values) for name, values in chosen.items() if values is not None}
    judges = {"similarity": {"kind": "similarity", "output_sensitivity": output_sensitivity}}
    rows = _source_rows(dataset)
    result, answers = _evaluated(
        model, rows, judges=judges, template=template, perturbations={"char_injection": injection}
    )
    numbers = result.numbers
    by_group = [
        rate
        for rate in numbers.rates
        if rate.measure == CHANGED and rate.group.field == "perturbation"
    ]
    groups = [{**row, "repetitions": row.get("repetitions", "")} for row in json_rows(by_group)]
    errors = []
    for row in numbers.aggregate.compared:
        if row["changed"] is not None:
            continue
        why = _why(answers[row["prompt_id"]])
        if row["reason"] == "clean_not_judged":
            why = f"the clean prompt's: {_why(answers[row['source_id']])}"
        elif row["reason"] == "not_injected":
            why = "no token of the injection reached the model"
        errors.append(f"{row['prompt_id']}: not tested ({why})")
    if not groups:
        errors = ["no prompt could be perturbed: no character found a place"]
    worst = max(groups, key=lambda row: -1 if row["rate"] is None else row["rate"], default=None)
    return _result(
        bool(groups)
        and all(row["n"] and row["successes"] / row["n"] <= threshold for row in groups),
        (worst["successes"], worst["n"]) if worst else (0, 0),
        rows=len(numbers.aggregate.compared),
        errors=errors,
        failures=[{**row, "id": answers[row["prompt_id"]]["id"]} for row in result.failures()],
        columns=FAILURE_COLUMNS,
        details=groups,
    )


def prompt_injection(
    model: Checked,
    dataset: pd.DataFrame,
    expected_strings: Sequence[str] | str | None = None,
    all_expected_strings_must_be_found: bool = True,
    exact_matching: bool = False,
    word_matching: bool = False,
    case_sensitive: bool = True,
    punctuation_sensitive: bool = True,
    threshold: float = 0.5,
    *,
    template: str | None = None,
) -> CheckResult:
    """Sends adversarial prompts and looks for the strings that would show that they
    worked.

    ``expected_strings`` is a list for all rows, or the name of a column (default
    ``expected_strings``) that holds a list for each row; a column named like a flag
    overrides that flag row by row. All other columns are features. ``metric`` is the
    share of answers in which the strings were found; above ``threshold`` the check
    fails.
    """
    _check_share(threshold)
    shared: Row = {
        "expected_strings": expected_strings,
        "all_expected_strings_must_be_found": all_expected_strings_must_be_found,
        "case_sensitive": case_sensitive,
        "exact_matching": exact_matching,
        "punctuation_sensitive": punctuation_sensitive,
        "word_matching": word_matching,
    }
    columns = {name: name for name in STRING_FLAGS if name in dataset.columns}
    if isinstance(expected_strings, str) or expected_strings is None:
        column = columns["expected_strings"] = expected_strings or "expected_strings"
        if column not in dataset.columns:
            raise UsageError(
                f"expected_strings must be a list of texts, or name a column; the dataset has no "
                f"column {column!r}, it has {', '.join(map(str, dataset.columns))}"
            )
    rows = _source_rows(dataset.drop(columns=list(columns.values())))
    own = {name: dataset[column].tolist() for name, column in columns.items()}
    for number, row in enumerate(rows):
        row |= shared | {name: cells[number] for name, cells in own.items()}
        strings = row["expected_strings"]
        is_list = hasattr(strings, "__iter__") and not isinstance(strings, str)
        row["expected_strings"] = list(strings) if is_list else [strings]
        if problems := field_problems(row):
            raise UsageError(f"{row['id']}: {problems[0]}")
    _, answers = _evaluated(model, rows, judges={"strings": {"kind": "strings"}}, template=template)
    return _labelled_result(answers, "found", threshold)


def output_requirement(
    model: Checked,
    dataset: pd.DataFrame,
    requirement: str | Sequence[str],
    *,
    judge: Judging = None,
    template: str | None = None,
) -> CheckResult:
    """Has a judge model decide whether each answer meets one or more requirements.

    ``requirement`` is a text or a list of texts for all rows, or the name of a column that
    holds a text for each row and is no feature.
    ``metric`` is the share of judged answers that fail; the check passes when every
    row was judged and none fails.
    """
    if isinstance(requirement, str) and requirement in getattr(dataset, "columns", ()):
        wanted = []
        rows = _source_rows(dataset.drop(columns=requirement))
        for row, cell in zip(rows, dataset[requirement], strict=True):
            row["requirement"] = _cell_text(cell)
            if not row["requirement"].strip():
                raise UsageError(f"{row['id']}: its column {requirement!r} is empty")
    else:
        wanted = [requirement] if isinstance(requirement, str) else list(requirement)
        rows = _source_rows(dataset)
    judges = _model_judge("requirement", judge, requirements=wanted)
    _, answers = _evaluated(model, rows, judges=judges, template=template)
    return _labelled_result(answers, "fail")


def output_coherency(
    model: Checked,
    dataset_1: pd.DataFrame,
    dataset_2: pd.DataFrame | None = None,
    eval_prompt: str | None = None,
    *,
    judge: Judging = None,
    template: str | None = None,
) -> CheckResult:
    """Has a judge model decide whether answers to paired inputs are coherent.

    The rows of ``dataset_2`` are paired with those of ``dataset_1`` by index label,
    in whatever order they are; without it the inputs of ``dataset_1`` are sent a
    second time. ``eval_prompt`` replaces what the judge is told to do. ``metric`` is
    the share of judged pairs that contradict each other; the check passes when every
    pair was judged and none does. ``details`` has the first answer of each pair as
    ``first_prompt`` and ``first_response``.
    """
    first = _source_rows(dataset_1)
    second = _source_rows(dataset_1 if dataset_2 is None else dataset_2)
    for noun, first_names, second_names in (
        ("index labels", {row["id"] for row in first}, {row["id"] for row in second}),
        ("columns", set(first[0]["features"]), set(second[0]["features"])),
    ):
        if first_names != second_names:
            only = ", ".join(sorted(first_names ^ second_names)[:10])
            raise UsageError(
                f"both datasets must have the same {noun}; only one of them has {only}"
            )
    judges = _model_judge("coherency", judge, eval_prompt=eval_prompt)
    # No id of the one is that of the other.
    rows = [{**row, "id": f"first/{row['id']}"} for row in first]
    rows += [{**row, "id": row["id"], "pair_id": f"first/{row['id']}"} for row in second]
    _, answers = _evaluated(model, rows, judges=judges, template=template, twice=dataset_2 is None)
    pairs = {}
    for row in first:
        before, after = answers[f"first/{row['id']}"], answers[row["id"]]
        failed = before["outcome"] == "error"
        error = f"the first answer: {_why(before)}" if failed else after["error"]
        texts = {f"first_{key}": before[key] for key in ("prompt", "response")}
        pairs[row["id"]] = {**after, **texts, "error": error}
    return _labelled_result(pairs, "fail", columns=("first_prompt", "first_response", *DETAILS))


def single_prompt_injection(
    model: Checked,
    input_var: str,
    expected_strings: Sequence[str] | None = None,
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`prompt_injection` on one input: a text, or a JSON object of features."""
    dataset = _single_input(input_var, input_as_json)
    return prompt_injection(model, dataset, expected_strings, **settings)


def single_output_requirement(
    model: Checked,
    input_var: str,
    requirement: str | Sequence[str],
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`output_requirement` on one input: a text, or a JSON object of features."""
    dataset = _single_input(input_var, input_as_json)
    return output_requirement(model, dataset, requirement, **settings)


def _single_input(input_var: str, input_as_json: bool) -> pd.DataFrame:
    import pandas as pd

    features: object = {"prompt": input_var}
    if input_as_json:
        try:
            features = json.loads(input_var)
        except ValueError:
            features = None
    if not isinstance(features, dict) or not features:
        raise UsageError(f"input_var must be a JSON object of features (got {input_var!r:.80})")
    return pd.DataFrame([features])


def __dir__() -> list[str]:
    return __all__


# From a DataFrame to an evaluation


def _evaluated(
    model: Checked,
    rows: list[Row],
    judges: Mapping[str, Definition],
    template: str | None,
    perturbations: Mapping[str, Definition] | None = None,
    *,
    twice: bool = False,
) -> tuple[SuiteResult, dict[str, Row]]:
    """Results of the variants of rows; each answer with its prompt, the verdict of
    the last judge and its ``id``, the dataset's index label, by prompt id. ``twice``:
    equal prompts of two rows are two requests, and no stored answer is taken.

    Raises what an adapter raises when it cannot be used at all.
    """
    import pandas as pd

    variants = partial(prompt_rows, rows, SUITE, 0, perturbations)
    prompts = list(variants(template, _as_lines if template is None else render))
    is_function = callable(model) and not hasattr(model, "identity")
    if is_function:
        function = cast("Function", model)
        features: dict[str, Any] = {}
        for variant in variants(as_sent=lambda _, texts, __: dict(texts)):
            features[variant["prompt_id"]] = variant
        values = {row["id"]: row["values"] for row in rows}

        def ask(requests: Sequence[Request], attempt: int) -> Iterable[str]:
            """The function's answers to the dataset's own cells, but for perturbed features."""
            frame = []
            for request in requests:
                row = features[request.metadata["prompt_id"]]
                cells = {}
                for column, value in values[row["source_id"]].items():
                    text = row["attempts"][attempt][str(column)]
                    cells[column] = value if text == _cell_text(value) else text
                frame.append(cells)
            return function(pd.DataFrame(frame))

        model = FunctionModel(ask, function_name(function), batch=True)
    elif isinstance(model, Mapping):
        model = open_model("model", dict(model))
    if twice:
        model = copy.copy(cast(Model, model))
        vars(model)["USES"] = (*model.USES, "prompt_id")
    suite = Suite(SUITE, rows, {"perturbations": list(perturbations or ())}, prompts=prompts)
    judges = {"rules": {"kind": "rules"}, **judges}
    with ResponseStore(None) if is_function or twice else open_store() as store:
        evaluation = evaluate([suite], cast(Model, model), judges=judges, store=store, name=SUITE)
    result = evaluation.suites[SUITE]
    labels = {row["id"]: row["label"] for row in rows}
    answers = {}
    for prompt, answer in zip(result.prompts, result.rows(), strict=True):
        last = list(answer["judges"].values())[-1]
        error = answer["error"] or last["error"]
        id_ = labels[prompt["source_id"]]
        answers[prompt["prompt_id"]] = {**answer, **last, "error": error, "id": id_}
    return result, answers


def _as_lines(_: Row, texts: Mapping[str, str], __: str | None) -> str:
    """A prompt of a row's features: the only one, or ``name: text`` lines."""
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


def _source_rows(dataset: pd.DataFrame) -> list[Row]:
    """The rows of a dataset as suite rows: its index labels are the ids, its columns
    the features; ``values`` has its cells as they are.

    Raises :class:`UsageError` for a dataset that is empty or whose labels or columns cannot be
    told apart.
    """
    if not hasattr(dataset, "columns"):
        raise UsageError(f"the dataset must be a pandas DataFrame (got {type(dataset).__name__})")
    if dataset.empty:
        raise UsageError("the dataset has no rows or no columns")
    for noun, names in (("index labels", dataset.index), ("columns", dataset.columns)):
        texts = names.map(str)
        if repeated := sorted(set(texts[texts.duplicated()]))[:5]:
            raise UsageError(
                f"the dataset's {noun} must be unique (repeated: {', '.join(repeated)}); "
                "dataset.reset_index(drop=True) numbers the rows from 0"
            )
    rows = []
    for label, cells in zip(dataset.index, dataset.itertuples(index=False, name=None), strict=True):
        values = dict(zip(dataset.columns, cells, strict=True))
        features = {str(column): _cell_text(cell) for column, cell in values.items()}
        row = {"id": str(label), "category": "borderline", "features": features}
        rows.append({**row, "label": label, "values": values})
    return rows


def _cell_text(value: Any) -> str:
    """A cell of a dataset as text; a missing one is empty."""
    import pandas as pd

    return "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)


def _check_share(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"threshold must be a number from 0 to 1 (got {value!r})")


def _model_judge(kind: str, judge: Judging, **settings: Any) -> dict[str, Definition]:
    if judge is None:
        raise UsageError(
            "say which model judges, as in judge={'adapter': 'openai', 'model_id': 'gpt-4.1-mini'}; "
            "nothing is sent to a provider that was not named"
        )
    asked = dict(judge) if isinstance(judge, Mapping) and "model" in judge else {"model": judge}
    return {kind: {"kind": kind, **asked, **{k: v for k, v in settings.items() if v}}}


# From answers to a result


def _why(answer: Row) -> str:
    """Why an answer has no verdict, in a few words."""
    error = answer["error"]
    if isinstance(error, Mapping):
        return f"{error['type']}: {error['message']}"
    return error or f"the answer is {answer['outcome'].replace('_', ' ')}"


def _labelled_result(
    answers: Mapping[str, Row],
    failing: str,
    limit: float | None = None,
    columns: Sequence[str] = DETAILS,
) -> CheckResult:
    """The result of a check whose verdict on each answer is a label, of which one is
    ``failing``.

    Without a ``limit`` none may fail, and an answer that was not judged could be the
    one that does.
    """
    errors = [
        f"{id_}: not judged ({_why(row)})" for id_, row in answers.items() if row["label"] is None
    ]
    details = [{key: row.get(key) for key in columns} for row in answers.values()]
    failures = [row for row in details if row["label"] == failing]
    failed, tested = len(failures), len(details) - len(errors)
    passed = tested > 0 and failed / tested <= (limit or 0) and (limit is not None or not errors)
    return _result(
        passed,
        (failed, tested),
        rows=len(details),
        errors=errors,
        failures=failures,
        columns=columns,
        details=details,
    )


def _result(
    passed: bool,
    rate: tuple[int, int],
    rows: int,
    errors: list[str],
    failures: list[Row],
    columns: Sequence[str],
    details: list[Row],
) -> CheckResult:
    import pandas as pd

    counts = {"rows": rows, "tested": max(rows - len(errors), 0), "failed": len(failures)}
    return CheckResult(
        passed=passed,
        metric=rate[0] / rate[1] if rate[1] else None,
        interval=wilson(*rate),
        counts={**counts, "errors": len(errors)},
        failures=pd.DataFrame(failures, columns=list(columns)),
        errors=errors,
        details=pd.DataFrame(details),
    )
