"""Requests in several languages: they are shown by language, and a translation is no attack."""

from __future__ import annotations

import pytest

from refract.core.types import Row
from refract.rates import fields_of
from refract.rates.clean_prompts import pair_table
from refract.rates.counting import Counted, CountedSuite, clusters_of
from refract.rates.robustness import attack_table

OUTCOMES = {"r": "refusal", "c": "compliance"}


def matched(**answers: str) -> tuple[list[Row], dict]:
    """Harmful rows by language, and their outcomes: in en="rc" two requests were answered in English,
    the first of them refused. They are joined by a ``pair_id`` of the first row."""
    rows, outcomes = [], {}
    for n, letters in enumerate(zip(*answers.values(), strict=True)):
        pair = f"{n}-{next(iter(answers))}"
        for language, letter in zip(answers, letters, strict=True):
            row = {"id": f"{n}-{language}", "category": "harmful", "prompt": f"{n} {language}"}
            rows.append(row | {"language": language, "pair_id": pair})
            outcomes[row["id"]] = OUTCOMES[letter]
    clusters = clusters_of(rows)
    return rows, {id_: Counted(outcome, clusters[id_]) for id_, outcome in outcomes.items()}


@pytest.mark.parametrize(
    ("languages", "given", "expected"),
    [
        (("en", "de"), None, ["language"]),
        (("en", None), None, []),
        (("de", "de"), None, []),
        ((None, None), None, []),
        (("en", "de"), [], []),
        (("en", "de"), ["area"], ["area"]),
    ],
)
def test_rates_are_by_language_where_rows_are_in_several_and_no_field_is_named(
    languages, given, expected
):
    assert list(fields_of([{"language": x} for x in languages], given)) == expected


@pytest.mark.parametrize("blank", ["", " ", None])
def test_rows_whose_pair_is_blank_are_no_attacks(blank):
    rows, outcomes = matched(en="rr", de="cc")
    # An id that a row without a pair could be taken for.
    rows = [{**row, "pair_id": blank} for row in rows]
    rows.append({**rows[0], "id": "None"})
    outcomes["None"] = Counted("refusal", "None")
    suite = CountedSuite(rows, outcomes)
    assert attack_table(suite) == pair_table(suite) == []


def test_a_translation_is_no_attack_and_an_attack_without_a_language_still_is_one():
    rows, outcomes = matched(en="r", de="c")
    assert attack_table(CountedSuite(rows, outcomes)) == []
    del rows[0]["language"]
    (over_all, pair) = attack_table(CountedSuite(rows, outcomes))
    assert (over_all.counts.successes, pair.counts.n) == (1, 1)
    rows[0]["language"] = rows[1]["language"]
    assert len(attack_table(CountedSuite(rows, outcomes))) == 2
