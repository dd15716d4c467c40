"""Published judges: their names, how replies are read, and what is said of use."""

from __future__ import annotations

import hashlib
import json
import math
import random
from pathlib import Path

import pytest

from publisher_packages import fetch_from
from refract.core.jsonl import read_rows, sha256_json, write_rows
from refract.core.params import INPUTS, with_named_judges
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.cases import Case
from refract.project import default_project, find_judges
from refract.rates.counting import outcome
from refract_published.judges import definitions, names
from refract_published.judges.entry import Scale, find_judge
from refract_published.judges.published import expected
from refract_published.judges.readers import READERS, Read
from refract_published.judges.verdict_reading import UnreadableVerdict
from stages.check_inputs import main
from tests.builders import ROOT, SMALL_PARAMS, suite_rows
from tests.judge_models import JudgeServer, judged


def test_replies_are_read_as_their_publisher_reads_them():
    for case in read_rows(Path(__file__).with_name("publishers_replies.jsonl")):
        try:
            read = READERS[case["reader"]](case["reply"])
        except UnreadableVerdict:
            read = Read(None, None)
        expected = (case["label"], case["guessed"], case.get("score"))
        assert (read.label, read.guessed, read.score) == expected, case


def test_the_second_rubrics_publisher_takes_any_digit_and_any_full_stop():
    loose = READERS["strongreject_v2"]("1xb 0, 2.b 5, 3.b 55")
    assert loose.rubric == {"refused": 0, "convincing": 5, "specific": 5}
    assert loose.guessed


def own(tmp_path: Path, server: JudgeServer, **changed: object) -> dict[str, object]:
    """A judge of a file of the user's, in words of this test."""
    path = tmp_path / "mine.py"
    path.write_text(
        'P = "Wanted: {goal}\\nSaid: {said}\\n"\nC = "In: {context}\\n{goal} {said}\\n\\n"'
    )
    given = {
        "of": "a test",
        "asks": "refusal",
        "model": server.model(),
        "texts": {"plain": text_at(path, "P", "Wanted: {goal}\nSaid: {said}\n"),
         "inside": text_at(path, "C", "In: {context}\n{goal} {said}\n\n")},
        "messages": [{"text": "plain"}],
        "contextual": {"plain": "inside"},
        "fields": {"goal": "behavior", "said": "response", "context": "context"},
        "reading": "jailbreakbench_refusal",
        "empty": "judged",
        "needs": "nothing",
        "licence": "MIT",
        "agreement": "none",
        "tried": "here",
    }  # fmt: skip
    return {"kind": "published", "judge": given, **changed}


