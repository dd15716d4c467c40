"""The providers' batch APIs, against a server that plays both."""

from __future__ import annotations

import pytest

from refract.models import open_model
from refract.models.protocol import AdapterError, Answer
from tests.builders import ask
from tests.fault_server import FaultServer

each_api = pytest.mark.parametrize(
    "api", [{}, {"adapter": "anthropic"}, {"api": "responses"}], ids=str
)
IN_BATCHES = {"mode": "batch", "batch_poll": 0.01}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the batches that are under way, of a cache folder of the test's own."""
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path))
    return tmp_path / "batches"


BATCH = [
    "plain", "[[refusal]]", "[[length]]", "[[filter]]",
    "[[azure]]", "[[thinking]]", "[[bad]]", "[[too_long]]",
    ask("[[too_long]] a", "[[too_long]] b", "c"), "nul \0 half \ud800",
]  # fmt: skip


@each_api
def test_a_batch_gives_the_rows_of_the_live_mode(cache, api):
    with FaultServer() as server:
        live = server.ask(*BATCH, **api)
        assert server.ask(*BATCH, **api, **IN_BATCHES) == live
        # One batch for each attempt that was needed.
        assert server.submitted == 3
    assert list(cache.glob("*")) == []


@pytest.mark.parametrize("adapter", ["openai", "anthropic"])
def test_an_interrupted_batch_is_waited_for_and_not_submitted_again(cache, adapter):
    own = {"adapter": adapter, **IN_BATCHES}
    requests = [ask(str(n)) for n in range(6)]
    with FaultServer() as server:
        server.looks_fail = True
        with pytest.raises(AdapterError, match=r"does not tell how a batch stands .*; run again"):
            server.ask(*requests, max_retries=0, **own)
        server.looks_fail = False
        stream = open_model("m", server.model(**own)).answer(requests)
        next(stream)
        stream.close()  # five answers were not taken
        # Two of its answers are known by now, and one request is new.
        got = server.ask(*requests[2:], "new", **own)
        assert [answer.response[6:] for answer in got] == ["2", "3", "4", "5", "new"]
        assert server.submitted == 2
        assert server.arrived == 7
        # What that run did not ask waits for one that does.
        got = server.ask(*requests[:2], **own)
        assert [answer.response[6:] for answer in got] == ["0", "1"]
        assert server.submitted == 2
    assert list(cache.glob("*")) == []


@pytest.mark.parametrize(
    ("adapter", "message"),
    [("openai", "not executed in time"), ("anthropic", "the request expired in its batch")],
)
def test_requests_that_a_batch_did_not_process_are_errors_and_sent_again_by_the_next_run(
    cache, adapter, message
):
    own = {"adapter": adapter, **IN_BATCHES}
    with FaultServer() as server:
        (expired,) = server.ask("[[expire]]", **own)
        assert expired == Answer.failed("BatchExpired", message)
        server.ask("[[expire]]", **own)
        assert server.submitted == 2


def test_a_budget_holds_for_batches(cache):
    with FaultServer() as server:
        limits = {"price": {"input": 0, "output": 1e6}, "max_tokens": 3, "max_cost": 9}
        got = server.ask(*map(str, range(5)), **IN_BATCHES, **limits)
        assert server.arrived == 3
    assert [answer.error and answer.error["type"] for answer in got] == [
        None, None, None, "BudgetExhausted", "BudgetExhausted",
    ]  # fmt: skip
