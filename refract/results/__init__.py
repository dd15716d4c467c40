"""Everything that was measured, as tidy tables for analysis."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refract.core.jsonl import iter_rows, parse_json, stored_rows
from refract.core.tool_calls import with_calls
from refract.core.types import Attempt, Row, Verdict
from refract.core.vocabulary import OUTCOME_COLUMNS
from refract.rates.key import MEASURES
from refract.rates.rate import Rate
from refract.results.current import ROWS, named, notes_of, rows_missing, without_results
from refract.results.sources import (
    RUN_ROWS,
    WRITTEN_BY,
    ResultsError,
    read_run,
    read_side,
    run_outcomes,
    tree_models,
)
from refract.results.table_rows import COLUMNS, rate_to_row, rates_from_rows

if TYPE_CHECKING:
    import pandas as pd

# The columns of outcomes that hold counts; all others hold texts.
OUTCOME_COUNTS: dict[str, type] = {"changed": int, "cut_off": int, "sample": int}
ROW_COLUMNS = (
    "model",
    "suite",
    "prompt_id",
    "source_id",
    "category",
    "perturbation",
    "prompt",
    "response",
    "finish_reason",
    "error",
    "outcome",
)


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """Tidy tables, one observation a row, each with the columns ``model`` and ``suite``. Printed,
    the main rates with their intervals.

    ``metrics``: ``measure`` and ``value``, the numbers of ``dvc metrics show``. ``tables``: every
    rate with counts, interval and what it leaves out. ``outcomes``: one row for each prompt
    variant, with the suites' fields, without text. ``rows``: the same with prompt, response and
    each judge's ``label_JUDGE`` and ``score_JUDGE``, of the suites whose texts are here as the
    numbers were made of them. ``provenance``: by model, what the numbers were made of."""

    metrics: pd.DataFrame
    tables: pd.DataFrame
    outcomes: pd.DataFrame
    rows: pd.DataFrame
    provenance: Mapping[str, Row]

    def frames(self) -> dict[str, pd.DataFrame]:
        """The four tables by name."""
        return {
            "metrics": self.metrics,
            "tables": self.tables,
            "outcomes": self.outcomes,
            "rows": self.rows,
        }

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} ({len(frame)})" for name, frame in self.frames().items())
        rates = self._main_rates().to_string(index=False)
        return f"Results, with the tables (rows) {sizes}\n{rates}"

    def _main_rates(self) -> pd.DataFrame:
        """The rates of refusal by category over whole suites, as people read them."""
        table = self.tables
        main = [measure.name for measure in MEASURES if measure.metric == "first"]
        whole = (table["perturbation"] == "") & (table["field"] == "")
        rates = table[whole & table["measure"].isin(main)].drop(columns="rate")
        rates = rates.rename(columns={"shown": "rate"})
        columns = ["model", "suite", "measure", "judge", "n", "rate"]
        if not any(rates["judge"]):  # all are the first judge's
            columns.remove("judge")
        return rates[columns]


class ResultsWarning(UserWarning):
    """Some results are missing or left out; the message says which, and what brings them."""


def load_results(source: str | Path = ".", models: Sequence[str] | None = None) -> Results:
    """The results of a project's folder, or of a results file of ``refract run``.

    ``models`` defaults to those of the project's grid that have results. A file of ``refract run``
    has texts where its ``--rows`` are beside it as NAME.rows.jsonl. Raises :class:`ResultsError`,
    and warns (:class:`ResultsWarning`) of what is missing or left out.

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
    if not isinstance(source, str | Path):
        raise ResultsError(f"source must be a folder or a results file (got {source!r:.80})")
    path = Path(source)
    if path.is_file():
        run, answers = read_run(path), path.with_suffix(RUN_ROWS)
        texts = iter_rows(answers) if answers.is_file() else []
        of_run = run_outcomes(path, run)
        notes = [] if of_run else [f"{path}: no outcomes beside it to count its rates by"]
        return run_tables(run, of_run, texts), notes
    if not path.is_dir():
        raise ResultsError(f"{str(source)!r} is no file and no project's folder; {WRITTEN_BY}")
    wanted = tree_models(path)
    without = without_results(path, wanted)
    computed = [model for model in wanted if model not in without]
    if not computed:
        raise ResultsError(f"{path / 'metrics'}: no results yet; run: dvc repro")
    missing = sorted(set(models or ()) - set(computed))
    if missing:
        raise ResultsError(f"no results of {named(missing)}; there are: {', '.join(computed)}")
    side = read_side(path, models or computed)
    lacking = rows_missing(path, side.provenance)
    notes = notes_of(without if models is None else [], side.reasons, lacking)
    metrics: list[Row] = []
    rates: list[Rate] = []
    outcomes: list[Row] = []
    rows: list[Row] = []
    for model, result in side.results.items():
        numbers = parse_json((path / f"metrics/{model}.json").read_text("utf-8"))
        metrics += _metric_rows(model, numbers)
        rates += result.rates
        outcomes += [{"model": model, **line} for line in result.outcomes]
        for suite in dict.fromkeys(line["suite"] for line in result.outcomes):
            if result.provenance and (model, suite) not in lacking:
                lines = [line for line in result.outcomes if line["suite"] == suite]
                rows += _rows_with_texts(path, model, suite=suite, outcomes=lines)
    return _frames(metrics, rates, outcomes=outcomes, rows=rows, provenance=side.provenance), notes


