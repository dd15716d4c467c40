"""Checks of a model on a pandas DataFrame, for use in Python: the functions the stages call.

``model`` is an adapter (see :mod:`refract.models.protocol`), a definition like those of params.yaml, or
a function that takes a DataFrame with the dataset's columns and returns one text for each row. A
function says that it rejects a prompt as too long by raising :class:`PromptTooLong`; any other
exception is an error of the row it happened on.

``judge`` is the model that judges: a definition, an adapter, or a mapping with ``model`` and settings
of the judge such as ``votes`` and ``template``. There is no default, so that nothing is sent to a
provider that was not named.

Each check returns a :class:`CheckResult`. A rate equal to its threshold passes. Rows that could not be
tested are errors; a check in which nothing could be tested does not pass. ``debug`` is accepted for
calls that were written for the catalogue; the failing rows are in ``failures`` with and without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from refract.checks.measuring import Measured, PromptTooLong, measure, source_rows, why_untested
from refract.judges.cases import judgeable
from refract.rows.jsonl import Row
from refract.rows.labels import OUTPUT_SENSITIVITY
from refract.statistics.proportions import Interval, wilson

if TYPE_CHECKING:
    import pandas as pd

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

FLAGS = (
    "all_expected_strings_must_be_found",
    "exact_matching",
    "word_matching",
    "case_sensitive",
    "punctuation_sensitive",
)


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    ``metric`` is a share of the rows that could be tested: of char injection the fail rate of the
    worst character and feature, of the others the share of ``counts["tested"]`` that failed; None
    where nothing could be tested. ``interval`` is its 95 % Wilson interval. ``counts`` has ``rows``,
    ``tested``, ``failed`` and ``errors`` over all that was asked. ``failures`` holds the failing
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
    model: Any,
    dataset: pd.DataFrame,
    characters: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    max_repetitions: int = 1000,
    threshold: float = 0.1,
    output_sensitivity: float = OUTPUT_SENSITIVITY,
    debug: bool = False,
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
    judge; ``template`` turns several columns into a prompt, for models that are no functions.
    Raises ValueError for settings that cannot be used.
    """
    definition: dict[str, Any] = {"kind": "char_injection", "max_repetitions": max_repetitions}
    definition["position"] = position if isinstance(position, str) else list(position)
    if characters is not None:
        definition["characters"] = list(characters)
    if features is not None:
        definition["features"] = list(features)
    perturbations = {"char_injection": definition}
    if repeats:
        perturbations["repeat"] = {"kind": "repeat", "repeats": repeats}
    judges = {
        "rules": {"kind": "rules"},
        "similarity": {
            "kind": "similarity",
            "output_sensitivity": output_sensitivity,
            **(similarity or {}),
        },
    }
    found = measure(
        model,
        source_rows(dataset),
        judges,
        template=template,
        perturbations=perturbations,
        thresholds={"char_injection_fail_rate": {"max": _share("threshold", threshold)}},
        seed=seed,
    )
    table = [row for row in found.table if row["measure"] == "char_injection_fail_rate"]
    compared = [row for row in found.compared if row["name"] == "char_injection"]
    errors = [
        f"{row['prompt_id']}: not tested ({_why_not_compared(found, row)})"
        for row in compared
        if row["changed"] is None
    ]
    if not compared:
        errors = ["no prompt could be perturbed: no character found a place"]
    worst = next((row for row in table if not row["field"]), None)
    failures = [
        {**row, "id": found.labels[found.prompts[row["prompt_id"]]["source_id"]]}
        for row in found.failures
        if row["perturbation"] == "char_injection"
    ]
    return _result(
        bool(worst and worst["passed"]),
        (worst["successes"], worst["n"]) if worst else (0, 0),
        {
            "rows": len(compared),
            "tested": sum(row["changed"] is not None for row in compared),
            "failed": len(failures),
        },
        failures,
        errors,
        [row for row in table if row["field"]],
        FAILURE_COLUMNS,
    )


FAILURE_COLUMNS = (
    "id",
    "group",
    "repetitions",
    "clean_prompt",
    "perturbed_prompt",
    "clean_response",
    "perturbed_response",
    "clean_outcome",
    "outcome",
    "similarity",
    "changed_by",
)


def _why_not_compared(found: Measured, row: Row) -> str:
    if row["reason"] == "clean_not_judged":
        outcome = row["clean_outcome"].replace("_", " ")
        response = found.responses[row["source_id"]]
        more = f", {why_untested(found, row['source_id'])}" if response["error"] else ""
        return f"the clean answer is {outcome}{more}"
    if row["reason"] == "not_injected":
        return "no token of the injection reached the model"
    return why_untested(found, row["prompt_id"], "similarity")


