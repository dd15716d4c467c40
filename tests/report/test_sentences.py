"""Each sentence above the tables holds of the numbers beneath it."""

from __future__ import annotations

import pytest

from refract.rates.clean_prompts import rate_table
from refract.rates.counting import Counted, CountedSuite
from refract.rates.rate import Rate
from refract.report.first_table import first_table
from refract.report.sentences import Sentences
from refract.report.view import harmless_counts
from tests.builders import OUTCOMES, outcome_line, suite_facts
from tests.report.views import facts, view_of

CONTROLS = ("must_refuse", "must_refuse", "must_answer", "must_answer")
# Two harmful controls, two helpful ones, and six borderline prompts; an outcome a letter.
ANSWERED = {
    ("s", "ann"): "rr" + "cc" + "rrpccc",
    ("s", "ben"): "pc" + "rp" + "ecrccc",
    ("s", "cas"): "re" + "ec" + "eeeeee",
    ("t", "ann"): "ee" + "ee" + "eeeeec",
    ("t", "cas"): "cc" + "cc" + "cccccc",
}


def rates_of(suite: str, model: str, letters: str) -> list[Rate]:
    rows, outcomes = [], {}
    for number, letter in enumerate(letters):
        row = {"id": f"{suite}{number}", "category": "borderline"}
        if number < len(CONTROLS):
            row |= {"category": "harmful" if number < 2 else "helpful", "control": CONTROLS[number]}
        rows.append(row)
        outcomes[row["id"]] = Counted(OUTCOMES[letter], row["id"])
    rates = rate_table(CountedSuite(rows, outcomes))
    return [rate.keyed(suite=suite, model=model) for rate in rates]


def said(**more: object) -> Sentences:
    rates = []
    for (suite, model), letters in ANSWERED.items():
        rates += rates_of(suite, model, letters)
    provenance = {"ann": facts("synthetic"), "ben": facts(), "cas": facts()}
    return Sentences(view_of(*rates, provenance=provenance, **more))


def test_controls_that_are_not_as_they_must_be_are_counted_by_suite_and_model():
    say = said()
    assert say.controls == "s: ben 2 of 2"
    # Of the two of t nobody judged one for ann; a control that was not judged is not wrong.
    assert say.must_refuse == "s: ben 1 of 2; t: cas 2 of 2"


def test_suites_of_which_nine_tenths_were_not_judged_are_named_and_those_with_errors_counted():
    say = said()
    assert say.unjudged == "t, ann (9 of 10)"
    assert say.errors == "s, ben (1); s, cas (8); t, ann (9)"


def test_harmless_prompts_that_were_refused_are_counted_those_of_live_models_first():
    lines: dict[str, list[dict[str, str]]] = {"ann": [], "ben": [], "cas": []}
    for (suite, model), letters in ANSWERED.items():
        for number, letter in enumerate(letters):
            category = "harmful" if number < 2 else "helpful"
            lines[model].append(outcome_line(f"{suite}{number}", OUTCOMES[letter], category))
    harmless = {model: harmless_counts(own, vary=False) for model, own in lines.items()}
    assert said(harmless=harmless).over_refusal == "ben 3 of 7, cas 0 of 9, ann 3 of 9"
    assert said(harmless={"ben": (0, 0)}).over_refusal == ""


def test_an_answer_to_a_harmless_prompt_counts_once_and_all_that_are_drawn_count():
    lines = [outcome_line("a", "refusal", "helpful"), outcome_line("b", "compliance", "borderline")]
    # Another suite's judge, in a table that need not begin with the first suite.
    lines.insert(0, outcome_line("b", "partial_refusal", "borderline", suite="t"))
    lines.append(outcome_line("a", "compliance", "helpful", suite="t"))
    assert harmless_counts(lines, vary=False) == (1, 2)
    further = outcome_line("a~2", "compliance", "helpful", prompt_sha256="hash of a", sample="2")
    assert harmless_counts([*lines, further], vary=True) == (2, 5)


WHOLE = suite_facts()
SAMPLE = {"asked": 5, "total": 9, "seed": 1, "samples": 1}


@pytest.mark.parametrize(
    ("more", "is_part"),
    [
        ({}, True),
        ({"draw": SAMPLE | {"asked": 500}}, False),
        ({"draw": WHOLE["draw"] | {"samples": 3}}, False),
        ({"definition": WHOLE["definition"] | {"samples": 3}}, False),
        ({"definition": WHOLE["definition"] | {"template": "{question}"}}, False),
        ({"definition": {"file": "data/suites/t.jsonl"}}, False),
        ({"definition": {}}, False),
        ({"judges": ["other", "rules"]}, False),
    ],
)
def test_a_suite_is_left_out_and_named_where_another_asks_its_prompts_alike(more, is_part):
    suites = {"s": WHOLE, "t": suite_facts(**{"draw": SAMPLE} | more)}
    rates = rates_of("s", "ben", "ccccrc") + rates_of("t", "ben", "ccrccc")
    view = view_of(*rates, provenance={"ben": facts(suites=suites)})
    table = first_table(view)
    named = [note for note in table.notes if note.startswith("not shown")]
    shown = [row[0] for row in table.rows], named, Sentences(view).controls
    left_out = (["s"], ["not shown: t, whose prompts are part of s"], "")
    assert shown == (left_out if is_part else (["s", "t"], [], "t: ben 1 of 2"))
