"""The judged answers of a run: those that a project holds of a model, and those of a file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from refract.agreement.corrections import label_table, with_labels
from refract.agreement.label_files import JoinedLabels, JudgedAnswer, read_labels
from refract.agreement.unseen_models import known_errors
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import StoredRows, has_form, iter_rows, read_rows, stored_rows
from refract.core.params import DecisionSettings, definition, grid
from refract.core.tables import shared
from refract.core.tool_calls import with_calls
from refract.core.types import PromptRow, Row, is_last, turns_of
from refract.core.vocabulary import JUDGED
from refract.rates import Aggregate, aggregate_suite
from refract.rates.comparison import DEFAULTS
from refract.rates.counting import clusters_of, outcome
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Rate
from refract.suites.rows import CONTENT, samples_label

# What no rate needs of a prompt row.
TEXTS = ("attempts", "script", "seed", "suite")


class Stored(NamedTuple):
    """One suite of one model: its name and definition, what it is called in tables (``label``), its
    rows, rates, table rows, human labels if there are any, the error of its judge where that is known,
    and the columns that its outcomes have besides those that all have."""

    suite: str
    definition: Mapping[str, Any]
    label: str
    samples: int
    rows: StoredRows
    rates: Aggregate
    table: list[Rate]
    labels: JoinedLabels | None
    judge_error: JudgeError | None
    columns: set[str]


def stored_suites(
    root: Path, params: Mapping[str, Any], model: str, settings: DecisionSettings = DEFAULTS
) -> Iterator[Stored]:
    """The suites of the grid, as a project's ``data/`` has them for one model, with the confidence and
    the intervals of ``settings``. Raises FileNotFoundError where something is missing, and
    :class:`refract.core.errors.RefractError` for rows that cannot be used."""
    verdict_folder = root / f"data/verdicts/{model}"
    judges = json.loads((verdict_folder / "judges.json").read_text("utf-8"))
    families = json.loads((verdict_folder / "families.json").read_text("utf-8"))
    labels = json.loads((root / "data/prompts/labels.json").read_text("utf-8"))
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        rows = _stored_rows(root, model, suite)
        sources = _sources(root, wanted)
        prompts = list(cast(Iterator[PromptRow], _without(TEXTS, rows.prompts.values())))
        errors = known_errors({name: judges[name] for name in wanted["judges"]}, sources)
        own = errors.get(wanted["judges"][0])
        confidence, with_judge = settings.confidence, settings.interval == "prompts_and_judge"
        known = errors if with_judge else {}
        given = sources, prompts, rows.responses, rows.verdicts
        aggregate = aggregate_suite(
            *given, wanted, judges, families, confidence, known, settings.estimand
        )
        samples = max((row.get("sample", 1) for row in prompts), default=1)
        label = samples_label(labels[suite], samples)
        table = list(aggregate.table)
        human = None
        labelled = root / f"data/labels/{model}/{suite}.csv"
        if labelled.is_file():
            answers = _judged_answers(suite, wanted, sources, rows)
            human = read_labels(labelled, answers)
            of_labels = label_table(answers, human, confidence)
            if with_judge:
                table = with_labels(table, of_labels, wanted.get("max_unjudged"))
            table += of_labels
        by = wanted.get("cluster") or ""
        table = [replace(rate, suite=label, model=model, clustered_by=by) for rate in table]
        columns = {name for cells in aggregate.fields.values() for name in cells}
        columns |= {name for row in prompts for name in turns_of(row)}
        del given, sources, prompts  # before the next suite's are read
        yield Stored(suite, wanted, label, samples, rows, aggregate, table, human, own, columns)


def stored_answers(
    root: Path, params: Mapping[str, Any], model: str, suite: str
) -> list[JudgedAnswer]:
    """The judged answers of a model of a project to a suite, cut off or not. Raises :class:`UsageError`
    where the pipeline has not run, and :class:`refract.core.errors.RefractError` for what cannot be
    used."""
    wanted = definition(params, "suites", suite)
    for folder in ("prompts", f"responses/{model}", f"verdicts/{model}"):
        file = root / f"data/{folder}/{suite}.jsonl"
        if not file.is_file():
            raise UsageError(f"no {file}; run: dvc repro (or dvc pull)")
    return _judged_answers(suite, wanted, _sources(root, wanted), _stored_rows(root, model, suite))


def _stored_rows(root: Path, model: str, suite: str) -> StoredRows:
    """The prompts of a suite with their samples, and a model's responses and verdicts."""
    responses, verdicts = (
        root / f"data/{kind}/{model}/{suite}.jsonl" for kind in ("responses", "verdicts")
    )
    return stored_rows(root / f"data/prompts/{suite}.jsonl", responses, verdicts)


