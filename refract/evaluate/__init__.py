"""From suites and a model to results: the one way for `refract run`, protocols, checks and Python.

DVC's stages take the same steps (prompts, answers, verdicts, rates) one by one, and call the functions
that :func:`evaluate` is composed of."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from refract.agreement.unseen_models import known_errors
from refract.core.environment import code_sha256, library_versions
from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_file
from refract.core.showing import say
from refract.core.types import PromptRow, ResponseRow, Row, VerdictRow, answered_prompts, turns_of
from refract.judges import check_counted, judge_suite, open_judges, with_calls_judged
from refract.judges.cases import Judge
from refract.models.answering import Count, answer_model
from refract.models.origins import made_rows
from refract.models.protocol import AnswerOrigin, Certificate, Model
from refract.models.store import ResponseStore
from refract.project import Project, find_suite
from refract.rates import Aggregate, aggregate_suite, outcome_lines
from refract.rates.clean_prompts import suite_metrics
from refract.rates.counting import CONFIDENCE
from refract.rates.rate import Rate, rounded
from refract.rates.robustness import failing_rows
from refract.results.sources import suite_provenance
from refract.results.table_rows import json_rows
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import load_suite, sample_rows, samples_label, suite_label

Definition = Mapping[str, Any]
# What counts of a suite of params.yaml where its clean prompts alone are evaluated, each as often as
# the caller says.
OF_CLEAN_PROMPTS = (
    *("fields", "cut_off", "cluster", "source_language"),
    *("protocol", "samples", "template", "tools"),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite to evaluate.

    ``definition`` is as in params.yaml; without ``judges`` of its own all judges of the evaluation are
    its judges. ``argument`` is what the user named it by, ``sha256`` that of its file. ``prompts`` are
    made of the rows unless given. ``generation`` are settings of the model that a protocol fixes."""

    name: str
    rows: Sequence[Row]
    definition: Definition
    argument: str = ""
    sha256: str = ""
    prompts: Sequence[PromptRow] = ()
    generation: Definition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What came of one suite, which tables call ``label``: its prompts with their samples, responses
    and verdicts in the same order, rates, and how many answers were reused and made."""

    suite: Suite
    label: str
    prompts: Sequence[PromptRow]
    responses: Sequence[ResponseRow]
    verdicts: Sequence[VerdictRow]
    rates: Aggregate
    count: Count

    def rows(self) -> list[Row]:
        """Each answer with its prompt, its outcome and the verdict of the last judge."""
        rows: list[Row] = []
        for prompt, response, verdict in zip(
            self.prompts, self.responses, self.verdicts, strict=True
        ):
            answer = self.rates.answers[prompt["prompt_id"]]
            said = verdict["judges"]
            last = said.get("calls") or [*said.values()][-1]
            row: Row = {**response, "suite": self.suite.name, "category": prompt["category"]}
            row["prompt"] = prompt["attempts"][response["attempt"]]
            row |= turns_of(prompt)
            row |= {"outcome": answer.outcome, "cluster": answer.cluster, **last}
            rows.append({**row, "error": response["error"] or last["error"]})
        return rows

    def failures(self) -> Iterable[Row]:
        """The answers that perturbations changed, for reading."""
        prompts = {row["prompt_id"]: row for row in self.prompts}
        return failing_rows(
            self.rates.compared, prompts, {row["prompt_id"]: row for row in self.responses}
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on some suites, by name. ``provenance`` is what the results were made of, ``origins``
    how each answer was made and ``certificates`` what speaks for it, by request, where that is known.
    ``protocol`` is what a published protocol says of the evaluation, ``averages`` its rates over all
    suites."""

    model: str
    suites: Mapping[str, SuiteResult]
    provenance: Row
    origins: Mapping[str, AnswerOrigin]
    certificates: Mapping[str, Certificate]
    protocol: Row | None = None
    averages: Sequence[Rate] = ()

    @property
    def rates(self) -> list[Rate]:
        """The rates of all suites, and their averages."""
        rates = [
            replace(rate, suite=suite.label)
            for suite in self.suites.values()
            for rate in suite.rates.table
        ]
        return [*rates, *self.averages]

    def results(self) -> Row:
        """Everything but outcomes and texts, as `refract run` writes it."""
        results: Row = {
            "schema_version": "1",
            "model": self.model,
            "metrics": {s.label: suite_metrics(s.rates.table) for s in self.suites.values()},
            "tables": json_rows(self.rates),
            "provenance": self.provenance,
        }
        for rate in self.averages:
            value = None if rate.value is None else rounded(rate.value)
            results["metrics"][rate.suite] = {rate.measure: value}
        return results if self.protocol is None else {**results, "protocol": self.protocol}

    def outcomes(self) -> list[Row]:
        """One line for each prompt, without its text."""
        return [
            line
            for name, suite in self.suites.items()
            for line in outcome_lines(name, suite.prompts, suite.rates)
        ]

    def rows(self) -> list[Row]:
        """Each answer with its prompt, outcome and verdict."""
        return [row for suite in self.suites.values() for row in suite.rows()]

    def made(self) -> Row:
        """Which runs made the answers and what speaks for them, as far as it is known."""
        return made_rows(self.rows(), self.origins, self.certificates)


