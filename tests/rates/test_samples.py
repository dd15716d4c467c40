"""Several answers to each prompt: what is asked for, and what the rates make of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import ParamsError, RowError
from refract.core.played import answered_prompts
from refract.core.types import clean_id, prompt_of_sample, sample_prompts
from refract.evaluate import Suite, evaluate
from refract.models import open_model, samples_of
from refract.models.answering import answer_prompts, samples_by_suite
from refract.models.store import ResponseStore
from refract.rates import sampled
from refract.rates.clean_prompts import suite_metrics
from refract.rates.counting import Counted, CountedSuite, above_floor, answer_rate, flip_floors
from refract.rates.key import REFUSAL, Key
from refract.results.table_rows import rate_to_row
from refract.suites.perturbations import prompt_rows

SYNTHETIC = {"adapter": "synthetic", "temperature": 1, "refusal_rate": {"harmful": 0.7}}
RULES = {"rules": {"kind": "rules"}}


def rate_row(answers):
    return rate_to_row(answer_rate(Key(REFUSAL), answers))


def sample_table(sources, outcomes, samples):
    suite = CountedSuite(sources, outcomes, rows=[{"sample": samples}])
    return [rate_to_row(rate) for rate in sampled.sample_table(suite)]


def rows(count, category="harmful"):
    return [
        {"id": f"{category}-{n}", "category": category, "prompt": f"Question {n}?"}
        for n in range(count)
    ]


def measured(sources, samples, **more):
    definition = {"samples": samples, **more}
    repeats = {name: {"kind": "typos", "rate": 0.2} for name in more.get("perturbations", ())}
    prompts = list(prompt_rows(sources, "s", 0, repeats))
    model = open_model("m", SYNTHETIC | {"sensitivity": 0.2})
    suite = Suite("s", sources, definition, prompts=prompts)
    return evaluate([suite], model, RULES, ResponseStore(None), name="m").suites["s"]


def by_key(table):
    keys = ("judge", "perturbation", "measure", "field", "value")
    rows = list(table)
    names = ["_".join(row[key] for key in keys[:3] if row[key]) for row in rows]
    return {(name, row["field"], row["value"]): row for name, row in zip(names, rows, strict=True)}


def prompt(id_):
    return {"prompt_id": id_, "source_id": id_, "perturbation": None}


def answered(labels, prompt_id="a"):
    """The samples of one prompt as they are counted."""
    ids = [prompt_id, *(f"{prompt_id}~{n}" for n in range(2, len(labels) + 1))]
    return {
        id_: Counted(label, prompt_id, prompt=prompt_id)
        for id_, label in zip(ids, labels, strict=True)
    }


R, C, U = "refusal", "compliance", "unjudged"


@given(st.lists(st.text("ab/~1", min_size=1), unique=True, max_size=6), st.integers(1, 5))
def test_each_prompt_has_k_rows_with_ids_of_their_own_and_the_first_has_its_own_id(ids, samples):
    prompts = [prompt(id_) for id_ in ids]
    try:
        found = sample_prompts(prompts, samples)
    except RowError:
        assert any(f"{id_}~{n}" in ids for id_ in ids for n in range(2, samples + 1))
        return
    assert len({row["prompt_id"] for row in found}) == len(ids) * samples
    assert [prompt_of_sample(row) for row in found] == [id_ for id_ in ids for _ in range(samples)]
    assert [row["prompt_id"] for row in found[::samples]] == ids
    assert all(clean_id(row) == row["prompt_id"] for row in found)
    answers = [{**row, "response": "Yes."} for row in found]
    assert answered_prompts(prompts, answers) == found
    if samples == 1:
        assert found == prompts
    elif ids:
        # One sample more adds rows and changes none.
        more = sample_prompts(prompts[:1], samples + 1)
        assert [row for row in more if row["sample"] <= samples] == found[:samples]


def test_another_sample_generates_only_the_new_answers(tmp_path):
    model, store = open_model("m", SYNTHETIC), ResponseStore(tmp_path / "store.sqlite")
    prompts = list(prompt_rows(rows(20), "s", 0))
    made = {}
    for samples in (1, 3, 4, 2):
        responses, counts = answer_prompts({"s": prompts}, model, store, 7, samples={"s": samples})
        made[samples] = responses["s"], counts["s"]
    assert [made[k][1].generated for k in (1, 3, 4, 2)] == [20, 40, 20, 0]
    assert [made[k][1].reused for k in (1, 3, 4, 2)] == [0, 20, 60, 40]
    three = {row["prompt_id"]: row for row in made[3][0]}
    assert {row["prompt_id"]: row for row in made[4][0]}.items() >= three.items()
    assert made[1][0] == [three[row["prompt_id"]] for row in prompts]
    assert len({row["request_sha256"] for row in made[4][0]}) == 80


def test_a_model_that_does_not_sample_has_no_samples_and_says_so_of_a_suites(capsys):
    greedy = {"adapter": "synthetic"}
    with pytest.raises(ParamsError, match=r"models\.m: samples.*temperature"):
        open_model("m", greedy | {"samples": 2})
    assert samples_of(open_model("m", greedy), greedy, 5) == 1
    assert samples_of(open_model("m", greedy | {"samples": 1}), greedy, None) == 1
    asked = {"s": 5, "t": 1}
    times = samples_by_suite("m", open_model("m", greedy), greedy, ["s", "t", "u"], asked)
    assert times == {"s": 1, "t": 1, "u": 1}
    said = "m: s: samples: 5: the model does not sample, and answers each prompt once\n"
    assert capsys.readouterr().err == said


def test_a_suites_number_of_samples_goes_before_the_models():
    definition = SYNTHETIC | {"samples": 3}
    model = open_model("m", definition)
    assert [samples_of(model, definition, of_suite) for of_suite in (None, 1, 5)] == [3, 1, 5]
    assert model.identity() == open_model("m", SYNTHETIC).identity()


def test_a_rate_is_the_mean_over_prompts_of_means_over_judged_samples():
    answers = [*answered([R, C, C, C], "a").values(), *answered([R, U, U, U], "b").values()]
    row = rate_row(answers)
    assert row["rate"] == (0.25 + 1) / 2
    assert (row["successes"], row["n"], row["clusters"]) == (2, 5, 2)
    assert (row["bound_low"], row["bound_high"]) == (0.25, 0.625)
    assert row["excluded_unjudged"] == 3
    assert row["outer_low"] <= row["low"]


def test_any_of_k_is_the_exact_estimate():
    sources = [{"id": "a", "category": "harmful"}, {"id": "b", "category": "harmful"}]
    outcomes = answered([R, C, R, R], "a") | answered([R, R, R, U], "b")
    table = by_key(sample_table(sources, outcomes, 4))
    # Of a's 6 pairs 3 hold the compliance; b has three judged samples and none.
    two = table["any_compliance_rate", "samples", "2"]
    assert (two["rate"], two["n"]) == (0.25, 2)
    assert (two["bound_low"], two["bound_high"]) == (0.25, 0.5)
    four = table["any_compliance_rate", "samples", "4"]
    assert (four["rate"], four["n"], four["bound_low"], four["bound_high"]) == (1, 1, 0.5, 1)


@pytest.mark.parametrize(
    ("measure", "samples", "limit", "decision"),
    [
        # One answer complies in .3, one of four in .76; the limit is for all four.
        ("any_compliance_rate", 4, 0.6, "missed"),
        ("any_compliance_rate", 1, 0.4, "met"),
    ],
)
def test_a_threshold_is_for_all_samples_and_a_single_answer_is_one(
    measure, samples, limit, decision
):
    found = measured(rows(300), samples, thresholds={measure: {"max": limit}})
    decided = [rate_to_row(rate) for rate in found.numbers.rates if rate.decision]
    assert [(row["measure"], row["value"], row["decision"]) for row in decided] == [
        (measure, str(samples), decision)
    ]
    assert suite_metrics(found.numbers.rates)[measure] == round(decided[0]["rate"], 4)


def test_the_floor_of_flips_is_how_often_a_second_clean_answer_differs():
    outcomes = answered([R, C, R, R])
    prompts = [{**prompt(id_), "source_id": "a"} for id_ in outcomes]
    found = flip_floors(CountedSuite([], outcomes, rows=prompts))
    # Of the 9 other answers beside a refusal 3 comply, of the 3 beside the compliance all refuse.
    assert found.loophole == {"a": pytest.approx(1 / 3)}
    assert found.new_refusal == {"a": 1.0}
    assert flip_floors(CountedSuite([], outcomes, rows=prompts[:1])) == ({}, {})
    # What was not judged, or was asked in other words, says nothing of it.
    outcomes = answered([R, C, U, C])
    prompts = [{**prompt(id_), "source_id": "a"} for id_ in outcomes]
    prompts[3]["perturbation"] = {"kind": "typos"}
    found = flip_floors(CountedSuite([], outcomes, rows=prompts))
    assert found == ({"a": 1.0}, {"a": 1.0})


def test_a_rate_above_its_floor_is_paired_by_prompt_and_bounded():
    floors = [0.5, 0.5, 0.5, 0, None]
    answers = [
        Counted(U, id_, prompt=id_, floor=floor) for id_, floor in zip("aaabc", floors, strict=True)
    ]
    found = above_floor([1, 0, None, 1, 1], answers)
    assert found.value == pytest.approx((0 + 1) / 2)
    assert found.interval.low < found.value < found.interval.high
    assert found.outer.low < found.outer.high
    assert above_floor([1.0], answers[4:]) is None
