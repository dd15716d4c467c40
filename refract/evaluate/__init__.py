"""From suites and a model to results: the one way for `refract run`, checks and Python.

DVC's stages take the same steps (prompts, answers, verdicts, numbers) one by one, each in a stage
of its own; both compute the numbers by :func:`refract.results.counted.count_suite`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refract.agreement.judged_answers import counted_rows
from refract.core.environment import code_sha256, library_versions
from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_file
from refract.core.params import NULL_ANSWERS, DecisionSettings, NullAnswerSettings
from refract.core.played import answered_prompts
from refract.core.showing import say
from refract.core.types import NullVerdictRow, PromptRow, ResponseRow, Row, VerdictRow, turns_of
from refract.core.vocabulary import EXCLUDED
from refract.judges import (
    check_counted,
    judge_suite,
    open_judges,
    reading_warnings,
    with_calls_judged,
)
from refract.judges.cases import AnsweredSuite, Judge, versioned
from refract.judges.null_answers import null_verdicts
from refract.judges.processes import processes_stay
from refract.models import check_keys
from refract.models.answering import Count, ModelRun, answer_model
from refract.models.origins import made_rows
from refract.models.protocol import AnswerOrigin, Certificate, Model
from refract.models.store import ResponseStore
from refract.project import Project, check_names, find_suite
from refract.rates import outcome_lines
from refract.rates.clean_prompts import suite_metrics
from refract.rates.comparison import DEFAULTS
from refract.rates.rate import Rate
from refract.results.counted import (
    SuiteAnswers,
    SuiteNumbers,
    count_suite,
    provenance,
    samples_in,
    suite_provenance,
)
from refract.results.table_rows import json_rows
from refract.suites.draws import Draw, sample_rows
from refract.suites.perturbations import check_template, prompt_rows
from refract.suites.rows import load_suite

Definition = Mapping[str, Any]
# Settings of a suite of params.yaml that also hold where its clean prompts alone are
# evaluated. Its perturbations and judges are those that the caller names.
KEPT_SETTINGS = ("cluster", "fields", "file", "samples", "template", "thresholds", "tools")
SCHEMA_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite to evaluate.

    ``definition`` is as in params.yaml; without ``judges`` of its own all judges of
    the evaluation are its judges. ``argument`` is what the user named it by,
    ``sha256`` that of its file. ``prompts`` are made of the rows unless given."""

    name: str
    rows: Sequence[Row]
    definition: Definition
    argument: str = ""
    sha256: str = ""
    prompts: Sequence[PromptRow] = ()


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What came of one suite: its prompts with their samples, responses and verdicts in the same
    order, verdicts on null answers, its numbers, and how many answers were reused and made."""

    suite: Suite
    prompts: Sequence[PromptRow]
    responses: Sequence[ResponseRow]
    verdicts: Sequence[VerdictRow]
    null_verdicts: Sequence[NullVerdictRow]
    numbers: SuiteNumbers
    count: Count

    def rows(self) -> list[Row]:
        """Each answer with its prompt, its outcome, the verdicts on it by judge, and the
        ``judge`` whose verdict decided the outcome."""
        rows: list[Row] = []
        answered = _answered(self.suite, self.prompts, self.responses)
        of_each = zip(self.prompts, self.responses, self.verdicts, strict=True)
        for prompt, response, verdict in of_each:
            case = answered.case(prompt["prompt_id"])
            answer = self.numbers.aggregate.answers[prompt["prompt_id"]]
            row: Row = {**response, "suite": self.suite.name, "category": prompt["category"]}
            row["prompt"] = prompt["attempts"][response["attempt"]]
            if case.plain is not None or case.source.get("behavior"):
                row["behavior"] = case.request
            row |= turns_of(prompt)
            if prompt.get("sample", 1) > 1:
                row["sample"] = prompt["sample"]
            row |= {"outcome": answer.outcome, "cluster": answer.cluster}
            row |= {"judge": self.suite.definition["judges"][0], "judges": verdict["judges"]}
            rows.append(row)
        return rows


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on some suites, by name. ``provenance`` is what the results were made of,
    ``origins`` how each answer was made and ``certificates`` what speaks for it, by request, where
    that is known."""

    model: str
    suites: Mapping[str, SuiteResult]
    provenance: Row
    origins: Mapping[str, AnswerOrigin]
    certificates: Mapping[str, Certificate]

    @property
    def rates(self) -> list[Rate]:
        """The rates of all suites."""
        return [rate for suite in self.suites.values() for rate in suite.numbers.rates]

    def results(self) -> Row:
        """Everything but outcomes and texts, as `refract run` writes it."""
        metrics = {
            name: suite_metrics(result.numbers.rates) for name, result in self.suites.items()
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "metrics": metrics,
            "tables": json_rows(self.rates),
            "provenance": self.provenance,
        }

    def outcomes(self) -> list[Row]:
        """One line for each prompt, without its text."""
        return [
            line
            for name, suite in self.suites.items()
            for line in outcome_lines(name, suite.prompts, suite.numbers.aggregate)
        ]

    def rows(self) -> list[Row]:
        """Each answer with its prompt, outcome and verdicts."""
        return [row for suite in self.suites.values() for row in suite.rows()]

    def made(self) -> Row:
        """Which runs made the answers and what speaks for them, as far as it is known."""
        return made_rows(self.rows(), self.origins, self.certificates)


