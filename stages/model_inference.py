"""Runs the stage for one model: ``python -m stages.model_inference MODEL``."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from refract.core.jsonl import iter_prompts, write_json, write_rows
from refract.core.params import definition, grid, load_params, run_seed
from refract.core.progress import StageRun, ran_file, read_object, run_stage
from refract.core.showing import say
from refract.models import check_keys
from refract.models.answering import (
    ANSWERS,
    Count,
    answer_model,
    error_warning,
    refuse_only_errors,
    with_description,
)
from refract.models.origins import learn_origins, note_answers
from refract.models.store import open_store


def main(name: str) -> None:
    """Writes ``data/responses/NAME/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("model-inference", name)
    params = load_params()
    suites = grid(params, "suites")
    folder = Path("data/responses") / name
    with open_store() as store:
        where = str(store.path or "turned off")
        store.before_asking = [lambda: check_keys(_judges_of(params, suites))]
        learn_origins(ran_file(name), folder, store)
        made = answer_model(
            name,
            definition(params, "models", name),
            {suite: iter_prompts(Path(f"data/prompts/{suite}.jsonl")) for suite in suites},
            store=store,
            seed=run_seed(params),
            folders=[folder, ANSWERS / name],
            samples=read_object(Path("data/prompts/samples.json")),
        )
    for suite in suites:
        write_rows(folder / f"{suite}.jsonl", made.responses[suite])
        say(f"{name} {suite}: {made.counts[suite]}")
        if warning := error_warning(suite, made.responses[suite]):
            run.warn(warning)
    note_answers(
        ran_file(name),
        folder,
        made.responses,
        origins=made.origins,
        certificates=made.certificates,
    )
    write_json(folder / "model.json", with_description(made.description, ANSWERS / name))
    # DVC keeps the output between runs; files of suites that left the grid go, and so do files that
    # a killed run left half written.
    for path in folder.iterdir():
        if path.name not in {"model.json", *(f"{suite}.jsonl" for suite in suites)}:
            path.unlink()
    total = Counter[str]()
    for count in made.counts.values():
        total.update(vars(count))
    origin = f" ({total['from_store']:,} from the store)" if total["from_store"] else ""
    run.end(
        f"{total['reused']:,} answers reused{origin}, {Count(**total).new}",
        store=where,
        finished_at=int(time.time()),
        answers={suite: vars(count) for suite, count in made.counts.items()},
        usage=made.usage,
    )
    refuse_only_errors(name, made.responses)


def _judges_of(params: dict[str, Any], suites: list[str]) -> dict[str, Any]:
    """The judges to come, whose keys are looked for before a model is paid. No output depends on
    them, so that they are no parameters of this stage."""
    names = set()
    for suite in suites:
        names.update(params.get("suites", {}).get(suite, {}).get("judges", ()))
    judges = params.get("judges", {})
    return {name: judges[name] for name in sorted(names & set(judges))}


if __name__ == "__main__":
    run_stage("model-inference", main, "MODEL")
