"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.showing import printable


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
