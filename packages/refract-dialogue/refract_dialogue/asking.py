"""``refract rewrite``: has a model rewrite the prompts of a perturbation, and keeps what it wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from refract.core.errors import ParamsError
from refract.core.jsonl import write_rows
from refract.core.params import run_seed
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate import Suite, evaluate
from refract.models import open_model
from refract.models.store import ResponseStore, open_store
from refract.project import Project, find_model, project_root, read_project
from refract.suites.draws import sample_rows
from refract.suites.perturbations import features_of, read_perturbation
from refract.suites.perturbations.attacks import filled
from refract.suites.rows import load_suite
from refract_dialogue.rewriting import RewriteSettings, kept_rewritings, source_sha256


def rewrite(
    perturbation: Annotated[str, typer.Argument(help="Its name in params.yaml.")],
) -> None:
    """Have a model rewrite the prompts of a perturbation of kind rewrite, and keep what it wrote.

    Only texts that the perturbation's file lacks are asked. What the model declined to rewrite is kept
    as that and has no variant; exit with 1 if some requests failed, which run again are asked again.

    Example: refract rewrite past_tense
    """
    with open_store() as store:
        path, counts = write_rewritings(perturbation, read_project(project_root()), store)
    written, kept, failed = counts.pop("compliance", 0), counts.pop("kept"), counts.pop("error", 0)
    parts = [f"{written} written", f"{kept} kept", f"{failed} errors"]
    parts += [f"{count} not rewritten ({outcome})" for outcome, count in sorted(counts.items())]
    say(f"{path}: {', '.join(parts)}")
    raise typer.Exit(int(failed > 0))


def texts_to_rewrite(name: str, settings: RewriteSettings, project: Project) -> dict[str, str]:
    """The texts of all suites that name the perturbation, each once, by ``source_sha256``.
    Raises :class:`ParamsError` where none names it."""
    texts: dict[str, str] = {}
    seed = run_seed(project.params)
    for suite, definition in project.params["suites"].items():
        if name not in (definition.get("perturbations") or ()):
            continue
        rows = load_suite(project.folder / definition["file"])
        stratified = bool(definition.get("stratified"))
        size = definition.get("sample")
        for row in sample_rows(rows, size, seed=seed, suite=suite, stratified=stratified):
            for feature, text in features_of(row).items():
                if settings.features is None or feature in settings.features:
                    texts[source_sha256(text)] = text
    if not texts:
        raise ParamsError(
            f"perturbations.{name}: no suite has a text for it; add it to the perturbations of one"
        )
    return texts


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
    rows = [kept[sha] for sha in texts if sha in kept]
    missing = {sha: text for sha, text in texts.items() if sha not in kept}
    counts = Counter({"kept": len(rows)})
    path = project.folder / settings.file
    if missing:
        for row in _asked(name, settings, missing, project=project, store=store):
            counts[row["outcome"]] += 1
            if row["outcome"] != "error":
                rows.append(row)
        write_rows(path, sorted(rows, key=lambda row: str(row["source_sha256"])))
    return path, counts


def _asked(
    name: str,
    settings: RewriteSettings,
    texts: Mapping[str, str],
    project: Project,
    store: ResponseStore,
) -> Iterator[Row]:
    """What became of each text, as a row of the file."""
    definition = find_model(settings.model, project)
    asked = []
    for sha, text in texts.items():
        prompt = filled(settings.instruction, text)
        asked.append({"id": sha, "category": "helpful", "prompt": prompt})
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
        outcome, text = row["outcome"], row["response"].strip().strip('"“”')
        if outcome == "compliance" and (row["finish_reason"] != "stop" or not text):
            outcome = "not read" if row["finish_reason"] == "stop" else "cut_off"
        yield {
            "source_sha256": row["prompt_id"],
            "made_by": settings.made_by,
            "model": settings.model,
            "text": text if outcome == "compliance" else None,
            "outcome": outcome,
            "request_sha256": row["request_sha256"],
            "answer_sha256": row["answer_sha256"],
        }
