from __future__ import annotations

import operator
from dataclasses import replace

import pytest
from scipy.stats import binomtest

from refract.core.errors import ParamsError
from refract.models import open_model
from refract.models.protocol import Answer, Request
from refract.models.synthetic import CUT_OFF, DRIFT, HELP, REFUSALS, Synthetic
from tests.builders import ask, in_order

N = 4000


def model(**settings: object) -> Synthetic:
    return open_model("m", {"adapter": "synthetic", **settings})


def request(n: int, category="harmful", perturbation=None, seed=0, attempts=1) -> Request:
    texts = [f"question {n}{'!' * attempt}{perturbation or ''}" for attempt in range(attempts)]
    row = {"category": category, "source_id": str(n), "suite": "s"}
    row["perturbation"] = perturbation and {"kind": perturbation}
    return replace(ask(*texts, **row), seed=seed)


def agrees(count: int, rate: float, n: int = N) -> bool:
    """Whether a count is one that the rate gives in 99.9 % of draws; the draws are fixed."""
    return binomtest(count, n, rate).pvalue > 0.001


def refused(adapter: Synthetic, **more: object) -> list[bool]:
    """Which of N prompts are refused."""
    answers = in_order(adapter, [request(n, **more) for n in range(N)])
    return [answer.response in REFUSALS for answer in answers]


@pytest.mark.parametrize(("category", "rate"), [("harmful", 0.02), ("borderline", 0.9)])
def test_each_category_is_refused_at_its_rate(category, rate):
    assert agrees(sum(refused(model(refusal_rate={category: rate}), category=category)), rate)


def test_answers_do_not_depend_on_order_other_requests_or_the_rows_seed():
    adapter = model(sensitivity=0.2, drift=0.2, error_rate=0.1, empty_rate=0.1, cut_off_rate=0.1)
    requests = [request(n, perturbation="typos") for n in range(300)]
    expected = in_order(adapter, requests)
    assert in_order(adapter, requests[::-1])[::-1] == expected
    assert [in_order(adapter, [r])[0] for r in requests] == expected
    others = [request(n, perturbation="typos", seed=9) for n in range(300)]
    assert in_order(adapter, others) == expected
    assert not adapter.samples


def test_an_answer_is_the_same_in_every_release():
    """Known answers: what is stored under version 1 stays true of version 1."""
    found = in_order(model(), [request(n, c) for n in range(2) for c in ("harmful", "helpful")])
    assert [a.response for a in found] == [REFUSALS[1], HELP[1], REFUSALS[3], HELP[3]]
    assert {a.finish_reason for a in found} == {"stop"}


def test_a_model_that_samples_answers_by_the_rows_seed():
    adapter = model(refusal_rate=0.5, temperature=0.7)
    assert adapter.samples
    one, again, two = (refused(adapter, seed=seed) for seed in (1, 1, 2))
    assert one == again
    other = refused(model(refusal_rate=0.5, seed=1))  # another model with the same rates
    for first, second in ((one, two), (refused(model(refusal_rate=0.5)), other)):
        assert agrees(sum(first), 0.5)
        assert agrees(sum(map(operator.eq, first, second)), 0.5)


def test_each_fault_comes_at_its_rate_among_those_the_fault_before_it_left():
    adapter = model(error_rate=0.2, empty_rate=0.25, cut_off_rate=0.5)
    found = in_order(adapter, [request(n) for n in range(N)])
    errors = [a for a in found if a.error]
    empty = [a for a in found if not a.error and not a.response]
    cut_off = [a for a in found if a.finish_reason == "length"]
    assert agrees(len(errors), 0.2)
    assert agrees(len(empty), 0.8 * 0.25)
    assert agrees(len(cut_off), 0.8 * 0.75 * 0.5)
    failed = Answer.failed("SyntheticError", "an error was asked for")
    assert all(answer == failed for answer in errors)
    assert all((a.finish_reason, a.completion_tokens) == ("stop", 0) for a in empty)
    assert {a.response for a in cut_off} == {CUT_OFF}


def test_an_attempt_that_is_too_long_leads_to_the_next_one():
    found = in_order(model(too_long_rate=0.5), [request(n, attempts=3) for n in range(N)])
    for attempt in range(3):
        used = sum(not a.error and a.attempt == attempt for a in found)
        assert agrees(used, 0.5 ** (attempt + 1))
    rejected = [a for a in found if a.error]
    assert agrees(len(rejected), 0.5**3)
    assert {(a.error["type"], a.attempt) for a in rejected} == {("PromptTooLong", 2)}


def test_a_perturbation_flips_refusals_and_changes_answers_at_the_rates_set():
    clean = in_order(model(refusal_rate=0.5), [request(n) for n in range(N)])
    adapter = model(refusal_rate=0.5, sensitivity=0.1, drift=0.2)
    bent = in_order(adapter, [request(n, perturbation="char_injection") for n in range(N)])
    drifted = [n for n in range(N) if bent[n].response == DRIFT]
    assert agrees(len(drifted), 0.2)
    rest = [n for n in range(N) if bent[n].response != DRIFT]
    flipped = sum((clean[n].response in REFUSALS) != (bent[n].response in REFUSALS) for n in rest)
    assert agrees(flipped, 0.1, len(rest))
    # Neither clean prompts nor clean repeats of them are perturbed.
    for perturbation in (None, "repeat"):
        again = in_order(adapter, [request(n, perturbation=perturbation) for n in range(N)])
        assert [a.response for a in again] == [a.response for a in clean]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"refusal_rate": {"harmfull": 1}}, "harmful, helpful, borderline.*got .*harmfull"),
        ({"error_rate": True}, "error_rate must be a number of at least 0 and at most 1 .got True"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(settings, message):
    with pytest.raises(ParamsError, match=message):
        model(**settings)
