"""Rates over model size: what a model's size is, the points, and the trend of each family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refract.core.params import Metadata
from refract.core.settings import read_settings
from refract.rates.rate import Interval, Rate
from refract.statistics.proportions import normal_quantile, wilson_at
from refract.statistics.trends import Point, Trend, trend

MEASURES = {
    "harmful_refusal_rate": "harmful refused",
    "over_refusal_rate": "helpful refused",
    "borderline_refusal_rate": "borderline refused",
    "attack_success_rate": "attack success",
}
SIZES = {
    "parameters": "parameters",
    "active_parameters": "active parameters",
    "training_compute": "training compute",
}


class Size(NamedTuple):
    """How large a model is; None where it is not known. ``counted``: from its weights, not stated."""

    family: str | None
    parameters: float | None
    active_parameters: float | None
    training_compute: float | None
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
    """One rate of one family over one kind of size: the models' points and their trend."""

    suite: str
    measure: str
    value: str
    family: str
    size: str
    points: dict[str, SizedRate]
    trend: Trend


def model_sizes(
    provenance: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> dict[str, Size]:
    """The sizes of the models, counted from weights, and stated in ``metadata`` where they are not.

    ``active_parameters`` are the parameters unless stated (mixtures of experts use some of their
    weights for each token). Raises :class:`ParamsError` for metadata that cannot be used.
    """
    sizes = {}
    for model, facts in provenance.items():
        given = (metadata or {}).get(model) or {}
        stated = read_settings(Metadata, f"metadata.{model}", given)
        counted = facts["model"].get("parameters")
        parameters = counted or stated.parameters
        sizes[model] = Size(
            stated.family,
            parameters,
            stated.active_parameters or parameters,
            stated.training_compute,
            bool(counted),
        )
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
    """The rates over size of each family with two models or more, and their trends.

    ``confidence`` is that of the rates' intervals, and of the trends'. Active parameters and training
    compute are sizes of their own where a family's differ from its parameters, or are given.
    """
    families: dict[str, list[str]] = {}
    for model, size in sizes.items():
        if size.family is not None:
            families.setdefault(size.family, []).append(model)
    series = []
    for family, members in families.items():
        for kind in SIZES:
            at = {m: getattr(sizes[m], kind) for m in members if getattr(sizes[m], kind)}
            mixture = any(sizes[m].active_parameters != sizes[m].parameters for m in at)
            if len(at) < 2 or (kind == "active_parameters" and not mixture):
                continue
            groups: dict[tuple[str, str, str], dict[str, SizedRate]] = {}
            for model in sorted(at, key=lambda name: (at[name], name)):
                for rate in sized_rates(rates[model]):
                    counts = rate.counts
                    # One request alone has no interval, and no weight in a trend.
                    if rate.interval is not None and counts.successes is not None:
                        key = rate.suite, rate.measure, rate.group.value
                        groups.setdefault(key, {})[model] = SizedRate(
                            at[model], counts.successes, counts.n, rate.interval
                        )
            series += [
                Series(*key, family, kind, points, _trend(points, confidence))
                for key, points in groups.items()
                if len(points) >= 2
            ]
    return series


def _trend(points: Mapping[str, SizedRate], confidence: float) -> Trend:
    return trend((sized.point(confidence) for sized in points.values()), confidence)


def effective_n(rate: float, low: float, high: float, confidence: float = 0.95) -> float:
    """The number of independent answers for which Wilson's interval is as wide as this one."""
    z = normal_quantile(confidence)
    least, most = 1e-3, 1e9
    for _ in range(100):
        n = (least * most) ** 0.5
        limits = wilson_at(rate * n, n, z)
        wider = limits.high - limits.low > high - low
        least, most = (n, most) if wider else (least, n)
    return least


def measure_text(measure: str, value: str) -> str:
    """A rate in words, with the attack that it is of."""
    return f"{MEASURES[measure]} ({value})" if value else MEASURES[measure]
