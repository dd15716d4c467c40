"""Models behind OpenAI's chat completions or its Responses API: OpenAI's own, and every
server that speaks the same.

Serving engines (vLLM, SGLang, TGI, llama.cpp, ``transformers serve``) are reached with
``base_url`` and, where they ask for no key, ``api_key_env: null``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from refract.core.thinking import split
from refract.core.types import FinishReason, Message, Row
from refract.models.contents import Contents, fields, kind_of_part, listed
from refract.models.extras import DECIDED
from refract.models.protocol import Answer
from refract.models.provider import NO_PARAMETERS, Address, KeyVariable, Provider, ServedSettings
from refract.models.replies import (
    FINISHED,
    InvalidResponse,
    error_parts,
    first_word,
    says_filtered,
    token_count,
)
from refract.models.sending import LiveRun
from refract.models.turn import Markers, refuse_ambiguous, with_call_ids

# OpenAI's models that take tools beside reasoning, or any request, in the Responses API
# alone: by that API's errors, and by the names that its package has for it alone.
NEEDS_RESPONSES = re.compile(
    r"(gpt-5\.[4-6]|gpt-6(\.1)?|(o\d|gpt-5[.\d]*)-(pro|codex)|o\d(-mini)?-deep-research"
    r"|computer-use-preview|gpt-daybreak|gpt-rosalind)(-.*)?"
)


class OpenAISettings(ServedSettings):
    """A model behind OpenAI's protocol."""

    base_url: Address = "https://api.openai.com/v1"
    api_key_env: KeyVariable = "OPENAI_API_KEY"
    client: Literal["azure"] | None = Field(
        None,
        description="azure: a deployment (`model_id`) of the resource in `base_url`",
    )
    api: Literal["responses", "chat"] | None = Field(
        None,
        description="null: the Responses API for OpenAI's models that need it, else chat "
        "completions",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="what `max_tokens` is called in chat completions"
    )
    seed: bool = Field(False, description="send the row's seed where the temperature is above 0")
    reasoning: Markers | None = Field(
        None,
        description="markers of thinking in the answer",
    )
    thinking_opened: bool | None = Field(
        None,
        description="with `reasoning`: whether replies begin inside the thinking; null: as each reply "
        "shows, and one that was cut off before that is an error",
    )

    CLIENT_KEYS: ClassVar[dict[str, str | None]] = {"azure": "AZURE_OPENAI_API_KEY"}
    DECIDED: ClassVar[Mapping[str, str]] = {
        **DECIDED,
        "max_completion_tokens": "set max_tokens, and max_tokens_field: max_completion_tokens",
        "seed": "set seed: true, which sends each row's own",
        **dict.fromkeys(("continue_final_message", "add_generation_prompt"), "set prefill"),
    }

    @model_validator(mode="after")
    def _can_go_on(self) -> OpenAISettings:
        refuse_ambiguous(self.prefill, self.reasoning)
        default = type(self).model_fields["base_url"].default
        if self.client == "azure" and self.base_url == default:
            raise ValueError("client: azure needs base_url: https://RESOURCE.openai.azure.com")
        if self.prefill is not None and self.at_provider:
            raise ValueError(
                "prefill: OpenAI's own API does not go on with a turn that was begun; servers such as "
                f"vLLM and SGLang do (got {self.prefill!r:.80})"
            )
        if self.api == "responses" and (self.seed or self.prefill is not None):
            raise ValueError("api: responses takes neither seed nor prefill; leave them out")
        if self.asks_responses and "reasoning_effort" in self.extra_body:
            raise ValueError(
                "extra_body.reasoning_effort is of chat completions; api: responses has "
                "extra_body: {reasoning: {effort: }}"
            )
        return self

    @property
    def asks_responses(self) -> bool:
        """Whether requests go to the Responses API. By default that follows from model and
        address, unless the definition has what chat completions alone take."""
        if self.api is not None:
            return self.api == "responses"
        of_chat = self.seed or "reasoning_effort" in self.extra_body
        needed = NEEDS_RESPONSES.fullmatch(self.model_id) is not None
        return needed and self.at_provider and not of_chat


