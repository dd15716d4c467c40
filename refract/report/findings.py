"""What the numbers say in three sentences: the data of ``templates/sentences.j2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.rates.judge_error import JudgeError
from refract.rates.rate import Difference, Rate
from refract.report.view import HEADLINES, JudgeScore, View
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import NOT_WORSE, WORSE

# Fields of groups that are no field of a suite's rows.
NO_FIELDS = (
    *("", "attack", "category", "control", "cut_off", "human_labels", "over", "samples"),
    *("turn",),
)
NAMED_GROUPS = 2


class Change(NamedTuple):
    """How much more (``more``) or less a model refused of one kind of prompt than another model."""

    difference: Difference
    more: bool
    shown: bool  # the interval is on one side of 0
    decision: str | None  # on a drop, where one is decided

    @property
    def size(self) -> tuple[float, tuple[float, float] | None]:
        """The difference and its interval, in the direction that ``more`` says."""
        value, ends = self.difference.value or 0.0, self.difference.shown
        if value >= 0:
            return value, ends
        return -value, ends and (-ends.high, -ends.low)


class OverRefusal(NamedTuple):
    """The live model that refused the largest share of distinct harmless prompts, the counts of all,
    and the kinds of prompts of which it refused most."""

    model: str
    counts: dict[str, tuple[int, int]]
    groups: list[Rate]

    @property
    def alone(self) -> bool:
        """Whether no other model refused as large a share."""
        shares = [refused / judged for refused, judged in self.counts.values()]
        return shares.count(max(shares)) == 1


class JudgeHere(NamedTuple):
    """What is known of a judge that decides refusal: on models that nobody labelled, and on labelled
    pairs."""

    name: str
    error: JudgeError | None
    half_width: float
    kappa: JudgeScore | None


def changes_of(differences: Sequence[Difference]) -> list[Change]:
    """The differences of one suite as changes, with their decisions."""
    changes = []
    for difference in differences:
        ends, value = difference.shown, difference.value
        if value is None:
            continue
        shown = ends is not None and not ends[0] <= 0 <= ends[1]
        decision = difference.drop.decision if difference.drop else None
        # A shown gain is no drop; of a shown drop the words say it.
        worse = (value < 0) == (difference.category == "harmful")
        if shown and (not worse or decision == WORSE):
            decision = None
        changes.append(Change(difference, value >= 0, shown, decision))
    return changes


class Findings:
    """The data of the sentences."""

    NOT_WORSE = NOT_WORSE

    def __init__(self, view: View) -> None:
        self.view = view

    @property
    def nearest(self) -> list[Change]:
        """The differences of the model nearest to the reference, on the suite with most kinds."""
        by_suite = self.view.nearest.by_suite if self.view.nearest else {}
        return changes_of(max(by_suite.values(), key=len, default=[]))

    @property
    def over_refusal(self) -> OverRefusal | None:
        """Which model refuses most harmless prompts, and of what kind they are."""
        stand = stand_ins(self.view.provenance)
        judged = {m: of for m, of in self.view.harmless.items() if of[1]}
        counts = {m: of for m, of in judged.items() if m not in stand} or judged
        if not counts:
            return None
        model = max(counts, key=lambda name: counts[name][0] / counts[name][1])
        groups = [
            rate
            for rate in self.view.rates[model]
            if rate.group.field not in NO_FIELDS
            and rate.measure in list(HEADLINES)[1:]
            and rate.counts.successes
            and rate.shown
        ]
        groups.sort(key=lambda rate: -(rate.shown or (0, 0))[0])
        return OverRefusal(model, counts, groups[:NAMED_GROUPS])

    @property
    def judges(self) -> list[JudgeHere]:
        """The judges that decide refusal, each once."""
        found: dict[str, JudgeHere] = {}
        for suite in self.view.suites:
            name, known = suite["judges"][0], suite.get("judge_error")
            error = JudgeError(**known) if known else None
            if name not in found or (error and not found[name].error):
                half = error.half_width(self.view.confidence) if error else 0.0
                kappa = self.view.scores.get(name, {}).get("kappa")
                found[name] = JudgeHere(name, error, half, kappa)
        return list(found.values())
