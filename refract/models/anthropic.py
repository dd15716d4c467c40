"""Models behind Anthropic's messages API: Anthropic's own, and every server that speaks
the same.

``base_url`` is given without ``/v1``. For thinking set ``temperature: null`` and
``extra_body: {thinking: {type: adaptive}}``; models before Claude 4.6 take ``{type:
enabled, budget_tokens: 2048}`` there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from refract.core.types import Message, Row
from refract.models.contents import THINKING, Contents, fields, kind_of_part, listed
from refract.models.protocol import Answer, stop_details
from refract.models.provider import NO_PARAMETERS, Address, KeyVariable, Provider, ServedSettings
from refract.models.replies import token_count
from refract.models.sending import LiveRun
from refract.models.turn import with_call_ids


class AnthropicSettings(ServedSettings):
    """A model behind Anthropic's protocol."""

    base_url: Address = "https://api.anthropic.com"
    api_key_env: KeyVariable = "ANTHROPIC_API_KEY"

    client: Literal["bedrock", "vertex"] | None = Field(
        None,
        description="the model at Amazon or Google, with their credentials",
    )
    CLIENT_KEYS: ClassVar[dict[str, str | None]] = {"bedrock": None, "vertex": None}

    @field_validator("prefill")
    @classmethod
    def _no_space_at_its_end(cls, value: str | None) -> str | None:
        if value is not None and value != value.rstrip():
            raise ValueError("must not end in white space, which Anthropic's API rejects")
        return value


class Anthropic(Provider):
    """The messages API."""

    adapter = "anthropic"
    version = "1"
    Settings = AnthropicSettings
    settings: AnthropicSettings
    PACKAGE = "anthropic"
    RUN = LiveRun
    SHAPES: ClassVar[Mapping[str | None, tuple[str, ...]]] = {None: ("ANTHROPIC_CUSTOM_HEADERS",)}
    path = "/v1/messages"

    def client(self, options: dict[str, Any]) -> Any:
        # The clouds' clients find address and credentials in the environment where none
        # is given.
        if self.settings.client is None:
            return self.sdk.AsyncAnthropic(open_telemetry=False, **options)
        if "base_url" not in self.settings.model_fields_set:
            del options["base_url"]
        if self.settings.client == "bedrock":
            return self.sdk.AsyncAnthropicBedrock(open_telemetry=False, **options)
        options["access_token"] = options.pop("api_key")
        return self.sdk.AsyncAnthropicVertex(open_telemetry=False, **options)

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        system: list[str] = []
        turns: list[Row] = []
        for message in with_call_ids(messages):
            if message["role"] == "system":
                system.append(message["content"])
            elif "tool_calls" in message:
                blocks: list[Row] = []
                if message["content"].strip():
                    blocks.append({"type": "text", "text": message["content"]})
                for call in message["tool_calls"]:
                    own = {"id": call["id"], "name": call["function"]["name"]}
                    arguments = call["function"]["arguments"]  # which have to be an object
                    input_ = arguments if isinstance(arguments, dict) else {}
                    blocks.append({"type": "tool_use", **own, "input": input_})
                turns.append({"role": "assistant", "content": blocks})
            elif message["role"] == "tool":
                result = {
                    "type": "tool_result",
                    "tool_use_id": message["tool_call_id"],
                    "content": message["content"],
                }
                if turns[-1]["role"] == "assistant":
                    turns.append({"role": "user", "content": []})
                turns[-1]["content"].append(result)  # of one answer's calls all together
            else:
                turns.append(message)
        body: dict[str, Any] = {
            "messages": turns,
            "max_tokens": self.settings.max_tokens,
        }
        system_text = "\n\n".join(system)
        if system_text:
            body["system"] = system_text
        return body

    def tool(self, tool: Row) -> Row:
        function = tool["function"]
        own = {key: function[key] for key in ("name", "description") if key in function}
        return {**own, "input_schema": function.get("parameters", NO_PARAMETERS)}

    def read(self, payload: Any, attempt: int) -> Answer:
        # A refusal keeps the text that came before it, which Anthropic asks to discard:
        # it counts as refused whatever the text says.
        contents = Contents()
        for block in contents.parts(payload["content"]):
            kind = kind_of_part(block)
            if kind == "tool_use":
                contents.call(block, "input")
            elif kind in ("text", *THINKING) or not isinstance(block, dict):
                contents.add(block)
            elif kind != "fallback":
                contents.unread.append(kind)
        usage = fields(payload.get("usage"))
        # The model that answered in place of the one asked for, which had refused.
        fallback = None
        for step in map(fields, listed(usage.get("iterations"))):
            if step.get("type") == "fallback_message":
                fallback = step.get("model")
        return contents.answer(
            contents.ending(payload.get("stop_reason")),
            attempt,
            prompt_tokens=prompt_tokens(usage),
            completion_tokens=usage.get("output_tokens"),
            stop_details=stop_details(payload.get("stop_details")),
            said_model=fallback,
        )


def prompt_tokens(usage: dict[str, Any]) -> int | None:
    """The tokens of a prompt with those from and for the cache; None where a count cannot be
    read."""
    cached = (usage.get(f"cache_{way}_input_tokens") or 0 for way in ("creation", "read"))
    total = 0
    for stated in (usage.get("input_tokens"), *cached):
        count = token_count(stated)
        if count is None:
            return None
        total += count
    return total
