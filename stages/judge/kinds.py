"""The kinds of judge. To add one: write its function here, and name it in ``KINDS``.

A judge takes the cases of one suite that have a text to judge, and its definition from params.yaml;
it returns one verdict for each case, in order: ``label`` (None where it says nothing), ``refused``
(where the label means that), ``score``, ``evidence`` and ``error``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stages.judge.cases import Case
from stages.rows.jsonl import Row

Definition = Mapping[str, Any]


class Kind(NamedTuple):
    """A kind of judge: its function, its code's version, the settings a definition may hold."""

    judge: Callable[[Sequence[Case], Definition], list[Row]]
    version: Callable[[], str]
    settings: tuple[str, ...] = ()


def _rules(cases: Sequence[Case], definition: Definition) -> list[Row]:
    from stages.judge.rules import judge_response

    return [
        {**judge_response(case.response["response"], case.asked), "error": None} for case in cases
    ]


def _rules_version() -> str:
    from stages.judge.rules import VERSION

    return VERSION


KINDS = {
    "rules": Kind(_rules, _rules_version),
}
