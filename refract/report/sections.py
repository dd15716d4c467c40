"""The sections of the report: what each shows beyond the view itself, for the template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages behind it. A section is
an entry in one of the two and a template, ``templates/front/NAME.md.j2`` or
``templates/pages/NAME.md.j2``; the template has the ``view``, its ``lines`` (a :class:`Summary` each),
and what the section's function gives. Where it writes nothing, there is no such section.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from json import loads
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.core.showing import csv_cell
from refract.core.types import Row
from refract.core.vocabulary import DISCRIMINATION, JUDGED, REFUSED, SAMPLES_FIELD, refusal_of
from refract.rates.controls import failed_controls
from refract.rates.rate import Difference, Interval, Rate, rounded
from refract.report.comparisons import (
    ALL_PAIRS,
    COLUMNS,
    Compared,
    number_of_tests,
    strongest,
    table_row,
)
from refract.report.findings import NO_FIELDS, Findings
from refract.report.first_table import ShownTable, first_table, names_of, threshold_table
from refract.report.markdown import environment, tidy
from refract.report.model_sizes import measure_text
from refract.report.page_data import PageData
from refract.report.view import (
    CATEGORY_OF,
    POWERED,
    View,
    model_notes,
    plain,
    summaries,
)
from refract.report.wording import (
    MISSING,
    kinds_text,
    p_text,
    rate_parts,
    short_estimate,
    short_text,
    two,
)
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import holm
from refract.statistics.raters import cohen_kappa
from refract.statistics.trends import LEAST_MODELS, Trend

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
    templates.filters["plain"] = plain
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

    def written(folder: str, section: Section, **more: object) -> str:
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(section.data(inputs) | more))

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
        parts += [f"{looped:,} of all, perturbed ones included, ended in a loop"] if looped else []
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


def differences_table(view: View, differences: Sequence[Compared], corrected: str) -> ShownTable:
    """Paired differences: what each side refused, first minus second, p alone and corrected."""
    header = [
        "suite",
        "prompts",
        "first",
        "second",
        "refused",
        "first − second",
        "n",
        "p",
        corrected,
    ]
    rows = []
    for first, second, d in differences:
        if d.n:
            kind = f"{d.category}, {d.group.field} {d.group.value}" if d.group else d.category
            refused = ", ".join(MISSING if x is None else two(x) for x in (d.second, d.first))
            names = view.titles.model(first), view.titles.model(second), refused
            shown = short_estimate(d.value, d.shown, "+")
            rows.append([view.titles.suite(plain(d.suite)), kind.replace("_", " "), *names, shown])
            rows[-1] += [str(d.n), p_text(d.p), p_text(d.p_adjusted)]
    return ShownTable(header, rows, []).filled


def _nearest_table(view: View, corrected: str) -> ShownTable:
    """The model nearest to the reference: what both refused, the difference, and its decision."""
    if (near := view.nearest) is None:
        return ShownTable([], [], [])
    adjusted = {
        (x.difference.suite, x.difference.category): x.difference.p_adjusted
        for x in view.compared
        if {x.first, x.second} == {near.reference, near.model}
    }
    rows = []
    for suite, differences in near.by_suite.items():
        for d in differences:
            refused = (MISSING if x is None else two(x) for x in (d.first, d.second))
            cells = [view.titles.suite(plain(suite)), d.category.replace("_", " "), *refused]
            cells += [short_estimate(d.value, d.shown, "+"), str(d.n), p_text(d.p)]
            rows.append([*cells, p_text(adjusted.get((suite, d.category)))])
            rows[-1].append(d.drop.decision if d.drop else "")
    names = view.titles.model(near.reference), view.titles.model(near.model)
    header = ["suite", "prompts", *names, "difference", "n", "p", corrected]
    return ShownTable([*header, "decision"], rows, []).filled


def _compared(inputs: Inputs) -> Data:
    view = inputs.view
    if len(view.models) < 2:
        return {"telling": []}
    pairs, tests = view.near_compared, number_of_tests(view.compared)
    telling = strongest(pairs, view.confidence)
    judged = [x.difference.judge_interval for x in telling if x.difference.judge_interval]
    named = f"p (Holm, {tests})"
    return {
        "telling": telling,
        "tested": number_of_tests(pairs),
        "tests": tests,
        "open": sum(interval.low <= 0 <= interval.high for interval in judged),
        "nearest": _nearest_table(view, named),
        "margin": next((d.drop.margin for d in view.nearest.differences if d.drop), None)
        if view.nearest
        else None,
        "every": differences_table(view, pairs, named),
    }


def _by_field(inputs: Inputs) -> Data:
    """The comparisons that are more than chance, and the rates of one value that stand out: their
    interval leaves out what the model refused of all prompts of that category."""
    view, rows = inputs.view, []
    telling, tested = strongest(view.by_field, view.confidence), number_of_tests(view.by_field)
    fields = dict[tuple[str, str], int]()
    for rate in view.every:
        if rate.group.field in NO_FIELDS or rate.measure not in CATEGORY_OF:
            continue
        where = view.titles.suite(plain(rate.suite)), rate.group.field
        fields[where] = fields.get(where, 0) + 1
        whole = view.overall[rate.suite, rate.model].get(rate.measure)
        ends = rate.shown
        if whole is None or whole.value is None or ends is None:
            continue
        if not ends[0] <= whole.value <= ends[1]:
            names = [where[0], view.titles.model(rate.model), CATEGORY_OF[rate.measure]]
            value = f"{rate.group.field} {rate.group.value}"
            rows.append([*names, value, short_text(rate), two(whole.value), str(rate.counts.n)])
    header = ["suite", "model", "prompts", "of", "refused", "of all", "n"]
    table = differences_table(view, telling, f"p (BH, {tested})")
    out = ShownTable(header, rows, [])
    return {"telling": table, "tested": tested, "fields": fields, "out": out}


def perturbed_table(view: View, *, by_category: bool = False) -> ShownTable:
    """What perturbations did to refusal: shares refused clean and perturbed, flips each way and the
    paired difference."""
    header = ["suite", "perturbation", "prompts", "model", "refused clean", "refused perturbed"]
    header += ["newly refused", "newly answered", "net", "n"]
    rows = []
    for d in view.perturbed:
        if d.n and bool(d.category) == by_category:
            suite, model = view.titles.suite(plain(d.suite)), view.titles.model(d.model)
            shares = [MISSING if x is None else two(x) for x in (d.first, d.second)]
            flips = [str(len(d.prompts[key])) for key in ("to_refusal", "to_compliance")]
            net = short_estimate(d.value, d.interval, "+")
            rows.append([suite, d.perturbation, d.category, model, *shares, *flips, net, str(d.n)])
    rows.sort(key=lambda row: row[:2])
    return ShownTable(header, rows, []).filled


def _changed_answers(view: View) -> ShownTable:
    """How often an answer changed, by similarity and refusal, over all groups."""
    header = ["suite", "perturbation", "model", "answers that changed", "of", "above noise floor"]
    rows = []
    for rate in view.every:
        if rate.measure.endswith(FAILS) and not rate.group:
            floor = rate.above_floor
            names = view.titles.suite(plain(rate.suite)), rate.measure.removesuffix(FAILS)
            cells = [*names, view.titles.model(rate.model), short_text(rate)]
            cells.append(f"{rate.counts.successes}/{rate.counts.n}")
            cells.append(short_estimate(floor.value, floor.interval, "+") if floor else "")
            untested = any(rate.counts.untested.values())
            rows.append([*cells, kinds_text(rate.counts.untested) if untested else ""])
    return ShownTable([*header, "not tested"], rows, []).filled


def _robustness(inputs: Inputs) -> Data:
    view = inputs.view
    fails = (rate for rate in view.every if rate.measure.endswith(FAILS) and rate.group)
    tests = [p for rate in fails if (p := rate.statistics.p_holm) is not None]
    return {
        "every": perturbed_table(view),
        "by_category": perturbed_table(view, by_category=True),
        "changed": _changed_answers(view),
        "groups": len(tests),
        "above": sum(p <= 1 - view.confidence for p in tests),
    }


def _attacks(inputs: Inputs) -> Data:
    """Attacks, injections and pairs of whole suites: a row for each suite and model."""
    view, rows = inputs.view, []
    measures = (*ATTACKS, PAIR_DIFFERENCE)
    for (suite, model), rates in view.overall.items():
        if found := [rates.get(measure) for measure in measures]:
            names = names_of(view, suite, model)
            if any(found):
                rows.append([*names, *map(short_text, found)])
    rows.sort(key=lambda row: row[0])
    titles = ["attack succeeded", "injection succeeded", "task done", "minus its pair"]
    return {"attacks": ShownTable(["suite", "model", *titles], rows, []).filled}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair. p-values are of whole suites alone, corrected for all of
    them of live models here (Holm); of groups those that leave out their suite's difference."""
    view = inputs.view
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE]
    whole = [rate for rate in pairs if not rate.group]
    family = {*view.models} - {*stand_ins(view.provenance)} or {*view.models}
    adjusted = holm([rate.statistics.p if rate.model in family else None for rate in whole])
    tests = sum(p is not None for p in adjusted)

    def row(rate: Rate, *more: str) -> list[str]:
        names = names_of(view, rate.suite, rate.model)
        shown = short_estimate(rate.value, rate.interval, "+")
        group = f"{rate.group.field} {rate.group.value}" if rate.group else ""
        return [*names, group, str(rate.counts.n), shown, *more]

    rows = [
        row(rate, p_text(rate.statistics.p), p_text(p))
        for rate, p in zip(whole, adjusted, strict=True)
    ]
    value = {(rate.suite, rate.model): rate.value for rate in whole}
    out = [
        row(rate)
        for rate in pairs
        if rate.group.field not in ("", "cut_off")
        and rate.interval
        and (of := value.get((rate.suite, rate.model))) is not None
        and not rate.interval[0] <= of <= rate.interval[1]
    ]
    header = ["suite", "model", "group", "pairs", "difference"]
    shown = ShownTable([*header, "p", f"p (Holm, {tests})"], rows, []).filled
    return {"pairs": shown, "tests": tests, "out": ShownTable(header, out, []).filled}


