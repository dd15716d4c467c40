"""Rates over model size: what a model's size is, the points, and the trend of each family."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refract.core.params import Metadata
from refract.core.settings import read_settings
from refract.rates.rate import Interval, Rate
from refract.statistics.proportions import normal_quantile
from refract.statistics.trends import Point, Trend, trend

MEASURES = {
    "harmful_refusal_rate": "harmful refused",
    "over_refusal_rate": "helpful refused",
    "borderline_refusal_rate": "borderline refused",
    "attack_success_rate": "attack success",
}


LEAST_SIZES = 3  # models of a family, for a trend to be drawn through


class Size(NamedTuple):
    """How large a model is; None where it is not known. ``counted``: from its weights, not stated."""

    family: str | None
    parameters: float | None
    counted: bool


class SizedRate(NamedTuple):
    """One model's rate, of counts and with an interval, at its size."""

    size: float
    successes: int
    n: int
    interval: Interval

    @property
    def rate(self) -> float:
        """The share."""
        return self.successes / self.n

    def point(self, confidence: float) -> Point:
        """What the trend is fitted to: the counts, of clusters the effective ones."""
        n = min(self.n, effective_n(self.rate, *self.interval, confidence))
        # Limits are rounded to four digits: without clusters n comes back to within a per cent.
        n = self.n if n > 0.97 * self.n else n
        return Point(self.size, self.rate * n, n)


class Series(NamedTuple):
    """One rate of one family over the number of parameters: the models' points and their trend."""

    suite: str
    measure: str
    value: str
    family: str
    points: dict[str, SizedRate]
    trend: Trend

    @property
    def title(self) -> str:
        """The rate in words, with the attack that it is of."""
        return MEASURES[self.measure] + (f" ({self.value})" if self.value else "")


def model_sizes(
    provenance: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> dict[str, Size]:
    """The sizes of the models, counted from weights, and stated in ``metadata`` where they are not.

    Raises :class:`ParamsError` for metadata that cannot be used.
    """
    sizes = {}
    for model, facts in provenance.items():
        given = (metadata or {}).get(model) or {}
        stated = read_settings(Metadata, f"metadata.{model}", given)
        counted = facts["model"].get("parameters")
        sizes[model] = Size(stated.family, counted or stated.parameters, bool(counted))
    return sizes


def sized_rates(rates: Sequence[Rate]) -> Iterator[Rate]:
    """The rates that are shown over size: refusal by category, and success by attack (each by itself,
    not over all attacks)."""
    for rate in rates:
        attack = rate.measure == "attack_success_rate"
        if rate.measure in MEASURES and rate.group.field == ("attack" if attack else ""):
            yield rate


def scaling_series(
    rates: Mapping[str, Sequence[Rate]], sizes: Mapping[str, Size], confidence: float = 0.95
) -> list[Series]:
    """The rates over size of each family with ``LEAST_SIZES`` models or more, and their trends.

    ``confidence`` is that of the rates' intervals, and of the trends'.
    """
    groups: dict[tuple[str, str, str, str], dict[str, SizedRate]] = {}
    sized = {model: sizes[model] for model in rates if model in sizes and sizes[model].parameters}
    for family in dict.fromkeys(size.family for size in sized.values() if size.family):
        for model in sorted(sized, key=lambda model: (sized[model].parameters, model)):
            for rate in sized_rates(rates[model]) if sized[model].family == family else ():
                # One request alone has no interval, and no weight in a trend.
                if rate.interval is not None and (yes := rate.counts.successes) is not None:
                    key = rate.suite, rate.measure, rate.group.value, family
                    point = sized[model].parameters or 0, yes, rate.counts.n, rate.interval
                    groups.setdefault(key, {})[model] = SizedRate(*point)
    return [
        Series(
            *key, points, trend([sized.point(confidence) for sized in points.values()], confidence)
        )
        for key, points in groups.items()
        if len(points) >= LEAST_SIZES
    ]


def effective_n(rate: float, low: float, high: float, confidence: float = 0.95) -> float:
    """The number of independent answers for which Wilson's interval is as wide as this one: with
    u = 1 / n a root of w²(1 + z²u)² = 4z²(rate(1 - rate)u + z²u²/4)."""
    z2, w2 = normal_quantile(confidence) ** 2, (high - low) ** 2
    b = 2 * z2 * (w2 - 2 * rate * (1 - rate))
    return max(1e-3, (math.sqrt(b * b + 4 * z2 * z2 * (1 - w2) * w2) - b) / (2 * w2))
