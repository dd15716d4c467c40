"""From a suite's answers and verdicts to its numbers, and to what these were made of.

The one way for the pipeline, `refract run`, checks and Python: :func:`count_suite`
computes the rates of one suite and :func:`provenance` says what results were made of. The pipeline
hands over readers of its files (:func:`stored_suites`), everybody else rows in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from refract.agreement.corrections import (
    gainsaid_notes,
    label_intervals,
    label_table,
    with_labels,
)
from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.unseen_models import known_errors
from refract.core.params import DecisionSettings
from refract.core.types import NullVerdictRow, PromptRow, ResponseRow, Row, Verdict, turns_of
from refract.rates import Aggregate, aggregate_suite, asked_once, usage
from refract.rates.counting import clusters_of, coverage_warnings
from refract.rates.judge_error import JudgeError
from refract.rates.judge_rates import null_table
from refract.rates.key import REFUSAL
from refract.rates.rate import Rate
from refract.suites.draws import Draw

Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SuiteAnswers:
    """One suite with a model's answers and their verdicts: what its numbers are computed from.

    ``definition`` is the suite's as in params.yaml, with its judges. ``prompts`` are its prompt
    rows with their samples, with or without texts; ``texts`` has them with texts, by prompt id.
    ``responses`` and ``verdicts`` are by prompt id. ``judged`` are the answers that people may have
    labelled and ``labels`` their labels, where there are any. ``null_verdicts`` are those on
    answers that cannot depend on their prompts."""

    suite: str
    definition: Definition
    sources: Sequence[Row]
    prompts: Sequence[PromptRow]
    responses: Mapping[str, ResponseRow]
    verdicts: Mapping[str, Mapping[str, Verdict]]
    draw: Draw
    texts: Mapping[str, PromptRow]
    judged: Sequence[JudgedAnswer] = ()
    labels: JoinedLabels | None = None
    null_verdicts: Sequence[NullVerdictRow] = ()


class SuiteNumbers(NamedTuple):
    """The numbers of one suite: outcomes and changed answers (``aggregate``), and its ``rates``
    with suite, model and draw in their keys. ``judge_error`` is what is known of its first judge's
    error, ``columns`` are those that its outcomes have besides what all outcomes have,
    ``labels_by_models`` counts labels that a language model gave."""

    suite: str
    definition: Definition
    draw: Draw
    aggregate: Aggregate
    rates: list[Rate]
    judge_error: JudgeError | None
    columns: set[str]
    labels_by_models: int = 0
    warnings: Sequence[str] = ()

    @property
    def label(self) -> str:
        """The suite as people read it, with what its draw was."""
        return self.draw.label(self.suite)

    @property
    def whole(self) -> Rate | None:
        """The share refused of all its clean prompts, whose counts say what was judged."""
        for rate in self.rates:
            if rate.measure == REFUSAL and rate.key.is_headline:
                return rate
        return None


def count_suite(
    answers: SuiteAnswers,
    model: str,
    judges: Mapping[str, Definition],
    families: Mapping[str, str],
    settings: DecisionSettings,
    strict: bool = True,
) -> SuiteNumbers:
    """The numbers of one suite and model.

    ``judges`` are the definitions of its judges with their versions, ``families`` the family of
    each one's labels, both by name. ``settings`` say the confidence, whether intervals allow for
    the judge's error, and what thresholds ask about; ``strict`` is as in :func:`aggregate_suite`.
    Raises :class:`refract.core.errors.RefractError` for rows that cannot be used."""
    suite = answers.definition
    judge_errors = {}
    if settings.labels_ask is None:
        of_suite = {name: judges[name] for name in suite["judges"]}
        judge_errors = known_errors(of_suite, answers.sources)
    with_judge = settings.interval == "prompts_and_judge"
    aggregate = aggregate_suite(
        answers.sources,
        answers.prompts,
        responses=answers.responses,
        verdicts=answers.verdicts,
        definition=suite,
        judges=judges,
        families=families,
        settings=settings,
        errors=judge_errors if with_judge else None,
        texts=answers.texts,
        strict=strict,
    )
    rates = list(aggregate.table)
    warnings: list[str] = []
    if answers.labels is not None:
        if with_judge:
            error = judge_errors.get(suite["judges"][0])
            intervals, gainsaid = label_intervals(
                answers.judged, answers.labels, error, settings.confidence
            )
            rates = with_labels(rates, intervals)
            warnings += gainsaid_notes(gainsaid)
        rates += label_table(answers.judged, answers.labels, settings.confidence)
        warnings += answers.labels.warnings
    rates += null_table(
        answers.null_verdicts,
        clusters_of(answers.sources, suite.get("cluster")),
        judges=suite["judges"],
        confidence=settings.confidence,
    )
    for place, rate in enumerate(rates):
        rate = rate.keyed(suite=answers.suite, model=model, draw=answers.draw)
        rates[place] = replace(rate, clustered_by=suite.get("cluster") or "")
    columns = {name for cells in aggregate.fields.values() for name in cells}
    columns |= {name for row in answers.prompts for name in turns_of(row)}
    numbers = SuiteNumbers(
        suite=answers.suite,
        definition=suite,
        draw=answers.draw,
        aggregate=aggregate,
        rates=rates,
        judge_error=judge_errors.get(suite["judges"][0]),
        columns=columns,
        labels_by_models=answers.labels.by_models if answers.labels else 0,
    )
    if numbers.whole is not None:
        warnings += coverage_warnings(numbers.whole, answers.responses.values())
    return numbers._replace(warnings=warnings)


def suite_provenance(
    numbers: SuiteNumbers,
    hashes: Mapping[str, str],
    inputs: Row,
    unread: Sequence[str] = (),
    argument: str = "",
) -> Row:
    """What the numbers of one suite were made of (``provenance.schema.json`` beside this module).

    ``hashes`` are those of its files or rows, by name, ``inputs`` what params.yaml says of it, with
    its perturbations and seed. ``unread`` says what judges do not read, images and languages,
    ``argument`` is what a user named it by."""
    suite, draw = numbers.definition, numbers.draw
    facts: Row = {
        **hashes,
        "judges": list(suite["judges"]),
        "cut_off": "judged",
        "cluster": suite.get("cluster"),
        "draw": {
            "asked": draw.asked,
            "total": draw.total,
            "seed": draw.seed if draw.is_part else None,
            "samples": draw.samples,
        },
        "definition": inputs,
        "unread": list(unread),
    }
    if numbers.judge_error is not None:
        facts["judge_error"] = {"lines": [list(line) for line in numbers.judge_error.lines]}
    if numbers.labels_by_models:
        facts["labels_by_models"] = numbers.labels_by_models
    if argument:
        facts["argument"] = argument
    return facts


def provenance(
    model: Row,
    judges: Mapping[str, Definition],
    suites: Mapping[str, Row],
    responses: Iterable[ResponseRow],
    settings: DecisionSettings,
    null_answers: Row,
) -> Row:
    """What the results of one model were made of: the model, the judges, each suite
    (:func:`suite_provenance`), the tokens that ``responses`` took, how many ``null_answers`` were
    drawn by which seed, and what decides intervals."""
    price = model["definition"].get("price")
    return {
        "model": model,
        "usage": usage(asked_once(responses), price),
        "judges": dict(judges),
        "suites": dict(suites),
        "null_answers": null_answers,
        "decisions": {
            "confidence": settings.confidence,
            "interval": settings.interval,
            "provider_refusals": settings.provider_refusals,
            "content_filters": settings.content_filters,
            "labels_ask": settings.labels_ask,
        },
    }


def samples_in(prompts: Collection[PromptRow]) -> int:
    """How often each prompt was answered."""
    return max((row.get("sample", 1) for row in prompts), default=1)


def coverage(numbers: Sequence[SuiteNumbers]) -> Counter[str]:
    """How many answers to clean prompts there are, and how many of them were not judged or cut off."""
    counted = Counter({"answers": 0, "not judged": 0, "cut off": 0})
    for suite in numbers:
        whole = suite.whole
        if whole is not None:
            counted["answers"] += whole.counts.n + whole.counts.unjudged
            counted["not judged"] += whole.counts.unjudged
            counted["cut off"] += whole.counts.all_cut_off
    return counted