def run_tables(
    results: Row, outcomes: Sequence[Mapping[str, Any]], texts: Iterable[Row]
) -> Results:
    """The tables of one run: what `refract run` wrote, its outcomes, and its rows with texts."""
    model = results["model"]
    lines = [{"model": model, **row} for row in outcomes]
    line_of = {(row["suite"], row["prompt_id"]): row for row in lines}
    rows = []
    for answer in texts:
        line = line_of.get((answer["suite"], answer["prompt_id"]), {})
        row = {"model": model, **line, **answer}
        rows.append(row | _cells(answer["prompt"], answer["error"], answer["judges"]))
    return _frames(
        _metric_rows(model, results["metrics"]),
        rates_from_rows(results["tables"], model),
        outcomes=lines,
        rows=rows,
        provenance={model: results["provenance"]},
    )


def _metric_rows(model: str, metrics: Mapping[str, Mapping[str, float]]) -> list[Row]:
    return [
        {"model": model, "suite": suite, "measure": measure, "value": float(value)}
        for suite, numbers in metrics.items()
        for measure, value in sorted(numbers.items())
    ]


def _rows_with_texts(
    root: Path, model: str, suite: str, outcomes: Sequence[Mapping[str, str]]
) -> list[Row]:
    """The outcomes of a suite with their texts and verdicts, which stages write in the same order."""
    files = [root / pattern.format(model=model, suite=suite) for pattern in ROWS.values()]
    stored = stored_rows(*files)
    if len(outcomes) != len(stored.responses):
        counts = f"{len(outcomes)} outcomes of {suite} and {len(stored.responses)} answers"
        raise ResultsError(f"{model} has {counts}; run: dvc repro")
    rows = []
    for line, prompt_id in zip(outcomes, stored.prompts, strict=True):
        response = stored.responses[prompt_id]
        prompt = stored.prompts[prompt_id]["attempts"][response["attempt"]]
        row: Row = {"model": model, **line, "response": with_calls(response)}
        row["finish_reason"] = response["finish_reason"]
        rows.append(row | _cells(prompt, response["error"], stored.verdicts[prompt_id]))
    return rows


def _cells(prompt: Attempt, error: Any, verdicts: Mapping[str, Verdict]) -> Row:
    """The columns of a prompt (messages as JSON), of what went wrong and of verdicts."""
    cells: Row = {"prompt": prompt, "error": error}
    if not isinstance(prompt, str):
        cells["prompt"] = json.dumps(prompt, ensure_ascii=False)
    if isinstance(error, Mapping):
        cells["error"] = f"{error['type']}: {error['message']}"
    for judge, verdict in verdicts.items():
        cells[f"label_{judge}"] = verdict["label"]
        cells[f"score_{judge}"] = verdict["score"]
    return cells


def _frames(
    metrics: Sequence[Row],
    rates: Sequence[Rate],
    outcomes: Sequence[Row],
    rows: Sequence[Row],
    provenance: Mapping[str, Row],
) -> Results:
    import pandas as pd

    for row in rows:
        for name, cell in row.items():
            if isinstance(cell, str):
                # Half a character (a lone surrogate), which pandas cannot hold, as its escape.
                row[name] = cell.encode("utf-8", "backslashreplace").decode()
    full = pd.DataFrame(rows)
    lines = _typed(pd.DataFrame(outcomes), OUTCOME_COUNTS)
    known = {*OUTCOME_COLUMNS, "model"}
    fields = [name for name in lines.columns if name not in known]
    judges = []
    for column in full.columns:
        if column.startswith(("label", "score")) and column not in fields:
            judges.append(column)
        if column in judges and column.startswith("score"):
            full[column] = full[column].astype("float64")
    table = pd.DataFrame(
        [{"model": rate.model, **rate_to_row(rate)} for rate in rates], columns=["model", *COLUMNS]
    )
    return Results(
        metrics=pd.DataFrame(metrics, columns=["model", "suite", "measure", "value"]),
        tables=_typed(table, COLUMNS),
        outcomes=lines,
        rows=full.reindex(columns=[*ROW_COLUMNS, *fields, *judges]),
        provenance=provenance,
    )


def _typed(frame: pd.DataFrame, types: Mapping[str, type]) -> pd.DataFrame:
    """A table whose columns have these types, texts where none is named. Numbers may be missing."""
    import pandas as pd

    for column in frame.columns:
        kind = types.get(column, str)
        if kind is str:
            # a suite's field, in rows of suites without it
            frame[column] = frame[column].fillna("")
            continue
        cells = [None if cell == "" else cell for cell in frame[column]]
        numbers = pd.to_numeric(pd.Series(cells, dtype=object))
        frame[column] = numbers.astype("Int64" if kind is int else "float64")
    return frame
