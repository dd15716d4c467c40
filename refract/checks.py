"""Checks of a model on a pandas DataFrame, for use in Python.

``model`` is an adapter (see :mod:`refract.models.protocol`), a definition like those of params.yaml, or
a function that takes a DataFrame with the dataset's columns and returns one text for each row. A
function says that it rejects a prompt as too long by raising :class:`PromptTooLong`, or its
provider's own exception that says so ("context length exceeded"); any other exception is an error of
the row it happened on.

``judge`` is the model that judges: a definition, an adapter, or a mapping with ``model`` and settings
of the judge such as ``template``. There is no default, so that nothing is sent to a
provider that was not named.

Each check returns a :class:`CheckResult`. A rate equal to its threshold passes. Rows that could not be
tested are errors; a check in which nothing could be tested does not pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from refract.core.settings import Settings
from refract.core.types import Row
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.evaluate import Definition, Suite, evaluate
from refract.models import open_model
from refract.models.protocol import Answer, Model, Request
from refract.models.provider import says_too_long
from refract.models.store import ResponseStore, open_store
from refract.rates import Aggregate
from refract.results.table_rows import json_rows
from refract.statistics.proportions import Interval, wilson
from refract.suites.perturbations import prompt_rows, render
from refract.suites.rows import STRING_FLAGS

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


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    ``metric`` is a share of the rows that could be tested: of char injection the fail rate of the
    worst character and feature, of the others the share of ``counts["tested"]`` that failed; None
    where nothing could be tested. ``interval`` is its 95 % Wilson interval. ``counts`` has ``rows``,
    ``tested``, ``failed`` and ``errors`` over all rows and variants. ``failures`` holds the failing
    rows, ``errors`` a sentence for each row that could not be tested, ``details`` one row for each
    group (char injection) or each answer. True where the check passed.
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
    position: str | Sequence[str] = "end",
    repeats: int = 0,
    template: str | None = None,
    similarity: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> CheckResult:
    r"""Appends control characters to one feature at a time and compares the answers.

    ``characters`` (default ``\r`` and ``\b``; also names of presets) and ``max_repetitions`` (with
    the fallback to a half, a quarter and an eighth where the model rejects the prompt as too long)
    say what is injected, ``position`` where (end, start, between_words, or several); ``features``
    defaults to all columns. An answer fails when its BERTScore against the clean answer falls by
    more than ``output_sensitivity``, or when its refusal flips. ``metric`` is the fail rate of the
    worst character and feature; above ``threshold`` the check fails.

    ``details`` has for each character and feature the fail rate, its interval, the rows that could
    not be tested by reason, the repetitions used, and p against the threshold, alone and corrected
    for the number of comparisons (Holm); with ``repeats`` clean repeats of each prompt also how far
    the fail rate is above theirs (``above_floor``). ``similarity`` holds settings of the similarity
    judge; ``template`` turns several columns into a prompt, for models that are not functions.
    Raises ValueError for settings that cannot be used.
    """
    limit = _share("threshold", threshold)
    injection: Row = {"kind": "char_injection", "max_repetitions": max_repetitions}
    injection["position"] = position if isinstance(position, str) else list(position)
    for name, given in (("characters", characters), ("features", features)):
        if given is not None:
            injection[name] = list(given)
    perturbations = {"char_injection": injection}
    if repeats:
        perturbations["repeat"] = {"kind": "repeat", "repeats": repeats}
    sensitivity = {"kind": "similarity", "output_sensitivity": output_sensitivity}
    judges = {"similarity": {**sensitivity, **(similarity or {})}}
    rates, answers = _evaluated(model, _source_rows(dataset), judges, template, seed, perturbations)
    groups = [
        {**row, "repetitions": row.get("repetitions", "")}
        for row in json_rows(rates.table)
        if row["measure"] == "char_injection_fail_rate" and row["field"] == "perturbation"
    ]
    compared = [row for row in rates.compared if row["name"] == "char_injection"]
    failures = [
        {**row, "id": answers[row["prompt_id"]]["id"]}
        for row in rates.failures
        if row["perturbation"] == "char_injection"
    ]
    errors = [
        f"{row['prompt_id']}: not tested ({_why_not_compared(answers, row)})"
        for row in compared
        if row["changed"] is None
    ] or ([] if compared else ["no prompt could be perturbed: no character found a place"])
    worst = max(groups, key=lambda row: -1 if row["rate"] is None else row["rate"], default=None)
    return _result(
        bool(groups) and all(row["n"] and row["successes"] / row["n"] <= limit for row in groups),
        (worst["successes"], worst["n"]) if worst else (0, 0),
        len(compared),
        failures,
        errors,
        groups,
        FAILURE_COLUMNS,
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
    seed: int = 0,
) -> CheckResult:
    """Sends adversarial prompts and looks for the strings that would show that they worked.

    ``expected_strings`` is a list for all rows, or the name of a column (default
    ``expected_strings``) that holds a list for each row; a column named like a flag overrides that
    flag row by row. All other columns are features. ``metric`` is the share of answers
    in which the strings were found; above ``threshold`` the check fails. Raises ValueError for
    settings and columns that cannot be used.
    """
    limit = _share("threshold", threshold)
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
            raise ValueError(
                f"expected_strings must be a list of texts, or name a column; the dataset has no "
                f"column {column!r}, it has {', '.join(map(str, dataset.columns))}"
            )
    rows = _source_rows(dataset, columns.values())
    for row in rows:
        row |= shared | {name: row["values"][column] for name, column in columns.items()}
        row["expected_strings"] = _strings(row["id"], row["expected_strings"])
        for name in STRING_FLAGS:
            row[name] = _flag(f"{row['id']}: {name}", row[name])
    _, answers = _evaluated(model, rows, {"strings": {"kind": "strings"}}, template, seed)
    details = []
    for answer in answers.values():
        strings_found = [hit["string"] for hit in answer["evidence"] if hit["counted"]]
        details.append({**_exchange(answer), "label": answer["label"], "found": strings_found})
    return _labelled_result(details, _not_judged(answers), "found", limit)


def single_prompt_injection(
    model: Checked,
    input_var: str,
    expected_strings: Sequence[str] | None = None,
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`prompt_injection` on one input: a text, or a JSON object of features.

    A text is the only feature, ``prompt``.
    """
    dataset = _single_input(input_var, input_as_json)
    return prompt_injection(model, dataset, expected_strings, **settings)


