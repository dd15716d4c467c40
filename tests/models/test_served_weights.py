"""A real instruct model behind llama.cpp's server: beside the same weights in this process.

The weights are SmolLM2-135M-Instruct's, as ``refract models fetch smollm2_135m`` puts them into the
user's data folder; without them the tests are skipped. llama.cpp's server is compiled, for minutes: the
tests use one that is in the user's cache folder, and put it there where REFRACT_TEST_LLAMA_CPP is set.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refract.core.environment import default_cache_folder
from refract.models import open_model
from refract.models.checkpoint import fetched_file
from refract.models.protocol import Answer
from refract.project import default_project
from tests.builders import ask
from tests.models.test_served_models import environment_with, free_port, serving

SMOLLM2 = default_project().params["models"]["smollm2_135m"]
BUILD = "REFRACT_TEST_LLAMA_CPP"
LLAMA_CPP = "0.3.36"
MOST_TOKENS = 32
PROMPTS = (
    "What is the capital of France?", "How do I get candle wax out of a tablecloth?",
    "Write one sentence about autumn.", "How can I steal a car?", "Which planet is the largest?",
    "Say hello in Spanish.",
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gguf_file() -> Path:
    """The weights that ``smollm2_135m`` names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFRACT_DATA", os.environ["REFRACT_TEST_FETCHED"])
        path = fetched_file(SMOLLM2["sha256"], SMOLLM2["gguf_file"])
    if not path.is_file():
        pytest.skip("needs the weights of smollm2_135m: refract models fetch smollm2_135m")
    return path


@pytest.fixture(scope="module")
def expected(gguf_file) -> dict[int, Answer]:
    """The answers of the ``hf`` adapter."""
    given = {"adapter": "hf", "model_id": str(gguf_file.parent), "gguf_file": gguf_file.name}
    given |= {"device": "cpu", "dtype": "float32", "max_tokens": MOST_TOKENS}
    return dict(open_model("local", given).answer([*map(ask, PROMPTS)]))


@pytest.fixture(scope="module")
def llama_cpp() -> Path:
    """A Python that has llama.cpp's server, compiled once for the user."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    folder = default_cache_folder() / "tests" / f"llama-cpp-python-{LLAMA_CPP}-{version}"
    if not folder.is_dir():
        if not os.environ.get(BUILD):
            pytest.skip(
                f"llama.cpp's server is not in {folder}; {BUILD}=1 compiles it, for minutes"
            )
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        package = f"llama-cpp-python[server]=={LLAMA_CPP}"
        try:
            environment_with(package, making, CMAKE_ARGS="-DLLAVA_BUILD=OFF")
            making.rename(folder)  # the environment is used by its path alone
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def llama_server(llama_cpp, gguf_file, tmp_path_factory) -> Iterator[str]:
    """The address of llama.cpp's server with the GGUF file as it is, in 4 bits."""
    port = free_port()
    command = [str(llama_cpp), "-m", "llama_cpp.server", "--model", str(gguf_file)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048", "--n_threads", "1"]
    url = f"http://127.0.0.1:{port}/v1"
    with serving(command, f"{url}/models", tmp_path_factory.mktemp("llama") / "log"):
        yield url


def test_llama_cpp_answers_every_prompt_and_some_as_the_hf_adapter(
    llama_server, expected, gguf_file, record_property
):
    """It computes with 4 and 8 bits where the adapter has dequantised weights: greedy answers part."""
    # Its server penalises repetition by 1.1 unless told otherwise: then no answer was the same.
    given = {"adapter": "openai", "model_id": str(gguf_file), "base_url": llama_server}
    given |= {"api_key_env": None, "max_tokens": MOST_TOKENS, "max_concurrency": 1, "timeout": 240}
    given["extra_body"] = {"repeat_penalty": 1.0}
    got = dict(open_model("served", given).answer([*map(ask, PROMPTS)]))
    assert {n: (a.error, a.prompt_tokens, a.response != "") for n, a in got.items()} == {
        n: (None, a.prompt_tokens, True) for n, a in expected.items()
    }
    assert {answer.finish_reason for answer in got.values()} <= {"stop", "length"}
    same = [
        n for n, answer in got.items() if answer.response.strip() == expected[n].response.strip()
    ]
    record_property("same answers", f"{len(same)} of {len(PROMPTS)}")
    assert same
