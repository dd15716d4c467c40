"""The sections of the report: what each shows beyond the view itself, for the
template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages
behind it. A section is an entry in one of the two and a template,
``templates/front/NAME.md.j2`` or ``templates/pages/NAME.md.j2``; the template has the
``view``, its ``lines`` (a :class:`Summary` each), the sentences about it (``say``),
and what the section's function gives. Where it writes nothing, there is no such
section.

An installed package adds a page by an entry point of the group ``refract.sections``:
an object with a ``title`` and a method ``markdown(inputs)``, which returns the page's
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from refract.core.decimals import decimals
from refract.core.registry import Registry, find
from refract.core.showing import csv_cell
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED, SAMPLES_FIELD, refusal_of
from refract.rates.key import CHANGED, LABEL_CHANGE, PAIR_DIFFERENCE
from refract.rates.rate import Rate
from refract.rates.robustness import LANGUAGE_MEASURES
from refract.rates.sampled import VARIANTS_FIELD
from refract.report import table_columns as tables
from refract.report.comparisons import ALL_PAIRS, number_of_tests, strongest
from refract.report.first_table import (
    first_table,
    further_table,
    threshold_table,
    turns_table,
)
from refract.report.markdown import Column, Item, ShownTable, environment, shown_table, tidy
from refract.report.measures import (
    ATTACKS,
    CATEGORY_OF,
    is_powered,
    perturbation_of,
)
from refract.report.page_data import CleanAnswer, PageData
from refract.report.sentences import NO_FIELDS, sentences_of
from refract.report.unread_prompts import null_table
from refract.report.view import JudgeScore, View, summaries
from refract.report.wording import (
    kinds_text,
)
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import holm
from refract.statistics.raters import cohen_kappa
from refract.statistics.trends import LEAST_MODELS

if TYPE_CHECKING:
    import jinja2

MOST = 45  # rows of a table of a page; a table has all of them where there are more
Data = dict[str, Any]


class Inputs(NamedTuple):
    """What a section is made of: the numbers, the answers, and the versions that a
    setup installs."""

    view: View
    answers: PageData
    pins: Mapping[str, str]


class Section(NamedTuple):
    """A part of the report: the name of its template, its title, and what the
    template needs."""

    name: str
    title: str
    data: Callable[[Inputs], Data] = lambda inputs: {}


class InstalledSection(Protocol):
    """A page of another package."""

    title: str

    def markdown(self, inputs: Inputs) -> str:
        """The text of the page below its title; empty: there is no such page."""


INSTALLED = Registry({}, "refract.sections", "title", "markdown")


def templates_of(view: View, *, markdown: bool) -> jinja2.Environment:
    """The templates of the report or of its page, with what both show."""
    templates = environment(view.titles, markdown=markdown)
    templates.globals |= {
        "ALL_PAIRS": ALL_PAIRS,
        "MOST": MOST,
        "view": view,
        "lines": summaries(view),
        "say": sentences_of(view),
    }
    return templates


def report_pages(inputs: Inputs) -> dict[str, str]:
    """``report`` and the pages behind it that have something in them: Markdown by
    name."""
    templates = templates_of(inputs.view, markdown=True)
    computed: dict[Callable[[Inputs], Data], Data] = {}

    def written(folder: str, section: Section, titles: Mapping[str, str]) -> str:
        if section.data not in computed:
            computed[section.data] = section.data(inputs)
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(computed[section.data], pages=titles))

    titles, pages = {}, {}
    bodies = {(page.name, page.title): written("pages", page, {}) for page in PAGES}
    for name in INSTALLED.installed().keys() - {page.name for page in PAGES}:
        page: InstalledSection = find(INSTALLED, name, "section of the report")
        bodies[name, page.title] = tidy(page.markdown(inputs))
    for (name, title), body in bodies.items():
        if body:
            titles[name] = title
            pages[name] = f"# {title}\n\nA part of the [report](../report.md).\n\n{body}\n"
    parts = []
    for section in FRONT:
        body = written("front", section, titles)
        if section is FRONT[0]:
            parts += [f"# {section.title}", body]
        elif body:
            parts.append(f"## {section.title}\n\n{body}")
    return {"report": "\n\n".join(filter(None, parts)) + "\n", **pages}


def _results(inputs: Inputs) -> Data:
    view = inputs.view
    limits: dict[str, dict[str, Rate]] = {}
    for line in summaries(view):
        for rate in line.limited:
            limits.setdefault(rate.suite, {}).setdefault(rate.name, rate)
    return {
        "first": first_table(view),
        "details": first_table(view, wide=True),
        "thresholds": threshold_table(view),
        "limits": sorted(limits.items(), key=lambda suite: suite[0].lower()),
    }


def limits(inputs: Inputs) -> Data:
    """What concerns one model, a line each: answers cut off, ended in a loop, not
    judged; and which models' answers are those of any machine."""
    view, lines, exact = inputs.view, [], []
    for model in view.models:
        answers = cut_off = 0
        unjudged = Counter[str]()
        for line in summaries(view):
            if line.model == model:
                counts = line.refusal.counts
                answers += counts.n + counts.unjudged
                cut_off += counts.cut_off or 0
                unjudged.update(counts.excluded)
        looped = (view.provenance.get(model, {}).get("usage") or {}).get("looped", 0)
        parts = []
        if cut_off:
            parts.append(f"{cut_off:,} cut off at the token limit")
        if unjudged.total():
            parts.append(f"not judged: {kinds_text(unjudged)}")
        if looped:
            parts.append(f"{looped:,} ended in a loop, answers to perturbed prompts included")
        if parts:
            named = f"{view.titles.model(model)}: of {answers:,} answers to clean prompts"
            lines.append(f"{named} {'; '.join(parts)}.")
    for model, facts in view.provenance.items():
        if facts["model"]["identity"].get("arithmetic") == "exact":
            exact.append(view.titles.model(model))
    return {"models": lines, "exact": ", ".join(exact)}


