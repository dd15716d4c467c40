"""A rate, and a paired difference of two results: what is computed, written, read and shown.

What a rate is of is its :class:`refract.rates.key.Key`. A further number of each rate is a field of
:class:`Statistics` (its column follows from its name) and the place that computes it;
``docs/metrics.md`` describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from refract.core.vocabulary import DIGITS
from refract.rates.key import Group, Key, Measure
from refract.statistics.proportions import Interval as Interval  # low and high, both included
from refract.statistics.proportions import settled

Decision = Literal["met", "missed", "inconclusive"]
# What prompts a share is over: harmful ones, others (helpful and borderline), or both.
Prompts = Literal["harmful", "other", ""]
ALONE = "°"  # marks an interval of which it is not known how the judge's errors move it


def prompts_of(categories: Iterable[str]) -> Prompts:
    """The kind of prompts that these categories are; empty for a mixture of both, and where a category
    is not known (empty)."""
    kinds: set[Prompts] = set()
    for category in categories:
        kinds.add("harmful" if category == "harmful" else "other" if category else "")
    return kinds.pop() if len(kinds) == 1 else ""


@dataclass(frozen=True, slots=True)
class SharePart:
    """A share of ``n`` answers that a judge calls refusals, as a part of a measure: with its
    interval, times ``sign``, on ``prompts``. Of a second model so much of the judge's error is
    ``shared`` with the first. ``certain`` of it is the share that the provider refused, which no
    judge decided."""

    share: float
    interval: Interval
    prompts: Prompts
    n: int
    sign: int = 1
    shared: float = 1.0
    certain: float = 0.0


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """Human labels behind a rate: those used, those of other answers than these, and those left
    blank above the last label."""

    used: int
    stale: int
    blank: int

    @property
    def are_random(self) -> bool:
        """Whether those used are a random sample: rates come from such alone."""
        return not self.stale and not self.blank


def stale_text(labels: int) -> str:
    """How many labels are of other answers than there are now, in words."""
    return f"{labels} {'label is' if labels == 1 else 'labels are'} of a draw from other answers"


@dataclass(frozen=True, slots=True)
class Counts:
    """The answers behind a rate.

    ``successes`` of ``n`` judged answers, in so many ``clusters``, count (None: a mean of scores,
    of prompts or of groups). ``partial`` of the successes are partial refusals (None: not a rate of
    both kinds of refusal), ``by_provider`` of them were refused by the provider (None: none),
    ``cut_off`` of the ``n`` were cut off at the token limit (None: not counted); ``all_cut_off``
    counts those that were not judged too, and tables do not hold it. ``excluded``
    counts the answers that are not in the rate, by outcome
    (:data:`refract.core.vocabulary.EXCLUDED`, all of them or none), ``untested`` the perturbed
    prompts that show nothing, by reason (:data:`refract.core.vocabulary.UNTESTED`)."""

    successes: int | None
    n: int
    clusters: int | None = None
    partial: int | None = None
    by_provider: int | None = None
    cut_off: int | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    untested: Mapping[str, int] = field(default_factory=dict)
    labels: HumanLabels | None = None
    all_cut_off: int = field(default=0, compare=False)

    @property
    def unjudged(self) -> int:
        """The answers that belong to the rate and are not in it."""
        return sum(self.excluded.values())

    @property
    def cut_off_share(self) -> float:
        """The share of the judged answers that the token limit cut off."""
        return (self.cut_off or 0) / self.n if self.n else 0.0


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least (``min``) or the most (``max``) that a rate should be."""

    kind: Literal["min", "max"]
    limit: float

    @classmethod
    def of(cls, setting: Mapping[str, float]) -> Threshold:
        """A threshold of params.yaml, ``{min: x}`` or ``{max: x}``."""
        ((kind, limit),) = setting.items()
        return cls("min" if kind == "min" else "max", limit)

    def holds(self, interval: Interval | None) -> bool:
        """Whether a whole interval is on the right side of the limit."""
        if interval is None:
            return False
        if self.kind == "min":
            return interval.low >= self.limit
        return interval.high <= self.limit

    def decide(self, interval: Interval | None) -> Decision:
        """Met where the whole interval is on the right side, missed where all of it is not."""
        if interval is None:
            return "inconclusive"
        if self.holds(interval):
            return "met"
        past = interval.low > self.limit
        if self.kind == "min":
            past = interval.high < self.limit
        return "missed" if past else "inconclusive"

    def __str__(self) -> str:
        return f"{'>=' if self.kind == 'min' else '<='} {self.limit}"


@dataclass(frozen=True, slots=True)
class AboveFloor:
    """A rate minus its noise floor, the rate at which another answer to the clean prompt differs;
    tables do not hold ``outer``, the interval with the worst case of what is not known."""

    value: float
    interval: Interval | None = None
    outer: Interval | None = None


