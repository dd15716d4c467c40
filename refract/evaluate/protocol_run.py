"""A model by a published protocol: prompts, generation, judges and numbers as it fixes them, and a list
of what this run has otherwise."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import sha256_json
from refract.core.showing import say
from refract.core.types import Row
from refract.core.vocabulary import FAMILIES
from refract.evaluate.publisher import Prompts, protocol_prompts
from refract.evaluate.run import Judge, Run, Source, run_model
from refract.judges import open_judge
from refract.judges.published.judge import Published
from refract.models import generation_settings, open_model, samples_of, with_fixed
from refract.models.protocol import Model
from refract.models.store import ResponseStore
from refract.rates.counting import CONFIDENCE
from refract.rates.protocols import average_row
from refract.suites.protocols.catalogue import Chosen, Protocol, parts_of
from refract.suites.protocols.deviations import (
    generation_deviations,
    judging_deviations,
    unknown_notes,
)

RULES = Judge("rules", {"kind": "rules"})


class Asked(NamedTuple):
    """What the user asked for besides the protocol: settings of the model, files by part, a judge,
    how much of each suite, and how it is counted."""

    settings: Mapping[str, Any]
    files: Mapping[str, Path]
    judge: Judge | None = None
    seed: int = 0
    sample: int | None = None
    samples: int | None = None
    cut_off: str | None = None
    confidence: float = CONFIDENCE


class _Ready(NamedTuple):
    """One part with all that its run needs."""

    chosen: Chosen
    prompts: Prompts
    judge: Judge
    model: Model
    definition: Mapping[str, Any]
    samples: int


def run_protocol(
    name: str,
    protocol: Protocol,
    model: str,
    definition: Mapping[str, Any],
    asked: Asked,
    store: ResponseStore,
) -> Run:
    """Measures a model by a protocol. ``definition`` is the model's without what was asked for.

    Everything that the run needs is looked for before the first answer is generated. Raises
    :class:`refract.core.errors.RefractError`.
    """
    parts = parts_of(name, protocol)
    strange = sorted(set(asked.files) - set(protocol.parts))
    if strange:
        raise UsageError(
            f"--suite: {name} has no part {strange[0]!r}; it has {', '.join(protocol.parts)}"
        )
    ready = [_prepared(chosen, model, definition, asked) for chosen in parts]
    for part in {part.judge.name: part for part in ready}.values():
        _check_judge(part)
    groups: dict[str, list[_Ready]] = {}
    for part in ready:
        groups.setdefault(sha256_json(part.definition), []).append(part)
    runs = [
        run_model(
            group[0].model,
            group[0].definition,
            [_source(part, asked) for part in group],
            None,
            store,
            name=model,
            seed=asked.seed,
            sample=asked.sample,
            confidence=asked.confidence,
        )
        for group in groups.values()
    ]
    joined = _joined(runs, ready, name, protocol, asked)
    joined.results["protocol"]["asked"] = _asked(definition, asked)  # so that it can be run again
    return joined


def _asked(definition: Mapping[str, Any], asked: Asked) -> Row:
    judge = asked.judge
    return {
        "model": dict(definition),
        "settings": dict(asked.settings),
        "files": {part: str(path) for part, path in asked.files.items()},
        "judge": judge and {"name": judge.name, "definition": dict(judge.definition)},
        "samples": asked.samples,
        "cut_off": asked.cut_off,
    }


def _prepared(chosen: Chosen, model: str, definition: Mapping[str, Any], asked: Asked) -> _Ready:
    wanted = with_fixed(model, definition, chosen.fixed()) | dict(asked.settings)
    wanted.pop("samples", None)
    opened = open_model(model, wanted)
    judge = asked.judge
    if judge is None:
        own = chosen.judge()
        if own is None:
            raise UsageError(
                f"{chosen.label}: its judge is not defined here ({chosen.protocol.sources['judge']}); "
                "name one with --judge, which is listed as a deviation"
            )
        judge = Judge(str(chosen.own.judge), own)
    samples = asked.samples or chosen.generation.samples
    return _Ready(
        chosen,
        protocol_prompts(chosen, asked.files.get(chosen.part)),
        judge,
        opened,
        wanted,
        samples_of(opened, {}, samples),
    )


def _check_judge(part: _Ready) -> None:
    """Raises :class:`RefractError` where the judge could not be used once answers are there."""
    judge = open_judge(part.judge.name, part.judge.definition)
    if not isinstance(judge, Published):
        return
    named = judge.settings.judge
    name = named if isinstance(named, str) else part.judge.name
    weights = ""
    if judge.definition["adapter"] == "hf":
        weights = f", `hf download {judge.definition['model_id']}` its weights"
    try:
        warning = judge.check()
    except RefractError as error:
        raise RefractError(
            f"{part.chosen.label}: the judge {part.judge.name} cannot be used here, and nothing was "
            f"generated: {error}. It needs {judge.entry.needs}. `refract judges fetch {name}` gets "
            f"its text{weights}; --judge names another judge, such as --judge rules, which is listed "
            "as a deviation"
        ) from None
    if warning:
        say(f"judge {part.judge.name}: {warning}", file=sys.stderr)


def _source(part: _Ready, asked: Asked) -> Source:
    judges: tuple[Judge, ...] = (part.judge,)
    family = open_judge(part.judge.name, part.judge.definition).FAMILY
    if not FAMILIES[family].tells_refusal:
        judges = (RULES, part.judge)  # the outcomes of a suite are about refusal
    return Source(
        part.chosen.part,
        str(part.prompts.path),
        part.prompts.rows,
        part.prompts.sha256,
        {
            "protocol": part.chosen.label,
            "protocol_judge": part.judge.name,
            "cut_off": asked.cut_off,
            "samples": part.samples,
        },
        judges,
    )


def _joined(
    runs: Sequence[Run], ready: Sequence[_Ready], name: str, protocol: Protocol, asked: Asked
) -> Run:
    """One run of several, with what the protocol says of it."""
    results = runs[0].results
    results["metrics"] = {key: held for run in runs for key, held in run.results["metrics"].items()}
    results["tables"] = [row for run in runs for row in run.results["tables"]]
    for run in runs[1:]:
        for key in ("judges", "suites"):
            results["provenance"][key] |= run.results["provenance"][key]
    labels = {held["suite"]: label for label, held in results["provenance"]["suites"].items()}
    if protocol.average is not None:
        rows = {row["suite"]: row for row in results["tables"] if _headline(row, protocol.average)}
        average = average_row(
            protocol.average, [rows[labels[part.chosen.part]] for part in ready], asked.confidence
        )
        results["tables"].append({"suite": name, **average})
        results["metrics"][name] = {average["measure"]: average["rate"]}
    results["protocol"] = {
        "name": f"{name}@{protocol.version}",
        "of": protocol.of,
        "definition_sha256": sha256_json(protocol.model_dump(mode="json")),
        "limits": list(protocol.limits),
        "parts": {labels[part.chosen.part]: _said(part, asked) for part in ready},
    }
    return Run(
        results,
        [line for run in runs for line in run.outcomes],
        [row for run in runs for row in run.rows],
        {suite: count for run in runs for suite, count in run.counts.items()},
        {key: origin for run in runs for key, origin in run.origins.items()},
    )


def _headline(row: Row, measure: str) -> bool:
    return bool(row["measure"] == measure and not row["field"])


def _said(part: _Ready, asked: Asked) -> Row:
    """How one part was run, and what is not as its protocol has it."""
    chosen = part.chosen
    generation = generation_settings(chosen.part, part.definition)
    adapter = str(part.definition["adapter"])
    deviations = generation_deviations(chosen, generation, adapter, part.samples)
    deviations += judging_deviations(chosen, part.judge.name, part.judge.definition, asked.cut_off)
    deviations += part.prompts.deviations
    if asked.sample is not None and asked.sample < len(part.prompts.rows):
        deviations.append(f"{asked.sample} of {len(part.prompts.rows)} prompts (seed {asked.seed})")
    return {
        "protocol": chosen.label,
        "generation": {**generation, "samples": part.samples},
        "judge": part.judge.name,
        "deviations": deviations,
        "unknown": unknown_notes(chosen, generation),
    }
