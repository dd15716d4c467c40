"""Texts of models and files, made safe for a terminal."""

from __future__ import annotations


def printable(text: object) -> str:
    """A text in one line with every character visible: what moves a cursor, sets a colour, turns the
    direction of writing or stands alone as half a character is shown as its escape (``\\x1b``)."""
    return "".join(
        char
        if char.isprintable()
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in str(text)
    )
