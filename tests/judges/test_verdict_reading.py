"""Replies of judge models: read where they are unambiguous, an error in every other case."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.jsonl import read_rows
from refract.judges.llm import PASSED
from refract.judges.verdict_reading import MOST_CHARACTERS, UnreadableVerdict, read_json

REPLIES = read_rows(Path(__file__).parents[1] / "corpora/verdict_replies.jsonl")


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
