"""An entry of the catalogue of published judges: where the texts stand, how they are filled in, which
model they are for, and how replies are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template
from typing import Any, Literal

from pydantic import Field, model_validator

from refract.core.published_text import Source
from refract.core.settings import Number, Settings
from refract.core.types import Message
from refract_published.catalogues import JUDGES, find_entry
from refract_published.judges.readers import READERS

Empty = Literal["judged", "unjudged"]


class Clip(Settings):
    """How much of an answer the judge is shown, in tokens of its own tokenizer."""

    tokens: int = Field(ge=1, description="most tokens, with those that the tokenizer adds")
    side: Literal["right", "left"] = Field("right", description="the end that is cut off")
    special_tokens: Literal["hidden", "shown"] = Field(
        "hidden", description="whether tokens that the tokenizer adds become part of the text"
    )


class MessagePart(Settings):
    """A message: a text filled in, or several one behind the other, or a field of the case."""

    role: Literal["system", "user", "assistant"] = "user"
    text: str | list[str] | None = None
    field: Literal["conversation", "prompt", "response", "behavior"] | None = None
    strip: bool = Field(False, description="white space at both ends of the filled text goes")
    before: str = ""
    after: str = ""

    @property
    def texts(self) -> list[str]:
        """The names of its texts."""
        return [self.text] if isinstance(self.text, str) else self.text or []

    @model_validator(mode="after")
    def _text_or_field(self) -> MessagePart:
        if (self.text is None) == (self.field is None):
            raise ValueError("a message has either a text or a field")
        return self


class Scale(Settings):
    """A verdict from the probabilities of a few first tokens of the reply."""

    tokens: dict[str, Number] = Field(min_length=2, description="what each token is worth, 0 to 1")
    threshold: Number | None = Field(None, description="expected value from which on it is harmful")


class JudgeEntry(Settings):
    """A published judge."""

    of: str = Field(description="whose judge it is, with the paper")
    asks: Literal["harmful", "refusal", "refusal_score", "score"] = Field(
        description="the family of its labels"
    )
    model: dict[str, Any] = Field(description="the model it is for")
    texts: dict[str, Source] = Field({})
    messages: list[MessagePart] = Field([])
    contextual: dict[str, str] = Field(
        {}, description="the text in place of another where the row has a context"
    )
    fields: dict[str, str] = Field(
        {}, description="the texts' names for fields; a place without a name is 0, 1, …"
    )
    frame: str | None = Field(None, description="of a sequence classifier; see kind classifier")
    labels: dict[str, str] | None = Field(None, description="of a sequence classifier")
    reading: str | None = Field(None, description="how the publisher reads replies")
    scale: Scale | None = None
    clip: Clip | None = None
    empty: Empty = Field("unjudged", description="whether empty answers are put to the judge")
    needs: str = Field(description="hardware or access")
    licence: str
    agreement: str = Field(description="published agreement with people")
    tried: str = Field(description="what was compared with what, and what was not")

    @model_validator(mode="after")
    def _consistent(self) -> JudgeEntry:
        readings = [self.reading, self.scale, self.labels]
        if sum(map(bool, readings)) != 1:
            raise ValueError("has one of reading, scale and labels")
        if self.reading and self.reading not in READERS:
            raise ValueError(f"reading must be one of {', '.join(READERS)}")
        named = {name for part in self.messages for name in part.texts}
        named |= self.contextual.keys() | self.contextual.values()
        unknown = named - self.texts.keys()
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
        """The messages for the judge: its texts with ``values`` (behavior, context, prompt and
        response) filled in unchanged."""
        messages: list[Message] = []
        for part in self.messages:
            if part.field == "conversation":
                messages += conversation
                continue
            content = values[part.field] if part.field else ""
            for name in part.texts:
                if values.get("context"):
                    name = self.contextual.get(name, name)
                content += self._filled(name, texts, values)
            if part.strip:
                content = content.strip()
            messages.append({"role": part.role, "content": f"{part.before}{content}{part.after}"})
        return tuple(messages)

    def _filled(self, name: str, texts: Mapping[str, str], values: Mapping[str, str]) -> str:
        text, style = texts[name], self.texts[name].style
        if style == "verbatim":
            return text
        known = {**texts, **values}
        shown = {}
        for key, value in self.fields.items():
            shown[key] = known[value] if value in known else value.format_map(known)
        if style == "template":
            return Template(text).substitute(shown)
        if style == "jinja":  # which drops one line end at the end of a template
            text = text.removesuffix("\n")
            return re.sub(r"\{\{ *(\w+) *\}\}", lambda match: shown[match[1]], text)
        numbers = sorted(filter(str.isdigit, shown), key=int)
        places = [shown.pop(number) for number in numbers]
        return text.format(*places, **shown)


def find_judge(name: str, where: str = "judge") -> JudgeEntry:
    """A published judge by name. Raises :class:`ParamsError`."""
    return find_entry(JUDGES, JudgeEntry, noun="published judge", name=name, where=where)
