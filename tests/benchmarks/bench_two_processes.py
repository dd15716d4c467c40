"""Two processes that send requests to one server: requests a minute, and none lost, none doubled.

    python tests/benchmarks/bench_two_processes.py [--prompts 10000] [--repeats 3]

The server is in this process; each of the two is the stage ``model-inference`` as DVC runs it, and
both use one store. Settings: two models, each with ``requests_per_minute: 10000``, so that the two
together may send 20,000; the same without a cap; and one model whose two clones have half of their
prompts in common, which are to be sent once. The server counts each prompt's requests. Of each setting
the fastest run is printed: other work on the machine only ever slows it down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from refract.core.jsonl import read_rows, write_rows  # noqa: E402
from refract.core.types import given_prompt  # noqa: E402
from tests.fault_server import FaultServer  # noqa: E402


class Watched(FaultServer):
    """Notes when which model was sent which prompt."""

    def __init__(self, latency: float) -> None:
        super().__init__(latency, keep=False)
        self.arrivals: list[tuple[float, str, str]] = []

    def chat(self, request: dict[str, Any], head: str, anthropic: bool) -> tuple[int, bytes, str]:
        text = request["messages"][-1]["content"]
        self.arrivals.append((time.monotonic(), request["model"], text))
        return super().chat(request, head, anthropic)


class Share(NamedTuple):
    """What one process asks: a model, and the numbers of its prompts."""

    model: str
    prompts: range


class Result(NamedTuple):
    """``per_minute``: from the first request to the last; ``lost``: prompts without their answer;
    ``doubled``: requests beyond one for each model and prompt."""

    per_minute: float
    lost: int
    doubled: int


def run(
    folder: Path, shares: Sequence[Share], settings: Mapping[str, Any], latency: float
) -> Result:
    """Has each share asked by a process of its own, at the same time, through one store."""
    with Watched(latency) as server:
        started = [
            _start(
                folder / str(number),
                share,
                server.model(model_id=share.model, **settings),
                folder / "store",
            )
            for number, share in enumerate(shares)
        ]
        for process in started:
            printed = process.communicate()[0]
            assert process.returncode == 0, printed
    asked = Counter((model, text) for _, model, text in server.arrivals)
    wanted = {(share.model, _text(n)) for share in shares for n in share.prompts}
    seconds = server.arrivals[-1][0] - server.arrivals[0][0]
    return Result(
        per_minute=60 * (len(server.arrivals) - 1) / seconds,
        lost=len(wanted - asked.keys())
        + sum(_missing(folder / str(number), share) for number, share in enumerate(shares)),
        doubled=asked.total() - len(asked),
    )


def _text(number: int) -> str:
    return f"What is {number} and one?"


def _start(
    folder: Path, share: Share, definition: Mapping[str, Any], store: Path
) -> subprocess.Popen[str]:
    rows = ({**given_prompt(str(n), _text(n)), "suite": "s"} for n in share.prompts)
    write_rows(folder / "data/prompts/s.jsonl", rows)
    params = {"grid": {"models": ["m"], "suites": ["s"]}, "seed": 1, "models": {"m": definition}}
    (folder / "params.yaml").write_text(json.dumps(params), "utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "stages.model_inference", "m"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "REFRACT_CACHE": str(store)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _missing(folder: Path, share: Share) -> int:
    """How many of a share's prompts did not get the answer to their own text, in their order."""
    rows = read_rows(folder / "data/responses/m/s.jsonl")
    answers = [(row["prompt_id"], row["response"]) for row in rows]
    wanted = [(str(number), f"echo: {_text(number)}") for number in share.prompts]
    return sum(answer != want for answer, want in zip(answers, wanted, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=10_000, help="of each process")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds before each answer")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    whole = range(options.prompts)
    later = range(options.prompts // 2, options.prompts // 2 + options.prompts)
    two = [Share("one", whole), Share("two", whole)]
    for title, shares, settings in (
        ("two models, requests_per_minute: 10000 each", two, {"requests_per_minute": 10_000}),
        ("two models, no cap", two, {}),
        ("one model, half the prompts in common", [Share("one", whole), Share("one", later)], {}),
    ):
        results = []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                results.append(run(Path(folder), shares, settings, options.latency))
        lost, doubled = (sum(getattr(r, key) for r in results) for key in ("lost", "doubled"))
        speeds = sorted(result.per_minute for result in results)
        print(
            f"{title}: {speeds[-1]:,.0f} requests a minute (slowest run {speeds[0]:,.0f}); "
            f"in {len(results)} runs {lost} lost, {doubled} doubled",
            flush=True,
        )


if __name__ == "__main__":
    main()
