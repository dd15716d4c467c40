"""Figures as SVG whose bytes depend on the numbers alone."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from stages.report import HEADLINES, Table
from stages.rows.jsonl import write_bytes

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ("#D55E00", "#0072B2", "#009E73")

SETTINGS = {
    "svg.hashsalt": "refract",  # element ids, otherwise random
    "svg.fonttype": "none",  # text stays text
    "font.family": "DejaVu Sans",  # ships with matplotlib
    "font.size": 9,
}


def refusal_figure(tables: Mapping[str, Table], path: Path) -> None:
    """One panel for each suite: refusal by category for each model, with 95 % intervals."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    suites: Sequence[str] = list(
        dict.fromkeys(row["suite"] for table in tables.values() for row in table)
    )
    # A matplotlibrc of the user's own must not change the drawing.
    with plt.style.context(["default", SETTINGS]):
        figure, axes = plt.subplots(
            1,
            len(suites),
            sharey=True,
            squeeze=False,
            figsize=(3.4 * len(suites) + 1.6, 0.5 * len(tables) + 1.6),
            layout="constrained",
        )
        for axis, suite in zip(axes[0], suites, strict=True):
            for offset, ((measure, label), colour) in enumerate(
                zip(HEADLINES, COLOURS, strict=True)
            ):
                drawn = False
                for position, table in enumerate(tables.values()):
                    for row in table:
                        if (
                            row["suite"] == suite
                            and row["measure"] == measure
                            and not row["field"]
                            and row["rate"]
                        ):
                            rate, low, high = (float(row[k]) for k in ("rate", "low", "high"))
                            axis.errorbar(
                                rate,
                                position + (offset - 1) * 0.22,
                                # Rounding can put a limit a hair inside the rate.
                                xerr=[[max(0, rate - low)], [max(0, high - rate)]],
                                fmt="o",
                                markersize=4,
                                capsize=2,
                                color=colour,
                                label=None if drawn else label,
                            )
                            drawn = True
            axis.set_title(suite, fontsize=9)
            axis.set_xlim(-0.02, 1.02)
            axis.set_xlabel("share refused")
            axis.grid(axis="x", alpha=0.3)
        axes[0][0].set_yticks(range(len(tables)), list(tables))
        axes[0][0].invert_yaxis()
        handles: dict[str, object] = {}
        for axis in axes[0]:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if handles:
            figure.legend(
                list(handles.values()), list(handles), loc="outside lower center", ncols=3
            )
        drawing = io.BytesIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    write_bytes(path, [drawing.getvalue()])
