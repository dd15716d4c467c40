"""A number has one name: what could be called alike is told before anything runs."""

from __future__ import annotations

import re
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.core.errors import ParamsError
from refract.core.types import sample_prompts
from refract.core.vocabulary import FAMILIES
from refract.rates import aggregate_suite
from refract.rates.key import MEASURES, Group, Key, measure_called, name_clashes
from refract.rates.names import name_problems, whole_keys
from refract.suites.perturbations import prompt_rows

# Words of the table of measures and of its groups, of which names are built that could be taken twice.
WORDS = (
    *("harmful", "over", "under", "borderline", "partial", "full", "any", "all", "any_over"),
    *("typos", "typos_new", "new", "again", "prediction_powered", "second", "clean_samples"),
    *("pair", "control", "cut_off", "attack", "turn", "language", "samples", "group"),
    *("category", "human_labels", "refusal", "fail", "loophole", "mean", "first", "task"),
    "injection",
)
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map("_".join)
STRUCTURE = ("category", "language", "control", "group")
SOURCES = [
    {"id": "a", "category": "harmful", "language": "en"},
    {"id": "b", "category": "harmful", "pair_id": "a", "group": "g", "expected_strings": ["x"]},
    {"id": "c", "category": "harmful", "pair_id": "a", "language": "de", "task_strings": ["y"]},
    {"id": "d", "category": "harmful", "control": "must_refuse", "expected_strings": ["x"]},
    {"id": "e", "category": "helpful", "control": "must_answer", "language": "en"},
    {"id": "f", "category": "helpful", "pair_id": "e", "language": "de"},
    {"id": "g", "category": "borderline"},
    {"id": "h", "category": "borderline"},
]
TURNS = [{"role": "user", "content": "First."}, {"role": "user", "content": "Then?"}]


def definitions(kinds):
    return st.fixed_dictionaries(
        {
            "judges": st.dictionaries(NAMES, st.sampled_from([*FAMILIES]), min_size=1, max_size=3),
            "perturbations": st.dictionaries(NAMES, st.sampled_from(kinds), max_size=2),
            "fields": st.none() | st.lists(NAMES, max_size=2, unique=True),
            "samples": st.sampled_from([1, 2]),
            "cluster": st.sampled_from([None, "category"]),
        }
    )


def counted(grid):
    """The rates of a small suite with every kind of row, of answer and of verdict."""
    definition = {**grid, "judges": [*grid["judges"]]}
    own = [x for x in grid["fields"] or () if x not in STRUCTURE]
    sources = []
    for number, row in enumerate(SOURCES):
        fields = dict.fromkeys(own, "xy"[number % 2])
        text = {"messages": TURNS} if row["category"] == "harmful" else {"prompt": "What?"}
        sources.append({**row, **fields, **text, "behavior": "x"})
    kinds = {name: {"kind": kind} for name, kind in grid["perturbations"].items()}
    prompts = list(sample_prompts(prompt_rows(sources, "s", 0, kinds), grid["samples"]))
    ends, scores = cycle(["stop", "stop", "length", "stop", "error"]), cycle([0.0, 0.5, 1.0])
    responses, verdicts = {}, {}
    for number, prompt in enumerate(prompts):
        id_, judged = prompt["prompt_id"], {}
        for judge, family in grid["judges"].items():
            labels = FAMILIES[family].labels or (None,)
            label = labels[number % len(labels)]
            judged[judge] = {"label": label, "score": next(scores), "error": None}
        texts = {"response": "words", "thinking": "words", "attempt": 0}
        end = {"finish_reason": next(ends), "prompt_tokens": number}
        responses[id_] = {"prompt_id": id_, **texts, **end}
        verdicts[id_] = judged
    judges = {name: {"kind": "rules"} for name in grid["judges"]}
    return aggregate_suite(
        sources, prompts, responses, verdicts, definition, judges, grid["judges"]
    ).table


