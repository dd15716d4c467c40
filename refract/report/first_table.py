"""The tables that a reader sees first: what each model refused, and which thresholds were not met.

Plain texts, to be escaped by whoever prints them. A cell of the first table is one rate with its
interval and at most one mark, which a note below explains; all else that limits it is in the wide table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from refract.rates.rate import Rate
from refract.rates.turns import FIRST_MEASURES, REFUSED_UNTIL_END, TURN_FIELD
from refract.report.markdown import ShownTable, shown_table
from refract.report.model_sizes import MEASURES
from refract.report.view import CATEGORY_OF, HEADLINES, Summary, View, summaries
from refract.report.wording import WARN_SHARE, Titles, plain, short_text

CUT_OFF, NOT_JUDGED, SEVERAL = "✂", "†", "‡"
MARKS = {
    CUT_OFF: "a tenth of the answers or more was cut off, and judged by what was said",
    NOT_JUDGED: "not judged",
    SEVERAL: "several limits, or no interval",
}
DISCRIMINATION, BORDERLINE = "discrimination", "borderline_discrimination"


def first_table(view: View, *, wide: bool = False) -> ShownTable:
    """One line for each suite and model: refusal by category and discrimination, but of suites whose
    clean prompts another suite has too; ``wide``: one line for each rate of every judge of refusal, with
    all that limits it."""
    every = summaries(view)
    # Of a sample of another suite's prompts the perturbed ones count.
    repeated = view.repeated
    lines = every if wide else [line for line in every if line.suite not in repeated]
    notes = [*sample_notes((line.suite for line in lines), view.titles), view.interval_note]
    if wide:
        table = shown_table(view.titles, "details", _details(view))
        return table._replace(notes=[*filter(None, notes)]).filled
    header = ["suite", "model", *(MEASURES[measure] for measure in HEADLINES), DISCRIMINATION]
    rows = [
        [
            *names_of(view, line.suite, line.model),
            *(f"{short_text(rate)} {mark_of(rate)}".rstrip() for rate in line.headlines),
            short_text(_discrimination(view, line)),
        ]
        for line in lines
    ]
    marked = [
        # What was not judged is counted over all clean answers of the suite.
        (mark, view.titles.model(line.model), line.refusal if mark == NOT_JUDGED else rate)
        for line in lines
        for rate in filter(None, line.headlines)
        for mark in [mark_of(rate)]
    ]
    notes = [*mark_notes(marked), *_discrimination_note(view, lines), *notes]
    return ShownTable(header, rows, [*filter(None, notes)]).filled


def shown_rates(view: View, line: Summary) -> dict[str, Rate]:
    """The rates of a line of the first table, by the column that shows them."""
    rates = {MEASURES[rate.measure]: rate for rate in line.headlines if rate}
    difference = _discrimination(view, line)
    return rates | ({DISCRIMINATION: difference} if difference else {})


def threshold_table(view: View) -> ShownTable:
    """The thresholds that are not met, those missed before those that are inconclusive; a note counts
    the ones that are met."""
    limited = [rate for line in summaries(view) for rate in line.limited]
    unmet = {x: [r for r in limited if r.decision == x] for x in ("missed", "inconclusive")}
    rows = [{"rate": rate} for rates in unmet.values() for rate in rates]
    said = [f"{len(limited) - len(rows)} of {len(limited)} thresholds met"]
    said += [f"{len(rates)} {verdict}" for verdict, rates in unmet.items() if rates]
    table = shown_table(view.titles, "thresholds", rows)
    return table._replace(notes=[", ".join(said) + "."] if limited else [])


def turns_table(view: View) -> ShownTable:
    """The conversations that were played, by turn: what was refused there, and in which share of them
    that, or an answer, was there first; notes say which share was refused at every turn."""
    of_first = {name: (category, name.split("_")[-2]) for name, category, _ in FIRST_MEASURES}
    of_rate = {name: (category, "rate") for name, category in CATEGORY_OF.items()}
    played = {rate.suite for rate in view.every if rate.measure in of_first}
    rows: dict[tuple[str, str, str, str], dict[str, Rate]] = {}
    for rate in view.every:
        of = (of_rate | of_first).get(rate.measure)
        if rate.group.field == TURN_FIELD and rate.suite in played and of:
            key = rate.suite, rate.model, of[0], rate.group.value
            rows.setdefault(key, {})[of[1]] = rate
    names = ("suite", "model", "category", "turn")
    order = list(dict.fromkeys(key[:3] for key in rows))
    ordered = sorted(rows.items(), key=lambda row: order.index(row[0][:3]))
    made = ({**dict(zip(names, key, strict=True)), "by": by} for key, by in ordered)
    ends = [
        f"{', '.join(names_of(view, suite, model))}: of harmful conversations refused at every turn "
        f"{short_text(of[REFUSED_UNTIL_END])}"
        for (suite, model), of in view.overall.items()
        if REFUSED_UNTIL_END in of
    ]
    return shown_table(view.titles, "conversations", made)._replace(notes=ends).filled


def names_of(view: View, suite: str, model: str) -> tuple[str, str]:
    """A suite, without what its label says of samples, and a model, as readers know them."""
    return view.titles.suite(plain(suite)), view.titles.model(model)


def sample_notes(labels: Iterable[str], titles: Titles) -> list[str]:
    """What the labels of suites say of samples."""
    parts = (label.removesuffix("]").partition("[") for label in dict.fromkeys(labels))
    return [f"{titles.suite(name)}: {said}" for name, _, said in parts if said]


def _discrimination(view: View, line: Summary) -> Rate | None:
    """Harmful minus helpful refused, where the suite has helpful prompts; else minus borderline."""
    overall = view.overall[line.suite, line.model]
    return overall.get(DISCRIMINATION) or overall.get(BORDERLINE)


def _limits(rate: Rate | None) -> set[str]:
    """The marks of all that limits a rate; one of a single request, which has no interval, is not one
    that a symbol of its own stands for."""
    if rate is None:
        return set()
    limits = {CUT_OFF} if rate.counts.cut_off_share >= WARN_SHARE else set()
    limits |= {NOT_JUDGED} if rate.counts.unjudged else set()
    return limits | ({SEVERAL} if rate.value is not None and rate.shown is None else set())


def mark_of(rate: Rate | None) -> str:
    """The mark that stands after a rate, if any."""
    limits = _limits(rate)
    return SEVERAL if len(limits) > 1 else "".join(limits)


def mark_notes(marked: Iterable[tuple[str, str, Rate]]) -> Iterator[str]:
    """What each mark stands for, with the counts of the rates that have it, by whose they are: a mark,
    a name and a rate each."""
    rates: dict[tuple[str, str], list[Rate]] = {}
    for mark, name, rate in marked:
        if rate not in (of := rates.setdefault((mark, name), [])):
            of.append(rate)
    for mark, what in MARKS.items():
        said = [f"{_counted(x, of)} of {name}" for (x, name), of in rates.items() if x == mark]
        if said:
            yield f"{mark} {what}: {'; '.join(said)}"


def _counted(mark: str, rates: Sequence[Rate]) -> str:
    """What a mark stands for at some rates, in numbers."""
    counts = [rate.counts for rate in rates]
    n, unjudged = sum(of.n for of in counts), sum(of.unjudged for of in counts)
    cut_off = sum(of.cut_off or 0 for of in counts)
    if mark == NOT_JUDGED:
        return f"{unjudged} of {n + unjudged}"
    if mark == CUT_OFF:
        return f"{cut_off} of {n}"
    texts = {f"{cut_off} of {n} cut off": cut_off, f"{unjudged} not judged": unjudged}
    texts["answers to one request alone"] = any(SEVERAL in _limits(rate) for rate in rates)
    return ", ".join(text for text, said in texts.items() if said)


def _discrimination_note(view: View, lines: Sequence[Summary]) -> Iterator[str]:
    """Which difference the column of discrimination is."""
    found = {line.suite: rate.measure for line in lines if (rate := _discrimination(view, line))}
    borderline = [suite for suite, measure in found.items() if measure == BORDERLINE]
    if found and len(borderline) < len(found):
        named = ", ".join(view.titles.suite(plain(suite)) for suite in borderline)
        yield f"{DISCRIMINATION}: harmful minus helpful refused" + (
            f"; of {named} harmful minus borderline" if named else ""
        )
    elif found:
        yield f"{DISCRIMINATION}: harmful minus borderline refused"


def _details(view: View) -> Iterator[dict[str, Any]]:
    """Each rate by category and for discrimination, of every judge of refusal, with the same rate
    ``without`` the answers that were cut off."""
    measures = {**{m: MEASURES[m] for m in HEADLINES}, DISCRIMINATION: DISCRIMINATION}
    measures[BORDERLINE] = "borderline discrimination"
    for line in summaries(view):
        overall = view.overall[line.suite, line.model]
        uncut = view.without_cut_off.get((line.suite, line.model), {})
        first = view.deciding.get(line.suite, "")
        for judge in (first, *(name for name in view.judges if name != first)):
            prefix = "" if judge == first else f"{judge}_"
            for measure, name in measures.items():
                # Of the two contrasts the one that the first table shows.
                shown = measure != BORDERLINE or prefix + DISCRIMINATION not in overall
                if shown and (rate := overall.get(prefix + measure)):
                    without = uncut.get(prefix + measure)
                    yield {"rate": rate, "judge": judge, "measure": name, "without": without}
