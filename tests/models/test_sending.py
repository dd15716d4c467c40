"""How a run ends early, what is then kept, and what a definition may add to its requests."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import replace
from email.utils import formatdate

import pytest

from refract.core.errors import ParamsError
from refract.models import open_model
from refract.models.answering import generate
from refract.models.protocol import AdapterError, Request
from refract.models.replies import asks_for
from refract.models.store import ResponseStore
from tests.builders import ask
from tests.fault_server import FaultServer, served

both = pytest.mark.parametrize("adapter", ["openai", "anthropic"])
FUNCTION = {"type": "function", "function": {"name": "search"}}


def failing(number: int = 60):
    """So many requests that fail in passing, with names."""
    return [ask(f"[[throttle]] {n}", suite="s", prompt_id=f"p{n}") for n in range(number)]


def with_tools(text: str) -> Request:
    return replace(ask(text), tools=(FUNCTION,))


def answered_until_the_end(server: FaultServer, requests, **settings):
    """What a run gives before it ends early, and its error. ``[[held]]`` is answered only then."""
    model = open_model("m", server.model(**settings))
    server.released = lambda: model.ending
    got = {}

    def take() -> None:
        for index, answer in model.answer(requests):
            got[index] = answer

    with pytest.raises(AdapterError) as caught:
        take()
    return got, str(caught.value)


# What a definition adds


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("model", "model_id"), ("messages", "suites"), ("input", "suites"), ("prompt", "suites"),
        ("system", "system_prompt"), ("instructions", "system_prompt"),
        ("temperature", "set temperature"), ("top_p", "set top_p"), ("max_tokens", "set max_tokens"),
        ("max_completion_tokens", "set max_tokens"), ("max_output_tokens", "set max_tokens"),
        ("n", "samples"), ("stream", "whole"), ("seed", "seed"),
        ("random_seed", "seed"), ("num_predict", "set max_tokens"),
    ],
)  # fmt: skip
@both
def test_extra_body_takes_no_part_that_the_run_decides_itself(key, instead, adapter):
    definition = served(adapter=adapter, extra_body={"top_k": 5, key: 1})
    with pytest.raises(ParamsError, match=f"extra_body must not hold {key}, .*: .*{instead}"):
        open_model("m", definition)


def test_extra_body_names_the_setting_of_openai_where_there_is_one():
    for key, instead in (
        ("max_completion_tokens", "max_tokens_field: max_completion_tokens"),
        ("seed", "seed: true"),
        ("continue_final_message", "prefill"),
    ):
        with pytest.raises(ParamsError, match=instead):
            open_model("m", served(extra_body={key: 1}))


def test_tools_of_extra_body_never_take_the_place_of_a_prompt_s_own():
    with FaultServer() as server:
        tools = {"extra_body": {"tools": [FUNCTION]}}
        assert server.ask("hi", **tools)[0].response == "echo: hi"
        assert server.bodies[0]["tools"] == [FUNCTION]
        with pytest.raises(AdapterError, match=r"extra_body\.tools would replace the tools"):
            server.ask(with_tools("hi"), **tools)
        assert server.arrived == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-team", "é"), ("x-team", "a\nb"), ("x-team", "red "), ("x-équipe", "a"), ("x team", "a"),
     ("x-team\n", "a"), ("Content-Length", "1")],
)  # fmt: skip
@both
def test_a_header_that_http_cannot_send_is_refused_when_it_is_read(name, value, adapter):
    with pytest.raises(ParamsError, match="extra_headers") as caught:
        open_model("m", served(adapter=adapter, extra_headers={name: value}))
    assert len(str(caught.value).splitlines()) == 1


def test_a_request_that_http_cannot_send_ends_the_run_with_its_reason(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "a\nb")  # which the package sends as a header
    with FaultServer() as server:
        with pytest.raises(AdapterError, match=r"HTTP cannot send a request .*Illegal header"):
            server.ask("hi", max_retries=0)
        assert server.arrived == 0


# Ending early


@both
@pytest.mark.parametrize(
    ("behind", "settings", "says", "failed"),
    [
        ([ask("[[forbidden]]"), *(ask(str(n)) for n in range(50))], {}, "HTTP 403", 0),
        (failing(), {"max_retries": 0}, "32 calls in a row failed, the last with HTTP 429: slow down",
         32),
        ([ask("a"), with_tools("b")], {"extra_body": {"tools": []}}, "extra_body.tools", 0),
    ],
    ids=["a key is rejected", "a server is given up", "a request is wrong"],
)  # fmt: skip
def test_what_is_under_way_when_a_run_ends_is_answered(behind, settings, says, failed, adapter):
    settings = {"adapter": adapter, "max_concurrency": 2, **settings}
    with FaultServer() as server:
        got, error = answered_until_the_end(server, [ask("[[held]]"), *behind], **settings)
        arrived = server.arrived
    assert says in error
    assert got.pop(0).response == "echo: [[held]]"
    assert [a.error["type"] for a in got.values() if a.error] == ["RateLimitError"] * failed
    # Nothing is sent once the end is known.
    assert arrived == 1 + (failed or len(got) + ("403" in error))


@both
def test_a_call_between_two_tries_is_not_tried_again_once_the_run_ends(adapter):
    with FaultServer(retry_after="100") as server:
        requests = [ask("[[throttle]]"), ask("[[forbidden]]")]
        _, error = answered_until_the_end(server, requests, adapter=adapter, max_concurrency=2)
        assert server.calls["[[throttle]]"] == 1
    assert "HTTP 403" in error


def test_a_pause_between_two_calls_is_not_waited_for_once_the_run_ends():
    with FaultServer() as server:
        began = time.monotonic()
        model = open_model("m", server.model(requests_per_minute=0.5))
        with pytest.raises(AdapterError, match="HTTP 403"):
            list(model.answer([ask("[[forbidden]]"), ask("a"), ask("b")]))
        assert time.monotonic() - began < 120
        assert (server.arrived, model.usage["requests"]) == (1, 1)


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_that_ends_early_says_what_it_has_and_which_prompts_failed(tmp_path, stored):
    requests = {"a": ask("hi")} | {f"k{n}": request for n, request in enumerate(failing())}
    with FaultServer() as server, ResponseStore(tmp_path / "db" if stored else None) as store:
        model = open_model("m", server.model(max_retries=0, max_concurrency=1))
        with pytest.raises(AdapterError) as caught:
            generate(model, requests, store)
        kept = set(store.get(requests))
    kept_as = "stored" if stored else "lost, since the store is off (--no-store or REFRACT_CACHE)"
    assert str(caught.value).endswith(
        "Run again once the server answers, or without the prompts that it never answers. Of 61 "
        f"prompts 1 was answered and is {kept_as}; 32 failed, first s/p0, s/p1, s/p2"
    )
    assert kept == ({"a"} if stored else set())


def test_a_prompt_without_a_name_is_told_by_its_position():
    requests = {str(number): ask(f"[[throttle]] {number}") for number in range(60)}
    with FaultServer() as server, ResponseStore(None) as store:
        model = open_model("m", server.model(max_retries=0, max_concurrency=1))
        with pytest.raises(AdapterError, match=r"Of 60 prompts none was answered; .* number 3$"):
            generate(model, requests, store)


# Failures in passing


@both
@pytest.mark.parametrize(
    ("fault", "kind", "timeout"),
    [("drop", "APIConnectionError", 60), ("stall", "APITimeoutError", 2)],
)
def test_a_server_that_takes_connections_and_never_replies_is_not_called_absent(
    fault, kind, timeout, adapter
):
    with FaultServer() as server:
        settings = {"adapter": adapter, "timeout": timeout, "max_retries": 1, "max_concurrency": 32}
        (answer,) = server.ask(f"[[{fault}]]", **settings)
        assert answer.error["type"] == kind
        assert server.arrived == 2
        with pytest.raises(AdapterError, match="32 calls in a row failed"):
            server.ask(*(f"[[{fault}]] {number}" for number in range(40)), **settings)


@both
def test_a_reply_that_was_dropped_before_any_came_is_asked_for_with_all_repeats(adapter, capfd):
    with FaultServer() as server:
        (answer,) = server.ask("[[drop*4]]", adapter=adapter, max_retries=5)
        assert server.arrived == 5
        server.ask("[[drop*99]]", adapter=adapter, max_retries=4)
        assert server.arrived == 5 + 5
    assert answer.response == "echo: [[drop*4]]"
    assert "m: a call failed with" in capfd.readouterr().err


@both
def test_a_call_that_the_server_had_and_dropped_may_be_paid_for_and_counts_within_max_cost(adapter):
    price = {"input": 0, "output": 1000}  # 0.03 USD a call
    with FaultServer() as server:
        definition = server.model(adapter=adapter, price=price, max_tokens=30, max_retries=6)
        spending = open_model("m", {**definition, "max_cost": 0.1})
        ((_, answer),) = spending.answer([ask("[[drop*99]]")])
        assert server.arrived == 3
        passing = open_model("m", definition)
        list(passing.answer([ask("[[throttle*2]]"), ask("[[drop*2]] more")]))
    assert answer.error["type"] == "BudgetExhausted"
    assert spending.usage["cost"] == pytest.approx(3 * 0.03)
    assert passing.usage["cost"] == pytest.approx(2 * 0.003 + 2 * 0.03)


def test_an_answer_that_was_paid_stays_where_a_shorter_prompt_can_no_longer_be_asked():
    usage = {"prompt_tokens": 130, "completion_tokens": 20}
    message = {"role": "assistant", "content": "Empty?"}
    body = {
        "model": "m",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    replies = {"cut": (200, json.dumps(body).encode(), {})}
    price = {"input": 0, "output": 1000}  # 0.03 USD a call at most
    with FaultServer(given=replies) as server:
        settings = {"price": price, "max_tokens": 30, "max_cost": 0.031}
        adapter = open_model("m", server.model(**settings))
        blanks = "\r" * 1000
        ((_, answer),) = adapter.answer([ask(f"[[cut]]{blanks}", f"[[cut]]{blanks[:500]}")])
    assert (answer.response, answer.attempt, answer.error) == ("Empty?", 0, None)


@pytest.fixture
def interruptible():
    """Ctrl-C as a terminal sends it; shells start what runs in the background without."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is told of signals")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_the_last_answers_are_taken_ends_the_run(interruptible):
    with FaultServer() as server:
        taken = open_model("m", server.model()).answer([ask(str(n)) for n in range(3)])
        next(taken)
        while server.arrived < 3 or server.busy:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            list(taken)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@both
