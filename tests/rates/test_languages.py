"""Requests in several languages: what one language answers that another refuses."""

from __future__ import annotations

import pytest

from refract.core.types import Row
from refract.rates import fields_of
from refract.rates.clean_prompts import pair_table, suite_metrics
from refract.rates.counting import Counted, CountedSuite, clusters_of
from refract.rates.robustness import attack_table, language_table
from refract.statistics.proportions import wilson

LOOPHOLE, OVER = "language_loophole_rate", "language_over_refusal_rate"
OUTCOMES = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "-": "error"}


def matched(
    category: str = "harmful", join: str = "first", **answers: str
) -> tuple[list[Row], dict]:
    """Rows by language, and their outcomes: in en="rc" two requests were answered in English, the first
    of them refused. They are joined by a ``pair_id`` of the first row, by one of their own or by an
    ``item``; a blank is no row."""
    rows = []
    for n, letters in enumerate(zip(*answers.values(), strict=True)):
        for language, letter in zip(answers, letters, strict=True):
            shared = {
                "first": {"pair_id": f"{n}-{next(iter(answers))}"},
                "text": {"pair_id": f"request {n}"},
                "item": {"item": n},
            }[join]
            row = {"id": f"{n}-{language}", "category": category, "prompt": f"{n} {language}"}
            if letter != " ":
                rows.append((row | {"language": language.replace("_", "-")} | shared, letter))
    clusters = clusters_of([row for row, _ in rows])
    found = {row["id"]: Counted(OUTCOMES[x], clusters[row["id"]]) for row, x in rows}
    return [row for row, _ in rows], found


def rates(rows: list[Row], outcomes: dict, source: str = "en") -> dict:
    suite = CountedSuite(rows, outcomes, definition={"source_language": source})
    table = language_table(suite)
    return {(rate.name, rate.group.value): rate for rate in table}


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


@pytest.mark.parametrize("join", ["first", "text", "item"])
def test_what_is_refused_in_english_and_answered_in_another_language(join):
    # Of the five, the fourth is answered in English, the fifth not judged there.
    found = rates(*matched(join=join, en="rprc-", de="crrcc", zh="-r-cc"))
    assert {*found} == {(LOOPHOLE, ""), (LOOPHOLE, "de"), (LOOPHOLE, "zh")}
    assert suite_metrics([*found.values()])[LOOPHOLE] == 0.5
    german, chinese, anywhere = (found[LOOPHOLE, of] for of in ("de", "zh", ""))
    assert (german.counts.successes, german.counts.n, german.counts.clusters) == (1, 3, 3)
    assert german.interval == wilson(1, 3)
    # Two of the Chinese answers are not judged; the first request is answered in German anyway.
    assert (chinese.counts.successes, chinese.counts.n, chinese.counts.excluded["error"]) == (
        0,
        1,
        2,
    )
    assert chinese.bounds == pytest.approx((0, 2 / 3))
    assert (anywhere.counts.successes, anywhere.counts.n, anywhere.counts.unjudged) == (1, 2, 1)
    assert anywhere.bounds == pytest.approx((1 / 3, 2 / 3))


@pytest.mark.parametrize("category", ["helpful", "borderline"])
def test_what_is_answered_in_the_source_language_and_refused_in_another(category):
    rows, outcomes = matched(category, en_GB="cccr", de="rpcr", es="  rr")
    found = rates(rows, outcomes)
    assert {of: (rate.counts.successes, rate.counts.n) for (_, of), rate in found.items()} == {
        "": (3, 3),
        "de": (2, 3),
        "es": (1, 1),
    }
    assert {measure for measure, _ in found} == {OVER}
    assert rates(rows, outcomes, "fr") == {}
    # Held against German: English answers all but the one that German refuses, too.
    assert {
        of: (x.counts.successes, x.counts.n) for (_, of), x in rates(rows, outcomes, "de").items()
    } == {"": (1, 1), "en-GB": (0, 1), "es": (1, 1)}


@pytest.mark.parametrize("blank", ["", " ", None])
def test_rows_whose_pair_and_item_are_blank_are_no_translations_and_no_attacks(blank):
    rows, outcomes = matched(en="rr", de="cc")
    nothing = {"pair_id": blank, "item": blank}
    # An id that a row without an item could be taken for.
    rows = [{**row, **nothing} for row in rows] + [{**rows[0], **nothing, "id": "None"}]
    outcomes["None"] = Counted("refusal", "None")
    suite = CountedSuite(rows, outcomes)
    assert rates(rows, outcomes) == {}
    assert attack_table(suite) == pair_table(suite) == []


def test_styles_of_one_request_are_held_against_their_own_original():
    rows, outcomes = matched(en="r", de="c")
    attack = {"category": "harmful", "prompt": "a", "pair_id": "0-en", "language": "en"}
    rows += [attack | {"id": "a-en"}, attack | {"id": "a-de", "language": "de", "pair_id": "a-en"}]
    outcomes |= {"a-en": Counted("compliance", "0-en"), "a-de": Counted("compliance", "0-en")}
    assert rates(rows, outcomes)[LOOPHOLE, "de"].counts.n == 1


def test_a_translation_is_no_attack_and_an_attack_without_a_language_still_is_one():
    rows, outcomes = matched(en="r", de="c")
    assert attack_table(CountedSuite(rows, outcomes)) == []
    del rows[0]["language"]
    (over_all, pair) = attack_table(CountedSuite(rows, outcomes))
    assert (over_all.counts.successes, pair.counts.n) == (1, 1)
    rows[0]["language"] = rows[1]["language"]
    assert len(attack_table(CountedSuite(rows, outcomes))) == 2
    assert rates(rows, outcomes) == {}
