"""LoRA adapters on small random models: they change answers, and requests' hashes hold them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from refract.models.lora import CONFIG, WEIGHTS
from refract.models.protocol import AdapterError
from tests.small_models import TEMPLATE, answers, model, prompts, save_adapter, save_tokenizer


@pytest.fixture(scope="module")
def saved(tiny, tmp_path_factory) -> Path:
    return save_adapter(tiny, tmp_path_factory.mktemp("adapter"))


@pytest.fixture
def adapter(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "adapter"))


@pytest.mark.parametrize(
    "settings", [{}, {"arithmetic": "fast", "quantization": "4bit"}, {"arithmetic": "fast"}]
)
def test_an_adapter_is_put_on_quantised_weights_and_used_with_fast_arithmetic(
    tiny, saved, settings
):
    plain = answers(model(tiny, max_tokens=8, **settings), prompts(3))
    adapted = answers(model(tiny, max_tokens=8, adapter_path=str(saved), **settings), prompts(3))
    assert all(a.response != b.response for a, b in zip(plain, adapted, strict=True))


def test_requests_hold_the_content_of_both_files_and_nothing_without_an_adapter(tiny, adapter):
    plain, first = model(tiny).identity(), model(tiny, adapter_path=str(adapter)).identity()
    assert first == {**plain, "peft": {"sha256": first["peft"]["sha256"]}}
    (adapter / "README.md").write_text("Nothing that counts.")
    moved = adapter.rename(adapter.with_name("moved"))
    assert model(tiny, adapter_path=str(moved)).identity() == first
    hashes = {first["peft"]["sha256"]}
    settings = json.loads((moved / CONFIG).read_text("utf-8"))
    (moved / CONFIG).write_text(json.dumps({**settings, "lora_alpha": 7}), "utf-8")
    hashes.add(model(tiny, adapter_path=str(moved)).identity()["peft"]["sha256"])
    change(moved, lambda weights: next(iter(weights.values())).add_(1))
    hashes.add(model(tiny, adapter_path=str(moved)).identity()["peft"]["sha256"])
    assert len(hashes) == 3


def change(folder: Path, changed: Any) -> None:
    weights = load_file(folder / WEIGHTS)
    changed(weights)
    save_file(weights, folder / WEIGHTS)


def configured(**settings: Any) -> Any:
    """Changes ``adapter_config.json`` to these settings."""

    def damage(folder: Path) -> None:
        stated = json.loads((folder / CONFIG).read_text("utf-8"))
        (folder / CONFIG).write_text(json.dumps(stated | settings), "utf-8")

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "is no folder here"),
        (lambda folder: (folder / CONFIG).unlink(), "has no adapter_config.json"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"has no adapter_model.safetensors; save"),
    ],
)
def test_what_is_no_adapter_is_said_before_weights_are_loaded(tiny, adapter, damage, message):
    damage(adapter)
    with pytest.raises(AdapterError, match=message):
        model(tiny, adapter_path=str(adapter)).identity()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (configured(r=5), "size mismatch"),
        (configured(target_modules=["other"]), "not found in the base model"),
        (lambda folder: change(folder, dict.popitem), "1 of its weights fit nothing"),
    ],
)
def test_an_adapter_of_another_base_is_an_error(tiny, adapter, damage, message):
    damage(adapter)
    with pytest.raises(AdapterError, match=f"cannot be put on .*{message}.*; name the base"):
        answers(model(tiny, adapter_path=str(adapter)), prompts(1))


def test_a_setting_of_a_newer_peft_that_has_a_value_is_refused(tiny, adapter):
    configured(new_default=None, new_flag=False)(adapter)
    answers(model(tiny, adapter_path=str(adapter), arithmetic="fast", max_tokens=1), prompts(1))
    configured(lora_gamma=2.0)(adapter)
    with pytest.raises(AdapterError, match=r"nothing applies lora_gamma \(here 2\.0\)"):
        answers(model(tiny, adapter_path=str(adapter), arithmetic="fast"), prompts(1))


def test_a_template_or_tokenizer_of_its_own_is_refused_where_it_is_another(tiny, adapter):
    for path in tiny.glob("*token*"):
        shutil.copy(path, adapter)
    for path in tiny.glob("chat_template*"):
        shutil.copy(path, adapter)
    given = model(tiny, adapter_path=str(adapter))
    given.prompting.load()
    save_tokenizer(adapter, TEMPLATE.replace("<|assistant|>", "<|system|>"))
    with pytest.raises(AdapterError, match="has a chat template of its own"):
        model(tiny, adapter_path=str(adapter)).prompting.load()
    model(tiny, adapter_path=str(adapter), chat_template=False).prompting.load()
    stated = json.loads((adapter / "tokenizer.json").read_text("utf-8"))
    stated["model"]["vocab"]["more"] = 400
    (adapter / "tokenizer.json").write_text(json.dumps(stated), "utf-8")
    with pytest.raises(AdapterError, match="has a tokenizer of its own"):
        model(tiny, adapter_path=str(adapter)).prompting.load()
