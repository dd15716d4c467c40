"""``refract export --as latex``: tables in LaTeX that fits one column of an article, and in
Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Literal

from pydantic import Field

from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.settings import Settings
from refract.export import Export, check_known
from refract.report.markdown import ShownTable, blanked, cell
from refract.report.wording import percent
from refract.results.current import current_note
from refract.results.sources import find_side
from refract_paper.paper_tables import PaperTable, paper_table

# What LaTeX would obey, or set as another character, in text.
_MARKS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    '"': r"\char`\"{}",
    "—": r"\textemdash{}",
    "–": r"\textendash{}",
    "−": "$-$",
    "…": r"\dots{}",
    "κ": r"$\kappa$",
    "±": r"$\pm$",
    "°": r"$^{\circ}$",
    "√": r"$\surd$",
    "✂": r"\textsuperscript{\S}",
    "†": r"\textsuperscript{\dag}",
    "‡": r"\textsuperscript{\ddag}",
}
# How many points wide a table may be before it is divided; above the 345 of a column of an article it is
# made smaller. And how many a character takes at footnotesize.
WIDTH, POINTS = 395, 3.8
ROWS = 30  # of all parts of one float
_LATEX = str.maketrans({mark: f"\\{mark}" for mark in "{}$&#%_"} | _MARKS)


class TableSettings(Settings):
    """What a table shows; see :func:`refract_paper.paper_tables.paper_table`."""

    measures: list[str] = Field(default_factory=list)
    digits: Literal[2, 3] = 2


def write_table(export: Export) -> Iterator[str]:
    """Rates with intervals as ``rates.tex`` and ``rates.md``; the source can be a revision, a
    model of the grid or ``REVISION:MODEL`` too."""
    settings = export.settings(TableSettings)
    side = find_side(Path.cwd(), export.source)
    names = list(export.models) or list(side.results)
    check_known("--model", names, side.results)
    rates = {name: side.results[name].rates for name in names}
    bare = [name for name in names if not rates[name]]
    if bare:
        raise UsageError(f"{side.name} has outcomes of {', '.join(bare)}, and no table of rates")
    facts = {name: side.results[name].provenance or {} for name in names}
    decisions = [provenance.get("decisions") or {} for provenance in facts.values()]
    levels = sorted({float(decided.get("confidence") or 0.95) for decided in decisions})
    table = paper_table(
        rates,
        facts,
        suites=export.suites,
        measures=settings.measures,
        places=settings.digits,
        level=", ".join(map(percent, levels)),
    )
    for name, text in (("rates.tex", as_latex(table)), ("rates.md", as_markdown(table))):
        write_bytes(export.out / name, [text.encode("utf-8", "backslashreplace")])
        yield f"{export.out / name}"
    if side.reasons:
        yield f"note: {current_note(side.reasons)}"


def as_markdown(table: PaperTable) -> str:
    """The table as Markdown, its caption above and its notes below."""
    shown = ShownTable(table.header, table.rows, table.notes).markdown
    return "\n\n".join(filter(None, (cell(table.caption), shown))) + "\n"


def latex(text: str) -> str:
    """A text as LaTeX sets it; characters that do not show become blanks."""
    # Two or three hyphens would be a dash, two commas a quotation mark.
    return re.sub("(?<=-)-|(?<=,),", r"{}\g<0>", blanked(text).translate(_LATEX))


def prose(text: str) -> str:
    """The same for running text, in which a line may end behind an underscore."""
    return latex(text).replace(r"\_", r"\_\allowbreak{}")


def typewriter(text: str) -> str:
    """The same in typewriter; a line may end behind every sixth character."""
    parts = re.findall(".{1,6}", blanked(text))
    return r"\texttt{" + r"\allowbreak{}".join(map(latex, parts)) + "}"


def as_latex(table: PaperTable) -> str:
    r"""The table as floats with caption and visible notes, in one column of an article.

    Columns that do not fit stand in further parts under the first ones, with the names; a part that is
    wider all the same, for long names, is set smaller. Many rows are divided into several floats.
    """
    parts = _parts(table)
    number = ceil(len(table.rows) * len(parts) / ROWS) or 1
    most = ceil(len(table.rows) / number) or 1
    floats = [table.rows[n : n + most] for n in range(0, len(table.rows), most)] or [[]]
    lines = [r"% \usepackage{booktabs,graphicx}"]
    for number, rows in enumerate(floats):
        label = rf"\label{{tab:refract-{table.label}}}" if not number else ""
        more = " (continued)" if number else ""
        lines += [r"\begin{table}[tbp]", r"\centering\footnotesize\setlength{\tabcolsep}{4pt}"]
        lines.append(rf"\caption{{{prose(table.caption)}{more}}}{label}")
        for columns in parts:
            lines += [r"\sbox0{%", *_tabular(table, rows, columns), "}%"]
            lines += [
                r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else",
                r"\usebox0\fi",
            ]
            lines.append(r"\par\medskip")
        if table.notes and number == len(floats) - 1:
            notes = (rf"{prose(note)}\par" for note in table.notes)
            lines += [r"\parbox{\linewidth}{\raggedright", *notes, "}"]
        lines.append(r"\end{table}")
    return "\n".join([*lines, ""])


def _parts(table: PaperTable) -> list[list[int]]:
    """The columns of each part: as many as a line holds."""
    rows = [table.header, *table.rows]
    widths = [POINTS * max(len(row[n]) for row in rows) + 8 for n in range(len(table.header))]
    names = [*range(int(table.grouped), table.names)]
    parts: list[list[int]] = []
    for column in range(table.names, len(table.header)):
        if not parts or sum(widths[n] for n in [*names, *parts[-1], column]) > WIDTH:
            parts.append([])
        parts[-1].append(column)
    return [[*names, *part] for part in parts] or [names]


def _tabular(table: PaperTable, rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[str]:
    """Some columns; what rows are grouped by stands above them, once."""
    left = "".join("l" if n < table.names else "r" for n in columns)
    lines = [
        rf"\begin{{tabular}}{{{left}}}",
        r"\toprule",
        _line([table.header[n] for n in columns]),
    ]
    before = None
    for row in rows:
        if before is None or (table.grouped and row[0] != before):
            lines.append(r"\midrule")
            if table.grouped:
                lines.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\itshape {latex(row[0])}}} \\")
        lines.append(_line([row[n] for n in columns]))
        before = row[0]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _line(cells: Sequence[str]) -> str:
    # At the start of a line, these would be an option of the command before it.
    guard = "{}" if cells[0].startswith(("[", "*")) else ""
    return guard + " & ".join(map(latex, cells)) + r" \\"
