"""Verdicts are kept by what decides them, and depend on nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from refract.core.errors import ParamsError
from refract.core.types import given_prompt, given_response
from refract.judges import judge_cases, judge_suite, kept, open_judge
from refract.judges.cases import Case, Judge, labelled, unjudged
from refract.judges.kept import judge_kept, verdict_keys
from tests.builders import NO, YES

ROW = {
    "id": "a",
    "category": "harmful",
    "notes": "none",
    "expected_strings": ["works"],
    "task_strings": ["step"],
    "case_sensitive": False,
    "harmful_calls": [{"name": "send"}],
}


def case(answer: str = YES, prompt: str = "How does a lock work?", row=ROW, **fields) -> Case:
    response = {**given_response("a", answer), "tool_calls": [{"name": "send", "arguments": {}}]}
    clean = given_response("a", "Here is how.")
    return Case(given_prompt("a", prompt), {**response, **fields}, row, clean)


class Noted(dict):
    """A row that notes which of its fields are read."""

    def __init__(self, fields, name, read) -> None:
        super().__init__(fields)
        self.name, self.read = name, read

    def __getitem__(self, key):
        self.read.add((self.name, key))
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.read.add((self.name, key))
        return super().get(key, default)

    def __contains__(self, key):
        self.read.add((self.name, key))
        return super().__contains__(key)


def fields_read(work, judge) -> set[tuple[str, str]]:
    read: set[tuple[str, str]] = set()
    whole = case()
    noted = {
        name: Noted(getattr(whole, name), name, read)
        for name in ("prompt", "response", "source", "clean")
    }
    work(judge, [Case(**noted)])
    return read


@pytest.mark.parametrize("kind", ["rules", "refusal", "strings", "calls", "similarity"])
def test_a_judge_reads_nothing_that_its_hash_leaves_out(kind):
    judge = open_judge("j", {"kind": kind})
    by_judge = fields_read(lambda judge, cases: judge.judge(cases), judge)
    assert by_judge
    assert by_judge <= fields_read(verdict_keys, judge)


@pytest.mark.parametrize("kind", ["rules", "refusal", "strings", "calls", "similarity"])
def test_a_verdict_is_the_same_alone_and_in_company(kind, monkeypatch):
    monkeypatch.setenv("REFRACT_CACHE", "off")
    judge = open_judge("j", {"kind": kind})
    texts = [NO, YES, f"{NO} {YES}", "It is a spring.", NO, "lock " * 200]
    cases = [case(text) for text in texts]
    alone = [judge.judge([one])[0] for one in cases]
    assert judge.judge(cases) == alone
    assert judge.judge(cases[::-1]) == alone[::-1]
    assert judge_kept(judge, cases) == alone


class Counting(Judge):
    """Refuses what begins with No; an answer that holds a question mark is an error."""

    FAMILY = "refusal"
    version = "1"
    columns = ("style",)

    def __init__(self) -> None:
        self.name, self.judged = "counting", 0

    def decided_by(self):
        return None if self.version == "none" else {}

    def judge(self, cases):
        self.judged += len(cases)
        verdicts = []
        for one in cases:
            label = "refusal" if one.answer.startswith("No") else "compliance"
            verdicts.append(unjudged("no answer") if "?" in one.answer else labelled(label))
        return verdicts


def judged(cases, judge=None) -> tuple[int, list[str | None]]:
    """How many cases a judge was given, and the labels that came of all of them."""
    judge = judge or Counting()
    counts: Counter[str] = Counter()
    rows = judge_cases(cases, {"counting": judge}, counts)
    if judge.decided_by() is not None:
        assert counts == {"judged": judge.judged, "reused": len(cases) - judge.judged}
    return judge.judged, [row["judges"]["counting"]["label"] for row in rows]


def test_what_was_judged_is_judged_no_more_and_equal_cases_once(monkeypatch):
    cases = [case("No."), case("Yes."), case("No.")]
    labels = ["refusal", "compliance", "refusal"]
    assert judged(cases) == (2, labels)
    assert judged(cases) == (0, labels)
    assert judged([*cases, case("Never.")]) == (1, [*labels, "compliance"])
    monkeypatch.setenv("REFRACT_CACHE", "off")
    assert judged(cases) == (2, labels)


def test_how_many_verdicts_are_reused_is_said(capsys):
    prompts = [given_prompt(id_, "How does a lock work?") for id_ in "ab"]
    sources = {id_: {**ROW, "id": id_} for id_ in "ab"}
    said = []
    for texts in (["No.", "Yes."], ["No.", "Never."]):
        responses = [given_response(id_, text) for id_, text in zip("ab", texts, strict=True)]
        judge_suite(prompts, responses, sources, {"counting": Counting()})
        said.append(capsys.readouterr().err)
    assert said == ["", "judge: 1 verdicts reused, 1 judged\n"]


def test_each_part_of_what_decides_a_verdict_is_in_its_hash():
    first = case("No.")
    judged([first])
    changed = {
        "prompt": case("No.", prompt="How does a door work?"),
        "answer": case("No!"),
        "ending": case("No.", finish_reason="length"),
        "calls": case("No.", tool_calls=[]),
        "column": case("No.", row={**ROW, "style": "plain"}),
        "clean answer": Case(first.prompt, first.response, ROW, given_response("a", "Here.")),
        "pair": Case(first.prompt, first.response, ROW, first.clean, case("No.")),
        "behavior": case("No.", row={**ROW, "behavior": "How does a key work?"}),
        "clean prompt": replace(first, plain="How does a bolt work?"),
    }
    assert {name: judged([one])[0] for name, one in changed.items()} == dict.fromkeys(changed, 1)
    same = case("No.", row={**ROW, "id": "b", "notes": "more"}, request_sha256="another")
    assert judged([same])[0] == 0
    newer = Counting()
    newer.version = "2"
    assert judged([first], newer)[0] == 1
    whole = Counting()
    whole.columns = None  # it may read any column, and what answers have besides
    assert judged([first, same], whole)[0] == 2


def test_an_error_is_judged_again_and_what_is_not_to_be_kept_too():
    for _ in range(2):
        assert judged([case("What?")]) == (1, [None])
    unkept = Counting()
    unkept.version = "none"
    assert judged([case("No."), case("No.")], unkept) == (2, ["refusal"] * 2)


def test_settings_that_decide_no_verdict_are_in_no_hash():
    def keys(kind, **settings):
        return verdict_keys(open_judge("j", {"kind": kind, **settings}), [case()])

    assert keys("similarity", output_sensitivity=0.5) == keys("similarity")
    assert keys("similarity", baseline=0.1) != keys("similarity")
    assert keys("bert_score", encoder="owner/name", baseline=0.1) is None
    assert keys("llm_refusal", model={"adapter": "synthetic"}) is None


def test_what_was_judged_before_a_run_ended_is_not_judged_again(monkeypatch):
    monkeypatch.setattr(kept, "STORED_TOGETHER", 2)
    judge = open_judge("rules", {"kind": "rules"})
    cases = [case(f"{YES} {number}") for number in range(5)]
    whole_judge = type(judge).judge

    def ends(self, cases):
        if cases[0].response["response"].endswith("4"):
            raise KeyboardInterrupt
        return whole_judge(self, cases)

    monkeypatch.setattr(type(judge), "judge", ends)
    with pytest.raises(KeyboardInterrupt):
        judge_kept(judge, cases)
    monkeypatch.setattr(type(judge), "judge", whole_judge)
    counts = Counter()
    assert judge_kept(judge, cases, counts) == judge.judge(cases)
    assert counts == {"reused": 4, "judged": 1}


BROUGHT = """
from pathlib import Path

