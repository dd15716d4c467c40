"""The sections of the report: what each shows beyond the view itself, for the
template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages
behind it. A section is an entry in one of the two and a template,
``templates/front/NAME.md.j2`` or ``templates/pages/NAME.md.j2``; the template has the
``view``, the sentences about it (``say``), and what the section's function gives. A
table is rows by column (:func:`refract.report.markdown.shown_table`). Where a template
writes nothing, there is no such section.

An installed package adds a page by an entry point of the group ``refract.sections``:
an object with a ``title`` and a method ``markdown(inputs)``, which returns the page's
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from refract.core.decimals import MISSING
from refract.core.registry import Registry, find
from refract.core.showing import csv_cell
from refract.core.types import Row
from refract.core.vocabulary import JUDGED, REFUSED, SAMPLES_FIELD
from refract.rates.key import (
    ATTACK_SUCCESS,
    CHANGED,
    INJECTION_SUCCESS,
    LABEL_CHANGE,
    PAIR_DIFFERENCE,
    TASK_DONE,
)
from refract.rates.rate import Rate
from refract.rates.robustness import LANGUAGE_MEASURES
from refract.rates.sampled import VARIANTS_FIELD
from refract.report.comparison_tables import (
    COMPARED,
    by_field,
    compared,
    compared_numbers,
    leaves_out,
    perturbed_numbers,
    perturbed_table,
)
from refract.report.comparisons import ALL_PAIRS
from refract.report.first_table import first_table, threshold_table
from refract.report.judge_notes import judge_tables
from refract.report.markdown import ShownTable, environment, shown_table, tidy
from refract.report.page_data import PageData
from refract.report.sentences import sentences_of
from refract.report.view import View
from refract.report.wording import (
    clusters_of,
    kinds_text,
    p_text,
    short_estimate,
    short_text,
)
from refract.statistics.hypotheses import holm
from refract.statistics.trends import LEAST_MODELS, Trend

PROBLEMS = {
    "one size": "fewer than two sizes",
    "constant": "all answers alike",
    "separated": "sizes separate the answers",
}
Data = dict[str, Any]


class Inputs(NamedTuple):
    """What a section is made of; ``pins`` are the versions that a setup installs."""

    view: View
    answers: PageData
    pins: Mapping[str, str]


class Section(NamedTuple):
    """A part of the report, by the name of its template."""

    name: str
    title: str
    data: Callable[[Inputs], Data] = lambda inputs: {}


class InstalledSection(Protocol):
    """A page of another package."""

    title: str

    def markdown(self, inputs: Inputs) -> str:
        """The text of the page below its title; empty: there is no such page."""


INSTALLED = Registry({}, "refract.sections", "title", "markdown")


def report_pages(inputs: Inputs) -> dict[str, str]:
    """The report and the pages behind it that have something in them, in Markdown."""
    templates = environment(inputs.view.titles)
    say = sentences_of(inputs.view)
    templates.globals |= {"ALL_PAIRS": ALL_PAIRS, "view": inputs.view, "say": say}
    computed: dict[Callable[[Inputs], Data], Data] = {}

    def written(folder: str, section: Section, titles: Mapping[str, str]) -> str:
        if section.data not in computed:
            computed[section.data] = section.data(inputs)
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(computed[section.data], pages=titles))

    titles, pages = {}, {}
    bodies = {(page.name, page.title): written("pages", page, {}) for page in PAGES}
    for name in sorted(INSTALLED.installed().keys() - {page.name for page in PAGES}):
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


def _compared(inputs: Inputs) -> Data:
    return compared(inputs.view)


def _results(inputs: Inputs) -> Data:
    view = inputs.view
    limits: dict[str, dict[str, Rate]] = {}
    for rate in view.limited:
        limits.setdefault(rate.suite, {}).setdefault(rate.name, rate)
    return {
        "first": first_table(view),
        "details": first_table(view, wide=True),
        "thresholds": threshold_table(view),
        "limits": sorted(limits.items(), key=lambda suite: suite[0].lower()),
    }


def limits(view: View) -> Data:
    """Of each model the answers that were cut off, ended in a loop or were not judged; and
    which models' answers are those of any machine."""
    lines, exact = [], []
    for model in view.models:
        answers = cut_off = 0
        unjudged = Counter[str]()
        for line in view.first_lines:
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


