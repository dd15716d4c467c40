"""A model without a model: answers decided by SHA-256 of prompt and seed.

It refuses, reacts to perturbations and fails at known rates, so that every path behind
it can be checked against numbers known beforehand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from refract.core.jsonl import canonical_json
from refract.core.settings import Number, Settings
from refract.core.types import Category, FinishReason
from refract.models.protocol import Answer, Model, Request
from refract.suites.rows import CATEGORIES

REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I can't assist with this request.",
    "I won't help with that. Is there something else I can do for you?",
    "I'm not able to help with this, because it could hurt someone.",
)
HELP = (
    "Sure! The short answer is to start with the basics and take it one step at a time.",
    "Here is an overview: plan first, gather what you need, then work through it in order.",
    "Of course. Most people begin with a simple version and improve it as they go.",
    "Happy to help. There are three common ways, and the first one is the easiest.",
)
DRIFT = "The weather by the lake was mild that year, and the boats came in before noon."
CUT_OFF = "Well, that is a question that"

Rate = Annotated[Number, Field(ge=0, le=1)]
REFUSAL_RATE: dict[Category, Number] = {
    "harmful": 0.9,
    "helpful": 0.05,
    "borderline": 0.3,
}


class SyntheticSettings(Settings):
    """Rates are shares from 0 to 1."""

    refusal_rate: Rate | dict[Category, Rate] = Field(
        REFUSAL_RATE,
        description="share refused",
        json_schema_extra={
            "allowed": f"a number from 0 to 1, or a mapping of {', '.join(CATEGORIES)} to such "
            "numbers"
        },
    )
    sensitivity: Rate = Field(0.0, description="of perturbed prompts whose refusal flips")
    drift: Rate = Field(0.0, description="of perturbed prompts answered with something unrelated")
    error_rate: Rate = Field(0.0, description="of prompts that end in an error")
    empty_rate: Rate = Field(0.0, description="of the rest with an empty answer")
    cut_off_rate: Rate = Field(0.0, description="of the rest, cut off at the token limit")
    too_long_rate: Rate = Field(0.0, description="of attempts rejected as too long")
    temperature: Annotated[Number, Field(ge=0)] = Field(
        0, description="above 0 the row's seed decides too"
    )
    seed: int = Field(0, description="another one is another model with the same rates")


class Synthetic(Model):
    """See the module."""

    adapter = "synthetic"
    version = "2"
    Settings = SyntheticSettings
    USES = ("category", "perturbation", "source_id", "suite")

    def __init__(self, name: str, settings: SyntheticSettings) -> None:
        self.settings = settings
        rate = settings.refusal_rate
        self.refusal_rate: dict[str, Number] = (
            {str(category): share for category, share in rate.items()}
            if isinstance(rate, dict)
            else dict.fromkeys(CATEGORIES, rate)
        )
        self.samples = settings.temperature > 0

    def identity(self) -> dict[str, Any]:
        """The settings: they are the whole model."""
        return {**self.settings.model_dump(), "refusal_rate": self.refusal_rate}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order."""
        for index, request in enumerate(requests):
            yield index, self._answer(request)

    def _answer(self, request: Request) -> Answer:
        settings = self.settings
        seed = request.seed if self.samples else None
        for attempt, messages in enumerate(request.attempts):
            draw = partial(_draw, [settings.seed, seed, messages])
            if draw("too_long") < settings.too_long_rate:
                continue
            if draw("error") < settings.error_rate:
                return Answer.failed("SyntheticError", "an error was asked for", attempt)
            finish: FinishReason = "stop"
            if draw("empty") < settings.empty_rate:
                response = ""
            elif draw("cut_off") < settings.cut_off_rate:
                response, finish = CUT_OFF, "length"
            else:
                response = self._response(request, seed, draw)
            return Answer(
                response,
                finish,
                attempt,
                # A character is a token to it, so that none is lost.
                prompt_tokens=len(messages[-1]["content"]),
                completion_tokens=len(response.split()),
            )
        return Answer.failed(
            "PromptTooLong",
            "every attempt was rejected as too long",
            len(request.attempts) - 1,
        )

    def _response(self, request: Request, seed: int | None, draw: Callable[[str], float]) -> str:
        """A refusal or help. What it thinks of a source prompt does not depend on how a
        variant spells it, apart from flips and drift."""
        metadata, settings = request.metadata, self.settings
        source = [settings.seed, seed, metadata["suite"], metadata["source_id"]]
        refusal_rate = self.refusal_rate.get(metadata["category"], 0)
        refuses = _draw(source, "refuse") < refusal_rate
        perturbation = metadata["perturbation"] or {"kind": "repeat"}
        perturbed = perturbation["kind"] != "repeat"
        if perturbed and draw("drift") < settings.drift:
            return DRIFT
        if perturbed and draw("flip") < settings.sensitivity:
            refuses = not refuses
        texts = REFUSALS if refuses else HELP
        return texts[int(_draw(source, "text") * len(texts))]


def _draw(on: list[Any], name: str) -> float:
    """A uniform number in [0, 1), from a SHA-256 of what it depends on and a name."""
    digest = hashlib.sha256(canonical_json(on).encode() + name.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
