"""The page of ``refract history``: rates over commits, drawn and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from refract.core.decimals import MISSING, estimate_text
from refract.core.showing import printable
from refract.report.drawing import Figure, Mark, drawn
from refract.results.commits import History

HEADER = ("commit", "date", "model", "suite", "measure", "rate", "change", "what changed")


def history_page(history: History) -> str:
    """A page of HTML that opens without a network."""
    marks = []
    rows = []
    for change in history.changes:
        key = change.key
        rate = change.rate
        difference = change.difference
        if rate is not None:
            line = f"{change.commit.short} {change.commit.date}"
            panel = f"{key.suite}: {key.name}"
            n, series = rate.counts.n, key.model
            mark = Mark(panel, line, series=series, n=n, x=rate.value, x_interval=rate.shown)
            marks.append(mark)
        cells = [
            change.commit.short,
            change.commit.date,
            key.model,
            key.suite,
            key.name,
            estimate_text(rate.value, rate.shown) if rate else MISSING,
            estimate_text(difference.value, difference.shown, "+") if difference else MISSING,
            change.reason,
        ]
        rows.append(_line("td", cells))
    low = min((mark.x or 0.0 for mark in marks), default=0.0)
    figure = Figure(
        name="history",
        marks=marks,
        title="Rates over commits",
        note="",
        x_label="rate",
        ticks=(0, 0.2, 0.4, 0.6, 0.8, 1) if low >= 0 else (-1, -0.5, 0, 0.5, 1),
    )
    svg = drawn(figure, "svg").decode()
    notes = [f"<p>{escape(printable(sentence))}</p>" for sentence in history.skipped]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>History</title>',
            "<style>body{font-family:sans-serif;margin:2em} .paper{fill:none} td,th{padding:0 .8em "
            "0 0;text-align:left}</style>",
            "<h1>Rates over commits</h1>",
            svg[svg.index("<svg") :],
            f"<table>{_line('th', HEADER)}",
            *rows,
            "</table>",
            *notes,
            "</html>\n",
        ]
    )


def _line(tag: str, cells: Sequence[str]) -> str:
    inner = "".join(f"<{tag}>{escape(printable(cell))}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
