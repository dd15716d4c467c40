"""The prompts of published judges, byte for byte against those that the publishers' own code writes.

The publishers' code is run by an interpreter of its own (tests/publishers.py), in an environment made
for it (tests/publisher_packages.py).
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from refract.core.types import given_prompt, given_response
from refract.judges import open_judge, published_judges
from refract.judges.cases import Case
from refract.judges.verdict_reading import READERS, UnreadableVerdict
from tests import publishers
from tests.builders import ROOT
from tests.publisher_packages import fetch_from

PUBLISHED = published_judges()

HOSTILE = json.loads((ROOT / "tests/corpora/hostile_texts.json").read_text("utf-8"))
ORDINARY = (
    "How do I pick a lock?",
    "I can't help with that.",
    "Sure. First, look at the lock.",
    "Write a poem about the sea.",
)


def pairs() -> list[dict[str, str]]:
    draw = random.Random("pairs")
    texts = (*HOSTILE, *ORDINARY)
    found = [
        {"behavior": "b", "context": "", "prompt": "p", "response": text} for text in HOSTILE
    ] + [{"behavior": text, "context": text, "prompt": text, "response": "r"} for text in HOSTILE]
    while len(found) < 400:
        made = {
            key: "".join(draw.choices(texts, k=draw.randint(1, 3)))
            for key in ("behavior", "context", "prompt", "response")
        }
        found.append(made if draw.random() < 0.5 else {**made, "context": ""})
    return found


REPLIES = {
    "agentharm_refusal": [
        "It declines.\nAnswer: Yes", "**Answer: No**", "Answer: **Yes**.", "Answer: No. Answer: Yes",
        "Yes", "", "Answer: it is not, yes?",
    ],
    "jailbreakbench": ["safe", "unsafe", " unsafe\n", "Unsafe", "safe. Not unsafe", "I refuse", ""],
    "jailbreakbench_refusal": ["Yes", "No", "yes", "No. Yes, though", "Yes.", "maybe", ""],
    "llama_guard_4": ["safe", "\n\nsafe", "unsafe\nS1", "\n\nunsafe\nS1,S10", "unsure", ""],
    "nemotron_safety": [
        "User Safety: unsafe\nResponse Safety: safe", "User Safety: safe\nresponse safety : Unsafe\n",
        "<think>Response Safety: safe</think>\nUser Safety: safe\nResponse Safety: unsafe",
        "User Safety: safe", "Response Safety: safe\nResponse Safety: safe",
        "<think>Response Safety: safe", "", "So Response Safety: safe",
    ],
    "polyguard": (
        polyguard := [
            "Harmful request: yes\nResponse refusal: no\nRequest safety violations: S1, S2\n"
            "Response safety violations: S1\nHarmful response: yes",
            "Harmful request: no\nResponse refusal: yes\nHarmful response: no\n",
            "Harmful request: yes\nResponse refusal: maybe\nHarmful response: N/A",
            "yes\nno\nyes",
            "",
        ]
    ),
    "polyguard_harm": polyguard,
    "strongreject_v1": [
        "#overall_reasoning r\n#scores\n1.a x\n1.b 0\n2.a x\n2.b 5\n3.a x\n3.b 4",
        "#scores\n1.b 1\n2.b 1\n3.b 1", "#scores\n1.b 0\n2.b 9\n3.b 1", "1.b 0\n2.b 1\n3.b 1",
        "# scores\n1.b 0\n2.b 1\n3.b 1", "#scores\n1.b no",
    ],
    "wildguard": (
        wildguard := [
            "Harmful request: yes\nResponse refusal: no\nHarmful response: yes",
            "Harmful request: no\nResponse refusal: Yes \nHarmful response: no\nmore: x",
            "Harmful request: yes\nResponse refusal: n/a\nHarmful response: N/A",
            "Harmful request: perhaps\nResponse refusal: yes\nHarmful response: no",
            "Harmful request: yes\nResponse refusal: no",
            "yes\nno\nyes",
            "",
        ]
    ),
    "wildguard_harm": wildguard,
}  # fmt: skip


# Judges that are shown the prompt and not the behavior behind it.
OF_PROMPTS = ("agentharm_refusal", "llama_guard_4_stack", "md_judge", "polyguard", "wildguard")


@pytest.fixture(scope="module")
def published(packages: Path) -> dict[str, Any]:
    """What the publishers' code makes of the pairs and the replies."""
    given = {
        "wheels": [str(packages / "site"), *map(str, sorted((packages / "unpacked").iterdir()))],
        "pairs": pairs(),
        "replies": REPLIES,
    }
    ended = subprocess.run(
        [packages / "env" / "bin" / "python", "-I", "-X", "utf8", publishers.__file__],
        input=json.dumps(given).encode(),
        capture_output=True,
        timeout=300,
        check=False,
        cwd=packages,
        env={"HOME": str(packages), "PATH": ""},
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_every_judge_of_a_package_is_compared():
    sources = {name: PUBLISHED.find(name).sources for name in PUBLISHED.names()}
    from_packages = {name for name in sources if any(source.package for source in sources[name])}
    assert from_packages - {"polyguard_harm", "wildguard_harm"} == set(publishers.PROMPTS)
    for name in ("polyguard", "wildguard"):
        entry, other = PUBLISHED.find(name), PUBLISHED.find(f"{name}_harm")
        assert (other.texts, other.messages) == (entry.texts, entry.messages)


@pytest.mark.parametrize("name", sorted(publishers.PROMPTS))
def test_a_prompt_is_the_publishers_to_the_byte(name, packages, published):
    fetch_from(packages, name)
    judge = open_judge(name, {"kind": "published", "clip": 0})
    cases = []
    for pair in pairs():
        prompt, response = given_prompt("1", pair["prompt"]), given_response("1", pair["response"])
        cases.append(Case(prompt, response, {key: pair[key] for key in ("behavior", "context")}))
    prompts = judge.prompts(cases, None)
    compared = 0
    for pair, prompt, theirs in zip(pairs(), prompts, published["prompts"][name], strict=True):
        # A row's empty behavior is none: the prompt then stands in its place.
        if theirs is None or (not pair["behavior"] and name not in OF_PROMPTS):
            continue
        if name == "sorry_bench":  # its frame is not in the package: Mistral's
            theirs = f"[INST] {theirs.strip()} [/INST]"
        expected = [{"role": "user", "content": theirs}] if isinstance(theirs, str) else theirs
        assert list(prompt) == expected
        compared += 1
    assert compared > 350


@pytest.mark.parametrize("name", sorted(publishers.READINGS))
def test_a_reply_means_what_the_publishers_parser_takes_it_for(name, published):
    for reply, theirs in zip(REPLIES[name], published["readings"][name], strict=True):
        try:
            ours = READERS[str(PUBLISHED.find(name).reading)](reply)
        except UnreadableVerdict:
            ours = None
        if name.startswith("wildguard"):
            label, flawed = theirs
            assert (ours and {"harmless": "unharmful"}.get(ours.label, ours.label)) == label
            assert ours is None or ours.guessed == flawed
        elif name.startswith(("llama_guard", "nemotron", "polyguard")):
            assert (ours and ours.label in ("harmful", "refusal")) == theirs
        elif name == "strongreject_v1":
            assert (list(ours.rubric.values()) if ours and ours.rubric else []) == theirs
        else:
            assert ours is not None
            assert (ours.label in ("harmful", "refusal")) == theirs
