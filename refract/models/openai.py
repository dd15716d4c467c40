"""Models behind OpenAI's chat completions: OpenAI's own, and every server that speaks
the same.

Serving engines (vLLM, SGLang, TGI, llama.cpp, ``transformers serve``) are reached with
``base_url`` and, where they ask for no key, ``api_key_env: null``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from refract.core.tool_calls import tool_call
from refract.core.types import Message
from refract.models.protocol import Answer
from refract.models.provider import (
    Address,
    InvalidResponse,
    KeyVariable,
    ServedSettings,
    ending_called,
    finish_reason,
)
from refract.models.sending import Served
from refract.models.turn import Markers, split_reasoning, with_call_ids

# Statuses of a batch that has ended.
ENDED = ("completed", "failed", "expired", "cancelled")


class OpenAISettings(ServedSettings):
    """A model behind OpenAI's protocol."""

    base_url: Address = "https://api.openai.com/v1"
    api_key_env: KeyVariable = "OPENAI_API_KEY"
    client: Literal["azure"] | None = Field(
        None,
        description="azure: a deployment (`model_id`) of the Azure OpenAI resource in `base_url`",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="the name under which `max_tokens` is sent"
    )
    seed: bool = Field(
        False, description="true sends the row's seed where the temperature is above 0"
    )
    reasoning: Markers | None = Field(
        None,
        description="markers of thinking that a server leaves in the answer",
    )

    CLIENT_KEYS: ClassVar[dict[str, str | None]] = {"azure": "AZURE_OPENAI_API_KEY"}

    @model_validator(mode="after")
    def _can_go_on(self) -> OpenAISettings:
        default = type(self).model_fields["base_url"].default
        if self.client == "azure" and self.base_url == default:
            raise ValueError("client: azure needs base_url: https://RESOURCE.openai.azure.com")
        if self.prefill is not None and self.at_provider:
            raise ValueError(
                "prefill: OpenAI's own API does not go on with a turn that was begun; servers such as "
                f"vLLM and SGLang do (got {self.prefill!r:.80})"
            )
        return self


class OpenAI(Served):
    """Chat completions. Batches are files of requests and of results."""

    adapter = "openai"
    version = "1"
    Settings = OpenAISettings
    settings: OpenAISettings
    PACKAGE = "openai"
    PATH = "/chat/completions"

    def client(self, options: dict[str, Any]) -> Any:
        if self.settings.client == "azure":
            # Its API's version comes from the environment.
            options["azure_endpoint"] = options.pop("base_url")
            return self.sdk.AsyncAzureOpenAI(azure_deployment=self.settings.model_id, **options)
        return self.sdk.AsyncOpenAI(**options)

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        settings = self.settings
        body: dict[str, Any] = {settings.max_tokens_field: settings.max_tokens}
        if settings.seed and (settings.temperature or 0) > 0:
            body["seed"] = seed % 2**31  # some servers hold it in 32 bits
        if any(message["role"] == "tool" for message in messages):
            body["messages"] = with_call_ids(messages, as_text=True)
        if settings.prefill is not None:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        return body

    def read(self, payload: Any, attempt: int) -> Answer:
        choice = payload["choices"][0]
        reason = choice.get("finish_reason")
        if reason == "error" or choice.get("error"):
            raise InvalidResponse(f"the completion is an error: {choice.get('error')}")
        # Azure leaves the message out of a filtered completion.
        filtered = ending_called(reason) == "content_filter"
        message = choice.get("message", {}) if filtered else choice["message"]
        usage = payload.get("usage") or {}
        calls = []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls.append(tool_call(function["name"], function["arguments"]))
        finish = finish_reason(reason, calls)
        text = message.get("content")
        if isinstance(text, list):  # some servers send it in parts
            text = "".join(part.get("text") or "" for part in text)
        text = "" if text is None else text
        if message.get("refusal"):
            text, finish = message["refusal"], "refusal"
        elif choice.get("native_finish_reason") == "refusal":  # OpenRouter's word of the provider
            finish = "refusal"
        thinking = message.get("reasoning_content") or message.get("reasoning") or None
        if self.settings.reasoning and thinking is None:
            text, thinking = split_reasoning(text, self.settings.reasoning)
        return Answer(
            response=text,
            finish_reason=finish,
            attempt=attempt,
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            thinking=thinking,
            tool_calls=calls or None,
        )

    async def submit(self, client: Any, bodies: Mapping[str, bytes]) -> str:
        line = b'{"custom_id": "%s", "method": "POST", "url": "/v1/chat/completions", "body": %s}\n'
        lines = b"".join(line % (name.encode(), body) for name, body in bodies.items())
        file = await client.files.create(file=("requests.jsonl", lines), purpose="batch")
        batch = await client.with_options(max_retries=0).batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )
        return str(batch.id)

    async def ended(self, client: Any, batch_id: str) -> tuple[bytes, str] | None:
        batch = await client.batches.retrieve(batch_id)
        if batch.status not in ENDED:
            return None
        lines = b""
        for file in (batch.output_file_id, batch.error_file_id):
            if file is not None:
                lines += (await client.files.content(file)).content + b"\n"
        errors = batch.errors.data if batch.errors and batch.errors.data else []
        return lines, str(errors[0].message if errors else f"the batch ended as {batch.status}")

    def result(self, line: Any) -> tuple[int, Any]:
        if line.get("response") is None:
            return 0, line.get("error")
        return line["response"]["status_code"], line["response"]["body"]
