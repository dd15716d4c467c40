"""Everything that was measured, as tidy tables for analysis."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.core.jsonl import iter_rows, read_prompts, read_responses, read_verdicts
from refract.core.params import grid, load_params
from refract.core.tables import read_table
from refract.core.types import Attempt, Row, answered_prompts
from refract.core.vocabulary import OUTCOME_COLUMNS
from refract.rates.rate import Rate
from refract.results.current import (
    grid_notes,
    left_over,
    named,
    rows_missing,
    rows_note,
    without_results,
)
from refract.results.sources import ResultsError, read_run
from refract.results.table_rows import COLUMNS, rate_to_row, rates_from_rows, read_rate_tables

if TYPE_CHECKING:
    import pandas as pd

# The columns of outcomes that hold counts; all others hold texts.
OUTCOME_COUNTS = dict.fromkeys(("changed", "cut_off", "sample"), int)
ROW_COLUMNS = (
    *("model", "suite", "prompt_id", "source_id", "category", "perturbation", "prompt", "response"),
    *("finish_reason", "error", "outcome"),
)


class Results(NamedTuple):
    """Tidy tables, one observation a row, each with the columns ``model`` and ``suite``.

    ``metrics``: ``measure`` and ``value``, the numbers of ``dvc metrics show``. ``tables``: every
    rate with counts, interval and what it leaves out. ``outcomes``: one row for each prompt variant,
    with the suites' fields, without text. ``rows``: the same with prompt, response and each judge's
    ``label_JUDGE`` and ``score_JUDGE``, of the suites whose texts are here as the numbers were made
    of them.
    """

    metrics: pd.DataFrame
    tables: pd.DataFrame
    outcomes: pd.DataFrame
    rows: pd.DataFrame


class ResultsWarning(UserWarning):
    """Some results are missing or left out; the message says which, and what brings them."""


def load_results(source: str | Path = ".", models: Sequence[str] | None = None) -> Results:
    """The results of a project's folder, or of a results file of ``refract run``.

    ``models`` defaults to those of the project's grid that have results; in a folder without
    ``params.yaml``, to all that have. A file of ``refract run`` has texts where its ``--rows`` are
    beside it as NAME.rows.jsonl. Raises :class:`ResultsError`, and warns (:class:`ResultsWarning`)
    of what is missing or left out.

    >>> refract.load_results("results.json").metrics
    """
    results, notes = results_and_notes(source, models)
    for note in notes:
        warnings.warn(note, ResultsWarning, stacklevel=2)
    return results


def results_and_notes(
    source: str | Path, models: Sequence[str] | None = None
) -> tuple[Results, list[str]]:
    """What :func:`load_results` returns, and what it warns of. Raises :class:`ResultsError`."""
    path = Path(source)
    if path.is_file():
        beside, answers = path.with_suffix(".outcomes.csv"), path.with_suffix(".rows.jsonl")
        lines = read_table(beside) if beside.is_file() else []
        return run_tables(
            read_run(path), lines, iter_rows(answers) if answers.is_file() else []
        ), []
    folder = path / "metrics"
    in_grid = (path / "params.yaml").is_file()
    wanted = (
        grid(load_params(path / "params.yaml"), "models") if in_grid else list(left_over(path, ()))
    )
    notes = grid_notes(path, wanted) if in_grid else []
    there = [model for model in wanted if model not in without_results(path, wanted)]
    if not there:
        raise ResultsError(f"{folder}: no results yet; run: dvc repro")
    if models is not None:
        if missing := sorted(set(models) - set(there)):
            raise ResultsError(f"no results of {named(missing)}; there are: {', '.join(there)}")
        there, notes = list(models), []
    tables, provenance = read_rate_tables(path, there)
    if texts := rows_missing(path, provenance):
        notes.append(rows_note(texts))
    metrics: list[Row] = []
    outcomes: list[Row] = []
    rows: list[Row] = []
    for model in there:
        numbers = json.loads((folder / f"{model}.json").read_text("utf-8"))
        metrics += _metric_rows(model, numbers)
        lines = read_table(folder / f"outcomes/{model}.csv")
        outcomes += [{"model": model, **line} for line in lines]
        here = [line for line in lines if (model, line["suite"]) not in texts]
        rows += _full_rows(path / "data", model, here)
    rates = [rate for table in tables.values() for rate in table]
    return _frames(metrics, rates, outcomes, rows), notes


def run_tables(
    results: Row, outcomes: Sequence[Mapping[str, Any]], texts: Iterable[Row]
) -> Results:
    """The tables of one run: what `refract run` wrote, its outcomes, and its rows with texts."""
    model = results["model"]
    rates = rates_from_rows(results["tables"], results["provenance"], model)
    lines = [{"model": model, **row} for row in outcomes]
    line_of = {(row["suite"], row["prompt_id"]): row for row in lines}
    rows = [
        {
            "model": model,
            **line_of.get((row["suite"], row["prompt_id"]), {}),
            **row,
            "prompt": _text(row["prompt"]),
            "error": _message(row["error"]),
        }
        for row in texts
    ]
    return _frames(_metric_rows(model, results["metrics"]), rates, lines, rows)


def _metric_rows(model: str, metrics: Mapping[str, Mapping[str, float]]) -> list[Row]:
    return [
        {"model": model, "suite": suite, "measure": measure, "value": float(value)}
        for suite, numbers in metrics.items()
        for measure, value in sorted(numbers.items())
    ]


def _full_rows(data: Path, model: str, outcomes: Iterable[Mapping[str, str]]) -> list[Row]:
    """The outcomes with their texts and verdicts."""
    by_suite: dict[str, list[Mapping[str, str]]] = {}
    for line in outcomes:
        by_suite.setdefault(line["suite"], []).append(line)
    rows = []
    for suite, lines in by_suite.items():
        responses = read_responses(data / f"responses/{model}/{suite}.jsonl")
        prompts = answered_prompts(read_prompts(data / f"prompts/{suite}.jsonl"), responses)
        verdicts = read_verdicts(data / f"verdicts/{model}/{suite}.jsonl")
        response_of = {row["prompt_id"]: row for row in responses}
        prompt_of = {row["prompt_id"]: row for row in prompts}
        verdict_of = {row["prompt_id"]: row["judges"] for row in verdicts}
        for line in lines:
            id_ = line["prompt_id"]
            response = response_of[id_]
            judges: Row = {}
            for judge, verdict in verdict_of[id_].items():
                judges |= {f"label_{judge}": verdict["label"], f"score_{judge}": verdict["score"]}
            rows.append(
                {
                    **{key: line[key] for key in line if key not in ("prompt_sha256", "changed")},
                    "model": model,
                    "prompt": _text(prompt_of[id_]["attempts"][response["attempt"]]),
                    "response": response["response"],
                    "finish_reason": response["finish_reason"],
                    "error": _message(response["error"]),
                    **judges,
                }
            )
    return rows


def _text(prompt: Attempt) -> str:
    """A prompt as one text; of several messages, their JSON."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def _message(error: Any) -> str | None:
    return f"{error['type']}: {error['message']}" if isinstance(error, Mapping) else error


