"""Keys and tensors of a model's files that are renamed, removed or added: each has no effect, changes
answers as transformers' own do, or is refused."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from refract.models.protocol import AdapterError
from tests.small_models import answers, ask, model

ASKED = [ask("Hello there"), ask("0 abcd")]
# Changes of each file, of all that there are by seed.
TRIED = 8
ADDED = {"use_cache": False, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "made_up": 1}
ADDED |= {"eos_token_id": 70, "hidden_act": "gelu", "add_bos_token": False, "head_dim": 32}
ADDED |= {"num_experts": 4, "sliding_window": 4, "repetition_penalty": 9.0, "temperature": 2.0}
ADDED |= {"no_repeat_ngram_size": 1, "suppress_tokens": [*range(6, 200)], "min_length": 60}
ADDED |= {"num_beams": 3, "forced_eos_token_id": 2, "bad_words_ids": [[70]], "stop_strings": ["e"]}
ADDED |= {"tie_word_embeddings": False, "rms_norm_eps": 0.5}


def changes(names: list[str]) -> list[tuple[str, str]]:
    """What can be done with a file's keys; some of it, by seed."""
    every = [(how, name) for name in sorted(names) for how in ("removed", "renamed")]
    every += [("added", name) for name in ADDED]
    return random.Random(len(names)).sample(every, TRIED)


def changed(content: dict, how: str, name: str) -> None:
    if how == "added":
        content[name] = ADDED[name]
    else:
        value = content.pop(name)
        if how == "renamed":
            content[name + "_x"] = value


def own_answers(folder: Path, gguf_file: str | None = None) -> list[str]:
    """What transformers makes of the files, without a line of this project."""
    import transformers

    named = {"gguf_file": gguf_file} if gguf_file else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **named)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32", **named)
    ends = {tokenizer.eos_token_id}
    for source in (network.config, network.generation_config):
        ids = source.eos_token_id
        ends.update(ids if isinstance(ids, list) else [ids])
    set_here = {"max_new_tokens": 6, "pad_token_id": 0, "do_sample": False}
    set_here["eos_token_id"] = sorted(ends - {None})
    if getattr(network.generation_config, "stop_strings", None):
        set_here["tokenizer"] = tokenizer
    texts = []
    for request in ASKED:
        messages, templated = list(request.attempts[0]), tokenizer.chat_template is not None
        text = messages[0]["content"]
        if templated:
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        ids = tokenizer(text, add_special_tokens=not templated, return_tensors="pt")["input_ids"]
        made = network.generate(input_ids=ids, **set_here)[0, ids.shape[1] :]
        texts.append(tokenizer.decode(made, skip_special_tokens=True))
    return texts


def outcome(folder: Path, gguf_file: str | None = None) -> str:
    """``refused``, ``as transformers``, or ``said`` of what is not applied; anything else fails."""
    given = {"arithmetic": "fast", "max_tokens": 6, "dtype": "float32", "gguf_file": gguf_file}
    opened = model(folder, **given)
    try:
        made = answers(opened, ASKED)
    except AdapterError:
        return "refused"
    if [answer.response for answer in made] == own_answers(folder, gguf_file):
        return "as transformers"
    assert "not_applied" in opened.runtime
    return "said"


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "tokenizer_config.json"])
def test_a_changed_key_is_refused_or_means_what_it_means_to_transformers(tiny, tmp_path, file):
    folder = Path(shutil.copytree(tiny, tmp_path / "model"))
    path = folder / file
    content = path.read_text()
    outcomes = []
    for how, name in changes(list(json.loads(content))):
        edited = json.loads(content)
        changed(edited, how, name)
        path.write_text(json.dumps(edited))
        outcomes.append(outcome(folder))
    assert "as transformers" in outcomes