def over_refused(inputs: Inputs) -> ShownTable:
    """The harmless prompts that live models refused, those of most models first; of a suite
    that is not in git the id."""
    view = inputs.view
    models = {view.titles.model(model) for model in view.live}
    private = {view.titles.suite(name) for name in view.private}
    prompts: dict[str, tuple[str, str]] = {}
    refused: dict[str, dict[str, bool]] = {}
    for row in inputs.answers.clean():
        if row["category"] != "harmful" and row["model"] in models:
            shown = row["id"] if row["suite"] in private else row["prompt"]
            prompts.setdefault(row["prompt"], (shown, row["category"]))
            by_model = refused.setdefault(row["prompt"], {})
            if row["outcome"] in JUDGED:
                before = by_model.get(row["model"], False)
                by_model[row["model"]] = before or row["outcome"] in REFUSED
    rows = []
    for prompt, (shown, category) in prompts.items():
        refusing = [model for model, refuses in refused[prompt].items() if refuses]
        if refusing:
            shares = f"{len(refusing)} of {len(refused[prompt])}"
            cells = {"prompt": shown, "category": category, "refused by": shares}
            rows.append((len(refusing), cells | {"models": ", ".join(refusing)}))
    rows.sort(key=lambda entry: -entry[0])
    return shown_table(row for _, row in rows)


def _robustness(inputs: Inputs) -> Data:
    view = inputs.view
    changed, groups, above = [], 0, 0
    for rate in view.every:
        counts = rate.counts
        floor = rate.above_floor
        p = rate.statistics.p_holm
        untested = counts.untested if any(counts.untested.values()) else None
        if rate.measure == CHANGED and not rate.group:
            row = {
                "suite": view.titles.plain(rate.suite),
                "perturbation": rate.key.perturbation,
                "model": view.titles.model(rate.model),
                "answers that changed": short_text(rate),
                "of": f"{counts.successes}/{counts.n}",
                "above noise floor": floor and short_estimate(floor.value, floor.interval, "+"),
                "not tested": untested and kinds_text(untested),
            }
            changed.append(row)
        elif rate.measure == CHANGED and p is not None:
            groups += 1
            above += p <= 1 - view.confidence
    return {
        "perturbed": perturbed_table(view),
        "by_category": perturbed_table(view, by_category=True),
        "changed": shown_table(changed),
        "groups": groups,
        "above": above,
    }


def _attacks(inputs: Inputs) -> Data:
    """Attacks, injections and pairs of whole suites."""
    view, rows = inputs.view, []
    columns = {
        "attack succeeded": ATTACK_SUCCESS.name,
        "injection succeeded": INJECTION_SUCCESS.name,
        "task done": TASK_DONE.name,
    }
    for (suite, model), rates in view.overall.items():
        if not rates.keys() & {*columns.values(), PAIR_DIFFERENCE.name}:
            continue
        row = {"suite": view.titles.plain(suite), "model": view.titles.model(model)}
        for column, measure in columns.items():
            rate = rates.get(measure)
            row[column] = short_text(rate)
            requests = clusters_of(rate) if rate else ""
            # Where rows are variants of fewer requests: how many of how many of which.
            if rate and requests:
                row[column] += f"; {rate.counts.successes} of {rate.counts.n}, {requests}"
        rows.append(row | {"minus its pair": short_text(rates.get(PAIR_DIFFERENCE.name))})
    rows.sort(key=lambda row: row["suite"])
    return {"attacks": shown_table(rows)}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair: of whole suites with p, corrected for those of
    live models (Holm), of groups those that leave out their suite's difference."""
    view = inputs.view
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE]
    whole = {(rate.suite, rate.model): rate for rate in pairs if not rate.group}
    ps = [rate.statistics.p if rate.model in view.live else None for rate in whole.values()]
    adjusted = holm(ps)
    tests = sum(p is not None for p in adjusted)

    def row(rate: Rate, p: float | None = None, corrected: float | None = None) -> Row:
        return {
            **view.names(rate),
            "group": f"{rate.group.field} {rate.group.value}".strip(),
            "pairs": rate.counts.n,
            "difference": short_estimate(rate.value, rate.interval, "+"),
            "p": p_text(p),
            f"p (Holm, {tests})": p_text(corrected),
        }

    rows, apart = [], []
    for rate, p in zip(whole.values(), adjusted, strict=True):
        rows.append(row(rate, rate.statistics.p, p))
    for rate in pairs:
        of_suite = whole.get((rate.suite, rate.model))
        if rate.group.field in ("", "cut_off") or of_suite is None:
            continue
        if leaves_out(rate.interval, of_suite.value):
            apart.append(row(rate))
    return {"pairs": shown_table(rows), "tests": tests, "out": shown_table(apart)}


def _stability(inputs: Inputs) -> Data:
    """Rates over several answers to one prompt."""
    view, rows = inputs.view, []
    for rate in view.every:
        field, value = rate.group.field, rate.group.value
        if (field == VARIANTS_FIELD and rate.measure == LABEL_CHANGE) or field == SAMPLES_FIELD:
            over = f"{value} samples" if field == SAMPLES_FIELD else value
            row = view.measured(
                rate, "mean over prompts", n="prompts", measure=rate.name, over=over
            )
            rows.append(row)
    return {"sampled": shown_table(rows)}


def _languages(inputs: Inputs) -> Data:
    """What is answered otherwise than in the source language."""
    view, rows = inputs.view, []
    for rate in view.every:
        if rate.measure in LANGUAGE_MEASURES and rate.group.field in ("", "language"):
            language = rate.group.value or "any"
            row = view.measured(rate, "share", n="requests", measure=rate.name, language=language)
            rows.append(row)
    return {"languages": shown_table(rows)}


