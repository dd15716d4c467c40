"""Rates over model size: what a model's size is, the points, and the trend of each family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.core.params import Metadata
from refract.core.settings import read_settings
from refract.rates.key import ATTACK_SUCCESS
from refract.rates.rate import Interval, Rate
from refract.report.wording import CATEGORY_OF
from refract.statistics.proportions import effective_n
from refract.statistics.trends import Point, Trend, trend

LEAST_SIZES = 3  # models of a family, for a trend to be drawn through


class Size(NamedTuple):
    """How large a model is; None where it is not known. ``counted``: from its
    weights, not stated."""

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
    """One rate of one family over the number of parameters, with its title in words: the
    models' points and their trend."""

    suite: str
    title: str
    family: str
    points: dict[str, SizedRate]
    trend: Trend


def model_sizes(
    provenance: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> dict[str, Size]:
    """The sizes of the models, counted from weights, and stated in ``metadata`` where they are not.

    Raises :class:`ParamsError` for metadata that cannot be used."""
    sizes = {}
    for model, facts in provenance.items():
        settings = (metadata or {}).get(model) or {}
        stated = read_settings(Metadata, f"metadata.{model}", settings)
        counted = facts["model"].get("parameters")
        sizes[model] = Size(stated.family, counted or stated.parameters, bool(counted))
    return sizes


def scaling_series(
    rates: Mapping[str, Sequence[Rate]], sizes: Mapping[str, Size], confidence: float = 0.95
) -> list[Series]:
    """The rates over size of each family with ``LEAST_SIZES`` models or more, and their trends:
    refusal by category, and success by attack (each by itself, not over all attacks). One request
    alone has no interval, and no weight in a trend.

    ``confidence`` is that of the rates' intervals, and of the trends'."""
    families: dict[str, list[tuple[float, str]]] = {}
    for model in rates:
        size = sizes.get(model)
        if size and size.parameters and size.family:
            families.setdefault(size.family, []).append((size.parameters, model))
    groups: dict[tuple[str, str, str], dict[str, SizedRate]] = {}
    for family, models in families.items():
        for parameters, model in sorted(models):
            for rate in rates[model]:
                yes = rate.counts.successes
                interval = rate.interval
                title, field = rate.measure.title, ""
                if rate.name == ATTACK_SUCCESS.name:
                    title = f"attack success ({rate.group.value})"
                    field = "attack"
                elif rate.name not in CATEGORY_OF:
                    continue
                if rate.group.field == field and yes is not None and interval is not None:
                    point = SizedRate(parameters, yes, n=rate.counts.n, interval=interval)
                    groups.setdefault((rate.suite, title, family), {})[model] = point
    series = []
    for (suite, title, family), points in groups.items():
        if len(points) >= LEAST_SIZES:
            fitted = trend([point.point(confidence) for point in points.values()], confidence)
            series.append(Series(suite, title, family=family, points=points, trend=fitted))
    return series
