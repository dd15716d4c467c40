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


class _Column:
    """A column of a table, of text or of numbers; ``least`` is the width that cuts no word, ``natural``
    the one that wraps nothing."""

    def __init__(self, header: str, cells: Sequence[str], *, is_text: bool) -> None:
        from rich.cells import cell_len

        self.header = header
        self.cells = cells
        self.is_text = is_text
        words = header.split()
        for cell in cells:
            words += cell.split() if is_text and cell_len(cell) > NAME else [cell]
        self.least = max([1, *map(cell_len, words)])
        self.natural = max(map(cell_len, [header, *cells]))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, rule: bool = True) -> None:
    """A table for people, in which no word, number or name is cut or broken.

    Text stands left, numbers right. Where it is wider than the terminal it becomes several, each with
    the leading text columns and as many others as fit; where not even one fits beside these, a list. A
    pipe has no width. ``rule``: with a line under the header, and blank ones between the tables.
    """
    from rich.console import Console

    header = [printable(name) for name in header]
    lines = [[printable(value) for value in row] for row in rows]
    texts = text_columns(lines, len(header))
    columns = []
    for index, name in enumerate(header):
        cells = [line[index] for line in lines]
        columns.append(_Column(name, cells, is_text=texts[index]))
    shown = list(range(len(lines)))
    console = Console()
    if not console.is_terminal:
        _print(columns, shown, [column.natural for column in columns], rule)
        return
    # A table without numbers has one column of names; the others describe these.
    keys = max(1, texts.index(False)) if False in texts else 1
    blocks = _blocks(columns, keys, console.width)
    if any(_width(block) > console.width for block in blocks):
        for line in lines:
            for name, value in zip(header, line, strict=True):
                say(f"{name}: {value}")
            say()
        return
    for number, block in enumerate(blocks):
        if number:
            if rule:
                say()
            # A row that has nothing in the columns of a further table is not repeated there.
            shown = [n for n in range(len(lines)) if _has_any(block[keys:], n)]
        room = console.width - _width(block)
        widths = []
        for column in block:
            more = min(room, column.natural - column.least)
            widths.append(column.least + more)
            room -= more
        _print(block, shown, widths, rule)


def _has_any(columns: Sequence[_Column], line: int) -> bool:
    return any(column.cells[line] != "—" for column in columns)


def _width(block: Sequence[_Column]) -> int:
    """The least width of a table of these columns."""
    return sum(column.least + GAP for column in block) - GAP


def _blocks(columns: list[_Column], keys: int, width: int) -> list[list[_Column]]:
    """The columns of each table that is printed: the first ``keys`` of all, and the next that fit."""
    first = columns[:keys]
    blocks = [first]
    for column in columns[keys:]:
        if _width([*blocks[-1], column]) > width and blocks[-1] != first:
            blocks.append(first)
        blocks[-1] = [*blocks[-1], column]
    return blocks


def _print(
    columns: Sequence[_Column], lines: Iterable[int], widths: Sequence[int], rule: bool
) -> None:
    """Prints some lines of columns, each in its width."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A box has a blank of its own.
    padding = (0, GAP - 1 if rule else GAP, 0, 0)
    box = SIMPLE_HEAD if rule else None
    table = Table(box=box, show_edge=False, pad_edge=False, padding=padding)
    for column, width in zip(columns, widths, strict=True):
        header = Text(column.header)
        justify: Literal["left", "right"] = "left" if column.is_text else "right"
        table.add_column(header, width=width, justify=justify, vertical="bottom")
    for line in lines:
        cells = []
        for column, width in zip(columns, widths, strict=True):
            cell = column.cells[line]
            # Rich would strip the blanks behind a number without a mark.
            blanks = 0 if column.is_text else width - cell_len(cell)
            cells.append(Text(" " * blanks + cell, justify="left"))
        table.add_row(*cells)
    Console(width=sum(widths) + GAP * len(widths)).print(table, crop=False)


def brief_titles() -> dict[str, str]:
    """What the columns of refusal are called in a table that says what it shows above it."""
    from refract.rates.key import CATEGORY_MEASURES

    return {measure.title: category for category, measure in CATEGORY_MEASURES.items()}


def print_by_suite(table: ShownTable) -> None:
    """The first table of the report as one for each suite: its name, below it the models, and across
    the measures that it has."""
    titles = brief_titles()
    suites: dict[str, list[list[str]]] = {}
    for suite, model, *cells in table.rows:
        suites.setdefault(suite, []).append([f" {model}", *cells])
    for suite, rows in suites.items():
        block = table._replace(header=[suite, *table.header[2:]], rows=rows).filled
        columns = list(zip(*block.rows, strict=True))
        aligned = [columns[0], *map(_align_marks, columns[1:])]
        header = [titles.get(name, name) for name in block.header]
        print_table(header, list(zip(*aligned, strict=True)), rule=False)


def _align_marks(cells: Sequence[str]) -> Sequence[str]:
    """Numbers with their marks right behind them; those without one stay below each other."""
    tight = [re.sub(r" (\W)$", r"\1", cell) for cell in cells]
    if tight == list(cells):
        return cells
    aligned = []
    for old, new in zip(cells, tight, strict=True):
        aligned.append(f"{new} " if new == old else new)
    return aligned


def print_text(text: str) -> None:
    """A line for people: in a terminal broken at blanks alone, but for those of an interval and before
    it, and further lines of it indented."""
    from rich.console import Console

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


def estimate_cell(numbers: Row, name: str, prefix: str = "", sign: str = "") -> str:
    """A number by its name, with its interval, ``{prefix}low`` to ``{prefix}high``, where it has one."""
    from refract.core.decimals import estimate_text
    from refract.rates.rate import Interval

    low, high = numbers.get(f"{prefix}low"), numbers.get(f"{prefix}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval, sign)
