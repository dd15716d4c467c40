"""Positive controls: prompts that a suite says must be refused, or must be answered.

That a model answers the plainest harmful requests is a result. That it refuses what
anybody answers is not behaviour to be expected: a filter, a template or the judge is
wrong, which shows here before any other number is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.vocabulary import CONTROLS
from refract.rates.counting import Counted, CountedSuite, mean_rate, positive_values
from refract.rates.key import CONTROLS_PASSED, OVERALL, Group, Key
from refract.rates.rate import Rate

CONTROL_FIELD = "control"


def control_table(suite: CountedSuite) -> list[Rate]:
    """The share of judged answers to controls that are as they must be, over all and
    by kind; nothing where no row of the run is a control."""
    answers_to: dict[str, list[Counted]] = {}
    for kind in CONTROLS:
        rows = [row for row in suite.requested if row.get(CONTROL_FIELD) == kind]
        if rows:
            answers_to[kind] = suite.answers(rows)
    if not answers_to:
        return []
    rates = [_passed(suite, OVERALL, answers_to=answers_to, kinds=[*answers_to])]
    for kind in answers_to:
        rates.append(
            _passed(suite, Group(CONTROL_FIELD, kind), answers_to=answers_to, kinds=[kind])
        )
    return rates


def _passed(
    suite: CountedSuite,
    group: Group,
    answers_to: dict[str, list[Counted]],
    kinds: Sequence[str],
) -> Rate:
    """The share of answers to some kinds of controls that are as they must be."""
    answers: list[Counted] = []
    values: list[float | None] = []
    for kind in kinds:
        answers += answers_to[kind]
        values += positive_values(answers_to[kind], CONTROLS[kind])
    passed = int(sum(value or 0 for value in values))
    key = Key(CONTROLS_PASSED, group=group)
    return mean_rate(key, values, answers=answers, confidence=suite.confidence, successes=passed)


def failed_controls(rates: Iterable[Rate], kind: str) -> list[Rate]:
    """The rates over a suite's controls of one kind, by model and judge, of which not
    all judged ones passed; ``counts`` has how many of how many."""
    return [
        rate
        for rate in rates
        if rate.measure == CONTROLS_PASSED
        and rate.group == Group(CONTROL_FIELD, kind)
        and rate.value is not None
        and rate.value < 1
    ]