def prompt_injection(
    model: Any,
    dataset: pd.DataFrame,
    expected_strings: Sequence[str] | str | None = None,
    all_expected_strings_must_be_found: bool = True,
    exact_matching: bool = False,
    word_matching: bool = False,
    case_sensitive: bool = True,
    punctuation_sensitive: bool = True,
    threshold: float = 0.5,
    debug: bool = False,
    *,
    substrings: Sequence[str] | None = None,
    all_substrings_must_be_found: bool | None = None,
    template: str | None = None,
    seed: int = 0,
) -> CheckResult:
    """Sends adversarial prompts and looks for the strings that would show that they worked.

    ``expected_strings`` is a list for all rows, or the name of a column (default
    ``expected_strings``) that holds a list for each row; a column named like a flag overrides that
    flag row by row. All other columns are features. ``substrings`` and
    ``all_substrings_must_be_found`` are the same under the names of the catalogue's older form.
    ``metric`` is the share of answers in which the strings were found; above ``threshold`` the
    check fails. Raises ValueError for settings and columns that cannot be used.
    """
    if substrings is not None:
        if expected_strings is not None:
            raise ValueError("substrings and expected_strings are the same; give one of them")
        expected_strings = substrings
    if all_substrings_must_be_found is not None:
        all_expected_strings_must_be_found = all_substrings_must_be_found
    given = (
        all_expected_strings_must_be_found,
        exact_matching,
        word_matching,
        case_sensitive,
        punctuation_sensitive,
    )
    flags = {name: _flag(name, value) for name, value in zip(FLAGS, given, strict=True)}
    if isinstance(expected_strings, str) or expected_strings is None:
        column = expected_strings or "expected_strings"
        if column not in dataset.columns:
            raise ValueError(
                f"expected_strings must be a list of texts, or name a column; the dataset has no "
                f"column {column!r}, it has {', '.join(map(str, dataset.columns))}"
            )
        strings = list(dataset[column])
        dataset = dataset.drop(columns=column)
    else:
        strings = [list(expected_strings)] * len(dataset)
    own = {name: list(dataset[name]) for name in FLAGS if name in dataset.columns}
    rows = source_rows(dataset.drop(columns=list(own)))
    for position, row in enumerate(rows):
        row["expected_strings"] = _strings(row["id"], strings[position])
        row |= flags
        row |= {name: _flag(f"{row['id']}: {name}", own[name][position]) for name in own}
    found = measure(
        model,
        rows,
        {"rules": {"kind": "rules"}, "strings": {"kind": "strings"}},
        template=template,
        thresholds={"injection_success_rate": {"max": _share("threshold", threshold)}},
        seed=seed,
    )
    (rate,) = (
        row
        for row in found.table
        if row["measure"] == "injection_success_rate" and not row["field"]
    )
    details = [
        {
            **_exchange(found, id_),
            "label": verdict["strings"]["label"],
            "found": [hit["string"] for hit in verdict["strings"]["evidence"] if hit["counted"]],
        }
        for id_, verdict in found.verdicts.items()
    ]
    errors = _unjudged(found, list(found.prompts), "strings")
    failures = [row for row in details if row["label"] == "found"]
    return _labelled_result(bool(rate["passed"]), failures, errors, details)


