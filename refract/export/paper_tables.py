"""Tables for a paper, as texts: rates with intervals, differences of models,
agreement with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from refract.agreement.ledger import LEDGER, LedgerEntry, read_ledger
from refract.agreement.unseen_models import counting_lines
from refract.core.decimals import MISSING, estimate_text, interval_text
from refract.core.errors import UsageError
from refract.rates.comparison import DISCRIMINATION
from refract.rates.key import KAPPA, Key, Measure, measure_called
from refract.rates.rate import Interval, Rate
from refract.report.comparisons import Compared, number_of_tests
from refract.report.first_table import KAPPA_ITEMS, mark_notes, mark_of, sample_notes
from refract.report.markdown import Column, ShownTable, shown_table
from refract.report.measures import HEADLINES, title_of
from refract.report.view import View, check_names
from refract.report.wording import (
    Titles,
    p_text,
    percent,
    rate_text,
)
from refract.results.sources import stand_ins
from refract.suites.draws import Draw


class PaperTable(NamedTuple):
    """``header`` and ``rows`` of texts, ``notes`` below. The first ``names`` columns
    are names; rows are ``grouped`` by the first of them where that is set apart."""

    header: list[str]
    rows: list[list[str]]
    names: int
    notes: list[str]
    caption: str = ""
    label: str = "rates"
    grouped: bool = False


def paper_table(
    tables: Mapping[str, Sequence[Rate]],
    *,
    suites: Sequence[str] = (),
    measures: Sequence[str] = (),
    by: str | None = None,
    wide: bool = False,
    places: int = 2,
    level: str = "95 %",
    note: str = "",
) -> PaperTable:
    """The rates of some models, a column for each measure.

    ``suites`` and ``measures`` default to all suites and the refusal rates by
    category; with ``by``, a row for each value of that field. A cell holds rate,
    interval and a mark of what limits it, which the notes explain; ``wide`` ones hold
    counts and limits themselves. Raises :class:`UsageError` for what the tables do
    not have.
    """
    draws: dict[str, Draw] = {}
    fields: set[str] = set()
    for rates in tables.values():
        for rate in rates:
            draws[rate.suite] = rate.key.draw
            fields |= {rate.group.field} if rate.group else set()
    check_names("--suite", suites, sorted(draws))
    check_names("--by", [by] if by else [], sorted(fields))
    lines: dict[tuple[str, str, str], dict[str, Rate]] = {}  # by suite, model and value
    for model, rates in tables.items():
        for rate in rates:
            wanted = not suites or rate.suite in suites
            if wanted and rate.group.field == (by or ""):
                line = lines.setdefault((rate.suite, model, rate.group.value), {})
                line[rate.name] = rate
                if rate.key.judge and rate.measure.counted_for == "suite":
                    by_judge = f"{model}, by {rate.key.judge}"
                    line = lines.setdefault((rate.suite, by_judge, rate.group.value), {})
                    line[rate.measure.name] = rate
    present = sorted({measure for line in lines.values() for measure in line})
    check_names("--measure", measures, present)
    first = (*HEADLINES, KAPPA.name)
    columns = list(measures) or [measure for measure in first if measure in present]
    if not columns:
        raise UsageError(f"name measures with --measure; there are: {', '.join(present)}")
    keys = [key for key, line in lines.items() if line.keys() & {*columns}]
    shown = list(dict.fromkeys(suite for suite, *_ in keys))
    rows, marked = [], []
    for suite, model, value in sorted(keys, key=lambda key: shown.index(key[0])):
        row = [suite, model, value]
        for measure in columns:
            cell = lines[suite, model, value].get(measure)
            row.append(rate_text(cell) if wide else _short(cell, places))
            if cell:
                marked.append((mark_of(cell), f"{model} on {suite}", cell))
        rows.append(row)
    several = len(shown) > 1
    titles = [title_of(measure_called(name)).capitalize() for name in columns]
    table = ShownTable(["Suite", "Model", by or "", *titles], rows, [])
    names = [place for place, kept in enumerate((several, True, by)) if kept]
    table = table.only([*names, *range(3, len(table.header))])
    notes = [*([] if wide else mark_notes(marked)), *sample_notes(shown, Titles(draws=draws))]
    if KAPPA.name in columns:
        with_first = "Cohen's κ with the suite's first judge, refused or not"
        notes.append(f"{title_of(KAPPA)}: {with_first}{KAPPA_ITEMS}")
    notes = [f"{text}." for text in notes] + ([note] if note else [])
    of_suite = "" if several else f" Suite: {shown[0]}."
    caption = f"Rates with {level} intervals{' and counts' if wide else ''}.{of_suite}"
    return PaperTable(
        header=table.header,
        rows=table.rows,
        names=len(names),
        notes=notes,
        caption=caption,
        grouped=several,
    )


def _short(rate: Rate | None, places: int) -> str:
    """A rate with its interval and its mark."""
    if rate is None:
        return MISSING
    return f"{estimate_text(rate.value, rate.shown, '', places)} {mark_of(rate)}".rstrip()


class Measured(NamedTuple):
    """A rate, and what its measure is called."""

    rate: Rate
    title: str


def interval_table(
    view: View, measures: Sequence[Measure], label: str, caption: str, places: int
) -> PaperTable:
    """A line for each suite, model and measure, of every judge, with both
    intervals."""
    rows: list[Measured] = []
    marked = []
    for suite, model, measure in product(view.deciding, view.models, measures):
        overall = view.overall.get((suite, model), {})
        for judge in ("", *view.judges):
            name = Key(measure, judge=judge).name
            if judge != view.deciding[suite] and name in overall:
                title = title_of(measure) + (f" ({judge})" if judge else "")
                row = Measured(overall[name], title)
                rows.append(row)
                where = f"{view.titles.model(model)} on {view.titles.plain(suite)}"
                marked.append((mark_of(row.rate), where, row.rate))
    columns: list[Column[Measured]] = [
        Column("Suite", lambda row: view.titles.plain(row.rate.suite)),
        Column("Model", lambda row: view.titles.model(row.rate.model)),
        Column("Measure", lambda row: row.title),
        Column("Answers", lambda row: row.rate.counts.n),
        Column("Rate, prompts", lambda row: _of_prompts(row.rate, places)),
        Column("Prompts and judge", lambda row: _with_judge(row.rate, places)),
    ]
    # One answer to each prompt has no noise of its own.
    if any(row.rate.these and row.rate.these.low < row.rate.these.high for row in rows):
        these: Column[Measured] = Column("These prompts", lambda row: _these(row.rate, places))
        columns.append(these)
    table = shown_table(columns, rows)
    labels = [row.rate.suite for row in rows]
    notes = [f"{text}." for text in (*mark_notes(marked), *sample_notes(labels, view.titles))]
    notes += [view.interval_note] if view.interval_note else []
    caption += f", with {percent(view.confidence)} intervals of prompts, and of prompts and judge."
    return _paper(table._replace(notes=notes), caption, label)


def _of_prompts(rate: Rate, places: int) -> str:
    return f"{estimate_text(rate.value, rate.interval, '', places)} {mark_of(rate)}".strip()


def _with_judge(rate: Rate, places: int) -> str:
    return interval_text(rate.with_judge.interval, "", places) if rate.with_judge else MISSING


def _these(rate: Rate, places: int) -> str:
    return interval_text(rate.these, "", places) or MISSING


def difference_table(view: View, places: int) -> PaperTable:
    """The live models compared on the prompts that both answered: with the reference,
    and of neighbours. All of them, and the synthetic ones, are in
    ``metrics/report/comparisons.csv``."""
    stand = set(stand_ins(view.provenance))
    pairs = [pair for pair in view.near_compared if not {pair.a, pair.b} & stand]
    pairs = [pair for pair in pairs or view.near_compared if pair.difference.n]

    def models(pair: Compared) -> str:
        return f"{view.titles.model(pair.b)} − {view.titles.model(pair.a)}"

    def number(value: float | None, interval: Interval | None = None, sign: str = "") -> str:
        return estimate_text(value, interval, sign, places)

    columns: list[Column[Compared]] = [
        Column("Models", models),
        Column("Suite", lambda pair: view.titles.plain(pair.difference.suite)),
        Column("Category", lambda pair: _category(pair.difference.category)),
        Column("Prompts", lambda pair: pair.difference.n),
        Column("First", lambda pair: number(pair.difference.b)),
        Column("Second", lambda pair: number(pair.difference.a)),
        Column("Difference", lambda x: number(x.difference.value, x.difference.shown, "+")),
        Column("p", lambda pair: p_text(pair.difference.p_adjusted)),
    ]
    tests = view.tests or number_of_tests(view.compared)
    notes = [f"p is corrected for {tests} tests (Holm)."] if tests else []
    caption = f"Models compared on the same prompts, with {percent(view.confidence)} intervals."
    table = shown_table(columns, pairs)
    return _paper(table._replace(notes=notes), caption, "differences")


def _category(category: str) -> str:
    refused = "" if category in DISCRIMINATION else " refused"
    return category.replace("_", " ") + refused


def agreement_table(view: View, places: int) -> PaperTable:
    """How far each judge is from published labels, each source read by a stand-in that
    had no part of it."""
    entries, rows = read_ledger(LEDGER), []
    for name in dict.fromkeys(view.deciding.values()):
        judge = view.judges[name]
        for line in counting_lines(entries, judge["kind"], str(judge["version"])):
            if not line.prompts:
                rows.append((name, line))

    def ends(low: float | None, high: float | None) -> Interval | None:
        return None if low is None or high is None else Interval(low, high)

    def number(value: float | None, interval: Interval | None = None, sign: str = "") -> str:
        return estimate_text(value, interval, sign, places)

    columns: list[Column[tuple[str, LedgerEntry]]] = [
        Column("Judge", lambda row: row[0]),
        Column("Source", lambda row: row[1].source),
        Column("Model", lambda row: row[1].model),
        Column("Answers", lambda row: row[1].n),
        Column("Labels", lambda row: number(row[1].human_rate)),
        Column("Judge's", lambda row: number(row[1].judge_rate)),
        Column("Gap", lambda x: number(x[1].gap, ends(x[1].gap_low, x[1].gap_high), "+")),
        Column("κ", lambda x: number(x[1].kappa, ends(x[1].kappa_low, x[1].kappa_high))),
    ]
    caption = (
        "Refused by published labels and by the judge, trained without that source; 95 % intervals."
    )
    return _paper(shown_table(columns, rows), caption, "agreement")


def _paper(table: ShownTable, caption: str, label: str) -> PaperTable:
    return PaperTable(table.header, table.rows, 3, table.notes, caption, label, True)
