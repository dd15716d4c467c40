"""``refract estimate``: what the next run of a grid would send: requests, tokens, dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Annotated, Any, NamedTuple

from typer import Argument

from refract.cli.printing import print_table
from refract.core.jsonl import canonical_json
from refract.core.params import grid, run_seed
from refract.models import generation_settings, identity_of, open_model
from refract.models.answering import requests_by_turn, samples_by_suite
from refract.models.protocol import AdapterError, Answer, Model, Request
from refract.models.store import ResponseStore, open_store
from refract.project import Project, find_model, find_project
from refract.suites.perturbations import SuitePrompts, suite_prompts

# English text has about four characters to a token in the vocabularies of today's models.
CHARACTERS_PER_TOKEN = 4


class Estimate(NamedTuple):
    """What one model is sent: requests that are not stored, and those that are, prompt tokens
    (about), answer tokens (at most), and dollars (at most about; None without a price)."""

    requests: int
    stored: int
    prompt_tokens: int
    answer_tokens: int
    dollars: float | None


def grid_prompts(project: Project) -> dict[str, SuitePrompts]:
    """The prompts of every suite of the grid."""
    names = grid(project.params, "suites")
    return {name: suite_prompts(project.params, name, project.folder) for name in names}


def estimate_model(
    name: str, project: Project, suites: Mapping[str, SuitePrompts], store: ResponseStore
) -> Estimate:
    """The requests of a model less what is stored, with their tokens and cost.

    Prompt tokens are estimated from the characters of the first attempt and of its tools;
    answer tokens are the most that ``max_tokens`` allows. Rows whose tools have scripted
    results count as many steps as there can be.
    """
    defined = find_model(name, project)
    seed = run_seed(project.params)
    counts: Counter[str] = Counter()
    samples = {key: suite.samples for key, suite in suites.items() if suite.samples is not None}
    model, settings = open_model(name, defined), generation_settings(name, defined)
    times = samples_by_suite(name, model, defined, suites, samples)
    # An unknown turn of a conversation counts as long as it may be.
    longest = Answer("x" * CHARACTERS_PER_TOKEN * (settings.get("max_tokens") or 1))
    prompts = {key: suite.rows for key, suite in suites.items()}
    turns = requests_by_turn(prompts, model, seed, samples=times, identity=_identity(model))
    answers: dict[str, Answer] = {}
    while turns.requests:
        known = store.get(turns.requests)
        counts += _counted(turns.requests, known, settings)
        answers |= turns.answered_at_most(longest) | known
        turns.go_on(answers)
    sent, made = -(-counts["characters"] // CHARACTERS_PER_TOKEN), counts["answers"]
    price, dollars = defined.get("price"), None
    if price:
        dollars = (sent * price["input"] + made * price["output"]) / 1e6
    return Estimate(counts["requests"], counts["stored"], sent, made, dollars)


def _identity(model: Model) -> str:
    """What determines a model's answers; of one whose weights are not here, nothing can be stored."""
    try:
        return canonical_json(identity_of(model))
    except AdapterError:
        return "unknown"


def _counted(
    requests: Mapping[str, Request], known: Collection[str], settings: Mapping[str, Any]
) -> Counter[str]:
    """Requests, stored ones, characters and tokens of answers of some requests to a model."""
    new = [request for key, request in requests.items() if key not in known]
    characters = len(new) * len(str(settings.get("system_prompt") or ""))
    for request in new:
        characters += sum(len(message["content"]) for message in request.attempts[0])
        characters += sum(len(canonical_json(tool)) for tool in request.tools)
    answers = len(new) * (settings.get("max_tokens") or 0)
    return Counter(requests=len(new), stored=len(known), characters=characters, answers=answers)


def estimate(
    models: Annotated[
        list[str] | None, Argument(help="Models of params.yaml; default: the grid's.")
    ] = None,
) -> None:
    """Print requests, tokens and cost of the next run, less what is stored.

    Prompt tokens are estimated from characters, answer tokens are the most that max_tokens allows. Rows
    with tool_results count all steps that there can be.

    Example: refract estimate qwen25_7b
    """
    project = find_project()
    suites = grid_prompts(project)
    rows = []
    names = models or grid(project.params, "models")
    with open_store() as answers:
        estimates = {name: estimate_model(name, project, suites, store=answers) for name in names}
    for name, sent in estimates.items():
        cost = "—" if sent.dollars is None else f"at most about ${sent.dollars:.2f}"
        tokens = [f"{sent.prompt_tokens:,}", f"{sent.answer_tokens:,}"]
        rows.append([name, str(sent.requests), str(sent.stored), *tokens, cost])
    tokens = ["prompt tokens (about)", "answer tokens (at most)"]
    print_table(["model", "requests", "stored", *tokens, "cost"], rows)