def _stability(inputs: Inputs) -> Data:
    """Rates over several answers to one prompt: samples, repeats, languages, perturbations."""
    view, rows = inputs.view, []
    for rate in view.every:
        over = rate.group.field == "over" and rate.measure == "label_change_rate"
        if rate.group.field == SAMPLES_FIELD or over:
            names = names_of(view, rate.suite, rate.model)
            of = rate.group.value if over else f"{rate.group.value} samples"
            cells = [rate.measure, of, short_text(rate), str(rate.counts.n)]
            rows.append(
                [*names, *cells, kinds_text(rate.counts.excluded) if rate.counts.unjudged else ""]
            )
    header = ["suite", "model", "measure", "over", "mean over prompts", "prompts", "not judged"]
    return {"sampled": ShownTable(header, rows, []).filled}


def _judges(inputs: Inputs) -> Data:
    """Rates from human labels beside the raw ones, κ of the first judge with every other, and scores."""
    view, rows = inputs.view, []
    for rate in view.every:
        if not (labels := rate.counts.labels) or not rate.measure.startswith(POWERED):
            continue
        measure = rate.measure.removeprefix(POWERED)
        raw = view.overall[rate.suite, rate.model][measure]
        names = [*names_of(view, rate.suite, rate.model)]
        names += [CATEGORY_OF.get(measure, measure), view.deciding.get(rate.suite, "")]
        if rate.interval:
            said = f"{short_text(rate)}, {labels.used} of {rate.counts.n} labelled"
        elif labels.stale:
            said = f"{labels.stale} labels are of other answers"
        else:
            said = f"{labels.blank} drawn and left blank" if labels.blank else MISSING
        rows.append([*names, short_estimate(raw.value, raw.interval), said])
    header = ["suite", "model", "prompts", "judge", "raw rate", "prediction-powered"]
    return {
        "powered": ShownTable(header, rows, []),
        "twice": _twice(inputs),
        "scores": _scores(view),
    }


