"""The openai and anthropic adapters against a server that fails on demand."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any, get_args

import pytest

from refract.core.errors import ParamsError
from refract.core.types import given_prompt
from refract.models import open_model
from refract.models.answering import answer_prompts
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.replies import error_parts, kind_of
from refract.models.store import ResponseStore
from tests.builders import ask
from tests.fault_server import DECLINED, FaultServer, published, served

KEY = "sk-proj-0123456789abcdef"


def model(server: FaultServer | None, adapter: str = "openai", **settings: object):
    """The adapter in front of a server."""
    at = {"url": server.url} if server else {}
    return open_model("gpt", served(**at, adapter=adapter, **settings))


both = pytest.mark.parametrize("adapter", ["openai", "anthropic"])
RESPONSES = {"api": "responses"}
each_api = pytest.mark.parametrize("api", [{}, {"adapter": "anthropic"}, RESPONSES], ids=str)


# Definitions


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("modle_id", "m", "unknown key 'modle_id'; did you mean 'model_id'.*max_tokens"),
        ("temperature", -1, "temperature must be a number of at least 0, or null \\(got -1\\)"),
        ("max_tokens_field", "tokens", "max_tokens or max_completion_tokens"),
        ("base_url", "localhost:8000", "starts with http:// or https://"),
        ("price", {"input": 1}, "USD per million tokens"),
        ("price", {"input": 1e308, "output": 1}, "USD per million tokens"),
        ("max_cost", 1, "max_cost needs price"),
        ("extra_headers", {"Authorization": "s3cret"},
         "extra_headers.Authorization must hold no secret"),
        ("extra_body", {"x": float("nan")}, "JSON"),
        ("api", "completions", "responses or chat, or null"),
        ("reasoning", "<think>", "two markers"),
        ("base_url", "https://api.openai.com/v1", "OPENAI_API_KEY"),  # needs a key
    ],
)  # fmt: skip
def test_a_definition_that_cannot_be_used_says_why(key, value, says):
    with pytest.raises(ParamsError, match=says) as raised:
        model(None, **{key: value})
    assert "s3cret" not in str(raised.value)


def test_the_identity_holds_what_determines_an_answer_and_nothing_else():
    definition = {"adapter": "openai", "model_id": "m", "base_url": "http://127.0.0.1:1/v1/"}
    unasked = {"timeout": 3, "max_concurrency": 3}
    unasked["price"] = {"input": 1, "output": 2}
    assert open_model("m", definition | unasked).identity() == {
        "model_id": "m", "base_url": "http://127.0.0.1:1/v1", "system_prompt": None,
        "temperature": 0, "top_p": None, "max_tokens": 512, "max_tokens_field": "max_tokens",
        "seed": False, "reasoning": None, "extra_body": {}, "extra_headers": {},
    }  # fmt: skip
    plain = open_model("m", definition).identity()
    # A revision is sent nowhere, and tells other weights at the same address from these.
    changes = [{"system_prompt": "s"}, {"temperature": 1}, {"extra_body": {"k": 1}}]
    changes += [{"base_url": "http://127.0.0.1:2/v1"}, {"revision": "a"}, {"revision": "b"}]
    hi = ask("hi")
    bodies = [open_model("m", definition | own).payload(hi, 0) for own in ({}, {"revision": "a"})]
    assert bodies[0] == bodies[1]
    others = [open_model("m", definition | asked).identity() for asked in changes]
    assert all(other not in [plain, *others[:place]] for place, other in enumerate(others))


@pytest.mark.parametrize(("temperature", "samples"), [(0, False), (0.7, True), (None, True)])
def test_a_model_samples_unless_its_temperature_is_0(temperature, samples):
    assert model(None, temperature=temperature).samples is samples


# What is sent

TURNS = tuple(
    {"role": role, "content": text}
    for text, role in {"a": "user", "b": "assistant", "c": "user"}.items()
)
STATED = {"system_prompt": "be brief", "temperature": 0.5, "top_p": 0.9, "max_tokens": 9}


def test_the_body_is_what_the_definition_says():
    with FaultServer() as server:
        row = Request((({"role": "user", "content": "hi"},),), seed=2**40 + 5)
        more = {"extra_body": {"reasoning_effort": "low"}, "extra_headers": {"x-team": "red"}}
        more["max_tokens_field"] = "max_completion_tokens"
        server.ask(row, **STATED, **more, seed=True)
        server.ask(row, temperature=None, seed=True)
        own = ({"role": "system", "content": "mine"}, {"role": "user", "content": "hi"})
        server.ask(Request((own,)), system_prompt="be brief")
        full, bare, with_own = server.bodies
        assert "x-team: red" in server.seen_headers[0].lower()
    hi = {"role": "user", "content": "hi"}
    assert full == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, hi],
        "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.9, "seed": 5,
        "reasoning_effort": "low",
    }  # fmt: skip
    assert bare == {"model": "m", "messages": [hi], "max_tokens": 512}
    assert with_own["messages"] == list(own)


def test_the_body_of_a_message_is_what_the_definition_says():
    with FaultServer() as server:
        more = {"extra_body": {"thinking": {"type": "disabled"}}}
        more["extra_headers"] = {"anthropic-beta": "x-1"}
        server.ask(Request((TURNS,)), adapter="anthropic", **STATED, **more)
        asked = Request((({"role": "system", "content": "mine"}, *TURNS),))
        own = {"system_prompt": "be brief", "temperature": None}
        server.ask(asked, adapter="anthropic", **own)
        full, with_own = server.bodies
        headers = server.seen_headers[0].lower()
    assert "anthropic-beta: x-1" in headers
    assert "anthropic-version: " in headers
    sent = {"model": "m", "messages": list(TURNS)}
    assert with_own == {**sent, "system": "mine", "max_tokens": 512}
    numbers = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9}
    assert full == {**sent, **numbers, "system": "be brief", "thinking": {"type": "disabled"}}


def test_a_request_to_the_responses_api_is_what_the_definition_says():
    function = {"name": "search"}
    asked = Request((TURNS,), tools=({"type": "function", "function": function},))
    thinking = {"effort": "low", "summary": "auto"}
    with FaultServer() as server:
        server.ask(asked, **STATED, **RESPONSES, extra_body={"reasoning": thinking})
        (body,) = server.bodies
    no_parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "strict": False, "parameters": no_parameters, **function}
    assert body == {
        "model": "m", "input": [{"role": "system", "content": "be brief"}, *TURNS],
        "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9, "store": False,
        "reasoning": thinking, "tools": [tool],
    }  # fmt: skip
    # The package's types of a request forbid no key.
    from openai.types.responses import FunctionToolParam
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    assert body.keys() <= ResponseCreateParamsNonStreaming.__annotations__.keys()
    assert tool.keys() <= FunctionToolParam.__annotations__.keys()
    identity = model(None, **RESPONSES).identity()
    assert identity == {**model(None).identity(), "api": "responses"}


def test_only_the_named_variable_holds_the_key(monkeypatch):
    # The package would take either from the environment.
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with FaultServer() as server:
        server.ask("a", adapter="anthropic")
        assert KEY not in server.seen_headers[0]


# Endings

AWKWARD = "nul \0, half \ud800, line \u2028, right-to-left \u202e, 🜁"
# What a text comes to; the second answer is Anthropic's, where it differs or is of that alone.
ENDINGS = [
    ("hi", Answer("echo: hi", "stop", 0, 7, 3)),
    (AWKWARD, Answer(f"echo: {AWKWARD}", "stop", 0, 7, 3)),
    ("[[length]]", Answer("echo: [[length]]", "length", 0, 7, 3)),
    ("[[refusal]]", Answer("I can't help with that.", "refusal", 0, 7, 3),
     Answer("", "refusal", 0, 7, 3)),
    ("[[declined]]", Answer("I can't help with that.", "refusal", 0, 7, 3),
     Answer("", "refusal", 0, 7, 3, stop_details=DECLINED)),
    ("[[content_filter]]", Answer("", "content_filter", 0, 7, 3)),
    ("[[SAFETY]]", Answer("", "content_filter", 0, 7, 3)),
    ("[[filter]]", Answer("", "content_filter")),
    ("[[azure]]", Answer("", "content_filter")),
    ("[[openrouter]]", Answer("", "content_filter")),
    ("[[empty]]", Answer("", "stop", 0, 7, 3)),
    ("[[null]]", Answer("", "stop", 0, 7, 3)),
    ("[[parts]]", Answer("echo: [[parts]]", "stop", 0, 7, 3)),
    ("[[thinking]]", Answer("echo: [[thinking]]", "stop", 0, 7, 3, None, "let me think")),
    ("[[bad]]", Answer.failed("BadRequestError", "HTTP 400: temperature: must be 0")),
    ("[[unknown]]", Answer.failed("NotFoundError", "HTTP 404: model: no such model")),
    ("[[quota]]", Answer.failed("RateLimitError", "HTTP 429: Request too large for your tier")),
    ("[[too_long]]", Answer.failed("PromptTooLong",
     "HTTP 400: prompt is too long: 9 tokens > 8 maximum")),
    # A limit that lasts longer than anyone would wait ends at once.
    ("[[throttle_day]]", Answer.failed("RateLimitError", "HTTP 429: come back tomorrow")),
]  # fmt: skip


@each_api
def test_every_ending_is_recorded_and_asked_for_once(api):
    with FaultServer() as server:
        found = server.ask(*(text for text, *_ in ENDINGS), **api)
        assert set(server.calls.values()) == {1}
    for (text, *expected), answer in zip(ENDINGS, found, strict=True):
        assert answer == expected[-1 if "adapter" in api else 0], text


def test_a_response_that_failed_is_an_error_unless_a_policy_stopped_it():
    with FaultServer() as server:
        stopped, failed = server.ask("[[policy]]", "[[failed]]", **RESPONSES)
    assert stopped == Answer("", "content_filter", 0, 7, 3)
    assert failed == Answer.failed("InvalidResponse", "the response is failed: oh")


def names_of(union: object) -> set[str]:
    return {name for part in get_args(union) if (names := get_args(part)) for name in names}


def test_the_responses_api_is_the_default_of_openais_models_that_need_it():
    from openai.types.shared import ChatModel, ResponsesModel

    alone = names_of(ResponsesModel) - set(get_args(ChatModel))
    reasoning = {"gpt-5.4", "gpt-5.5-2026-04-23", "gpt-5.6-terra", "gpt-6-luna", "gpt-6.1-sol"}
    assert len(alone) > 20
    for name in alone | reasoning:
        definition = {"adapter": "openai", "model_id": name}
        default = open_model("m", definition)
        assert default.path == "/responses", name
        # Whoever names the setting asks the same requests.
        chosen = open_model("m", {**definition, "api": "responses"})
        assert default.identity() == chosen.identity()
        # Other servers of the name, and what chat completions alone take, stay with these.
        for more in (
            {"api": "chat"},
            {"base_url": "http://127.0.0.1:1/v1"},
            {"seed": True},
            {"extra_body": {"reasoning_effort": "none"}},
        ):
            other = open_model("m", {**definition, **more})
            assert other.path == "/chat/completions", more
            assert "api" not in other.identity()
    for name in ("gpt-4.1-mini", "gpt-5", "gpt-5.2", "gpt-5.3-chat-latest", "o3", "o4-mini"):
        definition = {"adapter": "openai", "model_id": name}
        assert open_model("m", definition).path == "/chat/completions", name
        named = open_model("m", {**definition, "api": "chat"})
        assert named.identity() == open_model("m", definition).identity()


def test_a_fallback_answer_of_anthropic_is_that_of_the_model_that_gave_it():
    from anthropic.types.beta import BetaMessage

    counts = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "input_tokens": 5}
    counts["output_tokens"] = 3
    to = {"model": "other-1"}
    trigger = {"type": "refusal", "category": "cyber"}
    served_by = [
        {"type": "message", "model": "m", **counts},
        {"type": "fallback_message", **to, **counts},
    ]
    message = published(
        BetaMessage,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "fallback", "from": {"model": "m"}, "to": to, "trigger": trigger},
                {"type": "text", "text": "Yes."},
            ],
            "stop_reason": "end_turn",
            "stop_details": None,
            "usage": {**counts, "iterations": served_by},
        },
    )
    expected = Answer("Yes.", "stop", 0, 7, 3, thinking="Hm.")
    answer = model(None, "anthropic").read_reply(message, 0)
    assert (answer, answer.said_model) == (expected, "other-1")


@both
def test_an_answer_of_another_model_is_kept_by_its_name_and_by_a_switch_an_error(adapter):
    with FaultServer() as server:
        asked = ["[[fallback]]", "hi"]
        counted, _ = server.ask(*asked, adapter=adapter)
        assert counted.said_model == "another"
        failed, own = server.ask(*asked, adapter=adapter, other_model="error")
    why = "another answered, and m was asked (other_model: error)"
    error = Answer.failed("InvalidResponse", why)
    assert failed == replace(error, response="echo: [[fallback]]")
    assert own.response == "echo: hi"
    # Answers that were stored without the switch may be another model's.
    at = {"url": "http://127.0.0.1:9", "adapter": adapter}
    plain, strict = (open_model("m", served(**at, **x)) for x in ({}, {"other_model": "error"}))
    assert strict.identity() == {**plain.identity(), "other_model": "error"}


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-4", "gpt-4-0613", True),
        ("gpt-4o", "openai/gpt-4o-2024-08-06", True),
        ("claude-opus-4", "claude-opus-4@20250514", True),
        ("gemini-2.0-flash", "gemini-2.0-flash-001", True),
        ("gemini-2.5-pro-preview", "gemini-2.5-pro-preview-05-06", True),
        ("command-r", "command-r-08-2024", True),
        ("anthropic.claude-v1", "anthropic.claude-v1:0", True),
        ("claude-opus-4", "claude-opus-4-1-20250805", False),
        ("claude-3", "claude-3-5", False),
        ("llama-3", "llama-3-70", False),
        ("gpt-4", "gpt-4o", False),
    ],
)
def test_a_date_behind_a_name_makes_no_other_model_and_a_version_does(asked, answered, same):
    adapter = open_model("m", served("http://127.0.0.1:9") | {"model_id": asked})
    assert adapter.is_asked(answered) is same


def test_thinking_that_a_server_leaves_in_the_answer_is_split_from_it():
    markers = ["echo: ", " so."]  # what this server says stands for <think> and </think>
    with FaultServer() as server:
        asked = ["hmm so. Hello", "[[thinking]]", "no end"]
        assert server.ask(*asked, reasoning=markers) == [
            Answer("Hello", "stop", 0, 7, 3, thinking="hmm"),
            # a server that splits it itself is left alone
            Answer("echo: [[thinking]]", "stop", 0, 7, 3, thinking="let me think"),
            Answer("", "stop", 0, 7, 3, thinking="no end"),
        ]


def test_thinking_that_opened_out_of_sight_and_was_cut_off_is_no_answer():
    with FaultServer() as server:
        (unknown,) = server.ask("[[length]]", reasoning=["<t>", "</t>"])
        said = {}
        for opened in (True, False):
            (said[opened],) = server.ask(
                "[[length]]", reasoning=["<t>", "</t>"], thinking_opened=opened
            )
    assert "set thinking_opened to true or false" in unknown.error["message"]
    assert (said[True].response, said[True].thinking) == ("", "echo: [[length]]")
    assert (said[False].response, said[False].thinking) == ("echo: [[length]]", None)


SAYS = "I can't help with that."


def completion(content, tokens=9):
    """A server's reply, which read so many tokens."""
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    body = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": tokens}}
    return 200, json.dumps(body).encode(), {}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([{"type": "smell"}], "parts of type 'smell' in replies are not read"),
        ([{"type": "text", "text": "<|im_end|>"}], "answers hold markers of a chat template"),
    ],
)
def test_what_is_odd_beside_the_words_is_said_once(capsys, parts, said):
    given = completion([{"type": "text", "text": SAYS}, *parts])
    with FaultServer(given={"r": given}) as server:
        assert all(server.ask("[[r]]")[0].response.startswith(SAYS) for _ in range(2))
    assert capsys.readouterr().err.count(said) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "slow down", "code": 429}},
        {"choices": None, "error": {"message": "slow down", "code": "rate_limit_exceeded"}},
        {"error": {"message": "slow down"}},
        {"error": "slow down"},
        {"choices": [{"message": {"content": "Sure"}, "finish_reason": "network_error"}]},
        {"choices": [{"message": {"content": "Sure"}, "finish_reason": "error",
                      "error": {"code": 502, "message": "upstream died"}}]},
    ],
)  # fmt: skip
def test_an_error_in_a_success_is_tried_again_as_late_as_the_server_asks(body):
    given = {"r": (200, json.dumps(body).encode(), {"retry-after": "0.2"})}
    with FaultServer(given=given) as server:
        began = time.monotonic()
        (mended,) = server.ask("[[r*1]]")
        assert time.monotonic() - began > 0.2
        (failed,) = server.ask("[[r]]", max_retries=1)
        assert server.calls["[[r]]"] == 2
    assert mended.response == "echo: [[r*1]]"
    assert "HTTP 200 with an error of its own, HTTP" in failed.error["message"]


