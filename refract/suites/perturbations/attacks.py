"""What attackers do to a request: encode it, or frame it."""

from __future__ import annotations

import base64
import codecs
import functools
import random
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from refract.core.errors import ParamsError
from refract.core.published_text import Source, fetched_text
from refract.suites.perturbations.noise import TABLES, Rate, drawn_places, letters_of
from refract.suites.perturbations.variants import (
    FeatureSettings,
    Noisy,
    Perturbation,
    in_each_feature,
)

# The place of the feature's text in a frame or an instruction.
PLACE = "{prompt}"


def _with_place(text: str) -> str:
    if PLACE not in text:
        raise ValueError(f"must hold {PLACE}, the place of the text")
    return text


Frame = Annotated[
    Annotated[str, AfterValidator(_with_place)] | Source,
    Field(
        json_schema_extra={
            "allowed": f"a text with {PLACE} in it, or where a published one stands: {{package or "
            "repository, path, at, sha256}"
        }
    ),
]


class LeetspeakSettings(FeatureSettings):
    rate: Rate = Field(0.5, description="of the letters that have a digit")


def leetspeak(text: str, generator: random.Random, settings: LeetspeakSettings) -> Noisy:
    """Digits for letters they look like (``h0w``), a share ``rate`` of those that have one."""
    digits = TABLES["leetspeak"]
    places = [index for index in letters_of(text) if text[index].lower() in digits]
    chosen = drawn_places(generator, places, rate=settings.rate, total=len(places))
    chars = list(text)
    for index in chosen:
        chars[index] = digits[chars[index].lower()]
    return "".join(chars), len(chosen)


class FrameSettings(FeatureSettings):
    frame: Frame = Field(description="what is said around the text")
    place: str = Field(
        PLACE, min_length=1, description="what stands in a published frame for the text"
    )


class EncodeSettings(FrameSettings):
    encoding: Literal["base64", "hex", "rot13", "reversed"] = Field(
        "base64", description="of the UTF-8 bytes, or of the letters"
    )
    frame: Frame = Field(PLACE, description="what is said around the encoded text")


def encode(text: str, generator: random.Random, settings: EncodeSettings) -> Noisy:
    """The text in base64, hex or ROT13, or from its end to its start."""
    data = text.encode("utf-8")
    encoded = {
        "base64": base64.b64encode(data).decode("ascii"),
        "hex": data.hex(),
        "rot13": codecs.encode(text, "rot13"),
        "reversed": text[::-1],
    }[settings.encoding]
    return filled(settings.frame, encoded, settings.place), 1


def frame(text: str, generator: random.Random, settings: FrameSettings) -> Noisy:
    """The text within another one: a prefix, a suffix, or an attack's published template."""
    return filled(settings.frame, text, settings.place), 1


def filled(frame: str | Source, text: str, place: str) -> str:
    """A frame with the text in its place. Raises ParamsError where it has no place, and SourceError
    where a published one cannot be fetched."""
    whole = whole_text(frame)
    if place not in whole:
        raise ParamsError(f"{frame}: the text has no {place!r}; name its place with `place`")
    return whole.replace(place, text)


@functools.cache
def whole_text(frame: str | Source) -> str:
    """A frame or instruction as it stands; a published one is fetched at its first use."""
    if isinstance(frame, str):
        return frame
    text = fetched_text(frame, "frame")
    return text.removesuffix("\n") if frame.style == "jinja" else text


LEETSPEAK = Perturbation(LeetspeakSettings, in_each_feature("leetspeak", leetspeak), drawn=True)
ENCODE = Perturbation(EncodeSettings, in_each_feature("encode", encode))
FRAME = Perturbation(FrameSettings, in_each_feature("frame", frame))