def _twice(inputs: Inputs) -> ShownTable:
    """Cohen's κ, on refused or not, of each suite's first judge and every other that told refusal."""
    labels: dict[tuple[str, str, str], list[tuple[bool, bool]]] = {}
    for row in inputs.answers.clean():
        said = [(one["judge"], refusal_of(one["label"])) for one in loads(row.verdicts)]
        for judge, refused in said[1:]:
            first, decided = said[0]
            if refused is not None and decided is not None:
                key = row.suite, row.model, f"{first}, {judge}"
                labels.setdefault(key, []).append((decided, refused))
    rows = []
    for key, pairs in labels.items():
        first_said, said_too = ([pair[side] for pair in pairs] for side in (0, 1))
        found = cohen_kappa(first_said, said_too, inputs.view.confidence)
        ends = None if found.low is None or found.high is None else Interval(found.low, found.high)
        same = f"{sum(a == b for a, b in pairs)} of {len(pairs)}"
        rows.append([*key, short_estimate(found.kappa, ends), same])
    return ShownTable(["suite", "model", "judges", "κ", "alike"], rows, [])


def _scores(view: View) -> ShownTable:
    """The judges on the project's own pairs."""
    measures = ("kappa", "precision", "recall", "specificity")
    rows = []
    for judge, of in view.scores.items():
        cells = [of.get(measure) for measure in measures]
        n = str(next(iter(of.values())).n)
        rows.append(
            [judge, n, *(short_estimate(x.value, x.interval) if x else MISSING for x in cells)]
        )
    return ShownTable(["judge", "pairs", "κ", *measures[1:]], rows, [])