@pytest.mark.parametrize("inside_a_choice", [False, True])
@pytest.mark.parametrize("status", [200, 400])
def test_an_error_in_a_success_says_what_it_says_as_a_bad_request(status, inside_a_choice):
    given = {}
    for code in ("content_filter", "context_length_exceeded"):
        body: Any = {"error": {"code": code}}
        body = {"choices": [{"finish_reason": "error", **body}]} if inside_a_choice else body
        given[code] = (status, json.dumps(body).encode(), {})
    with FaultServer(given=given) as server:
        filtered, long = server.ask(*(f"[[{code}]]" for code in given))
    assert filtered == Answer("", "content_filter")
    assert long.error["type"] == "PromptTooLong"


def test_a_prompt_that_the_server_cut_is_not_answered_and_a_shorter_one_is_tried():
    given = {
        "cut": completion("Empty?", tokens=130),
        "rest": completion(SAYS, tokens=170),
        "low": completion(SAYS, tokens=120),
    }
    noise, words = "\r" * 1000, "word " * 400
    with FaultServer(given=given) as server:
        model = open_model("m", server.model())

        def asked(*texts):
            attempts = tuple(({"role": "user", "content": text},) for text in texts)
            ((_, answer),) = model.answer([Request(attempts)])
            return answer

        assert asked("[[cut]]" + noise, "[[rest]]" + noise[:500]).attempt == 1
        assert asked("[[cut]]" + noise, "[[low]]" + noise[:500]).attempt == 0  # read whole
        assert asked("[[cut]]" + words, "[[rest]]").attempt == 1
        error = asked("[[cut]]" + words).error
    assert error["type"] == "PromptCut"
    assert "read 130 tokens of 401 words; raise its context (Ollama: OLLAMA_CON" in error["message"]


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        # A filter is known by its words where a proxy drops its code.
        (500, "litellm.BadRequestError: OpenAIException - The response was filtered due to the "
              "prompt triggering Azure OpenAI's content management policy.", "filtered"),
        (500, "litellm.ContentPolicyViolationError: no", "filtered"),
        # The words of servers for a prompt too long.
        (400, "This model's maximum context length is 4096 tokens. However, your request has 5000.",
         "too long"),
        (400, "the request exceeds the available context size, try increasing it", "too long"),
        (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
         "too long"),
        (400, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens",
         "too long"),
        (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
         "too long"),
        (400, "input length and `max_tokens` exceed context limit: 199000 + 2048 > 200000",
         "too long"),
        # Other complaints are neither.
        (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
         "final"),
        (400, "Unsupported value: 'temperature' does not support 0 with this model.", "final"),
        (400, "the content filter could not be reached", "final"),
        (408, "too slow", "passing"),
        (503, "full", "passing"),
    ],
)  # fmt: skip
def test_servers_words_for_an_error_are_known(status, message, kind):
    for body in ({"error": {"message": message}}, [{"error": message}], {"detail": message}):
        assert kind_of(status, *error_parts(body)) == kind


