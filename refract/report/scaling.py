"""Rates over model size: what a model's size is, the points, and the trend of each family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from refract.core.params import Metadata
from refract.core.settings import read_settings
from refract.report.markdown import MISSING, markdown_table, percent, shown_rate
from refract.results.tables import Table
from refract.statistics.proportions import normal_quantile, wilson_at
from refract.statistics.trends import LEAST_MODELS, Point, Trend, trend

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
PROBLEMS = {
    "one size": "fewer than two sizes",
    "constant": "all answers alike",
    "separated": "sizes separate the answers",
}


class Size(NamedTuple):
    """How large a model is; None where it is not known. ``counted``: from its weights, not stated."""

    family: str | None
    parameters: float | None
    active_parameters: float | None
    training_compute: float | None
    counted: bool


class Measured(NamedTuple):
    """One model's rate at its size, with the interval of its table."""

    size: float
    successes: int
    n: int
    rate: float
    low: float
    high: float

    def point(self, confidence: float) -> Point:
        """What the trend is fitted to: the counts, of clusters the effective ones."""
        n = min(self.n, effective_n(self.rate, self.low, self.high, confidence))
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
    points: dict[str, Measured]
    trend: Trend


def model_sizes(
    provenance: Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> dict[str, Size]:
    """The sizes of the models, counted from weights, and stated in ``metadata`` where they are not.

    ``active_parameters`` are the parameters unless stated (mixtures of experts use some of their
    weights for each token). Raises :class:`ParamsError` for metadata that cannot be used.
    """
    sizes = {}
    for model, found in provenance.items():
        given = (metadata or {}).get(model) or {}
        stated = read_settings(Metadata, f"metadata.{model}", given)
        counted = found["model"].get("parameters")
        parameters = counted or stated.parameters
        sizes[model] = Size(
            stated.family,
            parameters,
            stated.active_parameters or parameters,
            stated.training_compute,
            bool(counted),
        )
    return sizes


def scaling_series(
    tables: Mapping[str, Table], sizes: Mapping[str, Size], confidence: float = 0.95
) -> list[Series]:
    """The rates over size of each family with two models or more, and their trends.

    ``confidence`` is that of the tables' intervals, and of the trends'.

    Active parameters and training compute are sizes of their own where a family's differ from its
    parameters, or are given.
    """
    families: dict[str, list[str]] = {}
    for model, size in sizes.items():
        if size.family is not None:
            families.setdefault(size.family, []).append(model)
    found = []
    for family, members in families.items():
        for kind in SIZES:
            sized = [model for model in members if getattr(sizes[model], kind)]
            mixture = any(sizes[m].active_parameters != sizes[m].parameters for m in sized)
            if len(sized) < 2 or (kind == "active_parameters" and not mixture):
                continue
            groups: dict[tuple[str, str, str], dict[str, Measured]] = {}
            for model in sorted(sized, key=lambda name: (getattr(sizes[name], kind), name)):
                for row in tables[model]:
                    if row["measure"] == "attack_success_rate" and not row["field"]:
                        continue  # over all attacks; each is listed by itself
                    attack = row["measure"] == "attack_success_rate" and row["field"] == "attack"
                    # One request alone has no interval, and no weight in a trend.
                    known = row["rate"] and row["low"] and row["high"]
                    if row["measure"] in MEASURES and (attack or not row["field"]) and known:
                        key = row["suite"], row["measure"], row["value"]
                        found_here = Measured(
                            getattr(sizes[model], kind),
                            int(row["successes"]),
                            int(row["n"]),
                            int(row["successes"]) / int(row["n"]),
                            float(row["low"]),
                            float(row["high"]),
                        )
                        groups.setdefault(key, {})[model] = found_here
            found += [
                Series(*key, family, kind, points, _trend(points, confidence))
                for key, points in groups.items()
                if len(points) >= 2
            ]
    return found


def _trend(points: Mapping[str, Measured], confidence: float) -> Trend:
    return trend((one.point(confidence) for one in points.values()), confidence)


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


def scaling_section(
    tables: Mapping[str, Table],
    sizes: Mapping[str, Size],
    series: list[Series],
    confidence: float = 0.95,
) -> str:
    """The tables of rates by size and of the trends, in words that say what they are."""
    rows = []
    sized = [model for model in sizes if sizes[model].parameters]
    for model in sorted(sized, key=lambda name: (sizes[name].parameters, name)):
        size = sizes[model]
        for row in tables[model]:
            if row["measure"] == "attack_success_rate" and not row["field"]:
                continue  # over all attacks; each is listed by itself
            attack = row["measure"] == "attack_success_rate" and row["field"] == "attack"
            if row["measure"] in MEASURES and (attack or not row["field"]):
                rows.append(
                    [
                        model,
                        size.family or MISSING,
                        f"{size.parameters:,.0f}" + ("" if size.counted else " (stated)"),
                        f"{size.active_parameters:,.0f}",
                        f"{size.training_compute:.3g}" if size.training_compute else MISSING,
                        row["suite"],
                        named(row["measure"], row["value"]),
                        shown_rate(row),
                    ]
                )
    if not rows:
        return "No model of the grid has weights to count or a size stated under `metadata`."
    parts = [
        "Parameters are counted from the weights, or stated under `metadata` in params.yaml. *Attack "
        "success*: share of harmful requests that the model refused as they were and answered under "
        "the attack; its denominator is the requests refused before, whose answer under the attack "
        "was judged. `pair`: a suite's own attacks on their plain twins; other names are "
        "perturbations.",
        markdown_table(
            ["Model", "Family", "Parameters", "Active", "Compute", "Suite", "Measure", "Rate"], rows
        ),
    ]
    if series:
        parts += [
            "Trend within a family: logit(rate) = intercept + slope · log10(size), a logistic "
            "regression on the counts (of answers in clusters, the number of independent answers that "
            "would give the interval shown); the slope is the change of the log-odds for a model ten "
            f"times as large, with a {percent(confidence)} interval (t, with the dispersion, at least "
            "1). *Dispersion* well above 1: the models scatter around the line by more than chance. "
            "Fewer than four models show too little of that for an interval.",
            markdown_table(
                ["Family", "Size", "Suite", "Measure", "Models", "Slope", "Dispersion"],
                [
                    [
                        one.family,
                        SIZES[one.size],
                        one.suite,
                        named(one.measure, one.value),
                        len(one.points),
                        _slope(one.trend),
                        MISSING if one.trend.dispersion is None else f"{one.trend.dispersion:.2f}",
                    ]
                    for one in series
                ],
            ),
            "![Rates over parameters, with the trend of each family](../figures/scaling.svg)",
        ]
    return "\n\n".join(parts)


def named(measure: str, value: str) -> str:
    """A rate in words, with the attack that it is of."""
    return f"{MEASURES[measure]} ({value})" if value else MEASURES[measure]


def _slope(found: Trend) -> str:
    if found.problem is not None:
        return f"none: {PROBLEMS[found.problem]}"
    if found.low is None:
        return f"{found.slope:+.3f} (no interval below {LEAST_MODELS} models)"
    return f"{found.slope:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
