"""Tables for a paper, as texts: rates with intervals, differences of models, agreement with people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.ledger import LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines
from refract.core.errors import UsageError
from refract.core.vocabulary import DISCRIMINATION
from refract.rates.rate import Rate
from refract.report.comparisons import number_of_tests
from refract.report.first_table import mark_notes, mark_of, sample_notes
from refract.report.markdown import ShownTable, shown_table
from refract.report.model_sizes import MEASURES
from refract.report.view import HEADLINES, View, check_names
from refract.report.wording import MISSING, Titles, estimate_text, percent, plain, rate_text
from refract.results.sources import stand_ins

TABLES = Path(__file__).parent / "templates/tables.yaml"


class PaperTable(NamedTuple):
    """``header`` and ``rows`` of texts, ``notes`` below. The first ``names`` columns are names; rows are
    ``grouped`` by the first of them where that is set apart."""

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

    ``suites`` and ``measures`` default to all suites and the refusal rates by category; with ``by``,
    a row for each value of that field. A cell holds rate, interval and a mark of what limits it, which
    the notes explain; ``wide`` ones hold counts and limits themselves. Raises :class:`UsageError` for
    what the tables do not have.
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
    rows, shown = [], []
    for key in sorted(lines, key=lambda key: order.index(key[0])):
        cells = [lines[key].get(measure) for measure in columns]
        names = [*([plain(key[0])] if several else []), key[1], *([key[2]] if by else [])]
        on = f"{key[1]} on {plain(key[0])}"
        shown += [(mark_of(rate), on, rate) for rate in cells if rate]
        texts = (
            f"{estimate_text(r.value, r.shown, '', places)} {mark_of(r)}".rstrip() if r else MISSING
            for r in cells
        )
        rows.append([*names, *(map(rate_text, cells) if wide else texts)])
    header = [*(["Suite"] if several else []), "Model", *([by] if by else [])]
    titles = [MEASURES.get(m, m.replace("_", " ")).capitalize() for m in columns]
    notes = [*([] if wide else mark_notes(shown)), *sample_notes(order, Titles())]
    notes = [f"{x}." for x in notes] + ([note] if note else [])
    suite = "" if several else f" Suite: {plain(order[0])}."
    caption = f"Rates with {level} intervals{' and counts' if wide else ''}.{suite}"
    return PaperTable([*header, *titles], rows, len(header), notes, caption, grouped=several)


def interval_table(
    view: View, measures: Sequence[str], label: str, caption: str, places: int
) -> PaperTable:
    """A line for each suite, model and measure, of every judge, with both intervals."""
    rows: list[dict[str, Any]] = []
    for suite, model, measure in product(view.deciding, view.models, measures):
        for judge in ("", *(name for name in view.judges if name != view.deciding[suite])):
            overall = view.overall.get((suite, model), {})
            if rate := overall.get(f"{judge}_{measure}" if judge else measure):
                title = MEASURES.get(measure, measure.replace("_", " "))
                title += f" ({judge})" if judge else ""
                rows.append({"rate": rate, "measure": title, "mark": mark_of(rate)})
    table = shown_table(view.titles, "intervals", rows, TABLES, places=places)
    rates: list[Rate] = [row["rate"] for row in rows]
    # One answer to each prompt has no noise of its own.
    if not any(rate.these and rate.these.low < rate.these.high for rate in rates):
        table = ShownTable(table.header[:-1], [row[:-1] for row in table.rows], [])
    names = [" on ".join((row[1], row[0])) for row in table.rows]
    marks = mark_notes((mark_of(r), name, r) for name, r in zip(names, rates, strict=True))
    notes = [f"{x}." for x in (*marks, *sample_notes((r.suite for r in rates), view.titles))]
    notes += [view.interval_note] if view.interval_note else []
    caption += f", with {percent(view.confidence)} intervals of prompts, and of prompts and judge."
    return _paper(table._replace(notes=notes), caption, label)


def difference_table(view: View, places: int) -> PaperTable:
    """The live models compared on the prompts that both answered: with the reference, and of
    neighbours. All of them, and the synthetic ones, are in ``metrics/report/comparisons.csv``."""
    stand = {*stand_ins(view.provenance)}
    live = [pair for pair in view.near_compared if not {pair.first, pair.second} & stand]
    rows = ({"first": a, "second": b, "d": d} for a, b, d in live or view.near_compared if d.n)
    given = {"places": places, "contrasts": DISCRIMINATION}
    table = shown_table(view.titles, "differences", rows, TABLES, **given)
    tests = view.tests or number_of_tests(view.compared)
    notes = [f"p is corrected for {tests} tests (Holm)."] if tests else []
    caption = f"Models compared on the same prompts, with {percent(view.confidence)} intervals."
    return _paper(table._replace(notes=notes), caption, "differences")


def agreement_table(view: View, places: int) -> PaperTable:
    """How far each judge is from people on models whose answers had no part in making it."""
    entries, judges = read_ledger(LEDGER), view.judges
    rows = (
        {"name": name, "line": line}
        for name in dict.fromkeys(view.deciding.values())
        for line in counting_lines(entries, judges[name]["kind"], str(judges[name]["version"]))
    )
    table = shown_table(view.titles, "agreement", rows, TABLES, places=places)
    caption = "Refused by people and by the judge, on models kept apart from it; 95 % intervals."
    return _paper(table, caption, "agreement")


def _paper(table: ShownTable, caption: str, label: str) -> PaperTable:
    return PaperTable(table.header, table.rows, 3, table.notes, caption, label, True)