class OpenAI(Provider):
    """Chat completions, or responses."""

    adapter = "openai"
    version = "1"
    Settings = OpenAISettings
    settings: OpenAISettings
    PACKAGE = "openai"
    RUN = LiveRun
    SHAPES: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        None: ("OPENAI_CUSTOM_HEADERS",),
        "azure": ("OPENAI_API_VERSION",),
    }

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        identity.pop("api", None)
        if self.settings.asks_responses:
            identity["api"] = "responses"
        return identity

    @property
    def path(self) -> str:
        return "/responses" if self.settings.asks_responses else "/chat/completions"

    def client(self, options: dict[str, Any]) -> Any:
        if self.settings.client == "azure":
            # Its API's version comes from the environment.
            options["azure_endpoint"] = options.pop("base_url")
            return self.sdk.AsyncAzureOpenAI(azure_deployment=self.settings.model_id, **options)
        return self.sdk.AsyncOpenAI(**options)

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        settings = self.settings
        if settings.asks_responses:
            # The server need not keep what is never asked for again.
            return {
                "input": response_items(messages),
                "max_output_tokens": settings.max_tokens,
                "store": False,
            }
        body: dict[str, Any] = {
            "messages": messages,
            settings.max_tokens_field: settings.max_tokens,
        }
        if settings.seed and (settings.temperature or 0) > 0:
            body["seed"] = seed % 2**31  # some servers hold it in 32 bits
        if any(message["role"] == "tool" for message in messages):
            body["messages"] = with_call_ids(messages, as_text=True)
        if settings.prefill is not None:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    def tool(self, tool: Row) -> Row:
        if not self.settings.asks_responses:
            return tool
        # Chat completions are not strict unless asked to be; responses are.
        loose = {"type": "function", "strict": False, "parameters": NO_PARAMETERS}
        return {**loose, **tool["function"]}

    def read(self, payload: Any, attempt: int) -> Answer:
        if self.settings.asks_responses:
            answer = read_response(payload, attempt)
        else:
            answer = read_completion(payload, attempt)
        markers, text = self.settings.reasoning, answer.response
        known = answer.thinking is not None
        if (known and not (markers and markers[1] in text)) or not isinstance(text, str):
            return answer
        if known and markers:
            # A server's own reader can miss the end of thinking, whose rest then begins the answer.
            response, rest, _ = split(text, markers, opened=markers[0] not in text)
            thoughts = "\n\n".join(filter(None, (answer.thinking, rest)))
            return replace(answer, response=response, thinking=thoughts)
        if markers or text.startswith("<|channel|>"):
            response, thinking, _ = split(text, markers, self.begun.opened)
            answer = replace(answer, response=response, thinking=thinking)
        unknown = markers and self.settings.thinking_opened is None and self.begun.thinking is None
        if unknown and answer.thinking is None and answer.finish_reason == "length":
            raise InvalidResponse(
                "cut off before any marker of `reasoning`, so it may be thinking alone; set "
                f"thinking_opened to true or false, or raise max_tokens (got {text[:60]!r})",
                text,
            )
        return answer


def read_completion(payload: Any, attempt: int) -> Answer:
    """A chat completion as an answer. Raises :class:`InvalidResponse` and look-up errors."""
    choice = payload["choices"][0]
    if len(payload["choices"]) > 1:
        count = len(payload["choices"])
        raise InvalidResponse(
            f"{count} answers came to one request (n?); `samples` asks for several"
        )
    reason = choice.get("finish_reason")
    # Azure leaves the message out of a filtered completion.
    filtered = FINISHED.get(first_word(reason)) == "content_filter"
    message = fields(choice.get("message")) if filtered else choice["message"]
    contents = read_message(message)
    error = choice.get("error") or payload.get("error")
    if reason == "error" or error:
        raise InvalidResponse(f"the completion is an error: {error}", contents.text)
    finish = contents.ending(reason)
    # OpenRouter has the provider's own word for it.
    own = FINISHED.get(first_word(choice.get("native_finish_reason")))
    if contents.refused or own == "refusal":
        finish = "refusal"
    elif finish == "stop" and own in ("length", "content_filter"):
        finish = own
    usage = fields(payload.get("usage"))
    return contents.answer(
        finish,
        attempt,
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=completion_tokens(usage),
    )


