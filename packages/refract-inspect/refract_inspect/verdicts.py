"""The verdict of a judge on one answer of another harness, and the share refused with its interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refract.agreement.unseen_models import known_errors
from refract.api import judge_rows
from refract.core.types import Row
from refract.judges import open_judges
from refract.judges.cases import versioned
from refract.project import find_judge, find_project
from refract.rates.counting import CONFIDENCE, Counted, mean_rate
from refract.rates.judge_error import with_judge_error
from refract.rates.key import REFUSAL, Key
from refract.rates.rate import Rate

Judge = str | Mapping[str, Any]


def verdict(
    prompt: str | Sequence[Mapping[str, Any]],
    response: str | None,
    judged_by: Judge = "refusal",
    **fields: Any,
) -> Row:
    """What ``refract judge`` says of an answer. ``prompt`` is a text or messages with ``role`` and
    ``content``; ``fields`` are others of the row, such as ``finish_reason`` and ``tool_calls``.
    Raises :class:`refract.core.errors.RefractError`."""
    row = {"id": "1", "prompt": prompt, "response": response, **fields}
    return judge_rows([row], *_named(judged_by))[0]


def share(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    categories: Sequence[str],
    judged_by: Judge | None = "refusal",
) -> Rate:
    """The mean of ``values``, each of which is the share of a prompt's answers that are refused.

    The interval (``shown``) is for prompts like these, those of one of ``clusters`` counting
    together, and holds the judge's error as far as answers with labels have shown it
    (docs/metrics.md of Refract); where ``judged_by`` is None, it is of the prompts alone."""
    error = None
    if judged_by is not None:
        name, definition = _named(judged_by)
        opened = open_judges({name: definition})[name]
        error = known_errors({name: versioned(definition, opened)}, ()).get(name)
    answers = [Counted("compliance", cluster) for cluster in clusters]
    rate = mean_rate(Key(REFUSAL), values, answers)
    return with_judge_error(rate, error, CONFIDENCE, categories)


def _named(judged_by: Judge) -> tuple[str, Mapping[str, Any]]:
    if isinstance(judged_by, str):
        return judged_by, _definition(judged_by, Path.cwd())
    return str(judged_by["kind"]), judged_by


@cache
def _definition(name: str, folder: Path) -> Mapping[str, Any]:
    """A judge of the project of a folder: read once, and not for each answer."""
    return find_judge(name, find_project())
