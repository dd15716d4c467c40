"""``refract estimate``: what a run will send, and what that may cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refract.cli.printing import print_table

if TYPE_CHECKING:
    from refract.models.protocol import Model, Request
    from refract.models.store import ResponseStore
    from refract.project import Project

# English text has about four characters to a token in the vocabularies of today's models.
CHARACTERS_PER_TOKEN = 4


def grid_requests(project: Project, model: Model, wanted: Mapping[str, Any]) -> list[Request]:
    """Every request that the grid's suites make of a model, whose definition is ``wanted``."""
    from refract.core.params import definition, grid, run_seed
    from refract.core.types import sample_prompts
    from refract.models import samples_of
    from refract.models.answering import request_of
    from refract.suites.perturbations import suite_prompts

    seed = run_seed(project.params)
    return [
        request_of(row, seed)
        for name in grid(project.params, "suites")
        for row in sample_prompts(
            suite_prompts(project.params, name, project.folder).rows,
            samples_of(model, wanted, definition(project.params, "suites", name).get("samples")),
        )
    ]


def missing_requests(
    model: Model, requests: Sequence[Request], store: ResponseStore
) -> tuple[list[Request], int]:
    """The distinct requests that the store cannot answer, and how many it can."""
    from refract.core.jsonl import canonical_json
    from refract.models import identity_of
    from refract.models.protocol import AdapterError
    from refract.models.store import request_sha256

    try:
        identity = canonical_json(identity_of(model))
    except AdapterError:
        identity = ""  # its weights are not here yet, so nothing can be stored of exactly these
    distinct = {request_sha256(identity, request, model): request for request in requests}
    known = store.get(distinct)
    return [request for key, request in distinct.items() if key not in known], len(known)


def estimate(
    models: Annotated[
        list[str] | None, typer.Argument(help="Models of params.yaml; default: the grid's.")
    ] = None,
) -> None:
    """Print requests, tokens and cost of the next run, less what is stored, before it starts.

    Prompt tokens are estimated from characters of the first attempt, answer tokens are the most that
    max_tokens allows: the cost is an upper bound up to the first of the two.

    Example: refract estimate qwen25_7b
    """
    from refract.core.params import grid
    from refract.models import open_model
    from refract.models.store import open_store
    from refract.project import find_model, find_project

    project = find_project()
    rows = []
    with open_store() as store:
        for name in models or grid(project.params, "models"):
            definition = find_model(name, project)
            model = open_model(name, definition)
            requests = grid_requests(project, model, definition)
            missing, known = missing_requests(model, requests, store)
            texts = [message["content"] for asked in missing for message in asked.attempts[0]]
            texts += [str(definition.get("system_prompt") or "")] * len(missing)
            prompt_tokens = -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
            answer_tokens = len(missing) * definition.get("max_tokens", 0)
            cost = "—"
            if price := definition.get("price"):
                dollars = prompt_tokens * price["input"] + answer_tokens * price["output"]
                cost = f"at most about ${dollars / 1e6:.2f}"
            counts = (str(len(missing)), str(known), f"{prompt_tokens:,}", f"{answer_tokens:,}")
            rows.append([name, *counts, cost])
    print_table(
        ["model", "requests", "stored", "prompt tokens (about)", "answer tokens (at most)", "cost"],
        rows,
    )
