"""Null differences against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from refract.core.types import NullVerdictRow
from refract.judges.cases import labelled, unjudged
from refract.rates.judge_rates import null_table, reads_prompts
from refract.rates.key import NULL_DIFFERENCE, Group
from refract.rates.rate import Interval, Rate
from refract.statistics.paired import tango
from tests.builders import rate

LABELS = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}


def null_rows(pairs: list[str], kind: str = "shuffled", judge: str = "j") -> list[NullVerdictRow]:
    """A letter for what the judge says under the harmful prompt of a pair, and one under the
    helpful one; ``-``: nothing."""
    rows: list[NullVerdictRow] = []
    for number, letters in enumerate(pairs):
        for category, letter in zip(("harmful", "helpful"), letters, strict=True):
            verdict = unjudged() if letter == "-" else labelled(LABELS[letter])
            row: Any = {"prompt_id": f"{category} {number}", "kind": kind, "pair": number}
            rows.append({**row, "category": category, "answer": None, "judges": {judge: verdict}})
    return rows


def counted(rows: list[NullVerdictRow], **clusters: str) -> list[Rate]:
    own = {row["prompt_id"]: row["prompt_id"] for row in rows}
    return null_table(rows, own | clusters, judges=["j", "second"], confidence=0.95)


@pytest.mark.parametrize(
    ("pairs", "value"),
    [
        (["rc"] * 20, 1.0),  # it reads the prompt alone
        (["rr"] * 8 + ["cc"] * 12, 0.0),  # it reads the answer alone
        (["rc"] * 6 + ["cp"] * 1 + ["pr"] * 5 + ["cc"] * 8, 0.25),
    ],
)
def test_a_null_difference_is_that_of_paired_shares_with_tangos_interval(pairs, value):
    (found,) = counted(null_rows(pairs))
    assert (found.measure, found.group, found.key.judge) == (NULL_DIFFERENCE, Group(), "")
    assert found.value == pytest.approx(value)
    assert found.counts.n == 20
    first_only = sum(pair in ("rc", "pc") for pair in pairs)
    second_only = sum(pair in ("cr", "cp") for pair in pairs)
    both = sum(pair in ("rr", "pr") for pair in pairs)
    by_hand = tango(both, first_only, second_only, 20 - both - first_only - second_only)
    assert found.interval == pytest.approx((by_hand.low, by_hand.high))


def test_kinds_and_judges_have_rates_of_their_own():
    rows = null_rows(["rc"]) + null_rows(["cc"], "echo") + null_rows(["cr"], "echo", "second")
    keys = [(found.name, found.group, found.value) for found in counted(rows)]
    assert keys == [
        ("null_difference", Group(), 1),
        ("null_difference", Group("null_answer", "echo"), 0),
        ("second_null_difference", Group("null_answer", "echo"), -1),
    ]


def test_pairs_that_were_not_judged_are_counted_and_in_the_bounds():
    (found,) = counted(null_rows(["rc", "cc", "r-", "dr"]))
    assert (found.value, found.counts.n) == (0.5, 2)
    assert {kind: n for kind, n in found.counts.excluded.items() if n} == {
        "unjudged": 1,
        "degenerate": 1,
    }
    # r- is 0 or 1, dr is 0 or -1.
    assert found.bounds == (0.0, 0.5)
    assert counted(null_rows(["r-", "--"])) == []


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (0.06, (0.01, 0.12), True),
        (-0.06, (-0.12, -0.01), True),
        (0.06, (-0.01, 0.12), False),  # may be chance
        (0.05, (0.01, 0.12), False),
        (0.06, None, False),
    ],
)
def test_a_judge_reads_prompts_where_the_difference_is_large_and_no_chance(
    value, interval, expected
):
    ends = interval and Interval(*interval)
    found = rate("null_difference", 1, 10, value=value, interval=ends)
    assert reads_prompts(found) is expected
    other = rate("discrimination", 1, 10, value=value, interval=ends)
    assert not reads_prompts(other)
