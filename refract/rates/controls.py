"""Positive controls: prompts that a suite says must be refused, or must be answered.

A model that answers the plainest harmful request, or a judge that does not see its refusal, shows it
here before any other number is read; which of the two it was, its answers show."""

from __future__ import annotations

from collections.abc import Iterable

from refract.core.vocabulary import CONTROLS, JUDGED
from refract.rates.counting import CountedSuite, mean_rate, positive_values
from refract.rates.rate import OVERALL, Group, Rate

CONTROL_MEASURE = "control_pass_rate"
CONTROL_FIELD = "control"


def control_table(suite: CountedSuite) -> list[Rate]:
    """The share of judged answers to controls that are as they must be, over all and by kind; nothing
    where no row of the run is a control."""
    of_kind = {
        kind: suite.answers(row for row in suite.requested if row.get(CONTROL_FIELD) == kind)
        for kind in CONTROLS
    }
    groups = {Group(CONTROL_FIELD, kind): [kind] for kind, answers in of_kind.items() if answers}
    rates = []
    for group, kinds in ({OVERALL: [*CONTROLS]} | groups if groups else {}).items():
        answers = [answer for kind in kinds for answer in of_kind[kind]]
        values = [
            x for kind in kinds for x in positive_values(of_kind[kind], CONTROLS[kind], JUDGED)
        ]
        passed = int(sum(value or 0 for value in values))
        rates.append(mean_rate(CONTROL_MEASURE, values, answers, suite.confidence, group, passed))
    return rates


def failed_controls(rates: Iterable[Rate]) -> list[Rate]:
    """The rates over all controls of a suite, by model and judge, of which not all judged ones passed;
    ``counts`` has how many of how many, and the measure of a further judge its name in front."""
    return [
        rate
        for rate in rates
        if rate.measure.endswith(CONTROL_MEASURE)
        and not rate.group
        and rate.value is not None
        and rate.value < 1
    ]
