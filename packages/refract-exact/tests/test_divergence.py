"""How far two local models' first tokens are apart, from their logits; what became of their answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from refract.core.jsonl import write_rows
from refract.models.protocol import AdapterError
from refract_exact.divergence import divergences, first_tokens
from tests.builders import Project, ask
from tests.small_models import change_weights, model, save_tokenizer

TEXTS = ("How do I bake bread?", "Name a tree.", "Why?")
ROWS = [
    {"id": str(number), "category": category, "prompt": TEXTS[number]}
    for number, category in enumerate(("helpful", "helpful", "harmful"))
]


@pytest.fixture(scope="module")
def edited(tiny, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("edited") / "tiny"
    shutil.copytree(tiny, folder)
    change_weights(folder, lambda weights: weights["model.norm.weight"].mul_(1.5))
    return folder


def plain(folder: Path, ids: list[int]) -> np.ndarray:
    """The logarithms of the next token's chances, in NumPy from the logits of transformers."""
    import torch
    from transformers import AutoModelForCausalLM

    logits = AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([ids])).logits[0, -1]
    logits = logits.detach().double().numpy()
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


@pytest.mark.parametrize("tokens", [1, 3])
def test_the_divergence_is_the_sum_over_the_vocabulary_along_the_bases_answer(tiny, edited, tokens):
    base, other = model(tiny), model(edited)
    requests = {text: ask(text) for text in TEXTS}
    found = divergences(base, other, requests, tokens)
    for text, request in requests.items():
        ids = list(base.prompting.prepare(request).tokens)
        values = []
        for _ in range(tokens):
            before, after = plain(tiny, ids), plain(edited, ids)
            values.append((np.exp(before) * (before - after)).sum())
            ids.append(int(before.argmax()))
        assert found[text] == pytest.approx(np.mean(values), rel=1e-5)
        assert found[text] > 0
    assert set(divergences(base, model(tiny), requests, tokens).values()) == {0}
    far = first_tokens(base, other, requests, tokens)
    assert far.highest == max(found.values()) == found[far.prompt]


def test_models_that_read_a_prompt_as_other_tokens_are_not_compared(tiny, edited, tmp_path):
    other = shutil.copytree(edited, tmp_path / "other")
    save_tokenizer(other, "{{ messages[0].content }}!")
    with pytest.raises(AdapterError, match="read the prompt a as other tokens"):
        divergences(model(tiny), model(other), {"a": ask("Why?")}, 1)


def test_compare_says_what_became_of_answers_and_how_far_first_tokens_are_apart(
    cli, tiny, edited, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_rows(Path("own.jsonl"), ROWS)
    judged = ("--suite", "own.jsonl", "--judge", "rules")
    for name, folder in (("base", tiny), ("edited", edited)):
        asked = ("--adapter", "hf", "--model-id", folder, "--set", "max_tokens=4")
        cli("run", *asked, *judged, "--out", f"{name}.json", "--rows", f"{name}.rows.jsonl")
    compare = ("compare", "base.json", "edited.json", "--kl", 1)
    done = cli(*compare)
    assert done.code == 0, done.err
    assert "KL(A ‖ B) of the first token of A's answers to 2 harmless prompts" in done.out
    found = json.loads(cli(*compare, "--format", "json").out)
    assert found["kl"]["prompts"] == 2
    cli("run", "--adapter", "synthetic", *judged, "--out", "s.json")
    done = cli("compare", "base.json", "s.json", "--kl", 1)
    assert done.code == 2
    assert "s.json is not one local model (adapter hf) but synthetic" in done.err
    Path("base.rows.jsonl").unlink()
    assert "no harmless prompts of A are here" in cli(*compare).err


def test_the_prompts_of_a_project_are_those_of_its_suites(cli, tiny, edited, tmp_path, monkeypatch):
    models = {}
    for name, folder in (("base", tiny), ("edited", edited)):
        models[name] = {"adapter": "hf", "model_id": str(folder), "max_tokens": 2}
    project = Project.create(tmp_path / "p", models, {"own": ROWS}, report=False)
    monkeypatch.setenv("REFRACT_CACHE", str(project.cache))
    project.compute()
    monkeypatch.chdir(project.folder)
    done = cli("compare", "base", "edited", "--kl", 1, "--format", "json")
    requests = {f"own {number}": ask(TEXTS[number]) for number in range(2)}
    expected = first_tokens(model(tiny), model(edited), requests, 1)
    printed = done.out[done.out.index("{\n") :]  # behind what the stages said
    assert json.loads(printed)["kl"] == pytest.approx(expected._asdict())