def _scaling(inputs: Inputs) -> Data:
    """The trends of families with three sizes or more, and the rates behind them."""
    view, points, trends = inputs.view, [], []
    for series in view.series:
        names = [series.family, view.titles.suite(plain(series.suite))]
        names.append(measure_text(series.measure, series.value))
        for model, point in series.points.items():
            size, ends = f"{point.size:,.0f}", point.interval
            counted = "" if view.sizes[model].counted else " (stated)"
            cells = [view.titles.model(model), size + counted, short_estimate(point.rate, ends)]
            points.append([*names, *cells, f"{point.successes}/{point.n}"])
        trends.append([*names, str(len(series.points)), *_slope(series.trend)])
    header = ["family", "suite", "measure"]
    rates = [*header, "model", "parameters", "rate", "of"]
    return {
        "points": ShownTable(rates, points, []),
        "trends": ShownTable([*header, "models", "slope", "dispersion"], trends, []),
        "least": LEAST_MODELS,
    }


def _slope(of: Trend) -> list[str]:
    if of.problem is not None or of.slope is None:
        return [f"none: {PROBLEMS.get(of.problem or '', of.problem)}", MISSING]
    ends = f" [{of.low:+.3f}, {of.high:+.3f}]" if of.low is not None and of.high is not None else ""
    return [f"{of.slope:+.3f}{ends}", MISSING if of.dispersion is None else f"{of.dispersion:.2f}"]


