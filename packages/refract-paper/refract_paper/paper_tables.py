"""Tables for a paper, as texts: rates with intervals, differences of models, agreement with people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from refract.agreement.ledger import LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines
from refract.core.decimals import MISSING, estimate_text, interval_text
from refract.core.errors import UsageError
from refract.core.settings import nearest
from refract.rates.comparison import DISCRIMINATION
from refract.rates.key import KAPPA, Key, Measure, measure_called
from refract.rates.rate import Rate
from refract.report.first_table import KAPPA_NOTE, mark_notes, mark_of, sample_notes
from refract.report.markdown import ShownTable
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, Titles, p_text, percent, rate_text, title_of
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

    ``suites`` and ``measures`` default to all suites and the refusal rates by category; with
    ``by``, a row for each value of that field. A cell holds rate, interval and a mark of what
    limits it, which the notes explain; ``wide`` ones hold counts and limits themselves. Raises
    :class:`UsageError` for what the tables do not have."""
    draws: dict[str, Draw] = {}
    fields: set[str] = set()
    for rates in tables.values():
        for rate in rates:
            draws[rate.suite] = rate.key.draw
            fields |= {rate.group.field} if rate.group else set()
    check_names("--suite", suites, sorted(draws))
    check_names("--by", [by] if by else [], sorted(fields))
    lines = _lines(tables, suites, by or "")
    present = sorted({measure for line in lines.values() for measure in line})
    check_names("--measure", measures, present)
    first = (*CATEGORY_OF, KAPPA.name)
    columns = list(measures) or [measure for measure in first if measure in present]
    if not columns:
        raise UsageError(f"name measures with --set measures=[…]; there are: {', '.join(present)}")
    keys = [key for key, line in lines.items() if line.keys() & {*columns}]
    shown = list(dict.fromkeys(suite for suite, *_ in keys))
    rows, marks = [], ""
    for key in sorted(keys, key=lambda key: shown.index(key[0])):
        row = list(key)
        for measure in columns:
            cell = lines[key].get(measure)
            marks += mark_of(cell) if cell else ""
            row.append(_cell(cell, places, wide=wide))
        rows.append(row)
    several = len(shown) > 1
    titles = [title_of(measure_called(name)).capitalize() for name in columns]
    table = ShownTable(["Suite", "Model", by or "", *titles], rows, [])
    names = [place for place, kept in enumerate((several, True, by)) if kept]
    table = table.only([*names, *range(3, len(table.header))])
    notes = [*([] if wide else mark_notes(marks)), *sample_notes(shown, Titles(draws=draws))]
    if KAPPA.name in columns:
        notes.append(KAPPA_NOTE)
    notes = [f"{text}." for text in notes] + ([note] if note else [])
    of_suite = "" if several else f" Suite: {shown[0]}."
    caption = f"Rates with {level} intervals{' and counts' if wide else ''}.{of_suite}"
    return PaperTable(table.header, table.rows, len(names), notes, caption=caption, grouped=several)


def _cell(rate: Rate | None, places: int, *, wide: bool) -> str:
    if rate is None or wide:
        return rate_text(rate)
    return f"{estimate_text(rate.value, rate.shown, places=places)} {mark_of(rate)}".rstrip()


def _lines(
    tables: Mapping[str, Sequence[Rate]], suites: Sequence[str], by: str
) -> dict[tuple[str, str, str], dict[str, Rate]]:
    """The rates by suite, model (of a further judge with its name) and value of the field."""
    lines: dict[tuple[str, str, str], dict[str, Rate]] = {}
    for model, rates in tables.items():
        for rate in rates:
            wanted = not suites or rate.suite in suites
            if wanted and rate.group.field == by:
                line = lines.setdefault((rate.suite, model, rate.group.value), {})
                line[rate.name] = rate
                if rate.key.judge and rate.measure.counted_for == "suite":
                    by_judge = f"{model}, by {rate.key.judge}"
                    line = lines.setdefault((rate.suite, by_judge, rate.group.value), {})
                    line[rate.measure.name] = rate
    return lines


