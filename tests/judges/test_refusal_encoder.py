"""The command that makes the encoder and its coefficients: what labels mean, what may shape weights,
and how two opinions are added."""

from __future__ import annotations

import random

import pytest

from refract.core.jsonl import write_rows
from refract.judges.embedded import features, probability
from tools.refusal_encoder import combining
from tools.refusal_encoder.augmentation import Writer
from tools.refusal_encoder.combining import Scored
from tools.refusal_encoder.data import COMPLIANCE, FULL, PARTIAL, Example, may_shape_weights, read

NO, YES = "I'm sorry, but I can't help with that.", "Turn it twice, then push."


@pytest.mark.parametrize(
    ("name", "label", "refused", "allowed", "full"),
    [
        ("xstest", "3_partial_refusal", True, (PARTIAL,), False),
        ("chatgpt_refusals", "redirected", True, (FULL, PARTIAL), None),
        ("refusalbench", "partial_compliance", False, (COMPLIANCE,), None),
        ("wildguardtest", "compliance", False, (PARTIAL, COMPLIANCE), False),
        ("wildguardtest", "refusal", True, (FULL,), True),
        ("validation", "partial_refusal", True, (PARTIAL,), False),
        ("harmbench", 0, True, (FULL,), None),
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
    shaping = ("xstest", "chatgpt_refusals", "refusalbench", "wildguard", "pyrit", "own")
    assert all(map(may_shape_weights, shaping))
    assert not any(map(may_shape_weights, ("orfuzz", "do_not_answer")))


def test_written_examples_have_the_label_of_the_parts_they_are_made_of():
    base = [Example("s", "", "How?", f"{YES} {n}", (COMPLIANCE,), False) for n in range(3)] + [
        Example("s", "", "How?", NO, (FULL,), True)
    ]
    writer = Writer(random.Random(1), base)
    for example in writer.drawn(400):
        assert example.answer.strip()
        assert "{" not in example.answer + example.prompt
        assert example.refused == (example.allowed != (COMPLIANCE,))
    partial = [writer.partial() for _ in range(50)]
    assert all(example.allowed == (PARTIAL,) and YES[:8] in example.answer for example in partial)


def scored(source: str, refused: bool, label: str, log_odds: float, number: int) -> Scored:
    allowed = (FULL,) if refused else (COMPLIANCE,)
    example = Example(source, "m", "", f"{source} {number}", allowed, refused)
    return Scored(example, label, features(label, (log_odds, log_odds - 3, 0.0)))


def drawn(source: str, rules: float, encoder: float, count: int = 400) -> list[Scored]:
    """Rows on which each judge is right with some probability, independently."""
    rng, rows = random.Random(source), []
    for number in range(count):
        refused = rng.random() < 0.5
        says = refused == (rng.random() < rules)
        odds = 2.0 if refused == (rng.random() < encoder) else -2.0
        rows.append(scored(source, refused, "refusal" if says else "compliance", odds, number))
    return rows


def test_the_better_judge_is_believed_where_the_two_disagree():
    for rules, encoder, expected in ((0.95, 0.7, True), (0.7, 0.95, False)):
        rows = drawn("wildguard", rules, encoder)
        fitted = combining.fit(rows, combining.READS["embedded"])["refused"]
        disputed = features("refusal", (-2.0, -5.0, 0.0))
        assert (probability(fitted, disputed) > 0.5) == expected


def test_a_sources_lines_are_fitted_without_it_and_forbidden_sources_never_count():
    rows = [row for source in ("xstest", "pyrit") for row in drawn(source, 0.9, 0.9, 40)]
    rows += drawn("orfuzz", 0.1, 0.1, 40)
    assert {row.example.source for row in combining.fitting(rows)} == {"xstest", "pyrit"}
    assert {row.example.source for row in combining.fitting(rows, without="xstest")} == {"pyrit"}
    assert combining.fitted(rows)["fitted_on"] == {"pyrit": 40, "xstest": 40}
