"""Tables for a paper: rates with intervals, by suite and model, in Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refract.core.errors import UsageError
from refract.rates.rate import Rate
from refract.report.markdown import blanked, cell, markdown_table
from refract.report.view import HEADLINES, check_names, plain
from refract.report.wording import MISSING, estimate_text, kinds_text, rate_text

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
}
_LATEX = str.maketrans({mark: f"\\{mark}" for mark in "{}$&#%_"} | _MARKS)


class PaperTable(NamedTuple):
    """``header`` and ``rows`` of texts, the first ``names`` columns being names; ``notes`` below."""

    header: list[str]
    rows: list[list[str]]
    names: int
    notes: list[str]


def paper_table(
    tables: Mapping[str, Sequence[Rate]],
    *,
    suites: Sequence[str] = (),
    measures: Sequence[str] = (),
    by: str | None = None,
    short: bool = False,
    level: str = "95 %",
    note: str = "",
) -> PaperTable:
    """The rates of some models, a column for each measure.

    ``suites`` and ``measures`` default to all suites and the refusal rates by category; with ``by``,
    a row for each value of that field. ``short`` cells hold rate and interval alone; what they leave
    out is in the notes, behind ``note``. Raises :class:`UsageError` for what the tables do not have.
    """
    every = [rate for rates in tables.values() for rate in rates]
    labels = {label for rate in every for label in (rate.suite, plain(rate.suite))}
    check_names("--suite", suites, sorted(labels))
    check_names("--by", filter(None, [by]), sorted({r.group.field for r in every if r.group}))
    lines: dict[tuple[str, str, str], dict[str, Rate]] = {}
    for model, rates in tables.items():
        for rate in rates:
            wanted = not suites or rate.suite in suites or plain(rate.suite) in suites
            if wanted and rate.group.field == (by or ""):
                key = rate.suite, model, rate.group.value
                lines.setdefault(key, {})[rate.measure] = rate
    present = sorted({measure for rates in lines.values() for measure in rates})
    check_names("--measure", measures, present)
    columns = list(measures) or [measure for measure in HEADLINES if measure in present]
    if not columns:
        raise UsageError(f"name measures with --measure; there are: {', '.join(present)}")
    lines = {key: rates for key, rates in lines.items() if rates.keys() & {*columns}}
    order = list(dict.fromkeys(suite for suite, *_ in lines))
    several = len(order) > 1
    what = f"Rates with {level} intervals{'' if short else ' and counts'}."
    rows, notes = [], [what if several else f"{what} Suite: {order[0]}.", *filter(None, [note])]
    for key in sorted(lines, key=lambda key: order.index(key[0])):
        cells = [lines[key].get(measure) for measure in columns]
        names = [*key[not several : 2], *([key[2]] if by else [])]
        rows.append([*names, *((_short if short else rate_text)(rate) for rate in cells)])
        for note in filter(None, map(_limits, cells if short else [])):
            notes.append(f"{', '.join(filter(None, key))}: {note}")
    header = [*(["Suite"] if several else []), "Model", *([by] if by else [])]
    titles = [HEADLINES.get(measure, measure.replace("_", " ")) for measure in columns]
    return PaperTable([*header, *titles], rows, len(header), notes)


def _short(rate: Rate | None) -> str:
    return MISSING if rate is None else estimate_text(rate.value, rate.shown)


def _limits(rate: Rate | None) -> str:
    """What a short cell does not say: answers that are in no rate, and those that were cut off."""
    if rate is None:
        return ""
    said = []
    if rate.counts.unjudged:
        said.append(f"not judged: {kinds_text(rate.counts.excluded)}")
    if rate.counts.cut_off:
        said.append(f"{rate.counts.cut_off} of {rate.counts.n} cut off")
    return f"{rate.measure}, {'; '.join(said)}" if said else ""


def as_markdown(table: PaperTable) -> str:
    """The table as Markdown, its notes below."""
    shown = markdown_table(table.header, table.rows)
    return "\n".join([shown, "", *(f"- {cell(note)}" for note in table.notes), ""])


def latex(text: str) -> str:
    """A text as LaTeX sets it, whatever it holds; characters that do not show become blanks."""
    # Two or three hyphens would be a dash, two commas a quotation mark.
    return re.sub("(?<=-)-|(?<=,),", r"{}\g<0>", blanked(text).translate(_LATEX))


def as_latex(table: PaperTable) -> str:
    r"""The table as a ``tabular`` with the rules of booktabs; notes are comments.

    Suites are set apart by a ``\midrule``.
    """
    about, *others = map(blanked, table.notes)
    lines = [rf"% \usepackage{{booktabs}}; {about}", *(f"% {note}" for note in others)]
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
