"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from refract.core.decimals import estimate_text
from refract.core.showing import printable, text_columns
from refract.core.types import Row
from refract.rates.key import CATEGORY_MEASURES
from refract.rates.rate import Interval
from refract.report.markdown import ShownTable

GAP = 2  # blanks between two columns
NAME = 32  # cells of a text column; longer texts are wrapped where the terminal is narrow


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, rule: bool = True) -> None:
    """A table for people: text stands left, numbers right, and no number or short text is wrapped.

    A pipe has no width. Without a ``rule`` below the header numbers stand left, too."""
    lines = [[printable(value) for value in row] for row in rows]
    texts = text_columns(lines, len(header))
    # A box has a blank of its own.
    padding = (0, GAP - 1 if rule else GAP, 0, 0)
    box = SIMPLE_HEAD if rule else None
    table = Table(box=box, show_edge=False, pad_edge=False, padding=padding)
    columns = []
    least = most = 0
    for index, name in enumerate(map(printable, header)):
        cells = [line[index] for line in lines]
        width = max(map(cell_len, [name, *cells]))
        left = texts[index] or not rule
        short = width <= NAME or not left
        least += GAP + (width if short else NAME)
        most += GAP + width
        side: Literal["left", "right"] = "left" if left else "right"
        table.add_column(Text(name), justify=side, vertical="bottom", no_wrap=short)
        columns.append(map(Text, cells))
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    console = Console()
    width = min(most, max(least, console.width)) if console.is_terminal else most
    Console(width=width).print(table, crop=False)


def print_by_suite(table: ShownTable) -> None:
    """The first table of the report as one for each suite: its name, below it the models, and across
    the measures that it has, of refusal by category."""
    titles = {measure.title: category for category, measure in CATEGORY_MEASURES.items()}
    suites: dict[str, list[list[str]]] = {}
    for suite, model, *cells in table.rows:
        suites.setdefault(suite, []).append([f" {model}", *cells])
    for suite, rows in suites.items():
        block = table._replace(header=[suite, *table.header[2:]], rows=rows).filled
        # Numbers stand left, so that the marks behind some of them move none.
        print_table([titles.get(name, name) for name in block.header], block.rows, rule=False)


def print_confusion(corner: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Prints how often labels of two raters met, by the first rater's label and the second's."""
    columns: dict[str, None] = {}
    for row in counts.values():
        columns |= dict.fromkeys(row)
    rows = []
    for label, row in counts.items():
        rows.append([label, *(str(row.get(column, 0)) for column in columns)])
    print_table([corner, *columns], rows)


def estimate_cell(numbers: Row, name: str, prefix: str = "") -> str:
    """A number by its name, with its interval, ``{prefix}low`` to ``{prefix}high``, where it has one."""
    low, high = numbers.get(f"{prefix}low"), numbers.get(f"{prefix}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval)
