"""How conversations become a local model's tokens, and its tokens an answer."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from refract.core.jsonl import canonical_json
from refract.core.played import played
from refract.core.thinking import CHANNEL_TOKENS, split
from refract.core.tool_calls import MARKERS
from refract.core.types import FinishReason, Message
from refract.core.types import Row as JsonRow
from refract.models import checkpoint, turn
from refract.models.arithmetic import Ends, Row
from refract.models.checkpoint import HFSettings, Loader
from refract.models.protocol import AdapterError, Answer, Request, first_line, packed_tokens

log = logging.getLogger(__name__)
# Settings that a chat template knows by these names.
OPTIONS = ("enable_thinking", "reasoning_effort")
# Digits of logits that are an answer; float64 is right in many more.
LOGIT_DIGITS = 6
# Of a checkpoint's generation settings those that no answer follows from, or that are applied, and
# the values with which others have no effect.
_HARMLESS = re.compile(
    r"_.*|(bos|pad|eos|decoder_start)_token_id|transformers_version|"
    r"(max|use|return|output|cache|disable|compile|is_assistant|assistant|num_assistant|prompt|target|"
    r"prefill|speculation|low_memory|continuous)(_.*)?"
)
_OF_ONE = re.compile(r"temperature|top_p|typical_p|guidance_scale|num_.*|.*_penalty")
# Stands for a prefill where an answer is decoded: many tokenizers drop a blank that begins a text.
BEFORE = "a"
# In a chat template that has a place for what a tool returned.
_TOOL_ROLE = re.compile(r"""["']tool["']""")


class ReadyPrompt(NamedTuple):
    """What is put to the model: tokens of one attempt."""

    attempt: int
    tokens: list[int]
    begun: turn.Begun  # what it begins of the model's turn
    tools: Sequence[JsonRow] = ()


class Prompting:
    """A model's tokenizer and chat template, under the settings of its definition.

    ``config``, ``context`` (tokens that prompt and answer may have together), ``ends`` (ids that
    end an answer) and ``words`` (ids that the model has a place for) are there once it is loaded."""

    config: Any = None
    tokenizer: Any = None
    context: int | None = None
    ends: frozenset[int] = frozenset()
    words: int | None = None

    def __init__(self, name: str, settings: HFSettings, loader: Loader) -> None:
        self.where, self.settings, self.loader = f"models.{name}", settings, loader
        stop = settings.stop
        self.stop: list[str] = [stop] if isinstance(stop, str) else list(stop or ())
        self._most_tokens = settings.max_tokens + (settings.thinking_tokens or 0)  # of a turn
        self._templated = False
        self._channels: tuple[str, ...] = ()  # what marks them, where the model writes any
        self._special: dict[int, str] = {}  # tokens of which an answer has no text
        self.told: dict[str, str] = {}  # what nobody chose, and what is left out
        self._options: dict[str, Any] = {}
        self._left_out: dict[tuple[object, ...], str | None] = {}  # whose message, by form
        self._before: list[int] = []  # tokens that stand for a prefill before those of an answer

    def load(self) -> None:
        """Loads configuration and tokenizer. Raises AdapterError."""
        if self.tokenizer is not None:
            return
        self.config, tokenizer = self.loader.config_and_tokenizer()
        self.context = checkpoint.token_limit(self.config, tokenizer)
        settings, where = self.settings, self.where
        self._templated = settings.chat_template and tokenizer.chat_template is not None
        if settings.chat_template and not self._templated:
            log.warning(
                "%s: the checkpoint has no chat template; prompts are given as bare text",
                where,
            )
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
        if self._templated:
            self._tell_date(tokenizer)
        for token in settings.score_tokens or ():
            if token not in tokenizer.get_vocab():
                raise AdapterError(f"{where}: score_tokens: this checkpoint has no token {token!r}")
        self._special = dict(
            zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
        )
        for id_, token in tokenizer.added_tokens_decoder.items():
            if token.special:
                self._special[id_] = token.content
        if {"<|channel|>", "<|message|>"} <= tokenizer.get_vocab().keys():
            self._channels = CHANNEL_TOKENS
        self.tokenizer = tokenizer
        if settings.prefill:
            before = tokenizer(BEFORE, add_special_tokens=False)["input_ids"]
            self._before = before if tokenizer.decode(before) == BEFORE else []
        if self._templated:
            self._try_template()

    def _tell_date(self, tokenizer: Any) -> None:
        """Has the template hold one day where it asks for the date, and says which."""
        template = tokenizer.chat_template
        tokenizer.chat_template = turn.at_fixed_day(self.where, template)
        if tokenizer.chat_template != template:
            self.told["template_date"] = day = turn.DATE.isoformat()
            log.warning("%s: the chat template asks for the date and is told %s", self.where, day)

    def _try_template(self) -> None:
        """Raises AdapterError where the chat template leaves out the user's message or the system
        prompt. One that renders nothing at all costs each prompt its row."""
        asked: list[Message] = [{"role": "user", "content": "What is this?"}]
        messages = turn.with_system_prompt(asked, self.settings.system_prompt)
        try:
            text = self._templated_text(messages, opened=True)
        except Exception:  # a template is a program and can raise anything
            return
        self._refuse_unopened_turn()
        dropped = self._dropped(messages)
        if dropped is None:
            return
        self.tokenizer = None
        if dropped == "system":
            raise AdapterError(
                f"{self.where}: the checkpoint's chat template drops the system_prompt, which would "
                "change nothing; leave it out, or let a copy of the checkpoint have a template with it"
            )
        raise AdapterError(
            f"{self.where}: the checkpoint's chat template drops the user's message: of whatever is "
            f"asked it makes {text!r:.200}; correct the template, or set chat_template: false"
        )

    def _dropped(self, messages: Sequence[Any], **more: Any) -> str | None:
        """The role of a message that is no part of what the chat template makes of all. Looked for
        once in each order of roles and calls, with tools and without."""
        form = (bool(more), *((each["role"], "tool_calls" in each) for each in messages))
        if form not in self._left_out:
            asked, words = [*messages], {}
            for n, each in enumerate(messages):
                if "tool_calls" not in each:  # beside a call some templates write no words
                    # Plain ones, since of others a template may show a part.
                    words[n] = f"word{n}end"
                    asked[n] = each | {"content": words[n]}
            try:
                shown = self._templated_text(asked, opened=True, **more).lower()
            except Exception:  # it takes the messages themselves
                return None
            dropped = [messages[n]["role"] for n, word in words.items() if word not in shown]
            self._left_out[form] = dropped[-1] if dropped else None
        return self._left_out[form]

    def _rendered_turn(self) -> tuple[str, str] | None:
        """What the template writes before and behind the words of an assistant's turn; None where
        it takes no such conversation."""
        words = "These are my words"
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": words}]
        try:
            text = self._templated_text(turns, opened=False)
        except Exception:  # a template is a program and can raise anything
            return None
        before, found, behind = text.partition(words)
        return (before, behind) if found else None

    def _templated_text(self, messages: Sequence[Any], *, opened: bool, **more: Any) -> str:
        """What the chat template makes of messages; ``opened``: with the begin of the model's turn."""
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=opened, **self._options, **more
        )
        return text

    def _refuse_unopened_turn(self) -> None:
        """Raises AdapterError where the template opens an assistant's turn with a text that it
        leaves out of the prompt, whether a generation prompt is asked for or not."""
        turns = [{"role": "user", "content": "Hi"}]
        rendered = self._rendered_turn()
        prompt = self._templated_text(turns, opened=True)
        if rendered is None or prompt != self._templated_text(turns, opened=False):
            return
        opening = rendered[0].removeprefix(prompt)
        if opening.strip() and rendered[0].startswith(prompt):
            self.tokenizer = None
            raise AdapterError(
                f"{self.where}: the checkpoint's chat template writes no generation prompt, so that "
                f"the model itself would write {opening!r:.80}; let the template write it where "
                "add_generation_prompt is set, in a copy of the checkpoint, or set "
                "chat_template: false"
            )

    def _turn_ends(self) -> set[int]:
        """The special token with which the template ends an assistant's turn, and those that a
        GGUF file names."""
        file = self.loader.read_file
        ends = file.turn_ends() if file else set()
        rendered = self._rendered_turn() if self._templated else None
        behind = rendered[1].strip() if rendered else ""
        tokens = self.tokenizer(behind, add_special_tokens=False)["input_ids"] if behind else []
        ends.update(id_ for id_ in tokens[:1] if id_ in self._special)
        return ends

    def prepare(self, request: Request) -> Answer | ReadyPrompt:
        """The first attempt that fits, or why there is none. A prompt fits when the context
        leaves room behind it for ``max_tokens`` or for half the context, whichever is less."""
        context = self.context
        room = 0 if context is None else min(self._most_tokens, context // 2)
        lengths: list[int] = []
        for attempt, conversation in enumerate(request.attempts):
            try:
                text, tokens, before = self._encode(conversation, request.tools)
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
                ready = ReadyPrompt(attempt, tokens, self._begun(text, before), request.tools)
                return self.with_unknown_token(ready) or ready
            lengths.append(len(tokens))
        return Answer.failed(
            "PromptTooLong",
            f"{' / '.join(map(str, lengths))} prompt tokens; the context of {context} tokens leaves"
            f" {(context or 0) - room} beside {room} for the answer",
            max(0, len(lengths) - 1),
        )

    def with_unknown_token(self, prompt: ReadyPrompt) -> Answer | None:
        """Why a prompt has no answer where it holds a token that the loaded model has no place for."""
        token = max(prompt.tokens)
        if self.words is None or token < self.words:
            return None
        return Answer.failed(
            "PromptNotRenderable",
            f"the prompt holds the token {self.tokenizer.convert_ids_to_tokens(token)!r} (id {token}); "
            f"the model has ids from 0 to {self.words - 1}; take the checkpoint's own tokenizer",
            prompt.attempt,
        )

    def _encode(
        self, conversation: Sequence[Message], tools: Sequence[JsonRow]
    ) -> tuple[str, list[int], str]:
        """The prompt's text, its tokens, and the text before the model's turn where that is known."""
        before = ""
        messages = turn.with_system_prompt(conversation, self.settings.system_prompt)
        offered: dict[str, Any] = {}
        if tools and self._templated and "tools" in str(self.tokenizer.chat_template):
            offered["tools"] = list(tools)
        elif tools:
            messages = played("offer")(messages, tools)
        if any(message["role"] == "tool" for message in messages):
            if not (self._templated and _TOOL_ROLE.search(str(self.tokenizer.chat_template))):
                raise ValueError(
                    "it has no place for what tools return; take a checkpoint whose template has, "
                    "or a served model"
                )
            messages = cast("list[Message]", turn.with_call_ids(messages))
        if self._templated:
            text = self._templated_text(messages, opened=True, **offered)
            dropped = self._dropped(messages, **offered)
            if dropped:
                remedy = ""
                if dropped == "system" and self.settings.system_prompt:
                    remedy = ", or no system_prompt"
                raise ValueError(
                    f"it leaves out a message of the {dropped}; take a template with it{remedy}"
                )
            if self.settings.reasoning:
                before = self._templated_text(messages, opened=False, **offered)
        else:
            text = "\n\n".join(message["content"] for message in messages)
        text += self.settings.prefill or ""
        # a template has written every special token already, BOS included
        tokens = self.tokenizer(text, add_special_tokens=not self._templated)["input_ids"]
        return text, tokens, before

    def _begun(self, text: str, before: str) -> turn.Begun:
        """What a prompt begins of the model's turn, which its template may open in thinking."""
        markers, prefill = self.settings.reasoning, self.settings.prefill
        if markers is None:
            return turn.begun(prefill, None)
        text = text.removesuffix(prefill or "")
        opens = (
            before and text.startswith(before) and split(text[len(before) :], markers).unfinished
        )
        return turn.begun(prefill, markers, bool(opens) or text.rstrip().endswith(markers[0]))

    def limit(self, prompt: ReadyPrompt) -> int:
        """The most tokens of an answer to a prompt."""
        if self.context is None:
            return self._most_tokens
        return min(self._most_tokens, self.context - len(prompt.tokens))

    def ends_of(self, *sources: Any) -> frozenset[int]:
        """The token ids that end an answer: those of configurations, of the tokenizer and
        of the end of a turn, which it goes by from then on."""
        ends = self._turn_ends()
        for source in (*sources, self.tokenizer):
            if type(source).__name__ == "GenerationConfig":
                self._tell_unused(source.to_diff_dict())
            stated = getattr(source, "eos_token_id", None)
            ids = stated if isinstance(stated, list) else [stated]
            if stated is not None and any(type(id_) is not int for id_ in ids):
                raise AdapterError(
                    f"{self.where}: eos_token_id of the checkpoint's {type(source).__name__} can be an "
                    f"id, a list of ids or null (got {stated!r:.60}); correct it in a copy of the "
                    "checkpoint"
                )
            ends.update(id_ for id_ in ids if id_ is not None)
        self.ends = frozenset(ends)
        return self.ends

    def _tell_unused(self, stated: dict[str, Any]) -> None:
        """Says which of a checkpoint's generation settings are not applied."""
        unused = []
        for key, value in stated.items():
            neutral = 1 if _OF_ONE.fullmatch(key) else None if key.startswith("forced") else 0
            without_effect: Any = (None, [], {}, neutral, getattr(self.settings, key, None))
            sampled = key == "do_sample" and (self.settings.temperature > 0 or value is False)
            if not (sampled or value in without_effect or _HARMLESS.fullmatch(key)):
                unused.append(f"{key} {value!r:.40}")
        if unused and "not_applied" not in self.told:
            self.told["not_applied"] = ", ".join(sorted(unused))
            log.warning(
                "%s: of the checkpoint's generation settings, %s: not applied, since answers follow "
                "from the model's definition alone",
                self.where,
                self.told["not_applied"],
            )

    def endings(self, prompts: dict[int, ReadyPrompt]) -> Ends:
        """Where answers to prompts end, once ``ends`` is known. Raises AdapterError."""
        scored = self.settings.score_tokens or []
        watched: list[int] = self.tokenizer.convert_tokens_to_ids(scored)
        if self.words is not None and max(watched, default=0) >= self.words:
            raise AdapterError(
                f"{self.where}: score_tokens: the model has ids from 0 to {self.words - 1} (got "
                f"{scored}, which are {watched}); take the checkpoint's own tokenizer"
            )

        def stopped(index: int, generated: Sequence[int]) -> bool:
            response, _ = self.split(list(generated), prompts[index].begun.opened, self.stop)
            return any(text in response for text in self.stop)

        return Ends(
            self.ends,
            stop=stopped if self.stop else None,
            loop_tokens=self.settings.loop_tokens,
            watched=watched,
        )

    def split(
        self, generated: list[int], in_thinking: bool, kept: Sequence[str] = ()
    ) -> tuple[str, str | None]:
        """The text of an answer so far, and its thinking; ``kept``: special tokens that stay."""
        tokens, markers = generated, self.settings.reasoning
        if tokens and tokens[-1] in self.ends:
            tokens = tokens[:-1]
        kept = (*(markers or ()), *kept)
        if self._channels:
            text = self._text(tokens, (*kept, *self._channels))
            if text.startswith("<|channel|>"):
                return split(text)[:2]
        text = self._text(tokens, kept)
        for marker in self._channels:  # which need not be special tokens
            text = text.replace(marker, "")
        return split(text, markers, in_thinking)[:2] if markers else (text, None)

    def _text(self, tokens: Sequence[int], kept: Sequence[str]) -> str:
        """Tokens as text, without special ones that are no part of the texts ``kept``."""
        shown = []
        for token in tokens:
            special = self._special.get(token)
            if special is None or any(special in text for text in kept):
                shown.append(token)
        text: str = self.tokenizer.decode(
            [*self._before, *shown], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text.removeprefix(BEFORE) if self._before else text

    def answer_of(self, row: Row, prompt: ReadyPrompt) -> Answer:
        """What a row that has ended comes to."""
        if row.error:
            kind, message = row.error
            return Answer.failed(kind, message, prompt.attempt)
        read, written = len(row.tokens), len(row.generated)
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
                certificate=row.certificate,
            )
        kept = MARKERS if prompt.tools else ()
        tokens, opened = list(row.generated), prompt.begun.opened
        response, thinking = self.split(tokens, opened, kept)
        # Special tokens of stop texts are there only where one came.
        seen = self.split(tokens, opened, (*kept, *self.stop))[0] if self.stop else ""
        if any(stop in seen for stop in self.stop):
            response = seen
            for stop in self.stop:
                response = response.partition(stop)[0]
        response, thinking = turn.whole_turn(prompt.begun, response, thinking)
        calls = None
        if prompt.tools:
            response, calls = played("read")(response, prompt.tools)
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
            certificate=row.certificate,
        )
