"""Prompts as a model says them otherwise, for perturbations of the kind ``rewrite``."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from refract.core.errors import ParamsError
from refract.core.jsonl import write_rows
from refract.core.params import run_seed
from refract.core.published_text import Source
from refract.core.types import Row
from refract.evaluate import Suite, evaluate
from refract.models import open_model
from refract.models.store import ResponseStore
from refract.project import Project, find_model
from refract.suites.draws import sample_rows
from refract.suites.perturbations import changed_at, features_of, read_perturbation
from refract.suites.perturbations.attacks import (
    PLACE,
    RewriteSettings,
    filled,
    kept_rewritings,
    source_sha256,
    whole_text,
)
from refract.suites.rows import load_suite


def texts_to_rewrite(name: str, settings: RewriteSettings, project: Project) -> list[str]:
    """The texts of all suites that name the perturbation, each once. Raises
    :class:`ParamsError` where none does."""
    suites = {
        suite: definition
        for suite, definition in project.params["suites"].items()
        if name in (definition.get("perturbations") or ())
    }
    if not suites:
        raise ParamsError(
            f"perturbations.{name}: no suite names it; add it to the perturbations of one in params.yaml"
        )
    texts: dict[str, None] = {}
    seed = run_seed(project.params)
    for suite, definition in suites.items():
        rows = load_suite(project.folder / definition["file"])
        stratified = bool(definition.get("stratified"))
        size = definition.get("sample")
        for row in sample_rows(rows, size, seed=seed, suite=suite, stratified=stratified):
            if place := changed_at(row, settings):
                features = features_of(place.until)
                texts |= dict.fromkeys(features[key] for key in settings.features or features)
    return list(texts)


def write_rewritings(
    name: str, project: Project, store: ResponseStore
) -> tuple[Path, Counter[str]]:
    """Has the model of the perturbation ``name`` rewrite what its file lacks, and
    writes the file: where it is, and what became of each text by the outcome of the
    answer.

    An answer is a request like any other, stored by its hash. One that the default
    judge holds for anything but compliance (the model declined to rewrite) is kept as
    that, without a text. Errors are not kept. Raises
    :class:`refract.core.errors.RefractError`."""
    definition = project.params.get("perturbations", {}).get(name)
    _, settings = read_perturbation(name, definition)
    if not isinstance(settings, RewriteSettings):
        raise ParamsError(
            f"perturbations.{name}: kind must be rewrite (got {definition['kind']!r})"
        )
    kept = kept_rewritings(settings)
    texts = texts_to_rewrite(name, settings, project)
    rows = [kept[sha] for text in texts if (sha := source_sha256(text)) in kept]
    missing = {sha: text for text in texts if (sha := source_sha256(text)) not in kept}
    path = project.folder / settings.file
    counts = Counter({"kept": len(rows)})
    if missing:
        rows += _asked(name, settings, missing, project=project, store=store, counts=counts)
        write_rows(path, sorted(rows, key=lambda row: str(row["source_sha256"])))
    return path, counts


def _asked(
    name: str,
    settings: RewriteSettings,
    missing: dict[str, str],
    project: Project,
    store: ResponseStore,
    counts: Counter[str],
) -> Iterable[Row]:
    definition = find_model(settings.model, project)
    asked = [
        {"id": sha, "category": "helpful", **_request(settings.instruction, text)}
        for sha, text in missing.items()
    ]
    evaluation = evaluate(
        [Suite(name, asked, {"judges": ["refusal"]})],
        open_model(settings.model, definition),
        {"refusal": {"kind": "refusal"}},
        store=store,
        name=settings.model,
        definition=definition,
        seed=run_seed(project.params),
    )
    for row in evaluation.rows():
        outcome, written = row["outcome"], _written(row["response"], settings.field)
        if outcome == "compliance" and (row["finish_reason"] != "stop" or not written):
            outcome = "not read" if row["finish_reason"] == "stop" else "cut_off"
        counts[outcome] += 1
        if outcome == "error":
            continue
        yield {
            "source_sha256": row["prompt_id"],
            "made_by": settings.made_by,
            "model": settings.model,
            "text": written if outcome == "compliance" else None,
            "outcome": outcome,
            "request_sha256": row["request_sha256"],
            "answer_sha256": row["answer_sha256"],
        }


def _request(instruction: str | Source, text: str) -> Row:
    """The content of a suite's row that asks for a rewriting of the text."""
    if PLACE in whole_text(instruction):
        return {"prompt": filled(instruction, text)}
    system = {"role": "system", "content": whole_text(instruction)}
    return {"messages": [system, {"role": "user", "content": text}]}


def _written(answer: str, field: str | None) -> str | None:
    """What the model wrote; None where its answer is not the JSON that was asked for."""
    if field is None:
        return answer.strip().strip('"“”')
    try:
        written = json.loads(re.sub(r"^```(json)?|```$", "", answer.strip()))[field]
    except (ValueError, TypeError, KeyError):
        return None
    return written.strip() if isinstance(written, str) else None
