"""``refract work``: one part of a model's requests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.core.params import run_seed
from refract.core.showing import say
from refract.models.answering import ANSWERS, SHARDS
from refract.models.protocol import LASTING_ERRORS
from refract.models.store import store_file
from refract.project import find_model, project_root, read_project
from refract_engines.estimating import grid_prompts
from refract_engines.shards import answer_shard, read_shard


def work(
    model: Annotated[str, Argument(help="A model of params.yaml.")],
    shard: Annotated[
        str,
        Option(
            help="Which part of how many, as i/n: 1/8 to 8/8. A request is in a part by its hash."
        ),
    ],
    out: Annotated[
        Path | None,
        Option(file_okay=False, help="Folder to write to; default: data/shards/MODEL."),
    ] = None,
) -> None:
    """Answer one part of a model's requests, and write the answers to one file; exit with 1 if
    every request failed.

    `dvc repro` takes up the files in data/shards, `refract cache import` those from elsewhere. A
    part that was stopped goes on when it is run again.

    Example: refract work pocket_small --shard 1/2"""
    part = read_shard(shard)
    project = read_project(project_root())
    suites = grid_prompts(project)
    done = answer_shard(
        model,
        find_model(model, project),
        suites.prompts,
        seed=run_seed(project.params),
        shard=part,
        folder=out or SHARDS / model,
        store=store_file(),
        known=[Path("data/responses") / model, ANSWERS / model],
        fixed=suites.generation,
        samples=suites.samples,
    )
    say(
        f"{model} {part}: {done.requests:,} requests, {done.known:,} answered in files, "
        f"{done.from_store:,} from the store, {done.generated:,} generated: "
        f"{done.path or 'nothing to do, and nothing written'}"
    )
    if not done.errors:
        return
    passing = [error for error in done.errors if error["type"] not in LASTING_ERRORS]
    first = (passing or done.errors)[0]
    again = f"; run again to ask {len(passing):,} of them" if passing else ""
    say(
        f"{model} {part}: {len(done.errors):,} are errors, which the file does not hold{again}; "
        f"the first: {first['type']}: {first['message']}",
        file=sys.stderr,
    )
    raise typer.Exit(int(bool(passing) and len(done.errors) == done.generated))
