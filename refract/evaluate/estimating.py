"""What the next run of a grid would send: requests, tokens, dollars."""

from __future__ import annotations

from typing import Any, NamedTuple

from refract.core.jsonl import canonical_json
from refract.core.params import grid, run_seed
from refract.core.types import PromptRow
from refract.models import generation_settings, identity_of
from refract.models.answering import requests_by_turn, ways_of_answering
from refract.models.protocol import AdapterError, Answer
from refract.models.store import ResponseStore
from refract.project import Project, find_model
from refract.suites.perturbations import suite_prompts

# English text has about four characters to a token in the vocabularies of today's
# models.
CHARACTERS_PER_TOKEN = 4


class GridPrompts(NamedTuple):
    """The prompts of the grid's suites; by suite, where it says so, what a protocol
    fixes of generation, and how often each prompt is answered."""

    prompts: dict[str, list[PromptRow]]
    generation: dict[str, dict[str, Any]]
    samples: dict[str, int]


class Estimate(NamedTuple):
    """What one model is sent: requests that are not stored, and those that are,
    prompt tokens (about), answer tokens (at most), and dollars (at most about; None
    without a price)."""

    requests: int
    stored: int
    prompt_tokens: int
    answer_tokens: int
    dollars: float | None


def grid_prompts(project: Project) -> GridPrompts:
    """The prompts of every suite of the grid."""
    prompts: dict[str, list[PromptRow]] = {}
    generation: dict[str, dict[str, Any]] = {}
    samples: dict[str, int] = {}
    for name in grid(project.params, "suites"):
        suite = suite_prompts(project.params, name, project.folder)
        prompts[name] = suite.rows
        if suite.generation is not None:
            generation[name] = suite.generation
        if suite.samples is not None:
            samples[name] = suite.samples
    return GridPrompts(prompts, generation, samples)


def estimate_model(
    name: str, project: Project, suites: GridPrompts, store: ResponseStore
) -> Estimate:
    """The requests of a model less what is stored, with their tokens and cost.

    Prompt tokens are estimated from the characters of the first attempt; answer
    tokens are the most that ``max_tokens`` allows.
    """
    definition = find_model(name, project)
    seed = run_seed(project.params)
    requests = stored = characters = answer_tokens = 0
    ways = ways_of_answering(name, definition, suites.prompts, suites.generation, suites.samples)
    for model, times in ways:
        settings = generation_settings(name, model.opened[1] if model.opened else definition)
        try:
            identity = canonical_json(identity_of(model))
        except AdapterError:
            identity = "unknown"  # its weights are not here yet, so that nothing can be stored
        most = settings.get("max_tokens") or 0
        system_prompt = str(settings.get("system_prompt") or "")
        # An unknown turn of a conversation counts as long as it may be.
        longest = Answer("x" * CHARACTERS_PER_TOKEN * (most or 1))
        prompts = {suite: suites.prompts[suite] for suite in times}
        answers: dict[str, Answer] = {}
        for turn in requests_by_turn(prompts, model, seed, times, answers, identity):
            known = store.get(turn)
            stored += len(known)
            for key, request in turn.items():
                answers[key] = known.get(key, longest)
                if key not in known:
                    requests += 1
                    answer_tokens += most
                    characters += len(system_prompt)
                    characters += sum(len(message["content"]) for message in request.attempts[0])
    prompt_tokens = -(-characters // CHARACTERS_PER_TOKEN)
    price = definition.get("price")
    dollars = None
    if price:
        dollars = (prompt_tokens * price["input"] + answer_tokens * price["output"]) / 1e6
    return Estimate(requests, stored, prompt_tokens, answer_tokens, dollars)