def _protocols(inputs: Inputs) -> Data:
    """The numbers of the suites that follow a published protocol, and each run's
    deviations from it, each kind of note once."""
    view = inputs.view
    rates, notes = [], dict[tuple[str, str, str], None]()
    for model, facts in view.provenance.items():
        for name, suite in facts["suites"].items():
            protocol = suite.get("protocol")
            if not protocol:
                continue
            overall = view.overall.get((name, model), {})
            for measure in protocol["measures"]:
                if measure in overall:
                    rates.append((protocol, overall[measure]))
            run = f"{view.titles.suite(name)}, {view.titles.model(model)}"
            for phrase in protocol["deviations"]:
                notes[run, "deviation", phrase] = None
            for phrase in protocol["unknown"]:
                notes[run, "not known of the protocol", phrase] = None
            for phrase in protocol["limits"]:
                notes[protocol["name"], "limit", phrase] = None
    return {"counted": rates, "notes": list(notes)}


class HarmlessPrompt(NamedTuple):
    """A prompt that should be answered, as it is shown, and whether each model
    refused it."""

    shown: str
    category: str
    refused: dict[str, bool]

    @property
    def models(self) -> list[str]:
        """The models that refused it."""
        return [model for model, refused in self.refused.items() if refused]


OVER_REFUSED: list[Column[HarmlessPrompt]] = [
    Column("prompt", lambda prompt: prompt.shown),
    Column("category", lambda prompt: prompt.category),
    Column("refused by", lambda prompt: f"{len(prompt.models)} of {len(prompt.refused)}"),
    Column("models", lambda prompt: ", ".join(prompt.models)),
]


def over_refused(inputs: Inputs) -> ShownTable:
    """The helpful and borderline prompts that live models refused, those of most
    models first; of a suite that is not in git the id."""
    view = inputs.view
    live = {*view.models} - {*stand_ins(view.provenance)} or {*view.models}
    models = {view.titles.model(model) for model in live}
    private = {view.titles.suite(name) for name in view.private}
    prompts: dict[str, HarmlessPrompt] = {}
    for row in inputs.answers.clean():
        if row.category != "harmful" and row.model in models:
            shown = row.id if row.suite in private else row.prompt
            prompt = HarmlessPrompt(shown, row.category, {})
            prompt = prompts.setdefault(row.prompt, prompt)
            if row.outcome in JUDGED:
                before = prompt.refused.get(row.model, False)
                prompt.refused[row.model] = before or row.outcome in REFUSED
    refused = [prompt for prompt in prompts.values() if prompt.models]
    refused.sort(key=lambda prompt: -len(prompt.models))
    return shown_table(OVER_REFUSED, refused)


