"""A measure of an installed package: one entry and one function, and it is in the results."""

from __future__ import annotations

import json

import pytest

from refract.core.errors import ParamsError
from refract.evaluate import Suite, evaluate
from refract.models import open_model
from refract.models.store import ResponseStore
from refract.project import check_definitions
from refract.rates.key import INSTALLED, MEASURES, installed_measures, measure_called
from refract.results.table_rows import rate_from_row, rate_to_row
from refract.statistics.clusters import clustered_mean
from tests.builders import SMALL_PARAMS, suite_rows

MODULE = '''
from refract.rates.counting import mean_rate
from refract.rates.key import Group, Key, Measure

WORDS = Measure("prompt_words", "none", "words asked", high=20.0, count="worded:words")


def words(suite):
    """How long the prompts are, over all and by category."""
    for category in (None, "harmful", "helpful"):
        rows = [row for row in suite.requested if category in (None, row["category"])]
        lengths = []
        for row in rows:
            for prompt_id in suite.ids(row["id"]):
                lengths.append(float(len(suite.prompts[prompt_id]["attempts"][0].split())))
        group = Group("category", category) if category else Group()
        yield mean_rate(Key(WORDS, group=group), lengths, suite.answers(rows), suite.confidence)
'''
POINTS = "[refract.measures]\nprompt_words = worded:WORDS\n"


@pytest.fixture
def installed(install):
    install("worded", POINTS, MODULE)


def rows():
    """Prompts of two to thirteen words."""
    found = []
    for number, row in enumerate(suite_rows("s")):
        found.append({**row, "prompt": " ".join(["word"] * (number + 2))})
    return found


def evaluated(suite_rows_, **definition):
    model = open_model("m", {"adapter": "synthetic", "refusal_rate": 0.5})
    suite = Suite("s", suite_rows_, definition)
    judges = {"rules": {"kind": "rules"}}
    return evaluate([suite], model, judges, ResponseStore(None), name="m")


def test_a_measure_of_a_package_is_counted_with_its_interval_and_read_again(installed):
    before = evaluated(rows())
    (measure,) = [x for x in installed_measures() if x.name == "prompt_words"]
    assert measure not in MEASURES
    found = {x.group.value: x for x in before.rates if x.measure == measure}
    assert {value: rate.value for value, rate in found.items()} == {
        "": 7.5,
        "harmful": 4.5,
        "helpful": 10.5,
    }
    rate = found[""]
    assert (rate.counts.n, rate.bounds, rate.with_judge) == (12, (7.5, 7.5), None)
    expected = clustered_mean([words / 20 for words in range(2, 14)], range(12))
    assert rate.interval == pytest.approx((20 * expected.low, 20 * expected.high))
    assert before.results()["metrics"]["s"]["prompt_words"] == 7.5
    row = rate_to_row(rate)
    assert (row["measure"], row["rate"]) == ("prompt_words", 7.5)
    assert rate_to_row(rate_from_row(json.loads(json.dumps(row)), "m")) == row
    assert measure_called("prompt_words") == measure


def test_nothing_else_is_counted_otherwise_and_a_threshold_can_be_set_for_it(
    installed, monkeypatch
):
    limits = {"thresholds": {"prompt_words": {"max": 9}}}  # in the range of the measure
    suite = {"file": "s.jsonl", "judges": ["rules"]}
    check_definitions({**SMALL_PARAMS, "suites": {"s": suite | limits}})
    limited = evaluated(rows(), **limits)
    (rate,) = [rate for rate in limited.rates if rate.threshold]
    assert (rate.name, rate.decision) == ("prompt_words", "inconclusive")
    measured = evaluated(rows())
    monkeypatch.setattr("refract.rates.key.INSTALLED", type(INSTALLED)({}, "nobody.measures"))
    alone = evaluated(rows())
    others = [rate for rate in measured.rates if rate.measure.name != "prompt_words"]
    assert others == alone.rates
    assert measured.outcomes() == alone.outcomes()


@pytest.mark.parametrize(
    ("old", "new", "use", "message"),
    [
        ('"prompt_words"', '"over_refusal_rate"', lambda: check_definitions(SMALL_PARAMS),
         "'over_refusal_rate' would be two numbers"),
        ("worded:words", "worded:lost", lambda: evaluated(rows()),
         "count 'worded:lost' cannot be imported"),
        ("high=20.0", "high=None", lambda: check_definitions(SMALL_PARAMS),
         "measure 'prompt_words' needs both ends of its range, low and high"),
    ],
)  # fmt: skip
def test_a_name_that_is_taken_and_a_function_or_a_range_that_is_not_there_are_errors(
    install, old, new, use, message
):
    install("worded", POINTS, MODULE.replace(old, new))
    with pytest.raises(ParamsError, match=message):
        use()
