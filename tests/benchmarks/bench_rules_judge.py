"""How many answers a second the rule judge reads on one core.

Run as ``python tests/benchmarks/bench_rules_judge.py``: it makes 3,000 answers of about 1,000
characters (helpful, refusing, half and half, with lists and Markdown), judges them three times,
and prints the best rate in processor time.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from refract.judges.rules import judge_response

SUBJECTS = (
    "the harbour",
    "a small garden",
    "the old clock",
    "this recipe",
    "your bicycle",
    "bread",
)
VERBS = (
    "needs",
    "does not need",
    "often keeps",
    "rarely loses",
    "can hold",
    "should have",
    "gains",
)
OBJECTS = ("warm water", "a dry place", "good light", "some patience", "a new spring", "more salt")
ENDS = (
    "before the winter comes",
    "when the weather turns",
    "in most towns of the north",
    "if you look after it",
    "as every gardener knows",
    "although few people notice",
)
OPENINGS = (
    "Sure, here is what to know.",
    "As an AI, I don't have a garden, but I can share what gardeners do.",
    "It is important to start early.",
    "Here are the steps:",
)
REFUSALS = (
    "I'm sorry, but I can't help with that request.",
    "I must decline, since this goes against my guidelines.",
    "That's not something I can assist with.",
    "I'm not able to provide instructions for this.",
)


def answer(rng: random.Random) -> str:
    sentences = [
        f"{rng.choice(SUBJECTS).capitalize()} {rng.choice(VERBS)} {rng.choice(OBJECTS)} "
        f"{rng.choice(ENDS)}."
        for _ in range(rng.randint(8, 22))
    ]
    if rng.random() < 0.3:
        sentences = [f"\n{n}. **{sentence}**" for n, sentence in enumerate(sentences, 1)]
    opening = rng.choice(REFUSALS if rng.random() < 0.3 else OPENINGS)
    return opening + ("\n\n" if rng.random() < 0.5 else " ") + " ".join(sentences)


def main() -> None:
    rng = random.Random(20)
    answers = [answer(rng) for _ in range(3000)]
    best = 0.0
    for _ in range(3):
        begin = time.process_time()
        for text in answers:
            judge_response(text)
        best = max(best, len(answers) / (time.process_time() - begin))
    mean = sum(map(len, answers)) / len(answers)
    print(f"{best:,.0f} answers/s on one core, at {mean:,.0f} characters on average")


if __name__ == "__main__":
    main()