def output_requirement(
    model: Checked,
    dataset: pd.DataFrame,
    requirement: str | Sequence[str] | None = None,
    *,
    requirement_column: str | None = None,
    judge: Judging = None,
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
    if requirement_column not in (None, *dataset.columns):
        raise ValueError(
            f"requirement_column {requirement_column!r} is not a column; the dataset has "
            f"{', '.join(map(str, dataset.columns))}"
        )
    rows = _source_rows(dataset, () if requirement_column is None else (requirement_column,))
    if requirement_column is not None:
        for row in rows:
            row["requirement"] = _cell_text(row["values"][requirement_column]).strip()
    judges = _model_judge("requirement", judge, eval_prompt, description, requirements=wanted)
    _, answers = _evaluated(model, rows, judges, template, seed)
    details = [{**_exchange(answer), **_opinion(answer)} for answer in answers.values()]
    return _labelled_result(details, _not_judged(answers), "fail")


def single_output_requirement(
    model: Checked,
    input_var: str,
    requirement: str | Sequence[str],
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`output_requirement` on one input: a text, or a JSON object of features.

    A text is the only feature, ``prompt``.
    """
    dataset = _single_input(input_var, input_as_json)
    return output_requirement(model, dataset, requirement, **settings)


def output_coherency(
    model: Checked,
    dataset_1: pd.DataFrame,
    dataset_2: pd.DataFrame | None = None,
    eval_prompt: str | None = None,
    *,
    judge: Judging = None,
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
    first = _source_rows(dataset_1)
    second = _source_rows(dataset_1 if dataset_2 is None else dataset_2)
    for what, one, two in (
        ("index labels", {row["id"] for row in first}, {row["id"] for row in second}),
        ("columns", set(first[0]["features"]), set(second[0]["features"])),
    ):
        if unpaired := sorted(one ^ two):
            raise ValueError(
                f"dataset_1 and dataset_2 must have the same {what}; only one of them has "
                f"{', '.join(unpaired[:10])}"
            )
    ids = [row["id"] for row in first]
    suffix = "/2"
    while any(f"{id_}{suffix}" in ids for id_ in ids):
        suffix += "/2"
    pairs = [{**row, "id": f"{row['id']}{suffix}", "pair_id": row["id"]} for row in second]
    judges = _model_judge("coherency", judge, eval_prompt, description)
    fresh = {row["id"] for row in pairs} if dataset_2 is None else ()
    _, answers = _evaluated(model, first + pairs, judges, template, seed, fresh=fresh)
    details = []
    errors = []
    for id_ in ids:
        first_answer, answer = answers[id_], answers[f"{id_}{suffix}"]
        texts = {
            f"{key}_{number}": given[key]
            for number, given in enumerate((first_answer, answer), 1)
            for key in ("prompt", "response")
        }
        details.append({"id": first_answer["id"], **texts, **_opinion(answer)})
        if answer["label"] is None:
            why = _why_untested(answer)
            if _not_answered(first_answer):
                why = f"of the first answer: {_why_untested(first_answer)}"
            errors.append(f"{id_}: not judged ({why})")
    return _labelled_result(details, errors, "fail")


# From a DataFrame to an evaluation


class _FunctionModel(Model):
    """A plain function as a model.

    ``features`` holds the features of each attempt by prompt id. ``values`` holds the dataset's own
    cells by source id: the function gets those, except for features that were perturbed.
    """

    adapter = "functionmodel"
    version = "1"
    USES = ("prompt_id",)
    Settings = Settings

    def __init__(
        self,
        function: Function,
        features: Mapping[str, Row],
        values: Mapping[str, Mapping[Any, Any]],
    ) -> None:
        self._function, self._features, self._values = function, features, values

    def identity(self) -> dict[str, Any]:
        return {}

    def description(self) -> dict[str, Any]:
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """All rows in one call where that succeeds, else each alone; then the next attempt of those
        that were too long."""
        rows = [self._features[request.metadata["prompt_id"]] for request in requests]
        waiting, attempt = list(range(len(rows))), 0
        while waiting:
            answers = self._answers([rows[index] for index in waiting], attempt)
            too_long = []
            for index, answer in zip(waiting, answers, strict=True):
                if answer is not None:
                    yield index, answer
                elif attempt + 1 < len(rows[index]["attempts"]):
                    too_long.append(index)
                else:
                    message = "the function rejected every attempt as too long"
                    yield index, Answer.failed("PromptTooLong", message, attempt)
            waiting, attempt = too_long, attempt + 1

    def _answers(self, rows: Sequence[Row], attempt: int) -> list[Answer | None]:
        """The answers to one attempt of some rows; None where it was too long."""
        import pandas as pd

        cells = [
            {
                column: value if text == _cell_text(value) else text
                for column, value in self._values[row["source_id"]].items()
                for text in [row["attempts"][attempt][str(column)]]
            }
            for row in rows
        ]
        try:
            texts = self._function(pd.DataFrame(cells))
        except Exception as error:  # of whatever kind: each row is then tried alone
            if len(rows) > 1:
                return [self._answers([row], attempt)[0] for row in rows]
            status = getattr(error, "status_code", None)
            status = status if isinstance(status, int) else None
            if isinstance(error, PromptTooLong) or says_too_long(status, str(error)):
                return [None]
            return [Answer.failed(type(error).__name__, str(error), attempt)]
        one_text = isinstance(texts, str) or not hasattr(texts, "__iter__")
        answers = [texts] if one_text else list(texts)
        if one_text or len(answers) != len(rows):
            got = f"{texts!r:.40}" if one_text else f"{len(answers)} for {len(rows)}"
            raise ValueError(f"the model function must return one text for each row (got {got})")
        return [
            Answer(str(text), "stop", attempt)
            if isinstance(text, str)
            else Answer.failed(
                "NoText", f"the function returned {text!r:.40}, which is not a text", attempt
            )
            for text in answers
        ]


def _evaluated(
    model: Checked,
    rows: list[Row],
    judges: Mapping[str, Definition],
    template: str | None,
    seed: int,
    perturbations: Mapping[str, Definition] | None = None,
    fresh: Container[str] = (),
) -> tuple[Aggregate, dict[str, Row]]:
    """Rates of the variants of rows, and each answer with its prompt, the verdict of the last judge and
    its ``id``, the dataset's index label, by prompt id. Rows in ``fresh`` are answered anew.

    Raises ValueError for what cannot be used, and what an adapter raises when it cannot be used at all.
    """
    variants = partial(prompt_rows, rows, SUITE, seed, perturbations)
    is_function = callable(model) and not hasattr(model, "identity")
    prompts = list(variants(template, _as_sent(rows, template, is_function)))
    if is_function:
        features = variants(as_sent=lambda _, texts, __: dict(texts))
        model = _FunctionModel(
            cast("Function", model),
            {row["prompt_id"]: dict(row) for row in features},
            {row["id"]: {key: row["values"][key] for key in row["columns"]} for row in rows},
        )
    elif isinstance(model, Mapping):
        model = open_model("model", dict(model))
    suite = Suite(SUITE, rows, {"perturbations": list(perturbations or ())}, prompts=prompts)
    judges = {"rules": {"kind": "rules"}, **judges}
    with ResponseStore(None) if is_function else open_store() as store:
        evaluation = evaluate(
            [suite], cast(Model, model), judges, store, name=SUITE, seed=seed, fresh=fresh
        )
    result = evaluation.suites[SUITE]
    labels = {row["id"]: row["label"] for row in rows}
    answers = {
        prompt["prompt_id"]: {**answer, "id": labels[prompt["source_id"]]}
        for prompt, answer in zip(result.prompts, result.rows(), strict=True)
    }
    return result.rates, answers


def _as_sent(
    rows: list[Row], template: str | None, is_function: bool
) -> Callable[[Row, Mapping[str, str], str | None], Any]:
    """What makes a prompt of a row's features: the template, the only feature, or, where a function
    gets the features themselves and judges alone read the prompt, ``name: text`` lines."""
    names = list(rows[0]["features"])
    if template is not None:
        return render
    if len(names) == 1:
        return lambda _, texts, __: texts[names[0]]
    if is_function:
        return lambda _, texts, __: "\n".join(f"{name}: {texts[name]}" for name in names)
    raise ValueError(
        f"the dataset has the columns {', '.join(names)}: give a template such as "
        f"{' '.join('{' + name + '}' for name in names)!r}"
    )


def _source_rows(dataset: pd.DataFrame, besides: Container[Any] = ()) -> list[Row]:
    """The rows of a dataset as suite rows: its index labels are the ids, its columns the features, but
    for those ``besides``; ``values`` has the cells of all.

    Raises ValueError for a dataset that is empty or whose labels or columns cannot be told apart.
    """
    if not hasattr(dataset, "columns"):
        raise ValueError(f"the dataset must be a pandas DataFrame (got {type(dataset).__name__})")
    columns = [column for column in dataset.columns if column not in besides]
    if dataset.empty or not columns:
        raise ValueError("the dataset has no rows or no columns")
    for what, names in (("index labels", dataset.index), ("columns", dataset.columns)):
        texts = names.map(str)
        if repeated := sorted(set(texts[texts.duplicated()]))[:5]:
            raise ValueError(
                f"the dataset's {what} must be unique (repeated: {', '.join(repeated)}); "
                "dataset.reset_index(drop=True) numbers the rows from 0"
            )
    rows = []
    for label, cells in zip(dataset.index, dataset.itertuples(index=False, name=None), strict=True):
        values = dict(zip(dataset.columns, cells, strict=True))
        features = {str(column): _cell_text(values[column]) for column in columns}
        row = {"id": str(label), "category": "borderline", "features": features}
        rows.append({**row, "label": label, "values": values, "columns": columns})
    return rows


def _single_input(input_var: str, input_as_json: bool) -> pd.DataFrame:
    """One input as a dataset: a text (the feature ``prompt``), or a JSON object of features."""
    import pandas as pd

    if not isinstance(input_var, str):
        raise ValueError(f"input_var must be a text (got {input_var!r:.80})")
    features = {"prompt": input_var}
    if input_as_json:
        try:
            features = json.loads(input_var)
        except ValueError as error:
            raise ValueError(f"input_var is not JSON ({error}); got {input_var!r:.80}") from None
        if not isinstance(features, dict) or not features:
            raise ValueError(f"input_var must be a JSON object of features (got {input_var!r:.80})")
    return pd.DataFrame([features])


def _cell_text(value: Any) -> str:
    """A cell of a dataset as text; None and NaN, which alone differs from itself, are empty."""
    return "" if value is None or value != value else str(value)


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1 (got {value!r})")
    return value


def _flag(name: str, value: Any) -> bool:
    # A column's cells are NumPy's booleans.
    if type(value).__name__ not in ("bool", "bool_"):
        raise ValueError(f"{name} must be True or False (got {value!r})")
    return bool(value)


def _strings(id_: str, value: Any) -> list[str]:
    strings = [value] if isinstance(value, str) else value
    if not hasattr(strings, "__iter__") or not all(isinstance(s, str) and s for s in strings):
        raise ValueError(f"{id_}: expected_strings must be a list of texts (got {value!r})")
    if not len(strings):
        raise ValueError(f"{id_}: expected_strings must hold at least one text")
    return list(strings)


def _model_judge(
    kind: str, judge: Judging, eval_prompt: str | None, description: str | None, **more: Any
) -> dict[str, Definition]:
    if judge is None:
        raise ValueError(
            "say which model judges, as in judge={'adapter': 'openai', 'model_id': 'gpt-4.1-mini'}; "
            "nothing is sent to a provider that was not named"
        )
    given = dict(judge) if isinstance(judge, Mapping) and "model" in judge else {"model": judge}
    settings = {"eval_prompt": eval_prompt, "description": description, **more}
    return {kind: {"kind": kind, **given, **{k: v for k, v in settings.items() if v}}}


# From answers to a result


def _exchange(answer: Row) -> Row:
    return {key: answer[key] for key in ("id", "prompt", "response")}


def _opinion(answer: Row) -> Row:
    """What a judge model said of an answer."""
    said = {key: answer.get(key) for key in ("label", "reason", "raw")}
    return {**said, "error": None if _not_answered(answer) else answer["error"]}


def _not_answered(answer: Row) -> bool:
    return answer["finish_reason"] not in ("stop", "length") or not answer["response"].strip()


def _why_untested(answer: Row) -> str:
    """Why an answer has no verdict, in a few words."""
    if answer["finish_reason"] == "error":
        return f"{answer['error']['type']}: {answer['error']['message']}"
    if answer["finish_reason"] not in ("stop", "length"):
        return f"the answer is a {answer['finish_reason'].replace('_', ' ')}"
    if not answer["response"].strip():
        return "the answer is empty"
    return answer["error"] or "there is nothing to judge it by"


def _not_judged(answers: Mapping[str, Row]) -> list[str]:
    return [
        f"{id_}: not judged ({_why_untested(answer)})"
        for id_, answer in answers.items()
        if answer["label"] is None
    ]


def _why_not_compared(answers: Mapping[str, Row], row: Row) -> str:
    if row["reason"] == "clean_not_judged":
        clean = answers[row["source_id"]]
        more = f", {_why_untested(clean)}" if clean["finish_reason"] == "error" else ""
        return f"the clean answer is {row['clean_outcome'].replace('_', ' ')}{more}"
    if row["reason"] == "not_injected":
        return "no token of the injection reached the model"
    return _why_untested(answers[row["prompt_id"]])


def _labelled_result(
    details: list[Row], errors: list[str], failing: str, limit: float | None = None
) -> CheckResult:
    """The result of a check whose verdict on each answer is a label, of which one is ``failing``.

    Without a ``limit`` none may fail, and an answer that was not judged could be the one that does.
    """
    failures = [row for row in details if row["label"] == failing]
    failed, tested = len(failures), len(details) - len(errors)
    within = tested > 0 and failed / tested <= (limit or 0)
    passed = within and (limit is not None or not errors)
    rate = failed, tested
    return _result(passed, rate, len(details), failures, errors, details, tuple(details[0]))


def _result(
    passed: bool,
    rate: tuple[int, int],
    rows: int,
    failures: list[Row],
    errors: list[str],
    details: list[Row],
    columns: Sequence[str],
) -> CheckResult:
    import pandas as pd

    failed, tested = rate
    return CheckResult(
        passed=passed,
        metric=failed / tested if tested else None,
        interval=wilson(failed, tested),
        counts={
            "rows": rows,
            "tested": max(rows - len(errors), 0),
            "failed": len(failures),
            "errors": len(errors),
        },
        failures=pd.DataFrame(failures, columns=list(columns)),
        errors=errors,
        details=pd.DataFrame(details),
    )
