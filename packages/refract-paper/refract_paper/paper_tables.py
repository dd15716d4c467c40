"""Tables for a paper, as texts: rates with intervals, differences of models, agreement with people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from refract.agreement.ledger import LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines
from refract.core.decimals import MISSING, estimate_text, interval_text
from refract.core.errors import UsageError
from refract.export import check_known
from refract.rates.comparison import DISCRIMINATION
from refract.rates.judge_error import LABELS_ASK
from refract.rates.key import KAPPA, Key, Measure, measure_called
from refract.rates.rate import Rate
from refract.report.comparisons import Compared
from refract.report.first_table import KAPPA_NOTE, mark_notes, mark_of, sample_notes
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, p_text, percent, rate_text, title_of
from refract.results.sources import stand_ins


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
    provenance: Mapping[str, Any],
    *,
    suites: Sequence[str] = (),
    measures: Sequence[str] = (),
    places: int = 2,
    level: str = "95 %",
) -> PaperTable:
    """The rates of some models, a column for each measure; ``provenance`` is by model.

    ``suites`` and ``measures`` default to all suites and the refusal rates by category. A cell
    holds rate, interval and a mark of what limits it, which the notes explain. Raises
    :class:`UsageError` for what the tables do not have."""
    view = View(tables, provenance)
    check_known("--suite", suites, sorted({rate.suite for rate in view.every}))
    lines = _lines(tables, suites)
    present = sorted({measure for line in lines.values() for measure in line})
    check_known("--set measures", measures, present)
    first = (*CATEGORY_OF, KAPPA.name)
    columns = list(measures) or [measure for measure in first if measure in present]
    if not columns:
        raise UsageError(f"name measures with --set measures=[…]; there are: {', '.join(present)}")
    keys = [key for key, line in lines.items() if line.keys() & {*columns}]
    shown = list(dict.fromkeys(suite for suite, _ in keys))
    several = len(shown) > 1
    rows, marks, cells = [], "", []
    for suite, model in sorted(keys, key=lambda key: shown.index(key[0])):
        row = [suite, model] if several else [model]
        for measure in columns:
            cell = lines[suite, model].get(measure)
            marks += mark_of(cell)
            text = rate_text(cell, places) if cell else MISSING
            row.append(f"{text} {mark_of(cell)}".rstrip())
            cells += [cell] if cell else []
        rows.append(row)
    names = ["Suite", "Model"] if several else ["Model"]
    titles = [title_of(measure_called(name)).capitalize() for name in columns]
    notes = [*mark_notes(marks), *sample_notes(shown, view.draws)]
    if KAPPA.name in columns:
        notes.append(KAPPA_NOTE)
    notes = [*(f"{text}." for text in notes), interval_note(view, cells)]
    caption = f"Rates with {level} intervals." + ("" if several else f" Suite: {shown[0]}.")
    header = [*names, *titles]
    return PaperTable(header, rows, len(names), notes, caption=caption, grouped=several)


def _lines(
    tables: Mapping[str, Sequence[Rate]], suites: Sequence[str]
) -> dict[tuple[str, str], dict[str, Rate]]:
    """The rates over whole suites by suite and model (of a further judge with its name)."""
    lines: dict[tuple[str, str], dict[str, Rate]] = {}
    for model, rates in tables.items():
        for rate in rates:
            if rate.group or (suites and rate.suite not in suites):
                continue
            lines.setdefault((rate.suite, model), {})[rate.name] = rate
            if rate.key.judge and rate.measure.counted_for == "suite":
                by_judge = rate.suite, f"{model}, by {rate.key.judge}"
                lines.setdefault(by_judge, {})[rate.measure.name] = rate
    return lines


def interval_note(view: View, shown: Sequence[Rate]) -> str:
    """What the intervals of some rates allow for, as the report says it of all."""
    names = {(rate.suite, rate.model, rate.name) for rate in shown}
    # Labels of a run stand in a rate of their own, which no table of a paper shows.
    labelled = []
    for rate in view.every:
        if (rate.suite, rate.model, rate.measure.corrects) in names:
            labelled.append(rate)
    places = {(rate.suite, rate.model) for rate in shown}
    provenance = {}
    for model, facts in view.provenance.items():
        suites = {}
        for suite, about in facts.get("suites", {}).items():
            if (suite, model) in places:
                suites[suite] = about
        if suites:
            provenance[model] = {**facts, "suites": suites}
    return replace(view, rates={"": [*shown, *labelled]}, provenance=provenance).interval_note


def interval_table(
    view: View, measures: Iterable[Measure], label: str, caption: str, places: int
) -> PaperTable:
    """A line for each suite, model and measure, of every judge, with both intervals."""
    rows, marks, rates = [], "", []
    for suite, model, measure in product(view.deciding, view.models, measures):
        overall = view.overall.get((suite, model), {})
        for judge in ("", *view.judges):
            rate = overall.get(Key(measure, judge=judge).name)
            if judge == view.deciding[suite] or rate is None:
                continue
            rates.append(rate)
            shown = view.names(rate)
            judged = rate.with_judge
            mark = mark_of(rate)
            marks += mark
            estimate = estimate_text(rate.value, rate.interval, places=places) + rate.alone_mark
            row = {
                "Suite": shown["suite"],
                "Model": shown["model"],
                "Measure": title_of(measure) + (f" ({judge})" if judge else ""),
                "Answers": rate.counts.n,
                "Rate, prompts": f"{estimate} {mark}".strip(),
                "Prompts and judge": MISSING,
            }
            if judged:
                ends = interval_text(judged.interval, places=places)
                row["Prompts and judge"] = rate_text(rate, places) if rate.outside else ends
            rows.append(row)
    suites = list(dict.fromkeys(rate.suite for rate in rates))
    notes = [f"{text}." for text in (*mark_notes(marks), *sample_notes(suites, view.draws))]
    notes.append(interval_note(view, rates))
    caption += f", with {percent(view.confidence)} intervals of prompts, and of prompts and judge."
    return _paper(rows, caption, label=label, notes=notes)


def compared_pairs(view: View) -> list[Compared]:
    """The live models compared on the prompts that both answered: with the reference, and of
    neighbours."""
    stand = set(stand_ins(view.provenance))
    pairs = [pair for pair in view.near_compared if not {pair.a, pair.b} & stand]
    return [pair for pair in pairs or view.near_compared if pair.difference.n]


def difference_table(view: View, places: int) -> PaperTable:
    """A line for each of :func:`compared_pairs`."""
    pairs = compared_pairs(view)
    rows = []
    for a, b, difference in pairs:
        category = difference.category.replace("_", " ")
        refused = "" if difference.category in DISCRIMINATION else " refused"
        row = {
            "Models": f"{a}, {b}",
            "Suite": difference.suite,
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
    if any(pair.difference.judge_interval for pair in pairs):
        asked = f"by labels that ask {LABELS_ASK}"
        notes.append(f"Intervals hold the judge's error on both models, {asked}; p does not.")
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