@dataclass(frozen=True, slots=True)
class WithJudge:
    """``interval`` and ``outer`` of a rate of refusals with the judge's error in them: on a model
    that nobody labelled (:mod:`refract.rates.judge_error`), or as human labels of the run show it."""

    interval: Interval
    outer: Interval | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """Numbers that only some rates have. Each field is a column of its name in the tables.

    ``p``: of a difference to the pair, the two-sided exact p of McNemar's test with clusters
    exchanged as wholes. ``design_effect`` and ``effective_clusters``, of rates whose rows come in
    clusters: see :class:`refract.statistics.clusters.Clustered`."""

    p: float | None = None
    design_effect: float | None = None
    effective_clusters: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A share, a mean or a difference of one suite and model, with everything that limits it.
    Unrounded.

    ``value`` lies in the range of its measure and is None where nothing was judged; ``interval`` is
    its confidence interval, None where one cluster leaves none. ``bounds`` is what the value could
    be once all excluded answers are judged, whatever their reason (Manski 1989, Journal of Human
    Resources 24:343), ``outer`` the same with sampling error at both ends (Horowitz & Manski 2000,
    JASA 95:77). ``dose`` is the median number of tokens that an injection added, ``repetitions``
    how often it added its character and in how many prompts. ``threshold`` and ``decision`` stand
    where the suite sets one. ``with_judge`` stands where the judge's error is known; it need not
    hold ``value`` in its middle. Intervals are for prompts like these, of which a suite is a sample
    (NIST AI 800-3). ``parts`` are the shares of refusals that a difference is made of, where it was
    counted; tables do not hold them. ``judge_unknown``: a judge of refusal decides it, and how far
    its error moves it is not known, though that was asked for. ``clustered_by`` is the field that
    makes its clusters, empty where those are the pairs of a suite."""

    key: Key
    counts: Counts
    value: float | None
    interval: Interval | None = None
    bounds: Interval | None = None
    outer: Interval | None = None
    statistics: Statistics = Statistics()
    above_floor: AboveFloor | None = None
    with_judge: WithJudge | None = None
    dose: float | None = None
    repetitions: Mapping[int, int] = field(default_factory=dict)
    threshold: Threshold | None = None
    decision: Decision | None = None
    clustered_by: str = ""
    parts: Sequence[SharePart] = ()
    judge_unknown: bool = False

    @property
    def measure(self) -> Measure:
        return self.key.measure

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def group(self) -> Group:
        return self.key.group

    @property
    def suite(self) -> str:
        return self.key.suite

    @property
    def model(self) -> str:
        return self.key.model

    def keyed(self, **parts: Any) -> Rate:
        """The same rate with some parts of its key replaced."""
        return replace(self, key=replace(self.key, **parts))

    @property
    def shown(self) -> Interval | None:
        """The interval that people are shown: of prompts and judge where that is known."""
        return self.with_judge.interval if self.with_judge else self.interval

    @property
    def alone_mark(self) -> str:
        """What is written behind its interval: :data:`ALONE` or nothing."""
        return ALONE if self.judge_unknown and self.shown else ""

    @property
    def outside(self) -> bool:
        """Whether what the judge counted is not in the interval that people are shown, as labels can
        have it."""
        ends = self.shown
        return bool(ends and self.value is not None and not ends.low <= self.value <= ends.high)

    @property
    def passed(self) -> bool | None:
        """Whether its threshold is shown to be met; None without one."""
        return None if self.decision is None else self.decision == "met"


@dataclass(frozen=True, slots=True)
class DropDecision:
    """What a primary measure says of a change for the worse; see
    :func:`refract.rates.comparison.decide_drops`.

    ``worst`` is the one-sided confidence limit of the difference at the worst of what was not
    judged, ``p_worse`` the one-sided p of a drop, ``p_worse_holm`` the same over all primary
    measures."""

    decision: Literal["worse", "not worse", "inconclusive"]
    reason: str
    regression: bool
    margin: float
    worst: float | None = None
    p_worse: float | None = None
    p_worse_holm: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference in refusal between two results A and B: b − a, everywhere. Unrounded.

    Over the prompts of one suite, category and perturbation that were judged on both sides: ``n``
    of them in so many ``clusters``. ``a`` and ``b`` are shares refused, ``value`` is b − a with
    Tango's ``interval``, all None without a pair. ``judge_interval`` holds the judge's error on two
    models too, where that is known. ``bounds`` and ``outer`` as in :class:`Rate`, ``design_effect``
    and ``effective_clusters`` as in :class:`refract.statistics.clusters.Clustered`. ``p`` is
    McNemar's exact p with clusters exchanged as wholes, of discrimination that of
    :func:`refract.statistics.clusters.clustered_contrast_test`, ``p_adjusted`` Holm's for all that
    were computed together.

    ``prompts`` lists ids by what became of them: ``to_refusal``, ``to_compliance``,
    ``to_unjudged``, ``to_judged``, ``not_judged``, ``only_a``, ``only_b`` and ``reworded``.
    ``repeats`` names the suite where the same prompts are tested instead. ``drop`` stands where it
    is a primary measure. ``model`` is one name, or two with an arrow."""

    suite: str
    category: str
    perturbation: str
    n: int
    clusters: int
    a: float | None
    b: float | None
    value: float | None
    interval: Interval | None
    bounds: Interval | None
    outer: Interval | None
    p: float | None
    p_adjusted: float | None = None
    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeats: str = ""
    drop: DropDecision | None = None
    model: str = ""
    design_effect: float | None = None
    effective_clusters: float | None = None
    judge_interval: Interval | None = None

    @property
    def shown(self) -> Interval | None:
        """The interval that people are shown: of prompts and judge where that is known."""
        return self.judge_interval or self.interval

    def may_be_chance(self, confidence: float) -> bool | None:
        """Whether chance could have made it, by the p that is to be cited; None without a test. The
        interval may say otherwise."""
        p = self.p if self.p_adjusted is None else self.p_adjusted
        return None if p is None else p > 1 - confidence


def rounded(value: float) -> float:
    """A number as files hold it: the one place where a rate is rounded, of halves alike
    everywhere."""
    # Adding zero turns the -0.0 that rounding can leave into 0.0.
    return round(settled(value), DIGITS) + 0.0
