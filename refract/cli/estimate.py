"""``refract estimate``: what a run will ask, and what that may cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refract.cli.project import find_params, project_root
from refract.cli.run import print_table
from refract.errors import UsageError
from refract.inference import request_of
from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError, Request
from refract.params import definition, grid, run_seed
from refract.perturbations import suite_prompts
from refract.rows.jsonl import canonical_json
from refract.store import ResponseStore, open_store, request_sha256

# English text has about four characters to a token in the vocabularies of today's models.
CHARACTERS_PER_TOKEN = 4


def grid_requests(params: dict[str, Any], suites: Sequence[str]) -> list[Request]:
    """Every request that the grid's suites make of one model."""
    seed = run_seed(params)
    return [
        request_of(row, seed)
        for name in suites
        for row in suite_prompts(params, name, project_root()).rows
    ]


def missing_requests(
    model: Any, requests: Sequence[Request], store: ResponseStore
) -> tuple[dict[str, Request], int]:
    """The distinct requests that the store cannot answer, and how many it can."""
    try:
        identity = canonical_json(identity_of(model))
    except AdapterError:
        # Its weights are not here yet, so nothing can be stored of exactly these.
        identity = canonical_json(["unresolved", id(model)])
    distinct = {
        request_sha256(identity, request, model.USES, model.samples): request
        for request in requests
    }
    known = store.get(distinct)
    return {key: request for key, request in distinct.items() if key not in known}, len(known)


def estimate(models: Sequence[str]) -> None:
    """Prints, for each model, requests to send and stored, tokens, and money where a price is given.

    Prompt tokens are estimated from characters of the first attempt, answer tokens are the most that
    ``max_tokens`` allows: the cost is an upper bound up to the first of the two.
    """
    params = find_params()
    wanted = list(models) or grid(params, "models")
    strange = sorted(set(wanted) - set(params["models"]))
    if strange:
        known = ", ".join(sorted(params["models"]))
        raise UsageError(f"no model {', '.join(strange)}; params.yaml defines: {known}")
    requests = grid_requests(params, grid(params, "suites"))
    rows = []
    with open_store() as store:
        for name in wanted:
            settings = definition(params, "models", name)
            missing, known = missing_requests(open_model(name, settings), requests, store)
            characters = sum(
                len(message["content"])
                for request in missing.values()
                for message in request.attempts[0]
            ) + len(settings.get("system_prompt") or "") * len(missing)
            prompt_tokens = -(-characters // CHARACTERS_PER_TOKEN)
            answer_tokens = len(missing) * settings.get("max_tokens", 0)
            price = settings.get("price")
            cost = "—"
            if price:
                dollars = prompt_tokens * price["input"] + answer_tokens * price["output"]
                cost = f"at most about ${dollars / 1e6:.2f}"
            rows.append(
                [
                    name,
                    str(len(missing)),
                    str(known),
                    f"{prompt_tokens:,}",
                    f"{answer_tokens:,}",
                    cost,
                ]
            )
    print_table(
        ["model", "requests", "stored", "prompt tokens (about)", "answer tokens (at most)", "cost"],
        rows,
    )
