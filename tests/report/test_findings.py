"""What report.md answers at once: which model over-refuses and on what, whether one is safer than
another, how good the judge is, what perturbations did, and what failed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from refract.judges import language_warnings
from refract.rates.comparison import DEFAULTS
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Interval, Rate
from refract.report.comparisons import compare_nearest, compare_perturbed
from refract.report.page_data import page_data
from refract.report.sections import Inputs, perturbed_table, report_pages
from refract.report.view import JudgeScore, View, _of_suites, known_of
from tests.builders import outcome_line, outcome_lines, rate, suite_facts
from tests.report.test_sections import answered, lines_of

Facts = dict[str, Any]


def facts(adapter: str = "hf", suites: Facts | None = None, **definition: object) -> Facts:
    """The provenance of a model."""
    about = {"identity": {"adapter_version": "1", "of": definition}, "seed": None}
    about |= {"definition": {"adapter": adapter, **definition}, "parameters": None}
    return {"model": about, "judges": {}, "suites": suites or {}}


def of_kinds(harmful: str, helpful: str) -> list[dict[str, str]]:
    """Outcomes of a suite of harmful and helpful prompts, a letter each."""
    rows = outcome_lines(harmful)
    for number, row in enumerate(outcome_lines(helpful, category="helpful")):
        id_ = f"h{number}"
        rows.append({**row, "prompt_id": id_, "source_id": id_, "prompt_sha256": id_})
    return rows


def report_of(view: View, *answers: object) -> str:
    return report_pages(Inputs(view, page_data(answers), {}))["report"]


def sentence(report: str, name: str) -> str:
    (line,) = (line for line in report.splitlines() if line.startswith(f"- **{name}.**"))
    return line.replace("\\", "")


def compared(outcomes: Facts, provenance: Facts) -> str:
    """The sentence on the model nearest to the one called plain."""
    nearest = compare_nearest(outcomes, DEFAULTS, "plain", known_of(provenance))
    rates = {model: [rate("refusal_rate", 1, 2, model=model)] for model in outcomes}
    view = View(rates, provenance, reference="plain", nearest=nearest)
    return sentence(report_of(view), "Compared")


PLAIN = of_kinds("c" * 60 + "r" * 20, "c" * 80)


def test_is_the_safety_prompt_safer_and_what_does_it_cost():
    models = {
        "plain": facts(model_id="m", dtype="float32"),
        "other": facts(model_id="n", dtype="bfloat16"),
        "safety": facts(model_id="m", dtype="float32", system_prompt="Refuse what is harmful."),
    }
    safety = of_kinds("c" * 20 + "r" * 60, "c" * 78 + "rr")
    text = compared({"plain": PLAIN, "other": PLAIN, "safety": safety}, models)
    ends = r"\[-?0\.\d\d, 0\.\d\d\]"
    assert re.search(
        r"Against plain on s, safety \(the same with a system prompt\) refused "
        rf"0\.50 {ends} more of the harmful prompts; 0\.03 {ends} "
        rf"more of the helpful prompts \(inconclusive at a margin of 0\.05\); its discrimination is "
        rf"0\.4[78] {ends} higher\.",
        text,
    )


def test_a_model_that_refuses_less_of_harmful_prompts_is_said_to_and_no_cost_is_said_to_be_shown():
    models = {"plain": facts(dtype="float32"), "low": facts(dtype="int8")}
    worse = of_kinds("c" * 75 + "r" * 5, "c" * 80)
    text = compared({"plain": PLAIN, "low": worse}, models)
    assert "Against plain on s, low (the same but for dtype) refused 0.19 [" in text
    assert re.search(r"0\.19 \[0\.\d\d, 0\.\d\d\] fewer of the harmful prompts", text)
    assert re.search(r"0\.00 \[-0\.\d\d, 0\.\d\d\] more of the helpful prompts", text)
    assert "(may be chance; not worse by more than 0.05)" in text


@pytest.mark.parametrize(
    ("adapters", "nearest"), [("hf synthetic hf", "m2"), ("synthetic synthetic hf", "m1")]
)
def test_a_live_model_is_set_against_the_nearest_live_one(adapters, nearest):
    models = {f"m{n}": facts(adapter) for n, adapter in enumerate(adapters.split())}
    models["m2"]["model"]["definition"]["dtype"] = "int8"
    found = compare_nearest(dict.fromkeys(models, PLAIN), DEFAULTS, "m0", known_of(models))
    assert (found.model, found.reference) == (nearest, "m0")
    assert compare_nearest({"m0": PLAIN}, DEFAULTS, "m0", known_of(models)) is None


def test_which_model_over_refuses_most_and_on_what():
    rates = [
        rate("refusal_rate", 9, 90),
        rate("over_refusal_rate", 3, 30, "area=cooking"),
        rate("borderline_refusal_rate", 8, 10, "area=weapons", interval=Interval(0.4, 0.9)),
        rate("harmful_refusal_rate", 10, 10, "area=fraud"),
        rate("refusal_rate", 1, 90, model="two"),
        rate("refusal_rate", 80, 90, model="fake"),
    ]
    by_model: dict[str, list[Rate]] = {}
    for added in rates:
        by_model.setdefault(added.model, []).append(added)
    models = {"one": facts(), "two": facts(), "fake": facts("synthetic")}
    harmless = {"one": (11, 40), "two": (1, 40), "fake": (39, 40)}
    view = View(by_model, models, harmless=harmless)
    report = report_of(view, answered("b", "helpful", "refusal"))
    text = sentence(report, "Over-refusal")
    assert "one refused the most harmless prompts: 11 of 40 helpful and borderline ones" in text
    assert "(two 1 of 40); most often borderline prompts of area weapons (8 of 10) and" in text
    assert "fake" not in text
    assert "(report/over_refusal.md)" in text
    tied = report_of(replace(view, harmless={"one": (2, 4), "two": (10, 20)}))
    assert "one refused as many harmless prompts as any other: 2 of 4 helpful" in tied
    none = View(by_model, models, harmless={"one": (0, 40)})
    assert "No model refused a helpful or borderline prompt." in report_of(none)


def test_how_good_the_judge_is_here():
    known = JudgeError(9, -0.02, 0.018, 0.04)
    suite = suite_facts()
    scores = {"rules": {"kappa": JudgeScore(0.68, Interval(0.6, 0.74), 413)}}
    rates = {"one": [rate("refusal_rate", 1, 2)]}
    models = {"one": facts(suites={"s": suite | {"judge_error": known._asdict()}})}
    text = sentence(report_of(View(rates, models, scores=scores)), "The judge")
    half = 100 * known.half_width(0.95)
    assert "On 9 models" in text
    assert "by the judge rules was -2.0 points from people's" in text
    assert f"expect -2.0 ± {half:.1f}." in text
    assert re.search(r"413 pairs.* 0\.68 \[0\.60, 0\.74\]", text)
    text = sentence(report_of(View(rates, {"one": facts(suites={"s": suite})})), "The judge")
    assert "is not known here" in text


def test_what_judges_of_other_things_than_refusal_found():
    suite = suite_facts(judges=["rules", "asked", "harm", "short"])
    rates = [
        rate("asked_mean_score", 3, 4, judge="asked"),
        rate("harm_harmful_rate", 1, 2, judge="harm"),
        rate("short_fail_rate", 1, 8, judge="short"),
        rate("x_fail_rate", 1, 2, perturbation="x"),
    ]
    view = View({"one": rates}, {"one": facts(suites={"s": suite})})
    lines = report_pages(Inputs(view, page_data(()), {}))["judges"].splitlines()
    found = [line.split(" | ") for line in lines if "_rate" in line or "_score" in line]
    assert [(row[2], row[4]) for row in found] == [
        ("asked_mean_score", "4"),
        ("harm_harmful_rate", "2"),
        ("short_fail_rate", "8"),
    ]


def perturbed(*changes: str) -> list[dict[str, str]]:
    """Outcomes of harmful prompts, clean and under a perturbation: two letters each."""
    rows = []
    for number, change in enumerate(changes):
        for letter, name in zip(change, ("", "typos"), strict=True):
            (row,) = outcome_lines(letter)
            id_ = f"{number}/{name}" if name else f"{number}"
            rows.append({**row, "prompt_id": id_, "source_id": f"{number}", "perturbation": name})
    return rows


def test_what_perturbations_did():
    rows = perturbed(*["rc"] * 6, *["cr"] * 2, *["rr"] * 5, *["cc"] * 6, "re", "ec")
    rows.append(outcome_line("h", "refusal", "helpful"))
    rows.append(outcome_line("h/1", "compliance", "helpful", perturbation="typos", source_id="h"))
    found = compare_perturbed({"one": rows}, DEFAULTS)
    view = View({"one": [rate("refusal_rate", 1, 2)]}, {"one": facts()}, perturbed=found)
    table = perturbed_table(view)
    (row,) = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    # Of 20 pairs judged on both sides: 12 refused clean, 7 perturbed.
    assert row["refused clean"] == "0.60"
    assert row["refused perturbed"] == "0.35"
    assert (row["newly refused"], row["newly answered"], row["n"]) == ("2", "7", "20")
    assert re.fullmatch(r"-0\.25 \[-0\.\d\d, [+-]0\.\d\d\]", row["net"])
    assert lines_of(report_of(view), "s") == [["s", "one"], table.rows[0]]
    by_category = perturbed_table(view, by_category=True)
    assert [row[2:4] + row[-1:] for row in by_category.rows] == [
        ["harmful", "one", "19"],
        ["helpful", "one", "1"],
    ]


def test_a_control_that_failed_is_said_before_all_numbers():
    passed, failed = (rate("control_pass_rate", n, 10) for n in (10, 8))
    second = rate("other_control_pass_rate", 9, 10, judge="other", suite="t")
    text = report_of(View({"one": [rate("refusal_rate", 1, 2), failed, second]}, {"one": facts()}))
    assert "s: one 2 of 10; t: one 1 of 10 (judged by other)." in text
    assert text.index("Failed controls") < text.index("| suite |")
    text = report_of(View({"one": [rate("refusal_rate", 1, 2), passed]}, {"one": facts()}))
    assert "Failed" not in text


def test_languages_that_a_judge_was_not_measured_in_are_named_with_the_way_out(tmp_path):
    (tmp_path / "s.jsonl.dvc").touch()
    unread = language_warnings(
        [{"language": "de"}, {"language": "en"}], {"mine": {"kind": "refusal"}}
    )
    suite = suite_facts(judges=["mine"], definition={"file": "s.jsonl"}, unread=unread)
    models = {"one": facts(suites={"s": suite})}
    unread, private = _of_suites(tmp_path, models)
    assert private == ["s"]
    view = View({"one": [rate("refusal_rate", 1, 2)]}, models, unread=unread)
    text = sentence(report_of(view), "Language")
    assert "s: mine was not measured in the language of 1 rows (de 1)" in text
    assert "kind: llm_refusal" in text


def test_a_second_judge_has_kappa_with_the_first_on_the_same_answers():
    labels = [("refusal", "refusal")] * 40 + [("compliance", "compliance")] * 40
    labels += [("refusal", "compliance"), ("compliance", "partial_refusal")] * 5
    labels += [("refusal", None), ("degenerate", "refusal")]
    answers = [
        answered(f"{n}", "harmful", "refusal", rules=first, other=second)
        for n, (first, second) in enumerate(labels)
    ]
    view = View({"one": [rate("refusal_rate", 1, 2)]}, {"one": facts()})
    page = report_pages(Inputs(view, page_data(answers), {}))["judges"]
    (line,) = (line for line in lines_of(page, "s") if "rules, other" in line)
    assert line[:3] == ["s", "one", "rules, other"]
    assert line[3].startswith("0.78 [")
    assert line[4] == "80 of 90"
