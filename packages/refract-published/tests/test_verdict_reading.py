"""Replies of judge models: read where they are unambiguous, an error in every other case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.jsonl import read_rows
from refract_published.judges.llm import PASSED
from refract_published.judges.verdict_reading import (
    MOST_CHARACTERS,
    UnreadableVerdict,
    answer_part,
    read_json,
)
from tests.builders import ROOT

REPLIES = read_rows(ROOT / "tests/corpora/verdict_replies.jsonl")


def label(reply):
    """The label that is read, or "unreadable"."""
    try:
        return read_json(reply, "eval_passed", PASSED)[0]
    except UnreadableVerdict:
        return "unreadable"


@pytest.mark.parametrize("case", REPLIES, ids=[str(case["reply"])[:40] for case in REPLIES])
def test_a_reply_is_a_verdict_only_where_it_is_unambiguous(case):
    assert label(case["reply"]) == case["label"]


def test_the_reason_of_json_is_kept_and_only_where_it_is_a_text():
    for reason, kept in (('"rude"', "rude"), ('["rude"]', None)):
        reply = f'{{"eval_passed": false, "reason": {reason}}}'
        assert read_json(reply, "eval_passed", PASSED) == ("fail", kept)


HUGE = [
    "{" * 1_000_000,
    '{"a":' * 200_000,
    '{"a":[1,1,1,1,1,1,1,1,1,' * 40_000,
    "<think>" * 150_000,
    "</think>" * 150_000,
    "<think " * 150_000,
    "\n" * 1_000_000,
    '"eval_passed"' * 80_000,
    "eval_passed" + " " * 1_000_000,
]


@pytest.mark.parametrize("size", [MOST_CHARACTERS - 100, 1_000_000])
def test_a_huge_reply_takes_linear_time_and_is_no_verdict(size):
    # In time quadratic in their length, these would take hours.
    assert {label(text[:size]) for text in HUGE} == {"unreadable"}


@given(st.text(st.sampled_from('{}"[]:, \\eval_psdtrufn</think>'), max_size=60))
def test_whatever_a_reply_is_it_is_read_or_unreadable(text):
    assert label(text) in {"pass", "fail", "unreadable"}


def test_of_a_reply_without_its_thinking_twenty_thousand_characters_are_read_and_no_more():
    most = 20_000
    assert answer_part(f"<think>{'x' * 50}</think> {'y' * most}\n") == "y" * most
    with pytest.raises(UnreadableVerdict, match="has 20001 characters; at most 20000 are read"):
        answer_part("y" * (most + 1))


def test_a_thousand_braces_are_read_and_no_more():
    verdict = '{"a": true}'
    values = {True: "yes", False: "no"}
    assert read_json("{" * 999 + " " + verdict, "a", values) == ("yes", None)
    with pytest.raises(UnreadableVerdict, match="more than 1000 braces"):
        read_json("{" * 1000 + " " + verdict, "a", values)