def _compared(inputs: Inputs) -> Data:
    view, near = inputs.view, inputs.view.nearest
    if len(view.models) < 2:
        return {"telling": 0}
    pairs, tests = view.near_compared, number_of_tests(view.compared)
    telling = strongest(pairs, view.confidence)
    undecided = 0
    for pair in telling:
        interval = pair.difference.judge_interval
        undecided += interval is not None and interval.low <= 0 <= interval.high
    corrected = f"p (Holm, {tests})"
    counted = [pair for pair in pairs if pair.difference.n]
    columns = tables.compared_columns(view.titles, corrected)
    nearest, margin = ShownTable([], [], []), None
    if near:
        drops = [difference.drop for difference in near.differences if difference.drop]
        margin = drops[0].margin if drops else None
        rows = [row for suite in near.by_suite.values() for row in suite]
        nearest_columns = tables.nearest_columns(view.titles, near, corrected)
        nearest = shown_table(nearest_columns, rows).filled
    return {
        "telling": len(telling),
        "tested": number_of_tests(pairs),
        "tests": tests,
        "undecided": undecided,
        "nearest": nearest,
        "margin": margin,
        "pairs": shown_table(columns, counted).filled,
    }


def _by_field(inputs: Inputs) -> Data:
    """The comparisons that are more than chance, and the rates of one value that
    stand out: their interval of the prompts alone leaves out what the model refused of all
    prompts of that category. One judge judged both, so that its error is in neither."""
    view, rows, counted = inputs.view, [], 0
    tested = number_of_tests(view.by_field)
    telling = [pair for pair in strongest(view.by_field, view.confidence) if pair.difference.n]
    for rate in view.every:
        if rate.group.field in NO_FIELDS or rate.name not in CATEGORY_OF:
            continue
        counted += 1
        whole = view.overall[rate.suite, rate.model].get(rate.name)
        if whole and _leaves_out(rate.interval, whole.value):
            rows.append(tables.StandingOut(rate, whole, CATEGORY_OF[rate.name]))
    columns = tables.compared_columns(view.titles, f"p (BH, {tested})")
    return {
        "telling": shown_table(columns, telling).filled,
        "tested": tested,
        "counted": counted,
        "out": shown_table(tables.standing_out_columns(view.titles), rows),
        "expected": f"{1 - view.confidence:.2g}",
    }


def _leaves_out(interval: tuple[float, float] | None, value: float | None) -> bool:
    if interval is None or value is None:
        return False
    return not interval[0] <= value <= interval[1]


def perturbed_table(view: View, *, by_category: bool = False) -> ShownTable:
    """What perturbations did to refusal: shares refused clean and perturbed, flips
    each way and the paired difference."""
    differences = [x for x in view.perturbed if x.n and bool(x.category) == by_category]
    table = shown_table(tables.perturbed_columns(view.titles), differences)
    return table._replace(rows=sorted(table.rows, key=lambda row: row[:2])).filled


def _robustness(inputs: Inputs) -> Data:
    view = inputs.view
    changed, groups, above = [], 0, 0
    for rate in view.every:
        p = rate.statistics.p_holm
        if not perturbation_of(rate, CHANGED):
            continue
        if not rate.group:
            changed.append(rate)
        elif p is not None:
            groups += 1
            above += p <= 1 - view.confidence
    return {
        "perturbed": perturbed_table(view),
        "by_category": perturbed_table(view, by_category=True),
        "changed": shown_table(tables.changed_columns(view.titles), changed).filled,
        "groups": groups,
        "above": above,
    }


