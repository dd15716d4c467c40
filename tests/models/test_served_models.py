"""The adapters in front of servers that others wrote, on a pocket model."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refract.models import open_model
from tests.builders import ask

ROOT = Path(__file__).resolve().parents[2]
POCKET = ROOT / "data/pocket/small"
PROMPTS = ("What is the capital of France?", "Tell me how to bake bread.", "Why?", "Zażółć 🜁")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(command: list[str], health: str, log: Path, **environment: str) -> Iterator[None]:
    """Runs a server until the block ends; skips the test where it does not start."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | environment
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(health, timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"{command[0]} did not start: {log.read_text()[-500:]}")
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


def environment_with(package: str, folder: Path, timeout: float | None = None, **env: str) -> None:
    """Makes an environment of its own for a package; skips the test where that cannot be done."""
    pip = [folder / "bin/pip", "install", "--quiet", package]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run(pip, check=True, capture_output=True, timeout=timeout, env=os.environ | env)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error).encode()
        pytest.skip(f"{package} cannot be installed: {reason[-300:].decode()}")


@pytest.fixture(scope="module")
def transformers_serve(tmp_path_factory) -> Iterator[str]:
    """The address of ``transformers serve`` with the smallest pocket model."""
    if not (POCKET / "model.safetensors").is_file():
        pytest.skip("data/pocket/small is not there: dvc pull or dvc repro")
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"transformers serve needs {package}: pip install 'transformers[serving]'")
    port = free_port()
    program = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "serve", str(POCKET), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--device", "cpu"]
    health = f"http://127.0.0.1:{port}/health"
    log = tmp_path_factory.mktemp("serve") / "log"
    with serving(command, health, log, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1"):
        yield f"http://127.0.0.1:{port}/v1"


def served(url: str, **settings: object):
    """An adapter in front of a server, the openai one unless said otherwise."""
    definition = {"adapter": "openai", "model_id": str(POCKET), "base_url": url}
    definition |= {"api_key_env": None, "max_tokens": 12, "max_concurrency": 2, "timeout": 60}
    return open_model("served", definition | settings)


def test_transformers_serve_answers_as_the_same_model_in_this_process(transformers_serve):
    local = {"adapter": "hf", "model_id": str(POCKET), "max_tokens": 12, "device": "cpu"}
    expected = dict(open_model("local", local).answer([*map(ask, PROMPTS)]))
    got = dict(served(transformers_serve).answer([*map(ask, PROMPTS)]))
    assert {n: (a.response.strip(), a.error) for n, a in got.items()} == {
        n: (a.response.strip(), a.error) for n, a in expected.items()
    }
    assert [got[n].prompt_tokens for n in range(4)] == [expected[n].prompt_tokens for n in range(4)]