def interval_table(
    view: View, measures: Iterable[Measure], label: str, caption: str, places: int
) -> PaperTable:
    """A line for each suite, model and measure, of every judge, with both intervals."""
    rows, marks, suites = [], "", []
    several_answers = False
    for suite, model, measure in product(view.deciding, view.models, measures):
        overall = view.overall.get((suite, model), {})
        for judge in ("", *view.judges):
            rate = overall.get(Key(measure, judge=judge).name)
            if judge == view.deciding[suite] or rate is None:
                continue
            suites.append(suite)
            shown = view.names(rate)
            judged = rate.with_judge
            mark = mark_of(rate)
            marks += mark
            estimate = estimate_text(rate.value, rate.interval, places=places)
            row = {
                "Suite": shown["suite"],
                "Model": shown["model"],
                "Measure": title_of(measure) + (f" ({judge})" if judge else ""),
                "Answers": rate.counts.n,
                "Rate, prompts": f"{estimate} {mark}".strip(),
                "Prompts and judge": MISSING,
                "These prompts": interval_text(rate.these, "", places) or MISSING,
            }
            if judged:
                row["Prompts and judge"] = interval_text(judged.interval, "", places)
            rows.append(row)
            # One answer to each prompt has no noise of its own.
            several_answers |= rate.these is not None and rate.these.low < rate.these.high
    if not several_answers:
        for row in rows:
            del row["These prompts"]
    notes = [f"{text}." for text in (*mark_notes(marks), *sample_notes(suites, view.titles))]
    notes += [view.interval_note] if view.interval_note else []
    caption += f", with {percent(view.confidence)} intervals of prompts, and of prompts and judge."
    return _paper(rows, caption, label=label, notes=notes)


def difference_table(view: View, places: int) -> PaperTable:
    """The live models compared on the prompts that both answered: with the reference, and of
    neighbours."""
    stand = set(stand_ins(view.provenance))
    pairs = [pair for pair in view.near_compared if not {pair.a, pair.b} & stand]
    rows = []
    for a, b, difference in pairs or view.near_compared:
        if difference.n:
            category = difference.category.replace("_", " ")
            refused = "" if difference.category in DISCRIMINATION else " refused"
            row = {
                "Models": f"{view.titles.model(a)}, {view.titles.model(b)}",
                "Suite": view.titles.plain(difference.suite),
                "Category": category + refused,
                "Prompts": difference.n,
                "First": estimate_text(difference.a, places=places),
                "Second": estimate_text(difference.b, places=places),
                "Second − first": estimate_text(
                    difference.value, difference.shown, sign="+", places=places
                ),
                "p": p_text(difference.p_adjusted),
            }
            rows.append(row)
    notes = [f"p is corrected for {view.tests} tests (Holm)."] if view.tests else []
    caption = f"Models compared on the same prompts, with {percent(view.confidence)} intervals."
    return _paper(rows, caption, label="differences", notes=notes)


def agreement_table(view: View, places: int) -> PaperTable:
    """How far each judge is from published labels, each source read by a stand-in that
    had no part of it."""
    entries, rows = read_ledger(LEDGER), []

    def number(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
        ends = None if low is None or high is None else (low, high)
        return estimate_text(value, ends, sign=sign, places=places)

    for name in dict.fromkeys(view.deciding.values()):
        judge = view.judges[name]
        for line in counting_lines(entries, judge["kind"], str(judge["version"])):
            if not line.prompts:
                row = {
                    "Judge": name,
                    "Source": line.source,
                    "Model": line.model,
                    "Answers": line.n,
                    "Labels": estimate_text(line.human_rate, places=places),
                    "Judge's": estimate_text(line.judge_rate, places=places),
                    "Gap": number(line.gap, line.gap_low, line.gap_high, sign="+"),
                    "κ": number(line.kappa, line.kappa_low, line.kappa_high),
                }
                rows.append(row)
    caption = (
        "Refused by published labels and by the judge, trained without that source; 95 % intervals."
    )
    return _paper(rows, caption, "agreement")


def _paper(
    rows: Sequence[Mapping[str, object]], caption: str, label: str, notes: Sequence[str] = ()
) -> PaperTable:
    """A table of three columns of names and others of numbers, by the first of the names."""
    cells = [list(map(str, row.values())) for row in rows]
    header = list(rows[0]) if rows else []
    return PaperTable(
        header=header,
        rows=cells,
        names=3,
        notes=list(notes),
        caption=caption,
        label=label,
        grouped=True,
    )


def check_names(option: str, asked: Iterable[str], known: Collection[str]) -> None:
    """Raises :class:`UsageError` for a name that results do not have."""
    for name in asked:
        if name not in known:
            raise UsageError(
                f"{option} {name!r} is not in these results{nearest(name, known)}; there are: "
                f"{', '.join(known)}"
            )
