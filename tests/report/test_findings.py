"""What report.md answers at once: how much was over-refused, how good the judge is, and what failed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from refract.agreement.unseen_models import known_errors
from refract.core.decimals import decimals, estimate_text
from refract.judges import open_judge, reading_warnings
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Interval
from refract.rates.undecided import judged_part
from refract.report.judge_notes import XSTEST, people_table
from refract.report.view import JudgeScore, View
from tests.builders import judge_error, rate, suite_facts
from tests.report.views import facts, pages_of, sentence, view_of


def report_of(view: View, *answers: Any) -> str:
    return pages_of(view, *answers)["report"]


def test_how_good_the_judge_is_here():
    known = judge_error([0.1, 0.2, 0.05, 0.1], [0.02] * 4, n=400)
    suite = suite_facts(judge_error={"lines": known.lines})
    scores = {"rules": {"kappa": JudgeScore(0.68, Interval(0.6, 0.74), 413)}}
    provenance = {"one": facts(suites={"s": suite})}
    view = view_of(rate("refusal_rate", 1, 2), provenance=provenance, scores=scores)
    text = sentence(report_of(view), "The judge")
    assert "errs. Where it finds 0.50 of the answers refused, labels would find [" in text
    assert re.search(r"413 pairs.* 0\.68 \[0\.60, 0\.74\]", text)
    view = replace(view, provenance={"one": facts(suites={"s": suite_facts()})})
    assert "is not known here" in sentence(report_of(view), "The judge")


def test_the_report_begins_with_what_people_found_where_its_judge_was_measured_on_that():
    version = open_judge("refusal", {"kind": "refusal"}).version
    error = known_errors({"refusal": {"kind": "refusal", "version": version}}, [])["refusal"]
    suite = suite_facts(judge_error={"lines": error.lines}, judges=["refusal"])
    view = view_of(rate("refusal_rate", 1, 2), provenance={"one": facts(suites={"s": suite})})
    judge, table = people_table(view)
    assert (judge, [row[0] for row in table.rows]) == ("refusal", [*XSTEST.values()])
    for (source, model), (_, *cells) in zip(XSTEST, table.rows, strict=True):
        others = JudgeError(tuple(line for line in error.lines if line.source != source))
        expected = []
        for prompts in ("harmful", "other"):
            (line,) = (each for each in error.lines if each[:3] == (source, model, prompts))
            called = line.refused - line.missed + line.false
            _, ends = judged_part(called, line.answers, prompts, others, 0.95)
            expected.append(decimals(line.refused / line.answers))
            expected.append(estimate_text(called / line.answers, ends))
        assert cells == expected
    text = report_of(view)
    assert text.index("| GPT-4 |") < text.index("| suite |")
    # Nothing of a judge that was not measured on these answers.
    others = tuple(line for line in error.lines if not line.source.startswith("xstest"))
    for known in (JudgeError(others), judge_error([0.1, 0.2, 0.05, 0.1], [0.02] * 4, n=400)):
        suite = suite_facts(judge_error={"lines": known.lines})
        assert (
            people_table(replace(view, provenance={"one": facts(suites={"s": suite})}))[1].rows
            == []
        )
    assert "GPT-4" not in report_of(replace(view, provenance={"one": facts()}))


def test_what_labels_of_the_project_ask_stands_beside_intervals():
    unknown = replace(rate("refusal_rate", 1, 2), judge_unknown=True)
    provenance = {"one": {**facts(), "decisions": {"labels_ask": "whether it says no"}}}
    note = view_of(unknown, provenance=provenance).interval_note
    assert note.endswith("is not known by labels that ask whether it says no.")


def test_labels_of_a_language_model_are_said_to_be_its_beside_intervals():
    labelled = rate("prediction_powered_refusal_rate", 1, 2, interval=(0.1, 0.6))
    suites = {"s": {**suite_facts(), "labels_by_models": 3}, "t": suite_facts()}
    note = view_of(labelled, provenance={"one": facts(suites=suites)}).interval_note
    assert note.endswith("labels (3 are a language model's, not a person's), they are of these.")


def test_languages_that_a_judge_was_not_measured_in_are_named_with_the_way_out():
    languages = [{"language": "nl"}, {"language": "en"}]
    (unread,) = reading_warnings(languages, {"mine": {"kind": "refusal"}})
    provenance = {"one": facts(suites={"s": suite_facts(judges=["mine"])})}
    view = view_of(rate("refusal_rate", 1, 2), provenance=provenance, unread=[f"s: {unread}"])
    text = sentence(report_of(view), "Not read")
    assert "s: mine was not measured on models' answers in the language of 1 rows (nl 1)" in text
    assert "kind: llm_refusal" in text
