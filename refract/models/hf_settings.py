"""The settings of local models, apart from the adapter, since its parts share them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from refract.core.settings import Number, Settings
from refract.models.turn import Markers, SystemPrompt, Text


class HFSettings(Settings):
    """A local model. Generation settings are these and no others: of a checkpoint's
    ``generation_config.json`` only the end-of-text ids count, together with those of
    ``config.json`` and the tokenizer."""

    model_id: Text = Field(
        description="a folder with a checkpoint (safetensors, or with gguf_file GGUF), a hub id "
        "`owner/name`, or with gguf_file a package `name==version` of the package index",
        json_schema_extra={"allowed": "a folder or a hub id such as Qwen/Qwen2.5-0.5B-Instruct"},
    )
    gguf_file: Text | None = Field(
        None,
        description="the GGUF file in that folder, hub repository or package; its weights are "
        "dequantised",
        json_schema_extra={"allowed": "the path of a file, such as model.Q4_K_M.gguf, or null"},
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description="of the GGUF file; a package needs it, so that stored answers need no weights",
        json_schema_extra={"allowed": "64 hexadecimal digits, or null"},
    )
    revision: Text | None = Field(
        None,
        description="on the hub; null is `main`; not for folders",
        json_schema_extra={"allowed": "a branch, tag or commit, or null"},
    )
    system_prompt: SystemPrompt = None
    chat_template: bool = Field(
        True,
        description="true: the checkpoint's own template, if it has one; false: the bare text",
    )
    temperature: Annotated[Number, Field(ge=0)] = Field(
        0.0, description="0: the likeliest token; above 0: sampling with the row's own seed"
    )
    top_p: Annotated[Number, Field(gt=0, le=1)] = Field(1.0, description="limit of sampling")
    top_k: Annotated[int, Field(ge=1)] | None = Field(None, description="limit of sampling")
    max_tokens: int = Field(512, ge=1, description="most tokens of an answer")
    stop: Text | Annotated[list[Text], Field(min_length=1)] | None = Field(
        None,
        description="texts that end an answer and are not part of it",
        json_schema_extra={"allowed": "a text, a list of texts, or null"},
    )
    score_tokens: Annotated[list[Text], Field(min_length=2)] | None = Field(
        None,
        description="the answer is the logits of these tokens at its first place, as JSON; needs "
        "max_tokens: 1",
        json_schema_extra={"allowed": "a list of texts of one token each, or null"},
    )
    prefill: Text | None = Field(
        None,
        description="how the model's turn begins; it goes on from there, and the answer is the whole "
        "turn",
    )
    reasoning: Markers | None = Field(None, description="markers of thinking text")
    thinking_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="most tokens of thinking, besides those of the answer; null: `max_tokens` is for "
        "both; needs `reasoning`",
    )
    enable_thinking: bool | None = Field(
        None, description="given to the chat template, which must read it; null is not given"
    )
    reasoning_effort: Text | None = Field(
        None,
        description="given to the chat template, which must read it; null is not given",
        json_schema_extra={"allowed": "a text such as low, medium or high, or null"},
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: the checkpoint's; float32 instead of float16 on a CPU"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$",
        description="auto: the first there is of cuda, mps, cpu",
        json_schema_extra={"allowed": "auto, cpu, mps, cuda or cuda:N"},
    )
    device_map: Literal["auto"] | None = Field(
        None, description="auto: spread over all devices (accelerate)"
    )
    quantization: Literal["4bit", "8bit"] | None = Field(
        None,
        description="needs bitsandbytes; 8bit reads one row at a time",
    )
    peft: Text | None = Field(
        None,
        description="folder of a PEFT adapter (needs peft)",
        json_schema_extra={"allowed": "the folder of an adapter, or null"},
    )
    trust_remote_code: bool = Field(
        False, description="true runs Python code that comes with the checkpoint"
    )
    batch_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="tokens read at a time; null: by the size of model and device"
    )
    processes: int = Field(1, ge=1, description="how many processes share the prompts")
    threads: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="of each process on a CPU; null: one for a small model, else as many as PyTorch "
        "takes (`OMP_NUM_THREADS`)",
    )
    linear: Literal["onednn", "torch"] | None = Field(
        None,
        description="what multiplies by float32 weights on a CPU; null: oneDNN, PyTorch's default for "
        "a small model",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> HFSettings:
        if self.sha256 and not self.gguf_file:
            raise ValueError("sha256 is that of a gguf_file; give both, or leave both out")
        if "==" in self.model_id and not (self.gguf_file and self.sha256):
            raise ValueError(
                f"model_id {self.model_id!r} is a package: give the gguf_file in it and its sha256"
            )
        if self.gguf_file and self.quantization:
            raise ValueError(
                f"quantization: GGUF weights are dequantised (got {self.quantization!r}); leave it out"
            )
        if self.device_map and self.device != "auto":
            raise ValueError(
                f"device_map: auto chooses the devices itself; leave out device (got {self.device!r})"
            )
        if self.thinking_tokens and not self.reasoning:
            raise ValueError(
                "thinking_tokens: nothing tells thinking from the answer; add reasoning, such as "
                '["<think>", "</think>"] (got no reasoning)'
            )
        if self.prefill and self.reasoning:
            raise ValueError(
                "prefill begins the answer, so that no thinking can come before it; leave out one of "
                "prefill and reasoning (got both)"
            )
        if self.score_tokens and self.max_tokens != 1:
            raise ValueError(
                f"score_tokens: the first token alone counts; set max_tokens: 1 (got {self.max_tokens})"
            )
        return self
