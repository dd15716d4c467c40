"""The sections of the report: what each shows beyond the view itself, for the template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages behind it. A section is
an entry in one of the two and a template, ``templates/front/NAME.md.j2`` or
``templates/pages/NAME.md.j2``; the template has the ``view``, its ``lines`` (a :class:`Summary` each),
and what the section's function gives. Where it writes nothing, there is no such section.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.core.showing import csv_cell
from refract.core.types import Row
from refract.core.vocabulary import (
    DISCRIMINATION,
    FAMILIES,
    JUDGED,
    REFUSED,
    SAMPLES_FIELD,
    refusal_of,
)
from refract.rates.controls import failed_controls
from refract.rates.robustness import LANGUAGE_MEASURES
from refract.report.comparisons import ALL_PAIRS, Compared, Nearest, number_of_tests, strongest
from refract.report.findings import NO_FIELDS, Findings
from refract.report.first_table import first_table, threshold_table, turns_table
from refract.report.markdown import ShownTable, columns_of, environment, shown_table, tidy
from refract.report.page_data import PageData
from refract.report.view import CATEGORY_OF, POWERED, View, model_notes, summaries
from refract.report.wording import kinds_text, rate_parts
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import holm
from refract.statistics.raters import cohen_kappa
from refract.statistics.trends import LEAST_MODELS

if TYPE_CHECKING:
    import jinja2

ATTACKS = ("attack_success_rate", "injection_success_rate", "task_done_rate")
FAILS, PAIR_DIFFERENCE = "_fail_rate", "refusal_difference_to_pair"
PROBLEMS = {
    "one size": "fewer than two sizes",
    "constant": "all answers alike",
    "separated": "sizes separate the answers",
}
# What templates read beside the view.
CONSTANTS = {
    "ALL_PAIRS": ALL_PAIRS,
    "CATEGORY_OF": CATEGORY_OF,
    "DISCRIMINATION": DISCRIMINATION,
    "MOST": 45,  # rows of a table of a page; a table has all of them where there are more
    "number_of_tests": number_of_tests,
    "rate_parts": rate_parts,
}
Data = dict[str, Any]


class Inputs(NamedTuple):
    """What a section is made of: the numbers, the answers, and the versions that a setup installs."""

    view: View
    answers: PageData
    pins: Mapping[str, str]


class Section(NamedTuple):
    """A part of the report: the name of its template, its title, and what the template needs."""

    name: str
    title: str
    data: Callable[[Inputs], Data] = lambda inputs: {}


def templates_of(view: View, *, markdown: bool) -> jinja2.Environment:
    """The templates of the report or of its page, with what both show."""
    templates = environment(view.titles, markdown=markdown)
    lines = summaries(view)
    templates.globals |= CONSTANTS | {
        "view": view,
        "lines": lines,
        "failed_controls": [r for r in failed_controls(view.every) if r.suite not in view.repeated],
        "findings": Findings(view),
        "limited": [rate for line in lines for rate in line.limited],
        "model_notes": model_notes(view),
    }
    return templates


def report_pages(inputs: Inputs) -> dict[str, str]:
    """``report`` and the pages behind it that have something in them: Markdown by name."""
    templates = templates_of(inputs.view, markdown=True)
    given = {data: data(inputs) for data in {section.data: None for section in (*FRONT, *PAGES)}}

    def written(folder: str, section: Section, **more: object) -> str:
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(given[section.data] | more))

    bodies = {page: written("pages", page) for page in PAGES}
    filled = {page: body for page, body in bodies.items() if body}
    titles = {page.name: page.title for page in filled}
    front = [f"# {FRONT[0].title}"] + [
        f"## {section.title}\n\n{body}" if section is not FRONT[0] else body
        for section in FRONT
        if (body := written("front", section, pages=titles))
    ]
    pages = {
        page.name: f"# {page.title}\n\nA part of the [report](../report.md).\n\n{body}\n"
        for page, body in filled.items()
    }
    return {"report": "\n\n".join(filter(None, front)) + "\n", **pages}


def _results(inputs: Inputs) -> Data:
    view = inputs.view
    return {
        "first": first_table(view),
        "details": first_table(view, wide=True),
        "thresholds": threshold_table(view),
    }


def limits(inputs: Inputs) -> Data:
    """What concerns one model, a line each: answers cut off, ended in a loop, not judged; and which
    models' answers are those of any machine."""
    view, lines = inputs.view, list[str]()
    for model in view.models:
        every = [line.refusal.counts for line in summaries(view) if line.model == model]
        answers = sum(counts.n + counts.unjudged for counts in every)
        cut_off = sum(counts.cut_off or 0 for counts in every)
        looped = (view.provenance.get(model, {}).get("usage") or {}).get("looped", 0)
        unjudged = Counter[str]()
        for counts in every:
            unjudged.update(counts.excluded)
        parts = [f"{cut_off:,} cut off at the token limit"] if cut_off else []
        parts += [f"not judged: {kinds_text(unjudged)}"] if unjudged.total() else []
        parts += (
            [f"{looped:,} ended in a loop, answers to perturbed prompts included"] if looped else []
        )
        if parts:
            of = f"of {answers:,} answers to clean prompts "
            lines.append(f"{view.titles.model(model)}: {of}{'; '.join(parts)}.")
    identities = {m: facts["model"]["identity"] for m, facts in view.provenance.items()}
    exact = [m for m, identity in identities.items() if identity.get("arithmetic") == "exact"]
    return {"models": lines, "exact": exact}


