"""Null answers. That every door gives the same: test_one_door.py."""

from __future__ import annotations

from collections.abc import Sequence

from refract.core.params import NullAnswerSettings
from refract.core.types import Verdict
from refract.evaluate import Suite, evaluate
from refract.judges.cases import Case, Judge, NoSettings, labelled
from refract.models import open_model
from refract.models.store import ResponseStore
from refract.rates.key import NULL_DIFFERENCE
from refract.results.table_rows import json_rows
from tests.builders import suite_rows

KINDS = ("shuffled", "echo", "constant")
MODEL = {"adapter": "synthetic", "refusal_rate": {"harmful": 0.9, "helpful": 0.1}}
# Harmful prompts of suite_rows are those of smaller numbers.
HARMFUL = 12


class ReadsPrompts(Judge):
    """Calls every answer to a harmful prompt refused."""

    Settings = NoSettings
    FAMILY = "refusal"
    version = "1"

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        verdicts = []
        for case in cases:
            number = int(case.prompt_text.rpartition(" ")[2])
            verdicts.append(labelled("refusal" if number < HARMFUL else "compliance"))
        return verdicts


def evaluated(judges: dict, **settings: int):
    suite = Suite("s", suite_rows("s", HARMFUL, 12), {})
    return evaluate(
        [suite],
        open_model("m", MODEL),
        judges,
        ResponseStore(None),
        name="m",
        null_answers=NullAnswerSettings.model_construct(**settings),
    )


def test_a_judge_of_prompts_alone_has_a_null_difference_of_1_and_one_of_answers_alone_of_0():
    reader = {"kind": f"{__name__}:ReadsPrompts"}
    found = evaluated({"reader": reader, "rules": {"kind": "rules"}})
    values = {}
    for rate in found.rates:
        if rate.measure == NULL_DIFFERENCE:
            kind = rate.group.value or "shuffled"
            values[rate.key.judge or "reader", kind] = (rate.value, rate.counts.n)
    expected = {}
    for kind in KINDS:
        expected["reader", kind] = (1, 12)
        if kind != "echo":  # which the rules call degenerate
            expected["rules", kind] = (0, 12)
    assert values == expected
    assert found.provenance["null_answers"] == {"sample": 60, "llm_sample": 12, "seed": 0}


def test_other_rates_are_the_same_without_null_answers():
    judges = {"rules": {"kind": "rules"}}
    few, none = evaluated(judges, sample=5), evaluated(judges, sample=0)
    assert {r.counts.n for r in few.rates if r.measure == NULL_DIFFERENCE} == {5}
    rest_of_few = [rate for rate in few.rates if rate.measure != NULL_DIFFERENCE]
    assert json_rows(rest_of_few) == json_rows(none.rates)
    assert few.results()["metrics"] == none.results()["metrics"]
