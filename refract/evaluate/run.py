"""One model on some suites, without DVC: numbers, outcomes and rows, with what they were made of."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import code_sha256, library_versions
from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_file
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate.pipeline import Measured, Suite, measure
from refract.judges import open_judge
from refract.models import identity_of, samples_of
from refract.models.answering import Count
from refract.models.processes import generator
from refract.models.protocol import Model, Origin
from refract.models.store import ResponseStore
from refract.project import Project, find_suite
from refract.rates import outcome_lines
from refract.rates.counting import CONFIDENCE
from refract.rates.rates import suite_metrics
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import load_suite, sample_rows, samples_label, suite_label

# What a suite's definition says of its rates.
PASSED_ON = ("fields", "cut_off", "cluster", "protocol", "protocol_judge")


class Judge(NamedTuple):
    """A judge by its name, with its definition."""

    name: str
    definition: Mapping[str, Any]


class Source(NamedTuple):
    """A suite as it was named: its rows, their hash, its definition, and the name it was given by;
    ``judges``: its own, where it has any."""

    name: str
    argument: str
    rows: list[Row]
    sha256: str
    definition: Mapping[str, Any]
    judges: tuple[Judge, ...] = ()


class Run(NamedTuple):
    """``results`` as `refract run` writes them; outcomes without texts, and rows with them; how the
    answers to each suite came about, and how each answer was made, by request, where it is known."""

    results: Row
    outcomes: list[Row]
    rows: list[Row]
    counts: dict[str, Count]
    origins: dict[str, Origin]


def read_sources(
    names: Sequence[str],
    project: Project,
    cut_off: str | None = None,
    samples: int | None = None,
) -> list[Source]:
    """Suites by their names in params.yaml or by their files; ``cut_off`` and ``samples`` override
    the suites' own.

    Raises :class:`UsageError` for one that is neither, or that is named twice.
    """
    found: dict[str, Source] = {}
    for argument in names:
        name, definition = find_suite(argument, project)
        if name in found:
            raise UsageError(f"two suites are called {name!r}")
        if cut_off is not None:
            definition = {**definition, "cut_off": cut_off}
        if samples is not None:
            definition = {**definition, "samples": samples}
        path = Path(definition["file"])
        found[name] = Source(name, argument, load_suite(path), sha256_file(path), definition)
    return list(found.values())


def run_model(
    model: Model,
    definition: Mapping[str, Any],
    sources: Sequence[Source],
    judge: Judge | None,
    store: ResponseStore,
    *,
    name: str,
    seed: int,
    sample: int | None,
    confidence: float = CONFIDENCE,
    folders: Iterable[Path] = (),
) -> Run:
    """Measures a model on the clean prompts of some suites, or on a seeded sample of each.

    ``definition`` is the model's, for the provenance; ``judge`` is for suites without judges of their
    own; ``confidence`` is that of the intervals; response rows in ``folders`` are known answers.
    Raises :class:`refract.core.errors.RefractError`.
    """
    suites: dict[str, Suite] = {}
    labels: dict[str, str] = {}
    samples: dict[str, int] = {}
    judges: dict[str, Mapping[str, Any]] = {}
    for source in sources:
        own = source.judges or ((judge,) if judge else ())
        judges |= {one.name: one.definition for one in own}
        drawn = sample_rows(source.rows, sample, seed=seed, suite=source.name)
        if sample is not None and sample > len(drawn):
            say(
                f"{source.name}: all {len(drawn)} prompts are taken; a sample of {sample} was asked for",
                file=sys.stderr,
            )
        prompts = list(
            prompt_rows(drawn, source.name, seed, template=source.definition.get("template"))
        )
        suites[source.name] = Suite(
            source.rows,
            prompts,
            {
                "judges": [one.name for one in own],
                **{key: source.definition.get(key) for key in PASSED_ON},
            },
        )
        samples[source.name] = samples_of(model, definition, source.definition.get("samples"))
        labels[source.name] = samples_label(
            suite_label(source.name, sample, len(source.rows), seed), samples[source.name]
        )
    versions = {one: open_judge(one, held).version for one, held in judges.items()}
    measured = measure(
        suites,
        model,
        judges,
        store,
        seed=seed,
        name=name,
        generator=generator(model, definition),
        samples=samples,
        confidence=confidence,
        folders=folders,
    )
    results: Row = {
        "schema_version": "1",
        "model": name,
        "metrics": {labels[s]: suite_metrics(found.rates.table) for s, found in measured.items()},
        "tables": [
            {"suite": labels[s], **row}
            for s, found in measured.items()
            for row in found.rates.table
        ],
        "provenance": {
            "model": {
                "definition": dict(definition),
                "identity": identity_of(model),
                "seed": seed if model.samples else None,
                **model.description(),
            },
            "judges": {one: {**held, "version": versions[one]} for one, held in judges.items()},
            "suites": {
                labels[source.name]: _suite_provenance(
                    source, suites[source.name], samples[source.name]
                )
                for source in sources
            },
            "run": {
                "code_sha256": code_sha256(),
                "confidence": confidence,
                "libraries": library_versions(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "refract": importlib.metadata.version("refract-eval"),
                "sample": sample,
                "seed": seed,
            },
        },
    }
    return Run(
        results,
        [
            line
            for suite, found in measured.items()
            for line in outcome_lines(suite, found.prompts, found.rates)
        ],
        [
            row
            for suite, found in measured.items()
            for row in _full_rows(suite, found, suites[suite].definition["judges"][-1])
        ],
        {suite: found.counts for suite, found in measured.items()},
        store.origins(
            row["request_sha256"] for found in measured.values() for row in found.responses
        ),
    )


def _suite_provenance(source: Source, suite: Suite, samples: int) -> Row:
    found = {
        "suite": source.name,
        "argument": source.argument,
        "sha256": source.sha256,
        "prompts_sha256": hashlib.sha256(b"".join(map(dump_row, suite.prompts))).hexdigest(),
        "judges": suite.definition["judges"],
        "cut_off": source.definition.get("cut_off") or "judged",
        "cluster": source.definition.get("cluster"),
    }
    return found if samples == 1 else {**found, "samples": samples}


def _full_rows(suite: str, found: Measured, judge: str) -> list[Row]:
    """Each answer with its prompt, outcome and one judge's verdict."""
    return [
        {
            **response,
            "suite": suite,
            "category": prompt["category"],
            "prompt": prompt["attempts"][response["attempt"]],
            "outcome": found.rates.answers[prompt["prompt_id"]].outcome,
            "cluster": found.rates.answers[prompt["prompt_id"]].cluster,
            **verdict["judges"][judge],
            "error": response["error"] or verdict["judges"][judge]["error"],
        }
        for prompt, response, verdict in zip(
            found.prompts, found.responses, found.verdicts, strict=True
        )
    ]
