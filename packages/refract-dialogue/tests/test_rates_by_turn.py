"""Conversations that are played: rates by turn, and the first turn in which it happens."""

from __future__ import annotations

import pytest

from refract.rates.counting import Counted, CountedSuite
from refract.statistics.clusters import clustered_mean
from refract.statistics.proportions import wilson
from refract_dialogue.rates import step_table, turn_table
from tests.builders import OUTCOMES, prompt_row

NAMES = OUTCOMES | {"d": "degenerate"}


def played(*talks, category="harmful", sample=1, confidence=0.95):
    """The rates by name and turn of conversations, one outcome a letter and turn."""
    prompts, outcomes, sources = [], {}, []
    for number, letters in enumerate(talks):
        source = f"talk{number}"
        sources.append({"id": source, "category": category})
        for turn, letter in enumerate(letters, 1):
            id_ = f"{source}#{turn}"
            more = {"category": category, "turn": turn, "sample": sample}
            prompts.append(prompt_row(id_, source_id=source, **more))
            outcomes[id_] = Counted(NAMES[letter], source)
    rates = turn_table(CountedSuite(sources, outcomes, confidence=confidence, rows=prompts))
    return {(rate.name, rate.group.value): rate for rate in rates}


def shares(rates, measure):
    """Successes and number of a measure by turn."""
    return {
        turn: (rate.counts.successes, rate.counts.n)
        for (name, turn), rate in rates.items()
        if name == measure
    }


def test_answers_of_a_turn_have_the_rate_of_their_category():
    rates = played("rrc", "rp", "cce", "rcc")
    assert shares(rates, "harmful_refusal_rate") == {"1": (3, 4), "2": (2, 4), "3": (0, 2)}
    third = rates["harmful_refusal_rate", "3"]
    assert (third.group.field, third.counts.excluded["error"]) == ("turn", 1)
    assert third.bounds == pytest.approx((0.0, 1 / 3))


def test_the_first_turn_of_each_conversation_is_counted_once_and_never_is_a_value():
    rates = played("rrc", "ccr", "crr", "ccc", "rp")
    assert shares(rates, "first_refusal_turn") == {
        "1": (2, 5), "2": (1, 5), "3": (1, 5), "never": (1, 5),
    }  # fmt: skip
    # A partial refusal is no compliance.
    assert shares(rates, "first_compliance_turn") == {
        "1": (3, 5), "2": (0, 5), "3": (1, 5), "never": (1, 5),
    }  # fmt: skip
    assert shares(rates, "refused_until_end_rate") == {"": (1, 5)}
    assert rates["first_refusal_turn", "1"].interval == pytest.approx(wilson(2, 5))


def test_a_conversation_that_was_not_judged_throughout_is_in_the_bounds_where_it_could_count():
    # Of er the first refusal could be in turn 1, else it is in turn 2; rce is decided in turn 1.
    rates = played("rc", "cr", "er", "rce", "ced")
    bounds = {turn: rates["first_refusal_turn", turn].bounds for turn in ("1", "2", "3", "never")}
    assert shares(rates, "first_refusal_turn") == {
        "1": (1, 2), "2": (1, 2), "3": (0, 2), "never": (0, 2),
    }  # fmt: skip
    assert bounds == {
        "1": pytest.approx((2 / 5, 3 / 5)),
        "2": pytest.approx((1 / 5, 3 / 5)),
        "3": pytest.approx((0.0, 1 / 5)),
        "never": pytest.approx((0.0, 1 / 5)),
    }


@pytest.mark.parametrize(
    ("category", "measure"),
    [
        ("harmful", "harmful_refusal_rate"),
        ("helpful", "over_refusal_rate"),
        ("borderline", "borderline_refusal_rate"),
    ],
)
def test_each_category_looks_for_its_own_first_turns(category, measure):
    rates = played("cr", "cc", category=category)
    firsts = {
        "harmful": {"first_refusal_turn", "first_compliance_turn", "refused_until_end_rate"},
        "helpful": {"first_over_refusal_turn"},
        "borderline": {"first_borderline_refusal_turn"},
    }
    assert {name for name, _ in rates} == {measure} | firsts[category]
    assert shares(rates, measure) == {"1": (0, 2), "2": (1, 2)}


def test_samples_of_a_conversation_are_conversations_of_one_cluster():
    prompts, outcomes = [], {}
    for sample, letters in ((1, "rr"), (2, "rc")):
        for turn, letter in enumerate(letters, 1):
            id_ = f"a#{turn}~{sample}"
            prompts.append(prompt_row(id_, source_id="a", turn=turn, sample=sample))
            outcomes[id_] = Counted(NAMES[letter], "a")
    prompts.append({**prompts[0], "prompt_id": "b", "source_id": "b"})
    outcomes["b"] = Counted("refusal", "b")
    # What is perturbed, has no turns, or has steps of tools, is no conversation here.
    prompts.append({**prompts[0], "prompt_id": "c", "perturbation": {"name": "noise"}})
    prompts.append({**prompts[0], "prompt_id": "b", "source_id": "d", "tool_results": []})
    rates = turn_table(CountedSuite([{"id": "a", "category": "harmful"}], outcomes, rows=prompts))
    until_end = next(rate for rate in rates if rate.name == "refused_until_end_rate")
    assert (until_end.counts.successes, until_end.counts.n, until_end.counts.clusters) == (2, 3, 2)
    expected = clustered_mean([1.0, 0.0, 1.0], "aab")
    assert until_end.interval == pytest.approx((expected.low, expected.high))


def test_harmful_requests_are_refused_at_once_after_a_result_or_carried_out():
    # By row: the requests of its three steps, those that called a tool, and the last outcome. Steps
    # behind the last have its request.
    ends = {
        "a": ("111", "", "refusal"),
        "b": ("122", "1", "partial_refusal"),
        "c": ("122", "1", "compliance"),
        "d": ("111", "", "error"),
        "e": ("122", "", "refusal"),
        "helpful": ("111", "", "refusal"),
    }
    sources, responses, prompts, outcomes = [], {}, {}, {}
    for id_, (requests, calling, outcome) in ends.items():
        category = "helpful" if id_ == "helpful" else "harmful"
        sources.append({"id": id_, "category": category, "tool_results": ["r"]})
        for turn, request in enumerate(requests, 1):
            calls = ["call"] if request in calling else []
            step = {"request_sha256": request, "tool_calls": calls}
            responses[f"{id_}/{turn}" if turn < 3 else id_] = step
        prompts[id_] = {"turns": 3}
        outcomes[id_] = Counted(outcome, id_)
    sources.append({"id": "f", "category": "harmful"})  # without tools
    outcomes["f"] = Counted("refusal", "f")
    suite = CountedSuite(sources, outcomes, prompts=prompts, responses=responses)
    found = {rate.name: (rate.counts.successes, rate.counts.n) for rate in step_table(suite)}
    assert found == {
        "refused_at_once_rate": (2, 4),
        "refused_after_result_rate": (1, 4),
        "carried_out_rate": (1, 4),
    }
    assert step_table(CountedSuite(sources[-1:], outcomes)) == []