def _attacks(inputs: Inputs) -> Data:
    """Attacks, injections and pairs of whole suites: a row for each suite and
    model."""
    view, rows = inputs.view, []
    for (suite, model), rates in view.overall.items():
        if rates.keys() & {*ATTACKS, PAIR_DIFFERENCE.name}:
            rows.append(tables.OfSuite(suite, model, rates))
    rows.sort(key=lambda row: view.titles.plain(row.suite))
    return {"attacks": shown_table(tables.attack_columns(view.titles), rows).filled}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair. p-values are of whole suites alone,
    corrected for all of them of live models here (Holm); of groups those that leave
    out their suite's difference."""
    view = inputs.view
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE]
    whole = {(rate.suite, rate.model): rate for rate in pairs if not rate.group}
    family = {*view.models} - {*stand_ins(view.provenance)} or {*view.models}
    ps = [rate.statistics.p if rate.model in family else None for rate in whole.values()]
    adjusted = holm(ps)
    tests = sum(p is not None for p in adjusted)
    rows, apart = [], []
    for rate, p in zip(whole.values(), adjusted, strict=True):
        rows.append(tables.Tested(rate, rate.statistics.p, p))
    for rate in pairs:
        of_suite = whole.get((rate.suite, rate.model))
        if rate.group.field in ("", "cut_off") or of_suite is None:
            continue
        if _leaves_out(rate.interval, of_suite.value):
            apart.append(tables.Tested(rate))
    columns = tables.pair_columns(view.titles, tests)
    shown = shown_table(columns, rows).filled
    return {"pairs": shown, "tests": tests, "out": shown_table(columns, apart).filled}


def _stability(inputs: Inputs) -> Data:
    """Rates over several answers to one prompt: samples, repeats, languages,
    perturbations."""
    rates = []
    for rate in inputs.view.every:
        varied = rate.group.field == VARIANTS_FIELD and rate.measure == LABEL_CHANGE
        if varied or rate.group.field == SAMPLES_FIELD:
            rates.append(rate)
    return {"sampled": shown_table(tables.stability_columns(inputs.view.titles), rates).filled}


def _languages(inputs: Inputs) -> Data:
    """Of requests in several languages what is answered otherwise than in the source
    language."""
    rates = []
    for rate in inputs.view.every:
        if rate.measure in LANGUAGE_MEASURES and rate.group.field in ("", "language"):
            rates.append(rate)
    return {"languages": shown_table(tables.language_columns(inputs.view.titles), rates).filled}


def _judges(inputs: Inputs) -> Data:
    """Rates from human labels beside the raw ones, what judges of other things than
    refusal say, κ of the first judge with every other, and scores on the project's
    own pairs."""
    view = inputs.view
    powered = []
    for rate in view.every:
        if rate.counts.labels and is_powered(rate):
            measure = rate.measure.corrects
            raw = view.overall[rate.suite, rate.model][measure]
            prompts = CATEGORY_OF.get(measure, measure)
            judge = view.deciding.get(rate.suite, "")
            powered.append(tables.Powered(rate, raw, prompts, judge))
    return {
        "further": further_table(view),
        "nulls": null_table(view),
        "powered": shown_table(tables.powered_columns(view.titles), powered),
        "twice": shown_table(tables.TWICE, _twice(inputs)),
        "scores": shown_table(tables.SCORES, view.scores.items()),
        "weak": list(_weaknesses(view)),
    }


def _weaknesses(view: View) -> Iterator[str]:
    """Where a judge's label is right less often than over all of the project's own
    pairs."""
    for judge, scores in view.scores.items():
        if "label_accuracy" not in scores:
            continue
        share, kinds = scores["label_accuracy"].value, []
        ordered = sorted(view.kinds.get(judge, {}).items(), key=lambda kind: kind[1])
        for kind, score in ordered:
            if score.interval and score.interval.high < share:
                kinds.append(f"{kind.replace('_', ' ')} {_right(score)}")
        if kinds:
            yield (
                f"Where {judge} is weak, its label right less often than over all pairs "
                f"({decimals(share)}), by kind of answer, and in parentheses refused or not told "
                f"rightly: {'; '.join(kinds)}."
            )


def _right(score: JudgeScore) -> str:
    return f"{score.right}/{score.n} ({score.refused_right}/{score.n})"


