"""Thinking is told from the answer: nested, quoted, in several blocks, opened elsewhere, in channels."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from refract.core.thinking import answer_spans, split
from refract.models.turn import begun, whole_turn

TAGS = ["<t>", "</t>"]
FINAL = "<|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<t>hm</t>\n\nYes", False, ("Yes", "hm", False)),
        ("hm</t>Yes", True, ("Yes", "hm", False)),
        ("<t>\nhm</t>Yes", True, ("Yes", "hm", False)),
        ("hm</t>Yes", False, ("Yes", "hm", False)),
        ("<t>hm, still", False, ("", "hm, still", True)),
        ("hm, still", True, ("", "hm, still", True)),
        ("Yes", False, ("Yes", None, False)),
        ("<t></t>Yes", False, ("Yes", "", False)),
        ("Sure. <t>hm</t> Yes", False, ("Sure. Yes", "hm", False)),
        ("<t>a <t>b</t> c</t>Yes", False, ("Yes", "a <t>b</t> c", False)),
        ("<t>\n<t>hm</t>Yes", False, ("Yes", "hm", False)),
        ("<t>`</t>` ends it.</t>No.", False, ("No.", "`</t>` ends it.", False)),
        ("<t>a</t>One.<t>b</t>Two.", False, ("One.Two.", "a\n\nb", False)),
        ("<t>a</t>One.<t>b, secret", False, ("", "a\n\nb, secret", True)),
        ("Write `<t>` first.", False, ("Write `<t>` first.", None, False)),
        ('Write "<t>" first.', False, ('Write "<t>" first.', None, False)),
        ("So:\n```\n<t>x\n```\nEnd", False, ("So:\n```\n<t>x\n```\nEnd", None, False)),
        (f"<|channel|>analysis<|message|>hm<|end|>{FINAL} No", False, (" No", "hm", False)),
        ("<|channel|>analysis<|message|>hm, st", False, ("", "hm, st", True)),
    ],
)
def test_thinking_is_split_from_the_answer(text, opened, expected):
    assert split(text, TAGS, opened) == expected


def test_tags_that_are_known_close_those_of_their_own_name_alone():
    assert split("<think>a <analysis> b</think>No") == ("No", "a <analysis> b", False)
    assert split('[THINK]a[/THINK]<Reasoning effort="low">b</reasoning>No')[:2] == ("No", "a\n\nb")


WORDS = st.sampled_from(["hm", "I cannot.", "`</t>` ", ' "<t>" ', "so\n", "a < b"])
BLOCK = st.recursive(
    st.lists(WORDS, max_size=3).map(lambda words: ["<t>", *words, "</t>"]),
    lambda inner: st.lists(inner | WORDS.map(lambda word: [word]), max_size=3).map(
        lambda parts: ["<t>", *chain(*parts), "</t>"]
    ),
    max_leaves=6,
)
ANSWERS = st.sampled_from(["No.", "I cannot `<t>`."])


@given(st.lists(BLOCK, min_size=1, max_size=3), ANSWERS, st.booleans(), st.data())
def test_however_thinking_is_nested_and_quoted_the_answer_alone_is_left(
    blocks, answer, opened, draw
):
    parts = [*chain(*blocks)][opened:]
    text = " ".join(parts)
    assert split(text + answer, TAGS, opened)[::2] == (answer, False)
    assert split(text + "<t>" + answer, TAGS, opened)[::2] == ("", True)
    # Begun by a prefill, behind a template that opened it or not. A marker right behind one that opened
    # is the same once more where nothing closes both, which a prefill leaves open.
    assume(["<t>"] * (2 - opened) != parts[: 2 - opened])
    cut = draw.draw(st.integers(0, len(parts)))
    prefill, rest = " ".join(parts[:cut]) or None, " ".join(parts[cut:]) + answer
    before = begun(prefill, TAGS, opened)
    assert whole_turn(before, *split(rest, TAGS, before.opened)[:2])[0] == answer
    # In a recorded text, of which nobody says how it is marked.
    recorded = (text + answer).replace("<t>", "<think>").replace("</t>", "</think>")
    spans = answer_spans(recorded)
    assert "".join(recorded[slice(*span)] for span in spans) == answer.replace("<t>", "<think>")
    assert answer_spans(recorded.rpartition("</think>")[0] + "</think> <think>hm, st") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("analysis plan assistantfinal No", "No"),
        ("plan<|end|><|start|>assistant<|channel|>final<|message|>No", "No"),
        ("One.<think>a</think> Two.", "One. Two."),
        ("Begin with <think> and go on.", "Begin with <think> and go on."),
        ("`<think>` begins it.", "`<think>` begins it."),
        ("<think>hm</think>", ""),
        ("<think>hm, st", None),
    ],
)
def test_where_a_recorded_answer_stands(text, answer):
    spans = answer_spans(text)
    assert (spans and "".join(text[slice(*span)] for span in spans)) == (answer or spans)


@pytest.mark.parametrize(
    ("prefill", "text", "turn"),
    [
        ("<t>Okay, the user", "wants", ("", "Okay, the user\n\nwants")),
        ("<t>Okay", "hm</t>No", ("No", "Okay\n\nhm")),
        ("<t>\n\n</t>\n\n", " No", (" No", "")),
        ("Sure, ", "<t>hm</t>here", ("Sure, here", "hm")),
        (None, "No", ("No", None)),
    ],
)
def test_a_prefill_s_thinking_is_no_part_of_the_answer(prefill, text, turn):
    before = begun(prefill, TAGS)
    assert whole_turn(before, *split(text, TAGS, before.opened)[:2]) == turn
