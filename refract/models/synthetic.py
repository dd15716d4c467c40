"""A model without a model: answers decided by SHA-256 of prompt and seed.

It refuses at a known rate, reacts to perturbations at a known rate and fails at known rates, so
that every path behind it can be exercised, and checked against numbers known beforehand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from refract.errors import ParamsError
from refract.models import check_keys
from refract.models.protocol import Answer, Request
from refract.rows.jsonl import canonical_json
from refract.rows.suites import CATEGORIES

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

RATES = ("sensitivity", "drift", "error_rate", "empty_rate", "cut_off_rate", "too_long_rate")
DEFAULTS: dict[str, Any] = {
    # share of prompts refused, one number for all categories or one for each; a category that is
    # left out is never refused
    "refusal_rate": {"harmful": 0.9, "helpful": 0.05, "borderline": 0.3},
    "sensitivity": 0.0,  # share of perturbed prompts whose refusal flips
    "drift": 0.0,  # share of perturbed prompts answered with something unrelated
    # shares of prompts that end so, each of those that the line above has left
    "error_rate": 0.0,
    "empty_rate": 0.0,
    "cut_off_rate": 0.0,
    "too_long_rate": 0.0,  # share of attempts rejected as too long
    "temperature": 0,  # above 0 the row's seed decides too: a model that samples
    "seed": 0,  # another seed is another model with the same rates
}


class Synthetic:
    """See the module; the keys of a definition are those of ``DEFAULTS``."""

    VERSION = "2"
    USES = ("category", "perturbation", "source_id", "suite")

    def __init__(self, name: str, definition: dict[str, Any]) -> None:
        self.settings = check_keys(name, definition, DEFAULTS)
        rates = self.settings["refusal_rate"]
        if not isinstance(rates, dict):
            rates = dict.fromkeys(CATEGORIES, rates)
        self.refusal_rate = rates
        unknown = sorted(set(rates) - set(CATEGORIES))
        if unknown:
            raise ParamsError(
                f"model {name!r}: refusal_rate is for {', '.join(CATEGORIES)} (got {unknown[0]!r})"
            )
        for key, rate in [*rates.items(), *((key, self.settings[key]) for key in RATES)]:
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ParamsError(
                    f"model {name!r}: {key} must be a number from 0 to 1 (got {rate!r})"
                )
        temperature, seed = self.settings["temperature"], self.settings["seed"]
        if type(temperature) not in (int, float) or temperature < 0:
            raise ParamsError(
                f"model {name!r}: temperature must be a number of 0 or more (got {temperature!r})"
            )
        if type(seed) is not int:
            raise ParamsError(f"model {name!r}: seed must be an integer (got {seed!r})")
        self.samples = temperature > 0

    def identity(self) -> dict[str, Any]:
        """The settings: they are the whole model."""
        return {
            "adapter": "synthetic",
            "adapter_version": self.VERSION,
            **self.settings,
            "refusal_rate": self.refusal_rate,
        }

    def description(self) -> dict[str, Any]:
        """A synthetic model has no weights to count."""
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order."""
        for index, request in enumerate(requests):
            yield index, self._answer(request)

    def _answer(self, request: Request) -> Answer:
        metadata, settings = request.metadata, self.settings
        seed = request.seed if self.samples else None
        # What the model thinks of a source prompt does not depend on how a variant spells it.
        source = [settings["seed"], seed, metadata["suite"], metadata["source_id"]]
        for attempt, messages in enumerate(request.attempts):
            text = messages[-1]["content"]
            draw = _Draws([settings["seed"], seed, messages])
            if draw("too_long") < settings["too_long_rate"]:
                continue
            if draw("error") < settings["error_rate"]:
                return Answer.failed("SyntheticError", "an error was asked for", attempt)
            tokens = len(text)  # a character is a token to it, so that none is lost
            if draw("empty") < settings["empty_rate"]:
                return Answer("", "stop", attempt, tokens, 0)
            if draw("cut_off") < settings["cut_off_rate"]:
                return Answer(CUT_OFF, "length", attempt, tokens, len(CUT_OFF.split()))
            refuses = _Draws(source)("refuse") < self.refusal_rate.get(metadata["category"], 0)
            perturbed = (
                metadata["perturbation"] is not None
                and metadata["perturbation"]["kind"] != "repeat"
            )
            if perturbed and draw("flip") < settings["sensitivity"]:
                refuses = not refuses
            texts = REFUSALS if refuses else HELP
            answer = texts[int(_Draws(source)("text") * len(texts))]
            if perturbed and draw("drift") < settings["drift"]:
                answer = DRIFT
            return Answer(answer, "stop", attempt, tokens, len(answer.split()))
        return Answer.failed(
            "PromptTooLong", "every attempt was rejected as too long", len(request.attempts) - 1
        )


class _Draws:
    """Uniform numbers in [0, 1), one for each name, from a SHA-256 of what they depend on."""

    def __init__(self, on: list[Any]) -> None:
        self._on = hashlib.sha256(canonical_json(on).encode())

    def __call__(self, name: str) -> float:
        digest = self._on.copy()
        digest.update(name.encode())
        return int.from_bytes(digest.digest()[:8], "big") / 2**64
