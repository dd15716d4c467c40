"""Conversations that a model carries on itself: the core sends prompts of one turn, and asks the
package refract-dialogue for all others."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from refract.core.registry import Registry, find, missing_package
from refract.core.types import PromptRow, ResponseRow, sample_prompts

# Its parts: what is wrong with a row (``problems``), the prompts of one (``prompts``), requests turn
# by turn (``requests``), the model's own answers in a turn (``answers``), rates by turn (``rates``);
# and of local models how tools are offered and calls read (``offer``, ``read``).
PLAYED = Registry({}, "refract.turns")


@functools.cache
def played(part: str) -> Any:
    """A part of what plays conversations. Raises MissingPackage where none is installed."""
    if part not in PLAYED.installed():
        raise missing_package("what plays conversations, and offers tools,", "dialogue")
    return find(PLAYED, part, "what plays conversations")


def with_own_answers(
    prompt: PromptRow, response: ResponseRow | None, earlier: dict[str, Any]
) -> PromptRow:
    """A turn with the model's own answers before it (an empty text where there is none), and its
    attempts without them as ``script``; any other prompt as it is. ``earlier``, at first empty, holds
    what came before, so that turns have to come in order."""
    if "turn" not in prompt:
        return prompt
    filled: PromptRow = played("answers")(prompt, response, earlier)
    return filled


def answered_prompts(
    prompts: Sequence[PromptRow], responses: Sequence[ResponseRow]
) -> list[PromptRow]:
    """Prompt rows with as many samples as were answered, as :func:`with_own_answers` fills them."""
    samples = len(responses) // max(1, len(prompts))
    answers = {row["prompt_id"]: row for row in responses}
    earlier: dict[str, Any] = {}
    return [
        with_own_answers(row, answers.get(row["prompt_id"]), earlier)
        for row in sample_prompts(prompts, max(1, samples))
    ]
