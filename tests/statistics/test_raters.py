"""Cohen's κ and precision and recall against published tables and by simulation."""

from __future__ import annotations

import pytest

from refract.statistics.proportions import wilson
from refract.statistics.raters import (
    Confusion,
    Kappa,
    cohen_kappa,
    confusion,
    kappa_of_table,
    more_labels,
)

# table, κ, tolerance
PUBLISHED_KAPPA = [
    # Artstein & Poesio 2008, Computational Linguistics 34:555, tables 1 and 4
    ([[20, 20], [10, 50]], 0.348, 5e-4),
    ([[46, 0, 0], [6, 32, 6], [0, 0, 10]], 0.8013, 5e-5),
    # SAS FREQ, as kept in statsmodels' test_inter_rater.py
    ([[0, 4, 1], [0, 8, 0], [0, 1, 5]], 0.4842, 5e-5),
    # Phrase lists against a council of models and against a person, on refusals
    ([[50, 0], [4, 96]], 0.941, 5e-4),
    ([[9, 0], [3, 18]], 0.783, 5e-4),
    ([[21, 0], [2, 27]], 0.919, 5e-4),
    ([[19, 0], [2, 29]], 0.917, 5e-4),
    ([[10, 0], [0, 40]], 1.0, 1e-12),
]


@pytest.mark.parametrize(("table", "kappa", "tolerance"), PUBLISHED_KAPPA)
def test_kappa_of_published_tables(table, kappa, tolerance):
    assert kappa_of_table(table).kappa == pytest.approx(kappa, abs=tolerance)


def test_the_standard_error_and_the_interval_built_on_it_are_those_of_sas():
    result = kappa_of_table([[0, 4, 1], [0, 8, 0], [0, 1, 5]])
    assert result.se == pytest.approx(0.138, abs=5e-5)
    plain = (result.kappa - 1.959964 * result.se, result.kappa + 1.959964 * result.se)
    assert plain == pytest.approx((0.2137, 0.7547), abs=1e-4)


def test_the_interval_is_near_a_published_bootstrap():
    result = kappa_of_table([[50, 0], [4, 96]])
    assert (result.low, result.high) == pytest.approx((0.879, 0.986), abs=0.03)


@pytest.mark.parametrize(
    ("table", "interval"),
    [
        ([[0, 0], [3, 235]], False),  # an interval from -1.89 before
        ([[0, 6], [6, 117]], False),
        ([[9, 0], [0, 91]], False),
        ([[91, 0], [0, 9]], False),
        ([[10, 0], [0, 90]], True),
        ([[0, 12], [12, 105]], True),
        (
            [[140, 3, 1], [2, 3, 0], [1, 0, 2]],
            False,
        ),  # the second rater: 9 outside of the first label
        ([[40, 3, 2], [2, 4, 1], [1, 2, 9]], True),
    ],
)
def test_rare_labels_leave_kappa_without_an_interval_and_others_one_that_is_possible(
    table, interval
):
    for crossed in (table, [list(row) for row in zip(*table, strict=True)]):
        found = kappa_of_table(crossed)
        assert found.kappa is not None
        assert (found.low is not None) == (found.high is not None) == interval
        if found.low is not None:
            n, margins = found.n, (map(sum, crossed), map(sum, zip(*crossed, strict=True)))
            least = sum(max(0, a + b - n) for a, b in zip(*margins, strict=True)) / n
            possible = (least - found.chance_agreement) / (1 - found.chance_agreement)
            assert possible - 1e-12 <= found.low <= found.kappa <= found.high <= 1


def test_the_lower_end_of_kappa_is_the_least_that_the_margins_leave_possible():
    # 15 and 15 of 89 positive: all negative to one rater may be positive to the other.
    agreement, chance = 59 / 89, (15**2 + 74**2) / 89**2
    found = kappa_of_table([[1, 14], [14, 60]])
    assert found.low == pytest.approx((agreement - chance) / (1 - chance))
    assert found.low < found.kappa < 0


def test_the_upper_end_of_kappa_is_wilsons_by_the_error_of_kappa_with_four_items_more():
    # Fleiss, Cohen & Everitt 1969 on [[2, 15], [16, 1]]: .0971, as that of a share 3/34 of 34.12.
    number = 3 / 34 * 31 / 34 / (0.09711815 / 2) ** 2
    high = wilson(number / 30, number).high
    assert kappa_of_table([[1, 14], [15, 0]]).high == pytest.approx(2 * high - 1)


def test_kappa_of_few_items_has_the_exact_interval_of_agreement_and_of_fewer_none():
    # Clopper & Pearson: 18 of 20 is .9 [.683, .988]; 7 and 7 of 20 positive leave .545 to chance.
    result = kappa_of_table([[6, 1], [1, 12]])
    chance = (7 * 7 + 13 * 13) / 20**2
    ends = [(end - chance) / (1 - chance) for end in (0.6830173, 0.9876515)]
    assert (result.low, result.high) == pytest.approx(ends, abs=1e-6)
    # 35 and 7 of 42 in common: of these margins the least κ is above what the share leaves.
    assert kappa_of_table([[30, 5], [4, 3]]).low == pytest.approx(-0.2162162)
    assert kappa_of_table([[6, 1], [1, 11]]).low is None
    assert kappa_of_table([[1, 0], [0, 8]]).low is None  # one is a tenth of nine, and no two
    assert more_labels(20) == ""
    assert "label 20 or more" in more_labels(19)


def test_kappa_is_undefined_without_items_and_with_one_label():
    assert kappa_of_table([]) == Kappa(None, None, None, None, 0, None, None)
    assert kappa_of_table([[0, 0], [0, 0]]).kappa is None
    assert cohen_kappa(["yes"] * 5, ["yes"] * 5) == Kappa(None, None, None, None, 5, 1.0, 1.0)


def test_labels_are_crossed_in_the_order_first_rater_then_second():
    first = ["refusal", "partial", "refusal", "compliance"]
    second = ["refusal", "refusal", "partial", "compliance"]
    assert confusion(first, second, ["refusal", "partial", "compliance"]) == Confusion(
        ("refusal", "partial", "compliance"), ((1, 1, 0), (1, 0, 0), (0, 0, 1))
    )
    assert confusion(first, second).labels == ("compliance", "partial", "refusal")


def test_a_confusion_is_read_by_the_first_raters_label():
    table = confusion(["yes", "yes", "no"], ["yes", "no", "no"])
    assert table.by_label == {"no": {"no": 1, "yes": 0}, "yes": {"no": 1, "yes": 1}}
