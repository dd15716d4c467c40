"""The prompts of published judges, byte for byte against those that the publishers' own code writes.

The publishers' code is run by an interpreter of its own (publishers.py), in an environment made
for it (publisher_packages.py).
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

import publishers
from publisher_packages import fetch_from
from refract.core.jsonl import read_rows
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.cases import Case
from refract.judges.verdict_reading import UnreadableVerdict
from refract_published.judges import names
from refract_published.judges.entry import find_judge
from refract_published.judges.readers import READERS, Read
from tests.builders import ROOT

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


REPLIES: dict[str, list[str]] = {name: [] for name in publishers.READINGS}
for row in read_rows(Path(__file__).with_name("publishers_replies.jsonl")):
    if row["reader"] in REPLIES:
        REPLIES[row["reader"]].append(row["reply"])
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
    sources = {name: find_judge(name).sources for name in names()}
    from_packages = {name for name in sources if any(source.package for source in sources[name])}
    assert from_packages - {"polyguard_harm", "wildguard_harm"} == set(publishers.PROMPTS)
    for name in ("polyguard", "wildguard"):
        entry, other = find_judge(name), find_judge(f"{name}_harm")
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


@pytest.mark.parametrize("reader", sorted(publishers.READINGS))
def test_a_reply_means_what_the_publishers_parser_takes_it_for(reader, published):
    for reply, theirs in zip(REPLIES[reader], published["readings"][reader], strict=True):
        try:
            ours = READERS[reader](reply)
        except UnreadableVerdict:
            ours = Read("")
        if reader.startswith("wildguard"):
            label, flawed = theirs
            assert {"harmless": "unharmful"}.get(ours.label, ours.label) == (label or "")
            assert not ours.label or ours.guessed == flawed
        elif reader == "strongreject_v1":
            assert [*(ours.rubric or {}).values()] == theirs
        # What the publisher of PolyGuard reads in untidy lines, this package does not.
        elif theirs is not None or not reader.startswith("polyguard"):
            assert (ours.label in ("harmful", "refusal")) == bool(theirs), reply