@both
def test_a_prompt_too_long_falls_back_to_the_next_attempt(adapter):
    with FaultServer() as server:
        asked = ask("[[too_long]] a", "[[too_long]] b", "c"), ask("[[too_long]] a", "x")
        assert [answer.attempt for answer in server.ask(*asked, adapter=adapter)] == [2, 1]
        asked = ask("[[too_long]] a", "[[too_long]] b")
        assert server.ask(asked, adapter=adapter)[0].error["type"] == "PromptTooLong"


# Failures


@pytest.mark.parametrize(
    ("fault", "type_", "message"),
    [
        ("throttle", "RateLimitError", "HTTP 429: slow down"),
        ("crash", "InternalServerError", "HTTP 500: internal error"),
        ("overloaded", "(Overloaded|InternalServer)Error", "HTTP 529: Overloaded"),
        ("drop", "APIConnectionError", ""),
        ("truncated", "APIConnectionError", "peer closed connection"),
        ("stall", "APITimeoutError", ""),
        ("malformed", "InvalidResponse", "the response is not an answer (JSONDecodeError: "),
        ("not_an_answer", "InvalidResponse", "the response is not an answer"),
    ],
)
@both
def test_a_lasting_failure_is_the_error_of_its_row_alone(fault, type_, message, adapter):
    with FaultServer() as server:
        asked = f"[[{fault}]]", "fine"
        timeout = 2 if fault == "stall" else 60
        lost, kept = server.ask(*asked, adapter=adapter, timeout=timeout, max_retries=1)
    assert kept == Answer("echo: fine", "stop", 0, 7, 3)
    assert (lost.response, lost.finish_reason) == ("", "error")
    assert re.fullmatch(type_, lost.error["type"])
    assert message in lost.error["message"]


