"""``adapter: vllm``, on a stand-in that takes what vLLM 0.33.0 takes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError
from refract.models.store import request_sha256
from tests.builders import ask
from tests.builders import in_order as answers
from tests.small_models import model, prompts

HERE = Path(__file__).parent
REAL = importlib.util.find_spec("vllm") is not None
RELEASE = "vllm==0.33.0"


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """The stand-in, installed."""
    monkeypatch.setenv("STAND_IN_VLLM_API", (HERE / "vllm_0.33.0.json").read_text())
    monkeypatch.delenv("VLLM_BATCH_INVARIANT", raising=False)
    (tmp_path / "vllm.py").write_text((HERE / "stand_in_vllm.py").read_text())
    info = tmp_path / "vllm-0.33.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.33.0\n")
    (info / "top_level.txt").write_text("vllm\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("vllm", None)


def opened(folder, **settings):
    return open_model("m", {"adapter": "vllm", "model_id": str(folder), **settings})


def test_answers_are_those_of_the_same_weights_and_checkable_token_by_token(tiny, engine, tmp_path):
    """Prompt, template, system prompt, ends, tokens: all as exact decoding has them."""
    folder = Path(shutil.copytree(tiny, tmp_path / "weights"))
    ends = {"eos_token_id": [2, *range(40, 60)]}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    common = {"max_tokens": 24, "system_prompt": "Be brief."}
    asked = [*prompts(12), ask("x" * 600)]
    fast, checking = opened(folder, **common, max_model_len=500), model(folder, **common)
    made = answers(fast, asked)
    assert made[:12] == answers(checking, asked[:12])
    assert {answer.finish_reason for answer in made} == {"stop", "length", "error"}
    assert (made[12].error or {})["type"] == "PromptTooLong"
    found = model(folder, **common).verify(asked[:12], made[:12])
    assert {c.problem or c.unchecked for _, c in found} == {""}
    assert fast.runtime == fast.runtime | {"engine": RELEASE, "batch_invariant": False}
    (call,) = sys.modules["vllm"].CALLS
    assert (call["model"], call["max_model_len"], call["mode"]) == (str(folder), 500, "0")


def test_engine_release_and_mode_are_part_of_a_request(tiny, engine, monkeypatch):
    def key(**settings):
        adapter = opened(tiny, **settings)
        return request_sha256(json.dumps(identity_of(adapter), sort_keys=True), ask("x"), adapter)

    plain = key()
    assert identity_of(opened(tiny))["arithmetic"] == RELEASE
    assert key(engine=RELEASE, gpu_memory_utilization=0.5) == plain
    others = [{"engine": "vllm==0.33.1"}, {"batch_invariant": True}, {"dtype": "bfloat16"}]
    others += [{"tensor_parallel_size": 2}, {"engine_args": {"quantization": "fp8"}}]
    assert len({plain, *(key(**given) for given in others)}) == 6
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert key() == key(batch_invariant=True) != plain
    assert key(batch_invariant=False) == plain


def test_the_mode_is_set_for_the_process_and_another_one_is_refused(tiny, engine):
    answers(opened(tiny, batch_invariant=True, max_tokens=2), prompts(1))
    assert sys.modules["vllm"].CALLS[-1]["mode"] == "1"
    with pytest.raises(AdapterError, match=r"one mode in a process, and this one has VLLM_B.*=1"):
        answers(opened(tiny, batch_invariant=False, max_tokens=2), prompts(1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "vllm==0.32.0"}, "0.32.0 is to answer, and vllm==0.33.0 is installed"),
        ({"dtype": "float16"}, "vllm==0.33.0 failed: RuntimeError: no memory"),
        ({"engine_args": {"no_such": 1}}, "vllm==0.33.0 failed: AssertionError"),
    ],
)
def test_an_engine_that_cannot_run_says_why(tiny, engine, settings, message):
    with pytest.raises(AdapterError, match=message):
        answers(opened(tiny, **settings), prompts(1))


def test_a_request_that_the_engine_gives_up_is_an_error(tiny, engine, monkeypatch):
    monkeypatch.setenv("ENDED", "abort")
    (answer,) = answers(opened(tiny, max_tokens=2), prompts(1))
    assert answer.error == {"type": "EngineError", "message": "vLLM ended it as 'abort'"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine_args": {"seed": 1}}, "engine_args: seed follows from other settings"),
        ({"stop": "x", "reasoning": ["<a>", "</a>"]}, "stop: vLLM would look for it in the think"),
        ({"engine": "0.33.0"}, "a release such as vllm==0.33.0"),
    ],
)
def test_definitions_that_cannot_mean_anything_are_refused(settings, message):
    with pytest.raises(ParamsError, match=message):
        opened("folder", **settings)


@pytest.mark.skipif(REAL, reason="vLLM is installed")
def test_without_vllm_a_message_says_what_to_install(tiny):
    with pytest.raises(AdapterError, match=r"pip install 'refract-eval\[vllm\]'"):
        opened(tiny).identity()
    assert opened(tiny, engine=RELEASE).identity()["arithmetic"] == RELEASE
    with pytest.raises(AdapterError, match="and none is installed here; run: pip install vllm=="):
        answers(opened(tiny, engine=RELEASE), prompts(1))
