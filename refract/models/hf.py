"""Local models through transformers: a folder or a hub id, with the same answers on
every machine."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from refract.core.jsonl import canonical_json
from refract.core.tool_calls import MARKERS, calls_in
from refract.core.types import FinishReason, Message, Row
from refract.models import checkpoint, lora, turn
from refract.models.checkpoint import HFSettings, Loader
from refract.models.protocol import (
    AdapterError,
    Answer,
    Model,
    Request,
    first_line,
    packed_tokens,
    unpacked_tokens,
)
from refract.models.store import ANSWER_FIELDS

if TYPE_CHECKING:
    from refract.models.decoding import Decoder
    from refract.models.exact import DecodedRow
    from refract.models.float64 import Reference
    from refract.models.verifying import Checked

log = logging.getLogger(__name__)
# Settings that a chat template knows by these names.
OPTIONS = ("enable_thinking", "reasoning_effort")
# Hashed for every answer.
DETERMINING = ("reasoning", "max_tokens", "quantization", "trust_remote_code")
# Hashed only with arithmetic: fast.
COMPUTING = ("dtype", "device", "device_map", "batch_tokens")
# Hashed only where they are set.
ADDED = ("score_tokens", "prefill", "thinking_tokens", "loop_tokens", "date", *OPTIONS)
# Digits of logits that are an answer; float64 is right in many more.
LOGIT_DIGITS = 6
# In a chat template that has a place for what a tool returned.
_TOOL_ROLE = re.compile(r"""["']tool["']""")


class ReadyPrompt(NamedTuple):
    """What is put to the model: tokens of one attempt."""

    attempt: int
    tokens: list[int]
    in_thinking: bool  # whether it ends inside thinking
    tools: Sequence[Row] = ()


class HF(Model):
    """A causal language model of the Hugging Face format, run in this process.
    ``runtime``: None until weights are loaded."""

    adapter = "hf"
    version = "3"
    Settings = HFSettings

    def __init__(self, name: str, settings: HFSettings) -> None:
        self.name, self.settings = name, settings
        self.samples = settings.temperature > 0
        stop = settings.stop
        self._stop: list[str] = [stop] if isinstance(stop, str) else list(stop or ())
        self._most_tokens = settings.max_tokens + (settings.thinking_tokens or 0)  # of a turn
        self.loader = Loader(name, settings)
        self.config: Any = None
        self._tokenizer: Any = None
        self._templated = False
        self._options: dict[str, Any] = {}
        self._system: str | None = None
        self.context: int | None = None
        self._decoder: Decoder | None = None
        self.ends: frozenset[int] = frozenset()  # ids that end an answer
        self._threads: int | None = None
        self.runtime: dict[str, Any] | None = None

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
            "stop": self._stop,
            "system_prompt": turn.system_identity(settings.system_prompt),
        }
        for key in DETERMINING:
            identity[key] = getattr(settings, key)
        if settings.arithmetic == "fast":
            for key in COMPUTING:
                identity[key] = getattr(settings, key)
            identity["peft"] = None
        if settings.arithmetic == "exact" or self.samples:
            identity["arithmetic"] = settings.arithmetic
            if settings.arithmetic == "exact" and settings.quantization:
                identity["quantized_from"] = "stored"  # once it was from dtype
        else:
            # Greedy fast answers are those of version 2, so what was stored of them
            # stays valid.
            identity["adapter_version"] = "2"
        for key in ADDED:
            if getattr(settings, key) is not None:
                identity[key] = getattr(settings, key)
        if self._adapter_folder:
            files = lora.adapter_files(self._adapter_folder)
            sha256 = checkpoint.content_sha256(self._adapter_folder, files)
            identity["peft"] = {"sha256": sha256}
        return identity

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
            return checkpoint.gguf_description(path) if path else unknown
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
        """Answers as they are made. A prompt fits when the context leaves room behind
        it for ``max_tokens`` or for half the context, whichever is less; another is
        rejected (``PromptTooLong``) before weights are loaded. Raises AdapterError."""
        prompts, rejected = self.prepared(requests)
        yield from rejected.items()
        if not prompts:
            return
        decoder = self._load_decoder()
        from refract.models.cpu import running_on
        from refract.models.exact import DecodedRow

        decoder.watched = self._tokenizer.convert_tokens_to_ids(self.settings.score_tokens or [])
        rows = []
        for index, prompt in prompts.items():
            limit = self.limit(prompt)
            rows.append(DecodedRow(index, prompt.tokens, limit=limit, seed=requests[index].seed))

        self._set_ends(decoder, prompts)
        with running_on(self._threads):
            for row in decoder.run(rows):
                assert self.runtime is not None
                self.runtime["batch_shape"] = repr(decoder.shape)
                yield row.index, self.answer_of(row, prompts[row.index])

    def verify(
        self, requests: Sequence[Request], answers: Sequence[Answer]
    ) -> Iterator[tuple[int, Checked]]:
        """Checks recorded answers by one pass over each; nothing is generated. An
        answer without tokens is tokenised; where exact decoding cuts its text
        otherwise, as that does. Raises AdapterError."""
        self._load_tokenizer()
        if self.settings.score_tokens or self.settings.arithmetic == "fast":
            raise AdapterError(
                f"models.{self.name}: exact answers alone can be verified (arithmetic: exact, no "
                f"score_tokens; got arithmetic: {self.settings.arithmetic})"
            )
        decoder = self._load_decoder()
        prompts: dict[int, ReadyPrompt] = {}
        self._set_ends(decoder, prompts)
        from refract.models.cpu import running_on
        from refract.models.verifying import Checked, settle_recorded

        recorded: dict[int, list[int]] = {}
        for index, (request, answer) in enumerate(zip(requests, answers, strict=True)):
            prepared = self._prepare(request)
            if isinstance(prepared, Answer):
                same = prepared.error == answer.error
                yield (
                    index,
                    Checked("" if same else f"it can have no answer: {prepared.error}"),
                )
            elif answer.finish_reason not in ("stop", "length", "loop"):
                yield index, Checked(unchecked=str(answer.finish_reason))
            elif answer.tokens is None and (answer.thinking or self.settings.reasoning):
                yield index, Checked(unchecked="thinking without tokens")
            else:
                prompts[index] = prepared
                try:
                    recorded[index] = self._recorded(answer)
                except ValueError as error:
                    yield index, Checked(f"its tokens cannot be read: {error}")
        while recorded:
            rows = []
            for index, tokens in recorded.items():
                rows.append(self._read_row(index, prompts[index], requests[index].seed, tokens))
            if not any(row.audited for row in rows):  # the bound is to be one of these passes
                min(rows, key=lambda row: row.known).audited = True
            with running_on(self._threads):
                settle_recorded(decoder, rows)
            before, recorded = recorded, {}
            for row in rows:
                index, answer = row.index, answers[row.index]
                checked = self._checked(row, before[index], answer, prompts[index])
                again = None
                if answer.tokens is None and checked.right is not None:
                    again = self._cut_anew(list(row.generated), answer)
                if again:
                    recorded[index] = again
                else:
                    yield index, checked

    def _read_row(
        self, index: int, prompt: ReadyPrompt, seed: int, tokens: list[int]
    ) -> DecodedRow:
        """A row whose answer is recorded tokens, as far as an answer can go."""
        from refract.models.exact import DecodedRow

        assert self._decoder is not None
        assert self._decoder.exact is not None
        row = DecodedRow(index, prompt.tokens, limit=self.limit(prompt), seed=seed)
        for token in tokens:
            row.generated.append(token)
            self._decoder.note_end(row)
            if row.done:
                break
        row.audited = self._decoder.exact.audits(row)
        return row

    def _recorded(self, answer: Answer) -> list[int]:
        """The tokens of a recorded answer, which may be anybody's. Raises ValueError."""
        if not isinstance(answer.response, str) or not isinstance(answer.tokens, str | None):
            raise ValueError("response and tokens are to be texts")
        if answer.tokens is None:
            prefill = self.settings.prefill or ""
            return self._of_text(answer.response.removeprefix(prefill), answer)
        assert self._decoder is not None
        assert self._decoder.exact is not None
        tokens = unpacked_tokens(answer.tokens)
        known = self._decoder.exact.reference.vocabulary
        if not tokens or max(tokens) >= known:
            raise ValueError(f"ids from 0 to {known - 1} are allowed (got {str(tokens)[:60]})")
        return tokens

    def _of_text(self, text: str, answer: Answer) -> list[int]:
        """The tokens of a text, and of its end where a token ended it."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        end = answer.finish_reason == "stop" and not self._stop
        return [*ids, self._tokenizer.eos_token_id] if end or not ids else ids

    def _cut_anew(self, tokens: list[int], answer: Answer) -> list[int] | None:
        """These tokens and those of the answer's text behind them; None where they are
        another text."""
        text = answer.response.removeprefix(self.settings.prefill or "")
        written, _ = self._split(tokens, in_thinking=False)
        if tokens[-1] in self.ends:  # any of a model's ends is one
            return tokens if text == written and answer.finish_reason == "stop" else None
        if not text.startswith(written):
            return None
        behind = text[len(written) :]
        if behind or answer.finish_reason == "stop":
            return tokens + self._of_text(behind, answer)
        return tokens

    def _checked(
        self, row: DecodedRow, recorded: list[int], answer: Answer, prompt: ReadyPrompt
    ) -> Checked:
        """What is found of a recorded answer whose tokens were decided."""
        assert self._decoder is not None
        from refract.models.verifying import Checked

        checked = Checked(
            float64=row.decided,
            ties=row.ties,
            from_text=answer.tokens is None,
            certificate=row.certificate(self._decoder.exact),
        )
        count = len(row.generated)
        if row.error:
            checked.problem = row.error[1]
        elif row.generated != recorded[:count]:
            place = count - 1
            token, right = recorded[place], row.generated[place]
            checked.place, checked.margin = place, row.lost
            checked.token = self._tokenizer.decode([token])
            checked.right = self._tokenizer.decode([right])
            checked.problem = (
                f"token {count} is {checked.token!r} (id {token}), and {checked.right!r} "
                f"(id {right}) is right by {-row.lost:.3g}"
            )
            return checked
        if count < len(recorded):
            checked.place = count
            checked.token = self._tokenizer.decode([recorded[count]])
            checked.problem = f"token {count + 1} ({checked.token!r}) is behind the end"
        elif not row.done and not (checked.from_text and self._stop):
            checked.place = count
            checked.problem = f"it stops behind token {count}, at no end and before its limit"
        elif not checked.from_text:
            exact = self.answer_of(row, prompt)
            for name in ANSWER_FIELDS:
                before, after = getattr(answer, name), getattr(exact, name)
                if before != after:
                    difference = _difference(before, after)
                    checked.problem = f"its {name} is not that of its tokens: {difference}"
                    break
        return checked

    def limit(self, prompt: ReadyPrompt) -> int:
        """The most tokens of an answer to a prompt."""
        if self.context is None:
            return self._most_tokens
        return min(self._most_tokens, self.context - len(prompt.tokens))

    def _set_ends(self, decoder: Decoder, prompts: Mapping[int, ReadyPrompt]) -> None:
        """Tells a decoder where answers to prompts end."""

        def ended(row: DecodedRow) -> bool:
            response, _ = self._split(list(row.generated), prompts[row.index].in_thinking)
            return any(text in response for text in self._stop)

        decoder.stop = ended if self._stop else None
        decoder.loop_tokens = self.settings.loop_tokens

    def _load_tokenizer(self) -> None:
        if self._tokenizer is not None:
            return
        self.config, tokenizer = self.loader.config_and_tokenizer()
        self.context = checkpoint.token_limit(self.config, tokenizer)
        settings, where = self.settings, f"models.{self.name}"
        self._templated = settings.chat_template and tokenizer.chat_template is not None
        if settings.chat_template and not self._templated:
            log.warning(
                "%s: the checkpoint has no chat template; prompts are given as bare text",
                where,
            )
        self._system = turn.system_text(where, settings.system_prompt)
        template = str(tokenizer.chat_template) if self._templated else ""
        for option in OPTIONS:
            value = getattr(settings, option)
            if value is None:
                continue
            self._options[option] = value
            if not re.search(rf"\b{option}\b", template):
                raise AdapterError(
                    f"{where}: the checkpoint's chat template does not read {option}, which would "
                    f"change nothing; leave it out (got {value!r})"
                )
        if settings.date and "strftime_now" not in template:
            raise AdapterError(
                f"{where}: the checkpoint's chat template does not ask for the date, so that date "
                f"would change nothing; leave it out (got {settings.date!r})"
            )
        if self._templated:
            day = settings.date or turn.DATE
            tokenizer.chat_template = turn.at_day(where, tokenizer.chat_template, day)
        for token in settings.score_tokens or ():
            if token not in tokenizer.get_vocab():
                raise AdapterError(f"{where}: score_tokens: this checkpoint has no token {token!r}")
        self._tokenizer = tokenizer
        if self._templated:
            self._try_template()

    def _try_template(self) -> None:
        """Raises AdapterError where the chat template leaves the user's message out. One
        that renders nothing at all costs each prompt its row."""
        texts = []
        for message in ("What is this?", "Another question"):
            conversation: list[Message] = [{"role": "user", "content": message}]
            try:
                texts.append(self._encode(conversation, ())[0])
            except Exception:  # a template is a program and can raise anything
                return
        if texts[0] == texts[1]:
            self._tokenizer = None
            raise AdapterError(
                f"models.{self.name}: the checkpoint's chat template drops the user's message: of "
                f"whatever is asked it makes {texts[0]!r:.200}; correct the template, or set "
                "chat_template: false"
            )

    @property
    def _adapter_folder(self) -> Path | None:
        """The folder of the LoRA adapter, if there is one."""
        path = self.settings.adapter_path
        return None if path is None else Path(path).expanduser()

    def _load_model(self, numbers: str | None = None) -> Any:
        """The checkpoint's model, with the adapter; ``numbers`` as in ``Loader.model``."""
        model = self.loader.model(self.config, numbers=numbers)
        if self._adapter_folder:
            lora.add_adapter(model, self._adapter_folder)
        return model

    def _load_model_to_settle(self) -> Any:
        """The model of exact answers. Where few bits would draft none, it is loaded as
        it is stored, and a small one becomes float32."""
        from refract.models.float64 import KEPT_WEIGHTS
        from refract.models.ladder import WITHOUT_DRAFTS

        settings = self.settings
        if self.loader.device.partition(":")[0] not in WITHOUT_DRAFTS or settings.quantization:
            return self._load_model()
        is_narrow = settings.dtype in ("bfloat16", "float16")
        model = self._load_model(self.loader.stored_dtype() if is_narrow else None)
        size = sum(p.numel() for p in model.parameters())
        if getattr(model, "is_quantized", False) or size > KEPT_WEIGHTS:
            return model
        return model.float()

    def _load_decoder(self) -> Decoder:
        if self._decoder is not None:
            return self._decoder
        began = time.monotonic()
        import torch
        import transformers

        from refract.models.cpu import prepare, running_on
        from refract.models.decoding import BatchShape, Decoder, shape_for
        from refract.models.exact import Choice, Exact
        from refract.models.ladder import Ladder
        from refract.models.opening import find_route

        settings = self.settings
        is_exact = settings.arithmetic == "exact"
        model = self._load_model_to_settle() if is_exact else self._load_model()
        # LLM.int8() picks its outlier columns from all rows of a batch (Dettmers et
        # al., 2022)
        if settings.quantization == "8bit" and settings.batch_tokens is None and not is_exact:
            shape = BatchShape(1, 1, 1)
        else:
            shape = shape_for(model, settings.batch_tokens, is_exact)
        linear, self._threads = prepare(model, shape.rows)
        stored = self._as_stored(model) if is_exact else model
        if stored is not model:
            linear, _ = prepare(stored, shape.rows)
        is_narrow = model.dtype != torch.float32 or settings.quantization == "8bit"
        dtype = str(model.dtype).removeprefix("torch.")
        self.ends = self.ends_of(model.config, model.generation_config)
        choice = Choice(float(settings.temperature), float(settings.top_p), settings.top_k)
        with running_on(self._threads):
            reference = self._reference(stored)
            exact = ladder = None
            try:
                # the margins of a mixture say nothing, whatever gives them
                if is_exact and is_narrow and reference and not reference.routes:
                    ladder = Ladder(stored, narrow=model)
                    model = ladder.model
                route = find_route(model, reference, is_exact)
                if is_exact:
                    assert reference is not None
                    exact = Exact(model, choice, reference, route)
            except Exception as error:  # whatever a model's code raises
                raise AdapterError(
                    f"models.{self.name}: {type(model).__name__} cannot answer here: a pass over a "
                    f"short text ends in {type(error).__name__}: {first_line(error)}"
                ) from error
            if reference:
                reference.let_go()
        decoder = Decoder(
            model,
            choice,
            eos=self.ends,
            shape=shape,
            context=self.context,
            route=route,
            exact=exact,
            ladder=ladder,
        )
        self.runtime = {
            "arithmetic": settings.arithmetic,
            **({"bound": exact.bound, "error": exact.error} if exact else {}),
            "device": str(decoder.device),
            "dtype": dtype,
            "batch_shape": repr(decoder.shape),
            "linear": linear,
            "threads": self._threads or torch.get_num_threads(),
            "load_seconds": round(time.monotonic() - began, 3),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        self._decoder = decoder
        return decoder

    def _reference(self, stored: Any) -> Reference | None:
        """A model in float64; with fast arithmetic, which can do without, None where
        it cannot be."""
        from refract.models.float64 import NotExact, Reference

        is_exact = self.settings.arithmetic == "exact"
        try:
            return Reference(stored, keep=True)
        except Exception as error:  # whatever a model's code raises
            if not is_exact:
                return None
            reason = str(error)
            if not isinstance(error, NotExact):
                reason = f"in float64 it ends in {type(error).__name__}: {first_line(error)}"
            raise AdapterError(
                f"models.{self.name}: exact answers of this architecture are not possible: {reason}; "
                "set arithmetic: fast"
            ) from error

    def _as_stored(self, model: Any) -> Any:
        """The model with its weights as the checkpoint has them: ``model`` itself, or
        where that has other ones, another. Weights are quantised from the type that is
        stored, and another time: what multiplies by them may reorder and round them in
        place."""
        stored = self.loader.stored_dtype()
        used = str(model.dtype).removeprefix("torch.")
        quantised = getattr(model.config, "quantization_config", None) is not None
        if self.settings.gguf_file:  # whose weights are no longer quantised once they are read
            quantised = False
        if not quantised and (stored in (None, used) or used == "float32"):
            return model
        return self._load_model(stored)

    def prepared(
        self, requests: Sequence[Request], most: int | None = None
    ) -> tuple[dict[int, ReadyPrompt], dict[int, Answer]]:
        """What is put to the model for each request, by its index, and the answers to
        those that cannot be put. ``most``: tokens that the context has at most. Raises
        AdapterError."""
        self._load_tokenizer()
        if most:
            self.context = min(most, self.context or most)
        prompts: dict[int, ReadyPrompt] = {}
        rejected: dict[int, Answer] = {}
        for index, request in enumerate(requests):
            prompt = self._prepare(request)
            if isinstance(prompt, Answer):
                rejected[index] = prompt
            else:
                prompts[index] = prompt
        return prompts, rejected

    def ends_of(self, *sources: Any) -> frozenset[int]:
        """The token ids that end an answer: those of configurations and of the
        tokenizer."""
        ends: set[int] = set()
        for source in (*sources, self._tokenizer):
            ids = getattr(source, "eos_token_id", None)
            if isinstance(ids, list):
                ends.update(ids)
            elif ids is not None:
                ends.add(ids)
        return frozenset(ends)

    def _prepare(self, request: Request) -> Answer | ReadyPrompt:
        """The first attempt that fits, or why there is none."""
        context = self.context
        room = 0 if context is None else min(self._most_tokens, context // 2)
        lengths: list[int] = []
        for attempt, conversation in enumerate(request.attempts):
            try:
                text, tokens = self._encode(conversation, request.tools)
            except AdapterError:
                raise
            except Exception as error:  # a template is a program and can raise anything
                reason = first_line(error)
                return Answer.failed(
                    "PromptNotRenderable",
                    f"the chat template or tokenizer rejects the conversation: {reason}",
                    attempt,
                )
            if not tokens:
                return Answer.failed("EmptyPrompt", "the prompt has no tokens", attempt)
            if context is None or len(tokens) + room <= context:
                markers = self.settings.reasoning
                in_thinking = markers is not None and text.rstrip().endswith(markers[0])
                return ReadyPrompt(attempt, tokens, in_thinking, tools=request.tools)
            lengths.append(len(tokens))
        return Answer.failed(
            "PromptTooLong",
            f"{' / '.join(map(str, lengths))} prompt tokens; the context of {context} tokens leaves"
            f" {(context or 0) - room} beside {room} for the answer",
            max(0, len(lengths) - 1),
        )

    def _encode(
        self, conversation: Sequence[Message], tools: Sequence[Row]
    ) -> tuple[str, list[int]]:
        messages = turn.with_system_prompt(conversation, self._system)
        options = self._options
        if tools and self._templated and "tools" in str(self._tokenizer.chat_template):
            options = {**options, "tools": list(tools)}
        elif tools:
            messages = turn.with_tools(messages, tools)
        if any(message["role"] == "tool" for message in messages):
            if not (self._templated and _TOOL_ROLE.search(str(self._tokenizer.chat_template))):
                raise ValueError(
                    "it has no place for what tools return; take a checkpoint whose template has, "
                    "or a served model"
                )
            messages = cast("list[Message]", turn.with_call_ids(messages))
        if self._templated:
            with turn.stopped(f"models.{self.name}"):
                text = self._tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, **options
                )
        else:
            text = "\n\n".join(message["content"] for message in messages)
        text += self.settings.prefill or ""
        # a template has written every special token already, BOS included
        return text, self._tokenizer(text, add_special_tokens=not self._templated)["input_ids"]

    def _split(
        self, generated: list[int], in_thinking: bool, kept: Sequence[str] = ()
    ) -> tuple[str, str | None]:
        """The text of an answer so far, and its thinking; ``kept``: special tokens that
        stay."""
        tokens, markers = generated, self.settings.reasoning
        kept = (*(markers or ()), *kept)
        if tokens and tokens[-1] in self.ends:
            tokens = tokens[:-1]
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=not kept, clean_up_tokenization_spaces=False
        )
        for special in self._tokenizer.all_special_tokens if kept else ():
            if special not in kept:  # which may be special tokens themselves
                text = text.replace(special, "")
        if markers is None:
            return text, None
        return turn.split_reasoning(text, markers, in_thinking)

    def clip(self, text: str, tokens: int, side: str = "right", special: bool = False) -> str:
        """A text of at most so many tokens, those that the tokenizer adds included, cut
        at one ``side``; ``special``: with the texts of the tokens that it adds."""
        self._load_tokenizer()
        tokenizer = self._tokenizer
        before, tokenizer.truncation_side = tokenizer.truncation_side, side
        try:
            ids = tokenizer(text, truncation=True, max_length=tokens)["input_ids"]
        finally:
            tokenizer.truncation_side = before
        clipped: str = tokenizer.decode(
            ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False
        )
        return clipped

    def answer_of(self, row: DecodedRow, prompt: ReadyPrompt) -> Answer:
        """What a row that has ended comes to."""
        if row.error:
            kind, message = row.error
            return Answer.failed(kind, message, prompt.attempt)
        read, written = len(row.tokens), len(row.generated)
        certificate = row.certificate(self._decoder.exact) if self._decoder else None
        if self.settings.score_tokens:
            logits = {}
            for token, logit in zip(self.settings.score_tokens, row.watched, strict=True):
                logits[token] = round(logit, LOGIT_DIGITS)
            text = canonical_json({"logits": logits})
            return Answer(
                text,
                attempt=prompt.attempt,
                prompt_tokens=read,
                completion_tokens=written,
                certificate=certificate,
            )
        kept = MARKERS if prompt.tools else ()
        response, thinking = self._split(list(row.generated), prompt.in_thinking, kept)
        for stop in self._stop:
            response = response.partition(stop)[0]
        response = turn.with_prefill(self.settings.prefill, response)
        calls = None
        if prompt.tools:
            response, calls = calls_in(response, prompt.tools)
        finish: FinishReason = "stop" if row.ended else "length"
        return Answer(
            response,
            finish_reason="loop" if row.looped else finish,
            attempt=prompt.attempt,
            prompt_tokens=read,
            completion_tokens=written,
            thinking=thinking,
            tokens=packed_tokens(row.generated),
            tool_calls=calls or None,
            certificate=certificate,
        )


def _difference(recorded: Any, right: Any) -> str:
    """Two values of an answer's field, of texts from where they differ on."""
    if not (isinstance(recorded, str) and isinstance(right, str)):
        return f"{recorded!r:.80}, and {right!r:.80} is right"
    at = len(commonprefix([recorded, right]))  # noqa: RUF071 - of characters is meant
    end = at + 40
    return f"{recorded[at:end]!r} at character {at + 1}, and {right[at:end]!r} is right"
