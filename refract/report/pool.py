"""Texts as JSON that a page can hold, each of them once."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def page_json(value: Any) -> bytes:
    """A value as JSON that can stand inside a script element, whatever its texts hold."""
    text = _dumps(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "backslashreplace")


def utf8(text: str) -> bytes:
    """A text's bytes, of lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def text_hash(text: str) -> bytes:
    """What takes the place of a text in memory: most are longer."""
    return hashlib.blake2b(utf8(text), digest_size=16).digest()


class Pool:
    """Different texts as a JSON list, cut at ``longest`` characters; ``cut`` of them were longer."""

    def __init__(self, longest: int = sys.maxsize) -> None:
        self.longest, self.cut = longest, 0
        self._places: dict[bytes, int] = {}
        self._list = io.BytesIO()

    def place(self, text: str) -> int:
        """Where the text is in the list."""
        more = len(text) - self.longest
        if more > 0:
            text = f"{text[: self.longest]}\n[{more} more characters are not in this page]"
        place = self._places.setdefault(text_hash(text), new := len(self._places))
        if place == new:
            self.cut += more > 0
            self._list.write((b"," if place else b"[") + page_json(text))
        return place

    def json(self) -> Iterator[bytes]:
        """The list, in parts."""
        yield self._list.getvalue() or b"["
        yield b"]"
