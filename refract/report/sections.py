"""The sections of the report: what each shows beyond the view itself, for the template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages behind it. A section is
an entry in one of the two and a template, ``templates/front/NAME.md.j2`` or
``templates/pages/NAME.md.j2``; the template has the ``view``, its ``lines`` (a :class:`Summary` each),
and what the section's function gives. Where it writes nothing, there is no such section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from refract.rates.rate import Rate
from refract.report.comparisons import (
    ALL_PAIRS,
    Compared,
    number_of_tests,
    strongest,
)
from refract.report.first_table import first_table, threshold_table
from refract.report.markdown import environment, tidy
from refract.report.model_sizes import measure_text, sized_rates
from refract.report.page_data import PageData
from refract.report.view import CATEGORY_OF, HEADLINES, View, model_notes, summaries
from refract.report.wording import MISSING, rate_parts
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import holm
from refract.statistics.trends import LEAST_MODELS

if TYPE_CHECKING:
    import jinja2

ATTACKS = ("attack_success_rate", "injection_success_rate", "task_done_rate")
ATTACK_ENDS = ("_fail_rate", "_loophole_rate")
PAIR_DIFFERENCE = "refusal_difference_to_pair"
# What templates read beside the view.
CONSTANTS = {
    "ACROSS": 8,  # columns of a table with a column for each model
    "ALL_PAIRS": ALL_PAIRS,
    "ATTACKS": ATTACKS,
    "CATEGORY_OF": CATEGORY_OF,
    "HEADLINES": HEADLINES,
    "LEAST_MODELS": LEAST_MODELS,
    "MISSING": MISSING,
    "PAIR_DIFFERENCE": PAIR_DIFFERENCE,
    "SHOWN": 10,  # lines of a list of differences on the first page; the rest is counted
    "SHOWN_FIELDS": 8,
    "measure_text": measure_text,
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

    bodies = {page: written("pages", page, pins=inputs.pins) for page in PAGES}
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
    return {"first": first_table(inputs.view), "thresholds": threshold_table(inputs.view)}


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


def _over_refusal(inputs: Inputs) -> Data:
    models: dict[str, list[list[str]]] = {}
    for model, *line in inputs.answers.over_refused():
        models.setdefault(model, []).append(line)
    return {"models": models}


def _compared(inputs: Inputs, pairs: Sequence[Compared] | None = None) -> Data:
    pairs = inputs.view.near_compared if pairs is None else pairs
    telling = strongest(pairs, inputs.view.confidence)
    judged = [x.difference.judge_interval for x in telling if x.difference.judge_interval]
    open_ = sum(interval.low <= 0 <= interval.high for interval in judged)
    return {"telling": telling, "tested": number_of_tests(pairs), "open": open_}


def _by_field(inputs: Inputs) -> Data:
    """The comparisons; for each suite and field the rate of each value and category, by model."""
    view = inputs.view
    groups: dict[tuple[str, str], dict[tuple[str, str], dict[str, Rate]]] = {}
    for rate in view.every:
        if rate.group.field not in ("", "cut_off") and rate.measure in CATEGORY_OF:
            values = groups.setdefault((rate.suite, rate.group.field), {})
            key = rate.group.value, CATEGORY_OF[rate.measure]
            values.setdefault(key, {})[rate.model] = rate
    return _compared(inputs, view.by_field) | {"groups": groups}


def _attacks(inputs: Inputs) -> Data:
    """Attacks, pairs and perturbations of whole suites, by measure and model."""
    measures: dict[tuple[str, str], dict[str, Rate]] = {}
    for rate in inputs.view.every:
        attack = rate.measure in ATTACKS or rate.measure.endswith(ATTACK_ENDS)
        if not rate.group and (attack or rate.measure == PAIR_DIFFERENCE):
            measures.setdefault((rate.suite, rate.measure), {})[rate.model] = rate
    return {"measures": measures}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair. p-values are of whole suites alone, corrected for all of
    them of live models in the section (Holm)."""
    view = inputs.view
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE]
    family = {*view.models} - {*stand_ins(view.provenance)} or {*view.models}
    tested = [not rate.group and rate.model in family for rate in pairs]
    adjusted = holm([r.statistics.p if own else None for r, own in zip(pairs, tested, strict=True)])
    tests = sum(p is not None for p in adjusted)
    return {"pairs": list(zip(pairs, adjusted, strict=True)), "tests": tests}


def _scaling(inputs: Inputs) -> Data:
    """The rates by size; the trends of families are the view's ``series``."""
    view = inputs.view
    sizes = {model: size for model, size in view.sizes.items() if size.parameters}
    models = sorted(sizes, key=lambda model: (sizes[model].parameters or 0, model))
    rates = [rate for model in models for rate in sized_rates(view.rates[model])]
    return {"sized": [(sizes[rate.model], rate) for rate in rates]}


FRONT = (
    Section("head", "Refusal report"),
    Section("results", "Results", _results),
    Section("protocols", "Published protocols", _protocols),
    Section("judge", "The judge"),
    Section("compared", "Models compared", _compared),
    Section("by_field", "By field", _by_field),
    Section("attacks", "Attacks and perturbations", _attacks),
    Section("more", "More"),
)
PAGES = (
    Section(
        "details",
        "Every rate with what limits it",
        lambda inputs: {"details": first_table(inputs.view, wide=True)},
    ),
    Section("protocols", "Published protocols", _protocols),
    Section("over_refusal", "Over-refused prompts", _over_refusal),
    Section("fields", "By field", _by_field),
    Section("comparisons", "Models compared", _compared),
    Section("robustness", "Perturbations and injections"),
    Section("pairs", "Paired prompts", _pairs),
    Section("samples", "Several samples per prompt"),
    Section("cut_off", "Without answers that were cut off"),
    Section("judges", "The judges' errors, and rates from human labels"),
    Section("scaling", "Scaling", _scaling),
    Section("provenance", "Provenance"),
)