def _provenance(inputs: Inputs) -> Data:
    view, models = inputs.view, []
    for model, facts in view.provenance.items():
        definition, identity = facts["model"]["definition"], facts["model"]["identity"]
        content = identity.get("model")
        content = content if isinstance(content, dict) else identity
        source = definition.get("model_id") or definition.get("path") or MISSING
        held = (content.get("commit") or content.get("sha256") or MISSING)[:16]
        seed, used = facts["model"]["seed"], facts.get("usage") or {}
        decoding = "greedy" if seed is None else f"seed {seed}"
        decoding = "not known" if definition["adapter"] == "recorded" else decoding
        cells = [definition["adapter"], identity["adapter_version"], source, held, decoding]
        counts = [used.get(key) for key in ("prompt_tokens", "completion_tokens", "cost_usd")]
        cells += [identity.get("arithmetic") or MISSING]
        cells += [MISSING if count is None else f"{count:,}" for count in counts]
        models.append([view.titles.model(model), *map(str, cells)])
    header = [
        "model",
        "adapter",
        "version",
        "source",
        "revision or content",
        "decoding",
        "arithmetic",
    ]
    header += ["prompt tokens", "answer tokens", "cost (USD)"]
    suites = [
        [view.titles.suite(suite["label"]), suite["sha256"][:16], ", ".join(suite["judges"])]
        for suite in view.suites
    ]
    judges = [[name, judge["kind"], judge["version"]] for name, judge in view.judges.items()]
    return {
        "models": ShownTable(header, models, []).filled,
        "suites": ShownTable(["suite", "SHA-256", "judges"], suites, []),
        "judges": ShownTable(["judge", "kind", "version"], judges, []),
        "pins": inputs.pins,
    }


PERTURBED = (
    *(
        "suite",
        "perturbation",
        "category",
        "model",
        "n",
        "clusters",
        "rate_clean",
        "rate_perturbed",
    ),
    *("newly_refused", "newly_answered", "difference", "low", "high"),
)


def _perturbed_row(view: View, of: Difference) -> Row:
    """What a perturbation did, under ``PERTURBED``."""
    shares = (of.first, of.second), (of.value, *(of.interval or (None, None)))
    before, after = ([None if x is None else rounded(x) for x in each] for each in shares)
    flips = (len(of.prompts[key]) for key in ("to_refusal", "to_compliance"))
    names = view.titles.suite(of.suite), of.perturbation, of.category, view.titles.model(of.model)
    return dict(zip(PERTURBED, (*names, of.n, of.clusters, *before, *flips, *after), strict=True))


def _inert(header: Sequence[str], row: Sequence[str]) -> Row:
    return {name: csv_cell(cell) for name, cell in zip(header, row, strict=True)}


def report_tables(inputs: Inputs) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """The tables beside the pages, whole: columns and rows by name."""
    view, tables = inputs.view, dict[str, tuple[Sequence[str], list[Row]]]()
    for name, compared in (("comparisons", view.compared), ("fields", view.by_field)):
        rows = [table_row(pair, view.titles) for pair in compared if pair.difference.n]
        tables[name] = COLUMNS, rows
    refused = over_refused(inputs)
    for name, header, rows in (
        ("over_refusal", refused.header, [_inert(refused.header, row) for row in refused.rows]),
        ("robustness", PERTURBED, [_perturbed_row(view, d) for d in view.perturbed if d.n]),
    ):
        if rows:
            tables[name] = header, rows
    return tables


FRONT = (
    Section("head", "Refusal report", _results),
    Section("limits", "What limits it", limits),
    Section("thresholds", "Thresholds", _results),
    Section("protocols", "Published protocols", _protocols),
    Section("compared", "Models compared", _compared),
    Section("perturbed", "What perturbations did", _robustness),
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
    Section("stability", "Several answers to one prompt", _stability),
    Section("protocols", "Published protocols", _protocols),
    Section("scaling", "Rates over model size", _scaling),
    Section("provenance", "What these numbers are made of", _provenance),
)
