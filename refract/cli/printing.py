"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.showing import printable
from refract.core.types import Row


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for people: Rich on a terminal, uncut when piped."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in header:
        table.add_column(Text(printable(name)))
    for row in rows:
        table.add_row(*(Text(printable(value)) for value in row))
    console = Console()
    # A pipe has no width: nothing is cut or wrapped there.
    Console(width=None if console.is_terminal else 1000).print(table)


def estimate_cell(numbers: Row, name: str, of: str = "", sign: str = "") -> str:
    """A number by its name, with its interval, ``{of}low`` to ``{of}high``, where that is there."""
    from refract.rates.rate import Interval
    from refract.report.wording import estimate_text

    low, high = numbers.get(f"{of}low"), numbers.get(f"{of}high")
    interval = None if low is None or high is None else Interval(low, high)
    return estimate_text(numbers.get(name), interval, sign)
