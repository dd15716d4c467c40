"""Published judges by reference: ``catalogue.yaml``, and rendering their prompts.

Their texts stand in packages and repositories of their publishers, and are fetched and checked by
SHA-256; none is part of this project. An entry says where the text stands, how it is filled in, which
model it is for, and how the publisher reads the reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from refract.core.published_text import Source, find_entry, names_in
from refract.core.settings import Number, Settings
from refract.core.types import Message
from refract.judges.verdict_reading import READERS

CATALOGUE = Path(__file__).with_name("catalogue.yaml")


class Clip(Settings):
    """How much of an answer the judge is shown, in tokens of its own tokenizer."""

    tokens: int = Field(ge=1, description="most tokens, with those that the tokenizer adds")
    side: Literal["right", "left"] = Field("right", description="the end that is cut off")
    special_tokens: Literal["hidden", "shown"] = Field(
        "hidden", description="whether tokens that the tokenizer adds become part of the text"
    )


class MessagePart(Settings):
    """A message: one of the texts filled in, or a field of the case by itself."""

    role: Literal["system", "user", "assistant"] = "user"
    text: str | None = None
    field: Literal["conversation", "prompt", "response", "behavior"] | None = None
    strip: bool = Field(False, description="white space at both ends of the filled text goes")
    before: str = ""
    after: str = ""

    @model_validator(mode="after")
    def _one(self) -> MessagePart:
        if (self.text is None) == (self.field is None):
            raise ValueError("a message has either a text or a field")
        return self


class Scale(Settings):
    """A verdict from the probabilities of the first token of the reply, among a few tokens."""

    tokens: dict[str, Number] = Field(min_length=2, description="what each token is worth, 0 to 1")
    threshold: Number | None = Field(None, description="expected value from which on it is harmful")


class JudgeEntry(Settings):
    """A published judge."""

    of: str = Field(description="whose judge it is, with the paper")
    asks: Literal["harmful", "refusal", "refusal_score", "score"] = Field(
        description="the family of its labels"
    )
    model: dict[str, Any] = Field(description="the model it is for")
    texts: dict[str, Source] = Field(default_factory=dict)
    messages: list[MessagePart] = Field(default_factory=list)
    contextual: dict[str, str] = Field(
        default_factory=dict, description="the text in place of another where the row has a context"
    )
    fields: dict[str, str] = Field(
        default_factory=dict,
        description="the texts' names for fields; a place without a name is 0, 1, …",
    )
    frame: str | None = Field(None, description="of a sequence classifier; see kind classifier")
    labels: dict[str, str] | None = Field(None, description="of a sequence classifier")
    reading: str | None = Field(None, description="how the publisher reads replies")
    scale: Scale | None = None
    clip: Clip | None = None
    empty: Literal["judged", "unjudged"] = Field(
        "unjudged", description="whether empty answers are put to the judge"
    )
    needs: str = Field(description="hardware or access")
    licence: str
    agreement: str = Field(description="published agreement with people")
    tried: str = Field(description="what was compared with what, and what was not")

    @model_validator(mode="after")
    def _fits(self) -> JudgeEntry:
        if sum(map(bool, (self.reading, self.scale, self.labels))) != 1:
            raise ValueError("has one of reading, scale and labels")
        if self.reading and self.reading not in READERS:
            raise ValueError(f"reading must be one of {', '.join(READERS)}")
        named = {part.text for part in self.messages if part.text}
        unknown = {*named, *self.contextual, *self.contextual.values()} - {*self.texts}
        if unknown:
            raise ValueError(f"there is no text {', '.join(sorted(unknown))}")
        return self

    @property
    def sources(self) -> list[Source]:
        """Where all its texts stand."""
        return list(self.texts.values())

    def render(
        self,
        texts: Mapping[str, str],
        values: Mapping[str, str],
        conversation: tuple[Message, ...] = (),
    ) -> tuple[Message, ...]:
        """The conversation that the judge is sent: its texts with ``values`` (behavior, context,
        prompt and response) filled in as they are."""
        messages: list[Message] = []
        for part in self.messages:
            if part.field == "conversation":
                messages += conversation
                continue
            name = part.text or ""
            if values.get("context"):
                name = self.contextual.get(name, name)
            content = self._filled(name, texts, values) if name else values[str(part.field)]
            content = content.strip() if part.strip else content
            messages.append({"role": part.role, "content": f"{part.before}{content}{part.after}"})
        return tuple(messages)

    def _filled(self, name: str, texts: Mapping[str, str], values: Mapping[str, str]) -> str:
        text, style = texts[name], self.texts[name].style
        if style == "verbatim":
            return text
        known = {**texts, **values}
        shown = {
            key: known[value] if value in known else value.format_map(known)
            for key, value in self.fields.items()
        }
        if style == "jinja":  # which takes one line end off the end of a template
            text = text.removesuffix("\n")
            return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: shown[match[1]], text)
        places = [shown[key] for key in sorted(filter(str.isdigit, shown), key=int)]
        return text.format(*places, **{k: v for k, v in shown.items() if not k.isdigit()})


def names() -> list[str]:
    """The names of the published judges."""
    return names_in(CATALOGUE)


def entry(name: str, where: str = "judge") -> JudgeEntry:
    """A published judge by name. Raises :class:`ParamsError`."""
    return find_entry(CATALOGUE, JudgeEntry, "published judge", name, where)