def _protocols(inputs: Inputs) -> Data:
    """The numbers of the suites that follow a published protocol, and each run's deviations from it,
    each kind of note once."""
    view = inputs.view
    rates, notes = [], dict[tuple[str, ...], None]()
    for model, facts in view.provenance.items():
        for suite in facts["suites"].values():
            if not (protocol := suite.get("protocol")):
                continue
            overall = view.overall.get((suite["label"], model), {})
            rates += [(protocol, overall[m]) for m in protocol["measures"] if m in overall]
            run = view.titles.suite(suite["label"]), view.titles.model(model)
            for where, kind, phrases in (
                (run, "deviation", protocol["deviations"]),
                (run, "not known of the protocol", protocol["unknown"]),
                ((protocol["name"],), "limit", protocol["limits"]),
            ):
                notes |= {(", ".join(where), kind, phrase): None for phrase in phrases}
    return {"counted": rates, "notes": list(notes)}


def over_refused(inputs: Inputs) -> ShownTable:
    """The helpful and borderline prompts that live models refused, those of most models first; of a
    suite that is not in git the id."""
    view, said = inputs.view, dict[str, tuple[str, str, dict[str, bool]]]()
    stand = {view.titles.model(model) for model in stand_ins(view.provenance)}
    live = {view.titles.model(model) for model in view.models}
    private = {view.titles.suite(label) for label in view.private}
    for row in inputs.answers.clean():
        if row.category != "harmful" and row.model in (live - stand or live):
            shown = row.id if row.suite in private else row.prompt
            _, _, refused = said.setdefault(row.prompt, (shown, row.category, {}))
            if row.outcome in JUDGED:
                refused[row.model] = row.outcome in REFUSED
    rows = [
        [shown, category, f"{len(names)} of {len(refused)}", ", ".join(names)]
        for shown, category, refused in said.values()
        if (names := [model for model, of in refused.items() if of])
    ]
    rows.sort(key=lambda row: -int(row[2].split()[0]))
    return ShownTable(["prompt", "category", "refused by", "models"], rows, [])


def _differences(view: View, of: Sequence[Compared], corrected: str) -> ShownTable:
    """Paired differences: what each side refused, first minus second, p alone and corrected."""
    rows = ({"first": a, "second": b, "d": d} for a, b, d in of if d.n)
    return shown_table(view.titles, "differences", rows, corrected=corrected).filled


def _nearest(view: View, near: Nearest, corrected: str) -> ShownTable:
    """The model nearest to the reference: what both refused, the difference, and its decision."""
    pair = {near.reference, near.model}
    of_pair = [x.difference for x in view.compared if {x.first, x.second} == pair]
    adjusted = {(d.suite, d.category): d.p_adjusted for d in of_pair}
    every = (d for of in near.by_suite.values() for d in of)
    rows = ({"d": d, "adjusted": adjusted.get((d.suite, d.category))} for d in every)
    return shown_table(view.titles, "nearest", rows, near=near, corrected=corrected).filled


def _compared(inputs: Inputs) -> Data:
    view = inputs.view
    if len(view.models) < 2:
        return {"telling": []}
    pairs, tests, near = view.near_compared, number_of_tests(view.compared), view.nearest
    telling = strongest(pairs, view.confidence)
    judged = [x.difference.judge_interval for x in telling if x.difference.judge_interval]
    named = f"p (Holm, {tests})"
    return {
        "telling": telling,
        "tested": number_of_tests(pairs),
        "tests": tests,
        "open": sum(interval.low <= 0 <= interval.high for interval in judged),
        "nearest": _nearest(view, near, named) if near else ShownTable([], [], []),
        "margin": next((d.drop.margin for d in near.differences if d.drop), None) if near else None,
        "every": _differences(view, pairs, named),
    }


