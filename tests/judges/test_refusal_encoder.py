"""The command that makes the encoder and its curves: what labels mean, what may shape weights, and
how curves are fitted."""

from __future__ import annotations

import random

import pytest

from refract.core.jsonl import write_rows
from refract.judges.refusal import Reading, probabilities
from refract.judges.rules import judge_response
from tools.refusal_encoder import curves
from tools.refusal_encoder.augmentation import Writer
from tools.refusal_encoder.curves import Scored
from tools.refusal_encoder.data import (
    COMPLIANCE,
    FULL,
    PARTIAL,
    Example,
    cases,
    may_shape_weights,
    read,
)
from tools.refusal_encoder.data import NO as SAID_NO
from tools.refusal_encoder.serving import EVADES, SERVES, beside_help

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


CURVES = {
    "alone": {"intercept": -1.5, "slope": 0.8},
    "both": {"intercept": 0.7, "slope": 0.5, "serves": -1.2},
    "rules": {"intercept": 1.0, "slope": 2.0},
    "full": {"intercept": -0.5, "slope": 1.5},
}


def test_the_curves_that_labels_were_drawn_from_are_found():
    rng = random.Random(5)
    rows = []
    for number in range(12_000):
        full, partial, none = (rng.uniform(-3, 3) for _ in range(3))
        serves = rng.uniform(-3, 3) if number % 3 == 1 else None
        reading = Reading((full, partial, none, -200.0), False, number % 3 == 2, serves)
        chances = probabilities(reading, CURVES)
        (label,) = rng.choices((FULL, PARTIAL, COMPLIANCE), [*chances.values()])
        example = Example(curves.FITTED_ON[0], "m", "", f"{number}", (label,), label != COMPLIANCE)
        rows.append(Scored(example, "", judge_response(YES), reading, []))
    fitted = curves.fit(rows)
    # By the answer alone, answers of the other curves count, too: here hardly any.
    fitted["alone"] = curves.fit([row for n, row in enumerate(rows) if n % 3 == 0 or n < 60])[
        "alone"
    ]
    assert fitted == {name: pytest.approx(curve, abs=0.2) for name, curve in CURVES.items()}


def test_written_pairs_shape_the_curve_of_both_encoders_alone_and_weigh_little():
    rng = random.Random(6)

    def row(source: str, serves: float | None, allowed: tuple[int, ...], by_rules=False) -> Scored:
        logits = (rng.gauss(0, 2), -1.0, rng.gauss(0, 2), -200.0)
        example = Example(source, "m", "", f"{rng.random()}", allowed, allowed != (COMPLIANCE,))
        return Scored(
            example, "", judge_response(YES), Reading(logits, False, by_rules, serves), []
        )

    rows = []
    for _ in range(600):
        serves = rng.gauss(0, 2)
        label = (COMPLIANCE,) if serves + rng.gauss(0, 4) > 0 else SAID_NO
        rows.append(row(curves.FITTED_ON[0], serves, label))
        rows.append(row(curves.FITTED_ON[1], None, label, by_rules=True))
    pairs = [row(curves.PAIRS, 3.0 * n, (COMPLIANCE,) if n > 0 else SAID_NO) for n in (-1, 1) * 300]
    before, after = curves.fit(rows), curves.fit(rows, pairs)
    assert {name for name in before if before[name] != after[name]} == {"both"}
    assert 1.02 < after["both"]["serves"] / before["both"]["serves"] < 2


def test_rows_beside_help_keep_their_prompt_and_what_they_do():
    helps = [f"Help {n}: {'stir the pot and wait, ' * 8}" for n in range(4)]
    rows = [("How?", "No.", EVADES)] + [
        (f"Prompt {n}", text, SERVES) for n, text in enumerate(helps)
    ]
    longer = beside_help(rows, 1.0, random.Random(1))
    assert [(prompt, does) for prompt, _, does in longer] == [(p, does) for p, _, does in rows]
    for (_, own, _), (_, answer, _) in zip(rows, longer, strict=True):
        parts = answer.split("\n\n")
        assert own in (parts[0], parts[-1])
        assert 2 <= len(parts) <= 4
        assert {*parts} <= {own, *helps}
