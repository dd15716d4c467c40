"""The judged answers of a run: those that a project holds of a model, and those of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.corrections import label_table, with_labels
from refract.agreement.label_files import JoinedLabels, JudgedAnswer, read_labels
from refract.agreement.unseen_models import known_errors
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import has_form, read_prompts, read_responses, read_rows, read_verdicts
from refract.core.params import DecisionSettings, definition, grid
from refract.core.types import PromptRow, ResponseRow, Row, VerdictRow, answered_prompts, is_last
from refract.core.vocabulary import JUDGED
from refract.rates import Aggregate, aggregate_suite
from refract.rates.comparison import DEFAULTS
from refract.rates.counting import clusters_of, outcome
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Rate
from refract.suites.rows import load_suite, samples_label


class Stored(NamedTuple):
    """One suite of one model: its name and definition, what it is called in tables (``label``), its
    prompts with their samples and their responses, rates, table rows, human labels if there are any, and
    the error of its judge where that is known."""

    suite: str
    definition: Mapping[str, Any]
    label: str
    samples: int
    prompts: Sequence[PromptRow]
    responses: Sequence[ResponseRow]
    rates: Aggregate
    table: list[Rate]
    labels: JoinedLabels | None
    judge_error: JudgeError | None


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
        given = _read_suite(root, wanted, model, suite)
        sources, prompts, responses, _ = given
        errors = known_errors({name: judges[name] for name in wanted["judges"]}, sources)
        own = errors.get(wanted["judges"][0])
        confidence, with_judge = settings.confidence, settings.interval == "prompts_and_judge"
        known = errors if with_judge else {}
        aggregate = aggregate_suite(
            *given, wanted, judges, families, confidence, known, settings.estimand
        )
        samples = max((row.get("sample", 1) for row in prompts), default=1)
        label = samples_label(labels[suite], samples)
        table = list(aggregate.table)
        human = None
        labelled = root / f"data/labels/{model}/{suite}.csv"
        if labelled.is_file():
            answers = _judged_answers(suite, wanted, *given)
            human = read_labels(labelled, answers)
            of_labels = label_table(answers, human, confidence)
            if with_judge:
                table = with_labels(table, of_labels, wanted.get("max_unjudged"))
            table += of_labels
        by = wanted.get("cluster") or ""
        table = [replace(rate, suite=label, model=model, clustered_by=by) for rate in table]
        yield Stored(
            suite, wanted, label, samples, prompts, responses, aggregate, table, human, own
        )


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
    return _judged_answers(suite, wanted, *_read_suite(root, wanted, model, suite))


def _read_suite(
    root: Path, wanted: Mapping[str, Any], model: str, suite: str
) -> tuple[list[Row], list[PromptRow], list[ResponseRow], list[VerdictRow]]:
    """A suite's rows, its prompts with their samples, and a model's responses and verdicts."""
    responses = read_responses(root / f"data/responses/{model}/{suite}.jsonl")
    prompts = answered_prompts(read_prompts(root / f"data/prompts/{suite}.jsonl"), responses)
    verdicts = read_verdicts(root / f"data/verdicts/{model}/{suite}.jsonl")
    return load_suite(root / wanted["file"]), prompts, responses, verdicts


def _judged_answers(
    suite: str,
    wanted: Mapping[str, Any],
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow],
    verdicts: Sequence[VerdictRow],
) -> list[JudgedAnswer]:
    """The answers to a suite's clean prompts that its first judge gave a label, in order.

    Cut off or not, whatever the suite's rates leave out."""
    response_of = {row["prompt_id"]: row for row in responses}
    verdict_of = {row["prompt_id"]: row["judges"].get(wanted["judges"][0]) for row in verdicts}
    clusters = clusters_of(sources, wanted.get("cluster"))
    answers = []
    for prompt in prompts:
        id_, source = prompt["prompt_id"], prompt["source_id"]
        response, verdict = response_of[id_], verdict_of.get(id_)
        became = outcome(response, verdict)
        if prompt["perturbation"] is None and became in JUDGED and is_last(prompt):
            sent, cluster = prompt["attempts"][response["attempt"]], clusters.get(source, source)
            judged = suite, id_, prompt["category"], sent, response["response"], became, cluster
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
