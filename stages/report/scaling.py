"""Rates over model size: what a model's size is, the points, and the trend of each family."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stages.params import ParamsError
from stages.report import MISSING, Table, markdown_table, shown_rate
from stages.rows.jsonl import write_bytes
from stages.statistics.scaling import Point, Trend, trend

# What facts may say of a model: name, unit in words.
FACTS = {
    "family": "a text",
    "parameters": "a number of weights above 0",
    "active_parameters": "a number of weights above 0",
    "training_compute": "a number of floating-point operations above 0",
}
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
# Okabe and Ito's colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


class Size(NamedTuple):
    """How large a model is; None where it is not known. ``counted``: from its weights, not stated."""

    family: str | None
    parameters: float | None
    active_parameters: float | None
    training_compute: float | None
    counted: bool


class Series(NamedTuple):
    """One rate of one family over one kind of size: the models' points and their trend."""

    suite: str
    measure: str
    value: str
    family: str
    size: str
    points: dict[str, Point]
    trend: Trend


def model_sizes(provenance: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Size]:
    """The sizes of the models, counted from weights, and stated in ``facts`` where they are not.

    ``active_parameters`` are the parameters unless stated (mixtures of experts use some of their
    weights for each token). Raises :class:`ParamsError` for facts that cannot be used.
    """
    sizes = {}
    for model, found in provenance.items():
        given = (facts or {}).get(model) or {}
        if not isinstance(given, Mapping) or set(given) - set(FACTS):
            raise ParamsError(
                f"params.yaml: facts.{model} may have {', '.join(FACTS)} (got {given!r})"
            )
        for key, value in given.items():
            usable = (
                isinstance(value, str)
                if key == "family"
                else type(value) in (int, float) and 0 < value < float("inf")
            )
            if not usable:
                raise ParamsError(f"params.yaml: facts.{model}.{key} must be {FACTS[key]}")
        counted = found["model"].get("parameters")
        parameters = counted or given.get("parameters")
        sizes[model] = Size(
            given.get("family"),
            parameters,
            given.get("active_parameters", parameters),
            given.get("training_compute"),
            bool(counted),
        )
    return sizes


def scaling_series(tables: Mapping[str, Table], sizes: Mapping[str, Size]) -> list[Series]:
    """The rates over size of each family with two models or more, and their trends.

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
            groups: dict[tuple[str, str, str], dict[str, Point]] = {}
            for model in sorted(sized, key=lambda name: (getattr(sizes[name], kind), name)):
                for row in tables[model]:
                    attack = row["measure"] == "attack_success_rate" and row["field"] == "attack"
                    if row["measure"] in MEASURES and (attack or not row["field"]) and row["rate"]:
                        key = row["suite"], row["measure"], row["value"]
                        point = Point(
                            getattr(sizes[model], kind), int(row["successes"]), int(row["n"])
                        )
                        groups.setdefault(key, {})[model] = point
            found += [
                Series(*key, family, kind, points, trend(points.values()))
                for key, points in groups.items()
                if len(points) >= 2
            ]
    return found


def scaling_section(
    tables: Mapping[str, Table], sizes: Mapping[str, Size], series: list[Series]
) -> str:
    """The tables of rates by size and of the trends, in words that say what they are."""
    rows = []
    sized = [model for model in sizes if sizes[model].parameters]
    for model in sorted(sized, key=lambda name: (sizes[name].parameters, name)):
        size = sizes[model]
        for row in tables[model]:
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
                        _named(row["measure"], row["value"]),
                        shown_rate(row),
                    ]
                )
    if not rows:
        return "No model of the grid has weights to count or a size stated under `facts`."
    parts = [
        "Parameters are counted from the weights, or stated under `facts` in params.yaml. *Attack "
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
            "regression on the counts; the slope is the change of the log-odds for a model ten times "
            "as large, with a 95 % interval. *Dispersion* well above 1: the models scatter around "
            "the line by more than chance, and the interval is too narrow.",
            markdown_table(
                ["Family", "Size", "Suite", "Measure", "Models", "Slope", "Dispersion"],
                [
                    [
                        one.family,
                        SIZES[one.size],
                        one.suite,
                        _named(one.measure, one.value),
                        len(one.points),
                        _slope(one.trend),
                        MISSING if one.trend.dispersion is None else f"{one.trend.dispersion:.2f}",
                    ]
                    for one in series
                ],
            ),
            "![Rates over parameters, with the trend of each family](figures/scaling.svg)",
        ]
    return "\n\n".join(parts)


def _named(measure: str, value: str) -> str:
    return f"{MEASURES[measure]} ({value})" if value else MEASURES[measure]


def _slope(found: Trend) -> str:
    if found.slope is None:
        return f"none: {PROBLEMS[found.problem]}"
    return f"{found.slope:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def scaling_figure(series: list[Series], path: Path) -> None:
    """One panel for each suite and measure: rates with 95 % intervals over parameters, and the fits.

    Writes nothing, and removes what was there, if no family has two sizes.
    """
    drawn = [one for one in series if one.size == "parameters"]
    panels = list(dict.fromkeys((one.suite, one.measure, one.value) for one in drawn))
    if not panels:
        path.unlink(missing_ok=True)
        return
    import matplotlib
    import numpy as np

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    from stages.report.figures import SETTINGS
    from stages.statistics.proportions import wilson

    families = list(dict.fromkeys(one.family for one in drawn))
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    with plt.style.context(["default", SETTINGS]):
        figure, axes = plt.subplots(
            lines,
            columns,
            squeeze=False,
            sharey=True,
            figsize=(3.2 * columns + 0.6, 2.4 * lines + 0.8),
            layout="constrained",
        )
        handles: dict[str, object] = {}
        for axis, panel in zip(axes.flat, panels, strict=False):
            for one in drawn:
                if (one.suite, one.measure, one.value) != panel:
                    continue
                colour = COLOURS[families.index(one.family) % len(COLOURS)]
                for point in one.points.values():
                    rate = point.positives / point.n
                    low, high = wilson(point.positives, point.n)
                    handles[one.family] = axis.errorbar(
                        point.size,
                        rate,
                        yerr=[[rate - low], [high - rate]],
                        fmt="o",
                        markersize=4,
                        capsize=2,
                        color=colour,
                    )
                if one.trend.slope is not None:
                    sizes = [point.size for point in one.points.values()]
                    x = np.linspace(np.log10(min(sizes)), np.log10(max(sizes)), 60)
                    y = 1 / (1 + np.exp(-(one.trend.intercept + one.trend.slope * x)))
                    axis.plot(10**x, y, color=colour, linewidth=1)
            axis.set_xscale("log")
            axis.set_ylim(-0.03, 1.03)
            axis.set_title(f"{panel[0]}: {_named(*panel[1:])}", fontsize=8)
            axis.set_xlabel("parameters")
            axis.grid(alpha=0.3)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4)
        drawing = io.BytesIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    write_bytes(path, [drawing.getvalue()])
