"""Markdown that is inert whatever a text holds, and the templates of the report and of its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refract.core.showing import printable
from refract.report import wording

if TYPE_CHECKING:
    import jinja2

    from refract.report.wording import Titles

TEMPLATES = Path(__file__).parent / "templates"
# Markdown's own marks, the backslash included: unescaped, it would undo the next escape.
ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", **{mark: f"\\{mark}" for mark in "\\|`[]*~$"}},
)


def blanked(text: object) -> str:
    """A text in one line, with a blank for each character that does not show."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def cell(text: object) -> str:
    """A text as one cell of a Markdown table, inert whatever it holds."""
    return blanked(text).translate(ESCAPED)


def text_columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Which columns are texts, to be left-aligned: those in which no cell starts as a number does."""
    return [
        not any(re.match(r"[-+−—<\[\d]", str(row[column])) for row in rows)
        for column in range(len(header))
    ]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: columns of texts left-aligned, those of numbers right-aligned."""
    rows = list(rows)
    ends = (":--" if text else "--:" for text in text_columns(header, rows))
    lines = [f"| {' | '.join(map(cell, header))} |", f"|{'|'.join(ends)}|"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


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
        "short": wording.short_estimate,
        "table": lambda table: Markup(table.markdown),
        "three": wording.three,
    }
    return templates


def tidy(text: str) -> str:
    """A rendered text without blank lines around it, and with one at most between two lines."""
    return re.sub(r"\n{3,}", "\n\n", text.strip())