def read_suites(
    names: Sequence[str], project: Project, cut_off: str | None = None, samples: int | None = None
) -> list[Suite]:
    """Suites by their names in params.yaml or by their files, for their clean prompts; ``cut_off`` and
    ``samples`` override the suites' own. Raises :class:`UsageError` for one that is neither."""
    asked = {"cut_off": cut_off, "samples": samples}
    suites = []
    for argument in names:
        name, definition = find_suite(argument, project)
        settings = {key: definition[key] for key in OF_CLEAN_PROMPTS if key in definition}
        settings |= {key: value for key, value in asked.items() if value is not None}
        path = Path(definition["file"])
        suites.append(Suite(name, load_suite(path), settings, argument, sha256_file(path)))
    return suites


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
    confidence: float = CONFIDENCE,
    folders: Iterable[Path] = (),
) -> Evaluation:
    """Has a model answer the prompts of some suites, has judges judge the answers, and counts.

    ``judges`` are definitions by the names that the suites use. ``name`` is the model's, for the store,
    for progress and for the results; ``definition`` is its own, for the provenance. ``sample`` draws
    that many rows of each suite, by ``seed``. ``confidence`` is that of the intervals; response rows in
    ``folders`` are known answers. Raises :class:`refract.core.errors.RefractError`; wrong definitions of
    judges before the model costs anything."""
    definition = definition or {}
    judges = with_calls_judged(judges, (row for suite in suites for row in suite.rows))
    opened = open_judges(judges)
    ready = {suite.name: _with_prompts(suite, list(judges), sample, seed) for suite in suites}
    if len(ready) < len(suites):
        names = [suite.name for suite in suites]
        raise UsageError(f"two suites are called {max(names, key=names.count)!r}")
    used: dict[str, dict[str, Judge]] = {}
    for suite in ready.values():
        used[suite.name] = {judge: opened[judge] for judge in suite.definition["judges"]}
        perturbed = bool(suite.definition.get("perturbations"))
        check_counted(suite.name, used[suite.name], perturbed=perturbed)
    made = answer_model(
        name,
        definition,
        {suite.name: suite.prompts for suite in ready.values()},
        store,
        seed,
        model=model,
        folders=list(folders),
        fixed={suite.name: suite.generation for suite in ready.values() if suite.generation},
        samples={
            suite.name: suite.definition["samples"]
            for suite in ready.values()
            if suite.definition.get("samples")
        },
    )
    results: dict[str, SuiteResult] = {}
    said = {judge: {**judges[judge], "version": opened[judge].version} for judge in opened}
    of_suites: dict[str, Row] = {}
    for suite in ready.values():
        answers = made.responses[suite.name]
        prompts = answered_prompts(suite.prompts, answers)
        samples = len(prompts) // max(1, len(suite.prompts))
        sources = {row["id"]: row for row in suite.rows}
        verdicts = judge_suite(prompts, answers, sources, used[suite.name])
        families = {name: judge.FAMILY for name, judge in used[suite.name].items()}
        errors = known_errors({name: said[name] for name in used[suite.name]}, suite.rows)
        of = (suite.definition, judges, families, confidence, errors)
        rates = aggregate_suite(suite.rows, prompts, answers, verdicts, *of)
        label = samples_label(suite_label(suite.name, sample, len(suite.rows), seed), samples)
        count = made.counts[suite.name]
        results[suite.name] = SuiteResult(suite, label, prompts, answers, verdicts, rates, count)
        of_suites[label] = suite_provenance(
            suite.definition,
            samples,
            errors.get(suite.definition["judges"][0]),
            suite=suite.name,
            argument=suite.argument,
            sha256=suite.sha256,
            prompts_sha256=rows_sha256(suite.prompts),
        )
    provenance = {
        "model": made.description,
        "judges": said,
        "suites": of_suites,
        "run": {
            "code_sha256": code_sha256(),
            "libraries": library_versions(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "refract": importlib.metadata.version("refract-eval"),
            "confidence": confidence,
            "sample": sample,
            "seed": seed,
        },
    }
    return Evaluation(name, results, provenance, made.origins, made.certificates)


def _with_prompts(suite: Suite, judges: list[str], sample: int | None, seed: int) -> Suite:
    """A suite with its judges, and with prompts, of a sample of its rows where one is asked for."""
    prompts = suite.prompts
    if not prompts:
        drawn = sample_rows(list(suite.rows), sample, seed=seed, suite=suite.name)
        if sample is not None and sample > len(drawn):
            say(
                f"{suite.name}: all {len(drawn)} prompts are taken; a sample of {sample} was asked for",
                file=sys.stderr,
            )
        template = suite.definition.get("template")
        tools = suite.definition.get("tools")
        prompts = list(prompt_rows(drawn, suite.name, seed, template=template, tools=tools))
    return replace(suite, definition={"judges": judges, **suite.definition}, prompts=prompts)


def rows_sha256(rows: Iterable[Mapping[str, Any]]) -> str:
    """The hash of some rows as a file of them has it."""
    return hashlib.sha256(b"".join(map(dump_row, rows))).hexdigest()
