"""Published judges by reference: the publisher's text to the byte, and the
publisher's reading.

The texts stay in the publishers' packages and repositories. They are fetched
once and checked by SHA-256 (:mod:`refract.core.published_text`). An entry of
``catalogue.yaml`` says where a text stands, how it is filled in, which model it
is for, and how replies are read. Every use of the judge prints how its
definition deviates from what was published.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import sha256_json
from refract.core.published_text import Source, fetch, find_entry, names_in, read_text
from refract.core.settings import Number, Settings, read_settings
from refract.core.showing import say
from refract.core.types import Message, Verdict
from refract.judges.cases import SHOWN_COLUMNS, Case, Judge, Questions, labelled, unjudged
from refract.judges.classifier import Classifier, ClassifierSettings
from refract.judges.llm import (
    CONTROL,
    Repeats,
    check_repeats,
    loaded_once,
    replies_of,
    verdict_in,
    voted,
)
from refract.judges.verdict_reading import READERS
from refract.models import open_model
from refract.models.hf import HF
from refract.models.protocol import Model
from refract.models.sending import Served

VERSION = "1"
DIGITS = 6
OTHER_FORM = "not in the form asked for"
Empty = Literal["judged", "unjudged"]


class Clip(Settings):
    """How much of an answer the judge is shown, in tokens of its own tokenizer."""

    tokens: int = Field(ge=1, description="most tokens, with those that the tokenizer adds")
    side: Literal["right", "left"] = Field("right", description="the end that is cut off")
    special_tokens: Literal["hidden", "shown"] = Field(
        "hidden", description="whether tokens that the tokenizer adds become part of the text"
    )


class MessagePart(Settings):
    """A message: a text filled in, or a field of the case by itself."""

    role: Literal["system", "user", "assistant"] = "user"
    text: str | list[str] | None = Field(
        None, description="a text, or several, one behind the other"
    )
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
        """The messages for the judge: its texts with ``values`` (behavior,
        context, prompt and response) filled in unchanged.
        """
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
        text = texts[name]
        style = self.texts[name].style
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


class PublishedSettings(Settings):
    """A published judge, by default as its publisher has it; `refract judges` lists them."""

    judge: str | dict[str, Any] | None = Field(
        None,
        description="which one; null: the one of the definition's name",
        json_schema_extra={
            "allowed": "a name that `refract judges` lists, null, or an entry like those of "
            "`refract/published/judges/catalogue.yaml`"
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
    empty: Empty | None = Field(
        None, description="whether empty answers are put to the judge; null: as published"
    )
    repeats: Repeats = 1


class PublishedJudge(Judge):
    """A published judge. Verdicts have the reply as ``raw`` and ratings as
    ``rubric``.

    ``guessed`` marks a reply in another form than asked for, where ``reading``
    is ``paper``.
    """

    Settings = PublishedSettings
    columns = SHOWN_COLUMNS
    CATALOGUE = Path(__file__).with_name("catalogue.yaml")

    @classmethod
    def names(cls) -> list[str]:
        """The names of the published judges."""
        return names_in(cls.CATALOGUE)

    @classmethod
    def find(cls, name: str, where: str = "judge") -> JudgeEntry:
        """A published judge by name. Raises :class:`ParamsError`."""
        return find_entry(cls.CATALOGUE, JudgeEntry, noun="published judge", name=name, where=where)

    def __init__(self, name: str, settings: PublishedSettings) -> None:
        super().__init__(name, settings)
        where = f"judges.{name}"
        if isinstance(settings.judge, Mapping):
            self.entry = read_settings(JudgeEntry, f"{where}.judge", settings.judge)
        else:
            self.entry = self.find(settings.judge or name, f"{where}: judge")
        self.FAMILY = self.entry.asks
        self.judges_empty = (settings.empty or self.entry.empty) == "judged"
        changes, defaults = settings.model or {}, dict(self.entry.model)
        if changes.get("adapter", defaults["adapter"]) != defaults["adapter"]:
            kept = defaults.keys() & {"max_tokens", "temperature"}
            defaults = {key: defaults[key] for key in defaults if key in kept}
        self.definition = {**defaults, **changes}
        if self.entry.scale is not None:
            if self.definition.get("adapter") != "hf":
                raise ParamsError(
                    f"{where}: model: the verdict is an expected value over the probabilities of a "
                    f"token, which needs adapter hf (got {self.definition.get('adapter')!r})"
                )
            self.definition["score_tokens"] = list(self.entry.scale.tokens)
        self._classifier: Classifier | None = None
        if self.entry.labels:
            shown: dict[str, Any] = {"labels": self.entry.labels, "model": self.definition}
            if self.entry.frame:
                shown["frame"] = self.entry.frame
            self._classifier = Classifier(name, read_settings(ClassifierSettings, where, shown))
            self._model: Model = self._classifier.model
        else:
            self._model = open_model(name, self.definition, f"{where}.model")
        check_repeats(name, self.FAMILY, self._model, settings.repeats)
        self._clip = self.entry.clip
        if settings.clip == 0:
            self._clip = None
        elif settings.clip is not None:
            published = self._clip or Clip.model_validate({"tokens": 1})
            self._clip = published.model_copy(update={"tokens": settings.clip})
        if self._clip and not isinstance(self._model, HF):
            raise ParamsError(
                f"{where}: answers are clipped to {self._clip.tokens} tokens of the judge's "
                f"tokenizer, which the adapter {self.definition['adapter']} does not have; use "
                "adapter hf, or clip: 0 to show whole answers"
            )
        digest = sha256_json(self.entry.model_dump(mode="json"))[:16]
        self.version = f"{VERSION}, published {digest}"

    def deviations(self) -> list[str]:
        """Deviations from the publisher's judge, one phrase each."""
        entry, settings = self.entry, self.settings
        phrases, changed = [], []
        for key, value in sorted((settings.model or {}).items()):
            if key not in ("device", "revision") and value != entry.model.get(key):
                changed.append(f"{key} {self.definition[key]}")
        if changed:
            phrases.append(f"model: {', '.join(changed)}")
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
        if settings.repeats > 1:
            phrases.append(f"asked {settings.repeats} times, and most replies decide")
        return phrases

    def texts(self) -> dict[str, str]:
        """The publisher's texts, fetched where they are not here. Raises ``SourceError``."""
        absent = [source for source in self.entry.sources if not source.is_here]
        for source in fetch(absent):
            say(f"judge {self.name}: fetched {source}, SHA-256 as published", file=sys.stderr)
        return {key: read_text(source) for key, source in self.entry.texts.items()}

    def check(self) -> str | None:
        """Gets the texts, and warns where the judge will take long on this
        machine.

        Raises :class:`RefractError` where a text, a key or the weights are
        missing.
        """
        model, needs = self._model, self.entry.needs
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
            weights = ""
            if self.definition["adapter"] == "hf":
                weights = f", `hf download {self.definition['model_id']}` its weights"
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
        texts = self.texts()
        clip = self._clip
        prompts = []
        for case in cases:
            values = case.values
            if clip and isinstance(model, HF):  # checked when the judge was opened
                special = clip.special_tokens == "shown"
                values["response"] = model.clip(case.answer, clip.tokens, clip.side, special)
            for name, text in values.items():
                values[name] = self._shown(text)
            turns: list[Message] = []
            for turn in case.turns:
                if turn["role"] != "system":
                    turns.append({"role": turn["role"], "content": self._shown(turn["content"])})
            prompts.append(self.entry.render(texts, values, tuple(turns)))
        return prompts

    def _shown(self, text: str) -> str:
        return CONTROL.sub(r"\g<0> ", text) if self.settings.judged_text == "protected" else text

    def asked(self, cases: Sequence[Case]) -> Questions:
        """What the judge model is sent. Raises ``SourceError``."""
        if self._classifier:
            return self._classifier.asked(cases)
        model = loaded_once(self.definition, self._model)
        prompts = dict(enumerate(self.prompts(cases, model)))
        return Questions(model, self.definition, prompts, self.settings.repeats)

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """The verdicts on cases, in order.

        Raises ``SourceError``, and what the adapter raises when no request can
        be answered.
        """
        if self._classifier:
            return self._classifier.judge(cases)
        if not cases:
            return []
        questions = self.asked(cases)
        askings = []
        for repeat in range(questions.repeats):
            replies = replies_of(questions.model, questions.conversations, repeat)
            askings.append([verdict_in(reply, self.read) for reply in replies.values()])
        verdicts = [verdict for asking in askings for verdict in asking]
        guesses = sum("guessed" in v or OTHER_FORM in str(v["error"]) for v in verdicts)
        treated = "left unjudged" if self.settings.reading == "strict" else "read as published"
        name = f"judge {self.name}"
        say(
            f"{name}: {self.entry.of}; judged text {self.settings.judged_text}; {guesses} of "
            f"{len(verdicts)} replies {OTHER_FORM}, {treated}",
            file=sys.stderr,
        )
        for phrase in self.deviations():
            say(f"{name}: not as published: {phrase}", file=sys.stderr)
        return [voted(of_case) for of_case in zip(*askings, strict=True)]

    def read(self, reply: str) -> Verdict:
        """The verdict in a reply. Raises :class:`UnreadableVerdict`."""
        if self.entry.scale:
            return _expected(reply, self.entry.scale)
        read = READERS[str(self.entry.reading)](reply)
        if read.guessed and self.settings.reading == "strict":
            return unjudged(f"{OTHER_FORM} (the publisher reads {read.label})")
        verdict = labelled(read.label, read.score)
        if read.rubric is not None:
            verdict["rubric"] = read.rubric
        if read.guessed:
            verdict["guessed"] = True
        return verdict


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
