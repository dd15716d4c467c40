"""From a DataFrame and a model to verdicts: the stages of the pipeline, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refract.inference import answer_prompts, response_row
from refract.judges import check_counted, judge_suite, open_judges
from refract.models import open_model
from refract.models.protocol import Answer
from refract.perturbations import prompt_rows, render
from refract.rates import aggregate_suite
from refract.rows.jsonl import Row
from refract.store import ResponseStore, open_store

if TYPE_CHECKING:
    import pandas as pd

SUITE = "checks"


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


@dataclass(frozen=True)
class Measured:
    """Rates with the rows behind them, by prompt id; ``labels`` maps source ids to the datasets'
    index labels."""

    table: list[Row]
    compared: list[Row]
    failures: list[Row]
    prompts: dict[str, Row]
    responses: dict[str, Row]
    verdicts: dict[str, Mapping[str, Row]]
    labels: dict[str, Any]


def source_rows(dataset: pd.DataFrame) -> list[Row]:
    """The rows of a dataset as suite rows: its columns are features, its index labels the ids.

    Raises ValueError for a dataset that is empty or whose labels or columns cannot be told apart.
    """
    if not hasattr(dataset, "columns"):
        raise ValueError(f"the dataset must be a pandas DataFrame (got {type(dataset).__name__})")
    if dataset.empty:
        raise ValueError("the dataset has no rows or no columns")
    for what, names in (("index labels", dataset.index), ("columns", dataset.columns)):
        texts = Counter(str(name) for name in names)
        repeated = sorted(text for text, count in texts.items() if count > 1)[:5]
        if repeated:
            raise ValueError(
                f"the dataset's {what} must be unique (repeated: {', '.join(repeated)}); "
                "dataset.reset_index(drop=True) numbers the rows anew"
            )
    columns = [str(column) for column in dataset.columns]
    return [
        {
            "id": str(label),
            "category": "borderline",
            "features": {c: _text(value) for c, value in zip(columns, values, strict=True)},
            "label": label,
            "values": dict(zip(dataset.columns, values, strict=True)),
        }
        for label, values in zip(
            dataset.index, dataset.itertuples(index=False, name=None), strict=True
        )
    ]


def _text(value: Any) -> str:
    # None and NaN, which alone differs from itself, are cells without a text.
    return "" if value is None or value != value else str(value)


def measure(
    model: Any,
    rows: list[Row],
    judges: Mapping[str, Mapping[str, Any]],
    *,
    template: str | None,
    seed: int,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    thresholds: Mapping[str, Any] | None = None,
    apart: frozenset[str] = frozenset(),
) -> Measured:
    """Answers and verdicts for the variants of rows.

    Rows whose id is in ``apart`` are asked in a second call, whose answers come neither from the
    response store nor from the first. Raises ValueError for what cannot be used, and what an
    adapter raises when it cannot be asked at all.
    """
    opened = open_judges(judges)  # before the model costs anything
    check_counted(SUITE, opened, perturbed=bool(perturbations))
    is_function = callable(model) and not hasattr(model, "identity")
    shown = _shown(rows, template, is_function)
    prompts = list(prompt_rows(rows, SUITE, seed, perturbations, template, shown))
    parts = [
        [index for index, row in enumerate(prompts) if (row["source_id"] in apart) is second]
        for second in (False, True)
    ]
    responses: dict[str, Row] = {}
    if is_function:
        values = {row["id"]: row["values"] for row in rows}
        features = list(
            prompt_rows(rows, SUITE, seed, perturbations, as_sent=lambda _, texts, __: dict(texts))
        )
        for part in filter(None, parts):
            asked = [features[index] for index in part]
            responses |= {row["prompt_id"]: row for row in _ask_function(model, asked, values)}
    else:
        adapter = open_model("model", dict(model)) if isinstance(model, Mapping) else model
        for part, store in zip(parts, (open_store(), ResponseStore(None)), strict=True):
            with store:
                asked = [prompts[index] for index in part]
                answered, _ = answer_prompts({SUITE: asked}, adapter, store, seed, name=SUITE)
            responses |= {row["prompt_id"]: row for row in answered[SUITE]}
    in_order = [responses[row["prompt_id"]] for row in prompts]
    verdicts = judge_suite(prompts, in_order, {row["id"]: row for row in rows}, opened)
    made = {row["perturbation"]["name"] for row in prompts if row["perturbation"]}
    idle = {f"{name}_fail_rate" for name in perturbations or () if name not in made}
    limits = {name: limit for name, limit in (thresholds or {}).items() if name not in idle}
    families = {name: judge.FAMILY for name, judge in opened.items()}
    definition = {"judges": list(judges), "thresholds": limits, "count_cut_off": True}
    found = aggregate_suite(rows, prompts, in_order, verdicts, definition, judges, families)
    return Measured(
        found.table,
        found.compared,
        found.failures,
        {row["prompt_id"]: row for row in prompts},
        responses,
        {row["prompt_id"]: row["judges"] for row in verdicts},
        {row["id"]: row["label"] for row in rows},
    )


def _shown(
    rows: Sequence[Row], template: str | None, is_function: bool
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


def _ask_function(
    function: Callable[[pd.DataFrame], Sequence[str]],
    rows: Sequence[Row],
    values: Mapping[str, Mapping[Any, Any]],
) -> list[Row]:
    """Response rows of a plain function: attempt by attempt, in one call where that succeeds.

    The function gets the dataset's own values, but for the features that were perturbed.
    """
    import pandas as pd

    def frame(indices: Sequence[int], attempt: int) -> pd.DataFrame:
        return pd.DataFrame(
            [
                {
                    column: value
                    if rows[index]["attempts"][attempt][str(column)] == _text(value)
                    else rows[index]["attempts"][attempt][str(column)]
                    for column, value in values[rows[index]["source_id"]].items()
                }
                for index in indices
            ]
        )

    answers: dict[int, Answer] = {}
    waiting = list(range(len(rows)))
    attempt = 0
    while waiting:
        found: dict[int, Answer | None] = {}
        try:
            texts = function(frame(waiting, attempt))
        except Exception:  # whatever it was, it is of one row; each is asked alone
            for index in waiting:
                found[index] = _ask_alone(function, frame([index], attempt), attempt)
        else:
            for index, text in zip(waiting, _texts(texts, len(waiting)), strict=True):
                found[index] = _answer(text, attempt)
        too_long = []
        for index, answer in found.items():
            if answer is not None:
                answers[index] = answer
            elif attempt + 1 < len(rows[index]["attempts"]):
                too_long.append(index)
            else:
                message = "the function rejected every attempt as too long"
                answers[index] = Answer.failed("PromptTooLong", message, attempt)
        waiting = too_long
        attempt += 1
    return [response_row(row["prompt_id"], "", answers[index]) for index, row in enumerate(rows)]


def _ask_alone(
    function: Callable[[pd.DataFrame], Sequence[str]], frame: pd.DataFrame, attempt: int
) -> Answer | None:
    """The answer to one row; None where the function rejects it as too long."""
    try:
        texts = function(frame)
    except PromptTooLong:
        return None
    except Exception as error:
        return Answer.failed(type(error).__name__, str(error), attempt)
    return _answer(_texts(texts, 1)[0], attempt)


def _texts(found: Any, count: int) -> list[Any]:
    texts = [found] if isinstance(found, str) or not hasattr(found, "__iter__") else list(found)
    if isinstance(found, str) or len(texts) != count:
        got = f"the text {found!r:.40}" if isinstance(found, str) else f"{len(texts)} for {count}"
        raise ValueError(f"the model function must return one text for each row (got {got})")
    return texts


def _answer(text: Any, attempt: int) -> Answer:
    if isinstance(text, str):
        return Answer(str(text), "stop", attempt)
    return Answer.failed("NoText", f"the function returned {text!r:.40}, which is no text", attempt)


def why_untested(found: Measured, prompt_id: str, judge: str | None = None) -> str:
    """Why an answer has no verdict, in a few words."""
    response = found.responses[prompt_id]
    if response["error"]:
        return f"{response['error']['type']}: {response['error']['message']}"
    if response["finish_reason"] not in ("stop", "length"):
        return f"the answer is a {response['finish_reason'].replace('_', ' ')}"
    if not response["response"].strip():
        return "the answer is empty"
    error = found.verdicts[prompt_id][judge]["error"] if judge else None
    return error or "there is nothing to judge it by"