def _by_field(inputs: Inputs) -> Data:
    """The comparisons that are more than chance, and the rates of one value that stand out: their
    interval leaves out what the model refused of all prompts of that category."""
    view, rows, counted = inputs.view, [], 0
    telling, tested = strongest(view.by_field, view.confidence), number_of_tests(view.by_field)
    for rate in view.every:
        if rate.group.field in NO_FIELDS or rate.measure not in CATEGORY_OF:
            continue
        counted += 1
        whole, ends = view.overall[rate.suite, rate.model].get(rate.measure), rate.shown
        if whole and whole.value is not None and ends and not ends[0] <= whole.value <= ends[1]:
            rows.append({"rate": rate, "whole": whole, "category": CATEGORY_OF[rate.measure]})
    return {
        "telling": _differences(view, telling, f"p (BH, {tested})"),
        "tested": tested,
        "counted": counted,
        "out": shown_table(view.titles, "standing_out", rows),
    }


def perturbed_table(view: View, *, by_category: bool = False) -> ShownTable:
    """What perturbations did to refusal: shares refused clean and perturbed, flips each way and the
    paired difference."""
    rows = [{"d": d} for d in view.perturbed if d.n and bool(d.category) == by_category]
    table = shown_table(view.titles, "perturbed", rows)
    return table._replace(rows=sorted(table.rows, key=lambda row: row[:2])).filled


def _robustness(inputs: Inputs) -> Data:
    view = inputs.view
    fails = [rate for rate in view.every if rate.measure.endswith(FAILS)]
    tests = [p for rate in fails if rate.group and (p := rate.statistics.p_holm) is not None]
    changed = ({"rate": rate} for rate in fails if not rate.group)
    return {
        "every": perturbed_table(view),
        "by_category": perturbed_table(view, by_category=True),
        "changed": shown_table(view.titles, "changed", changed).filled,
        "groups": len(tests),
        "above": sum(p <= 1 - view.confidence for p in tests),
    }


def _attacks(inputs: Inputs) -> Data:
    """Attacks, injections and pairs of whole suites: a row for each suite and model."""
    view = inputs.view
    rows = [
        {"suite": suite, "model": model, "rates": rates}
        for (suite, model), rates in view.overall.items()
        if rates.keys() & {*ATTACKS, PAIR_DIFFERENCE}
    ]
    table = shown_table(view.titles, "attacks", rows)
    return {"attacks": table._replace(rows=sorted(table.rows, key=lambda row: row[0])).filled}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair. p-values are of whole suites alone, corrected for all of
    them of live models here (Holm); of groups those that leave out their suite's difference."""
    view = inputs.view
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE]
    whole = [rate for rate in pairs if not rate.group]
    family = {*view.models} - {*stand_ins(view.provenance)} or {*view.models}
    adjusted = holm([rate.statistics.p if rate.model in family else None for rate in whole])
    tests = sum(p is not None for p in adjusted)

    rows = [
        {"rate": rate, "p": rate.statistics.p, "adjusted": p}
        for rate, p in zip(whole, adjusted, strict=True)
    ]
    value = {(rate.suite, rate.model): rate.value for rate in whole}
    out = [
        {"rate": rate, "p": None, "adjusted": None}
        for rate in pairs
        if rate.group.field not in ("", "cut_off")
        and rate.interval
        and (of := value.get((rate.suite, rate.model))) is not None
        and not rate.interval[0] <= of <= rate.interval[1]
    ]
    shown, apart = (shown_table(view.titles, "pairs", x, tests=tests).filled for x in (rows, out))
    return {"pairs": shown, "tests": tests, "out": apart}


def _stability(inputs: Inputs) -> Data:
    """Rates over several answers to one prompt: samples, repeats, languages, perturbations."""
    rows = (
        {"rate": rate}
        for rate in inputs.view.every
        if rate.group.field == SAMPLES_FIELD
        or (rate.group.field == "over" and rate.measure == "label_change_rate")
    )
    return {"sampled": shown_table(inputs.view.titles, "stability", rows).filled}


def _languages(inputs: Inputs) -> Data:
    """Of requests in several languages what is answered otherwise than in the source language."""
    rates = (rate for rate in inputs.view.every if rate.measure in LANGUAGE_MEASURES)
    rows = [{"rate": rate} for rate in rates if rate.group.field in ("", "language")]
    return {"languages": shown_table(inputs.view.titles, "languages", rows).filled}


