"""Runs the stage for one model: ``python -m stages.model_inference MODEL``."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError
from refract.core.jsonl import iter_prompts, sha256_json, write_json, write_rows
from refract.core.params import definition, grid, load_params, run_seed
from refract.core.progress import (
    StageRun,
    ran_file,
    run_stage,
)
from refract.core.showing import printable, say
from refract.core.types import ResponseRow
from refract.models import (
    generation_settings,
    identity_of,
    open_model,
    samples_of,
    with_fixed,
)
from refract.models.answering import ANSWERS, Count, answer_prompts, with_description
from refract.models.processes import follow, generator, joined_ranks, ranks
from refract.models.protocol import LASTING_ERRORS
from refract.models.store import open_store
from refract.models.store.ran import learn_origins, note_answers


def main(name: str) -> None:
    """Writes ``data/responses/NAME/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("model-inference", name)
    params = load_params()
    seed = run_seed(params)
    suites = grid(params, "suites")
    wanted = definition(params, "models", name)
    fixed = _held("generation")
    groups: dict[str, list[str]] = {}  # suites by the definition that answers them
    definitions = {suite: with_fixed(name, wanted, fixed.get(suite, {})) for suite in suites}
    for suite, own in definitions.items():
        groups.setdefault(sha256_json(own), []).append(suite)
    if len(groups) > 1 and ranks()[1] > 1:
        raise ParamsError(
            f"{name}: protocols ask for {len(groups)} ways of generation, which the processes of a "
            "launcher cannot share; set processes: N in the model's definition instead"
        )
    model = open_model(name, wanted)
    folder = Path("data/responses") / name
    prompts = {suite: iter_prompts(Path(f"data/prompts/{suite}.jsonl")) for suite in suites}
    of_suites = _held("samples")
    samples: dict[str, int] = {}
    responses: dict[str, list[ResponseRow]] = {}
    counts: dict[str, Count] = {}
    usage: dict[str, Any] = {}  # of all opened models
    with open_store() as store:
        where = str(store.path or "turned off")
        learn_origins(ran_file(name), folder, store)
        for group in groups.values():
            own = definitions[group[0]]
            asked = model if own == wanted else open_model(name, own)
            samples |= {suite: samples_of(asked, own, of_suites.get(suite)) for suite in group}
            made, counted = answer_prompts(
                {suite: prompts[suite] for suite in group},
                asked,
                store,
                seed,
                name=name,
                folders=[folder, ANSWERS / name],
                generator=generator(asked, own),
                samples=samples,
            )
            responses |= made
            counts |= counted
            for key, used in asked.usage.items():
                # None is a cost without a price, which all of them have in common.
                usage[key] = used if usage.get(key) is None else usage[key] + used
        keys = (row["request_sha256"] for rows in responses.values() for row in rows)
        origins = store.origins(keys)
    description = {
        "definition": wanted,
        "identity": identity_of(model),
        "seed": seed if model.samples else None,
        **model.description(),
    }
    if set(samples.values()) - {1}:
        description["samples"] = samples
    if fixed:
        description["generation"] = {
            suite: generation_settings(name, definitions[suite]) for suite in sorted(fixed)
        }
    for suite in suites:
        write_rows(folder / f"{suite}.jsonl", responses[suite])
        say(f"{name} {suite}: {counts[suite]}")
        errors = [row["error"] for row in responses[suite] if row["error"]]
        if errors:
            passing = sum(error["type"] not in LASTING_ERRORS for error in errors)
            again = f"; `dvc repro` asks {passing} of them again" if passing else ""
            run.warn(
                f"{suite}: {len(errors)} of {len(responses[suite])} answers are errors{again}; the "
                f"first: {errors[0]['type']}: {errors[0]['message']}"
            )
    note_answers(ran_file(name), folder, responses, origins)
    if masked := usage.get("masked"):
        run.warn(f"{masked} answers repeated the key; it is masked in them")
    description = with_description(description, ANSWERS / name)
    write_json(folder / "model.json", description)
    # DVC keeps the output between runs; files of suites that left the grid go, and so do files that
    # a killed run left half written.
    written = {"model.json", *(f"{suite}.jsonl" for suite in suites)}
    for path in folder.iterdir():
        if path.name not in written:
            path.unlink()
    reused, stored, generated = (
        sum(getattr(count, key) for count in counts.values())
        for key in ("reused", "from_store", "generated")
    )
    origin = f" ({stored:,} from the store)" if stored else ""
    run.end(
        f"{reused:,} answers reused{origin}, {generated:,} generated",
        store=where,
        finished_at=int(time.time()),
        answers={suite: vars(count) for suite, count in counts.items()},
        usage=usage,
    )
    total = sum(len(rows) for rows in responses.values())
    if sum(count.errors for count in counts.values()) == total:
        first = next(row["error"] for rows in responses.values() for row in rows if row["error"])
        sys.exit(
            printable(
                f"{name}: all {total} answers are errors; the first: {first['type']}: "
                f"{first['message']}"
            )
        )


def _held(what: str) -> dict[str, Any]:
    """What the stage before this one says of suites."""
    path = Path(f"data/prompts/{what}.json")
    held: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return held


def work(name: str) -> None:
    """The stage, in one process or as one of several ranks that a launcher started."""
    rank, count = ranks()
    with joined_ranks() if count > 1 else nullcontext():
        if rank == 0:
            main(name)
        else:
            with open_store() as store:
                follow(store)


if __name__ == "__main__":
    run_stage("model-inference", work, "MODEL")