def _scaling(inputs: Inputs) -> Data:
    """The trends of families with three sizes or more, and the rates behind them."""
    view = inputs.view
    trends, points = [], []
    for series in view.series:
        names = {"family": series.family, "suite": view.titles.plain(series.suite)}
        names["measure"] = series.title
        trends.append(names | {"models": len(series.points)} | _trend_cells(series.trend))
        for model, point in series.points.items():
            stated = "" if view.sizes[model].counted else " (stated)"
            row = {
                **names,
                "model": view.titles.model(model),
                "parameters": f"{point.size:,.0f}{stated}",
                "rate": short_estimate(point.rate, point.interval),
                "of": f"{point.successes}/{point.n}",
            }
            points.append(row)
    return {"points": shown_table(points), "trends": shown_table(trends), "least": LEAST_MODELS}


def _trend_cells(trend: Trend) -> dict[str, object]:
    if trend.problem:
        return {"slope": f"none: {PROBLEMS[trend.problem]}", "dispersion": MISSING}
    ends = "" if trend.low is None else f" [{trend.low:+.3f}, {trend.high:+.3f}]"
    dispersion = MISSING if trend.dispersion is None else f"{trend.dispersion:.2f}"
    return {"slope": f"{trend.slope:+.3f}{ends}", "dispersion": dispersion}


def _count(usage: Mapping[str, Any], kind: str) -> str:
    return MISSING if usage.get(kind) is None else f"{usage[kind]:,}"


def _provenance(inputs: Inputs) -> Data:
    view = inputs.view
    models, suites, judges = [], [], []
    for name, facts in view.provenance.items():
        model, usage = facts["model"], facts.get("usage") or {}
        definition = model["definition"]
        identity = model["identity"]
        source = definition.get("model_id") or definition.get("path") or MISSING
        content = identity["model"] if isinstance(identity.get("model"), dict) else identity
        content = (content.get("commit") or content.get("sha256") or MISSING)[:16]
        if definition.get("adapter_path"):
            source = f"{source} + {definition['adapter_path']}"
        if (identity.get("peft") or {}).get("sha256"):
            content = f"{content} + {identity['peft']['sha256'][:16]}"
        decoding = "greedy" if model["seed"] is None else f"seed {model['seed']}"
        row = {
            "model": view.titles.model(name),
            "adapter": definition["adapter"],
            "version": identity["adapter_version"],
            "source": source,
            "revision or content": content,
            "decoding": "not known" if definition["adapter"] == "recorded" else decoding,
            "arithmetic": identity.get("arithmetic") or MISSING,
            "prompt tokens": _count(usage, "prompt_tokens"),
            "answer tokens": _count(usage, "completion_tokens"),
            "cost (USD)": _count(usage, "cost_usd"),
        }
        models.append(row)
    for name, suite in view.suites.items():
        row = {"suite": view.titles.suite(name), "SHA-256": suite["sha256"][:16]}
        suites.append(row | {"judges": ", ".join(suite["judges"])})
    for name, judge in view.judges.items():
        judges.append({"judge": name, "kind": judge["kind"], "version": judge["version"]})
    return {
        "models": shown_table(models),
        "suites": shown_table(suites),
        "judges": shown_table(judges),
        "pins": ", ".join(f"{name} {version}" for name, version in inputs.pins.items()),
    }


def report_tables(inputs: Inputs) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """The tables beside the pages, whole: columns and rows by name."""
    view, refused = inputs.view, over_refused(inputs)
    rows = [dict(zip(refused.header, map(csv_cell, row), strict=True)) for row in refused.rows]
    perturbed = perturbed_numbers(view)
    written: dict[str, tuple[Sequence[str], list[Row]]] = {
        "comparisons": (COMPARED, compared_numbers(view, view.compared)),
        "fields": (COMPARED, compared_numbers(view, view.by_field)),
        "over_refusal": (refused.header, rows),
        "robustness": (list(perturbed[0]) if perturbed else (), perturbed),
    }
    return {name: table for name, table in written.items() if table[0]}


FRONT = (
    Section("head", "Refusal report", _results),
    Section("limits", "What limits it", lambda inputs: limits(inputs.view)),
    Section("thresholds", "Thresholds", _results),
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
    Section("judges", "How good the judges are", lambda x: judge_tables(x.view, x.answers)),
    Section("details", "Every rate with what limits it", _results),
    Section("fields", "Kinds of prompts that stand out", lambda x: by_field(x.view)),
    Section("pairs", "Paired prompts", _pairs),
    Section("languages", "The same request in several languages", _languages),
    Section("stability", "Several answers to one prompt", _stability),
    Section("scaling", "Rates over model size", _scaling),
    Section("provenance", "What these numbers are made of", _provenance),
)