def nothing_to_judge(answers: Sequence[Row]) -> str:
    """What is said where no answer is in a rate; else nothing."""
    counts = Counter(row["outcome"] for row in answers)
    if not counts or counts.keys() - {*EXCLUDED}:
        return ""
    total = len(answers)
    errors = [
        f"{row['error']['type']}: {row['error']['message']}" for row in answers if row["error"]
    ]
    verdicts = [row["judges"].get(row["judge"]) or {} for row in answers]
    errors += [verdict["error"] for verdict in verdicts if verdict.get("error")]
    first = f"; the first: {errors[0]}" if errors else ""
    if counts["error"] == total:
        return f"all {total} answers are errors{first}"
    listed = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"none of {total} answers could be judged ({listed}){first}"


def read_suites(names: Sequence[str], project: Project, samples: int | None = None) -> list[Suite]:
    """Suites by their names in params.yaml or by their files, for their clean prompts; ``samples``
    overrides the suites' own. Raises :class:`UsageError` for one that is neither."""
    suites = []
    for argument in names:
        name, definition = find_suite(argument, project)
        settings = {key: definition[key] for key in KEPT_SETTINGS if key in definition}
        if samples is not None:
            settings["samples"] = samples
        path = Path(definition["file"])
        suites.append(
            Suite(name, load_suite(path), settings, argument=argument, sha256=sha256_file(path))
        )
    return suites


