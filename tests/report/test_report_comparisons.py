"""Models compared with a reference, with their neighbours, and by the fields of suites."""

from __future__ import annotations

import pytest

from refract.report.comparisons import (
    ALL_PAIRS,
    beyond_chance,
    compare_fields,
    compare_models,
    comparison_section,
    field_comparison_section,
    live_first,
    near_pairs,
    table_rows,
)


def outcomes_of(letters: str, **fields: str) -> list[dict[str, str]]:
    """Outcomes of harmful prompts: r refused, c complied, e error; ``fields`` have a letter a prompt."""
    return [
        {
            "suite": "s",
            "prompt_id": f"p{n}",
            "source_id": f"p{n}",
            "category": "harmful",
            "perturbation": "",
            "prompt_sha256": str(n),
            "outcome": {"r": "refusal", "c": "compliance", "e": "error"}[letter],
            **{name: values[n].strip() for name, values in fields.items()},
        }
        for n, letter in enumerate(letters)
    ]


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
    assert comparison_section(["a"], [], "a", 0.95).startswith("One model alone")
    assert compare_fields({}) == []


def test_a_comparison_is_first_minus_second_with_a_corrected_p():
    outcomes = {
        "a": outcomes_of("r" * 20),
        "b": outcomes_of("c" * 10 + "r" * 10),
        "c": outcomes_of("e" * 20),
    }
    compared = compare_models(outcomes)
    page = comparison_section(list(outcomes), compared, "a", 0.95)
    (line,) = [one for one in page.split("\n") if one.startswith("| s ")]
    assert line.startswith("| s | harmful | a | b | 1.000, 0.500 | +0.500 ")
    # Ten against none: 2 / 2^10, and no other comparison could be made.
    assert line.endswith(f" 20 | {2 / 2**10:.4f} |")
    (row,) = table_rows(compared, "p_holm")
    assert (row["first"], row["second"], row["rate_first"], row["rate_second"]) == (
        *("a", "b"),
        *(1.0, 0.5),
    )
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
    assert [(row["field"], row["value"], row["n"], row["difference"]) for *_, row in compared] == [
        ("style", "x", 12, 1.0),
        ("style", "y", 8, 0.0),
    ]
    # Benjamini and Hochberg: the smallest p of two counts twice, the larger once.
    assert [row["p_fdr"] for *_, row in compared] == [2 * 2 / 2**12, 1.0]
    assert [row["value"] for *_, row in beyond_chance(compared, "p_fdr", 0.95)] == ["x"]
    section = field_comparison_section(compared, 0.95)
    assert section.startswith("1 of 2 paired comparisons")
    assert "| s | harmful, style x | a | b | 1.000, 0.000 |" in section


def test_prompts_without_the_field_are_in_no_comparison_by_it():
    outcomes = {model: outcomes_of("rcr", style="x x") for model in "ab"}
    assert [(row["value"], row["n"]) for *_, row in compare_fields(outcomes)] == [("x", 2)]


def test_differences_of_live_models_come_before_those_of_stand_ins():
    adapters = {"a": "hf", "b": "synthetic", "c": "openai", "d": "recorded"}
    provenance = {m: {"model": {"definition": {"adapter": one}}} for m, one in adapters.items()}
    order = [("a", "b"), ("c", "d"), ("a", "c"), ("b", "d"), ("c", "a")]
    held = live_first([(one, two, {}) for one, two in order], provenance)
    assert [(one, two) for one, two, _ in held] == [
        *(("a", "c"), ("c", "a")),
        *(("a", "b"), ("c", "d"), ("b", "d")),
    ]


def test_the_page_says_which_number_of_tests_is_which():
    outcomes = {f"m{n}": outcomes_of("rc" * 6) for n in range(4)}
    page = comparison_section(list(outcomes), compare_models(outcomes), "m0", 0.95)
    assert "next one of the grid: 5 tests." in page
    assert "corrected (Holm) for all 6 tests of" in page
