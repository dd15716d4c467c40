"""Tables of plain texts, Markdown that is inert whatever a text holds, and the templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from refract.core.decimals import MISSING
from refract.core.showing import text_columns
from refract.report import wording

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"
MOST = 45  # rows of a table of a page; a table has all of them where there are more
# Markdown's own marks, the backslash included: unescaped, it would undo the next escape.
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;"} | {mark: f"\\{mark}" for mark in "\\|`[]*~$"})


def blanked(text: object) -> str:
    """A text in one line, with a blank for each character that does not show."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def cell(text: object) -> str:
    """A text as one cell of a Markdown table, inert whatever it holds."""
    # An underscore within a word is no mark.
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", blanked(text).translate(ESCAPED))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: columns of texts left-aligned, those of numbers right-aligned."""

    def line(values: Sequence[object]) -> str:
        return f"| {' | '.join(map(cell, values))} |"

    cells = [list(map(str, row)) for row in rows]
    ends = (":--" if text else "--:" for text in text_columns(cells, len(header)))
    return "\n".join([line(header), f"|{'|'.join(ends)}|", *map(line, cells)])


class ShownTable(NamedTuple):
    """A table of plain texts; each of ``notes`` is a line to stand under it."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str]

    @property
    def filled(self) -> ShownTable:
        """The table without the columns that are empty in all rows."""
        empty, columns = {"", MISSING}, range(len(self.header))
        kept = [place for place in columns if {row[place] for row in self.rows} - empty]
        rows = [[row[place] for place in kept] for row in self.rows]
        return ShownTable([self.header[place] for place in kept], rows, self.notes)

    @property
    def markdown(self) -> str:
        """The table in Markdown, its notes below, a line each; empty without rows and notes."""
        table = markdown_table(self.header, self.rows) if self.rows else ""
        return "\n\n".join(filter(None, (table, "\\\n".join(map(cell, self.notes)))))

    def most(self, place: str, rows: int = MOST) -> str:
        """So many rows of it in Markdown, with the place of all of them, in Markdown too."""
        if len(self.rows) <= rows:
            return self.markdown
        shown = self._replace(rows=self.rows[:rows])
        return f"The first {rows} of {len(self.rows):,} rows; all: {place}.\n\n{shown.markdown}"


def shown_table(
    rows: Iterable[Mapping[str, object]], notes: Iterable[str] = (), *, filled: bool = True
) -> ShownTable:
    """A table of rows by column, None as an empty cell; ``filled``: without the columns that
    are empty in all rows."""
    header, texts = [], []
    for row in rows:
        header = list(row)
        texts.append(["" if value is None else str(value) for value in row.values()])
    table = ShownTable(header, texts, list(filter(None, notes)))
    return table.filled if filled else table


def html_environment() -> jinja2.Environment:
    """The templates as those of HTML."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def environment() -> jinja2.Environment:
    """The report's templates, in which every value is escaped. Filters write numbers as
    :mod:`refract.report.wording` does."""
    from markupsafe import Markup

    templates = html_environment().overlay(
        finalize=lambda value: value if isinstance(value, Markup) else Markup(cell(value)),
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "limit": wording.limit_text,
        "percent": wording.percent,
        "table": lambda table: Markup(table.markdown),
        "most": lambda table, *most: Markup(table.most(*most)),
    }
    return templates


def tidy(text: str) -> str:
    """A rendered text without blank lines around it, and with one at most between two lines."""
    return re.sub(r"\n{3,}", "\n\n", text.strip())


def as_html(text: str, images: Mapping[str, str]) -> str:
    """A page of the report as HTML: no text is markup, a link leads to a page that stands beside
    it (``#page-NAME``) or is none, and images, by name, are in it."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for token in tokens:
        token.attrs.pop("style", None)  # no policy lets it stand
        if token.type.startswith("heading"):
            token.tag = f"h{int(token.tag[1:]) + 1}"
        tag = "a"
        for part in token.children or ():
            if part.type == "link_open":
                page = Path(str(part.attrs["href"]))
                tag = "a" if page.suffix == ".md" else "span"
                part.attrs = {"href": f"#page-{page.stem}"} if tag == "a" else {}
            elif part.type == "image":
                source = images.get(Path(str(part.attrs["src"])).stem, "")
                part.attrs = {**part.attrs, "src": source, "class": "chart"}
            if part.type in ("link_open", "link_close"):
                part.tag = tag
    html = reader.renderer.render(tokens, reader.options, {})
    scrolling = '<div class="scroll" tabindex="0"><table>'
    return str(html.replace("<table>", scrolling).replace("</table>", "</table></div>"))
