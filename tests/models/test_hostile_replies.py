"""Whatever a server sends concerns the row that asked for it, and no other."""

from __future__ import annotations

import json
import math
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.models import open_model
from refract.models.answering import generate
from refract.models.protocol import AdapterError
from refract.models.replies import InvalidResponse
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