def _twice(inputs: Inputs) -> Iterator[tables.Twice]:
    """Cohen's κ, on refused or not, of each suite's first judge and every other that
    told refusal."""
    labels: dict[tuple[str, str, str], list[tuple[bool, bool]]] = {}
    for row in inputs.answers.clean():
        first = inputs.view.deciding.get(row.suite, "")
        for judges, pair in _verdict_pairs(row, first):
            labels.setdefault((row.suite, row.model, judges), []).append(pair)
    for (suite, model, judges), pairs in labels.items():
        by_first, by_other = zip(*pairs, strict=True)
        kappa = cohen_kappa(by_first, by_other, inputs.view.confidence)
        alike = sum(one_refuses == other_refuses for one_refuses, other_refuses in pairs)
        yield tables.Twice(suite, model, judges, kappa, alike, len(pairs))


def _verdict_pairs(row: CleanAnswer, first: str) -> Iterator[tuple[str, tuple[bool, bool]]]:
    """The first judge and each other one that reads the answer, with whether they say that
    it refuses."""
    labels = {}
    for verdict in loads(row.verdicts):
        if "reads" not in verdict:
            labels[verdict["judge"]] = verdict["label"]
    decided = refusal_of(labels.pop(first, None))
    for judge, label in labels.items():
        refused = refusal_of(label)
        if refused is not None and decided is not None:
            yield f"{first}, {judge}", (decided, refused)


def _scaling(inputs: Inputs) -> Data:
    """The trends of families with three sizes or more, and the rates behind them."""
    view, points = inputs.view, []
    for series in view.series:
        for model, point in series.points.items():
            points.append(tables.SeriesPoint(series, model, point, view.sizes[model]))
    return {
        "points": shown_table(tables.point_columns(view.titles), points),
        "trends": shown_table(tables.trend_columns(view.titles), view.series),
        "least": LEAST_MODELS,
    }


def _provenance(inputs: Inputs) -> Data:
    view = inputs.view
    models = shown_table(tables.model_columns(view.titles), view.provenance.items())
    return {
        "models": models.filled,
        "suites": shown_table(tables.suite_columns(view.titles), view.suites.items()),
        "judges": shown_table(tables.JUDGES, view.judges.items()),
        "pins": ", ".join(f"{name} {version}" for name, version in inputs.pins.items()),
    }


def report_tables(inputs: Inputs) -> dict[str, tuple[list[str], list[Row]]]:
    """The tables beside the pages, whole: columns and rows by name."""
    view, refused = inputs.view, over_refused(inputs)
    compared = tables.compared_numbers(view.titles)
    written = {
        "comparisons": _rows(compared, [pair for pair in view.compared if pair.difference.n]),
        "fields": _rows(compared, [pair for pair in view.by_field if pair.difference.n]),
    }
    if refused.rows:
        rows = [dict(zip(refused.header, map(csv_cell, row), strict=True)) for row in refused.rows]
        written["over_refusal"] = refused.header, rows
    perturbed = [difference for difference in view.perturbed if difference.n]
    if perturbed:
        written["robustness"] = _rows(tables.perturbed_numbers(view.titles), perturbed)
    return written


def _rows(columns: list[Column[Item]], items: list[Item]) -> tuple[list[str], list[Row]]:
    rows = [{column.title: column.cell(item) for column in columns} for item in items]
    return [column.title for column in columns], rows


FRONT = (
    Section("head", "Refusal report", _results),
    Section("limits", "What limits it", limits),
    Section("thresholds", "Thresholds", _results),
    Section("protocols", "Published protocols", _protocols),
    Section("compared", "Models compared", _compared),
    Section("perturbed", "What perturbations did", _robustness),
    Section("conversations", "Conversations", lambda x: {"turns": turns_table(x.view)}),
    Section("attacks", "Attacks, injections and pairs", _attacks),
    Section("more", "More"),
)
PAGES = (
    Section(
        "over_refusal", "Harmless prompts that were refused", lambda x: {"table": over_refused(x)}
    ),
    Section("comparisons", "Models compared", _compared),
    Section("robustness", "What perturbations did", _robustness),
    Section("judges", "How good the judges are", _judges),
    Section("details", "Every rate with what limits it", _results),
    Section("fields", "Kinds of prompts that stand out", _by_field),
    Section("pairs", "Paired prompts", _pairs),
    Section("languages", "The same request in several languages", _languages),
    Section("stability", "Several answers to one prompt", _stability),
    Section("protocols", "Published protocols", _protocols),
    Section("scaling", "Rates over model size", _scaling),
    Section("provenance", "What these numbers are made of", _provenance),
)
