"""A server on loopback that plays both providers' APIs and fails as the prompt asks it to.

The last message of a conversation may hold directives: ``[[NAME]]`` (always) or ``[[NAME*N]]`` (the
first N times that this text arrives). ``NAME`` is one of ``ERRORS``, ``call_TOOL``, or another that
:meth:`FaultServer.chat` and the functions behind it know. Everything else is answered with ``echo: ``
and the text.

As a program (``python -m tests.fault_server --latency 0.04``) it prints its port and serves until
its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from refract.models import open_model
from refract.models.protocol import Answer, Request
from tests.builders import ask, in_order

DIRECTIVE = re.compile(r"\[\[(\w+)(?:\*(\d+))?\]\]")

# Error statuses: (status, OpenAI's code, Anthropic's type, message).
ERRORS = {
    "bad": (400, "invalid_value", "invalid_request_error", "temperature: must be 0"),
    "key": (401, "invalid_api_key", "authentication_error", "Incorrect API key provided: {key}"),
    "forbidden": (403, "forbidden", "permission_error", "not allowed for {key}"),
    "unknown": (404, "model_not_found", "not_found_error", "model: no such model"),
    "throttle": (429, "rate_limit_exceeded", "rate_limit_error", "slow down"),
    "throttle_bare": (429, "rate_limit_exceeded", "rate_limit_error", "slow down"),
    "throttle_day": (429, "rate_limit_exceeded", "rate_limit_error", "come back tomorrow"),
    "quota": (429, "insufficient_quota", "rate_limit_error", "Request too large for your tier"),
    "crash": (500, "server_error", "api_error", "internal error"),
    "unavailable": (503, "unavailable", "api_error", "try later"),
    "overloaded": (529, "overloaded", "overloaded_error", "Overloaded"),
    "too_long": (400, "context_length_exceeded", "invalid_request_error",
                 "prompt is too long: 9 tokens > 8 maximum"),
    "filter": (400, "content_policy_violation", "invalid_request_error",
               "Output blocked by content filtering policy"),
}  # fmt: skip
# Whole replies: status and body.
REPLIES = {
    "azure": (400, {"error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content "
        "management policy.",
        "code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }}),
    "openrouter": (403, {"error": {
        "message": "Your chosen model requires moderation and your input was flagged",
        "code": 403, "metadata": {"reasons": ["violence"]},
    }}),
    "not_an_answer": (200, {"object": "list", "data": []}),
}  # fmt: skip
# Why Anthropic's API says that it refused.
DECLINED = {"category": "cyber", "explanation": "This request was declined."}
APIS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/openai/responses")
# Where a model ``m`` is at Azure, Bedrock and Vertex (of project p and region r).
CLOUDS = (
    "/openai/deployments/m/chat/completions",
    "/model/m/invoke",
    "/projects/p/locations/r/publishers/anthropic/models/m:rawPredict",
)


def served(
    url: str = "http://127.0.0.1:9", adapter: str = "openai", **settings: Any
) -> dict[str, Any]:
    """A definition of a model ``m`` of the server at an address, by default one where nobody is."""
    root = f"{url}/v1" if adapter == "openai" else url
    return {"adapter": adapter, "model_id": "m", "base_url": root, "api_key_env": None, **settings}


@dataclass
class FaultServer:
    """``with FaultServer() as server: server.url`` serves from a thread of its own.

    ``latency``: seconds before each answer. ``retry_after``: text of the header that goes with a
    429, 503 or 529. With ``throttle_every`` each so manieth call is a 429. ``given``: status, body and
    headers of directives of a test's own. ``script`` makes another answer than the echo, of the
    conversation's messages. ``[[held]]`` is answered once ``released`` says so.

    ``calls`` counts arrivals by text, ``bodies`` holds the decoded requests, ``busiest`` is the
    most calls there were at a time, ``connections`` the open ones.
    """

    latency: float = 0.0
    retry_after: str = "0.02"
    throttle_every: int = 0
    keep: bool = True
    given: dict[str, tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    script: Callable[[list[dict[str, Any]]], str] | None = None
    released: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.seen_headers: list[str] = []
        self.arrived = self.busy = self.busiest = 0
        self.connections: set[asyncio.Transport] = set()

    # Serving from a thread

    def __enter__(self) -> FaultServer:
        self.loop = asyncio.new_event_loop()
        started = threading.Event()

        async def serve() -> None:
            self.stop = asyncio.Event()
            server = await self.listen()
            started.set()
            await self.stop.wait()
            server.close()
            for transport in list(self.connections):
                transport.abort()
            await asyncio.sleep(0)

        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(serve()))
        self.thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()
        self.loop.close()

    async def listen(self) -> asyncio.Server:
        """Opens a port of the system's choice."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @property
    def url(self) -> str:
        """The root, as the Anthropic adapter wants it; OpenAI's needs ``/v1`` behind it."""
        return f"http://127.0.0.1:{self.port}"

    def model(self, **settings: Any) -> dict[str, Any]:
        """A definition of a model that this server answers for, through OpenAI's API by default."""
        return served(self.url, **settings)

    def ask(self, *asked: str | Request, **settings: Any) -> list[Answer]:
        """The answers of such a model to prompts or requests, in their order, each exactly once."""
        requests = [ask(one) if isinstance(one, str) else one for one in asked]
        return in_order(open_model("m", self.model(**settings)), requests)

    # Answering

    def reply(self, method: str, path: str, head: str, body: bytes) -> tuple[int, bytes, str]:
        """Status, body and what to do to the connection."""
        anthropic = path.startswith("/v1/messages") or not path.startswith(("/v1", "/openai"))
        if method == "POST" and path in (*APIS, *CLOUDS):
            request = json.loads(body)
            if self.keep:
                self.bodies.append(request)
                self.seen_headers.append(head)
            return self.chat(request, head, anthropic)
        return 404, _json({"type": "error", "error": {"message": "no such page"}}), ""

    def chat(self, request: dict[str, Any], head: str, anthropic: bool) -> tuple[int, bytes, str]:
        """The answer to one conversation."""
        messages = request.get("messages") or request["input"]
        text = _text(messages[-1].get("output") or messages[-1]["content"])
        count = self.calls[text]
        self.calls[text] += 1
        self.arrived += 1
        name = next(
            (n for n, times in DIRECTIVE.findall(text) if not times or count < int(times)), None
        )
        if self.throttle_every and self.arrived % self.throttle_every == 0:
            name = "throttle"
        if name in self.given:
            return *self.given[name][:2], name
        if name in ERRORS:
            status, code, kind, message = ERRORS[name]
            found = re.search(r"(?im)^(?:authorization: bearer|x-api-key:) *(\S+)", head)
            message = message.format(key=found and found[1])
            error = {"message": message, "type": kind if anthropic else code, "code": code}
            if anthropic:
                del error["code"]
            return status, _json({"type": "error", "error": error}), name
        if name in REPLIES:
            return REPLIES[name][0], _json(REPLIES[name][1]), name
        if name == "malformed":
            return 200, b'{"choices": [{"message": {"content": "ha', name
        said = self.script(messages) if self.script else f"echo: {text}"
        if "input" in request:
            message = _response(said, name, request)
        else:
            message = (_message if anthropic else _completion)(said, name)
            if name and name.startswith("call_"):
                _with_call(message, name.removeprefix("call_"), request["tools"], anthropic)
        message["model"] = "another" if name == "fallback" else request.get("model", "played")
        return 200, _json(message), name or ""


