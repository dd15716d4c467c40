"""``refract work``: a part of a model's requests, answered on any machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from refract.core.showing import say


def work(
    model: Annotated[str, typer.Argument()],
    shard: Annotated[str, typer.Option()],
    out: Path | None = None,
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
    from refract.core.params import grid, run_seed
    from refract.models.answering import ANSWERS
    from refract.models.protocol import LASTING_ERRORS
    from refract.models.shards import SHARDS, answer_shard, read_shard
    from refract.models.store import store_file
    from refract.project import find_model, project_root, read_project
    from refract.suites.perturbations import suite_prompts

    part = read_shard(shard)
    project = read_project(project_root())
    params, definition = project.params, find_model(model, project)
    suites = {suite: suite_prompts(params, suite) for suite in grid(params, "suites")}
    made = answer_shard(
        model,
        definition,
        {name: suite.rows for name, suite in suites.items()},
        run_seed(params),
        part,
        out or SHARDS / model,
        store=store_file(),
        known=[Path("data/responses") / model, ANSWERS / model],
        fixed={n: suite.generation for n, suite in suites.items() if suite.generation is not None},
        samples={n: suite.samples for n, suite in suites.items() if suite.samples is not None},
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
