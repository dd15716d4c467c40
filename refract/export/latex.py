"""Tables for a paper: rates with intervals, by suite and model, in Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refract.core.errors import UsageError
from refract.core.settings import nearest
from refract.report.markdown import (
    MISSING,
    cell,
    excluded_counts,
    left_out,
    markdown_table,
    rate_of,
    shown_interval,
    shown_rate,
)
from refract.report.summary import HEADLINES
from refract.results.tables import Table, plain

# What LaTeX would obey, or set as another character, in text.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: f"\\{mark}" for mark in "{}$&#%_"},
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
    }
)


class PaperTable(NamedTuple):
    """``header`` and ``rows`` of texts, the first ``names`` columns being names; ``notes`` below."""

    header: list[str]
    rows: list[list[str]]
    names: int
    notes: list[str]


def paper_table(
    tables: Mapping[str, Table],
    *,
    suites: Sequence[str] = (),
    measures: Sequence[str] = (),
    by: str | None = None,
    short: bool = False,
    level: str = "95 %",
) -> PaperTable:
    """The rates of some models, a column for each measure.

    ``suites`` and ``measures`` default to all suites and the refusal rates by category; with ``by``,
    a row for each value of that field. ``short`` cells hold rate and interval alone; what they leave
    out is in the notes. Raises :class:`UsageError` for what the tables do not have.
    """
    found = {model: _chosen(table, suites, by) for model, table in tables.items()}
    every = [row for table in tables.values() for row in table]
    _known("--suite", suites, {name for row in every for name in (row["suite"], plain(row))})
    _known("--by", [by] if by else [], {row["field"] for row in every} - {""})
    here = {row["measure"] for rows in found.values() for row in rows}
    _known("--measure", measures, here)
    titles = dict(HEADLINES)
    columns = list(measures) or [measure for measure in titles if measure in here]
    if not columns:
        raise UsageError(f"name measures with --measure; there are: {', '.join(sorted(here))}")
    rows, notes = [], []
    of = {
        (row["suite"], model, row["value"], row["measure"]): row
        for model, table in found.items()
        for row in table
    }
    lines = [
        key for key in dict.fromkeys(key[:3] for key in of) if any((*key, m) in of for m in columns)
    ]
    order = {suite: place for place, suite in enumerate(dict.fromkeys(key[0] for key in lines))}
    lines.sort(key=lambda key: order[key[0]])
    one_suite = len(order) == 1
    for suite, model, value in lines:
        cells = [of.get((suite, model, value, measure)) for measure in columns]
        names = [*([] if one_suite else [suite]), model, *([value] if by else [])]
        rows.append([*names, *(_short(one) if short else shown_rate(one) for one in cells)])
        if short:
            where = ", ".join(filter(None, (suite, model, value)))
            notes += [f"{where}: {note}" for one in cells if one and (note := _limits(one))]
    header = [*([] if one_suite else ["Suite"]), "Model", *([by] if by else [])]
    what = f"Rates with {level} intervals"
    what += " and counts." if not short else "."
    return PaperTable(
        [*header, *(titles.get(measure, measure.replace("_", " ")) for measure in columns)],
        rows,
        len(header),
        [f"{what} Suite: {next(iter(order))}." if one_suite else what, *notes],
    )


def _chosen(table: Table, suites: Sequence[str], by: str | None) -> Table:
    return [
        row
        for row in table
        if row["field"] == (by or "")
        and (not suites or row["suite"] in suites or plain(row) in suites)
    ]


def _known(option: str, wanted: Sequence[str], known: set[str]) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"{option} {name!r} is not in these results{nearest(name, known)}; there are: "
                f"{', '.join(sorted(known))}"
            )


def _short(row: Mapping[str, str] | None) -> str:
    if row is None or not row["rate"]:
        return MISSING
    return f"{rate_of(row):.3f} {shown_interval(row)}".rstrip()


def _limits(row: Mapping[str, str]) -> str:
    """What a short cell does not say: answers that are in no rate, and those that were cut off."""
    said = []
    if excluded_counts(row):
        said.append(f"not judged: {left_out(row)}")
    if int(row.get("cut_off") or 0):
        said.append(f"{row['cut_off']} of {row['n']} cut off at the token limit")
    return f"{row['measure']}, {'; '.join(said)}" if said else ""


def as_markdown(table: PaperTable) -> str:
    """The table as Markdown, its notes below."""
    shown = markdown_table(table.header, table.rows)
    return "\n".join([shown, "", *(f"- {cell(note)}" for note in table.notes), ""])


def latex(text: str) -> str:
    """A text as LaTeX sets it, whatever it holds; characters that do not show become blanks."""
    shown = "".join(c if c.isprintable() else " " for c in text).translate(_LATEX)
    # Two or three hyphens would be a dash, two commas a quotation mark.
    return re.sub("(?<=-)-|(?<=,),", r"{}\g<0>", shown)


def as_latex(table: PaperTable) -> str:
    r"""The table as a ``tabular`` with the rules of booktabs; notes are comments.

    Suites are set apart by a ``\midrule``.
    """
    lines = [rf"% \usepackage{{booktabs}}; {_comment(note)}" for note in table.notes[:1]]
    lines += [f"% {_comment(note)}" for note in table.notes[1:]]
    numbers = len(table.header) - table.names
    lines += [rf"\begin{{tabular}}{{{'l' * table.names}{'r' * numbers}}}", r"\toprule"]
    lines += [_line(table.header), r"\midrule"]
    before = None
    for row in table.rows:
        first = table.header[0] == "Suite"
        if first and before not in (None, row[0]):
            lines.append(r"\midrule")
        # A suite is named once.
        lines.append(_line(["", *row[1:]] if first and row[0] == before else row))
        before = row[0]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _line(cells: Sequence[str]) -> str:
    # At the start of a line, these would be an option of the command before it.
    guard = "{}" if cells[0].startswith(("[", "*")) else ""
    return guard + " & ".join(map(latex, cells)) + r" \\"


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