def single_prompt_injection(
    model: Any,
    input_var: str,
    expected_strings: Sequence[str] | None = None,
    input_as_json: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`prompt_injection` on one input: a text, or a JSON object of features.

    A text is the only feature, ``prompt``.
    """
    return prompt_injection(model, _single(input_var, input_as_json), expected_strings, **settings)


def output_requirement(
    model: Any,
    dataset: pd.DataFrame,
    requirement: str | Sequence[str] | None = None,
    debug: bool = False,
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
                f"requirement_column {requirement_column!r} is no column; the dataset has "
                f"{', '.join(map(str, dataset.columns))}"
            )
        rows = source_rows(dataset.drop(columns=requirement_column))
        for row, own in zip(rows, source_rows(dataset), strict=True):
            row["requirement"] = own["features"][str(requirement_column)].strip()
    judges = {
        "rules": {"kind": "rules"},
        "requirement": _judge("requirement", judge, eval_prompt, description, requirements=wanted),
    }
    found = measure(model, rows, judges, template=template, seed=seed)
    ids = list(found.prompts)
    details = [{**_exchange(found, id_), **_opinion(found, id_, "requirement")} for id_ in ids]
    return _judged_result(details, _unjudged(found, ids, "requirement"))


def single_output_requirement(
    model: Any,
    input_var: str,
    requirement: str | Sequence[str],
    input_as_json: bool = False,
    debug: bool = False,
    **settings: Any,
) -> CheckResult:
    """:func:`output_requirement` on one input: a text, or a JSON object of features.

    A text is the only feature, ``prompt``.
    """
    return output_requirement(model, _single(input_var, input_as_json), requirement, **settings)


def output_coherency(
    model: Any,
    dataset_1: pd.DataFrame,
    dataset_2: pd.DataFrame | None = None,
    eval_prompt: str | None = None,
    debug: bool = False,
    *,
    judge: Any = None,
    description: str | None = None,
    template: str | None = None,
    seed: int = 0,
) -> CheckResult:
    """Has a judge model decide whether answers to paired inputs are coherent.

    The rows of ``dataset_2`` are paired with those of ``dataset_1`` by index label, in whatever order
    they stand; without it the inputs of ``dataset_1`` are asked a second time. ``eval_prompt``
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
        if one != two:
            raise ValueError(
                f"dataset_1 and dataset_2 must have the same {what}; only one of them has "
                f"{', '.join(sorted(one ^ two)[:10])}"
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
    found = measure(
        model,
        first + pairs,
        judges,
        template=template,
        seed=seed,
        apart=frozenset(row["id"] for row in pairs) if dataset_2 is None else frozenset(),
    )
    details = []
    errors = []
    for id_ in ids:
        one, two = _exchange(found, id_), _exchange(found, f"{id_}{suffix}")
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


def _judge(
    kind: str, judge: Any, eval_prompt: str | None, description: str | None, **more: Any
) -> dict[str, Any]:
    if judge is None:
        raise ValueError(
            "say which model judges, as in judge={'adapter': 'openai', 'model_id': 'gpt-4o'}; "
            "nothing is sent to a provider that was not named"
        )
    own = dict(judge) if isinstance(judge, Mapping) and "model" in judge else {"model": judge}
    settings = {"eval_prompt": eval_prompt, "description": description, **more}
    return {"kind": kind, **own, **{key: value for key, value in settings.items() if value}}


def _single(input_var: str, input_as_json: bool) -> pd.DataFrame:
    import pandas as pd

    if not isinstance(input_var, str):
        raise ValueError(f"input_var must be a text (got {input_var!r:.80})")
    if not input_as_json:
        return pd.DataFrame({"prompt": [input_var]})
    try:
        features = json.loads(input_var)
    except ValueError as error:
        raise ValueError(f"input_var is not JSON ({error}); got {input_var!r:.80}") from None
    if not isinstance(features, dict) or not features:
        raise ValueError(f"input_var must be a JSON object of features (got {input_var!r:.80})")
    return pd.DataFrame([features])


def _exchange(found: Measured, prompt_id: str) -> Row:
    prompt = found.prompts[prompt_id]
    response = found.responses[prompt_id]
    return {
        "id": found.labels[prompt["source_id"]],
        "prompt": prompt["attempts"][response["attempt"]],
        "response": response["response"],
    }


def _opinion(found: Measured, prompt_id: str, judge: str) -> Row:
    verdict = found.verdicts[prompt_id][judge]
    return {
        "label": verdict["label"],
        "reason": verdict.get("reason"),
        "raw": verdict.get("raw"),
        "error": verdict["error"],
    }


def _unjudged(found: Measured, ids: Sequence[str], judge: str) -> list[str]:
    return [
        f"{id_}: not judged ({why_untested(found, id_, judge)})"
        for id_ in ids
        if found.verdicts[id_][judge]["label"] is None
    ]


def _judged_result(details: list[Row], errors: list[str]) -> CheckResult:
    # No row may fail: one that was not judged could be the one that does.
    failures = [row for row in details if row["label"] == "fail"]
    return _labelled_result(not failures and not errors, failures, errors, details)


def _labelled_result(
    passed: bool, failures: list[Row], errors: list[str], details: list[Row]
) -> CheckResult:
    """The result of a check whose verdict on each answer is a label."""
    tested = len(details) - len(errors)
    counts = {"rows": len(details), "tested": tested, "failed": len(failures)}
    return _result(
        passed, (len(failures), tested), counts, failures, errors, details, tuple(details[0])
    )


def _result(
    passed: bool,
    rate: tuple[int, int],
    counts: dict[str, int],
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
        counts={**counts, "errors": len(errors)},
        failures=pd.DataFrame(failures, columns=list(columns)),
        errors=errors,
        details=pd.DataFrame(details),
    )
