"""A model by a published protocol: prompts, generation, judges and numbers as it
fixes them, and the deviations of this run."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import data_folder
from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import sha256_file, sha256_json, write_bytes
from refract.core.params import DecisionSettings
from refract.core.showing import say
from refract.core.types import Row
from refract.core.vocabulary import FAMILIES
from refract.evaluate import Definition, Evaluation, Suite, evaluate
from refract.judges import open_judge
from refract.models import generation_settings, open_model, samples_of, with_fixed
from refract.rates.comparison import DEFAULTS
from refract.rates.key import Key
from refract.suites.rows import SuiteError, check_suite
from refract_published.importing import import_file
from refract_published.protocols.counting import macro_rate, matches, protocol_measure
from refract_published.protocols.definitions import Chosen
from refract_published.protocols.deviations import (
    generation_deviations,
    judging_deviations,
    suite_deviations,
    unknown_notes,
)
from refract_published.texts import read_url

MOST_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asked for besides the protocol: a ``model`` without what was
    asked of it, ``changed`` settings of its adapter, files as ``--suite`` names them, a
    judge with its name, and how it is counted."""

    model: Definition
    changed: Definition = field(default_factory=dict)
    files: Sequence[str] = ()
    judge: tuple[str, Definition] | None = None
    samples: int | None = None


class _Part(NamedTuple):
    """One part of a protocol with all that its run needs, and what its results say of it."""

    chosen: Chosen
    suite: Suite
    judges: Mapping[str, Definition]
    notes: Row


def run_protocol(
    parts: Sequence[Chosen],
    model: str,
    asked: Mapping[str, Any],
    *,
    seed: int = 0,
    sample: int | None = None,
    settings: DecisionSettings = DEFAULTS,
    **options: Any,
) -> Evaluation:
    """Evaluates a model by the parts of a protocol; ``asked`` are fields of ``Asked``, further
    ``options`` those of :func:`refract.evaluate.evaluate`.

    Everything that the run needs is looked for before the first answer is generated.
    Raises :class:`refract.core.errors.RefractError`."""
    name, _, protocol = parts[0]
    wanted = Asked(**asked)
    files = _files_of_parts(name, list(protocol.parts), wanted.files)
    prepared = [_prepared(x, model, wanted, files.get(x.part), seed, sample) for x in parts]
    judges: dict[str, Definition] = {}
    for part in prepared:
        if part.notes["judge"] not in judges:
            _check_judge(part)
        judges |= part.judges
    definition = {**wanted.model, **wanted.changed}
    definition.pop("samples", None)
    evaluation = evaluate(
        [part.suite for part in prepared],
        open_model(model, definition),
        judges,
        name=model,
        definition=definition,
        seed=seed,
        sample=sample,
        settings=settings,
        **options,
    )
    averages = []
    if protocol.average is not None:
        rates = []
        for rate in evaluation.rates:
            if rate.key.is_headline and rate.name == protocol.average:
                rates.append(rate)
        key = Key(protocol_measure(f"average_{protocol.average}"), suite=name, model=model)
        averages = [macro_rate(key, rates, settings.confidence)]
    notes = {
        "name": f"{name}@{protocol.version}",
        "of": protocol.of,
        "definition_sha256": sha256_json(protocol.model_dump(mode="json")),
        "limits": list(protocol.limits),
        "parts": {part.suite.name: part.notes for part in prepared},
    }
    return dataclasses.replace(evaluation, protocol=notes, averages=averages)


def deviation_lines(notes: Row) -> Iterator[str]:
    """What a run has otherwise than its protocol, and what is not known of it, in lines."""
    yield f"protocol {notes['name']}: {notes['of']}"
    for label, part in notes["parts"].items():
        deviations = part["deviations"]
        yield f"  {label}: judged by {part['judge']}; deviations: {len(deviations) or 'none'}"
        for phrase in deviations:
            yield f"    deviation: {phrase}"
        for phrase in part["unknown"]:
            yield f"    unknown: {phrase}"
    for limit in notes["limits"]:
        yield f"  limit: {limit}"


def _files_of_parts(name: str, parts: list[str], arguments: Sequence[str]) -> dict[str, str]:
    """The files that ``--suite`` names, as FILE or PART=FILE, by part of a protocol."""
    files = {}
    for argument in arguments:
        part, _, file = argument.partition("=")
        if part not in parts or not file:
            if len(parts) > 1:
                raise UsageError(
                    f"--suite: {name} has several parts; name the part with the file, as "
                    f"{parts[0]}=FILE (got {argument!r}; it has {', '.join(parts)})"
                )
            part, file = parts[0], argument
        files[part] = file
    return files


