"""Markdown that is inert whatever a text holds, and the templates of the report and of its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.core.showing import printable, text_columns
from refract.rates.rate import rounded
from refract.report import wording

if TYPE_CHECKING:
    import jinja2

    from refract.report.wording import Titles

TEMPLATES = Path(__file__).parent / "templates"
# Markdown's own marks, the backslash included: unescaped, it would undo the next escape.
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", **{mark: f"\\{mark}" for mark in "\\|`[]*~$"}})


def blanked(text: object) -> str:
    """A text in one line, with a blank for each character that does not show."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def cell(text: object) -> str:
    """A text as one cell of a Markdown table, inert whatever it holds."""
    return blanked(text).translate(ESCAPED)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: columns of texts left-aligned, those of numbers right-aligned."""
    rows = list(rows)
    cells = [[str(value) for value in row] for row in rows]
    ends = (":--" if text else "--:" for text in text_columns(cells, len(header)))
    lines = [f"| {' | '.join(map(cell, header))} |", f"|{'|'.join(ends)}|"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


class ShownTable(NamedTuple):
    """A table of plain texts; each of ``notes`` is a line to stand under it."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    @property
    def filled(self) -> ShownTable:
        """The table without the columns that are empty in all rows."""
        kept = [
            n
            for n in range(len(self.header))
            if any(row[n] not in ("", wording.MISSING) for row in self.rows)
        ]
        rows = [[row[n] for n in kept] for row in self.rows]
        return ShownTable([self.header[n] for n in kept], rows, self.notes)

    def first(self, most: int) -> ShownTable:
        """The table with so many rows at most."""
        return self._replace(rows=self.rows[:most])

    @property
    def markdown(self) -> str:
        """The table in Markdown, its notes below, a line each; empty without rows and notes."""
        table = markdown_table(self.header, self.rows) if self.rows else ""
        return "\n\n".join(filter(None, (table, "\\\n".join(map(cell, self.notes)))))


@cache
def _read(file: Path) -> dict[str, Any]:
    from refract.core.params import read_yaml

    return dict(read_yaml(file))


def columns_of(
    titles: Titles,
    name: str,
    rows: Iterable[Mapping[str, Any]],
    file: Path = TEMPLATES / "tables.yaml",
    **more: Any,
) -> tuple[list[str], list[list[Any]]]:
    """Titles and rows of the table of this name in a YAML file, which has for each column its title, a
    template of ``more``, and the expression of its values, of ``more`` and what a row holds."""
    templates = environment(titles, markdown=False).overlay(autoescape=False)
    columns = _read(file)[name].items()
    header = [templates.from_string(title).render(more) for title, _ in columns]
    # All columns as one list, since the template takes far longer to enter than to compute a value.
    values = templates.compile_expression(
        f"[{', '.join(f'({of})|default(none)' for _, of in columns)}]"
    )
    return header, [list(values(more | dict(row)) or ()) for row in rows]


def shown_table(
    titles: Titles, name: str, rows: Iterable[Mapping[str, Any]], *given: Path, **more: Any
) -> ShownTable:
    """The same as texts, empty for None."""
    header, made = columns_of(titles, name, rows, *given, **more)
    return ShownTable(header, [["" if x is None else str(x) for x in row] for row in made], [])


def environment(titles: Titles, *, markdown: bool) -> jinja2.Environment:
    """The report's templates, in which every value is escaped, for Markdown or for HTML.

    Filters write rates and other numbers as :mod:`refract.report.wording` does, and names as readers
    know them.
    """
    import jinja2
    from markupsafe import Markup

    def inert(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(cell(value))

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=inert if markdown else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "suite": titles.suite,
        "model": titles.model,
        "rate": wording.rate_text,
        "limit": wording.limit_text,
        "p": wording.p_text,
        "percent": wording.percent,
        "printable": printable,
        "points": lambda value: f"{value:+.1f}",
        "plain": wording.plain,
        "rounded": lambda value: None if value is None else rounded(value),
        "count": lambda value: wording.MISSING if value is None else f"{value:,}",
        "bounds": wording.bounds_text,
        "clusters": wording.clusters_text,
        "estimate": wording.estimate_text,
        "interval": wording.interval_text,
        "kinds": wording.kinds_text,
        "short": wording.short_estimate,
        "rate_short": wording.short_text,
        "table": lambda table: Markup(table.markdown),
        "three": wording.three,
    }
    return templates


def tidy(text: str) -> str:
    """A rendered text without blank lines around it, and with one at most between two lines."""
    return re.sub(r"\n{3,}", "\n\n", text.strip())