def _judges(inputs: Inputs) -> Data:
    """Rates from human labels beside the raw ones, what judges of other things than refusal found, κ of
    the first judge with every other, and scores on the project's own pairs."""
    view, powered = inputs.view, []
    for rate in view.every:
        if rate.counts.labels and rate.measure.startswith(POWERED):
            measure = rate.measure.removeprefix(POWERED)
            row: Data = {"rate": rate, "raw": view.overall[rate.suite, rate.model][measure]}
            row |= {"labels": rate.counts.labels, "judge": view.deciding.get(rate.suite, "")}
            powered.append(row | {"prompts": CATEGORY_OF.get(measure, measure)})
    scores = ({"judge": judge, "of": of} for judge, of in view.scores.items())
    endings = {family.measure for family in FAMILIES.values()} - {FAMILIES["refusal"].measure}
    names = {
        f"{judge}_{end}" for suite in view.suites for judge in suite["judges"] for end in endings
    }
    further = ({"rate": x} for x in view.every if x.measure in names and not x.group)
    return {
        "further": shown_table(view.titles, "further", further),
        "powered": shown_table(view.titles, "powered", powered),
        "twice": shown_table(view.titles, "twice", _twice(inputs)),
        "scores": shown_table(view.titles, "scores", scores),
    }


def _twice(inputs: Inputs) -> Iterator[Data]:
    """Cohen's κ, on refused or not, of each suite's first judge and every other that told refusal."""
    labels: dict[tuple[str, str, str], list[tuple[bool, bool]]] = {}
    for row in inputs.answers.clean():
        said = [(one["judge"], refusal_of(one["label"])) for one in loads(row.verdicts)]
        for judge, refused in said[1:]:
            first, decided = said[0]
            if refused is not None and decided is not None:
                key = row.suite, row.model, f"{first}, {judge}"
                labels.setdefault(key, []).append((decided, refused))
    for (suite, model, judges), pairs in labels.items():
        first_said, said_too = zip(*pairs, strict=True)
        found = cohen_kappa(first_said, said_too, inputs.view.confidence)
        alike = sum(a == b for a, b in pairs)
        names = {"suite": suite, "model": model, "judges": judges}
        yield {**names, "found": found, "alike": alike, "n": len(pairs)}


def _scaling(inputs: Inputs) -> Data:
    """The trends of families with three sizes or more, and the rates behind them."""
    view = inputs.view
    points = (
        {"series": series, "model": model, "point": point, "size": view.sizes[model]}
        for series in view.series
        for model, point in series.points.items()
    )
    trends = (
        {"series": series, "of": series.trend, "problem": PROBLEMS.get(series.trend.problem or "")}
        for series in view.series
    )
    return {
        "points": shown_table(view.titles, "points", points),
        "trends": shown_table(view.titles, "trends", trends),
        "least": LEAST_MODELS,
    }


def _provenance(inputs: Inputs) -> Data:
    view, models = inputs.view, []
    for name, facts in view.provenance.items():
        identity, content = facts["model"]["identity"], facts["model"]["identity"].get("model")
        row = {"name": name, "identity": identity, "used": facts.get("usage") or {}}
        row["content"] = content if isinstance(content, dict) else identity
        models.append(row | facts["model"])
    judges = ({**judge, "name": name} for name, judge in view.judges.items())
    return {
        "models": shown_table(view.titles, "models", models).filled,
        "suites": shown_table(view.titles, "suites", view.suites),
        "judges": shown_table(view.titles, "judges", judges),
        "pins": inputs.pins,
    }


def report_tables(inputs: Inputs) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """The tables beside the pages, whole: columns and rows by name."""
    view, refused = inputs.view, over_refused(inputs)
    tables: dict[str, tuple[Sequence[str], list[list[Any]]]] = {}
    for name, compared in (("comparisons", view.compared), ("fields", view.by_field)):
        rows = ({"first": a, "second": b, "d": d} for a, b, d in compared if d.n)
        tables[name] = columns_of(view.titles, f"{name}.csv", rows)
    if refused.rows:
        cells = [list(map(csv_cell, row)) for row in refused.rows]
        tables["over_refusal"] = refused.header, cells
    if perturbed := [{"d": d} for d in view.perturbed if d.n]:
        tables["robustness"] = columns_of(view.titles, "robustness.csv", perturbed)
    return {
        name: (header, [dict(zip(header, row, strict=True)) for row in rows])
        for name, (header, rows) in tables.items()
    }


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