@both
@pytest.mark.parametrize("fault", ["key", "forbidden"])
def test_a_rejected_key_stops_at_once_without_showing_it(
    fault, adapter, monkeypatch, capfd, caplog
):
    monkeypatch.setenv("SOME_KEY", KEY)
    with FaultServer() as server, caplog.at_level("DEBUG"):
        served = model(server, adapter, api_key_env="SOME_KEY", max_concurrency=2)
        requests = [ask(f"[[{fault}]] {n}") for n in range(500)]
        with pytest.raises(AdapterError, match=r"the key in SOME_KEY .*HTTP 40[13]") as caught:
            list(served.answer(requests))
        assert server.arrived <= 2
    said = f"{caught.value!r} {caplog.text} {''.join(capfd.readouterr())} {served.__dict__}"
    assert KEY not in said
    assert KEY[:12] not in said


@pytest.mark.parametrize(
    ("value", "says"), [(None, "is not set"), ("", "is not set"), ("sk-“a”", "no key has")]
)
def test_a_missing_or_mangled_key_is_named_by_its_variable(value, says, monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    local = model(None, api_key_env="SOME_KEY")
    with pytest.raises(AdapterError, match=f"SOME_KEY {says}|SOME_KEY holds .*{says}") as caught:
        list(local.answer([ask("a")]))
    assert "“a”" not in str(caught.value)
    # A local server may need none.
    assert ("--set api_key_env=null" in str(caught.value)) is (not value)
    assert list(local.answer([])) == []  # nothing is asked
    provider = {"adapter": "openai", "model_id": "m", "api_key_env": "SOME_KEY"}
    with pytest.raises(AdapterError) as caught:
        list(open_model("m", provider).answer([ask("a")]))
    assert "api_key_env=null" not in str(caught.value)


FAULTS = (
    "throttle*1", "throttle*2", "crash*1", "overloaded*1", "unavailable*1", "drop*1", "stall*1",
    "throttle_bare*1", "truncated*1", "bad", "filter", "azure", "refusal", "length", "content_filter",
    "too_long", "empty", "not_an_answer", "unknown", "malformed",
)  # fmt: skip


def still_open(server):
    """The connections that stay open: a server hears of a closed one a moment later."""
    deadline = time.monotonic() + 5
    while server.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    return server.connections


@both
def test_of_200_prompts_with_one_in_five_failing_none_is_lost_and_none_doubled(tmp_path, adapter):
    texts = [f"plain {n}" for n in range(200)]
    texts[::5] = [f"[[{fault}]] {n}" for n in range(2) for fault in FAULTS]
    prompts = [given_prompt(f"{n:04}", text) for n, text in enumerate(texts)]
    with FaultServer() as server, ResponseStore(tmp_path / "answers.sqlite") as store:
        asked = model(server, adapter, timeout=3)
        responses, _ = answer_prompts({"s": prompts}, asked, store, 0)
        first = server.calls.copy()
        again, _ = answer_prompts({"s": prompts}, model(server, adapter, timeout=3), store, 0)
        second = server.calls - first
        connections = len(still_open(server))
    rows = responses["s"]
    assert [row["prompt_id"] for row in rows] == [f"{n:04}" for n in range(200)]
    kinds: Counter[tuple[str, str | None]] = Counter()
    for text, row in zip(texts, rows, strict=True):
        kinds[row["finish_reason"], row["error"] and row["error"]["type"]] += 1
        if row["finish_reason"] in ("stop", "length") and "[[empty]]" not in text:
            assert row["response"] == f"echo: {text}"
    # 40 faulty prompts, 2 of each kind.
    assert kinds == {
        ("stop", None): 160 + 9 * 2 + 2, ("length", None): 2, ("refusal", None): 2,
        ("content_filter", None): 6, ("error", "BadRequestError"): 2,
        ("error", "PromptTooLong"): 2, ("error", "NotFoundError"): 2,
        ("error", "InvalidResponse"): 4,
    }  # fmt: skip
    # 8 kinds fail once and 1 twice.
    assert asked.usage["requests"] == 200
    assert sum(first.values()) == 200 + 2 * (8 + 2)
    # The second run asks for what failed, and for nothing else.
    failed = ("bad", "too_long", "unknown", "malformed", "not_an_answer")
    filtered = ("filter", "azure", "content_filter")
    assert {text.split("]]")[0][2:] for text in second} == {*failed, *filtered}
    assert len(second) == 2 * 8
    assert (again, connections) == (responses, 0)


# The run


def test_a_consumer_that_stops_early_leaves_no_thread_and_no_connection():
    with FaultServer(latency=0.02) as server:
        threads = threading.active_count()
        stream = model(server).answer([ask(str(n)) for n in range(1000)])
        next(stream)
        stream.close()
        assert still_open(server) == set()
        assert threading.active_count() == threads
        assert server.arrived < 200


def test_a_run_opens_no_more_connections_than_calls_at_a_time():
    with FaultServer(latency=0.01) as server:
        server.ask(*map(str, range(100)), max_concurrency=5)
        assert server.busiest == 5


def test_max_cost_is_never_passed():
    price = {"input": 10, "output": 1000}  # 10 USD per million prompt tokens: 0.00307 a call
    with FaultServer(latency=0.005) as server:
        adapter = model(server, price=price, max_cost=0.1, max_tokens=30)
        got = list(adapter.answer([ask(str(n)) for n in range(200)]))
    failed = [answer for _, answer in got if answer.error]
    assert len(got) == 200
    assert {answer.error["type"] for answer in failed} == {"BudgetExhausted"}
    assert adapter.usage["cost"] == pytest.approx(0.00307 * (200 - len(failed)))
    # The next call could have cost 0.03 and a little.
    assert 0.1 - 0.035 < adapter.usage["cost"] <= 0.1


def test_usage_counts_what_came_back():
    with FaultServer() as server:
        adapter = model(server, price={"input": 1, "output": 2})
        list(adapter.answer([ask("a"), ask("[[throttle*1]]"), ask("[[bad]]")]))
    cost = pytest.approx((14 * 1 + 6 * 2) / 1e6)
    counts = {"requests": 3, "prompt_tokens": 14, "completion_tokens": 6, "retries": 1}
    assert adapter.usage == {**counts, "cost": cost}


def test_requests_per_minute_are_respected():
    with FaultServer() as server:
        started = time.monotonic()
        server.ask(*map(str, range(20)), requests_per_minute=1200)
        # 19 spaces of 50 ms; the first may count as up to 50 ms early.
        assert time.monotonic() - started >= 18 * 0.05


def test_a_call_turned_away_is_repeated_when_the_server_asks_for_it_and_that_is_said(capfd):
    with FaultServer(retry_after="0.6") as server:
        started = time.monotonic()
        texts = ["[[throttle*1]]", "a", "b"]
        got = server.ask(*texts)
        assert time.monotonic() - started >= 0.6
        assert server.arrived == 4
    assert [answer.response for answer in got] == [f"echo: {text}" for text in texts]
    assert "m: a call failed with HTTP 429; such calls are repeated" in capfd.readouterr().err