class _Connection(asyncio.Protocol):
    """One keep-alive connection; requests one after another."""

    def __init__(self, server: FaultServer) -> None:
        self.server, self.buffer = server, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.server.connections.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.connections.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].decode("latin-1")
        length = re.search(r"(?i)content-length: *(\d+)", head)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < whole:
            return
        body, self.buffer = self.buffer[end + 4 : whole], self.buffer[whole:]
        method, path, _ = head.split(" ", 2)
        server = self.server
        status, content, name = server.reply(method, path.split("?")[0], head, body)
        server.busy += 1
        server.busiest = max(server.busiest, server.busy)
        asyncio.get_running_loop().call_later(server.latency, self.send, status, content, name)

    def send(self, status: int, content: bytes, name: str) -> None:
        server = self.server
        if name == "held" and not (server.released() or self.transport.is_closing()):
            asyncio.get_running_loop().call_later(0.01, self.send, status, content, name)
            return
        server.busy -= 1
        if name == "stall" or self.transport.is_closing():
            return
        if name == "drop":
            self.transport.abort()
            return
        lines = [f"HTTP/1.1 {status} Whatever", "content-type: application/json"]
        lines.append(f"content-length: {len(content)}")
        own = server.given[name][2] if name in server.given else {}
        lines += [f"{key}: {value}" for key, value in own.items()]
        if name == "throttle_day":
            lines.append("retry-after: 86400")
        elif status in (429, 503, 529) and name != "throttle_bare" and "retry-after" not in own:
            lines.append(f"retry-after: {server.retry_after}")
        head = "\r\n".join([*lines, "", ""]).encode()
        if name == "truncated":
            self.transport.write(head + content[: len(content) // 2])
            self.transport.close()
        else:
            self.transport.write(head + content)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _text(content: str | list[dict[str, str]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part["content"] for part in content)


def _completion(text: str, name: str | None) -> dict[str, Any]:
    """A chat completion that ends as requested."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    reason = name if name in ("length", "content_filter", "SAFETY") else "stop"
    if name in ("refusal", "declined"):
        message |= {"content": None, "refusal": "I can't help with that."}
    elif name == "empty":
        message["content"] = ""
    elif name in ("content_filter", "null", "SAFETY"):
        message["content"] = None
    elif name == "thinking":
        message["reasoning_content"] = "let me think"
    elif name == "parts":
        message["content"] = [{"type": "text", "text": part} for part in (text[:3], text[3:])]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "played",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }  # fmt: skip


def published(kind: Any, value: dict[str, Any]) -> dict[str, Any]:
    """A reply, which must be one of a kind that the provider's package publishes, with fields that
    this kind has."""

    def check(part: Any) -> None:
        assert not getattr(part, "model_extra", None), (type(part), part.model_extra)
        values = dict(part).values() if hasattr(part, "model_extra") else part
        for inner in values if isinstance(part, list) or hasattr(part, "model_extra") else ():
            check(inner)

    check(kind.model_validate(value))
    return value


def _response(text: str, name: str | None, request: dict[str, Any]) -> dict[str, Any]:
    """A response of OpenAI's Responses API that ends as requested."""
    from openai.types.responses import Response

    texts = {"empty": [""], "parts": [text[:3], text[3:]]}.get(name or "", [text])
    parts = [{"type": "output_text", "text": part, "annotations": []} for part in texts]
    if name in ("refusal", "declined"):
        parts = [{"type": "refusal", "refusal": "I can't help with that."}]
    item: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant"}
    output = [{**item, "status": "completed", "content": parts}]
    if name in ("content_filter", "SAFETY", "null", "policy", "failed"):
        output = []
    elif name == "thinking":
        summary = [{"type": "summary_text", "text": "let me think"}]
        output.insert(0, {"type": "reasoning", "id": "rs_1", "summary": summary})
    elif name and name.startswith("call_"):
        tools = {tool["name"]: tool["strict"] for tool in request["tools"]}
        call = {"name": name.removeprefix("call_"), "arguments": '{"to": "all@example.org"}'}
        assert tools[call["name"]] is False
        output = [{"type": "function_call", "id": "fc_1", "call_id": "call_1", **call}]
    filtered = {"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"}
    ends = {
        "length": {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"},
        "content_filter": filtered,
        "SAFETY": filtered,
        "policy": {"error": {"code": "bio_policy", "message": "no"}, "status": "failed"},
        "failed": {"error": {"code": "server_error", "message": "oh"}, "status": "failed"},
    }
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "played", "output": output,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": request.get("tools", []),
        "usage": {
            "input_tokens": 7, "output_tokens": 3, "total_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
        **ends.get(name or "", {"status": "completed"}),
    }  # fmt: skip
    return published(Response, response)


def _message(text: str, name: str | None) -> dict[str, Any]:
    """A message of Anthropic's that ends as requested."""
    content = [{"type": "text", "text": text}]
    reasons = {"length": "max_tokens", "declined": "refusal", "SAFETY": "safety"}
    reasons |= {reason: reason for reason in ("refusal", "content_filter")}
    if name in ("refusal", "empty", "null", "declined", "SAFETY", "content_filter"):
        content = []
    elif name == "thinking":
        thinking = {"type": "thinking", "thinking": "let me think", "signature": "s"}
        content = [thinking, {"type": "redacted_thinking", "data": "x"}, *content]
    elif name == "parts":
        content = [{"type": "text", "text": part} for part in (text[:3], text[3:])]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "played",
        "content": content, "stop_reason": reasons.get(name or "", "end_turn"),
        "stop_details": {"type": "refusal", **DECLINED} if name == "declined" else None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 3},
    }  # fmt: skip


def _with_call(message: dict[str, Any], name: str, tools: list[Any], anthropic: bool) -> None:
    """Has a reply be a call, as its API has it, of one of the request's tools, as its API has these."""
    given, about = {"to": "all@example.org"}, "input_schema" if anthropic else "parameters"
    functions = tools if anthropic else [tool["function"] for tool in tools]
    assert any(tool["name"] == name and about in tool for tool in functions), tools
    if anthropic:
        used = {"type": "tool_use", "id": "t1", "name": name, "input": given}
        message |= {"content": [used], "stop_reason": "tool_use"}
        return
    function = {"name": name, "arguments": json.dumps(given)}
    calls = [{"id": "t1", "type": "function", "function": function}]
    choice = {"content": None, "role": "assistant", "tool_calls": calls}
    message["choices"][0] |= {"message": choice, "finish_reason": "tool_calls"}


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--retry-after", default="0.02")
    parser.add_argument("--throttle-every", type=int, default=0)
    options = parser.parse_args()
    server = FaultServer(
        options.latency, options.retry_after, throttle_every=options.throttle_every, keep=False
    )
    await server.listen()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
