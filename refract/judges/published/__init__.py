"""Published judges by reference: their texts to the byte, their replies read as their publishers do.

Texts stand in packages and repositories of their publishers, and are fetched once and checked by SHA-256
(:mod:`refract.core.published_text`); none is part of this project. An entry of ``catalogue.yaml`` says
where a text stands, how it is filled in, which model it is for, and how the publisher reads the reply. A
local judge model runs through the same adapter as every model. Whatever of a definition differs from
what was published is said each time the judge is used.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import sha256_json
from refract.core.published_text import Source, fetch, find_entry, names_in, read_text
from refract.core.settings import Number, Settings, read_settings
from refract.core.showing import say
from refract.core.types import Message, Verdict
from refract.judges.cases import Case, Judge, labelled, unjudged
from refract.judges.classifier import Classifier, ClassifierSettings
from refract.judges.llm import CONTROL, loaded_once, replies_of, verdict_in
from refract.judges.verdict_reading import READERS
from refract.models import open_model
from refract.models.hf import HF
from refract.models.protocol import Model
from refract.models.sending import Served

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
VERSION = "1"
DIGITS = 6
OTHER_FORM = "not in the form asked for"


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


class PublishedSettings(Settings):
    """A published judge, as its publisher has it where nothing else is said; `refract judges` lists
    them."""

    judge: str | dict[str, Any] | None = Field(
        None,
        description="which one; null: the one of the definition's name",
        json_schema_extra={
            "allowed": "a name that `refract judges` lists, null, or an entry like those of "
            "`refract/judges/published/catalogue.yaml`"
        },
    )
    model: dict[str, Any] | None = Field(
        None,
        description="settings of the judge model besides or instead of the published one's",
        json_schema_extra={"allowed": "a definition like those under `models`, whole or in part"},
    )
    reading: Literal["strict", "paper"] = Field(
        "strict",
        description="replies that are not in the form asked for: an error, or what the publisher takes "
        "them for",
    )
    judged_text: Literal["raw", "protected"] = Field(
        "raw",
        description="the judged text as it is, or with control tokens in it broken up, so that it "
        "cannot speak for the judge's frame",
    )
    clip: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="most tokens of an answer that are shown, by the judge's tokenizer; 0: all; "
        "null: as published",
    )
    empty: Literal["judged", "unjudged"] | None = Field(
        None, description="whether empty answers are put to the judge; null: as published"
    )


class PublishedJudge(Judge):
    """A published judge. Verdicts have the judge's reply as ``raw``; ``guessed`` where ``reading`` is
    ``paper`` and the reply was not in the form asked for; the ratings of a rubric as ``rubric``."""

    Settings = PublishedSettings

    def __init__(self, name: str, settings: PublishedSettings) -> None:
        super().__init__(name, settings)
        where = f"judges.{name}"
        if isinstance(settings.judge, Mapping):
            self.entry = read_settings(JudgeEntry, f"{where}.judge", settings.judge)
        else:
            self.entry = entry(settings.judge or name, f"{where}: judge")
        self.FAMILY = self.entry.asks
        self.judges_empty = (settings.empty or self.entry.empty) == "judged"
        self.definition = self._definition()
        self._classifier: Classifier | None = None
        if self.entry.labels:
            shown: dict[str, Any] = {"labels": self.entry.labels, "model": self.definition}
            shown |= {"frame": self.entry.frame} if self.entry.frame else {}
            given = read_settings(ClassifierSettings, where, shown)
            self._classifier = Classifier(name, given)
            self._model: Model = self._classifier.model
        else:
            self._model = open_model(name, self.definition, f"{where}.model")
        self._clip, tokens = self.entry.clip, settings.clip
        if tokens is not None:
            published = self._clip or Clip.model_validate({"tokens": 1})
            self._clip = published.model_copy(update={"tokens": tokens}) if tokens else None
        if self._clip and not isinstance(self._model, HF):
            raise ParamsError(
                f"{where}: answers are clipped to {self._clip.tokens} tokens of the judge's "
                f"tokenizer, which the adapter {self.definition['adapter']} does not have; use adapter "
                "hf, or clip: 0 to show whole answers"
            )
        digest = sha256_json(self.entry.model_dump(mode="json"))[:16]
        self.version = f"{VERSION}, published {digest}"

    def _definition(self) -> dict[str, Any]:
        given, published = self.settings.model or {}, dict(self.entry.model)
        if given.get("adapter", published["adapter"]) != published["adapter"]:
            kept = ("max_tokens", "temperature")
            published = {key: published[key] for key in kept if key in published}
        definition = {**published, **given}
        if self.entry.scale and definition.get("adapter") == "hf":
            definition["score_tokens"] = list(self.entry.scale.tokens)
        elif self.entry.scale:
            raise ParamsError(
                f"judges.{self.name}: model: the verdict is an expected value over the probabilities "
                f"of a token, which needs adapter hf (got {definition.get('adapter')!r})"
            )
        return definition

    def deviations(self) -> list[str]:
        """Deviations from the publisher's judge, one phrase each."""
        entry, settings = self.entry, self.settings
        phrases = []
        given = (settings.model or {}).items()
        kept = ("device", "revision")
        changed = sorted(k for k, value in given if k not in kept and value != entry.model.get(k))
        if changed:
            phrases.append(f"model: {', '.join(f'{k} {self.definition[k]}' for k in changed)}")
        if settings.reading != "paper":
            phrases.append("replies in another form than asked for are errors (reading: strict)")
        if settings.judged_text != "raw":
            phrases.append(
                "control tokens in the judged text are broken up (judged_text: protected)"
            )
        if self._clip != entry.clip:
            phrases.append(f"answers clipped to {self._clip.tokens if self._clip else 'no'} tokens")
        if self.judges_empty != (entry.empty == "judged"):
            phrases.append(f"empty answers {settings.empty}")
        return phrases

    def texts(self) -> dict[str, str]:
        """The publisher's texts, fetched where they are not here. Raises ``SourceError``."""
        for source in fetch(source for source in self.entry.sources if not source.is_here):
            say(f"judge {self.name}: fetched {source}, SHA-256 as published", file=sys.stderr)
        return {key: read_text(source) for key, source in self.entry.texts.items()}

    def check(self) -> str | None:
        """A warning where the judge will take long here, or None. Gets its text. Raises
        :class:`RefractError` where the text, a key or the weights are missing."""
        model, needs, hf = self._model, self.entry.needs, self.definition["adapter"] == "hf"
        try:
            if not isinstance(model, Served):
                need_local("torch", "transformers")
            self.texts()
            if isinstance(model, Served):
                model.check_key()
            else:
                model.identity()
        except RefractError as error:
            name = self.settings.judge if isinstance(self.settings.judge, str) else self.name
            weights = f", `hf download {self.definition['model_id']}` its weights" if hf else ""
            raise RefractError(
                f"{error}. It needs {needs}. `refract judges fetch {name}` gets its text{weights}"
            ) from None
        if not isinstance(model, Served) and self.definition.get("device") != "cpu":
            import torch

            if not torch.cuda.is_available():
                return f"it needs {needs}; there is no GPU here, and a CPU takes long"
        return None

    def prompts(self, cases: Sequence[Case], model: Model) -> list[tuple[Message, ...]]:
        """What the judge is sent for each case. Raises ``SourceError``."""
        texts, prompts = self.texts(), []
        for case in cases:
            values, clip = case.values, self._clip
            if clip and isinstance(model, HF):  # checked when the judge was opened
                special = clip.special_tokens == "shown"
                values["response"] = model.clip(case.answer, clip.tokens, clip.side, special)
            values = {name: self._shown(text) for name, text in values.items()}
            turns: list[Message] = [
                {"role": turn["role"], "content": self._shown(turn["content"])}
                for turn in case.turns
                if turn["role"] != "system"
            ]
            prompts.append(self.entry.render(texts, values, tuple(turns)))
        return prompts

    def _shown(self, text: str) -> str:
        return CONTROL.sub(r"\g<0> ", text) if self.settings.judged_text == "protected" else text

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """The verdicts on cases, in order. Raises ``SourceError``, and what the model's adapter
        raises when no request can be answered."""
        if self._classifier:
            return self._classifier.judge(cases)
        if not cases:
            return []
        model = loaded_once(self.definition, self._model)
        replies = replies_of(model, dict(enumerate(self.prompts(cases, model))))
        verdicts = [verdict_in(reply, self.read) for reply in replies.values()]
        name = f"judge {self.name}"
        guesses = sum("guessed" in v or OTHER_FORM in str(v["error"]) for v in verdicts)
        treated = "left unjudged" if self.settings.reading == "strict" else "read as published"
        say(
            f"{name}: {self.entry.of}; judged text {self.settings.judged_text}; {guesses} of "
            f"{len(verdicts)} replies {OTHER_FORM}, {treated}",
            file=sys.stderr,
        )
        for phrase in self.deviations():
            say(f"{name}: not as published: {phrase}", file=sys.stderr)
        return verdicts

    def read(self, reply: str) -> Verdict:
        """The verdict in a reply. Raises :class:`UnreadableVerdict`."""
        if self.entry.scale:
            return self._expected(reply, self.entry.scale)
        read = READERS[str(self.entry.reading)](reply)
        if read.guessed and self.settings.reading == "strict":
            return unjudged(f"{OTHER_FORM} (the publisher reads {read.label})")
        verdict = labelled(read.label, read.score)
        if read.rubric is not None:
            verdict["rubric"] = read.rubric
        if read.guessed:
            verdict["guessed"] = True
        return verdict

    @staticmethod
    def _expected(reply: str, scale: Scale) -> Verdict:
        logits = json.loads(reply)["logits"]
        most = max(logits.values())
        chances = {token: math.exp(logit - most) for token, logit in logits.items()}
        total = sum(chances.values())
        worth = sum(chances[token] / total * value for token, value in scale.tokens.items())
        worth = round(worth, 12)  # beyond which processors differ
        score = round(worth, DIGITS)
        if scale.threshold is None:
            return {**unjudged(), "score": score}
        return labelled("harmful" if worth >= scale.threshold else "harmless", score)
