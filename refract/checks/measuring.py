"""From a DataFrame and a model to verdicts: the pipeline on the rows of a dataset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from refract.checks.functions import FunctionModel, cell_text
from refract.core.types import PromptRow, ResponseRow, Row, Verdict
from refract.evaluate.pipeline import Suite, measure
from refract.models import open_model
from refract.models.protocol import Model
from refract.models.store import ResponseStore, open_store
from refract.suites.perturbations import prompt_rows, render

if TYPE_CHECKING:
    import pandas as pd

SUITE = "checks"


@dataclass(frozen=True)
class Measured:
    """Rates with the rows behind them, by prompt id; ``labels`` maps source ids to the datasets'
    index labels."""

    table: list[Row]
    compared: list[Row]
    failures: list[Row]
    prompts: dict[str, PromptRow]
    responses: dict[str, ResponseRow]
    verdicts: dict[str, dict[str, Verdict]]
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
                "dataset.reset_index(drop=True) numbers the rows from 0"
            )
    columns = [str(column) for column in dataset.columns]
    return [
        {
            "id": str(label),
            "category": "borderline",
            "features": {c: cell_text(value) for c, value in zip(columns, values, strict=True)},
            "label": label,
            "values": dict(zip(dataset.columns, values, strict=True)),
        }
        for label, values in zip(
            dataset.index, dataset.itertuples(index=False, name=None), strict=True
        )
    ]


def single_input(input_var: str, input_as_json: bool) -> pd.DataFrame:
    """One input as a dataset: a text (the feature ``prompt``), or a JSON object of features."""
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


def measure_rows(
    model: Any,
    rows: list[Row],
    judges: Mapping[str, Mapping[str, Any]],
    *,
    template: str | None,
    seed: int,
    perturbations: Mapping[str, Mapping[str, Any]] | None = None,
    fresh: Container[str] = (),
) -> Measured:
    """Answers and verdicts for the variants of rows.

    Rows whose id is in ``fresh`` are answered in a second pass, which reuses neither stored answers
    nor those of the first. Raises ValueError for what cannot be used, and what an adapter raises when
    it cannot be used at all.
    """
    is_function = callable(model) and not hasattr(model, "identity")
    shown = _shown(rows, template, is_function)
    prompts = list(prompt_rows(rows, SUITE, seed, perturbations, template, shown))
    store = ResponseStore(None)
    if is_function:
        features = prompt_rows(
            rows, SUITE, seed, perturbations, as_sent=lambda _, texts, __: dict(texts)
        )
        opened: Model = FunctionModel(
            model,
            {row["prompt_id"]: dict(row) for row in features},
            {row["id"]: row["values"] for row in rows},
        )
    else:
        store = open_store()
        given = open_model("model", dict(model)) if isinstance(model, Mapping) else model
        opened = cast(Model, given)
    definition = {
        "judges": list(judges),
        "perturbations": list(perturbations or ()),
    }
    suite = Suite(rows, prompts, definition)
    with store:
        found = measure({SUITE: suite}, opened, judges, store, seed=seed, name=SUITE, fresh=fresh)[
            SUITE
        ]
    return Measured(
        found.rates.table,
        found.rates.compared,
        found.rates.failures,
        {row["prompt_id"]: row for row in prompts},
        {row["prompt_id"]: row for row in found.responses},
        {row["prompt_id"]: row["judges"] for row in found.verdicts},
        {row["id"]: row["label"] for row in rows},
    )


def _shown(
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
