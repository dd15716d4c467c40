"""Tables for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from refract.core.showing import printable, say, text_columns
from refract.core.types import Row

if TYPE_CHECKING:
    from refract.report.markdown import ShownTable

GAP = 2  # blanks between two columns
NAME = 32  # cells of a text column up to this width are never wrapped, longer ones at blanks


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, rule: bool = True) -> None:
    """A table for people, in which no word, number or name is cut or broken.

    Text stands left, numbers right. Where it is wider than the terminal it becomes several, each with
    the leading text columns and as many others as fit; where not even one fits beside these, a list. A
    pipe has no width. ``rule``: with a line under the header, and blank ones between the tables.
    """
    from rich.cells import cell_len
    from rich.console import Console

    header = [printable(name) for name in header]
    lines = [[printable(value) for value in row] for row in rows]
    text = text_columns(lines, len(header))
    width = Console().width if Console().is_terminal else None

    def needed(column: int) -> int:
        """The least width of a column: of a cell that may be wrapped its longest word."""
        parts = header[column].split()
        for line in lines:
            value = line[column]
            prose = text[column] and cell_len(value) > NAME
            parts += value.split() if prose else [value]
        return max([1, *map(cell_len, parts)])

    def natural(column: int) -> int:
        return max(cell_len(line[column]) for line in [header, *lines])

    columns = range(len(header))
    if width is None:
        widths = {column: natural(column) for column in columns}
        _print(header, lines, text, widths, rule)
        return
    least = [needed(column) for column in columns]
    # A table without numbers has one column of names, and what is said of them.
    keys = max(1, text.index(False)) if False in text else 1
    blocks = _blocks(least, keys, width)
    if any(sum(least[x] + GAP for x in block) - GAP > width for block in blocks):
        for line in lines:
            say("\n".join(f"{name}: {value}" for name, value in zip(header, line, strict=True)))
            say()
        return
    for place, block in enumerate(blocks):
        if place and rule:
            say()
        room = width - sum(least[x] + GAP for x in block) + GAP
        widths = {}
        for column in block:
            more = min(room, natural(column) - least[column])
            widths[column] = least[column] + more
            room -= more
        # A row that has nothing in the columns of a further table is not repeated there.
        held = [x for x in lines if not place or any(x[n] != "—" for n in block[keys:])]
        _print(header, held, text, widths, rule)


def _blocks(least: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """The columns of each table that is printed: the first ``keys`` of all, and the next that fit."""
    first = list(range(keys))
    blocks = [first]
    for column in range(keys, len(least)):
        full = sum(least[x] + GAP for x in blocks[-1]) + least[column] > width
        if full and blocks[-1] != first:
            blocks.append(first)
        blocks[-1] = [*blocks[-1], column]
    return blocks


def _print(
    header: Sequence[str],
    lines: Sequence[Sequence[str]],
    text: Sequence[bool],
    widths: dict[int, int],
    rule: bool,
) -> None:
    """Prints some columns of a table, each as wide as said."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def shown(value: str, column: int) -> Text:
        # Rich would strip the blanks behind a number without a mark.
        blanks = 0 if text[column] else widths[column] - cell_len(value)
        return Text(" " * blanks + value, justify="left")

    box, gap = (SIMPLE_HEAD, GAP - 1) if rule else (None, GAP)  # a box has a blank of its own
    table = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    for column, width in widths.items():
        side: Literal["left", "right"] = "left" if text[column] else "right"
        table.add_column(Text(header[column]), width=width, justify=side, vertical="bottom")
    for line in lines:
        table.add_row(*(shown(line[column], column) for column in widths))
    Console(width=sum(widths.values()) + GAP * len(widths)).print(table, crop=False)


def print_by_suite(table: ShownTable) -> None:
    """The first table of the report as one for each suite: its name, below it the models, and across
    the measures that it has."""
    for suite in dict.fromkeys(row[0] for row in table.rows):
        rows = [[f" {row[1]}", *row[2:]] for row in table.rows if row[0] == suite]
        block = table._replace(header=[suite, *table.header[2:]], rows=rows).filled
        columns = list(zip(*block.rows, strict=True))
        for place, cells in enumerate(columns[1:], 1):
            # A mark stands behind a number; numbers without one stay below each other.
            tight = [re.sub(r" (\W)$", r"\1", cell) for cell in cells]
            marked = any(map(str.__ne__, tight, cells))
            columns[place] = tuple(
                f"{new} " if marked and new == old else new
                for new, old in zip(tight, cells, strict=True)
            )
        header = [name.removesuffix(" refused") for name in block.header]
        print_table(header, list(zip(*columns, strict=True)), rule=False)


def print_text(text: str) -> None:
    """A line for people: in a terminal broken at blanks alone, but for those of an interval and before
    it, and further lines of it indented."""
    from rich.console import Console

    if (console := Console()).is_terminal:
        indent = " " * (len(text) - len(text.lstrip()) + 2)
        whole = textwrap.TextWrapper(console.width, break_long_words=False, break_on_hyphens=False)
        whole.subsequent_indent = indent
        kept = re.sub(r"\S+ \[[-+., \d]*\]", lambda found: found[0].replace(" ", "\N{NBSP}"), text)
        text = whole.fill(kept).replace("\N{NBSP}", " ")
    say(text)


def estimate_cell(numbers: Row, name: str, of: str = "", sign: str = "") -> str:
    """A number by its name, with its interval, ``{of}low`` to ``{of}high``, where that is there."""
    from refract.rates.rate import Interval
    from refract.report.wording import estimate_text

    low, high = numbers.get(f"{of}low"), numbers.get(f"{of}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval, sign)
