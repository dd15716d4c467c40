"""``refract compare --kl``: how far apart two local models' first answer tokens are (KL divergence,
from their logits)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import read_rows
from refract.models import open_model
from refract.models.answering import request_of
from refract.models.hf import HF
from refract.models.prompting import ReadyPrompt
from refract.models.protocol import AdapterError, Request
from refract.results.sources import Side


class FirstTokens(NamedTuple):
    """The divergences of so many prompts over so many tokens, and the prompt with the highest."""

    prompts: int
    tokens: int
    mean: float
    median: float
    highest: float
    prompt: str

    def __str__(self) -> str:
        tokens = "token" if self.tokens == 1 else f"{self.tokens} tokens"
        return (
            f"KL(A ‖ B) of the first {tokens} of A's answers to {self.prompts} harmless prompts, in "
            f"nats: mean {self.mean:.4f}, median {self.median:.4f}, highest {self.highest:.4f} "
            f"({self.prompt})"
        )


def first_tokens(base: HF, edited: HF, requests: Mapping[str, Request], tokens: int) -> FirstTokens:
    """What :func:`divergences` of some prompts add up to. Raises AdapterError, too where no prompt
    fits."""
    by_prompt = divergences(base, edited, requests, tokens)
    if not by_prompt:
        raise AdapterError(f"{base.name}: no prompt of {len(requests)} fits into the context")
    highest = max(by_prompt, key=by_prompt.__getitem__)
    values = list(by_prompt.values())
    numbers = statistics.fmean(values), statistics.median(values), by_prompt[highest]
    return FirstTokens(len(by_prompt), tokens, *numbers, highest)


def divergences(
    base: HF, edited: HF, requests: Mapping[str, Request], tokens: int
) -> dict[str, float]:
    """By prompt the mean of KL(base ‖ edited) in nats over the first ``tokens`` of base's greedy
    answer, as far as it goes: the sum over the whole vocabulary, in float64. Prompts that do not
    fit are left out. Raises AdapterError where the two models' tokens are not the same."""
    by_prompt = {}
    for model in (base, edited):
        model.prompting.load()
    loaded = [model.loader.model(model.prompting.config) for model in (base, edited)]
    ends = base.prompting.ends_of(loaded[0].config, loaded[0].generation_config)
    for name, request in requests.items():
        prepared = [model.prompting.prepare(request) for model in (base, edited)]
        prompts = [prompt.tokens for prompt in prepared if isinstance(prompt, ReadyPrompt)]
        if len(prompts) < 2:
            continue
        if prompts[0] != prompts[1]:
            raise AdapterError(
                f"{base.name} and {edited.name} read the prompt {name} as other tokens (their "
                "tokenizers, chat templates or system prompts differ), so that their next tokens "
                "cannot be compared"
            )
        by_prompt[name] = _mean_divergence(loaded, list(prompts[0]), tokens, ends)
    return by_prompt


def _mean_divergence(loaded: list[Any], ids: list[int], tokens: int, ends: frozenset[int]) -> float:
    import torch

    values: list[float] = []
    while len(values) < tokens:
        logs = []
        for model in loaded:
            device = model.get_input_embeddings().weight.device
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([ids], device=device)).logits[0, -1]
            logs.append(logits.double().log_softmax(-1).cpu())
        if len(logs[0]) != len(logs[1]):
            sizes = " and ".join(str(len(each)) for each in logs)
            raise AdapterError(f"the models' vocabularies differ in size: {sizes} tokens")
        # What has no chance adds nothing, whatever the other says of it.
        likely = logs[0] > -torch.inf
        before, after = logs[0][likely], logs[1][likely]
        values.append(float((before.exp() * (before - after)).sum()))
        ids.append(int(logs[0].argmax()))
        if ids[-1] in ends:
            break
    return sum(values) / len(values)


def of_sides(a: Side, b: Side, tokens: int) -> FirstTokens:
    """:func:`first_tokens` of two sides. Raises :class:`UsageError` unless these are one local model
    each, with prompts here."""
    models = []
    for side in (a, b):
        facts = [result.provenance for result in side.results.values()]
        definition = facts[0]["model"]["definition"] if len(facts) == 1 and facts[0] else {}
        model = open_model(side.name, definition) if definition.get("adapter") == "hf" else None
        if not isinstance(model, HF):
            raise UsageError(
                f"--kl: {side.name} is not one local model (adapter hf) but "
                f"{definition.get('adapter') or ', '.join(side.results)}; name a model on each side"
            )
        models.append(model)
    requests = _harmless(a)
    if not requests:
        raise UsageError(
            "--kl: no harmless prompts of A are here; run: dvc repro (or refract run --rows "
            f"{Path(a.name).with_suffix('.rows.jsonl')})"
        )
    return first_tokens(models[0], models[1], requests, tokens)


def _harmless(side: Side) -> dict[str, Request]:
    """The clean harmless prompts of a side: of a results file those of its rows, else the project's."""
    (result,) = side.results.values()
    suites = dict.fromkeys(row["suite"] for row in result.outcomes)
    rows_file = Path(side.name).with_suffix(".rows.jsonl")
    files = [Path(f"data/prompts/{suite}.jsonl") for suite in suites]
    rows = []
    for file in [rows_file] if Path(side.name).is_file() else files:
        rows += read_rows(file) if file.is_file() else []
    requests = {}
    for row in rows:
        if row["category"] != "harmful" and not row.get("perturbation") and "turn" not in row:
            attempts = row.get("attempts") or [row["prompt"]]
            asked: Any = {"source_id": "", "perturbation": None, **row, "attempts": attempts}
            requests[f"{row['suite']} {row['prompt_id']}"] = request_of(asked, None)
    return requests
