"""The tables that a reader sees first: what each model refused, and which thresholds
were not met.

Plain texts, to be escaped by whoever prints them. A cell of the first table is one
rate with its interval and at most one mark, which a note below explains; all else
that limits it is in the wide table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from refract.rates.key import (
    BORDERLINE_DISCRIMINATION,
    BORDERLINE_REFUSAL,
    CATEGORY_MEASURES,
    DISCRIMINATION,
    FIRST_MEASURES,
    HARMFUL_REFUSAL,
    KAPPA,
    OVER_REFUSAL,
    REFUSAL,
    REFUSED_UNTIL_END,
    Key,
)
from refract.rates.rate import Rate
from refract.rates.turns import TURN_FIELD
from refract.report.markdown import ShownTable, shown_table
from refract.report.measures import (
    HEADLINES,
    MEASURES,
    first_in_turn,
    title_of,
)
from refract.report.table_columns import (
    Detail,
    Turn,
    detail_columns,
    further_columns,
    threshold_columns,
    turn_columns,
)
from refract.report.unread_prompts import null_notes
from refract.report.view import Summary, View, summaries
from refract.report.wording import (
    WARN_SHARE,
    Titles,
    limit_text,
    short_estimate,
    short_text,
)

CUT_OFF, NOT_JUDGED, SEVERAL = "✂", "†", "‡"
# Clusters, such as the variants of a request, are not in the interval of κ.
KAPPA_ITEMS = "; its interval takes each answer as an item of its own"
MARKS = {
    CUT_OFF: "a tenth of the answers or more was cut off, and judged by what was said",
    NOT_JUDGED: "not judged",
    SEVERAL: "several limits, or no interval",
}


def first_table(view: View, *, wide: bool = False) -> ShownTable:
    """One line for each suite and model: refusal by category and discrimination, but
    of suites whose clean prompts another suite has too; ``wide``: one line for each
    rate of every judge of refusal, with all that limits it."""
    lines = summaries(view) if wide else first_lines(view)
    suites = list(dict.fromkeys(line.suite for line in lines))
    notes = [*null_notes(view, suites), *sample_notes(suites, view.titles), view.interval_note]
    if wide:
        table = shown_table(detail_columns(view.titles), _details(view))
        return table._replace(notes=list(filter(None, notes))).filled
    rows, marked = [], []
    for line in lines:
        cells = [view.titles.plain(line.suite), name_of(view, line)]
        for rate in line.headlines:
            mark = mark_of(rate)
            cells.append(f"{short_text(rate)} {mark}".rstrip())
            if rate:
                # What was not judged is counted over all clean answers of the suite.
                counted = line.refusal if mark == NOT_JUDGED else rate
                marked.append((mark, name_of(view, line), counted))
        contrast = short_text(contrast_of(view, line))
        rows.append([*cells, contrast, short_text(kappa_of(view, line))])
    header = ["suite", "model", *map(MEASURES.__getitem__, HEADLINES)]
    header += [DISCRIMINATION.title, KAPPA.title]
    judges = ", ".join(dict.fromkeys(view.deciding.values()))
    kappa = f"{KAPPA.title}: Cohen's κ with {judges}, refused or not{KAPPA_ITEMS}"
    more = [kappa] if any(line.judge for line in lines) else []
    notes = [*mark_notes(marked), _contrast_note(view, lines), *more, *notes]
    return ShownTable(header, rows, list(filter(None, notes))).filled


def first_lines(view: View) -> list[Summary]:
    """The lines of the first table, those of further judges of refusal below the first
    judge's. Of a sample of another suite's prompts the perturbed ones count."""
    repeated = view.repeated
    lines = []
    for line in summaries(view):
        if line.suite not in repeated:
            lines += [line, *_by_other_judges(view, line)]
    return lines


def _by_other_judges(view: View, line: Summary) -> Iterator[Summary]:
    """The same suite and model by each further judge of refusal."""
    overall = view.overall[line.suite, line.model]
    for judge in view.judges:
        refusal = overall.get(Key(REFUSAL, judge=judge).name)
        if refusal:
            headlines = []
            for measure in (HARMFUL_REFUSAL, OVER_REFUSAL, BORDERLINE_REFUSAL):
                headlines.append(overall.get(Key(measure, judge=judge).name))
            yield line._replace(
                headlines=headlines, refusal=refusal, limited=[], without={}, judge=judge
            )


def name_of(view: View, line: Summary) -> str:
    """What readers call the model of a line, with the judge if it is a further one."""
    model = view.titles.model(line.model)
    return f"{model}, by {line.judge}" if line.judge else model


def kappa_of(view: View, line: Summary) -> Rate | None:
    """Cohen's κ of a further judge with the first one."""
    return view.overall[line.suite, line.model].get(Key(KAPPA, judge=line.judge).name)


