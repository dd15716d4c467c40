"""A published judge by reference: the publisher's text to the byte, and the publisher's reading.

The texts stay in the publishers' packages and repositories. They are fetched once and checked by
SHA-256 (:mod:`refract_published.texts`). Every use of the judge prints how its definition
deviates from what was published."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from refract.core.environment import need_local
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import sha256_json
from refract.core.settings import Settings, read_settings
from refract.core.showing import say
from refract.core.types import Message, Verdict
from refract.judges.cases import SHOWN_COLUMNS, Case, Judge, encodable, labelled, unjudged
from refract.models import open_model
from refract.models.hf import HF
from refract.models.protocol import Model
from refract.models.provider import Provider
from refract_published.judges.classifier import Classifier, ClassifierSettings
from refract_published.judges.entry import Clip, Empty, JudgeEntry, Scale, find_judge
from refract_published.judges.llm import loaded_once, replies_of, verdict_in
from refract_published.judges.readers import OF_THE_START, READERS
from refract_published.texts import fetch, read_text

VERSION = "2"
DIGITS = 6
OTHER_FORM = "not in the form asked for"


class PublishedSettings(Settings):
    """A published judge, by default as its publisher has it; `refract judge list` lists them."""

    judge: str | dict[str, Any] | None = Field(
        None,
        description="which one; null: that of the definition's name",
        json_schema_extra={
            "allowed": "a name that `refract judge list` lists, null, or an entry like its catalogue's"
        },
    )
    model: dict[str, Any] | None = Field(
        None,
        description="settings of the judge model instead of the published ones",
        json_schema_extra={"allowed": "a definition like those under `models`, whole or in part"},
    )
    reading: Literal["strict", "paper"] = Field(
        "strict",
        description="replies that are not in the form asked for: an error, or as the publisher "
        "reads them",
    )
    clip: Annotated[int, Field(ge=0)] | None = Field(
        None, description="most tokens of an answer that are shown; 0: all; null: as published"
    )
    empty: Empty | None = Field(None, description="empty answers; null: as published")


class PublishedJudge(Judge):
    """A published judge. Verdicts have the reply as ``raw`` and ratings as ``rubric``.

    ``guessed`` marks a reply in another form than asked for, where ``reading`` is ``paper``."""

    Settings = PublishedSettings
    columns = SHOWN_COLUMNS

    def __init__(self, name: str, settings: PublishedSettings) -> None:
        super().__init__(name, settings)
        where = f"judges.{name}"
        if isinstance(settings.judge, Mapping):
            self.entry = read_settings(JudgeEntry, f"{where}.judge", settings.judge)
        else:
            self.entry = find_judge(settings.judge or name, f"{where}: judge")
        self.FAMILY = self.entry.asks
        self.judges_empty = (settings.empty or self.entry.empty) == "judged"
        self.definition = self._model_definition(where)
        self._classifier: Classifier | None = None
        if self.entry.labels:
            shown: dict[str, Any] = {"labels": self.entry.labels, "model": self.definition}
            if self.entry.frame:
                shown["frame"] = self.entry.frame
            self._classifier = Classifier(name, read_settings(ClassifierSettings, where, shown))
            self._model: Model = self._classifier.model
        else:
            self._model = open_model(name, self.definition, f"{where}.model")
        self._clip = self._clipped(where)
        digest = sha256_json(self.entry.model_dump(mode="json"))[:16]
        self.version = f"{VERSION}, published {digest}"

    def _model_definition(self, where: str) -> dict[str, Any]:
        """The published definition of its model with the changes of the settings. Another
        adapter takes nothing from it but the limits, other weights not its revision."""
        changes, defaults = self.settings.model or {}, dict(self.entry.model)
        if changes.get("adapter", defaults["adapter"]) != defaults["adapter"]:
            kept = defaults.keys() & {"max_tokens", "temperature"}
            defaults = {key: defaults[key] for key in defaults if key in kept}
        if "model_id" in changes:
            defaults.pop("revision", None)  # of the published weights alone
        definition = {**defaults, **changes}
        if self.entry.scale is not None:
            if definition.get("adapter") != "hf":
                raise ParamsError(
                    f"{where}: model: the verdict is an expected value over the probabilities of a "
                    f"token, which needs adapter hf (got {definition.get('adapter')!r})"
                )
            definition["score_tokens"] = list(self.entry.scale.tokens)
        return definition

    def _clipped(self, where: str) -> Clip | None:
        """How far answers are shown."""
        clip, tokens = self.entry.clip, self.settings.clip
        if tokens == 0:
            return None
        if tokens is not None:
            given = {"tokens": tokens}
            clip = clip.model_copy(update=given) if clip else Clip.model_validate(given)
        if clip and not isinstance(self._model, HF):
            raise ParamsError(
                f"{where}: answers are clipped to {clip.tokens} tokens of the judge's "
                f"tokenizer, which the adapter {self.definition['adapter']} does not have; use "
                "adapter hf, or clip: 0 to show whole answers"
            )
        return clip

    def deviations(self) -> list[str]:
        """Deviations from the publisher's judge, one phrase each."""
        entry, settings = self.entry, self.settings
        changed = []
        for key, value in sorted((settings.model or {}).items()):
            if key not in ("device", "revision") and value != entry.model.get(key):
                changed.append(f"{key} {self.definition[key]}")
        tokens = self._clip.tokens if self._clip else "no"
        phrases = {
            f"model: {', '.join(changed)}": bool(changed),
            "replies in another form than asked for are errors (reading: strict)": (
                entry.reading is not None and settings.reading != "paper"
            ),
            f"answers clipped to {tokens} tokens": self._clip != entry.clip,
            f"empty answers {settings.empty}": self.judges_empty != (entry.empty == "judged"),
        }
        return [phrase for phrase, holds in phrases.items() if holds]

    def texts(self) -> dict[str, str]:
        """The publisher's texts, fetched where they are not here. Raises ``SourceError``."""
        for source in fetch(self.entry.sources):
            say(f"judge {self.name}: fetched {source}, SHA-256 as published", file=sys.stderr)
        return {key: read_text(source) for key, source in self.entry.texts.items()}

    def check(self) -> str | None:
        """Gets the texts, and warns where the judge will take long on this machine. Raises
        :class:`RefractError` where a text, a key or the weights are missing."""
        model, needs = self._model, self.entry.needs
        try:
            if not isinstance(model, Provider):
                need_local("torch", "transformers")
            self.texts()
            if isinstance(model, Provider):
                model.check_key()
            else:
                model.identity()
        except RefractError as error:
            name = self.settings.judge if isinstance(self.settings.judge, str) else self.name
            weights = ""
            if self.definition["adapter"] == "hf":
                weights = f", `hf download {self.definition['model_id']}` its weights"
            raise RefractError(
                f"{error}. It needs {needs}. `refract judge fetch {name}` gets its text{weights}"
            ) from None
        if not isinstance(model, Provider) and self.definition.get("device") != "cpu":
            import torch

            if not torch.cuda.is_available():
                return f"it needs {needs}; there is no GPU here, and a CPU takes long"
        return None

    def prompts(self, cases: Sequence[Case], model: Model) -> list[tuple[Message, ...]]:
        """What the judge is sent for each case. Raises ``SourceError``."""
        texts, clip = self.texts(), self._clip
        prompts = []
        for case in cases:
            values = case.values
            if clip and isinstance(model, HF):  # checked when the judge was opened
                values["response"] = clipped(model, case.answer, clip)
            turns: list[Message] = []
            for turn in case.turns:
                if turn["role"] != "system":
                    turns.append({"role": turn["role"], "content": turn["content"]})
            prompts.append(self.entry.render(texts, values, tuple(turns)))
        return prompts

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """The verdicts on cases, in order. Raises ``SourceError``, and what the adapter raises
        when no request can be answered."""
        if not cases:
            return []
        if self._classifier:
            verdicts = self._classifier.judge(cases)
        else:
            model = loaded_once(self.definition, self._model)
            replies = replies_of(model, dict(enumerate(self.prompts(cases, model))))
            reads_start = self.entry.scale or self.entry.reading in OF_THE_START
            of_one_token = self.definition.get("max_tokens") == 1
            as_published = self.settings.reading == "paper"
            whole = "" if reads_start or of_one_token or as_published else self.name
            verdicts = [verdict_in(reply, self.read, whole) for reply in replies.values()]
        self._say_of(verdicts)
        return verdicts

    def _say_of(self, verdicts: Sequence[Verdict]) -> None:
        guesses = sum("guessed" in v or OTHER_FORM in str(v["error"]) for v in verdicts)
        treated = "left unjudged" if self.settings.reading == "strict" else "read as published"
        said = f"; {guesses} of {len(verdicts)} replies {OTHER_FORM}, {treated}"
        say(
            f"judge {self.name}: {self.entry.of}{said if self.entry.reading else ''}",
            file=sys.stderr,
        )
        for phrase in self.deviations():
            say(f"judge {self.name}: not as published: {phrase}", file=sys.stderr)

    def read(self, reply: str) -> Verdict:
        """The verdict in a reply. Raises :class:`UnreadableVerdict`."""
        if self.entry.scale:
            return expected(reply, self.entry.scale)
        read = READERS[str(self.entry.reading)](reply)
        if read.guessed and self.settings.reading == "strict":
            return unjudged(f"{OTHER_FORM} (the publisher reads {read.label})")
        verdict = labelled(read.label, read.score)
        if read.rubric is not None:
            verdict["rubric"] = read.rubric
        if read.guessed:
            verdict["guessed"] = True
        return verdict


def clipped(model: HF, text: str, clip: Clip) -> str:
    """A text of at most so many of the model's tokens."""
    model.prompting.load()
    tokenizer = model.prompting.tokenizer
    before, tokenizer.truncation_side = tokenizer.truncation_side, clip.side
    try:
        ids = tokenizer(encodable(text), truncation=True, max_length=clip.tokens)["input_ids"]
    finally:
        tokenizer.truncation_side = before
    hidden = clip.special_tokens == "hidden"
    return str(
        tokenizer.decode(ids, skip_special_tokens=hidden, clean_up_tokenization_spaces=False)
    )


def expected(reply: str, scale: Scale) -> Verdict:
    """The verdict of the expected value over the tokens of a scale."""
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