def _sources(root: Path, wanted: Mapping[str, Any]) -> list[Row]:
    """A suite's rows without what they ask, unless that is a field that is counted by."""
    counted = {wanted.get("cluster"), *(wanted.get("fields") or ())}
    return list(_without({*CONTENT} - counted, iter_rows(root / wanted["file"])))


def _without(fields: Collection[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    return shared(((key, x) for key, x in row.items() if key not in fields) for row in rows)


def _judged_answers(
    suite: str, wanted: Mapping[str, Any], sources: Sequence[Row], rows: StoredRows
) -> list[JudgedAnswer]:
    """The answers to a suite's clean prompts that its first judge gave a label, in order.

    Cut off or not, whatever the suite's rates leave out."""
    clusters = clusters_of(sources, wanted.get("cluster"))
    answers = []
    for id_, prompt in rows.prompts.items():
        response, verdict = rows.responses[id_], rows.verdicts[id_].get(wanted["judges"][0])
        source = prompt["source_id"]
        became = outcome(response, verdict)
        if prompt["perturbation"] is None and became in JUDGED and is_last(prompt):
            sent, cluster = prompt["attempts"][response["attempt"]], clusters.get(source, source)
            judged = suite, id_, prompt["category"], sent, with_calls(response), became, cluster
            chances = verdict.get("probabilities") if verdict else None
            answers.append(JudgedAnswer(*judged, _refused(chances)))
    return answers


def _refused(probabilities: Mapping[str, float] | None) -> float | None:
    """How likely a refusal of either kind is, where the judge says so."""
    return round(1 - probabilities["compliance"], 6) if probabilities else None


# What a row of `refract run --rows` holds, and its prompt: a text, or messages.
ROW = {"suite": str, "prompt_id": str, "category": str, "response": str}
PROMPTS = (str, [{"role": str, "content": str}])


def answers_in(path: Path, suite: str | None = None) -> list[JudgedAnswer]:
    """The judged answers of a ``--rows`` file of ``refract run``, to one suite. Raises
    :class:`UsageError` for a file of several suites without a ``suite``, :class:`RowError` for other
    rows."""
    if not path.is_file():
        raise UsageError(f"--rows: no file {path}")
    answers = []
    for number, row in enumerate(read_rows(path), 1):
        try:
            # An answer that the rates leave out for being cut off has its verdict all the same.
            became = row.get("label") if row["outcome"] == "cut_off" else row["outcome"]
            texts = row["suite"], row["prompt_id"], row["category"], row["prompt"], row["response"]
        except KeyError as error:
            raise RowError(
                f"{path}: row {number} has no {error}; it needs rows of `refract run --rows`"
            ) from None
        if suite in (None, row["suite"]) and became in JUDGED and is_last(row):
            if not any(has_form(row, {**ROW, "prompt": form}) for form in PROMPTS):
                raise RowError(f"{path}: row {number} is none of `refract run --rows`")
            cluster = row.get("cluster") or row["prompt_id"]
            answers.append(
                JudgedAnswer(*texts, became, cluster, _refused(row.get("probabilities")))
            )
    suites = sorted({answer.suite for answer in answers})
    if len(suites) > 1:
        raise UsageError(f"{path} holds several suites; name one with --suite: {', '.join(suites)}")
    return answers