def _whole(text: str) -> str:
    """A text that pandas can hold: half a character (a lone surrogate) becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _frames(
    metrics: Sequence[Row], rates: Sequence[Rate], outcomes: Sequence[Row], rows: Sequence[Row]
) -> Results:
    import pandas as pd

    def typed(cells: Sequence[Row], types: Mapping[str, type]) -> pd.DataFrame:
        frame = pd.DataFrame(cells)
        for column in frame.columns:
            if (kind := types.get(column, str)) is str:
                # a suite's field, in rows of suites without it
                frame[column] = frame[column].fillna("")
            else:
                numbers = pd.Series([None if x == "" else x for x in frame[column]], dtype=object)
                frame[column] = pd.to_numeric(numbers).astype("Int64" if kind is int else "float64")
        return frame

    full = pd.DataFrame(
        [{k: _whole(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
    )
    lines = typed(outcomes, OUTCOME_COUNTS)
    fields = [column for column in lines.columns if column not in (*OUTCOME_COLUMNS, "model")]
    judges = [column for column in full.columns if column.startswith(("label", "score"))]
    judges = [column for column in judges if column not in fields]
    scores = [column for column in judges if column.startswith("score")]
    full[scores] = full[scores].astype("float64")
    return Results(
        pd.DataFrame(metrics, columns=["model", "suite", "measure", "value"]),
        typed([{"model": rate.model, **rate_to_row(rate)} for rate in rates], COLUMNS),
        lines,
        full.reindex(columns=[*ROW_COLUMNS, *fields, *judges]),
    )