def unmet_thresholds(view: View) -> list[Rate]:
    """The rates whose threshold is not met, those missed before those that are
    inconclusive."""
    missed, inconclusive = [], []
    for line in summaries(view):
        for rate in line.limited:
            if rate.decision == "missed":
                missed.append(rate)
            elif rate.decision == "inconclusive":
                inconclusive.append(rate)
    return missed + inconclusive


def threshold_table(view: View) -> ShownTable:
    """The thresholds that are not met; a note counts all of them."""
    unmet = unmet_thresholds(view)
    number = sum(len(line.limited) for line in summaries(view))
    counts = [f"{number - len(unmet)} of {number} thresholds met"]
    for verdict in ("missed", "inconclusive"):
        alike = sum(rate.decision == verdict for rate in unmet)
        counts += [f"{alike} {verdict}"] if alike else []
    table = shown_table(threshold_columns(view.titles), unmet)
    return table._replace(notes=[f"{', '.join(counts)}."] if number else [])


def threshold_lines(view: View, *, intervals: bool) -> list[str]:
    """The thresholds that are not met as lines: ``missed: suite measure, at least
    0.8: model 0.45``."""
    lines: dict[str, list[str]] = {}
    for rate in unmet_thresholds(view):
        assert rate.threshold
        where = f"{view.titles.plain(rate.suite)} {rate.name}, {limit_text(rate.threshold)}"
        value = short_estimate(rate.value, rate.shown if intervals else None)
        if rate.value is None:
            value = "not measured"
        models = lines.setdefault(f"{rate.decision}: {where}", [])
        models.append(f"{view.titles.model(rate.model)} {value}")
    return [f"{limit}: {'; '.join(models)}" for limit, models in lines.items()]


def further_table(view: View) -> ShownTable:
    """What judges of other things than refusal say of each suite's answers."""
    rates = []
    for rate in view.every:
        if rate.key.judge and rate.measure.counted_for == "judge" and not rate.group:
            rates.append(rate)
    return shown_table(further_columns(view.titles), rates).filled


def turns_table(view: View) -> ShownTable:
    """The conversations that were played, by turn: what was refused there, and in
    which share of them that, or an answer, was there first; notes say which share was
    refused at every turn."""
    shown = dict.fromkeys(CATEGORY_MEASURES.values(), "rate")
    for measure in FIRST_MEASURES:
        shown[measure] = first_in_turn(measure)
    played = {rate.suite for rate in view.every if rate.measure in FIRST_MEASURES}
    suites: dict[tuple[str, str, str], dict[str, Turn]] = {}
    for rate in view.every:
        if rate.group.field == TURN_FIELD and rate.suite in played and rate.measure in shown:
            category = rate.measure.category or ""
            turn = Turn(rate.suite, rate.model, category, rate.group.value, {})
            turns = suites.setdefault(turn[:3], {})
            turns.setdefault(turn.turn, turn).rates[shown[rate.measure]] = rate
    rows = chain.from_iterable(turns.values() for turns in suites.values())
    table = shown_table(turn_columns(view.titles), rows)
    notes = []
    for (suite, model), rates in view.overall.items():
        if REFUSED_UNTIL_END.name in rates:
            where = f"{view.titles.plain(suite)}, {view.titles.model(model)}"
            share = short_text(rates[REFUSED_UNTIL_END.name])
            notes.append(f"{where}: of harmful conversations refused at every turn {share}")
    return table._replace(notes=notes).filled


def sample_notes(suites: Iterable[str], titles: Titles) -> list[str]:
    """What must be known of how suites were drawn."""
    notes = []
    for suite in dict.fromkeys(suites):
        sample = ", ".join(titles.draws[suite].notes) if suite in titles.draws else ""
        if sample:
            notes.append(f"{titles.plain(suite)}: {sample}")
    return notes