@settings(max_examples=25)
@given(definitions(["upper", "repeat"]))
def test_two_numbers_of_one_name_are_a_problem_before_they_are_counted_or_then(grid):
    definition = {**grid, "judges": [*grid["judges"]]}
    if name_problems(definition, grid["judges"]):
        return
    try:
        rates = counted(grid)
    except ParamsError:  # two groups of one name
        return
    printed = [(rate.name, rate.group) for rate in rates]
    assert len(set(printed)) == len(printed)
    possible = {key.name for key in whole_keys(definition, grid["judges"])}
    assert {rate.name for rate in rates} <= possible


@pytest.mark.parametrize(
    ("judges", "perturbations", "fields", "problem"),
    [
        (["rules", "harmful"], [], None, "harmful_refusal_rate"),
        (["rules", "partial"], [], None, "partial_refusal_rate"),
        (["rules", "any_over"], [], None, "any_over_refusal_rate"),
        (["rules", "typos"], ["typos"], None, "typos_fail_rate"),
        (["rules"], ["typos", "typos_new"], None, ""),
        (["rules"], ["clean_samples"], None, "clean_samples"),
        (["rules"], ["pair"], None, "pair"),
        (["rules"], [], ["samples"], "samples"),
        (["rules"], [], ["turn"], "turn"),
        (["rules"], [], ["human_labels"], "human_labels"),
        (["rules"], [], ["style", "category"], ""),
    ],
)
def test_names_that_fall_together_are_told_by_both_their_numbers(
    judges, perturbations, fields, problem
):
    families = {name: "pass_fail" if name == "typos" else "refusal" for name in judges}
    definition = {"judges": judges, "perturbations": perturbations, "fields": fields}
    problems = name_problems(definition, families)
    assert bool(problems) == bool(problem)
    assert re.search(problem, " ".join(problems))


def test_two_keys_are_printed_alike_by_name_and_group_and_equal_ones_are_two_numbers():
    harmful = Key(measure_called("harmful_refusal_rate"))
    by_judge = Key(measure_called("refusal_rate"), judge="harmful")
    other = Key(harmful.measure, group=Group("style", "x"))
    (clash,) = name_clashes([harmful, other, by_judge])
    assert "'harmful_refusal_rate' would be two numbers" in clash
    assert len(name_clashes([other, harmful, other])) == 1
    # In a file they are one: a spreadsheet would take the second for a formula.
    values = [Key(harmful.measure, group=Group("style", value)) for value in ('"=1"', "=1", "1")]
    (clash,) = name_clashes(values)
    assert clash.startswith("'harmful_refusal_rate' of style \"=1\" would be two numbers")


@pytest.mark.parametrize(
    ("measure", "bound", "problem"),
    [
        ("over_refusal_rate", 1.5, "must be at most 1 (got 1.5)"),
        ("over_refusal_rate", -0.1, "must be at least 0 (got -0.1)"),
        ("discrimination", -1, ""),
        ("discrimination", 2, "must be at most 1 (got 2)"),
        ("of_a_package", 9, ""),
    ],
)
def test_a_threshold_lies_in_the_range_of_its_measure(measure, bound, problem):
    definition = {"judges": ["rules"], "thresholds": {measure: {"min": bound}}}
    problems = name_problems(definition, {"rules": "refusal"})
    assert problems == ([f"thresholds.{measure} {problem}"] if problem else [])


def test_the_name_of_a_measure_is_found_again_by_what_stands_beside_it():
    for measure in MEASURES:
        judge = "j" if measure.counted_for == "judge" else ""
        perturbation = "p" if measure.counted_for == "perturbation" else ""
        assert measure_called(measure.name, judge=judge, perturbation=perturbation) == measure
    assert len({(x.name, x.counted_for) for x in MEASURES}) == len(MEASURES)
    assert Key(measure_called("fail_rate", perturbation="p")).measure.counted_for == "perturbation"


def test_a_headline_is_of_the_deciding_judge_on_the_clean_prompts_of_a_whole_suite():
    measure = measure_called("refusal_rate")
    keys = [
        Key(measure),
        Key(measure, judge="second"),
        Key(measure, perturbation="typos"),
        Key(measure, group=Group("category", "harmful")),
    ]
    assert [key.is_headline for key in keys] == [True, False, False, False]
