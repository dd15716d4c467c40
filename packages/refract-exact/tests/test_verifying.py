"""Recorded answers are checked by one pass over each, and the first wrong token is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from refract.models.protocol import packed_tokens, unpacked_tokens
from refract.models.store import answer_in, answer_row
from tests.small_models import answers, model, prompts

DRAWN = {"temperature": 0.7, "top_p": 0.9, "top_k": 20}
MOST = 24


def edited(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A response row with other fields, and the checksum of what it then is."""
    answer = answer_in(row)
    return dict(answer_row(row["request_sha256"], replace(answer, **fields), row["prompt_id"]))


def with_tokens(change) -> Any:
    return lambda row: {"tokens": packed_tokens(change(unpacked_tokens(row["tokens"])))}


EDITS = {
    "replaced": (with_tokens(lambda ids: [*ids[:5], ids[5] ^ 1, *ids[6:]]), "token 6 is "),
    "truncated": (with_tokens(lambda ids: ids[:9]), "it stops behind token 9, at no end"),
    "extended": (with_tokens(lambda ids: [*ids, 7]), " is behind the end"),
    "unknown": (with_tokens(lambda ids: [*ids[:2], 9999]), "ids from 0 to 319 are allowed"),
    "torn": (lambda row: {"tokens": "A"}, "its tokens cannot be read: "),
    "no text": (lambda row: {"tokens": 7}, "response and tokens are to be texts"),
    "text": (lambda row: {"response": "no" + row["response"]},
     "its response is not that of its tokens: 'no"),
    "ended": (lambda row: {"finish_reason": {"stop": "length",
     "length": "stop"}[row["finish_reason"]]}, "its finish_reason is not that of its tokens: "),
}  # fmt: skip


def test_an_answer_that_a_special_token_stops_holds(tiny):
    asked = prompts(7)[6:]
    stopping = model(tiny, max_tokens=60, stop="<|user|>")
    (made,) = answers(stopping, asked)
    assert (made.finish_reason, made.completion_tokens) == ("stop", 32)
    assert [c.problem for _, c in stopping.verify(asked, [made])] == [""]


@pytest.mark.parametrize("drawn", [{}, DRAWN])
def test_answers_made_in_bfloat16_hold_and_edited_ones_fail_at_their_token(tiny, drawn):
    settings = {"max_tokens": MOST, **drawn}
    asked = prompts(12)
    made = answers(model(tiny, dtype="bfloat16", **settings), asked)
    checking = model(tiny, **settings)
    assert [c.problem for _, c in sorted(checking.verify(asked, made))] == [""] * 12
    longest = max(range(12), key=lambda i: made[i].completion_tokens or 0)
    row = dict(answer_row("key", made[longest]))
    rows = [edited(row, **change(row)) for change, _ in EDITS.values()]
    changed = [answer_in(row) for row in rows]
    found = dict(checking.verify([asked[longest]] * len(EDITS), changed))
    for number, (_, problem) in enumerate(EDITS.values()):
        assert problem in found[number].problem
    replaced, ids = found[0], unpacked_tokens(row["tokens"])
    assert (replaced.place, replaced.right) == (5, checking.prompting.tokenizer.decode([ids[5]]))
    assert float(replaced.problem.rpartition(" by ")[2]) > 0


def test_an_answer_of_fast_arithmetic_fails_where_it_leaves_the_exact_one(tiny):
    asked = prompts(16)
    exact = answers(model(tiny, max_tokens=MOST), asked)
    fast = answers(model(tiny, max_tokens=MOST, dtype="bfloat16", arithmetic="fast"), asked)
    assert fast != exact
    found = dict(model(tiny, max_tokens=MOST).verify(asked, fast))
    for i, (right, given) in enumerate(zip(exact, fast, strict=True)):
        pairs = zip(unpacked_tokens(right.tokens), unpacked_tokens(given.tokens), strict=False)
        assert found[i].place == next((n for n, (a, b) in enumerate(pairs) if a != b), None)


def test_a_wider_bound_opens_what_was_certain(tiny, monkeypatch):
    """A token that fast arithmetic takes for wrong is still decided by float64."""
    from refract_exact.deciding import Choice

    asked = prompts(4)
    made = answers(model(tiny, max_tokens=MOST), asked)
    compare = Choice.compare

    def wrong(self, given, logits, uniforms=(), tie=0.0):
        tokens, margins, wins = compare(self, given, logits, uniforms, tie)
        return tokens, margins, wins if tie else -wins

    monkeypatch.setattr(Choice, "compare", wrong)
    assert {c.problem for _, c in model(tiny, max_tokens=MOST).verify(asked, made)} == {""}
