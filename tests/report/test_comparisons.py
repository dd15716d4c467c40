"""Models compared with a reference, and with their neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refract.rates.comparison import DEFAULTS
from refract.rates.rate import Difference, DropDecision, Interval
from refract.report.compared_sides import HOLD_JUDGE, SidesText
from refract.report.comparisons import (
    ALL_PAIRS,
    Compared,
    compare_models,
    compare_perturbed,
    near_pairs,
    number_of_tests,
    strongest,
)
from refract.report.page_data import page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View
from refract.results.sources import ComparedSides
from tests.builders import outcome_lines
from tests.report.views import facts, lines_of


def compared(outcomes, provenance=None) -> list[Compared]:
    """Of models, the first of which is the reference."""
    return compare_models(outcomes, DEFAULTS, next(iter(outcomes)), provenance or {})


def inputs_of(outcomes: dict[str, list[dict[str, str]]]) -> Inputs:
    """The comparisons of some models alone."""
    view = View(
        {name: [] for name in outcomes},
        dict.fromkeys(outcomes, facts()),
        reference=next(iter(outcomes)),
        compared=compared(outcomes),
    )
    return Inputs(view, page_data([]), {})


def test_each_model_is_compared_with_the_reference_and_with_its_neighbour():
    pairs = {"a": ["ab", "ac", "ad", "bc", "cd"], "c": ["ac", "bc", "cd", "ab"]}
    for reference, near in pairs.items():
        assert near_pairs("abcd", reference) == [tuple(pair) for pair in near]
    assert near_pairs(["a"], "a") == []
    alone = report_pages(inputs_of({"a": outcome_lines("rc")}))
    assert "One model alone" in alone["comparisons"]


def test_a_comparison_is_the_later_model_minus_the_earlier_one_with_a_corrected_p():
    inputs = inputs_of(
        {
            "a": outcome_lines("c" * 10 + "r" * 10),
            "b": outcome_lines("r" * 20),
            "c": outcome_lines("e" * 20),
        }
    )
    (line,) = lines_of(report_pages(inputs)["comparisons"], "s")
    assert line[:5] == ["s", "harmful", "a", "b", "0.50, 1.00"]
    # Ten against none: 2 / 2^10, and no other comparison could be made.
    p = 2 / 2**10
    assert line[5:] == ["+0.50 [+0.26, +0.70]", "20", f"{p:.4f}", f"{p:.4f}"]


def test_a_page_of_comparisons_says_of_which_models_its_tests_are_and_that_intervals_hold_the_judge():
    view = inputs_of({"a": outcome_lines("rc"), "b": outcome_lines("cr")}).view
    pages = report_pages(Inputs(view, page_data([]), {}))
    assert "0 of 1 differences of live models are" in pages["report"]
    assert "tests of live models" in pages["comparisons"]
    assert "hold the judge's error" not in pages["comparisons"]
    (pair,) = view.compared
    known = pair._replace(difference=replace(pair.difference, judge_interval=Interval(-1, 1)))
    stand_ins = dict.fromkeys("ab", facts("recorded"))
    view = replace(view, compared=[known], provenance=stand_ins)
    pages = report_pages(Inputs(view, page_data([]), {}))
    assert "0 of 1 differences are" in pages["report"]
    assert "live" not in pages["comparisons"]
    assert f" Intervals of two models {HOLD_JUDGE}.\n\nCite" in pages["comparisons"]


def test_a_family_of_tests_has_the_primary_rows_that_were_tested():
    shares = (9, 9, 0.5, 0.5, 0.0, Interval(-0.1, 0.1), None, None, None)
    drops = [DropDecision("inconclusive", "", False, 0.05, p_worse=p) for p in (0.5, None)]
    rows = [Difference("s", "harmful", "", *shares, model="one", drop=drop) for drop in drops]
    notes = SidesText(ComparedSides("a", "b", [], 0.95, rows, [])).notes()
    assert "Holm over the 1 primary rows that were tested" in " ".join(notes)


def test_the_number_of_comparisons_grows_with_the_models_and_not_with_their_square():
    for count, pairs in ((ALL_PAIRS, ALL_PAIRS * (ALL_PAIRS - 1) / 2), (20, 19 + 18)):
        outcomes = {f"m{n}": outcome_lines("rc") for n in range(count)}
        assert len(compared(outcomes)) == pairs


def test_each_sample_of_a_perturbed_prompt_is_compared_with_the_same_sample_of_the_clean_one():
    clean, perturbed = ("crr", "ccr"), ("rrr", "rec")
    lines = []
    for name, prompts in (("", clean), ("typos", perturbed)):
        for number, outcomes in enumerate(prompts):
            for sample, line in enumerate(outcome_lines(outcomes, perturbation=name), 1):
                source = f"p{number}"
                id_ = f"{source}/{name}" if name else source
                id_ += f"~{sample}" if sample > 1 else ""
                said = {"prompt_id": id_, "source_id": source, "sample": str(sample)}
                lines.append(line | said | {"prompt_sha256": f"{source} {name}"})
    both, harmful = compare_perturbed({"a": lines}, DEFAULTS)
    assert (both.category, harmful.category, both.n) == ("", "harmful", 2)
    # 2/3 and 1/3 of the clean samples; all, and one of two that were judged.
    assert (both.a, both.b) == pytest.approx((1 / 2, 3 / 4))
    assert harmful.value == both.value == pytest.approx(1 / 4)


ADAPTERS = {"a": "hf", "b": "synthetic", "c": "openai", "d": "recorded"}


@pytest.mark.parametrize(
    ("models", "family"), [("abcd", ["ac"]), ("acd", ["ac"]), ("bd", ["bd"]), ("ad", ["ad"])]
)
def test_live_models_alone_are_in_the_family_of_tests_where_there_are_two(models, family):
    known = {model: facts(ADAPTERS[model]) for model in models}
    outcomes = {m: outcome_lines("rc"[n % 2] * 12) for n, m in enumerate(models)}
    found = compared(outcomes, known)
    own = [pair for pair in found if pair.difference.p_adjusted is not None]
    assert ["".join(pair[:2]) for pair in own] == family
    assert number_of_tests(found) == len(family)
    assert all(pair.difference.p_adjusted == pair.difference.p for pair in own)
    assert all(pair.difference.p is not None for pair in found)


def test_those_with_most_evidence_come_first():
    (difference, *_) = (d for *_, d in compared({m: outcome_lines("rc") for m in "ab"}))
    pairs = []
    for names, p, value in (
        ("ab", 0.02, 0.9),
        ("ac", 0.01, 0.1),
        ("bc", 0.01, -0.2),
        ("cd", 0.2, 1),
    ):
        pairs.append(Compared(*names, replace(difference, p_adjusted=p, value=value)))
    assert ["".join(pair[:2]) for pair in strongest(pairs, 0.95)] == ["bc", "ac", "ab"]


def test_a_share_that_rounds_to_nothing_has_no_minus():
    shares = (9, 9, -0.0004, 0.0, -0.0004, Interval(-0.0004, 0.25), None, None, None)
    difference = Difference("s", "discrimination", "", *shares, model="one")
    sides = ComparedSides("a", "b", [], 0.95, [difference], [])
    (row,) = SidesText(sides).table("one").rows
    assert "-0.00" not in " ".join(row)
