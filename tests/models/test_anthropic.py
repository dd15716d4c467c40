"""The anthropic adapter against a server that fails on demand; what both share: test_openai.py."""

from __future__ import annotations

import pytest

from refract.models.protocol import Answer, Request
from tests.fault_server import FaultServer
from tests.models.test_openai import answers as tried_answers
from tests.models.test_openai import model as tried_model
from tests.models.test_openai import request

KEY = "sk-ant-0123456789abcdef"


def model(server: FaultServer | None, **settings: object):
    """The adapter in front of a server."""
    return tried_model(server, "anthropic", **settings)


def answers(server: FaultServer, *requests: Request, **settings: object) -> list[Answer]:
    """What comes back, in the order of the requests."""
    return tried_answers(server, *requests, adapter="anthropic", **settings)


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


def test_only_the_named_variable_holds_the_key(monkeypatch):
    # The SDK would take either from the environment.
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with FaultServer() as server:
        answers(server, request("a"))
        assert KEY not in server.seen_headers[0]


# Batches


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
