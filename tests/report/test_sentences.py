"""Each sentence above the tables holds of the numbers beneath it."""

from __future__ import annotations

from refract.rates.clean_prompts import rate_table
from refract.rates.counting import Counted, CountedSuite
from refract.rates.rate import Rate
from refract.report.sentences import Sentences
from refract.report.view import harmless_counts
from tests.builders import OUTCOMES, outcome_line
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
    harmless = {model: harmless_counts(own) for model, own in lines.items()}
    assert said(harmless=harmless).over_refusal == "ben 3 of 7, cas 0 of 9, ann 3 of 9"
    # The same text in another suite is one prompt, refused where either answer is.
    again = [{**line, "suite": "u", "outcome": "refusal"} for line in lines["ann"][2:4]]
    assert harmless_counts(lines["ann"] + again) == (5, 9)
    assert said(harmless={"ben": (0, 0)}).over_refusal == ""
