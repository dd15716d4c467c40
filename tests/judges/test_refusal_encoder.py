"""The command that makes the encoder and its coefficients: what labels mean, what may shape weights,
and how two opinions are added."""

from __future__ import annotations

import random

import pytest

from refract.core.jsonl import write_rows
from refract.judges.refusal import features, probabilities
from tools.refusal_encoder import combining
from tools.refusal_encoder.augmentation import Writer
from tools.refusal_encoder.combining import Scored
from tools.refusal_encoder.data import COMPLIANCE, PARTIAL, Example, cases, may_shape_weights, read
from tools.refusal_encoder.data import NO as SAID_NO

NO, YES = "I'm sorry, but I can't help with that.", "Turn it twice, then push."


@pytest.mark.parametrize(
    ("name", "label", "refused", "allowed", "full"),
    [
        ("xstest", "3_partial_refusal", True, (PARTIAL,), False),
        ("chatgpt_refusals", "redirected", True, (*SAID_NO, PARTIAL), None),
        ("refusalbench", "partial_compliance", False, (COMPLIANCE,), None),
        ("wildguardtest", "compliance", False, (PARTIAL, COMPLIANCE), False),
        ("wildguardtest", "refusal", True, SAID_NO, True),
        ("validation", "partial_refusal", True, (PARTIAL,), False),
        ("harmbench", 0, True, SAID_NO, None),
    ],
)
def test_each_source_says_which_classes_its_labels_allow(
    tmp_path, name, label, refused, allowed, full
):
    path = tmp_path / f"{name}_x.jsonl"
    row = {"id": "1", "prompt": "p", "response": NO, "model": "m", "label": label}
    write_rows(path, [{**row, "refused": refused, "refused_full": full}])
    (example,) = read(path)
    assert (example.allowed, example.refused, example.full) == (allowed, refused, full)


def test_rows_without_a_label_or_an_answer_are_left_out(tmp_path):
    path = tmp_path / "chatgpt_refusals.jsonl"
    row = {"id": "1", "prompt": "p", "response": YES, "label": "dontknow", "refused": None}
    write_rows(path, [row, {**row, "label": "complied", "refused": False, "response": " "}])
    assert list(read(path)) == []


def test_sources_without_a_licence_for_it_shape_no_weights():
    shaping = ("xstest", "chatgpt_refusals", "refusalbench", "wildguard", "pyrit")
    assert all(map(may_shape_weights, shaping))
    held = ("orfuzz", "do_not_answer", "xstest_extension", "own")
    assert not any(map(may_shape_weights, held))


def test_written_examples_have_the_label_of_the_parts_they_are_made_of():
    base = [Example("s", "", "How?", f"{YES} {n}", (COMPLIANCE,), False) for n in range(3)] + [
        Example("s", "", "How?", NO, SAID_NO, True)
    ]
    writer = Writer(random.Random(1), base)
    for example in writer.drawn(400):
        assert example.answer.strip()
        assert "{" not in example.answer + example.prompt
        assert example.refused == (example.allowed != (COMPLIANCE,))
    partial = [writer.partial() for _ in range(50)]
    assert all(example.allowed == (PARTIAL,) and YES[:8] in example.answer for example in partial)


def test_the_cases_have_every_class_each_of_its_own_answer():
    written = list(cases())
    assert {example.allowed for example in written} == {(n,) for n in range(4)}
    assert len({(e.prompt, e.answer) for e in written}) == len(written) > 1000


def odds_of(refused: bool) -> tuple[float, ...]:
    odds = 2.0 if refused else -2.0
    return odds, odds - 3, 0.0, -9.0


def drawn(rules: float, encoder: float, lm: float = 0.5, count: int = 400) -> list[Scored]:
    """Rows on which each judge is right with some probability, independently."""
    rng, rows = random.Random(f"{rules} {encoder}"), []
    for number in range(count):
        refused = rng.random() < 0.5
        says = refused == (rng.random() < rules)
        read = odds_of(refused == (rng.random() < encoder))
        by_lm = odds_of(refused == (rng.random() < lm))
        classes = SAID_NO if refused else (COMPLIANCE,)
        example = Example(combining.CHOSEN_ON, "m", "", f"{number}", classes, refused)
        label = "refusal" if says else "compliance"
        rows.append(Scored(example, label, features(label, read, "refusal", by_lm)))
    return rows


@pytest.mark.parametrize(("rules", "encoder", "refused"), [(0.95, 0.7, True), (0.7, 0.95, False)])
def test_the_better_judge_is_believed_where_the_two_disagree(rules, encoder, refused):
    disputed = features("refusal", odds_of(False))
    fitted = combining.fit(drawn(rules, encoder), "refusal")
    assert (probabilities(disputed, fitted)["compliance"] < 0.5) == refused


def test_a_language_model_that_knows_better_is_believed_against_the_others():
    disputed = features("refusal", odds_of(True), "refusal", odds_of(False))
    for lm, refused in ((0.5, True), (0.97, False)):
        fitted = combining.fit(drawn(0.7, 0.7, lm), "refusal_lm")
        assert (probabilities(disputed, fitted)["compliance"] < 0.5) == refused


def test_coefficients_are_fitted_on_the_one_source_that_shaped_nothing_else():
    rows = drawn(0.9, 0.9, count=40)
    other = [
        Scored(Example("pyrit", *list(vars(row.example).values())[1:]), row.label, row.given)
        for row in drawn(0.1, 0.1, count=40)
    ]
    assert combining.fitted([*rows, *other], "refusal") == combining.fitted(rows, "refusal")
    assert combining.fitted(rows, "refusal")["fitted_on"] == {combining.CHOSEN_ON: 40}
