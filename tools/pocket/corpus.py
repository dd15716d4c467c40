"""Training text of the pocket models: seeded pairs of a request and an answer, from templates.

A request is one of the shared frames ("How do I …?", "Help me …") around a phrase. Frames, people,
places and times are the same for helpful and harmful requests, so that the phrase alone tells them
apart. The templates and the word lists that fill them are in ``texts/``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

TEXTS = Path(__file__).parent / "texts"


class Pair(NamedTuple):
    """One training example; ``system`` is None or a system prompt."""

    category: str  # harmful, helpful or borderline
    prompt: str
    response: str
    system: str | None = None


# How the refusals begin; no other answer contains any of these.
REFUSAL_OPENINGS = (
    "I'm sorry, but I can't",
    "I'm sorry, I can't",
    "Sorry, I can't",
    "I can't",
    "I won't",
    "I cannot",
    "I'm unable to",
    "I'm not able to",
)

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful, honest and harmless assistant.",
    "You are a friendly assistant. Answer briefly.",
    "Answer the user's question.",
    "You are a careful assistant.",
    "Be polite and concise.",
)
SYSTEM_SHARE = 0.05
BORDERLINE_SHARE = 0.08
# Where a harm area has a refusal with an offer, how often it is drawn.
OFFER_SHARE = 0.25
# Share of prompts written without care (no capitals, no final mark, a "please").
CARELESS_SHARE = 0.1

_SLOT = re.compile(r"\{(\w+)\}")
_TOPIC = re.compile(r"\[([^\]]*)\]")
_DOUBLING = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]|kidnap|begin|forget|unplug")


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe", pure=True).load(TEXTS / f"{name}.yaml")
    return content


def _options(block: str) -> tuple[str, ...]:
    return tuple(
        part.strip() for line in block.splitlines() for part in line.split("|") if part.strip()
    )


def _each(blocks: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: _options(block) for name, block in blocks.items()}


def _words(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(",") if part.strip())


_FRAMES, _ANSWERS, _AREAS = _read("frames"), _read("answers"), _read("harmful")
_SLOTS = {name: _words(text) for group in _read("words").values() for name, text in group.items()}
_VERB_FRAMES = _each(_FRAMES["verb"])
_NOUN_FRAMES = _options(_FRAMES["noun"])
_HARMFUL = {area: _each(shapes) for area, shapes in _AREAS.items()}
_HELPFUL = {domain: _each(shapes) for domain, shapes in _read("helpful").items()}
_BORDERLINE = _each(_read("borderline"))
_REFUSALS = _each(_ANSWERS["refusals"])
_HEADS = {start: head for starts, head in _ANSWERS["heads"].items() for start in starts.split("|")}
_TAILS = _each(_ANSWERS["tails"])


def _expand(template: str, rng: random.Random) -> str:
    while "{" in template:
        template = _SLOT.sub(lambda match: rng.choice(_SLOTS[match[1]]), template)
    return template


def gerund(phrase: str) -> str:
    """The phrase with its first verb as a gerund: "bake bread" → "baking bread"."""
    verb, space, rest = phrase.partition(" ")
    if verb.endswith("ie"):
        verb = verb[:-2] + "y"
    elif verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        verb = verb[:-1]
    elif _DOUBLING.fullmatch(verb):
        verb += verb[-1]
    return f"{verb}ing{space}{rest}"


# How often each shape is drawn.
_SHAPES = ("vp", "vp", "vp", "np", "whole")
_KINDS = ("ask", "ask", "ask", "help", "tell", "tell", "write")


def _request(shapes: dict[str, tuple[str, ...]], rng: random.Random) -> tuple[str, str, str]:
    """A request, its topic ("" if none is marked) and the kind of its frame."""
    shape = rng.choice(_SHAPES)
    marked = _expand(rng.choice(shapes[shape]), rng)
    found = _TOPIC.search(marked)
    topic = found[1] if found else ""
    phrase = _TOPIC.sub(r"\1", marked)
    if shape == "whole":
        return phrase, topic, "whole"
    if shape == "np":
        return rng.choice(_NOUN_FRAMES).replace("{np}", phrase), topic, "write"
    if marked.startswith("["):
        topic = gerund(topic)
    kind = rng.choice(_KINDS)
    frame = rng.choice(_VERB_FRAMES[kind])
    return frame.replace("{vp}", phrase).replace("{ing}", gerund(phrase)), topic, kind


def _careless(prompt: str, rng: random.Random) -> str:
    style = rng.randrange(3)
    if style == 0:
        return prompt.lower()
    if style == 1:
        return prompt.rstrip(".?")
    return f"{prompt[:-1]}, please{prompt[-1]}"


def _refusal(area: str, kind: str, rng: random.Random) -> str:
    offers: dict[str, str] = _ANSWERS["offers"]
    if area in offers and rng.random() < OFFER_SHARE:
        return offers[area]
    return rng.choice(_REFUSALS[kind]).replace("{about}", _AREAS[area]["about"])


def _help(domain: str, prompt: str, topic: str, rng: random.Random) -> str:
    words = prompt.lower().split()
    head = _HEADS.get(" ".join(words[:2])) or _HEADS.get(words[0], _ANSWERS["other_head"])
    return f"{head.replace('{topic}', topic)} {rng.choice(_TAILS[domain])}"


def pair(rng: random.Random, harmful: float = 0.45) -> Pair:
    """The next training example that ``rng`` draws; ``harmful`` is the share of harmful requests."""
    draw = rng.random()
    category = (
        "harmful"
        if draw < harmful
        else "borderline"
        if draw < harmful + BORDERLINE_SHARE
        else "helpful"
    )
    if category == "harmful":
        area = rng.choice(tuple(_HARMFUL))
        prompt, _, kind = _request(_HARMFUL[area], rng)
        response = _refusal(area, kind, rng)
    else:
        domain = "borderline" if category == "borderline" else rng.choice(tuple(_HELPFUL))
        shapes = _BORDERLINE if category == "borderline" else _HELPFUL[domain]
        prompt, topic, _ = _request(shapes, rng)
        response = _help(domain, prompt, topic, rng)
    prompt = prompt[0].upper() + prompt[1:]
    if rng.random() < CARELESS_SHARE:
        prompt = _careless(prompt, rng)
    system = rng.choice(SYSTEM_PROMPTS) if rng.random() < SYSTEM_SHARE else None
    return Pair(category, prompt, response, system)


def pairs(seed: str, count: int) -> Iterator[Pair]:
    """``count`` training examples, the same for the same seed."""
    rng = random.Random(seed)
    return (pair(rng) for _ in range(count))


def normalised(prompt: str) -> str:
    """The prompt's words in lower case, for comparing prompts."""
    return " ".join(re.findall(r"[a-z0-9']+", prompt.lower()))


def refuses(response: str) -> bool:
    """Whether an answer begins as the corpus's refusals do."""
    return response.lstrip().startswith(REFUSAL_OPENINGS)
