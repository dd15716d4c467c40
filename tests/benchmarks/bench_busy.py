"""What other work on the machine costs the ``hf`` adapter:

    python tests/benchmarks/bench_busy.py --size 25M --repeats 3

The same prompts are answered in turn with the machine as it is and beside ``--loops`` busy loops, each
time in a process of its own, since PyTorch reads how its threads wait only when it is loaded.
``chosen`` leaves threads and waiting to the adapter; ``spinning`` is PyTorch's own way: all processors,
and threads that spin. Prints one JSON object: seconds of each, best of the repeats, and
``busy_over_quiet``, which is to be at most 2.5 for ``chosen`` on a machine that is otherwise at rest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from refract.core.progress import SPINS  # noqa: E402

WAYS = {
    "chosen": {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": SPINS},  # as the stages set them
    "spinning": {"OMP_WAIT_POLICY": "ACTIVE", "THREADS": str(os.cpu_count())},
}


def answer(folder: str, prompts: int, new_tokens: int) -> None:
    """Prints the seconds from the loading of the weights to the last answer, and what it ran on."""
    from refract.models.hf import HF
    from refract.models.protocol import Request
    from tests.benchmarks.bench_hf_throughput import heavy_tailed

    definition = {
        "model_id": folder,
        "chat_template": False,
        "max_tokens": new_tokens,
        "device": "cpu",
        "threads": int(os.environ["THREADS"]) if "THREADS" in os.environ else None,
    }
    adapter = HF("benchmark", HF.Settings(**definition))
    adapter._load_tokenizer()
    texts = heavy_tailed(prompts, 300)
    requests = [Request((({"role": "user", "content": text},),)) for text in texts]
    start = time.perf_counter()
    list(adapter.answer(requests))
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "threads": adapter.runtime["threads"]}))


def main() -> None:
    from tests.benchmarks.bench_hf_throughput import SIZES, save

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="25M")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    seconds: dict[str, dict[str, float]] = {way: {} for way in WAYS}
    threads: dict[str, dict[str, int]] = {way: {} for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        save(folder, options.size, "float32")
        command = [sys.executable, __file__, folder, str(options.prompts), str(options.new_tokens)]
        for _ in range(options.repeats):
            for way, variables in WAYS.items():
                for state, count in (("quiet", 0), ("busy", options.loops)):
                    loops = [
                        subprocess.Popen([sys.executable, "-c", "while True: pass"])
                        for _ in range(count)
                    ]
                    try:
                        output = subprocess.run(
                            command, env=environment | variables, stdout=subprocess.PIPE, check=True
                        ).stdout
                    finally:
                        for loop in loops:
                            loop.kill()
                            loop.wait()
                    found = json.loads(output)
                    best = min(seconds[way].get(state, found["seconds"]), found["seconds"])
                    seconds[way][state], threads[way][state] = round(best, 2), found["threads"]
    ratios = {way: round(found["busy"] / found["quiet"], 2) for way, found in seconds.items()}
    print(json.dumps({"seconds": seconds, "threads": threads, "busy_over_quiet": ratios}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        answer(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
