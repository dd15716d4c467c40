"""The anthropic adapter against a server that fails on demand; what both share: test_openai.py."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from refract.core.errors import ParamsError
from refract.models import open_model
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import Limit
from tests.fault_server import FaultServer

KEY = "sk-ant-0123456789abcdef"


def request(*texts: str, seed: int = 7) -> Request:
    """A request with one attempt for each text."""
    return Request(tuple(({"role": "user", "content": text},) for text in texts), seed)


def model(server: FaultServer | None, **settings: object):
    """The adapter in front of a server."""
    url = server.url if server else "http://127.0.0.1:9"
    definition = {"adapter": "anthropic", "model_id": "m", "base_url": url, "api_key_env": None}
    return open_model("claude", definition | settings)


def answers(server: FaultServer, *requests: Request, **settings: object) -> list[Answer]:
    """What comes back, in the order of the requests, each exactly once."""
    pairs = list(model(server, **settings).answer(requests))
    assert sorted(index for index, _ in pairs) == list(range(len(requests)))
    return [answer for _, answer in sorted(pairs, key=lambda pair: pair[0])]


def test_openais_settings_are_not_anthropics():
    for key in ("organization", "max_tokens_field", "seed"):
        with pytest.raises(ParamsError, match=f"unknown key '{key}'"):
            model(None, **{key: True})


def test_the_body_is_what_the_definition_says():
    turns = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    )
    with FaultServer() as server:
        answers(
            server,
            Request((turns,)),
            system_prompt="be brief",
            temperature=0.5,
            top_p=0.9,
            max_tokens=9,
            extra_body={"thinking": {"type": "disabled"}},
            extra_headers={"anthropic-beta": "x-1"},
        )
        own = {"role": "system", "content": "mine"}
        answers(server, Request(((own, *turns),)), system_prompt="be brief", temperature=None)
        full, with_own = server.bodies
        headers = server.seen_headers[0].lower()
    assert "anthropic-beta: x-1" in headers
    assert "anthropic-version: " in headers
    assert full == {
        "model": "m",
        "system": "be brief",
        "messages": list(turns),
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "thinking": {"type": "disabled"},
    }
    assert with_own == {
        "model": "m",
        "system": "mine",
        "messages": list(turns),
        "max_tokens": 512,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi", Answer("echo: hi", "stop", 0, 7, 3)),
        (
            "nul \0, half \ud800, \u2028",
            Answer("echo: nul \0, half \ud800, \u2028", "stop", 0, 7, 3),
        ),
        ("[[length]]", Answer("echo: [[length]]", "length", 0, 7, 3)),
        ("[[refusal]]", Answer("", "refusal", 0, 7, 3)),
        ("[[empty]]", Answer("", "stop", 0, 7, 3)),
        ("[[content_filter]]", Answer("", "content_filter", 0, 7, 3)),
        ("[[filter]]", Answer("", "content_filter")),
        ("[[parts]]", Answer("echo: [[parts]]", "stop", 0, 7, 3)),
        ("[[thinking]]", Answer("echo: [[thinking]]", "stop", 0, 7, 3, None, "let me think")),
        ("[[bad]]", Answer.failed("BadRequestError", "HTTP 400: temperature: must be 0")),
        ("[[unknown]]", Answer.failed("NotFoundError", "HTTP 404: model: no such model")),
        (
            "[[too_long]]",
            Answer.failed("PromptTooLong", "HTTP 400: prompt is too long: 9 tokens > 8 maximum"),
        ),
    ],
)
def test_every_ending_is_recorded(text, expected):
    with FaultServer() as server:
        assert answers(server, request(text)) == [expected]
        assert server.calls[text] == 1


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        # A refusal keeps what was said before it.
        (
            {"content": [{"type": "text", "text": "Well,"}], "stop_reason": "refusal"},
            Answer("Well,", "refusal"),
        ),
        ({"content": [], "stop_reason": "model_context_window_exceeded"}, Answer("", "length")),
        ({"content": [], "stop_reason": "stop_sequence"}, Answer("", "stop")),
    ],
)
def test_rarer_stop_reasons_are_known(payload, expected):
    assert model(None).read(payload, 0) == expected


def test_a_prompt_too_long_falls_back_to_the_next_attempt():
    with FaultServer() as server:
        assert answers(server, request("[[too_long]] a", "b")) == [
            Answer("echo: b", "stop", 1, 7, 3)
        ]


@pytest.mark.parametrize(
    "fault",
    ["throttle", "crash", "unavailable", "overloaded", "drop", "stall", "malformed", "truncated"],
)
def test_a_passing_failure_is_tried_again_until_answered(fault):
    text = f"[[{fault}*1]]"
    with FaultServer() as server:
        adapter = model(server, timeout=0.5, retry_for=10)
        assert list(adapter.answer([request(text)])) == [
            (0, Answer(f"echo: {text}", "stop", 0, 7, 3))
        ]
        assert server.calls[text] == 2
        assert adapter.usage["throttles"] == (fault in ("throttle", "unavailable", "overloaded"))


def test_an_overload_that_lasts_is_an_error_of_its_own():
    with FaultServer() as server:
        (lost,) = answers(server, request("[[overloaded]]"), retry_for=0.2)
    assert lost == Answer.failed("OverloadedError", "HTTP 529: Overloaded")


@pytest.mark.parametrize("fault", ["key", "forbidden"])
def test_a_rejected_key_stops_at_once_without_showing_it(fault, monkeypatch, capfd, caplog):
    monkeypatch.setenv("SOME_KEY", KEY)
    with FaultServer() as server, caplog.at_level("DEBUG"):
        adapter = model(server, api_key_env="SOME_KEY", max_concurrency=2)
        requests = [request(f"[[{fault}]] {n}") for n in range(500)]
        with pytest.raises(AdapterError, match=r"the key in SOME_KEY .*HTTP 40[13]") as caught:
            list(adapter.answer(requests))
        assert server.arrived <= 2
    said = f"{caught.value!r} {caplog.text} {''.join(capfd.readouterr())} {adapter.__dict__}"
    assert KEY not in said
    assert KEY[:12] not in said


def test_only_the_named_variable_holds_the_key(monkeypatch):
    # The SDK would take either from the environment.
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with FaultServer() as server:
        answers(server, request("a"))
        assert KEY not in server.seen_headers[0]


def test_200_prompts_with_one_in_five_failing_lose_and_double_none():
    faults = ("throttle*1", "crash*1", "overloaded*2", "drop*1", "malformed*1", "truncated*1",
              "bad", "refusal")  # fmt: skip
    texts = [
        f"[[{faults[n // 5 % len(faults)]}]] {n}" if n % 5 == 0 else f"plain {n}"
        for n in range(200)
    ]
    with FaultServer() as server:
        got = answers(server, *map(request, texts), retry_for=30)
    for text, answer in zip(texts, got, strict=True):
        if "[[bad]]" in text:
            assert answer.error["type"] == "BadRequestError"
        elif "[[refusal]]" in text:
            assert answer.finish_reason == "refusal"
        else:
            assert answer == Answer(f"echo: {text}", "stop", 0, 7, 3)


def test_the_ratelimit_headers_are_read_by_the_servers_clock():
    headers = {
        "date": "Wed, 21 Oct 2015 07:28:00 GMT",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2015-10-21T07:28:12Z",
        "anthropic-ratelimit-input-tokens-remaining": "100",
        "anthropic-ratelimit-input-tokens-reset": "2015-10-21T07:28:01Z",
        "anthropic-ratelimit-output-tokens-remaining": "100",
        "anthropic-ratelimit-output-tokens-reset": "later",
    }
    assert model(None).rate_limits(headers) == [
        Limit(0, 50, 12, False),
        Limit(100, None, 1, True),
    ]


# Batches


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path))
    return tmp_path / "batches"


def test_a_batch_gives_the_rows_of_the_live_mode(cache):
    texts = ["plain", "[[refusal]]", "[[length]]", "[[filter]]", "[[thinking]]", "[[bad]]",
             "[[too_long]]", "nul \0 half \ud800"]  # fmt: skip
    requests = [*map(request, texts), request("[[too_long]] a", "[[too_long]] b", "c")]
    with FaultServer() as server:
        live = answers(server, *requests)
        assert answers(server, *requests, mode="batch", batch_poll=0.01) == live
        assert server.submitted == 3
    assert list(cache.glob("*")) == []


def test_a_batch_is_waited_for_by_the_run_after_the_one_that_submitted_it(cache):
    requests = [request(str(n)) for n in range(6)]
    with FaultServer() as server:
        stream = model(server, mode="batch", batch_poll=0.01).answer(requests)
        next(stream)
        stream.close()  # five answers were not taken
        assert len(list(cache.glob("*"))) == 1
        got = answers(server, *requests, mode="batch", batch_poll=0.01)
        assert [answer.response for answer in got] == [f"echo: {n}" for n in range(6)]
        assert server.submitted == 1
    assert list(cache.glob("*")) == []


def test_a_batch_whose_arrival_was_not_seen_is_found_by_its_time_and_size(cache):
    with FaultServer() as server:
        stream = model(server, mode="batch", batch_poll=0.01).answer([request("a"), request("b")])
        next(stream)
        stream.close()
        (path,) = cache.glob("*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"id": None}))
        got = answers(server, request("a"), request("b"), mode="batch", batch_poll=0.01)
        assert [answer.response for answer in got] == ["echo: a", "echo: b"]
        assert server.submitted == 1
        assert server.calls == Counter(["a", "b"])


def test_what_a_batch_did_not_get_to_is_an_error(cache):
    with FaultServer() as server:
        (expired,) = answers(server, request("[[expire]]"), mode="batch", batch_poll=0.01)
    assert expired == Answer.failed("BatchExpired", "the request expired in its batch")
