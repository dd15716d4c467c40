"""What a provider's reply holds, part by part, for every adapter.

What is wrong with an answer is an error, raised once all parts are read: it keeps the text that
came. What cannot be read of thinking or usage costs no answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from refract.core.tool_calls import tool_call
from refract.core.types import FinishReason, ToolCall
from refract.models.protocol import Answer
from refract.models.replies import CALLED, FINISHED, InvalidResponse, first_word, say_once

# Parts that are thinking; those that are hidden say only that there was some.
HIDDEN = ("redacted_thinking", "reasoning.encrypted")
THINKING = ("thinking", "reasoning", "reasoning_text", "summary_text", *HIDDEN)
# Parts that are the answer's words; some servers leave out what a part is.
WORDS = (None, "text", "output_text")
# Where thinking stands in a part of it. Its own text comes before its summary.
THOUGHT_KEYS = ("thinking", "reasoning", "text", "output_text", "content", "summary")


@dataclass
class Contents:
    """What was found in a reply.

    ``texts``: one for each message. ``thoughts``: texts of thinking; ``thought``: whether there was
    any, also where it is hidden. ``refused``: whether a part is a refusal. ``unread``: kinds of
    parts that are not read. ``wrong``: why the reply is no answer."""

    texts: list[str] = field(default_factory=lambda: [""])
    thoughts: list[str] = field(default_factory=list)
    thought: bool = False
    calls: list[ToolCall] = field(default_factory=list)
    refused: bool = False
    unread: list[object] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of all messages."""
        return "\n\n".join(filter(None, self.texts))

    def parts(self, value: object) -> list[Any]:
        """The parts of a content without nulls; a text is the one part of itself."""
        if isinstance(value, list | str):
            return listed(value)
        kind = type(value).__name__
        self.wrong.append(f"the answer is not a text (got {kind} {value!r:.60})")
        return []

    def add(self, part: object) -> None:
        """Takes in a part of a message: a text, thinking, a refusal or what is not read."""
        kind = kind_of_part(part)
        if not isinstance(part, dict):
            self._add_text(part)
        elif kind in THINKING:
            self.think(part, kind)
        elif kind == "refusal":
            self.refuse(part.get("refusal"))
        else:
            text = part.get("text") or part.get("output_text") or ""
            if kind in WORDS:
                self._add_text(text)
            elif text:
                self.wrong.append(
                    f"a part of unknown type {kind!r:.60} holds text (got {text!r:.60})"
                )
            else:
                self.unread.append(kind)

    def _add_text(self, text: object) -> None:
        if isinstance(text, str):
            self.texts[-1] += text
        else:
            self.wrong.append(f"a part of the answer is not a text (got {text!r:.60})")

    def refuse(self, text: object) -> None:
        """Takes in the provider's own refusal, behind the text that came before it."""
        self.refused = True
        self._add_text("" if text is None else text)

    def think(self, value: object, kind: object) -> None:
        """Takes in thinking: a text, a part or several of them. ``kind``: what it is called where
        it cannot be read."""
        for block in filter(None, listed(value)):
            self.thought = True
            text = thinking_in(block)
            if text:
                self.thoughts.append(text)
            elif text is None:
                self.unread.append(kind)

    def call(self, stated: object, arguments: str) -> None:
        """Takes in a call of a tool; ``arguments``: the key that it has them under. One that names
        no tool is wrong: an answer without it would be another."""
        row = fields(stated)
        try:
            self.calls.append(tool_call(row.get("name"), row.get(arguments)))
        except ValueError as error:
            self.wrong.append(str(error))

    def ending(self, reason: object) -> FinishReason:
        """Why the completion ended: its calls, or a server that looked for some in its text and found
        none, ended it by itself. Raises :class:`InvalidResponse`, with the text that came, for a
        reason that is missing or not known: an answer that may not be whole cannot be judged."""
        if reason in CALLED and (self.calls or self.text):
            return "stop"
        known = FINISHED.get(first_word(reason))
        if known is None:
            why = f"for an unknown reason, {reason!r:.60}" if reason else "without saying why"
            raise InvalidResponse(f"the completion ended {why}", self.text)
        return known

    def answer(self, finish: FinishReason, attempt: int, **more: Any) -> Answer:
        """The answer with ``more`` of its fields; what is not read beside words is said.

        Raises :class:`InvalidResponse`, with the text that came, for a reply in which something is
        wrong, and for one that ended by itself and holds thinking or unread parts alone."""
        if self.wrong:
            raise InvalidResponse(self.wrong[0], self.text)
        if finish == "stop" and not (self.text.strip() or self.calls):
            if self.unread:
                kinds = ", ".join(map(str, self.unread))
                raise InvalidResponse(f"the answer holds nothing but {kinds}")
            if self.thought:
                got = f" (got {self.thoughts[0][:60]!r})" if self.thoughts else ""
                raise InvalidResponse(
                    f"the reply holds thinking and no answer{got}; does the server's reader of "
                    "reasoning fit the model?"
                )
        for kind in self.unread:
            shown = str(kind)[:60]
            say_once(
                f"parts of type {shown!r} in replies are not read: answers are judged without them"
            )
        return Answer(
            self.text,
            finish,
            attempt,
            thinking="\n\n".join(self.thoughts) or None,
            tool_calls=self.calls or None,
            **more,
        )


def kind_of_part(part: object) -> object:
    """What a part says that it is; a text is of the kind ``text``."""
    return "text" if isinstance(part, str) else fields(part).get("type")


def fields(value: object) -> dict[str, Any]:
    """The fields of an object beside the answer, such as its usage; none of what is no object."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """A list without its nulls; of another value, that alone."""
    values = value if isinstance(value, list) else [value]
    return [entry for entry in values if entry is not None]


def thinking_in(value: object) -> str | None:
    """The text of thinking, whatever a server wraps it in: empty where the server hides it, None
    where its form is not known."""
    if isinstance(value, str | None):
        return value or ""
    if isinstance(value, dict):
        if value.get("type") in HIDDEN:
            return ""
        # The first that has a text says what the others say again.
        texts = [thinking_in(value[key]) for key in THOUGHT_KEYS if key in value] or [None]
        text = next(filter(None, texts), "")
    elif isinstance(value, list):
        texts = [thinking_in(part) for part in value]
        text = "".join(filter(None, texts))
    else:
        return None
    return None if None in texts and not text else text