def _prepared(
    chosen: Chosen, name: str, asked: Asked, file: str | None, seed: int, sample: int | None
) -> _Part:
    fixed = {key: value for key, value in chosen.fixed().items() if key not in asked.changed}
    definition = with_fixed(name, {**asked.model, **asked.changed, "samples": 1}, fixed)
    model = open_model(name, definition)
    judge, judging = asked.judge or (chosen.own.judge or "", chosen.judge())
    if judging is None:
        raise UsageError(
            f"{chosen.label}: its judge is not defined here ({chosen.protocol.sources['judge']}); "
            "name one with --judge, which is listed as a deviation"
        )
    judges = {judge: judging}
    if not FAMILIES[open_judge(judge, judging).FAMILY].tells_refusal:
        judges = {"rules": {"kind": "rules"}, **judges}  # the outcomes of a suite are about refusal
    times = asked.samples or chosen.generation.samples
    samples = samples_of(model, {}, times)
    counted = {"judges": list(judges), "samples": times}
    settings = {"protocol": chosen.label, "protocol_judge": judge, **counted}
    suite, of_suite = protocol_suite(chosen, file)
    generation = generation_settings(chosen.part, definition)
    deviations = generation_deviations(chosen, generation, model.adapter, samples=samples)
    deviations += [*judging_deviations(chosen, judge, judging), *of_suite]
    if sample is not None and sample < len(suite.rows):
        deviations.append(f"{sample} of {len(suite.rows)} prompts (seed {seed})")
    notes = {
        "protocol": chosen.label,
        "generation": {**generation, "samples": samples},
        "judge": judge,
        "deviations": deviations,
        "unknown": unknown_notes(chosen, generation),
    }
    suite = dataclasses.replace(suite, definition=settings, generation=fixed)
    return _Part(chosen, suite, judges, notes=notes)


def _check_judge(part: _Part) -> None:
    """Raises :class:`RefractError` where the judge could not be used once answers are there."""
    judge = part.notes["judge"]
    try:
        warning = open_judge(judge, part.judges[judge]).check()
    except RefractError as error:
        raise RefractError(
            f"{part.chosen.label}: the judge {judge} cannot be used here, and nothing was generated: "
            f"{error}; --judge names another, such as --judge rules, which is listed as a deviation"
        ) from None
    if warning:
        say(f"judge {judge}: {warning}", file=sys.stderr)


def protocol_suite(chosen: Chosen, given: str | Path | None) -> tuple[Suite, list[str]]:
    """The rows that belong to a part of a protocol, and what of them is not the publisher's.

    They are of the publisher's file, which comes from its address once unless one is ``given``, or
    of a suite that was made of it. Raises :class:`UsageError` where there is no file,
    :class:`SuiteError` for one that cannot be read."""
    wanted = chosen.own.suite
    path = _fetched(chosen) if given is None else Path(given)
    if not path.is_file():
        raise UsageError(f"--suite: no file {path}")
    digest = sha256_file(path)
    rows, problems = check_suite(path) if path.suffix == ".jsonl" else ([], [])
    deviations = []
    if rows and all(problem.harmless for problem in problems):
        deviations = suite_deviations(chosen, path, digest)
    else:
        options = {"columns": wanted.columns, "values": wanted.values, "category": wanted.category}
        rows = import_file(wanted.kind, path, suite=chosen.part, **options).rows
        if wanted.sha256 is None and given is not None:
            deviations = suite_deviations(chosen, path, digest)
        elif wanted.sha256 not in (None, digest):
            deviations.append(
                f"suite {path.name} (SHA-256 {digest[:16]}…) instead of the publisher's "
                f"({str(wanted.sha256)[:16]}…)"
            )
    rows = [row for row in rows if matches(row, wanted.where)]
    if not rows:
        where = "; ".join(f"{key}: {', '.join(values)}" for key, values in wanted.where.items())
        raise SuiteError(f"{path}: no row has what {chosen.label} asks for ({where})")
    return Suite(chosen.part, rows, {}, argument=str(path), sha256=digest), deviations


def _fetched(chosen: Chosen) -> Path:
    """The publisher's file from its address, checked and kept in the user's data folder."""
    wanted = chosen.own.suite
    option = "--suite FILE" if len(chosen.protocol.parts) == 1 else f"--suite {chosen.part}=FILE"
    if wanted.url is None:
        raise UsageError(
            f"{chosen.label}: its prompts are not here and cannot be fetched by anybody; get them from "
            f"{wanted.page} and name the file with {option}"
        )
    path = data_folder() / "suites" / f"{chosen.part}-{wanted.url.rpartition('/')[2]}"
    if path.is_file():
        return path
    data = read_url(wanted.url, MOST_BYTES, f"name it with {option}")
    digest = hashlib.sha256(data).hexdigest()
    if wanted.sha256 not in (None, digest):
        raise UsageError(
            f"{chosen.label}: {wanted.url} has the SHA-256 {digest}, and {wanted.sha256} is expected; "
            f"to use it all the same, name the file with {option}"
        )
    write_bytes(path, [data])
    return path
