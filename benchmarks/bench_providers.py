"""Speed of the providers' adapters beside a bare client, against one loopback server.

    python benchmarks/bench_providers.py [--repeats 3] [--whole]

The server has a process of its own. For each setting the clients take turns, and each one's best
time counts: the machine's other work only ever adds. The first call, which imports what it needs, is
made beforehand. With ``--whole`` each is a process of its own and its start counts: ``python -m
stages.model_inference`` with an empty store, which also writes its rows, beside clients that keep
nothing: of the package ``openai``, which is the measure, and of bare ``httpx2``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import httpx2  # noqa: E402

from benchmarks.processes import Used, run_python  # noqa: E402

# Prompts, calls at a time, seconds of latency, every so manieth call a 429 with Retry-After 0.2.
SETTINGS = {
    "1,000 prompts, 40 ms, 32 connections": (1000, 32, 0.04, 0),
    "the same, one call in five a 429": (1000, 32, 0.04, 5),
    "2,000 prompts, 200 ms, 64 connections": (2000, 64, 0.2, 0),
    "10,000 prompts, 5 ms, 256 connections": (10_000, 256, 0.005, 0),
}


@contextmanager
def server(latency: float, throttle_every: int) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, "-m", "tests.fault_server", "--latency", str(latency)]
    command += ["--retry-after", "0.2", "--throttle-every", str(throttle_every)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def bare(sdk: bool, url: str, prompts: list[str], concurrency: int) -> int:
    """As many workers as connections, each sleeping through its own Retry-After."""

    async def run() -> int:
        left, answered = iter(prompts), 0
        if sdk:
            import openai

            client = openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)
        else:
            limits = httpx2.Limits(max_connections=concurrency)
            client = httpx2.AsyncClient(limits=limits, timeout=60)

        async def ask(prompt: str) -> tuple[str | None, float]:
            """The answer, or the seconds to wait."""
            body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
            if sdk:
                try:
                    made = await client.chat.completions.create(**body, max_tokens=512)
                except openai.RateLimitError as error:
                    return None, float(error.response.headers["retry-after"])
                return made.choices[0].message.content, 0
            response = await client.post(f"{url}/v1/chat/completions", json=body)
            if response.status_code == 429:
                return None, float(response.headers["retry-after"])
            return response.json()["choices"][0]["message"]["content"], 0

        async def work() -> None:
            nonlocal answered
            for prompt in left:
                while not (reply := await ask(prompt))[0]:
                    await asyncio.sleep(reply[1])
                answered += 1

        async with client:
            await asyncio.gather(*(work() for _ in range(concurrency)))
        return answered

    return asyncio.run(run())


def definition(name: str, url: str, concurrency: int) -> dict[str, Any]:
    """A model behind the server, for one of the adapters."""
    return {
        "adapter": name,
        "model_id": "m",
        "base_url": f"{url}/v1" if name == "openai" else url,
        "api_key_env": None,
        "max_concurrency": concurrency,
    }


def adapter(name: str, url: str, prompts: list[str], concurrency: int) -> int:
    """The adapter as model-inference uses it."""
    from refract.models import open_model
    from refract.models.protocol import Request

    model = open_model("m", definition(name, url, concurrency))
    requests = [Request((({"role": "user", "content": prompt},),)) for prompt in prompts]
    return sum(answer.error is None for _, answer in model.answer(requests))


CLIENTS: dict[str, Callable[[str, list[str], int], int]] = {
    "bare openai": lambda *given: bare(True, *given),
    "bare httpx2": lambda *given: bare(False, *given),
    "openai adapter": lambda *given: adapter("openai", *given),
    "anthropic adapter": lambda *given: adapter("anthropic", *given),
}


def whole_commands(url: str, prompts: list[str], concurrency: int, repeats: int) -> dict[str, Used]:
    """The best of each, as processes of their own."""
    from refract.core.jsonl import write_rows
    from refract.core.types import given_prompt

    best: dict[str, Used] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows = ({**given_prompt(str(n), text), "suite": "s"} for n, text in enumerate(prompts))
        write_rows(folder / "data/prompts/s.jsonl", rows)
        given = folder / "prompts.json"
        given.write_text(json.dumps(prompts), "utf-8")
        model = definition("openai", url, concurrency)
        params = {"grid": {"models": ["m"], "suites": ["s"]}, "seed": 1, "models": {"m": model}}
        (folder / "params.yaml").write_text(json.dumps(params), "utf-8")
        commands = {
            f"bare {library}": (__file__, "--bare", library, url, str(given), str(concurrency))
            for library in ("openai", "httpx2")
        }
        commands["model-inference"] = ("-m", "stages.model_inference", "m")
        for turn in range(repeats):
            shutil.rmtree(folder / "data/responses", ignore_errors=True)
            for name, command in commands.items():
                used = run_python(folder, *command, REFRACT_CACHE=str(folder / f"store{turn}"))
                best[name] = Used(*map(min, used, best.get(name, used)))
            answers = (folder / "data/responses/m/s.jsonl").read_text("utf-8")
            assert answers.count("\n") == len(prompts)
    return best


def inside_one_process(
    url: str, prompts: list[str], concurrency: int, repeats: int
) -> dict[str, Used]:
    """The best of each client, all in this process."""
    best: dict[str, Used] = {}
    for client in CLIENTS.values():
        client(url, prompts[:1], 1)
    for _ in range(repeats):
        for name, client in CLIENTS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            answered = client(url, prompts, concurrency)
            used = Used(time.perf_counter() - wall, time.process_time() - cpu, 0)
            assert answered == len(prompts), f"{name} answered {answered} of {len(prompts)}"
            best[name] = Used(*map(min, used, best.get(name, used)))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    measure = whole_commands if options.whole else inside_one_process
    for title, (count, concurrency, latency, every) in SETTINGS.items():
        prompts = [f"What is {n} and one?" for n in range(count)]
        with server(latency, every) as url:
            best = measure(url, prompts, concurrency, options.repeats)
        calls = count * every // (every - 1) if every else count
        print(f"\n{title} (ideal {calls * latency / concurrency:.2f} s)")
        base = best["bare openai"]
        for name, used in best.items():
            print(
                f"  {name:18} {used.seconds:6.2f} s   {used.seconds / base.seconds:5.2f} of bare"
                f"   {used.cpu_seconds:5.2f} s CPU   {used.cpu_seconds / base.cpu_seconds:5.2f} of bare",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        library, address, path, connections = sys.argv[2:]
        texts = json.loads(Path(path).read_text("utf-8"))
        if bare(library == "openai", address, texts, int(connections)) != len(texts):
            sys.exit("not all answered")
    else:
        main()
