"""Judges that are asked several times and in other words: votes, ties, and how often verdicts flip."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from refract.core.errors import ParamsError
from refract.core.params import NullAnswerSettings
from refract.evaluate import Suite, evaluate
from refract.judges import open_judge
from refract.judges.llm import voted
from refract.models import open_model
from refract.models.store import ResponseStore
from refract.rates.rate import Rate
from refract.report.judge_notes import verdict_changes
from refract.report.view import View
from refract.statistics.proportions import wilson
from tests.builders import suite_facts, suite_rows
from tests.judges.test_model_judges import JudgeServer, judged

LABELS = {"r": "refusal", "p": "partial_refusal", "c": "compliance"}


def voter(schedule: dict[str, str]) -> Callable[[dict[str, Any]], str]:
    """Replies by the judged text: a letter for each asking; ``-`` is no verdict."""
    times: Counter[str] = Counter()

    def reply(request: dict[str, Any]) -> str:
        content = request["messages"][1]["content"]
        text = next(text for text in schedule if f"\n{text}\n" in content)
        times[text] += len(request["messages"]) == 2  # and not a second question
        letter = schedule[text][times[text] - 1]
        return json.dumps({"label": LABELS[letter], "reason": letter}) if letter in LABELS else "?"

    return reply


def test_most_replies_decide_a_tie_is_no_verdict_and_each_asking_is_stored():
    schedule = {"sure": "rrr", "mostly": "crr", "torn": "rpc", "mumbling": "cr"}
    with JudgeServer(voter(schedule)) as server:
        once = {"kind": "llm_refusal", "model": server.model()}
        first = judged(once, *schedule)
        assert [verdict["label"][0] for verdict in first] == ["r", "c", "r", "c"]
        assert "votes" not in first[0]
        verdicts = judged({**once, "repeats": 2}, *schedule)
        assert server.arrived == 8, "the first asking is stored"
        assert verdicts[3]["error"] == "tie: compliance 1, refusal 1"
        del schedule["mumbling"]
        thrice = judged({**once, "repeats": 3}, *schedule)
        assert (server.arrived, judged({**once, "repeats": 3}, *schedule)) == (11, thrice)
    assert [verdict["votes"] for verdict in thrice] == [
        ["refusal"] * 3,
        ["compliance", "refusal", "refusal"],
        ["refusal", "partial_refusal", "compliance"],
    ]
    assert [verdict["label"] for verdict in thrice] == ["refusal", "refusal", None]
    assert [len(verdict["raw"]) for verdict in thrice] == [3, 3, 3]
    assert thrice[2]["error"] == "tie: refusal 1, partial_refusal 1, compliance 1"


def vote(label: str | None, error: str | None = None, score: float | None = None) -> Any:
    return {"label": label, "score": score, "error": error, "raw": [["x"]]}


def test_the_verdict_of_a_vote_has_the_mean_score_of_its_side_and_waits_for_a_model_that_failed():
    sides = [vote("refusal", score=0.0), *(vote("compliance", score=x) for x in (0.5, 1.0))]
    assert (voted(sides)["label"], voted(sides)["score"]) == ("compliance", 0.75)
    unread = vote(None, "unreadable verdict: x")
    assert voted([unread, vote("pass"), unread])["label"] == "pass"
    assert voted([unread, unread])["error"] == unread["error"]
    failed = vote(None, "the judge failed: HTTP 500: x")
    assert voted([vote("pass"), vote("pass"), failed])["error"] == failed["error"]


def test_the_shares_that_flip_are_rates_of_the_judge_and_the_report_says_them():
    texts = [row["prompt"] for row in suite_rows("s", 2, 2)]
    # Refusal and partial refusal count alike; what no reply says is left out.
    schedule = dict(zip(texts, ("rr", "rc", "rp", "c-"), strict=True))
    with JudgeServer(voter(schedule)) as server:
        judge = {"kind": "llm_refusal", "repeats": 2, "model": server.model()}
        found = evaluate(
            [Suite("s", suite_rows("s", 2, 2), {})],
            open_model("m", {"adapter": "synthetic"}),
            {"rules": {"kind": "rules"}, "j": judge},
            ResponseStore(None),
            name="m",
            null_answers=NullAnswerSettings(sample=0, llm_sample=0),
        )
    (again,) = (rate for rate in found.rates if rate.measure.name == "verdict_change_rate")
    assert (again.key.judge, again.counts.successes, again.counts.n) == ("j", 1, 3)
    assert again.interval == pytest.approx(wilson(1, 3))
    assert again.counts.excluded["unjudged"] == 1
    facts = {"m": {"suites": {"s": suite_facts(judges=["rules", "j"])}, "judges": {}}}
    rates: list[Rate] = list(found.rates)
    assert verdict_changes(View({"m": rates}, facts)) == [
        "j on s, answers of m: 0.33 [0.06, 0.79] of 3 verdicts flipped on asking again"
    ]


SAME = "gives the same reply each time; set a temperature above 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"adapter": "synthetic"}}, rf"repeats must be 1 \(got 2\): its model {SAME}"),
        ({"kind": "rubric"}, "this judge gives a score alone"),
        ({"repeats": 0}, r"repeats must be a whole number of at least 1 \(got 0\)"),
    ],
)
def test_asking_that_says_nothing_more_is_refused_before_any_request(change, message):
    model = {"adapter": "openai", "model_id": "m", "api_key_env": None, "base_url": "http://x/v1"}
    definition = {"kind": "llm_refusal", "model": model, "repeats": 2, **change}
    with pytest.raises(ParamsError, match=message):
        open_judge("j", definition)
