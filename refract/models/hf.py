"""Local models through transformers: a folder or a hub id."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from refract.core.registry import find
from refract.core.showing import say
from refract.models import checkpoint
from refract.models.arithmetic import ARITHMETICS, Arithmetic, Row
from refract.models.checkpoint import HFSettings, Loader
from refract.models.prompting import OPTIONS, Prompting, ReadyPrompt
from refract.models.protocol import AdapterError, Answer, Model, Request

# Hashed for every answer.
DETERMINING = ("reasoning", "max_tokens", "quantization", "trust_remote_code")
# Hashed only with arithmetic: fast.
COMPUTING = ("dtype", "device", "device_map", "batch_tokens")
# The SHA-256 of GGUF files whose tokenizer is known to be of bytes.
OF_BYTES = ("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",)
# Hashed only where they are set.
ADDED = ("score_tokens", "prefill", "thinking_tokens", "loop_tokens", *OPTIONS)


class HF(Model):
    """A causal language model of the Hugging Face format, run in this process.
    ``runtime``: None until weights are loaded."""

    adapter = "hf"
    version = "3"
    Settings = HFSettings
    IMPLIES = MappingProxyType({"arithmetic": "exact"})

    def __init__(self, name: str, settings: HFSettings) -> None:
        self.name, self.settings = name, settings
        self.samples = settings.temperature > 0
        self.loader = Loader(name, settings)
        self.prompting = Prompting(name, settings, self.loader)
        self._arithmetic: Arithmetic | None = None

    @property
    def arithmetic(self) -> str:
        """How answers are computed: exactly, unless the definition says otherwise or says
        nothing and the package for it is not there."""
        default = "exact" if ARITHMETICS.knows("exact") else "fast"
        return self.settings.arithmetic or default

    @property
    def runtime(self) -> Mapping[str, Any] | None:  # type: ignore[override]
        return self._arithmetic.runtime | self.prompting.told if self._arithmetic else None

    def identity(self) -> dict[str, Any]:
        """What determines an answer: the checkpoint's content (or hub commit) and every
        setting. The folder's path does not count. Raises AdapterError."""
        settings, templated = self.settings, "chat_template if there is one"
        folder = None if settings.gguf_file else self.loader.folder
        if folder:
            stated = checkpoint.read_json(folder / "tokenizer_config.json").get("chat_template")
            in_jinja = (folder / "chat_template.jinja").is_file()
            in_json = (folder / "chat_template.json").is_file()
            templated = "chat_template" if stated or in_jinja or in_json else "plain"
        identity = {
            "model": self.loader.identity,
            "prompt_format": templated if settings.chat_template else "plain",
            "temperature": float(settings.temperature),
            "top_p": settings.top_p if self.samples else None,
            "top_k": settings.top_k if self.samples else None,
            "stop": self.prompting.stop,
            "system_prompt": settings.system_prompt,
            "arithmetic": self.arithmetic,
        }
        for key in DETERMINING:
            identity[key] = getattr(settings, key)
        if self.arithmetic == "fast":
            identity["decoding"] = "transformers"
            for key in COMPUTING:
                identity[key] = getattr(settings, key)
            config = checkpoint.read_json(folder / "config.json") if folder else {}
            if checkpoint.changing_ropes(config):
                identity["batches"] = "of like factors"  # until now a long row changed short ones
        elif settings.quantization:
            identity["quantized_from"] = "stored"
        for key in ADDED:
            if getattr(settings, key) is not None:
                identity[key] = getattr(settings, key)
        if self.prompting.stop:
            # Until now a special token stopped nothing, and which texts are such tokens the
            # tokenizer alone says, which may not be here.
            identity["stop_tokens"] = "seen"
        if settings.gguf_file:
            identity["pre_tokenizer"] = "as named"  # as GPT-2's until now, whatever a file named
            if not self._is_of_bytes():
                identity["space_prefix"] = "as stated"  # until now at the begin of a text alone
        if settings.prefill and not settings.score_tokens and not self._is_of_bytes():
            identity["prefill_text"] = "joined"  # until now without a blank behind it
        return identity

    def _is_of_bytes(self) -> bool:
        """Whether the tokenizer is known to be of bytes, which keep blanks as they are."""
        if self.settings.gguf_file:
            return self.loader.identity.get("sha256") in OF_BYTES
        folder = self.loader.folder
        decoder = checkpoint.read_json(folder / "tokenizer.json").get("decoder") if folder else None
        return isinstance(decoder, dict) and decoder.get("type") == "ByteLevel"

    def description(self) -> dict[str, Any]:
        """``parameters`` (counted from the weights' headers), ``context_length`` in
        tokens, ``dtype`` and ``architecture``; None without the weights on this
        machine. Raises AdapterError."""
        loader, settings = self.loader, self.settings
        unknown = dict.fromkeys(("parameters", "context_length", "dtype", "architecture"))
        if settings.gguf_file:
            try:
                path = loader.gguf_file
            except AdapterError:
                path = None  # stored answers need no weights
            return loader.weight_file(path).description() if path else unknown
        folder = loader.folder or checkpoint.cached_snapshot(settings.model_id, loader.commit)
        if folder is None:
            return unknown
        config = checkpoint.read_json(folder / "config.json")
        # A hub snapshot may hold the config alone.
        here = loader.folder or list(folder.glob("*.safetensors"))
        declared = config.get("dtype") or config.get("torch_dtype")
        return {
            "parameters": checkpoint.parameter_count(folder) if here else None,
            "context_length": checkpoint.context_length(config),
            "dtype": declared if settings.dtype == "auto" else settings.dtype,
            "architecture": (config.get("architectures") or [None])[0],
        }

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they are made. A prompt that does not fit is rejected
        (``PromptTooLong``) before weights are loaded. Raises AdapterError."""
        self.prompting.load()
        prompts: dict[int, ReadyPrompt] = {}
        for index, request in enumerate(requests):
            prompt = self.prompting.prepare(request)
            if isinstance(prompt, Answer):
                yield index, prompt
            else:
                prompts[index] = prompt
        if not prompts:
            return
        arithmetic = self.loaded()
        rows = []
        for index, prompt in prompts.items():  # now that it is known which tokens the model has
            unknown = self.prompting.with_unknown_token(prompt)
            if unknown:
                yield index, unknown
            else:
                limit = self.prompting.limit(prompt)
                rows.append(Row(index, prompt.tokens, limit, requests[index].seed))
        for row in arithmetic.run(rows, self.prompting.endings(prompts)):
            yield row.index, self.prompting.answer_of(row, prompts[row.index])

    def verify(
        self, requests: Sequence[Request], answers: Sequence[Answer]
    ) -> Iterator[tuple[int, Any]]:
        """Checks recorded answers by one pass over each; nothing is generated. Raises
        AdapterError."""
        if self.settings.score_tokens or self.arithmetic == "fast":
            raise AdapterError(
                f"models.{self.name}: exact answers alone can be verified (arithmetic: exact, no "
                f"score_tokens; got arithmetic: {self.arithmetic})"
            )
        return self.loaded().verify(requests, answers)

    def loaded(self) -> Arithmetic:
        """What computes, with the weights loaded."""
        if self._arithmetic is None:
            self.prompting.load()
            where = f"models.{self.name}: arithmetic"
            chosen = find(ARITHMETICS, self.arithmetic, where)
            if self.settings.arithmetic is None and self.arithmetic == "fast":
                text = "answers are those of this machine's arithmetic (arithmetic: fast); the same"
                text += " on every machine are those of: pip install 'refract-eval[exact]'"
                say(f"{self.name}: {text}", file=sys.stderr)
            self._arithmetic = chosen(self.loader, self.prompting)
        return self._arithmetic