def test_a_longer_wait_than_two_minutes_is_not_waited_for_and_a_short_one_is(adapter):
    body = b'{"error": {"message": "slow down"}}'
    waits = {"later": {"retry-after": "86400"}, "soon": {"retry-after-ms": "20"}}
    given = {name: (429, body, headers) for name, headers in waits.items()}
    with FaultServer(given=given) as server:
        later, soon = server.ask("[[later]]", "[[soon*1]]", adapter=adapter)
        assert server.calls == {"[[later]]": 1, "[[soon*1]]": 2}
    assert later.error["type"] == "RateLimitError"
    assert soon.response == "echo: [[soon*1]]"


def test_a_wait_is_read_in_each_form():
    in_a_day = formatdate(time.time() + 86400, usegmt=True)
    assert 80000 < asks_for({"retry-after": in_a_day}) <= 86400
    assert asks_for({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert asks_for({"retry-after-ms": "?", "retry-after": "9"}) == 9
    assert asks_for({"retry-after": "1e999"}) > 1e9
    past, no_date = formatdate(0, usegmt=True), "Fri, 99 Abc 99999 99:99:99 GMT"
    for now in ({}, *({"retry-after": text} for text in ("-5", "soon", "nan", past, no_date))):
        assert asks_for(now) == 0
