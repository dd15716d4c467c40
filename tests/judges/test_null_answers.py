"""Which null answers are put to which judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from refract.core.params import NullAnswerSettings
from refract.core.types import Row, Verdict, given_response
from refract.judges import open_judges
from refract.judges.cases import AnsweredSuite, Case, Judge, NoSettings, labelled
from refract.judges.null_answers import (
    CONSTANT_ANSWER,
    ECHO_OPENING,
    null_cases,
    null_verdicts,
    pairs_by_judge,
)
from tests.builders import prompt_row

SOURCES: dict[str, Row] = {}
for category, letter, number_of in (
    ("harmful", "h", 6),
    ("helpful", "k", 4),
    ("borderline", "b", 3),
):
    for number in range(number_of):
        id_ = f"{letter}{number}"
        SOURCES[id_] = {"id": id_, "prompt": f"question {id_}", "category": category}
PROMPTS: dict[str, Any] = {
    id_: prompt_row(id_, category=row["category"]) for id_, row in SOURCES.items()
}
ANSWERS = {id_: given_response(id_, f"answer {id_}") for id_ in SOURCES}


class Noting(Judge):
    """Calls everything compliance, and remembers what it was asked."""

    Settings = NoSettings
    FAMILY = "refusal"
    version = "1"

    def __init__(self, name: str, settings: Any) -> None:
        super().__init__(name, settings)
        self.asked: list[tuple[str, str]] = []

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        self.asked += [(case.prompt_text, case.answer) for case in cases]
        return [labelled("compliance") for _ in cases]


def drawn(pairs: int = 9, seed: int = 1, **changed: Any) -> list[Any]:
    answers = {**ANSWERS, **changed}
    return null_cases("s", AnsweredSuite(PROMPTS, answers, SOURCES), pairs=pairs, seed=seed)


def test_each_prompt_is_in_one_pair_and_no_answer_meets_its_own_prompt():
    cases = drawn()
    assert [null.kind for null in cases] == ["shuffled"] * 8 + ["echo"] * 8 + ["constant"] * 8
    shuffled = cases[:8]
    assert [null.category for null in shuffled] == ["harmful", "helpful"] * 4
    assert [null.pair for null in shuffled] == [0, 0, 1, 1, 2, 2, 3, 3]
    prompts = [null.case.prompt["prompt_id"] for null in shuffled]
    assert len(set(prompts)) == 8
    assert {*prompts[1::2]} == {"k0", "k1", "k2", "k3"}
    answers = [null.answer for null in shuffled]
    assert answers[::2] == answers[1::2]
    assert len(set(answers)) == 4
    assert all(answer[0] in "hk" for answer in answers)
    for null in shuffled:
        assert null.case.answer == f"answer {null.answer}"
        assert null.answer != null.case.prompt["prompt_id"]
        assert null.case.prompt_text == f"question {null.case.prompt['prompt_id']}"
    for null in cases[8:16]:
        assert null.case.answer == ECHO_OPENING + null.case.prompt_text
    assert {null.case.answer for null in cases[16:]} == {CONSTANT_ANSWER}
    assert [null.case.prompt["prompt_id"] for null in cases] == prompts * 3


def test_the_draw_is_by_the_seed_and_a_smaller_one_is_its_beginning():
    assert drawn() == drawn()
    assert drawn(seed=2) != drawn()
    assert [null for null in drawn() if null.pair < 2] == drawn(pairs=2)


def test_answers_without_a_text_are_not_shuffled_and_a_pair_without_an_answer_has_none():
    empty = {id_: given_response(id_, " ") for id_ in SOURCES}
    changed = {**empty, "h0": given_response("h0", "one"), "k0": given_response("k0", "two")}
    shuffled = [null for null in drawn(**changed) if null.kind == "shuffled"]
    assert {null.answer for null in shuffled} == {"h0", "k0"}
    for null in shuffled:
        assert null.case.prompt["prompt_id"] != null.answer
    assert [null.kind for null in drawn(**empty)] == ["echo"] * 8 + ["constant"] * 8


def test_the_prompt_stands_in_the_wording_that_was_answered():
    prompts = {**PROMPTS, "k0": {**PROMPTS["k0"], "attempts": ["too long", "shorter"]}}
    answers = {**ANSWERS, "k0": {**ANSWERS["k0"], "attempt": 1}}
    cases = null_cases("s", AnsweredSuite(prompts, answers, SOURCES), pairs=9, seed=1)
    assert {null.case.prompt_text for null in cases if null.case.prompt["prompt_id"] == "k0"} == {
        "shorter"
    }


@pytest.mark.parametrize("category", ["harmful", "helpful"])
def test_without_prompts_of_both_categories_there_are_none(category):
    kept = {id_: row for id_, row in PROMPTS.items() if row["category"] != category}
    assert null_cases("s", AnsweredSuite(kept, ANSWERS, SOURCES), pairs=9, seed=1) == []


def test_only_judges_of_refusal_are_asked_and_those_that_ask_a_model_about_fewer():
    kind = {"kind": f"{__name__}:Noting"}
    llm = {"kind": "llm_refusal", "model": {"adapter": "synthetic"}}
    judges = open_judges(
        {"first": kind, "calls": {"kind": "calls"}, "strings": {"kind": "strings"}, "llm": llm}
    )
    rows = null_verdicts(
        "s",
        AnsweredSuite(PROMPTS, ANSWERS, SOURCES),
        judges,
        NullAnswerSettings(sample=3, llm_sample=1),
        seed=1,
    )
    assert [tuple(sorted(row["judges"])) for row in rows] == [
        ("calls", "first", "llm") if row["pair"] < 1 else ("first",) for row in rows
    ]
    assert len(rows) == 18
    assert judges["first"].asked == [
        (null.case.prompt_text, null.case.answer) for null in drawn(pairs=3)
    ]
    none = NullAnswerSettings.model_construct(sample=0, llm_sample=0)
    assert null_verdicts("s", AnsweredSuite(PROMPTS, ANSWERS, SOURCES), judges, none, seed=1) == []


class Scoring(Noting):
    FAMILY = "refusal_score"


def test_a_judge_of_another_family_is_asked_where_it_is_the_first():
    noting, scoring = {"kind": f"{__name__}:Noting"}, {"kind": f"{__name__}:Scoring"}
    settings = NullAnswerSettings(sample=3)
    for order, asked in ((("a", "b"), {"a": 3, "b": 3}), (("b", "a"), {"b": 3})):
        judges = open_judges({name: {"a": scoring, "b": noting}[name] for name in order})
        assert pairs_by_judge(judges, settings) == asked