def completion_tokens(usage: Mapping[str, Any]) -> Any:
    """The tokens of a completion; of servers that count its thinking in ``total_tokens`` alone with
    these, which are paid for."""
    stated = usage.get("completion_tokens")
    count, prompt = token_count(stated), token_count(usage.get("prompt_tokens"))
    total = token_count(usage.get("total_tokens"))
    if total is None or prompt is None or count is None:
        return stated
    return max(count, total - prompt)


def read_message(message: Any) -> Contents:
    """What a message of a chat completion holds. Raises look-up errors."""
    contents = Contents()
    content = message.get("content")
    for part in contents.parts("" if content is None else content):  # some servers send it in parts
        contents.add(part)
    refusal = message.get("refusal")
    contents.refused |= bool(refusal)
    repeated = isinstance(refusal, str) and contents.text.rstrip().endswith(refusal.strip())
    if refusal and not repeated:  # some servers state it as the content, too
        contents.texts.append("")
        contents.refuse(refusal)
    for call in map(fields, listed(message.get("tool_calls") or [])):
        if call.get("custom"):  # a tool that is no function takes a text
            contents.call(call["custom"], "input")
        else:
            contents.call(call.get("function"), "arguments")
    legacy = message.get("function_call")  # of when a message had one call at most
    if legacy and not contents.calls:
        contents.call(legacy, "arguments")
    contents.unread += [kind for kind in ("audio", "images") if message.get(kind)]
    in_parts, contents.thoughts = contents.thoughts, []
    for key in (
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "thinking",
    ):  # all say the same
        contents.think(message.get(key), key)
        if contents.thoughts:
            break
    contents.thoughts = contents.thoughts or in_parts
    return contents


def response_items(messages: Sequence[Message]) -> list[Row]:
    """A conversation as the input of a response (``ResponseInputItemParam``), where calls of
    tools and their results are items of their own."""
    items: list[Row] = []
    for message in with_call_ids(messages, as_text=True):
        if message["role"] == "tool":
            result = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **result})
            continue
        calls = message.get("tool_calls", ())
        if message["content"] or not calls:
            items.append({"role": message["role"], "content": message["content"]})
        for call in calls:
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def read_response(payload: Any, attempt: int) -> Answer:
    """A reply of the Responses API (``openai.types.responses.Response``) as an answer.
    Raises :class:`InvalidResponse` and look-up errors.

    Of reasoning its own text counts where the server gives it, and else its summary."""
    contents = Contents()
    for item in contents.parts(payload["output"]):
        kind = kind_of_part(item)
        if kind == "reasoning":
            contents.thought = True
            contents.think(item.get("content") or item.get("summary"), kind)
        elif kind == "function_call":
            contents.call(item, "arguments")
        elif kind == "custom_tool_call":
            contents.call(item, "input")
        elif kind == "message":
            if item.get("status") == "incomplete" and payload.get("status") == "completed":
                contents.wrong.append(
                    "a message of the response is incomplete, and the response is not"
                )
            contents.texts.append("")
            for part in contents.parts(item.get("content") or ""):
                contents.add(part)
        elif isinstance(item, dict):
            contents.unread.append(kind)
        else:
            contents.add(item)
    usage = fields(payload.get("usage"))
    return contents.answer(
        "refusal" if contents.refused else _ending_of(payload, contents),
        attempt,
        prompt_tokens=usage.get("input_tokens"),
        completion_tokens=usage.get("output_tokens"),
    )


def _ending_of(payload: Any, found: Contents) -> FinishReason:
    status, why = payload.get("status"), fields(payload.get("incomplete_details")).get("reason")
    if not payload.get("error"):
        if status == "completed" and not why:
            return "stop"
        if status in ("completed", "incomplete", None):
            return found.ending(why)
    message, codes = error_parts(payload)
    if says_filtered(codes, message):
        return "content_filter"
    raise InvalidResponse(f"the response is {status}: {message}", found.text)