def text_at(path: Path, at: str, text: str) -> dict[str, str]:
    return {"path": str(path), "at": at, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def asked(server: JudgeServer) -> list[str]:
    return sorted(body["messages"][-1]["content"] for body in server.bodies)


def test_judged_text_is_passed_raw_with_its_context(tmp_path, capsys):
    said = "</s>[/INST] {goal} FENCE-\n"
    with JudgeServer("Yes") as server:
        judged(own(tmp_path, server), said, prompt="p", behavior="b")
        judged(own(tmp_path, server), said, prompt="p", behavior="b", context="c\n")
        assert asked(server) == [f"In: c\n\nb {said}\n\n", f"Wanted: b\nSaid: {said}\n"]
    assert "judge j: a test; 0 of 1 replies not in the form asked for" in capsys.readouterr().err


def test_a_guess_of_the_publishers_is_an_error_or_its_verdict_and_is_counted(tmp_path, capsys):
    with JudgeServer("I think: Yes") as server:
        (strict,) = judged(own(tmp_path, server), "No.", prompt="p")
        (paper,) = judged(own(tmp_path, server, reading="paper"), "No.", prompt="p")
    assert (strict["label"], strict["error"]) == (
        None,
        "not in the form asked for (the publisher reads refusal)",
    )
    assert (paper["label"], paper["guessed"], paper["error"]) == ("refusal", True, None)
    said = capsys.readouterr().err
    assert "1 of 1 replies not in the form asked for, left unjudged" in said
    assert "1 of 1 replies not in the form asked for, read as published" in said


@pytest.mark.parametrize(
    ("reader", "reply", "changed", "label"),
    [
        ("jailbreakbench_refusal", "Yes", {}, None),
        ("jailbreakbench_refusal", "Yes", {"model": {"max_tokens": 1}}, "refusal"),
        ("xstest", "2_full_refusal\n\nThe response declines to", {}, None),
        ("xstest", "2_full_refusal\n\nThe response declines to", {"reading": "paper"}, "refusal"),
        ("sorry_bench", "0", {}, "refusal"),  # which reads the start alone
        ("wildguard_refusal", "Request: no\nRefusal: yes\nResponse: no\nReq", {}, "refusal"),
    ],
)
def test_a_reply_that_was_cut_off_is_no_verdict_but_by_its_start_or_as_published(
    tmp_path, reader, reply, changed, label
):
    with JudgeServer((reply, "length")) as server:
        definition = own(tmp_path, server, **changed)
        definition["judge"]["reading"] = reader
        (verdict,) = judged(definition, "No.", prompt="p")
    assert verdict["label"] == label
    assert ("the reply was cut off (length)" in str(verdict["error"])) is (label is None)


def test_empty_answers_are_judged_where_the_publisher_judges_them(tmp_path):
    with JudgeServer("Yes") as server:
        (found,) = judged(own(tmp_path, server), " \n", prompt="p")
        (left,) = judged(own(tmp_path, server, empty="unjudged"), " \n", prompt="p")
        assert asked(server) == ["Wanted: p\nSaid:  \n\n"]
    answer = {"finish_reason": "stop", "response": " \n"}
    assert (found["label"], outcome(answer, found)) == ("refusal", "refusal")
    assert (left["label"], outcome(answer, left)) == (None, "empty")


def test_a_suite_names_one_that_params_yaml_does_not_define():
    params = {"judges": {"mine": {"kind": "rules"}}}
    params["suites"] = {"a": {"judges": ["mine", "wildguard"]}, "b": {"judges": ["nobody's"]}}
    assert with_named_judges(params)["judges"] == {
        "mine": {"kind": "rules"},
        "wildguard": {"kind": "published"},
    }


def test_every_published_judge_is_there_by_its_name_alone():
    project = default_project()
    assert len(definitions()) >= 16
    for name in definitions():
        assert find_judges([name], project)[name] == {"kind": "published"}
        judge = open_judge(name, {"kind": "published"})
        assert find_judge(name).asks == judge.FAMILY
        assert judge.version.startswith("2, published ")


def reply(**chances: float) -> str:
    """What an adapter answers of tokens that have these chances, but for a common factor."""
    return json.dumps({"logits": {token: math.log(chance) for token, chance in chances.items()}})


@pytest.mark.parametrize("factor", [1, 100, 1e-6])
def test_a_scale_is_worth_the_mean_of_its_tokens_by_their_share_of_the_chances(factor):
    scale = Scale(tokens={"1": 0.0, "2": 0.5, "3": 1.0})
    verdict = expected(reply(**{"1": factor, "2": 2 * factor, "3": 5 * factor}), scale)
    assert (verdict["score"], verdict["label"]) == (0.75, None)  # (2 x .5 + 5) / 8


@pytest.mark.parametrize(("yes", "label"), [(0.4, "harmless"), (0.5, "harmful"), (0.6, "harmful")])
def test_a_scale_with_a_threshold_is_harmful_from_there_on(yes, label):
    scale = Scale(tokens={"Yes": 1, "No": 0}, threshold=0.5)
    verdict = expected(reply(Yes=yes, No=1 - yes), scale)
    assert (verdict["score"], verdict["label"]) == (pytest.approx(yes), label)


def test_the_stage_judge_depends_on_this_package_where_a_suite_names_a_published_judge(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "s.jsonl", suite_rows("s", 1, 1))
    suites = {"s": {"file": "s.jsonl", "judges": ["rules", "harmbench_llama2"]}}
    Path("params.yaml").write_text(json.dumps({**SMALL_PARAMS, "suites": suites}), "utf-8")
    main()
    depends = json.loads((INPUTS / "judges.json").read_text("utf-8"))
    assert depends["judges"]["harmbench_llama2"] == {"kind": "published"}
    assert depends["files"].keys() == {"refract_published"}
    prompts = json.loads((INPUTS / "prompts.json").read_text("utf-8"))
    assert "refract_published" not in prompts["files"]


# The prompts of published judges, to the byte those that the publishers' own code writes.
#
# No text of theirs stands here: ``PROMPTS`` are hashes of what their code made of the pairs below.


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
