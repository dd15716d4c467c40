"""The tables that a reader sees first: what each model refused, and which thresholds
were not met.

Plain texts, to be escaped by whoever prints them. A cell of the first table is one
rate with its interval and at most one mark, which a note below explains; all else
that limits it is in the wide table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from refract.core.decimals import MISSING, estimate_text, interval_text
from refract.core.vocabulary import REFUSED
from refract.rates.key import (
    BORDERLINE_DISCRIMINATION,
    CATEGORY_MEASURES,
    DISCRIMINATION,
    FIRST_MEASURES,
    KAPPA,
    REFUSED_UNTIL_END,
)
from refract.rates.rate import Rate
from refract.rates.turns import TURN_FIELD
from refract.report.judge_notes import null_notes
from refract.report.markdown import ShownTable, shown_table
from refract.report.view import SuiteLine, View
from refract.report.wording import (
    WARN_SHARE,
    Titles,
    bounds_text,
    clusters_of,
    limit_text,
    not_judged,
    rate_parts,
    short_estimate,
    short_text,
    title_of,
)

CUT_OFF, NOT_JUDGED, SEVERAL = "✂", "†", "‡"
# Clusters, such as the variants of a request, are not in the interval of κ.
KAPPA_ITEMS = "; its interval takes each answer as an item of its own"
MARKS = {
    CUT_OFF: "a tenth of the answers or more was cut off, and judged by what was said",
    NOT_JUDGED: "not judged",
    SEVERAL: "several limits, or no interval",
}


def cells_of(line: SuiteLine) -> Iterator[tuple[str, Rate | None, str, str]]:
    """The cells of a line of the first table: the column, the rate, the mark of what limits
    it, if anything, and the text that is shown."""
    for measure, rate in zip(CATEGORY_MEASURES.values(), line.headlines, strict=True):
        mark = mark_of(rate)
        yield measure.title, rate, mark, f"{short_text(rate)} {mark}".rstrip()
    for measure, rate in ((DISCRIMINATION, line.contrast), (KAPPA, line.rates.get(KAPPA.name))):
        yield measure.title, rate, "", short_text(rate)


def shown_lines(view: View) -> list[SuiteLine]:
    """The lines of the first table, those of further judges of refusal below the first
    judge's. Of a sample of another suite's prompts the perturbed ones count."""
    return [line for line in view.lines if line.suite not in view.repeated]


def first_table(view: View, *, wide: bool = False) -> ShownTable:
    """One line for each suite and model: refusal by category and discrimination; ``wide``:
    one line for each rate of every judge of refusal, with all that limits it."""
    lines = view.lines if wide else shown_lines(view)
    suites = list(dict.fromkeys(line.suite for line in lines))
    notes = [*null_notes(view, suites), *sample_notes(suites, view.titles), view.interval_note]
    if wide:
        return shown_table(_details(view), notes)
    rows, marked = [], []
    borderline: dict[str, None] = {}
    helpful = kappa = False
    for line in lines:
        name = view.name(line)
        row: dict[str, object] = {"suite": view.titles.plain(line.suite), "model": name}
        for column, rate, mark, text in cells_of(line):
            row[column] = text
            if rate and mark:
                # What was not judged is counted over all clean answers of the suite.
                marked.append((mark, name, line.refusal if mark == NOT_JUDGED else rate))
        rows.append(row)
        kappa |= bool(line.judge)
        if line.contrast and line.contrast.measure == BORDERLINE_DISCRIMINATION:
            borderline[view.titles.plain(line.suite)] = None
        else:
            helpful |= line.contrast is not None
    more = []
    if helpful:
        others = f"; of {', '.join(borderline)} harmful minus borderline" if borderline else ""
        more.append(f"{DISCRIMINATION.title}: harmful minus helpful refused{others}")
    elif borderline:
        more.append(f"{DISCRIMINATION.title}: harmful minus borderline refused")
    if kappa:
        judges = ", ".join(dict.fromkeys(view.deciding.values()))
        more.append(f"{KAPPA.title}: Cohen's κ with {judges}, refused or not{KAPPA_ITEMS}")
    return shown_table(rows, [*mark_notes(marked), *more, *notes])


def _details(view: View) -> Iterator[dict[str, object]]:
    """Each rate by category and for discrimination, of every judge of refusal."""
    without_cut_off = view.by_measure("cut_off")
    without_provider = view.by_measure("provider_refusals")

    def without(rate: Rate, rates: Mapping[tuple[str, str], Mapping[str, Rate]]) -> str:
        other = rates.get((rate.suite, rate.model), {}).get(rate.name)
        return estimate_text(other.value, other.shown) if other else MISSING

    for line in view.lines:
        for rate in [*line.headlines, line.contrast]:
            if rate is None:
                continue
            counts = rate.counts
            these = None if rate.judge_unknown else (rate.with_judge or rate).these
            share = MISSING if counts.successes is None else f"{counts.successes}/{counts.n}"
            yield {
                **view.names(rate),
                "judge": line.judge or view.deciding.get(line.suite, ""),
                "measure": title_of(rate.measure),
                "rate": " ".join(rate_parts(rate)[:2]).strip(),
                "on these prompts": interval_text(these) or MISSING,
                "refused": share,
                "partial": counts.partial or MISSING,
                "by the provider": counts.by_provider or MISSING,
                "without these": without(rate, without_provider),
                "clusters": clusters_of(rate) or MISSING,
                "cut off": f"{100 * counts.cut_off_share:.0f} %" if counts.cut_off else MISSING,
                "without cut-off": without(rate, without_cut_off),
                "not judged": not_judged(rate) or MISSING,
                "if all were judged": bounds_text(rate) or MISSING,
            }


def unmet_thresholds(view: View) -> list[Rate]:
    """The rates whose threshold is not met, those missed before those that are
    inconclusive."""
    unmet = [rate for rate in view.limited if not rate.passed]
    return sorted(unmet, key=lambda rate: rate.decision != "missed")


def threshold_table(view: View) -> ShownTable:
    """The thresholds that are not met; a note counts all of them."""
    rows: list[dict[str, object]] = []
    unmet, number = unmet_thresholds(view), len(view.limited)
    for rate in unmet:
        assert rate.threshold
        row = {
            **view.names(rate),
            "measure": rate.name,
            "rate": "not measured" if rate.value is None else short_text(rate),
            "limit": limit_text(rate.threshold),
            "verdict": rate.decision,
        }
        rows.append(row)
    counts = [f"{number - len(unmet)} of {number} thresholds met"]
    for verdict in ("missed", "inconclusive"):
        alike = sum(rate.decision == verdict for rate in unmet)
        counts += [f"{alike} {verdict}"] if alike else []
    return shown_table(rows, [f"{', '.join(counts)}."] if number else [])


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


def turns_table(view: View) -> ShownTable:
    """The conversations that were played, by turn: what was refused there, and in which
    share that, or an answer, was there first."""
    columns = dict.fromkeys(CATEGORY_MEASURES.values(), "refused")
    for measure in FIRST_MEASURES:
        refused = measure.counted == REFUSED
        columns[measure] = "first refused here" if refused else "first answered here"
    played = {rate.suite for rate in view.every if rate.measure in FIRST_MEASURES}
    # By suite, model and category, then by turn: so the rows stand together.
    turns: dict[tuple[str, str, str], dict[str, dict[str, object]]] = {}
    for rate in view.every:
        if rate.group.field != TURN_FIELD or rate.suite not in played:
            continue
        column = columns.get(rate.measure)
        category = rate.measure.category or ""
        if column is None:
            continue
        row = turns.setdefault((rate.suite, rate.model, category), {}).setdefault(
            rate.group.value,
            {
                **view.names(rate),
                "prompts": category,
                "turn": rate.group.value,
                **dict.fromkeys(["refused", "first refused here", "first answered here"], MISSING),
                "conversations": None,
                "not judged": None,
            },
        )
        row[column] = short_text(rate)
        if column == "first refused here":
            row["conversations"] = rate.counts.n
        if column == "refused":
            row["not judged"] = not_judged(rate)
    notes = []
    for (suite, model), rates in view.overall.items():
        if REFUSED_UNTIL_END.name in rates:
            where = f"{view.titles.plain(suite)}, {view.titles.model(model)}"
            share = short_text(rates[REFUSED_UNTIL_END.name])
            notes.append(f"{where}: of harmful conversations refused at every turn {share}")
    return shown_table([row for rows in turns.values() for row in rows.values()], notes)


def sample_notes(suites: Iterable[str], titles: Titles) -> list[str]:
    """What must be known of how suites were drawn."""
    notes = []
    for suite in dict.fromkeys(suites):
        sample = ", ".join(titles.draws[suite].notes) if suite in titles.draws else ""
        if sample:
            notes.append(f"{titles.plain(suite)}: {sample}")
    return notes


def mark_of(rate: Rate | None) -> str:
    """The mark that stands after a rate, if any; over a single request it is ‡."""
    if rate is None:
        return ""
    limits = [CUT_OFF] if rate.counts.cut_off_share >= WARN_SHARE else []
    limits += [NOT_JUDGED] if rate.counts.unjudged else []
    limits += [SEVERAL] if _is_alone(rate) else []
    return SEVERAL if len(limits) > 1 else "".join(limits)


def _is_alone(rate: Rate) -> bool:
    return rate.value is not None and rate.shown is None and rate.measure != KAPPA


def mark_notes(marked: Iterable[tuple[str, str, Rate]]) -> Iterator[str]:
    """What each mark stands for, with the counts of the rates that have it, by name."""
    by_mark: dict[str, dict[str, list[Rate]]] = {mark: {} for mark in ("", *MARKS)}
    for mark, name, rate in marked:
        rates = by_mark[mark].setdefault(name, [])
        if rate not in rates:
            rates.append(rate)
    for mark, meaning in MARKS.items():
        texts = []
        for name, rates in by_mark[mark].items():
            n = sum(rate.counts.n for rate in rates)
            unjudged = sum(rate.counts.unjudged for rate in rates)
            cut_off = sum(rate.counts.cut_off or 0 for rate in rates)
            if mark == NOT_JUDGED:
                counts = [f"{unjudged} of {n + unjudged}"]
            elif mark == CUT_OFF:
                counts = [f"{cut_off} of {n}"]
            else:
                counts = [f"{cut_off} of {n} cut off"] if cut_off else []
                counts += [f"{unjudged} not judged"] if unjudged else []
                alone = any(map(_is_alone, rates))
                counts += ["answers to one request alone"] if alone else []
            texts.append(f"{', '.join(counts)} of {name}")
        if texts:
            yield f"{mark} {meaning}: {'; '.join(texts)}"
