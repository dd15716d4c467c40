"""Local models through transformers: a folder or a hub id, exact whatever a prompt's company is.

Definition keys, all optional but ``model_id``:

``model_id``          a folder with a checkpoint (safetensors only), or a hub id ``owner/name``
``revision``          branch, tag or commit on the hub (default ``main``); not for folders
``system_prompt``     put before every conversation that has no system message of its own
``chat_template``     true (default): the checkpoint's own template; false: the bare text. A
                      checkpoint without a template gets the bare text as well, and its identity
                      says so
``temperature``       0 (default): the likeliest token; above 0: sampling with the row's own seed
``top_p``, ``top_k``  limits of sampling, (0, 1] and at least 1 (defaults 1.0 and none)
``max_tokens``        most tokens of an answer (default 512)
``stop``              a text or list of texts that end an answer and are not part of it
``reasoning``         [open, close] markers of thinking text, for example ["<think>", "</think>"]
``dtype``             auto (default: what the checkpoint says; float32 instead of float16 on a CPU),
                      float32, bfloat16 or float16
``device``            auto (default: cuda, mps, cpu, the first there is), or one of those, or
                      cuda:0, …
``device_map``        auto: spread over all devices (accelerate)
``quantization``      4bit or 8bit (needs bitsandbytes); 8bit reads one row at a time
``peft``              folder of a PEFT adapter (needs peft)
``trust_remote_code`` true: run Python code that comes with the checkpoint (default false)
``batch_tokens``      tokens read at a time (default: by the size of model and device)
``processes``         not used here: how many processes the stage starts

Generation settings are these and no others: of a checkpoint's ``generation_config.json`` only the
end-of-text ids count, together with those of ``config.json`` and the tokenizer.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refract.errors import ParamsError
from refract.models import checkpoint
from refract.models.protocol import AdapterError, Answer, Message, Request, split_reasoning
from refract.models.settings import is_count, is_markers, is_number, is_text, is_texts, or_null

log = logging.getLogger(__name__)

_DEFAULTS: dict[str, Any] = {
    "model_id": None,
    "revision": None,
    "system_prompt": None,
    "chat_template": True,
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": None,
    "max_tokens": 512,
    "stop": None,
    "reasoning": None,
    "dtype": "auto",
    "device": "auto",
    "device_map": None,
    "quantization": None,
    "peft": None,
    "trust_remote_code": False,
    "batch_tokens": None,
    "processes": 1,
}


_CHECKS = {
    "model_id": (is_text, "a folder or a hub id such as Qwen/Qwen2.5-0.5B-Instruct"),
    "revision": (or_null(is_text), "a branch, tag or commit"),
    "system_prompt": (or_null(is_text), "text or null"),
    "chat_template": (lambda v: isinstance(v, bool), "true or false"),
    "temperature": (lambda v: is_number(v) and v >= 0, "a number of at least 0"),
    "top_p": (lambda v: is_number(v) and 0 < v <= 1, "a number above 0 and at most 1"),
    "top_k": (or_null(is_count), "a whole number of at least 1, or null"),
    "max_tokens": (is_count, "a whole number of at least 1"),
    "stop": (or_null(lambda v: is_text(v) or is_texts(v)), "a text, a list of texts, or null"),
    "reasoning": (
        or_null(is_markers),
        'null or two markers such as ["<think>", "</think>"]',
    ),
    "dtype": (
        lambda v: v in ("auto", "float32", "bfloat16", "float16"),
        "auto, float32, bfloat16 or float16",
    ),
    "device": (
        lambda v: isinstance(v, str) and re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", v) is not None,
        "auto, cpu, mps, cuda or cuda:N",
    ),
    "device_map": (lambda v: v in (None, "auto"), "auto or null"),
    "quantization": (lambda v: v in (None, "4bit", "8bit"), "4bit, 8bit or null"),
    "peft": (or_null(is_text), "the folder of an adapter, or null"),
    "trust_remote_code": (lambda v: isinstance(v, bool), "true or false"),
    "batch_tokens": (or_null(is_count), "a whole number of at least 1, or null"),
    "processes": (is_count, "a whole number of at least 1"),
}


class HF:
    """A causal language model of the Hugging Face format, run in this process.

    ``runtime``: None until weights are loaded, then device, dtype, batch shape, threads and torch
    version, for the provenance beside the numbers.
    """

    VERSION = "2"
    USES: tuple[str, ...] = ()

    def __init__(self, name: str, definition: dict[str, Any]) -> None:
        self.name = name
        given = {key: value for key, value in definition.items() if key != "adapter"}
        unknown = sorted(given.keys() - _DEFAULTS.keys())
        if unknown:
            raise ParamsError(
                f"models.{name}: unknown key {', '.join(map(repr, unknown))}; allowed for adapter"
                f" hf: adapter, {', '.join(_DEFAULTS)}"
            )
        if "model_id" not in given:
            raise ParamsError(f"models.{name}: model_id is missing; give {_CHECKS['model_id'][1]}")
        self.settings = _DEFAULTS | given
        for key, value in self.settings.items():
            check, allowed = _CHECKS[key]
            if not check(value):
                raise ParamsError(f"models.{name}: {key} must be {allowed} (got {value!r})")
        if self.settings["device_map"] and self.settings["device"] != "auto":
            raise ParamsError(
                f"models.{name}: device_map: auto chooses the devices itself; leave out device"
                f" (got {self.settings['device']!r})"
            )
        stop = self.settings["stop"]
        self._stop: tuple[str, ...] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        reasoning = self.settings["reasoning"]
        self._reasoning: tuple[str, str] | None = tuple(reasoning) if reasoning else None
        self._identity: dict[str, Any] | None = None
        self._commit_resolved: str | None = None
        self._tokenizer: Any = None
        self._decoder: Any = None
        self._context: int | None = None
        self.runtime: dict[str, Any] | None = None

    @property
    def samples(self) -> bool:
        return self.settings["temperature"] > 0

    @property
    def batch_shape(self) -> Any:
        """The batch shape in use (:class:`refract.models.decoding.BatchShape`); None before
        loading."""
        return self._decoder.shape if self._decoder else None

    def identity(self) -> dict[str, Any]:
        """What determines an answer: the checkpoint's content (or hub commit) and every setting.

        The folder's path is no part of it: the same files elsewhere give the same answers. Raises
        AdapterError.
        """
        if self._identity is None:
            s = self.settings
            folder = self._folder
            if folder:
                code = s["trust_remote_code"]
                model = {"sha256": checkpoint.content_hash(folder, code=code)}
                plain = not s["chat_template"] or not _has_template(folder)
                prompt_format = "plain" if plain else "chat_template"
            else:
                model = {"model_id": s["model_id"], "commit": self._commit}
                prompt_format = "chat_template if there is one" if s["chat_template"] else "plain"
            identity = {
                "model": model,
                "peft": s["peft"] and {"sha256": checkpoint.peft_hash(self._peft_folder)},
                "prompt_format": prompt_format,
                "top_p": s["top_p"] if self.samples else None,
                "top_k": s["top_k"] if self.samples else None,
                "stop": list(self._stop),
                "reasoning": list(self._reasoning) if self._reasoning else None,
            }
            for key in (
                "system_prompt",
                "max_tokens",
                "dtype",
                "device",
                "device_map",
                "quantization",
                "trust_remote_code",
                "batch_tokens",
            ):
                identity[key] = s[key]
            self._identity = identity | {"temperature": float(s["temperature"])}
        return self._identity

    def description(self) -> dict[str, Any]:
        """``parameters`` (counted from the weights' headers), ``context_length`` in tokens,
        ``dtype``,
        ``architecture``; None where a hub model is not on this machine yet. Raises AdapterError."""
        folder = self._folder or checkpoint.cached_snapshot(self.settings["model_id"], self._commit)
        facts = {"parameters": None, "context_length": None, "dtype": None, "architecture": None}
        if folder is None:
            return facts
        config = checkpoint.read_json(folder / "config.json")
        declared = config.get("dtype") or config.get("torch_dtype")
        dtype = self.settings["dtype"]
        try:
            facts["parameters"] = checkpoint.parameter_count(folder)
        except AdapterError:
            if self._folder:
                raise  # a hub snapshot may hold the config alone
        facts["context_length"] = checkpoint.context_length(config)
        facts["dtype"] = declared if dtype == "auto" else dtype
        facts["architecture"] = (config.get("architectures") or [None])[0]
        return facts

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they are made. A prompt fits when the model's context leaves room behind it
        for
        ``max_tokens`` or for half the context, whichever is less; one that does not is rejected
        (``PromptTooLong``) before any weights are loaded. Raises AdapterError."""
        from refract.models.decoding import Row

        self._load_tokenizer()
        rows: list[Row] = []
        used: dict[int, tuple[int, bool]] = {}
        for index, request in enumerate(requests):
            prepared = self._prepare(request)
            if isinstance(prepared, Answer):
                yield index, prepared
                continue
            attempt, tokens, opened = prepared
            limit = self.settings["max_tokens"]
            if self._context is not None:
                limit = min(limit, self._context - len(tokens))
            rows.append(Row(index, tokens, limit, request.seed))
            used[index] = attempt, opened
        if not rows:
            return
        self._load_model()
        if self._stop:
            opened_rows = {index: opened for index, (_, opened) in used.items()}
            self._decoder.stop = lambda row: self._stopped(row.generated, opened_rows[row.index])
        for row in self._decoder.run(rows):
            self.runtime["batch_shape"] = repr(self._decoder.shape)
            attempt, opened = used[row.index]
            if row.error:
                yield row.index, Answer.failed(*row.error, attempt)
            else:
                yield row.index, self._finish(row, attempt, opened)

    @property
    def _folder(self) -> Path | None:
        model_id = self.settings["model_id"]
        if not checkpoint.is_folder(model_id):
            return None
        if self.settings["revision"] is not None:
            raise AdapterError(
                f"models.{self.name}: revision is for hub models, and model_id {model_id!r} is a"
                " folder; leave out revision"
            )
        return Path(model_id).expanduser()

    @property
    def _peft_folder(self) -> Path:
        return Path(self.settings["peft"]).expanduser()

    @property
    def _commit(self) -> str:
        if self._commit_resolved is None:
            self._commit_resolved = checkpoint.resolve_revision(
                self.settings["model_id"], self.settings["revision"] or "main"
            )
        return self._commit_resolved

    def _source(self) -> dict[str, Any]:
        """Where transformers loads from, as arguments of its ``from_pretrained``."""
        arguments: dict[str, Any] = {"trust_remote_code": self.settings["trust_remote_code"]}
        folder = self._folder
        if folder:
            checkpoint.weight_files(folder)
            path = str(folder)
            return arguments | {"pretrained_model_name_or_path": path, "local_files_only": True}
        model_id = self.settings["model_id"]
        return arguments | {"pretrained_model_name_or_path": model_id, "revision": self._commit}

    def _unusable(self, what: str, error: Exception) -> AdapterError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return AdapterError(
            f"models.{self.name}: {what} of {self.settings['model_id']!r} cannot be loaded:"
            f" {type(error).__name__}: {reason}"
        )

    def _load_tokenizer(self) -> None:
        if self._tokenizer is not None:
            return
        source = self._source()
        from transformers import AutoConfig, AutoTokenizer

        try:
            config = AutoConfig.from_pretrained(**source)
        except Exception as error:  # a broken config.json can raise anything
            raise self._unusable("the configuration", error) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(**source)
        except Exception as error:
            raise self._unusable("the tokenizer", error) from error
        if config.is_encoder_decoder:
            raise AdapterError(
                f"models.{self.name}: {config.model_type} is an encoder-decoder; only causal"
                " language models can be run"
            )
        bounds = [checkpoint.context_length(config.to_dict())]
        if tokenizer.model_max_length < 10**9:  # transformers' way of saying "unknown" is 10**30
            bounds.append(int(tokenizer.model_max_length))
        self._context = min((bound for bound in bounds if bound), default=None)
        self._config = config
        self._templated = self.settings["chat_template"] and tokenizer.chat_template is not None
        if self.settings["chat_template"] and not self._templated:
            log.warning(
                "models.%s: the checkpoint has no chat template; prompts are given as bare text",
                self.name,
            )
        self._tokenizer = tokenizer

    def _load_model(self) -> None:
        if self._decoder is not None:
            return
        import torch
        import transformers

        from refract.models.decoding import BatchShape, Decoder, shape_for

        s = self.settings
        device = self._device()
        arguments = self._source() | {
            "dtype": self._dtype(device),
            "use_safetensors": True,
            "output_loading_info": True,
        }
        if s["device_map"]:
            arguments["device_map"] = "auto"
        if s["quantization"]:
            self._need("bitsandbytes", f"quantization: {s['quantization']}")
            # on a CPU it says at each layer of each step that float32 is rounded
            warnings.filterwarnings("ignore", message="MatMul8bitLt", module="bitsandbytes")
            bits = {"4bit": "load_in_4bit", "8bit": "load_in_8bit"}[s["quantization"]]
            arguments["quantization_config"] = transformers.BitsAndBytesConfig(**{bits: True})
            arguments.setdefault("device_map", {"": device})
        if s["peft"]:
            self._need("peft", "peft")
            checkpoint.peft_hash(self._peft_folder)  # says what is missing, or pickled
        transformers.logging.disable_progress_bar()
        try:
            model, loaded = transformers.AutoModelForCausalLM.from_pretrained(**arguments)
            lacking = sorted(loaded["missing_keys"]) or sorted(map(str, loaded["mismatched_keys"]))
            if lacking:
                raise ValueError(f"the checkpoint lacks {len(lacking)} weights, first {lacking[0]}")
            if s["peft"]:
                import peft

                model = peft.PeftModel.from_pretrained(model, str(self._peft_folder))
                if not s["quantization"]:
                    model = model.merge_and_unload()
            if "device_map" not in arguments:
                model = model.to(device)
            model = model.eval()
            # LLM.int8() picks its outlier columns from all rows of a batch (Dettmers et al., 2022)
            alone = s["quantization"] == "8bit" and s["batch_tokens"] is None
            self._decoder = Decoder(
                model,
                eos=self._eos(model),
                shape=BatchShape(1, 1, 1) if alone else shape_for(model, s["batch_tokens"]),
                context=self._context,
                temperature=float(s["temperature"]),
                top_p=float(s["top_p"]),
                top_k=s["top_k"],
            )
        except AdapterError:
            raise
        except Exception as error:  # a damaged file, an unknown architecture, no memory
            raise self._unusable("the weights", error) from error
        self.runtime = {
            "device": str(self._decoder.device),
            "dtype": str(model.dtype).removeprefix("torch."),
            "batch_shape": repr(self._decoder.shape),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def _need(self, package: str, key: str) -> None:
        if importlib.util.find_spec(package) is None:
            raise AdapterError(
                f"models.{self.name}: {key} needs the package {package}, which is not installed;"
                f" run: pip install {package}"
            )

    def _device(self) -> str:
        import os

        import torch

        device = self.settings["device"]
        if device == "auto":
            if torch.cuda.is_available():
                return f"cuda:{os.environ.get('LOCAL_RANK', 0)}"  # set by accelerate and torchrun
            return "mps" if torch.backends.mps.is_available() else "cpu"
        available = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
        kind = device.partition(":")[0]
        if kind in available and not available[kind]():
            raise AdapterError(
                f"models.{self.name}: device is {device!r}, and torch {torch.__version__} finds no"
                f" {kind} here; set device: auto"
            )
        return device

    def _dtype(self, device: str) -> Any:
        import torch

        chosen = self.settings["dtype"]
        if chosen == "auto":
            declared = str(self._config.dtype or "auto").removeprefix("torch.")
            if declared == "auto":
                return "auto"
            chosen = "float32" if (declared, device) == ("float16", "cpu") else declared
        return getattr(torch, chosen)

    def _eos(self, model: Any) -> frozenset[int]:
        found: set[int] = set()
        for source in (model.config, model.generation_config, self._tokenizer):
            ids = getattr(source, "eos_token_id", None)
            found.update(ids if isinstance(ids, list) else [] if ids is None else [ids])
        return frozenset(found)

    def _prepare(self, request: Request) -> Answer | tuple[int, list[int], bool]:
        """The first attempt that fits: its number, its tokens, and whether it ends inside
        thinking."""
        context = self._context
        room = 0 if context is None else min(self.settings["max_tokens"], context // 2)
        lengths: list[int] = []
        for attempt, conversation in enumerate(request.attempts):
            try:
                text, tokens = self._encode(conversation)
            except (
                Exception
            ) as error:  # templates are programs of the checkpoint and raise anything
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                return Answer.failed(
                    "PromptNotRenderable",
                    f"the chat template or tokenizer rejects the conversation: {reason}",
                    attempt,
                )
            if not tokens:
                return Answer.failed("EmptyPrompt", "the prompt has no tokens", attempt)
            if context is None or len(tokens) + room <= context:
                opened = bool(self._reasoning) and text.rstrip().endswith(self._reasoning[0])
                return attempt, tokens, opened
            lengths.append(len(tokens))
        return Answer.failed(
            "PromptTooLong",
            f"{' / '.join(map(str, lengths))} prompt tokens; the context of {context} tokens leaves"
            f" {context - room} beside {room} for the answer",
            max(0, len(lengths) - 1),
        )

    def _encode(self, conversation: Sequence[Message]) -> tuple[str, list[int]]:
        messages = [dict(message) for message in conversation]
        system = self.settings["system_prompt"]
        if system and not any(message["role"] == "system" for message in messages):
            messages.insert(0, {"role": "system", "content": system})
        if self._templated:
            text = self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            # the template has written every special token already, BOS included
            return text, self._tokenizer(text, add_special_tokens=False)["input_ids"]
        text = "\n\n".join(message["content"] for message in messages)
        return text, self._tokenizer(text)["input_ids"]

    def _decode(self, generated: list[int]) -> str:
        tokens = generated
        if tokens and tokens[-1] in self._decoder.eos:
            tokens = tokens[:-1]
        keep_special = self._reasoning is not None
        text = self._tokenizer.decode(
            tokens, skip_special_tokens=not keep_special, clean_up_tokenization_spaces=False
        )
        if keep_special:  # the markers themselves may be special tokens
            for special in self._tokenizer.all_special_tokens:
                if special not in self._reasoning:
                    text = text.replace(special, "")
        return text

    def _split(self, generated: list[int], opened: bool) -> tuple[str, str | None, bool]:
        text = self._decode(generated)
        return (
            split_reasoning(text, self._reasoning, opened)
            if self._reasoning
            else (text, None, True)
        )

    def _stopped(self, generated: list[int], opened: bool) -> bool:
        response = self._split(generated, opened)[0]
        return any(stop in response for stop in self._stop)

    def _finish(self, row: Any, attempt: int, opened: bool) -> Answer:
        response, thinking, _ = self._split(row.generated, opened)
        for stop in self._stop:
            response = response.partition(stop)[0]
        return Answer(
            response,
            "stop" if row.ended else "length",
            attempt,
            prompt_tokens=len(row.tokens),
            completion_tokens=len(row.generated),
            thinking=thinking,
        )


def _has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    return bool(checkpoint.read_json(folder / "tokenizer_config.json").get("chat_template"))
