"""Tables for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from refract.core.showing import printable, say, text_columns
from refract.core.types import Row

GAP = 2  # blanks between two columns
NAME = 32  # cells of a text column up to this width are never wrapped, longer ones at blanks


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for people, in which no word, number or name is cut or broken.

    Text stands left, numbers right. Where it is wider than the terminal it becomes several, each with
    the leading text columns and as many others as fit; where not even one fits beside these, a list. A
    pipe has no width.
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
        _print(header, lines, text, {column: natural(column) for column in columns})
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
        if place:
            say()
        room = width - sum(least[x] + GAP for x in block) + GAP
        widths = {}
        for column in block:
            more = min(room, natural(column) - least[column])
            widths[column] = least[column] + more
            room -= more
        # A row that has nothing in the columns of a further table is not repeated there.
        held = [x for x in lines if not place or any(x[n] != "—" for n in block[keys:])]
        _print(header, held, text, widths)


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
) -> None:
    """Prints some columns of a table, each as wide as said."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in widths.items():
        table.add_column(
            Text(header[column]),
            width=width,
            justify="left" if text[column] else "right",
            vertical="bottom",
        )
    for line in lines:
        table.add_row(*(Text(line[column]) for column in widths))
    Console(width=sum(widths.values()) + GAP * len(widths)).print(table, crop=False)


def print_text(text: str) -> None:
    """A line for people: in a terminal broken at blanks alone, and further lines of it indented."""
    from rich.console import Console

    if (console := Console()).is_terminal:
        indent = " " * (len(text) - len(text.lstrip()) + 2)
        text = textwrap.fill(
            text,
            console.width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    say(text)


def estimate_cell(numbers: Row, name: str, of: str = "", sign: str = "") -> str:
    """A number by its name, with its interval, ``{of}low`` to ``{of}high``, where that is there."""
    from refract.rates.rate import Interval
    from refract.report.wording import estimate_text

    low, high = numbers.get(f"{of}low"), numbers.get(f"{of}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval, sign)