@processes_stay()
def evaluate(
    suites: Sequence[Suite],
    model: Model,
    judges: Mapping[str, Definition],
    store: ResponseStore,
    *,
    name: str,
    definition: Definition | None = None,
    seed: int = 0,
    sample: int | None = None,
    settings: DecisionSettings = DEFAULTS,
    null_answers: NullAnswerSettings = NULL_ANSWERS,
    folders: Iterable[Path] = (),
) -> Evaluation:
    """Has a model answer the prompts of some suites, has judges judge the answers, and counts.

    ``judges`` are definitions by the names that the suites use. ``name`` is the model's, for the
    store, for progress and for the results; ``definition`` is its own, for the provenance.
    ``sample`` draws that many rows of each suite, of each category its share, by ``seed``.
    ``settings`` say the confidence of intervals and what they allow for, as ``decisions`` in
    params.yaml does, ``null_answers`` how many of these are judged; response rows in ``folders``
    are known answers. Raises :class:`refract.core.errors.RefractError`; wrong definitions of judges
    before the model costs anything."""
    definition = definition or {}
    judges = with_calls_judged(judges, (row for suite in suites for row in suite.rows))
    opened = open_judges(judges)
    defined = {name: versioned(judges[name], judge) for name, judge in opened.items()}
    ready: dict[str, Suite] = {}
    for suite in suites:
        if suite.name in ready:
            raise UsageError(f"two suites are called {suite.name!r}")
        ready[suite.name] = _checked(with_prompts(suite, list(judges), sample, seed=seed), opened)
    of_suite = {name: suite.definition for name, suite in ready.items()}
    store.before_asking = [lambda: check_keys(judges)]
    answers = answer_model(
        name,
        definition,
        {suite.name: suite.prompts for suite in ready.values()},
        store=store,
        seed=seed,
        model=model,
        folders=list(folders),
        samples={n: wanted["samples"] for n, wanted in of_suite.items() if wanted.get("samples")},
    )
    how: dict[str, Any] = {"settings": settings, "null_answers": null_answers}
    results: dict[str, SuiteResult] = {}
    suite_facts: dict[str, Row] = {}
    for suite in ready.values():
        draw = Draw(asked=sample, total=len(suite.rows), seed=seed)
        result = judge_and_count(
            suite, answers, opened, definitions=defined, model=name, draw=draw, **how
        )
        results[suite.name] = result
        suite_facts[suite.name] = _facts(result, judges, draw)
    facts = provenance(
        answers.description,
        defined,
        suite_facts,
        responses=[row for result in results.values() for row in result.responses],
        settings=settings,
        null_answers={**null_answers.model_dump(), "seed": seed},
    )
    facts["run"] = {
        "code_sha256": code_sha256(),
        "libraries": library_versions(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "refract": importlib.metadata.version("refract-eval"),
        "sample": sample,
        "seed": seed,
    }
    return Evaluation(
        name, results, facts, origins=answers.origins, certificates=answers.certificates
    )


def _checked(suite: Suite, judges: Mapping[str, Judge]) -> Suite:
    """The suite, whose judges' verdicts and whose thresholds have numbers."""
    own = {name: judges[name] for name in suite.definition["judges"]}
    check_counted(suite.name, own, perturbed=bool(suite.definition.get("perturbations")))
    check_names(suite.name, suite.definition, {name: judge.FAMILY for name, judge in own.items()})
    return suite


def _facts(result: SuiteResult, judges: Mapping[str, Definition], draw: Draw) -> Row:
    """What the results of a suite were made of."""
    suite = result.suite
    hashes = {"sha256": suite.sha256}
    for kind, rows in (
        ("prompts", suite.prompts),
        ("responses", result.responses),
        ("verdicts", result.verdicts),
        ("null_verdicts", result.null_verdicts),
    ):
        hashes[f"{kind}_sha256"] = rows_sha256(rows)
    # In the form of params.yaml.
    inputs = {**suite.definition, "perturbations": suite.definition.get("perturbations") or {}}
    inputs["seed"] = None if draw.asked is None else draw.seed
    own = {name: judges[name] for name in suite.definition["judges"]}
    unread = reading_warnings(suite.rows, own)
    return suite_provenance(result.numbers, hashes, inputs, unread=unread, argument=suite.argument)


@processes_stay()
def judge_and_count(
    suite: Suite,
    answers: ModelRun,
    judges: Mapping[str, Judge],
    definitions: Mapping[str, Definition],
    model: str,
    *,
    draw: Draw,
    settings: DecisionSettings,
    null_answers: NullAnswerSettings,
) -> SuiteResult:
    """The verdicts of a suite's judges on a model's answers, and the suite's numbers."""
    judges = {name: judges[name] for name in suite.definition["judges"]}
    responses = answers.responses[suite.name]
    prompts = answered_prompts(suite.prompts, responses)
    answered = _answered(suite, prompts, responses)
    verdicts = judge_suite(prompts, responses, answered.sources, judges=judges)
    nulls = null_verdicts(suite.name, answered, judges, settings=null_answers, seed=draw.seed)
    numbers = count_suite(
        SuiteAnswers(
            suite=suite.name,
            definition=suite.definition,
            sources=counted_rows(suite.definition, suite.rows),
            prompts=prompts,
            responses=answered.responses,
            verdicts={row["prompt_id"]: row["judges"] for row in verdicts},
            draw=replace(draw, samples=samples_in(prompts)),
            texts=answered.prompts,
            null_verdicts=nulls,
        ),
        model,
        definitions,
        families={name: judge.FAMILY for name, judge in judges.items()},
        settings=settings,
        strict=False,  # a sample may have no row, and other judges no verdict, that a threshold is for
    )
    count = answers.counts[suite.name]
    return SuiteResult(
        suite,
        prompts,
        responses,
        verdicts=verdicts,
        null_verdicts=nulls,
        numbers=numbers,
        count=count,
    )


def _answered(
    suite: Suite, prompts: Sequence[PromptRow], responses: Sequence[ResponseRow]
) -> AnsweredSuite:
    return AnsweredSuite(
        {row["prompt_id"]: row for row in prompts},
        {row["prompt_id"]: row for row in responses},
        {row["id"]: row for row in suite.rows},
    )


def with_prompts(suite: Suite, judges: list[str], sample: int | None, seed: int) -> Suite:
    """A suite with its judges, and with prompts, of a sample of its rows where one is asked for."""
    prompts = suite.prompts
    if not prompts:
        rows = list(suite.rows)
        drawn = sample_rows(rows, sample, seed=seed, suite=suite.name, stratified=True)
        if sample is not None and sample > len(drawn):
            say(
                f"{suite.name}: all {len(drawn)} prompts are taken; a sample of {sample} was asked for",
                file=sys.stderr,
            )
        template = suite.definition.get("template")
        check_template(template, rows, suite.name)
        tools = suite.definition.get("tools")
        prompts = list(prompt_rows(drawn, suite.name, seed, template=template, tools=tools))
    return replace(suite, definition={"judges": judges, **suite.definition}, prompts=prompts)


def rows_sha256(rows: Iterable[Mapping[str, Any]]) -> str:
    """The hash of some rows as a file of them has it."""
    return hashlib.sha256(b"".join(map(dump_row, rows))).hexdigest()
