"""Models compared with a reference, with their neighbours, and by the fields of suites."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refract.rates.rate import Difference, Interval
from refract.report.compared_sides import FLIPS, LEFT_OUT, SidesText
from refract.report.comparisons import (
    ALL_PAIRS,
    Compared,
    compare_fields,
    compare_models,
    near_pairs,
    number_of_tests,
    strongest,
)
from refract.report.page_data import page_data
from refract.report.sections import Inputs, report_pages, report_tables
from refract.report.view import View, known_of
from refract.results.sources import ComparedSides
from tests.builders import outcome_lines
from tests.report.test_sections import lines_of


def outcomes_of(letters: str, style: str = "") -> list[dict[str, str]]:
    """Outcomes of harmful prompts, a letter a prompt; of each its style, a letter or a space."""
    lines = outcome_lines(letters)
    for line, value in zip(lines, style, strict=bool(style)):
        line["style"] = value.strip()
    return lines


def inputs_of(outcomes: dict[str, list[dict[str, str]]]) -> Inputs:
    """The comparisons of some models alone."""
    compared, by_field = compare_models(outcomes), compare_fields(outcomes)
    model = {"definition": {"adapter": "hf"}, "identity": {"adapter_version": "1"}, "seed": None}
    facts = {"model": model, "judges": {}, "suites": {}}
    view = View(
        {name: [] for name in outcomes},
        dict.fromkeys(outcomes, facts),
        reference=next(iter(outcomes)),
        compared=compared,
        by_field=by_field,
    )
    return Inputs(view, page_data([]), {})


def pages_of(outcomes: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    """The report's pages of the comparisons of some models alone."""
    return report_pages(inputs_of(outcomes))


@pytest.mark.parametrize(
    ("reference", "pairs"),
    [
        ("a", ["ab", "ac", "ad", "bc", "cd"]),
        ("c", ["ac", "bc", "cd", "ab"]),
    ],
)
def test_each_model_is_compared_with_the_reference_and_with_its_neighbour(reference, pairs):
    assert near_pairs("abcd", reference) == [tuple(pair) for pair in pairs]


def test_one_model_alone_has_no_pair():
    assert near_pairs(["a"], "a") == []
    assert "One model alone" in pages_of({"a": outcomes_of("rc")})["comparisons"]
    assert compare_fields({}) == []


def test_a_comparison_is_the_later_model_minus_the_earlier_one_with_a_corrected_p():
    outcomes = {
        "a": outcomes_of("c" * 10 + "r" * 10),
        "b": outcomes_of("r" * 20),
        "c": outcomes_of("e" * 20),
    }
    (line,) = lines_of(pages_of(outcomes)["comparisons"], "s")
    assert line[:5] == ["s", "harmful", "a", "b", "0.50, 1.00"]
    # Ten against none: 2 / 2^10, and no other comparison could be made.
    p = f"{2 / 2**10:.4f}"
    assert line[5:] == ["+0.50 [+0.26, +0.70]", "20", p, p]
    (pair, *_) = compare_models(outcomes)
    assert (pair.a, pair.b, pair.difference.a, pair.difference.b) == ("a", "b", 0.5, 1.0)
    _, (row,) = report_tables(inputs_of(outcomes))["comparisons"]
    shares = row["first"], row["second"], row["rate_first"], row["rate_second"]
    assert shares == ("a", "b", 0.5, 1.0)
    assert (row["difference"], row["n"], row["p_adjusted"]) == (0.5, 20, f"{2 / 2**10:.4g}")


def test_the_number_of_comparisons_grows_with_the_models_and_not_with_their_square():
    def pairs(count: int) -> int:
        return len(compare_models({f"m{n}": outcomes_of("rc") for n in range(count)}))

    assert pairs(ALL_PAIRS) == ALL_PAIRS * (ALL_PAIRS - 1) / 2
    assert pairs(20) == 19 + 18
    assert pairs(40) == 39 + 38


def test_models_are_compared_on_the_prompts_of_each_value_of_a_field():
    style = "x" * 12 + "y" * 8
    outcomes = {
        "a": outcomes_of("r" * 20, style=style),
        "b": outcomes_of("c" * 12 + "r" * 8, style=style),
    }
    compared = compare_fields(outcomes)
    groups = [(d.group.field, d.group.value, d.n, d.value) for *_, d in compared]
    assert groups == [("style", "x", 12, -1.0), ("style", "y", 8, 0.0)]
    # Benjamini and Hochberg: the smallest p of two counts twice, the larger once.
    assert [d.p_adjusted for *_, d in compared] == [2 * 2 / 2**12, 1.0]
    assert [d.group.value for *_, d in strongest(compared, 0.95)] == ["x"]
    pages = pages_of(outcomes)
    assert "1 of 2 paired comparisons" in pages["fields"]
    assert ["s", "harmful, style x", "a", "b"] in [x[:4] for x in lines_of(pages["fields"], "s")]


def test_prompts_without_the_field_are_in_no_comparison_by_it():
    outcomes = {model: outcomes_of("rcr", style="x x") for model in "ab"}
    assert [(d.group.value, d.n) for *_, d in compare_fields(outcomes)] == [("x", 2)]


ADAPTERS = {"a": "hf", "b": "synthetic", "c": "openai", "d": "recorded"}


@pytest.mark.parametrize(
    ("models", "family"),
    [("abcd", ["ac"]), ("acd", ["ac"]), ("bd", ["bd"]), ("ad", ["ad"])],
)
@pytest.mark.parametrize("compare", [compare_models, compare_fields])
def test_live_models_alone_are_in_the_family_of_tests_where_there_are_two(models, family, compare):
    provenance = {
        m: {"model": {"definition": {"adapter": ADAPTERS[m]}, "identity": {}}} for m in models
    }
    outcomes = {m: outcomes_of("rc"[n % 2] * 12, style="x" * 12) for n, m in enumerate(models)}
    compared = compare(outcomes, known=known_of(provenance))
    own = [pair for pair in compared if pair.difference.p_adjusted is not None]
    assert ["".join(pair[:2]) for pair in own] == family
    assert number_of_tests(compared) == len(family)
    assert all(pair.difference.p_adjusted == pair.difference.p for pair in own)
    assert all(pair.difference.p is not None for pair in compared)


def test_those_with_most_evidence_come_first():
    (difference, *_) = (d for *_, d in compare_models({m: outcomes_of("rc") for m in "ab"}))
    pairs = [
        Compared(*names, replace(difference, p_adjusted=p, value=value))
        for names, p, value in (
            ("ab", 0.02, 0.9),
            ("ac", 0.01, 0.1),
            ("bc", 0.01, -0.2),
            ("cd", 0.2, 1.0),
        )
    ]
    assert ["".join(pair[:2]) for pair in strongest(pairs, 0.95)] == ["bc", "ac", "ab"]


def test_a_share_that_rounds_to_nothing_has_no_minus():
    difference = Difference(
        suite="s",
        category="discrimination",
        perturbation="",
        n=9,
        clusters=9,
        a=-0.0004,
        b=0.0,
        value=-0.0004,
        interval=Interval(-0.0004, 0.25),
        bounds=None,
        outer=None,
        p=None,
        prompts=dict.fromkeys((*FLIPS, *LEFT_OUT), ()),
        model="one",
    )
    for wide in (False, True):
        sides = ComparedSides("a", "b", [], 0.95, [difference], [])
        (row,) = SidesText(sides, wide=wide).table("one").rows
        assert "-0.00" not in " ".join(row)
