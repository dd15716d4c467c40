"""How many answers a second the judges of this project read.

    python tests/benchmarks/bench_judge_speed.py [FILE.jsonl]

FILE has `prompt` and `response` in each row; without one, answers of about 1,000 characters are made
up (helpful, refusing, half and half, with lists and Markdown). Each judge reads them three times and
the best counts. ``per_second`` is by the clock on all cores, ``per_second_core`` what one thread
reads in a second of processor time, which other work on the machine does not change.
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

COUNTS = {"rules": 3000, "learned": 240, "embedded": 240}
SUBJECTS = ("the harbour", "a small garden", "the old clock", "this recipe", "your bicycle")
VERBS = ("needs", "does not need", "often keeps", "rarely loses", "can hold", "should have")
OBJECTS = ("warm water", "a dry place", "good light", "some patience", "a new spring")
ENDS = ("before the winter comes", "when the weather turns", "as every gardener knows")
OPENINGS = (
    "Sure, here is what to know.",
    "As an AI, I don't have a garden, but I can share what gardeners do.",
    "Here are the steps:",
    "I'm sorry, but I can't help with that request.",
    "I must decline, since this goes against my guidelines.",
)


def answer(rng: random.Random) -> str:
    sentences = [
        f"{rng.choice(SUBJECTS).capitalize()} {rng.choice(VERBS)} {rng.choice(OBJECTS)} "
        f"{rng.choice(ENDS)}."
        for _ in range(rng.randint(8, 22))
    ]
    if rng.random() < 0.3:
        sentences = [f"\n{n}. **{sentence}**" for n, sentence in enumerate(sentences, 1)]
    return rng.choice(OPENINGS) + rng.choice(("\n\n", " ")) + " ".join(sentences)


def cases(count: int) -> list[Case]:
    rng = random.Random(20)
    pairs = [("How do I look after it?", answer(rng)) for _ in range(count)]
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text("utf-8").split("\n")
        rows = [json.loads(line) for line in lines if line]
        pairs = [(row.get("prompt") or "", row["response"]) for row in rows if row["response"]]
        pairs = rng.sample(pairs, min(count, len(pairs)))
    return [
        Case(given_prompt(str(n), prompt), given_response(str(n), response), {})
        for n, (prompt, response) in enumerate(pairs)
    ]


def main() -> None:
    cores = torch.get_num_threads()
    for kind, count in COUNTS.items():
        given = cases(count)
        judge = open_judge(kind, {"kind": kind})
        judge.judge(given[:16])  # loads the weights
        rates = {}
        for threads, clock in ((cores, time.perf_counter), (1, time.process_time)):
            torch.set_num_threads(threads)
            took = []
            for _ in range(3):
                start = clock()
                judge.judge(given)
                took.append(clock() - start)
            rates[clock] = round(len(given) / min(took))
        figures = {
            "per_second": rates[time.perf_counter],
            "per_second_core": rates[time.process_time],
        }
        print(json.dumps({"judge": kind, "answers": len(given), "cores": cores, **figures}))


if __name__ == "__main__":
    main()
