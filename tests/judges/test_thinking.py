"""Judges that read thinking: apart from the answer, beside its judge, and in no headline."""

from __future__ import annotations

import pytest

from refract.core.errors import ParamsError
from refract.core.types import given_prompt, given_response
from refract.judges import (
    DefinedJudge,
    check_counted,
    judge_suite,
    judges_to_measure,
    open_judge,
    open_judges,
    thinking_warnings,
)
from refract.judges.cases import Case
from refract.judges.kept import verdict_keys
from refract.judges.null_answers import pairs_by_judge
from refract.rates import aggregate_suite

NO, YES = "I'm sorry, but I can't help with that.", "Here are the steps: first open the lid."
DEFINITIONS = {"rules": {"kind": "rules"}, "thought": {"kind": "rules", "reads": "thinking"}}
# What was thought and answered, by id; nothing of the last two is compared.
ROWS = {
    "a": (NO, YES),
    "b": (YES, NO),
    "c": (NO, NO),
    "d": (NO, YES),
    "e": (None, YES),
    "f": (NO, ""),
}


def judged():
    sources = [{"id": id_, "prompt": "p", "category": "harmful"} for id_ in ROWS]
    prompts = [{**given_prompt(id_, "p"), "category": "harmful"} for id_ in ROWS]
    responses = [{**given_response(k, text), "thinking": t} for k, (t, text) in ROWS.items()]
    judges = open_judges(DEFINITIONS)
    verdicts = judge_suite(prompts, responses, {row["id"]: row for row in sources}, judges)
    return sources, prompts, responses, verdicts, judges


def test_thinking_is_judged_beside_the_answer_and_what_differs_is_counted():
    sources, prompts, responses, verdicts, judges = judged()
    labels = {row["prompt_id"]: row["judges"] for row in verdicts}
    assert [labels[id_]["thought"]["label"] for id_ in "abcdef"] == [
        "refusal", "compliance", "refusal", "refusal", None, "refusal",
    ]  # fmt: skip
    assert {row["thought"]["reads"] for row in labels.values()} == {"thinking"}
    assert "reads" not in labels["a"]["rules"]
    families = {name: judge.FAMILY for name, judge in judges.items()}
    answers = {row["prompt_id"]: row for row in responses}
    table = aggregate_suite(
        sources, prompts, answers, labels, {"judges": ["rules", "thought"]},
        DEFINITIONS, families, errors={},
    ).table  # fmt: skip
    # Nothing else is counted of a judge of thinking: its rates are no rates of answers.
    rates = [rate for rate in table if rate.key.judge]
    names = ("thinks_refusal_answers_compliance", "thinks_compliance_answers_refusal")
    assert {rate.key.name for rate in rates} == {f"thought_{name}" for name in names}
    assert {(rate.counts.successes, rate.counts.n) for rate in rates} == {(2, 4), (1, 4)}
    assert all(rate.judge_unknown and rate.interval for rate in rates)
    assert {rate.counts.excluded["empty"] for rate in rates} == {1}


def test_answers_without_thinking_are_said():
    *_, responses, _, _ = judged()
    (warning,) = thinking_warnings(responses, DEFINITIONS)
    assert warning.startswith("thought reads thinking, which 1 of 6 answers lack")
    assert thinking_warnings(responses, {"rules": {"kind": "rules"}}) == []


def test_a_kept_verdict_is_of_the_text_that_was_read():
    judge = open_judge("thought", DEFINITIONS["thought"])
    _, prompts, responses, *_ = judged()
    cases = [Case(prompts[n], responses[n], {}).of_thinking for n in (0, 2, 1)]
    alike, same, other = verdict_keys(judge, cases)
    assert alike == same != other  # two answers with one thought, and another thought
    answered = Case(prompts[0], {**responses[0], "response": NO, "thinking": None}, {})
    assert verdict_keys(open_judge("rules", DEFINITIONS["rules"]), [answered]) == [alike]


def test_a_judge_of_thinking_decides_no_outcome_and_is_not_measured_on_answers():
    judges = open_judges(DEFINITIONS)
    check_counted("s", judges, perturbed=False)
    with pytest.raises(ParamsError, match="thought reads thinking; put one that reads answers"):
        check_counted("s", {"thought": judges["thought"]}, perturbed=False)
    calls, texts = (DefinedJudge("refusal", hands_on, "answer") for hands_on in (True, False))
    check_counted("s", {"calls": calls, "rules": texts}, perturbed=False)
    with pytest.raises(ParamsError, match="calls reads calls alone; put a judge behind it"):
        check_counted("s", {"calls": calls}, perturbed=False)
    assert [*judges_to_measure(DEFINITIONS)] == ["rules"]

    class Settings:
        sample = llm_sample = 3

    assert pairs_by_judge(judges, Settings) == {"rules": 3}


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ({"kind": "rules", "reads": "thoughts"}, "reads must be answer or thinking"),
        ({"kind": "similarity", "reads": "thinking"}, "kind similarity reads answers alone"),
        ({"kind": "rules", "reads": "thinking", "validate": True}, "label refusal in answers"),
    ],
)
def test_what_cannot_read_thinking_is_an_error(definition, says):
    with pytest.raises(ParamsError, match=says):
        open_judge("j", definition)
