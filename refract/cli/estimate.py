"""``refract estimate``: what a run will send, and what that may cost, before anything is sent."""

from __future__ import annotations

from typing import Annotated

import typer

from refract.cli.printing import print_table

# English text has about four characters to a token in the vocabularies of today's models.
CHARACTERS_PER_TOKEN = 4


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
    from refract.core.jsonl import canonical_json
    from refract.core.params import definition, grid, run_seed
    from refract.core.types import sample_prompts
    from refract.models import identity_of, open_model, samples_of
    from refract.models.answering import request_of
    from refract.models.protocol import AdapterError
    from refract.models.store import open_store, request_sha256
    from refract.project import find_model, find_project
    from refract.suites.perturbations import suite_prompts

    project = find_project()
    seed, suites = run_seed(project.params), grid(project.params, "suites")
    rows = []
    with open_store() as store:
        for name in models or grid(project.params, "models"):
            wanted = find_model(name, project)
            model = open_model(name, wanted)
            try:
                identity = canonical_json(identity_of(model))
            except AdapterError:
                identity = ""  # its weights are not here yet, so nothing can be stored of these
            requests = {}
            for suite in suites:
                prompts = suite_prompts(project.params, suite, project.folder).rows
                samples = definition(project.params, "suites", suite).get("samples")
                for row in sample_prompts(prompts, samples_of(model, wanted, samples)):
                    request = request_of(row, seed)
                    requests[request_sha256(identity, request, model)] = request
            known = store.get(requests)
            missing = [request for key, request in requests.items() if key not in known]
            texts = [message["content"] for asked in missing for message in asked.attempts[0]]
            texts += [str(wanted.get("system_prompt") or "")] * len(missing)
            sent = -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
            most = len(missing) * wanted.get("max_tokens", 0)
            cost = "—"
            if price := wanted.get("price"):
                dollars = sent * price["input"] + most * price["output"]
                cost = f"at most about ${dollars / 1e6:.2f}"
            rows.append([name, str(len(missing)), str(len(known)), f"{sent:,}", f"{most:,}", cost])
    print_table(
        ["model", "requests", "stored", "prompt tokens (about)", "answer tokens (at most)", "cost"],
        rows,
    )
