"""Splitting what a model writes into its thinking and its answer."""

from __future__ import annotations


def split_reasoning(text: str, markers: list[str], opened: bool = False) -> tuple[str, str | None]:
    """Splits thinking from the answer: ``(response, thinking or None)``.

    ``opened``: the prompt itself ended with the opening marker. A closing marker without an opening
    one closes what the text began with, since some templates open it out of sight.
    """
    start, end = markers
    head, found, inside = ("", start, text) if opened else text.partition(start)
    if opened and inside.lstrip().startswith(start):
        inside = inside.lstrip()[len(start) :]
    if not found:
        thinking, closed, answer = text.partition(end)
        return (answer.lstrip(), thinking.strip()) if closed else (text, None)
    thinking, closed, answer = inside.partition(end)
    if not closed:
        return "", thinking.strip()
    return (head.rstrip() + answer).lstrip(), thinking.strip()
