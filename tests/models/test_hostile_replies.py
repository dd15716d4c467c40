"""Whatever a server sends concerns the row that asked for it, and no other."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.models import open_model
from refract.models.answering import check_models, generate
from refract.models.protocol import AdapterError
from refract.models.replies import InvalidResponse, say_once
from refract.models.store import ResponseStore
from tests.builders import ask, in_order
from tests.fault_server import FaultServer, _completion, _message, served
from tests.fuzz import JSON, fuzzed, places

KEY = "sk-configured-key-0123456789"


def model(adapter: str, url: str = "http://127.0.0.1:1", **settings: Any) -> Any:
    return open_model("m", served(url, adapter, **{"max_retries": 0, **settings}))


def completion(content: Any, **more: Any) -> bytes:
    body = _completion("", None)
    body["choices"][0]["message"]["content"] = content
    return json.dumps({**body, **more}).encode()


DEEP = b"[" * 200_000
BAD = {
    "deep": (200, DEEP, {}), "deep_bad": (400, DEEP, {}), "deep_crash": (500, DEEP, {}),
    "array": (200, b"[]", {}), "choices": (200, b'{"choices": {"a": 1}}', {}),
    "long_number": (200, b'{"choices": ' + b"9" * 5000 + b"}", {}),
    "not_utf8": (200, b"\xff\xfe\x00", {}),
    "error_of_objects": (400, b'{"error": {"message": {"a": [1]}, "code": {}, "type": []}}', {}),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_reply_that_is_no_answer_is_the_error_of_its_row_alone(name):
    with FaultServer(given=BAD) as server:
        found = server.ask("a", f"[[{name}]]", "b", max_retries=0)
    assert [answer.response for answer in (found[0], found[2])] == ["echo: a", "echo: b"]
    assert found[1].finish_reason == "error"
    assert found[1].error is not None
    assert len(found[1].error["message"]) <= 320


WHOLE = {"openai": _completion("hello", None), "anthropic": _message("hello", None)}


@st.composite
def payloads(draw: st.DrawFn, adapter: str) -> Any:
    """A reply with anything in one of its places."""
    payload = json.loads(json.dumps(WHOLE[adapter]))
    place = draw(st.sampled_from(places(payload)))
    if not place:
        return draw(JSON)
    target = payload
    for part in place[:-1]:
        target = target[part]
    target[place[-1]] = draw(JSON)
    return payload


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
@fuzzed(100)
@given(st.data())
def test_any_reply_is_a_typed_answer_or_an_invalid_response(adapter, data):
    asked = model(adapter)
    sent = payloads(adapter).map(lambda payload: json.dumps(payload).encode())
    try:
        answer = asked.read_reply(data.draw(sent | st.binary(max_size=60)), 0)
    except InvalidResponse:
        return
    assert isinstance(answer.response, str)
    assert answer.thinking is None or isinstance(answer.thinking, str)
    for tokens in (answer.prompt_tokens, answer.completion_tokens):
        assert tokens is None or (type(tokens) is int and tokens >= 0)


# Budgets


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": -5, "completion_tokens": -5}, {"prompt_tokens": math.nan}]
)
def test_max_cost_holds_where_a_reply_states_no_usage(usage):
    price, most = {"input": 1, "output": 1}, 0.001
    replies = {"silent": (200, completion("hello", usage=usage), {})}
    texts = [f"[[silent]] {number}" for number in range(60)]
    with FaultServer(given=replies) as server:
        found = server.ask(*texts, price=price, max_cost=most, max_tokens=30)
        worst = [len(json.dumps(body, sort_keys=True)) / 3 + 30 for body in server.bodies]
    assert sum(worst) / 1e6 <= most
    assert 5 < len(worst) < 60
    assert sum(answer.error is not None for answer in found) == 60 - len(worst)


# Keys


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
def test_an_answer_that_repeats_the_key_is_kept_without_it(adapter, monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    text = f"You sent {KEY}, and {KEY} again."
    with FaultServer() as server:
        asked = model(adapter, server.url, api_key_env="A_KEY")
        (found,) = in_order(asked, [ask(text)])
    assert found.response == "echo: You sent [key], and [key] again."


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [301, 307])
def test_no_redirect_is_followed_and_its_target_is_named(adapter, status, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    more = {"adapter": adapter, "api_key_env": "MY_KEY", "extra_headers": {"x-mine": "1"}}
    with FaultServer() as other:
        target = f"http://localhost:{other.port}/v1/chat/completions"
        location = {"location": f"{target}?token=hidden"}
        odd = {"odd": (307, b"", {"location": "http://u:hidden@h/v1"})}
        with FaultServer(given={"moved": (status, b"", location), **odd}) as server:
            moved, said, odd = server.ask("[[moved]]", "hello", "[[odd]]", **more)
            assert (said.response, other.arrived, server.arrived) == ("echo: hello", 0, 3)
    assert [moved.error["type"], odd.error["type"]] == ["Redirected"] * 2
    assert target in moved.error["message"]
    assert "hidden" not in moved.error["message"] + odd.error["message"]


@pytest.mark.parametrize(
    ("asked", "said", "warned"),
    [
        ("m", ["m"], False),
        ("gpt-4.1", ["gpt-4.1-2025-04-14"], False),
        ("org/Model", ["model"], False),
        ("gpt-4.1", ["gpt-4.1-mini"], True),
        ("big", ["big", "small"], True),
        ("m", ["m-2025-01-01", "m-2025-02-02"], True),
    ],
)
def test_the_model_that_a_server_says_answered_is_kept_and_another_warned_of(
    asked, said, warned, capfd, tmp_path
):
    given_ = {}
    for number, name in enumerate(said):
        reply = {**_completion("x", None), "model": name}
        given_[f"a{number}"] = (200, json.dumps(reply).encode(), {})
    with FaultServer(given=given_) as server, ResponseStore(tmp_path / "store") as store:
        adapter = model("openai", server.url, model_id=asked)
        requests = {f"k{number}": ask(f"[[a{number}]]") for number in range(len(said))}
        answers, _ = generate(adapter, requests, store)
        origins = store.origins(requests)
        # What was stored before and is used again counts as well.
        check_models(model("openai", server.url, model_id=asked), origins)
    assert [answers[f"k{n}"].origin["said_model"] for n in range(len(said))] == said
    assert [origins[f"k{n}"]["said_model"] for n in range(len(said))] == said
    assert ("says that these answered" in capfd.readouterr().err) is warned


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
def test_a_server_that_is_not_there_ends_the_run(adapter):
    with socket.socket() as reserved:  # bound and not listening: connections are refused
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        asked = model(adapter, url, max_retries=600, max_concurrency=2)
        with pytest.raises(AdapterError, match=r"takes no connection .*is the server running\?"):
            list(asked.answer([ask(str(n)) for n in range(20)]))


def replied(content: Any = "Yes", *, settings: dict[str, Any] | None = None, **choice: Any) -> Any:
    """What is read of a chat completion; ``choice``: fields of its one choice."""
    body = json.loads(completion(content))
    body["choices"][0] |= choice
    return model("openai", **(settings or {})).read_reply(body, 0)


@pytest.mark.parametrize(
    ("own", "finish"),
    [("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("STOP", "stop"), (None, "stop")],
)
def test_the_providers_own_word_for_an_ending_is_not_hidden_by_stop(own, finish):
    assert replied(native_finish_reason=own).finish_reason == finish


def response(**more: Any) -> Any:
    message = {"type": "message", "content": [{"type": "output_text", "text": "So"}]}
    body = {"status": "completed", "output": [message | more.pop("message", {})], **more}
    return model("openai", api="responses").read_reply(body, 0)


def test_a_completed_response_that_was_cut_or_failed_is_no_whole_answer():
    assert response().finish_reason == "stop"
    cut = {"incomplete_details": {"reason": "max_output_tokens"}}
    assert response(**cut).finish_reason == "length"
    for wrong in (
        {"error": {"code": "server_error", "message": "no"}},
        {"message": {"status": "incomplete"}},
    ):
        with pytest.raises(InvalidResponse):
            response(**wrong)


def test_a_part_of_unknown_type_that_holds_text_is_an_error_and_thinking_is_none_of_the_answer():
    thought = {"type": "reasoning_text", "text": "I must refuse."}
    answer = replied([thought, {"type": "text", "text": "Sure."}])
    assert (answer.response, answer.thinking) == ("Sure.", "I must refuse.")
    with pytest.raises(InvalidResponse, match=r"unknown type 'draft' holds text .*No"):
        replied([{"type": "draft", "text": "No."}, {"type": "text", "text": "Sure."}])


def test_the_end_of_thinking_that_a_server_missed_is_no_part_of_the_answer():
    message = {"content": "and so on</think>\n\nYes.", "reasoning_content": "Hm"}
    answer = replied(message=message, settings={"reasoning": ["<think>", "</think>"]})
    assert (answer.response.strip(), answer.thinking) == ("Yes.", "Hm\n\nand so on")


def test_thinking_that_only_the_total_counts_is_paid_for():
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 1500}
    body = {**json.loads(completion("Yes")), "usage": usage}
    assert model("openai").read_reply(body, 0).completion_tokens == 1480


@pytest.mark.parametrize(
    ("key", "shown"),
    [("anything", "anything at all"), ("key-0123", "[key] at all"), ("a" * 20, "[key] at all")],
)
def test_a_key_is_masked_and_a_word_that_stands_for_one_is_not(key, shown, monkeypatch):
    monkeypatch.setenv("MY_KEY", key)
    with FaultServer(script=lambda _: f"{key} at all") as server:
        (answer,) = server.ask("a", api_key_env="MY_KEY")
    assert answer.response == shown


def test_headers_from_the_environment_are_named(monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-policy: strict")
    with FaultServer() as server:
        server.ask("a")
    assert "sent as OPENAI_CUSTOM_HEADERS says, which no hash knows" in capfd.readouterr().err


def test_one_forbidden_prompt_is_an_error_of_its_own_once_others_were_answered():
    with FaultServer() as server:
        asked = ["a", "[[forbidden]]", "b"]
        answers = server.ask(*asked, max_concurrency=1)
    assert [answer.error and answer.error["type"] for answer in answers] == [
        None,
        "PermissionDeniedError",
        None,
    ]


def test_repeats_keep_to_the_rate_of_calls():
    with FaultServer(retry_after="0.001") as server:
        began = time.monotonic()
        server.ask("[[throttle*5]]", requests_per_minute=600)
        assert server.arrived == 6
    assert time.monotonic() - began >= 4 * 0.1


def test_a_reply_that_never_ends_is_over_at_its_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                while True:
                    connection.sendall(b"1\r\n\n\r\n")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        (answer,) = in_order(model("openai", url, timeout=0.5), [ask("a")])
        thread.join(10)
    assert answer.error["type"] == "APITimeoutError"
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ("Half of it", {"error": {"code": 502, "message": "upstream"}}),  # beside a choice
        ([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "\n\n"}], {}),
    ],
)
def test_a_choice_beside_an_error_and_blanks_behind_thinking_are_no_answers(content, more):
    with pytest.raises(InvalidResponse):
        model("openai").read_reply(json.loads(completion(content, **more)), 0)


@pytest.mark.parametrize(
    ("said", "usage", "settings"),
    [
        ("max_tokens", {"prompt_tokens": 1, "completion_tokens": 9}, {"max_tokens": 9}),
        ("prefill once more", {}, {"prefill": "Yes"}),
    ],
)
def test_what_a_server_does_unasked_is_said(said, usage, settings, capfd):
    say_once.cache_clear()
    body = {**json.loads(completion("Yes, so")), "usage": usage}
    model("openai", **settings).read_reply(body, 0)
    assert said in capfd.readouterr().err