def contrast_of(view: View, line: Summary) -> Rate | None:
    """Harmful minus helpful refused, where the suite has helpful prompts; else minus
    borderline."""
    overall = view.overall[line.suite, line.model]
    helpful = Key(DISCRIMINATION, judge=line.judge).name
    return overall.get(helpful) or overall.get(
        Key(BORDERLINE_DISCRIMINATION, judge=line.judge).name
    )


def _limits(rate: Rate | None) -> set[str]:
    """Marks that apply to a rate. A rate over a single request has no interval and is
    marked ‡."""
    limits: set[str] = set()
    if rate is None:
        return limits
    if rate.counts.cut_off_share >= WARN_SHARE:
        limits.add(CUT_OFF)
    if rate.counts.unjudged:
        limits.add(NOT_JUDGED)
    if rate.value is not None and rate.shown is None and rate.measure != KAPPA:
        limits.add(SEVERAL)
    return limits


def mark_of(rate: Rate | None) -> str:
    """The mark that stands after a rate, if any."""
    limits = _limits(rate)
    return SEVERAL if len(limits) > 1 else "".join(limits)


def mark_notes(marked: Iterable[tuple[str, str, Rate]]) -> Iterator[str]:
    """What each mark stands for, with the counts of the rates that have it, by whose
    they are: a mark, a name and a rate each."""
    by_mark: dict[str, dict[str, list[Rate]]] = {mark: {} for mark in ("", *MARKS)}
    for mark, name, rate in marked:
        rates = by_mark[mark].setdefault(name, [])
        if rate not in rates:
            rates.append(rate)
    for mark, meaning in MARKS.items():
        if by_mark[mark]:
            names = [f"{_counted(mark, rates)} of {name}" for name, rates in by_mark[mark].items()]
            yield f"{mark} {meaning}: {'; '.join(names)}"


def _counted(mark: str, rates: Sequence[Rate]) -> str:
    """What a mark stands for at some rates, in numbers."""
    n = unjudged = cut_off = 0
    for rate in rates:
        n += rate.counts.n
        unjudged += rate.counts.unjudged
        cut_off += rate.counts.cut_off or 0
    if mark == NOT_JUDGED:
        return f"{unjudged} of {n + unjudged}"
    if mark == CUT_OFF:
        return f"{cut_off} of {n}"
    texts = [f"{cut_off} of {n} cut off"] if cut_off else []
    texts += [f"{unjudged} not judged"] if unjudged else []
    if any(SEVERAL in _limits(rate) for rate in rates):
        texts.append("answers to one request alone")
    return ", ".join(texts)


def _contrast_note(view: View, lines: Sequence[Summary]) -> str:
    """Which difference the column of discrimination is."""
    helpful, borderline = False, []
    for line in lines:
        contrast = contrast_of(view, line)
        helpful |= contrast is not None and contrast.measure != BORDERLINE_DISCRIMINATION
        if contrast and contrast.measure == BORDERLINE_DISCRIMINATION:
            borderline.append(line.suite)
    suites = ", ".join(map(view.titles.plain, dict.fromkeys(borderline)))
    if helpful:
        of_others = f"; of {suites} harmful minus borderline" if suites else ""
        return f"{DISCRIMINATION.title}: harmful minus helpful refused{of_others}"
    return f"{DISCRIMINATION.title}: harmful minus borderline refused" if suites else ""


def _details(view: View) -> Iterator[Detail]:
    """Each rate by category and for discrimination, of every judge of refusal."""
    measures = (*CATEGORY_MEASURES.values(), DISCRIMINATION, BORDERLINE_DISCRIMINATION)
    for line in summaries(view):
        overall = view.overall[line.suite, line.model]
        uncut = view.without_cut_off.get((line.suite, line.model), {})
        by_model = view.without_provider.get((line.suite, line.model), {})
        first = view.deciding.get(line.suite, "")
        for judge in dict.fromkeys((first, *view.judges)):
            other = "" if judge == first else judge
            for measure in measures:
                name = Key(measure, judge=other).name
                # Of the two contrasts the one that the first table shows.
                both = Key(DISCRIMINATION, judge=other).name in overall
                if measure == BORDERLINE_DISCRIMINATION and both:
                    continue
                if name in overall:
                    yield Detail(
                        overall[name],
                        judge,
                        title_of(measure),
                        without=uncut.get(name),
                        by_model=by_model.get(name),
                    )
