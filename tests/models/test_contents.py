"""What a reply holds is read alike in the three forms of replies, and an error keeps its text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.models import open_model
from refract.models.arithmetic import LOOP_STEP, in_a_loop
from refract.models.protocol import Answer, unpacked_tokens
from refract.models.replies import InvalidResponse, say_once
from tests.builders import in_order as answers
from tests.fault_server import served
from tests.small_models import model, prompts, save_model, save_tokenizer

APIS = {"chat": {}, "anthropic": {"adapter": "anthropic"}, "responses": {"api": "responses"}}
each_api = pytest.mark.parametrize("api", APIS)
SAID = {"type": "text", "text": "Sure."}
NULL_TEXT = {"type": "text", "text": None}
STOP = {"chat": "stop", "anthropic": "end_turn", "responses": "completed"}


def reply(api: str, parts: Any, ending: str = "", **more: Any) -> dict[str, Any]:
    """A reply of such parts, which ends by itself or so."""
    ending = ending or STOP[api]
    if api == "anthropic":
        return {"content": parts, "stop_reason": ending, **more}
    if api == "responses":
        return {"output": [{"type": "message", "content": parts}], "status": ending, **more}
    return {"choices": [{"message": {"content": parts}, "finish_reason": ending}], **more}


def message(content: Any, ending: str = "stop", **more: Any) -> dict[str, Any]:
    """A chat completion whose message has more in it."""
    return {"choices": [{"message": {"content": content, **more}, "finish_reason": ending}]}


def read(api: str, payload: Any) -> Answer:
    return open_model("m", served(**APIS[api])).read_reply(payload, 0)


def kept(api: str, payload: Any) -> tuple[str, str]:
    """The error of such a reply, and the text that it keeps."""
    with pytest.raises(InvalidResponse) as caught:
        read(api, payload)
    return str(caught.value), caught.value.text


# Beside the answer


@each_api
@pytest.mark.parametrize("usage", ["none", [], [1, 2], 5, {"input_tokens": "9"}, None], ids=str)
def test_usage_that_cannot_be_read_is_unknown_and_costs_no_answer(api, usage):
    assert read(api, reply(api, [SAID], usage=usage)) == Answer("Sure.")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 9, "cache_read_input_tokens": 5}, 14),
        ({"input_tokens": 9, "cache_creation_input_tokens": None}, 9),
        ({"input_tokens": 9, "cache_read_input_tokens": "5"}, None),
        ({"input_tokens": "9", "cache_read_input_tokens": 5}, None),
        ({"cache_read_input_tokens": 5}, None),
        ({"input_tokens": 9, "iterations": "x"}, 9),
        ({"input_tokens": 9, "iterations": ["x", None]}, 9),
    ],
    ids=str,
)
def test_a_prompt_has_the_tokens_of_its_cache_unless_a_count_cannot_be_read(usage, tokens):
    answer = read("anthropic", reply("anthropic", [SAID], usage=usage))
    assert answer == Answer("Sure.", prompt_tokens=tokens)


@each_api
@pytest.mark.parametrize(
    "parts",
    ["Sure.", [NULL_TEXT, SAID], [None, SAID], [SAID, None], ["Su", "re."]],
    ids=str,
)
def test_a_part_that_is_null_is_nothing_and_a_bare_text_is_a_part(api, parts):
    assert read(api, reply(api, parts)) == Answer("Sure.")


@each_api
@pytest.mark.parametrize("parts", [[SAID, {"type": "text", "text": 5}], [5, SAID], [[], SAID]])
def test_a_part_that_is_no_text_is_an_error_that_keeps_the_others(api, parts):
    why, text = kept(api, reply(api, parts))
    assert "a part of the answer is not a text (got " in why
    assert text == "Sure."


# Endings

WORDS = {
    "stop": [
        "stop",
        "end_turn",
        "stop_sequence",
        "eos_token",
        "STOP",
        "tool_calls",
        "function_call",
    ],
    "length": ["length", "max_tokens", "MAX_TOKENS", "model_context_window_exceeded"],
    "content_filter": ["recitation", "sensitive", "content_filter: PROHIBITED_CONTENT"],
    "loop": ["repetition"],
}


@pytest.mark.parametrize("api", ["chat", "anthropic"])
def test_an_ending_is_known_by_the_words_of_each_server_and_another_is_an_error(api):
    for ending, words in WORDS.items():
        for word in words:
            assert read(api, reply(api, [SAID], word)) == Answer("Sure.", ending), word
    for missing in (None, "", 5, ["stop"]):
        payload = reply(api, [SAID])
        place = payload["choices"][0] if api == "chat" else payload
        place |= {"finish_reason": missing, "stop_reason": missing}
        why, text = kept(api, payload)
        assert (repr(missing) if missing else "without saying why") in why
        assert text == "Sure."
    payload = {"choices": [{"message": {"content": "Sure."}}], "content": [SAID]}
    assert kept(api, payload) == ("the completion ended without saying why", "Sure.")


HALF = {"type": "text", "text": "Sure, ha"}
REFUSED = {"type": "refusal", "refusal": " No."}


@pytest.mark.parametrize(
    ("api", "payload", "says"),
    [
        ("chat", reply("chat", "Sure, ha", "abort"), "unknown reason, 'abort'"),
        ("chat", reply("chat", "Sure, ha", "error"), "the completion is an error"),
        ("anthropic", reply("anthropic", [HALF], "pause_turn"), "unknown reason, 'pause_turn'"),
        ("responses", reply("responses", [HALF], "incomplete"), "without saying why"),
        ("responses", reply("responses", [HALF], "incomplete", incomplete_details="x"),
         "without saying why"),
        ("responses", reply("responses", [HALF], "failed", error={"message": "oh"}), "failed: oh"),
        ("responses", reply("responses", [HALF], "in_progress"), "the response is in_progress"),
        ("responses", {"output": ["Sure, ha"]}, "without saying why"),
        ("chat", message("Sure, ha", refusal=True), "not a text (got True)"),
    ],
    ids=str,
)  # fmt: skip
def test_an_error_keeps_the_text_that_came(api, payload, says):
    why, text = kept(api, payload)
    assert says in why
    assert text == "Sure, ha"


def test_an_answer_that_may_be_thinking_is_kept_in_its_error():
    asked = open_model("m", served(reasoning=["<t>", "</t>"]))
    with pytest.raises(InvalidResponse, match="set thinking_opened") as caught:
        asked.read_reply(reply("chat", "Well, ha", "length"), 0)
    assert caught.value.text == "Well, ha"


@pytest.mark.parametrize(
    ("api", "payload", "text"),
    [
        ("chat", reply("chat", [SAID, REFUSED]), "Sure. No."),
        ("chat", message("Sure.", refusal="No."), "Sure.\n\nNo."),
        ("chat", message("No.", refusal="No."), "No."),
        ("chat", message(None, refusal="No."), "No."),
        ("chat", message([REFUSED], refusal=" No."), " No."),
        ("responses", reply("responses", [SAID, REFUSED]), "Sure. No."),
        ("anthropic", reply("anthropic", [SAID], "refusal"), "Sure."),
    ],
    ids=str,
)
def test_a_refusal_keeps_the_text_before_it(api, payload, text):
    assert read(api, payload) == Answer(text, "refusal")


# Parts


def items(*output: Any, **more: Any) -> dict[str, Any]:
    """A reply of the Responses API of such items."""
    return {"output": list(output), "status": "completed", **more}


def item(*parts: Any, **more: Any) -> dict[str, Any]:
    """A message among such items."""
    return {"type": "message", "content": list(parts), **more}


NEWER = {"type": "hologram", "data": "x"}
HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>Sure."
FAILED = {"error": {"code": "content_filter_error"}}
THOUGHTS = {"type": "reasoning", "summary": [], "content": [{"text": "Hm."}]}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_messages"}}


@pytest.mark.parametrize(
    ("api", "payload", "expected"),
    [
        # Azure's filter leaves the message out; one that failed has filtered nothing.
        ("chat", {"choices": [{"finish_reason": "content_filter"}]}, Answer("", "content_filter")),
        ("chat", {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop",
                               "content_filter_results": FAILED}]}, Answer("hi")),
        # A server that drops what is null.
        ("chat", {"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]},
         Answer("")),
        ("chat", {"choices": [{"message": {"content": None}, "finish_reason": "stop",
                               "native_finish_reason": "refusal"}]}, Answer("", "refusal")),
        ("chat", message("Sure.", "tool_calls", tool_calls=[]), Answer("Sure.")),
        ("chat", message("", "tool_calls"), "unknown reason, 'tool_calls'"),
        ("chat", message([{"type": "output_text", "output_text": "Sure."}]), Answer("Sure.")),
        ("chat", message([{"type": "thinking", "thinking": [{"text": "Hm."}]}, SAID]),
         Answer("Sure.", thinking="Hm.")),
        ("chat", message(HARMONY), Answer("Sure.", thinking="Hm.")),
        ("chat", message(None, reasoning_content="Sure."), "thinking and no answer"),
        ("chat", message([{"type": "image"}]), "nothing but image"),
        ("chat", message(None, audio={"transcript": "Sure."}), "nothing but audio"),
        ("chat", {"choices": [{}, {}]}, "2 answers came to one request"),
        ("anthropic", reply("anthropic", [], "model_context_window_exceeded"), Answer("", "length")),
        # Between two calls of tools a model can think again; newer blocks are left out.
        ("anthropic", reply("anthropic", [{"type": "thinking", "thinking": "Hm."}, SAID, NEWER,
                                          {"type": "thinking", "thinking": ""},
                                          {"type": "thinking", "thinking": "Oh."}]),
         Answer("Sure.", thinking="Hm.\n\nOh.")),
        # What newer servers send besides is left out, and is no answer where it is all there is.
        ("responses", items(NEWER, {"id": 1}, item(NEWER, SAID)), Answer("Sure.")),
        ("responses", items(NEWER), "nothing but hologram"),
        ("responses", items(item(NEWER)), "nothing but hologram"),
        ("responses", items(), Answer("")),
        ("responses", items(item(SAID, phase="commentary"), item(SAID)), Answer("Sure.\n\nSure.")),
        ("responses", items(THOUGHTS, item(SAID)), Answer("Sure.", thinking="Hm.")),
        ("responses", items(item(SAID), **CUT), "for an unknown reason, 'max_messages'"),
    ],
    ids=str,
)  # fmt: skip
def test_parts_of_a_reply_are_read_as_what_they_are(api, payload, expected):
    if isinstance(expected, Answer):
        assert read(api, payload) == expected
    else:
        assert expected in kept(api, payload)[0]


# Calls

CALL = {"name": "f", "arguments": '{"a": 1}'}
CUSTOM = {"name": "f", "input": "x = 1"}


@pytest.mark.parametrize(
    ("api", "payload", "expected"),
    [
        ("chat", message(None, "function_call", function_call=CALL), ("", {"a": 1})),
        ("chat", message("Sure.", "function_call", function_call=CALL), ("Sure.", {"a": 1})),
        ("chat", message("Sure.", "tool_calls", tool_calls=[{"type": "custom", "custom": CUSTOM}]),
         ("Sure.", "x = 1")),
        ("chat", message(None, "tool_calls", tool_calls=[{"function": CALL, "custom": None}, None]),
         ("", {"a": 1})),
        # Some servers say a call in both ways.
        ("chat", message(None, "tool_calls", tool_calls=[{"function": CALL}], function_call=CALL),
         ("", {"a": 1})),
        ("responses", {"output": [{"type": "custom_tool_call", **CUSTOM}], "status": "completed"},
         ("", "x = 1")),
        ("anthropic", reply("anthropic", [SAID, {"type": "tool_use", "name": "f"}], "tool_use"),
         ("Sure.", None)),
    ],
    ids=str,
)  # fmt: skip
def test_a_call_is_read_in_each_form_that_servers_give_it(api, payload, expected):
    text, arguments = expected
    answer = Answer(text, tool_calls=[{"name": "f", "arguments": arguments}])
    assert read(api, payload) == answer


@pytest.mark.parametrize(
    ("api", "payload"),
    [
        ("chat", message("Sure.", "tool_calls", tool_calls="abc")),
        ("chat", message("Sure.", "tool_calls", tool_calls=[{"type": "mcp"}])),
        ("anthropic", reply("anthropic", [{"type": "tool_use"}, SAID], "tool_use")),
        ("responses", {"status": "completed", "output": [{"type": "function_call"}, "Sure."]}),
    ],
    ids=str,
)
def test_a_call_without_a_name_is_an_error_that_keeps_the_text(api, payload):
    assert kept(api, payload) == ("a call without a name (got None)", "Sure.")


# Thinking

ENCRYPTED = {"type": "reasoning.encrypted", "data": "x"}


@pytest.mark.parametrize(
    ("stated", "thinking"),
    [
        ({"reasoning": "Hm."}, "Hm."),
        ({"reasoning": {"text": "Hm."}}, "Hm."),
        ({"reasoning": {"content": [{"text": "H"}, {"text": "m."}], "summary": "S"}}, "Hm."),
        ({"reasoning_content": ["Hm.", None, "Oh."]}, "Hm.\n\nOh."),
        ({"reasoning_content": [{"type": "text", "text": "Hm."}]}, "Hm."),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}, ENCRYPTED,
                                {"type": "reasoning.summary", "summary": "Oh."}]}, "Hm.\n\nOh."),
        # What several fields say is said once.
        ({"reasoning": "Hm.", "reasoning_details": [{"text": "Hm."}]}, "Hm."),
        ({"reasoning_content": "Hm.", "reasoning": "Hm."}, "Hm."),
        ({"reasoning_content": "", "reasoning": None, "reasoning_details": [ENCRYPTED]}, None),
        ({"reasoning": {"summary": []}}, None),
    ],
    ids=str,
)  # fmt: skip
def test_thinking_is_read_in_each_form_that_servers_give_it(stated, thinking, capsys):
    assert read("chat", message("Sure.", **stated)) == Answer("Sure.", thinking=thinking)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stated", [True, 5, {"odd form": "Hm."}, [7]], ids=str)
def test_thinking_that_cannot_be_read_is_said_and_costs_no_answer(stated, capsys):
    say_once.cache_clear()
    assert read("chat", message("Sure.", reasoning=stated)) == Answer("Sure.")
    assert "parts of type 'reasoning' in replies are not read" in capsys.readouterr().err
    assert kept("chat", message("", reasoning=stated)) == (
        "the answer holds nothing but reasoning",
        "",
    )


THOUGHT = {"type": "thinking", "thinking": "Hm."}
REASONED = {"type": "reasoning", "summary": [{"text": "Hm."}]}


@pytest.mark.parametrize(
    ("api", "payload", "got"),
    [
        ("chat", message("", reasoning="Hm."), " (got 'Hm.')"),
        ("chat", message([THOUGHT]), " (got 'Hm.')"),
        ("chat", message("", reasoning_details=[ENCRYPTED]), ""),
        ("anthropic", reply("anthropic", [THOUGHT]), " (got 'Hm.')"),
        ("anthropic", reply("anthropic", [{"type": "redacted_thinking", "data": "x"}]), ""),
        ("responses", items(REASONED), " (got 'Hm.')"),
        ("responses", items({"type": "reasoning", "summary": []}), ""),
    ],
    ids=str,
)
def test_thinking_alone_that_ended_by_itself_is_an_error(api, payload, got):
    assert kept(api, payload)[0].startswith(f"the reply holds thinking and no answer{got};")


@pytest.mark.parametrize(
    ("api", "payload"),
    [
        ("chat", message("", "length", reasoning="Hm.")),
        ("anthropic", reply("anthropic", [THOUGHT], "max_tokens")),
        (
            "responses",
            items(
                REASONED, status="incomplete", incomplete_details={"reason": "max_output_tokens"}
            ),
        ),
    ],
    ids=["chat", "anthropic", "responses"],
)
def test_thinking_alone_that_was_cut_off_is_an_empty_answer_that_was(api, payload):
    assert read(api, payload) == Answer("", "length", thinking="Hm.")


# Answers that end in a loop, which is found from their tokens alone


TOKENS = st.lists(st.integers(0, 2), max_size=30)
WINDOW = 16


@given(TOKENS, st.lists(st.integers(), min_size=1, max_size=2 * WINDOW), st.integers(0, 9))
def test_a_block_that_comes_four_times_is_a_loop_whatever_is_before_it(before, block, start):
    length = max(WINDOW, 4 * len(block))
    rounds = (block * (WINDOW + 9))[start:][:length]
    assert in_a_loop(before + rounds, WINDOW)
    assert not in_a_loop([*before, *rounds[:-1], max(before + rounds) + 1], WINDOW)


@given(TOKENS)
def test_a_loop_is_four_rounds_and_as_many_tokens_as_were_asked_for(tokens):
    rounds = (
        (period, tokens[-length:])
        for period in range(1, len(tokens) + 1)
        if (length := max(WINDOW, 4 * period)) <= len(tokens)
    )
    found = any(
        all(last[i] == last[i % period] for i in range(len(last))) for period, last in rounds
    )
    assert in_a_loop(tokens, WINDOW) == found


@pytest.fixture(scope="module")
def looping(tmp_path_factory):
    """A model that repeats itself sooner or later, in most answers where it is greedy."""
    folder = tmp_path_factory.mktemp("looping")
    save_tokenizer(folder)
    save_model(folder, initializer_range=0.1)
    return folder


@pytest.mark.parametrize(
    "settings", [{"arithmetic": "fast", "temperature": 0.3}, {"arithmetic": "exact"}], ids=str
)
def test_an_answer_ends_at_the_first_loop_of_its_own_tokens(looping, settings):
    asked, longest = prompts(16), 10 * LOOP_STEP - 1
    settings = {"max_tokens": longest, "temperature": 0, **settings}
    whole = answers(model(looping, **settings), asked)
    made = answers(model(looping, loop_tokens=WINDOW, **settings), asked)
    reasons = set()
    for without, answer in zip(whole, made, strict=True):
        tokens = unpacked_tokens(without.tokens)
        looped = [n for n in range(16, len(tokens) + 1, LOOP_STEP) if in_a_loop(tokens[:n], WINDOW)]
        expected = (tokens[: looped[0]], "loop") if looped else (tokens, without.finish_reason)
        assert (unpacked_tokens(answer.tokens), answer.finish_reason) == expected
        reasons.add(answer.finish_reason)
    assert "loop" in reasons
