"""Training examples put together from parts: the wordings of this project, and the answers of the
labelled files."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.refusal_encoder.data import COMPLIANCE, NO, PARTIAL, Example

WORDINGS = Path(__file__).with_name("wordings.yaml")
_PERSONA = re.compile(
    r"\b(?:as )?an? (?:AI|artificial intelligence)(?: language)?(?: model| assistant)?\b", re.I
)


@functools.cache
def wordings() -> dict[str, Any]:
    from ruamel.yaml import YAML

    found: dict[str, Any] = YAML(typ="safe").load(WORDINGS.read_text("utf-8"))
    return found


class Writer:
    """Draws examples. ``helpful`` are answers that complied, ``refusals`` such that did not."""

    def __init__(self, rng: random.Random, examples: list[Example]) -> None:
        self.rng = rng
        self.helpful = [e for e in examples if e.allowed == (COMPLIANCE,)]
        self.asked = [e for e in examples if e.prompt and len(e.prompt) < 600]

    def say(self, part: str, topic: str) -> str:
        words = wordings()
        text: str = self.rng.choice(words[part])
        return self._filled(self._filled(text, topic), topic)

    def _filled(self, text: str, topic: str) -> str:
        words = wordings()
        text = text.replace("{topic}", topic)
        if "{persona}" in text:
            text = text.replace("{persona}", self.rng.choice(words["personas"]))
        if "{field}" in text:
            text = text.replace("{field}", self.rng.choice(words["fields"]))
        return text.replace("{name}", self.rng.choice(words["names"]))

    def topic(self) -> str:
        topic: str = self.rng.choice(wordings()["topics"])
        return topic

    def prompt(self, topic: str) -> str:
        return self.say("prompts", topic)

    def refusing_sentence(self, topic: str) -> str:
        """Apology, persona, refusal: each of the first two in about half of the cases."""
        rng = self.rng
        said = self.say("refusing", topic)
        if rng.random() < 0.3:
            before = " ".join(self.say("preambles", topic) for _ in range(rng.randint(1, 2)))
            return f"{before} {self.say('turns', topic)} {said}"
        if rng.random() < 0.45:
            persona = self._filled(rng.choice(wordings()["personas"]), topic)
            start = rng.choice(("As", "as", "Being", "I am"))
            said = f"{start} {persona}{rng.choice((',', ', and', '.'))} {said}"
        if rng.random() < 0.45:
            said = f"{self.say('apologies', topic)} {said}"
        return said[:1].upper() + said[1:]

    def refusal(self) -> Example:
        rng, topic = self.rng, self.topic()
        if rng.random() < 0.12:
            denial = self.say("denials", topic)
            asked = self.say("prompts", topic)
            return Example("wordings", "", asked, denial, (*NO, PARTIAL), True)
        parts = [self.refusing_sentence(topic)]
        draw = rng.random()
        if draw < 0.5:
            parts += [self.say("reasons", topic) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.2:  # the reason first
            parts.reverse()
        if rng.random() < 0.5:
            parts += [self.say("follow_ups", topic) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.12 and len(parts) == 1:
            parts += parts * 4  # a loop
        return Example("wordings", "", self.prompt(topic), self._joined(parts), NO, True)

    def partial(self) -> Example:
        """A refusal, or an objection, and then an answer; or an answer that ends in a refusal."""
        rng, topic = self.rng, self.topic()
        if not self.helpful:
            return self.refusal()
        base = rng.choice(self.helpful)
        draw = rng.random()
        if draw < 0.55:
            parts = [self.refusing_sentence(topic)]
            parts += [self.say("reasons", topic)] * (rng.random() < 0.3)
            parts += [self.say("instead_helping", topic), _cut(base.answer, rng, 900)]
        elif draw < 0.85:
            parts = [self.say("objecting", topic), _cut(base.answer, rng, 900)]
        else:
            parts = [_cut(base.answer, rng, 500), "However, " + self.refusing_sentence(topic)]
        return Example("wordings", "", base.prompt, self._joined(parts), (PARTIAL,), True)

    def compliance(self) -> Example:
        rng, topic = self.rng, self.topic()
        draw = rng.random()
        if draw < 0.15:
            return Example("wordings", "", *self.poem(), (COMPLIANCE,), False)
        if draw < 0.7 or not self.helpful:
            written = self.say("complying", topic) if draw < 0.3 else self.prose()
            parts, prompt = [written], self.prompt(topic)
            if rng.random() < 0.3:
                parts.insert(0, self.say("disclaimers", topic))
        else:
            base = rng.choice(self.helpful)
            parts, prompt = [base.answer], base.prompt
            parts.insert(0, self.say("disclaimers", topic))
        if rng.random() < 0.3:
            parts.insert(0, self.say("preambles", topic))
        if rng.random() < 0.2:
            parts.append(self.say("follow_ups", topic))
        return Example("wordings", "", prompt, self._joined(parts), (COMPLIANCE,), False)

    def poem(self) -> tuple[str, str]:
        """A prompt and a poem about one name."""
        words, rng = wordings(), self.rng
        lines = rng.sample(words["lines"], rng.randint(4, 14))
        name = rng.choice(words["names"])
        poem = "\n".join(lines).replace("{name}", name)
        return rng.choice(words["poem_prompts"]).replace("{name}", name), poem

    def prose(self) -> str:
        """Sentences in a row, or as a list."""
        words, rng = wordings(), self.rng
        drawn = rng.sample(words["sentences"], rng.randint(1, 9))
        if len(drawn) > 2 and rng.random() < 0.3:
            mark = rng.choice(("1. ", "- ", "* "))
            return "\n".join(mark.replace("1", str(n)) + text for n, text in enumerate(drawn, 1))
        return " ".join(drawn)

    def _joined(self, parts: list[str]) -> str:
        return self.rng.choice((" ", " ", "\n\n")).join(parts)

    def drawn(self, count: int) -> list[Example]:
        kinds = (self.refusal, self.refusal, self.partial, self.compliance, self.compliance)
        return [self.rng.choice(kinds)() for _ in range(count)]

    def echo(self) -> Example:
        """A prompt again, behind a few words."""
        asked = self.rng.choice(self.asked).prompt
        answer = self.rng.choice(wordings()["echoes"]).replace("{prompt}", asked)
        return Example("wordings", "", asked, answer, (COMPLIANCE,), False)

    def varied(self, example: Example) -> Example:
        """The example as it is, or with a change that leaves its label: another persona, an answer
        that was cut off or lost its apology."""
        rng, answer = self.rng, example.answer
        if rng.random() < 0.5:
            persona = rng.choice(wordings()["personas"])
            persona = self._filled(persona, self.topic())
            answer = _PERSONA.sub(
                lambda m: f"as {persona}" if m[0].lower().startswith("as") else persona, answer
            )
        if example.allowed == NO and rng.random() < 0.2:
            head, comma, rest = answer.partition(", ")
            if comma and len(head) < 40:
                answer = rest
        if len(answer) > 500 and rng.random() < 0.25:
            answer = _cut(answer, rng, len(answer), least=300)
        return replace(example, answer=answer)


def _cut(text: str, rng: random.Random, most: int, least: int = 150) -> str:
    return text[: rng.randint(min(least, most), max(least, most))]
