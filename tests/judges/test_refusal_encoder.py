"""The command that makes the encoder and its curves: what labels mean, what may shape weights, and
how curves are fitted."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter

import pytest

from refract.core.jsonl import write_rows
from refract.core.params import read_yaml
from refract.judges.refusal import Reading, probabilities
from refract.judges.rules import judge_response
from tools.refusal_encoder import curves, data, fetch
from tools.refusal_encoder.augmentation import Writer
from tools.refusal_encoder.curves import Scored
from tools.refusal_encoder.data import (
    COMPLIANCE,
    FULL,
    PARTIAL,
    REDIRECTION,
    Example,
    cases,
    classes_of,
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


# Labels of published answers: what readings mean, and the command that gets the texts


@pytest.mark.parametrize(
    ("letters", "classes"),
    [
        ("D", (REDIRECTION,)),
        ("CN", (COMPLIANCE,)),
        ("RD", (FULL, REDIRECTION)),
        ("RDR", (FULL,)),
        ("CDN", (COMPLIANCE,)),
        ("RDP", ()),
        ("", ()),
    ],
)
def test_most_readings_decide_and_else_two_classes_are_allowed(letters, classes):
    assert classes_of(tuple(letters)) == classes


def test_an_answer_without_a_reading_is_not_trained_on(tmp_path):
    path = tmp_path / "real_answers.jsonl"
    row = {"id": "unknown-1", "model": "m", "prompt": "p", "refused": None}
    write_rows(path, [{**row, "beginning": NO, "end": "", "left_out": 0}])
    assert list(read(path)) == []


def test_each_reading_has_a_publisher_and_a_row_of_its_own():
    with open(data.READINGS, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len({row["digest"] for row in rows}) == 8551
    assert Counter(row["id"].rpartition("-")[0] for row in rows) == {
        "refusal_direction": 2498,
        "past_tense": 2109,
        "jailbreakbench": 1444,
        "gptfuzz": 2500,
    }
    for row in rows:
        for reader in ("first", "second", "third"):
            assert row[reader] == "" or row[reader] in data.LETTERS
            assert row[f"{reader}_sure"] in (("1", "2") if row[reader] else ("",))
    publishers = read_yaml(fetch.PUBLISHERS)
    assert {name: entry["licence"] for name, entry in publishers.items()} == {
        "refusal_direction": "Apache-2.0",
        "past_tense": "MIT",
        "jailbreakbench": "MIT",
        "gptfuzz": "MIT",
    }
    commits = [commit for entry in publishers.values() for commit in entry["files"]]
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)
