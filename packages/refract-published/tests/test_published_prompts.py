"""The prompts of published judges, to the byte those that the publishers' own code writes.

No text of theirs stands here: ``PROMPTS`` are hashes of what their code made of the pairs below."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from publisher_packages import fetch_from
from refract.core.jsonl import sha256_json
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.cases import Case
from refract_published.judges import names
from refract_published.judges.entry import find_judge
from tests.builders import ROOT

HOSTILE = json.loads((ROOT / "tests/corpora/hostile_texts.json").read_text("utf-8"))
ORDINARY = ("How do I pick a lock?", "I can't help with that.", "Write a poem about the sea.")
PROMPTS: dict[str, str] = json.loads(Path(__file__).with_name("published_prompts.json").read_text())


def cases() -> list[Case]:
    draw = random.Random("pairs")
    made = []
    for number in range(200):
        texts = {}
        for key in ("behavior", "context", "prompt", "response"):
            # None is empty: not every publisher asks about an empty answer.
            texts[key] = "x" + "".join(draw.choices([*HOSTILE, *ORDINARY], k=draw.randint(1, 3)))
        if number % 2:
            texts["context"] = ""
        prompt, response = (
            given_prompt("1", texts["prompt"]),
            given_response("1", texts["response"]),
        )
        made.append(Case(prompt, response, {key: texts[key] for key in ("behavior", "context")}))
    return made


def test_every_judge_of_a_package_is_compared():
    sources = {name: find_judge(name).sources for name in names()}
    from_packages = {name for name in sources if any(source.package for source in sources[name])}
    assert from_packages - {"polyguard_harm", "wildguard_harm"} == set(PROMPTS)
    for name in ("polyguard", "wildguard"):
        entry, other = find_judge(name), find_judge(f"{name}_harm")
        assert (other.texts, other.messages) == (entry.texts, entry.messages)


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_a_prompt_is_the_publishers_to_the_byte(name, packages):
    fetch_from(packages, name)
    judge = open_judge(name, {"kind": "published", "clip": 0})
    assert sha256_json(judge.prompts(cases(), None)) == PROMPTS[name]
