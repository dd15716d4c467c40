"""Tables for people."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from refract.core.decimals import estimate_text
from refract.core.showing import printable, say, text_columns
from refract.core.types import Row
from refract.rates.key import CATEGORY_MEASURES
from refract.rates.rate import Interval
from refract.report.markdown import ShownTable

GAP = 2  # blanks between two columns
NAME = 32  # cells of a text column up to this width are never wrapped, longer ones at blanks


@dataclass(frozen=True)
class _Column:
    """A column of a table. ``least`` is the width that cuts no word, ``natural`` the one that wraps
    nothing."""

    header: str
    cells: Sequence[str]
    is_text: bool

    @property
    def least(self) -> int:
        words = self.header.split()
        for cell in self.cells:
            words += cell.split() if self.is_text and cell_len(cell) > NAME else [cell]
        return max([1, *map(cell_len, words)])

    @property
    def natural(self) -> int:
        return max(map(cell_len, [self.header, *self.cells]))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, rule: bool = True) -> None:
    """A table for people, in which no word, number or name is cut or broken.

    Text stands left, and so do numbers without a ``rule`` below the header. Where it is wider than the
    terminal it becomes several, each with the leading text columns and as many others as fit; where
    not even one fits beside these, a list. A pipe has no width.
    """
    lines = [[printable(value) for value in row] for row in rows]
    texts = text_columns(lines, len(header))
    columns = []
    for index, name in enumerate(header):
        cells = [line[index] for line in lines]
        columns.append(_Column(printable(name), cells, texts[index] or not rule))
    console = Console()
    width = console.width if console.is_terminal else sys.maxsize
    # A table without numbers has one column of names; the others describe these.
    keys = max(1, texts.index(False)) if False in texts else 1
    blocks = [columns[:keys]]
    for column in columns[keys:]:
        if _width([*blocks[-1], column]) > width and len(blocks[-1]) > keys:
            blocks.append(columns[:keys])
        blocks[-1] = [*blocks[-1], column]
    if any(_width(block) > width for block in blocks):
        for line in lines:
            for column, value in zip(columns, line, strict=True):
                say(f"{column.header}: {value}")
            say()
        return
    for number, block in enumerate(blocks):
        shown = list(range(len(lines)))
        if number:
            if rule:
                say()
            # A row that has nothing in the columns of a further table is not repeated there.
            shown = [n for n in shown if any(column.cells[n] != "—" for column in block[keys:])]
        _print(block, shown, width - _width(block), rule=rule)


def _width(block: Sequence[_Column]) -> int:
    """The least width of a table of these columns."""
    return sum(column.least + GAP for column in block) - GAP


def _print(columns: Sequence[_Column], lines: Iterable[int], room: int, rule: bool) -> None:
    """Prints some lines of columns, which share the ``room`` beyond their least width."""
    # A box has a blank of its own.
    padding = (0, GAP - 1 if rule else GAP, 0, 0)
    box = SIMPLE_HEAD if rule else None
    table = Table(box=box, show_edge=False, pad_edge=False, padding=padding)
    widths = []
    for column in columns:
        more = min(room, column.natural - column.least)
        room -= more
        widths.append(column.least + more)
        table.add_column(
            Text(column.header),
            width=widths[-1],
            justify="left" if column.is_text else "right",
            vertical="bottom",
        )
    for line in lines:
        cells = []
        for column, width in zip(columns, widths, strict=True):
            cell = column.cells[line]
            # Rich would strip the blanks behind a number without a mark.
            blanks = 0 if column.is_text else width - cell_len(cell)
            cells.append(Text(" " * blanks + cell, justify="left"))
        table.add_row(*cells)
    Console(width=sum(widths) + GAP * len(widths)).print(table, crop=False)


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


def print_text(text: str) -> None:
    """A line for people: in a terminal broken at blanks alone, but for those of an interval and before
    it, and further lines of it indented."""
    console = Console()
    if console.is_terminal:
        indent = " " * (len(text) - len(text.lstrip()) + 2)
        kept = re.sub(r"\S+ \[[-+., \d]*\]", lambda match: match[0].replace(" ", "\N{NBSP}"), text)
        text = textwrap.fill(
            kept,
            console.width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ).replace("\N{NBSP}", " ")
    say(text)


def print_confusion(corner: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Prints how often labels of two raters met, by the first rater's label and the second's."""
    columns: dict[str, None] = {}
    for row in counts.values():
        columns |= dict.fromkeys(row)
    rows = []
    for label, row in counts.items():
        rows.append([label, *(str(row.get(column, 0)) for column in columns)])
    print_table([corner, *columns], rows)


def estimate_cell(numbers: Row, name: str, prefix: str = "", sign: str = "") -> str:
    """A number by its name, with its interval, ``{prefix}low`` to ``{prefix}high``, where it has one."""
    low, high = numbers.get(f"{prefix}low"), numbers.get(f"{prefix}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval, sign)
