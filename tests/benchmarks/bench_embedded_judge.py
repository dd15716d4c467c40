"""How many answers a second the embedded judges read on two cores.

    python tests/benchmarks/bench_embedded_judge.py [FILE.jsonl]

FILE has `prompt` and `response` in each row; without one, answers are made up as
`bench_rules_judge.py` makes them, nearly all of which fill the encoder's window. Each judge reads 240
of them three times and the best counts. ``per_second`` is by the clock, ``per_second_two_cores`` twice
what one thread reads in a second of processor time, which other work on the machine does not change.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.cases import Case
from tests.benchmarks.bench_rules_judge import answer

COUNT = 240


def cases() -> list[Case]:
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text("utf-8").split("\n")
        rows = [json.loads(line) for line in lines if line]
        pairs = [(row.get("prompt") or "", row["response"]) for row in rows if row["response"]]
        pairs = random.Random(0).sample(pairs, min(COUNT, len(pairs)))
    else:
        rng = random.Random(0)
        pairs = [("How do I look after it?", answer(rng)) for _ in range(COUNT)]
    return [
        Case(given_prompt(str(n), prompt), given_response(str(n), response), {})
        for n, (prompt, response) in enumerate(pairs)
    ]


def main() -> None:
    given = cases()
    for kind in ("learned", "embedded"):
        judge = open_judge(kind, {"kind": kind})
        judge.judge(given[:16])  # loads the weights
        rates = {}
        for threads, clock in ((2, time.perf_counter), (1, time.process_time)):
            torch.set_num_threads(threads)
            took = []
            for _ in range(3):
                start = clock()
                judge.judge(given)
                took.append(clock() - start)
            rates[threads] = len(given) / min(took)
        print(
            json.dumps(
                {
                    "judge": kind,
                    "answers": len(given),
                    "per_second": round(rates[2]),
                    "per_second_two_cores": round(2 * rates[1]),
                }
            )
        )


if __name__ == "__main__":
    main()
