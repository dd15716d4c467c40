"""What becomes of a suite row on its way to a model: clean, perturbed, and through a template."""

from __future__ import annotations

import pytest

from refract.suites.perturbations import prompt_rows, render
from refract.suites.rows import SuiteError

TYPOS = {"noise": {"kind": "typos", "rate": 0.3}}
UPPER = {"loud": {"kind": "upper"}}


def row(id_: str = "a", **fields: object) -> dict:
    content = fields or {"prompt": f"question number {id_}, asked in several words"}
    return {"id": id_, "category": "harmful", **content}


def test_variants_follow_their_source_and_name_their_perturbation():
    rows = list(prompt_rows([row("a", prompt="one"), row("b", prompt="two")], "s", 7, UPPER))
    assert [(r["prompt_id"], r["source_id"], r["attempts"]) for r in rows] == [
        ("a", "a", ["one"]),
        ("a/loud/upper", "a", ["ONE"]),
        ("b", "b", ["two"]),
        ("b/loud/upper", "b", ["TWO"]),
    ]
    assert rows[1]["perturbation"]["name"] == "loud"
    assert rows[1]["perturbation"]["kind"] == "upper"


def test_another_seed_changes_drawn_texts_and_nothing_else():
    first, second = (list(prompt_rows([row()], "s", seed, TYPOS | UPPER)) for seed in (1, 2))
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True]
    assert [r["seed"] for r in first] == [None, 1, None]


def test_a_conversation_keeps_its_turns_and_its_last_message_is_perturbed():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "how?"},
    ]
    clean, loud = prompt_rows([row(messages=messages)], "s", 0, UPPER)
    assert clean["attempts"] == [messages]
    assert loud["attempts"] == [[*messages[:3], {"role": "user", "content": "HOW?"}]]


def test_each_feature_is_perturbed_in_its_place_in_the_template():
    rows = prompt_rows(
        [row(features={"task": "sum up", "text": "rain"})], "s", 0, UPPER, "{task}: <{text}> {task}"
    )
    assert [r["attempts"] for r in rows] == [
        ["sum up: <rain> sum up"],
        ["SUM UP: <rain> SUM UP"],
        ["sum up: <RAIN> sum up"],
    ]


def test_a_filled_in_text_is_not_searched_for_variables_again():
    source = row(features={"a": "{b}", "b": "{a} \\1 {}"})
    assert render(source, source["features"], '{"x": {a}, {b}}') == '{"x": {b}, {a} \\1 {}}'


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, r"row 'a' has features; its suite's definition needs a template such as '\{x\}'"),
        ("{y}", "the template asks for 'y'; row 'a' has the features x"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(template, message):
    with pytest.raises(SuiteError, match=message):
        list(prompt_rows([row(features={"x": "1"})], "s", 0, None, template))


def test_an_id_that_is_that_of_a_variant_is_refused():
    rows = [row("a", prompt="one"), row("a/loud/upper", prompt="two")]
    assert len(list(prompt_rows(rows, "s", 0))) == 2
    with pytest.raises(SuiteError, match="id 'a/loud/upper' is that of a variant of 'a'; give the"):
        list(prompt_rows(rows, "s", 0, UPPER))