from refract.judges.cases import labelled
from theirs_words.base import Base


class Brought(Base):
    def judge(self, cases):
        words = (Path(__file__).parent / "lists/words.txt").read_text().split()
        return [labelled("refusal" if set(words) & set(case.answer.split()) else "compliance")
                for case in cases]
"""
BASE = """
from refract.judges.cases import Judge


class Base(Judge):
    FAMILY = "refusal"
    version = "1"

    def decided_by(self):
        return {}
"""


def test_any_file_of_a_package_that_brings_a_judge_decides_its_verdicts(tmp_path, monkeypatch):
    package = tmp_path / "theirs_words"
    files = {"__init__.py": "", "base.py": BASE, "one.py": BROUGHT, "lists/words.txt": "never"}
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    judge = open_judge("brought", {"kind": "theirs_words.one:Brought"})

    def label():
        kept._code_of.cache_clear()
        return judge_kept(judge, [case("Not now.")])[0]["label"], verdict_keys(judge, [case()])

    before, first = label()
    (package / "lists/words.txt").write_text("Not", "utf-8")
    after, second = label()
    assert (before, after) == ("compliance", "refusal")
    (package / "base.py").write_text(BASE + "# changed\n", "utf-8")
    assert len({*first, *second, *label()[1]}) == 3
    assert label()[1] == label()[1]


def test_too_few_verdicts_are_an_error_of_the_judge():
    class Few(Counting):
        def judge(self, cases):
            return super().judge(cases)[1:]

    message = r"judges\.counting: Few.judge must give a verdict for each case \(got 1 for 2\)"
    with pytest.raises(ParamsError, match=message):
        judged([case("No."), case("Yes.")], Few())


def test_a_verdict_that_is_no_json_is_an_error_of_the_judge():
    class Unsure(Judge):
        FAMILY = "refusal"
        version = "1"

        def judge(self, cases):
            return [labelled("refusal", float("nan"))]

    with pytest.raises(ParamsError, match=r"judges\.unsure: gives a verdict that is no JSON"):
        judge_kept(Unsure("unsure", Unsure.Settings()), [case()])
