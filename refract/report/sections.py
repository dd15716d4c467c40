"""The sections of the report: what each shows beyond the view itself, for the template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages behind it. A section is
an entry in one of the two and a template, ``templates/front/NAME.md.j2`` or
``templates/pages/NAME.md.j2``; the template has the ``view``, all ``rates``, and what the section's
function gives. Where it writes nothing, there is no such section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from refract.agreement.ledger import shown_gap
from refract.agreement.scores import judge_errors
from refract.rates.rate import Interval, Rate
from refract.report.comparisons import ALL_PAIRS, Compared, live_first, number_of_tests, strongest
from refract.report.judge_gaps import entry_text, gap_above
from refract.report.markdown import environment, tidy
from refract.report.model_sizes import SIZES, measure_text, sized_rates
from refract.report.page_data import PageData
from refract.report.view import (
    CATEGORY_OF,
    HEADLINES,
    View,
    model_notes,
    summaries,
    unmet,
    warnings,
)
from refract.report.wording import MISSING, estimate_text, left_out, rate_text
from refract.statistics.hypotheses import holm
from refract.statistics.trends import LEAST_MODELS, Trend

MAIN_HEADER = ("Suite", "Model", *(label for _, label in HEADLINES), "Not judged", "Thresholds")
SHOWN = 10  # lines of a list of differences on the first page; the rest is counted
SHOWN_FIELDS = 8
MOST_UNMET = 40  # thresholds that are not met, a line each
ACROSS = 8  # columns of a table with a column for each model
ATTACKS = ("attack_success_rate", "injection_success_rate", "task_done_rate")
ATTACK_ENDS = ("_fail_rate", "_loophole_rate")
FLIPS = {"_loophole_rate": "loophole", "_new_refusal_rate": "new refusal"}
PAIR_DIFFERENCE = "refusal_difference_to_pair"
POWERED = "prediction_powered_"
NO_TREND = {
    "one size": "fewer than two sizes",
    "constant": "all answers alike",
    "separated": "sizes separate the answers",
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


def report_pages(inputs: Inputs) -> dict[str, str]:
    """``report`` and the pages behind it that have something in them: Markdown by name."""
    view = inputs.view
    templates = environment(view.titles, markdown=True)
    shared: Data = {"view": view, "rates": view.every, "pins": inputs.pins} | CONSTANTS

    def written(folder: str, section: Section, **more: object) -> str:
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(shared | section.data(inputs) | more))

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


def main_rows(view: View) -> list[list[str]]:
    """Refusal by category, what was not judged, and thresholds, under ``MAIN_HEADER``."""
    return [
        [
            view.titles.suite(line.suite),
            view.titles.model(line.model),
            *map(rate_text, line.headlines),
            left_out(line.refusal.counts),
            line.verdict,
        ]
        for line in summaries(view)
    ]


def _head(inputs: Inputs) -> Data:
    return {"model_notes": model_notes(inputs.view), "warnings": warnings(inputs.view)}


def _results(inputs: Inputs) -> Data:
    lines = summaries(inputs.view)
    limits: dict[str, dict[tuple[str, object], None]] = {}
    for rate in (rate for line in lines for rate in line.limited):
        limits.setdefault(rate.suite, {})[rate.measure, rate.threshold] = None
    failed = unmet(lines)
    return {
        "lines": lines,
        "limits": limits,
        "limited": sum(len(line.limited) for line in lines),
        "failed": failed[:MOST_UNMET],
        "all_failed": len(failed),
    }


def followed_protocols(view: View) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The models with each of their suites that follow a published protocol, as provenance has it."""
    for model, facts in view.provenance.items():
        for suite in facts["suites"].values():
            if suite.get("protocol"):
                yield model, suite


def _protocols(inputs: Inputs) -> Data:
    """The numbers, and each run's deviations from its protocol, each kind of note once."""
    view = inputs.view
    rates, notes = [], dict[tuple[str, ...], None]()
    for model, suite in followed_protocols(view):
        protocol, overall = suite["protocol"], view.overall(model, suite["label"])
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


def _compared(inputs: Inputs) -> Data:
    view = inputs.view
    telling = live_first(strongest(view.near_compared, view.confidence), view.provenance)
    return {
        "telling": len(telling),
        "tested": number_of_tests(view.near_compared),
        "all_tested": number_of_tests(view.compared),
        "every_pair": len(view.models) <= ALL_PAIRS,
        "strongest": telling[:SHOWN],
        "below": [_gap(view, pair) is not None for pair in telling[:SHOWN]],
    }


def _gap(view: View, pair: Compared) -> float | None:
    return gap_above(view.provenance, view.entries, pair)


def _by_field(inputs: Inputs) -> Data:
    view = inputs.view
    telling = live_first(strongest(view.by_field, view.confidence), view.provenance)
    sizes = [pair.difference.n for pair in view.by_field if pair.difference.n]
    return {
        "telling": len(telling),
        "tested": number_of_tests(view.by_field),
        "least": min(sizes, default=0),
        "most": max(sizes, default=0),
        "strongest": telling[:SHOWN_FIELDS],
    }


def _fields(inputs: Inputs) -> Data:
    """The differences by field that are more than chance; for each suite and field the rate of each
    value and category, by model."""
    view = inputs.view
    groups: dict[tuple[str, str], dict[tuple[str, str], dict[str, Rate]]] = {}
    for rate in view.every:
        if rate.group.field not in ("", "cut_off") and rate.measure in CATEGORY_OF:
            values = groups.setdefault((rate.suite, rate.group.field), {})
            key = rate.group.value, CATEGORY_OF[rate.measure]
            values.setdefault(key, {})[rate.model] = rate
    strong = strongest(view.by_field, view.confidence)
    return {"strongest": strong, "tested": number_of_tests(view.by_field), "groups": groups}


def _attacks(inputs: Inputs) -> Data:
    """Attacks, pairs and perturbations of whole suites, by measure and model; models in blocks."""
    lines: dict[tuple[str, str], dict[str, Rate]] = {}
    for rate in inputs.view.every:
        attack = rate.measure in ATTACKS or rate.measure.endswith(ATTACK_ENDS)
        if not rate.group and (attack or rate.measure == PAIR_DIFFERENCE):
            lines.setdefault((rate.suite, rate.measure), {})[rate.model] = rate
    return {"lines": lines}


def _robustness(inputs: Inputs) -> Data:
    """Fail rates by perturbation and group, flips, and success of injections."""
    rates = [rate for rate in inputs.view.every if rate.group.field != "cut_off"]
    perturbed = {
        (rate.model, rate.suite, rate.measure)
        for rate in rates
        if rate.group.field == "perturbation"
    }
    return {
        "groups": [rate for rate in rates if (rate.model, rate.suite, rate.measure) in perturbed],
        "flips": [
            (rate, rate.measure.removesuffix(end), kind)
            for rate in rates
            for end, kind in FLIPS.items()
            if rate.measure.endswith(end)
        ],
        "injections": [
            r for r in rates if r.measure in ("injection_success_rate", "task_done_rate")
        ],
    }


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair. p-values are of whole suites alone, corrected for all of
    them in the section (Holm)."""
    pairs = [rate for rate in inputs.view.every if rate.measure == PAIR_DIFFERENCE]
    adjusted = holm([None if rate.group else rate.statistics.p for rate in pairs])
    return {"pairs": list(zip(pairs, adjusted, strict=True))}


def _judge(inputs: Inputs) -> Data:
    """How far the judges that decide agree with people, and the kinds of answers on which a judge's
    label is right less often than on all of its pairs: the kind's interval lies below that share."""
    view = inputs.view
    measured = {(row["judge"], row["measure"]): row for row in view.agreement}
    judges = [judge for judge in view.deciding_judges if (judge, "kappa") in measured]
    weak = {}
    for judge in judges:
        share = measured.get((judge, "label_accuracy"), {}).get("value")
        kinds = [
            row
            for row in view.slices
            if (row["field"], row["judge"]) == ("slice", judge)
            and row["accuracy"]
            and float(row["high"]) < float(share or 0)
        ]
        if kinds:
            weak[judge] = float(share or 0), sorted(kinds, key=lambda row: float(row["accuracy"]))
    return {
        "judges": judges,
        "measured": measured,
        "pooled": {
            entry.judge: shown_gap(entry)
            for entry in view.entries
            if (entry.source, entry.model, entry.partial) == ("validation", "", "refusal")
        },
        "weak": weak,
    }


def table_estimate(row: Mapping[str, str] | None, key: str = "value") -> str:
    """A number of a table of judges with its interval."""
    if row is None or not row[key]:
        return MISSING
    ends = row["low"], row["high"]
    return estimate_text(float(row[key]), Interval(*map(float, ends)) if all(ends) else None)


def _judges(inputs: Inputs) -> Data:
    """Refusal rates from human labels beside the raw ones (a suite's rates are corrected for its first
    judge, which decides refusal), what the ledger knows of each model's judge, the comparisons that are
    smaller than gaps, and each judge on the project's own pairs."""
    view = inputs.view
    deciding = {
        (model, suite["label"]): suite["judges"][0]
        for model, facts in view.provenance.items()
        for suite in facts["suites"].values()
    }
    powered = {
        (r.model, r.suite, r.measure): r for r in view.every if r.measure.startswith(POWERED)
    }
    corrected = [
        (rate, label, deciding.get((rate.model, rate.suite), ""))
        for rate in view.every
        if rate.measure in CATEGORY_OF
        and not rate.group
        and rate.value is not None
        and (label := powered.get((rate.model, rate.suite, POWERED + rate.measure)))
    ]
    near = []
    for (suite, model), known in view.near.items():
        version = view.provenance[model]["judges"].get(known.judge, {}).get("version", "")
        near.append((suite, model, known, [entry_text(e, version) for e in known.entries]))
    below = [
        (pair, gap)
        for pair in view.compared
        if pair.difference.value and (gap := _gap(view, pair)) is not None
    ]
    pairs: dict[str, dict[str, str]] = {}
    for row in view.agreement:
        pairs.setdefault(row["judge"], {"n": row["n"]})[row["measure"]] = row["value"]
    errors = {
        judge: judge_errors(
            {
                (row["human"], row["label"]): int(row["n"])
                for row in view.confusion
                if row["judge"] == judge
            }
        )
        for judge in pairs
    }
    return {
        "corrected": corrected,
        "near": near,
        "below": below,
        "telling": [(pair, gap) for pair, gap in below if pair.beyond_chance(0.95)],
        "pairs": pairs,
        "errors": errors,
    }


def _scaling(inputs: Inputs) -> Data:
    """The rates by size; the trends of families are the view's ``series``."""
    view = inputs.view
    sizes = {model: size for model, size in view.sizes.items() if size.parameters}
    models = sorted(sizes, key=lambda model: (sizes[model].parameters or 0, model))
    return {
        "sized": [
            (sizes[model], rate) for model in models for rate in sized_rates(view.rates[model])
        ],
        "slope": _slope,
    }


def _slope(trend: Trend) -> str:
    if trend.problem is not None:
        return f"none: {NO_TREND[trend.problem]}"
    if trend.low is None:
        return f"{trend.slope:+.3f} (no interval below {LEAST_MODELS} models)"
    return f"{trend.slope:+.3f} [{trend.low:+.3f}, {trend.high:+.3f}]"


# What templates read beside the view.
CONSTANTS: Data = {
    "ACROSS": ACROSS,
    "ATTACKS": ATTACKS,
    "CATEGORY_OF": CATEGORY_OF,
    "HEADLINES": HEADLINES,
    "MISSING": MISSING,
    "PAIR_DIFFERENCE": PAIR_DIFFERENCE,
    "SHOWN": SHOWN,
    "SHOWN_FIELDS": SHOWN_FIELDS,
    "SIZES": SIZES,
    "measure_text": measure_text,
    "table_estimate": table_estimate,
}
FRONT = (
    Section("head", "Refusal report", _head),
    Section("results", "Results", _results),
    Section("protocols", "Published protocols", _protocols),
    Section("moved", "What moved"),
    Section("judge", "The judge", _judge),
    Section("compared", "Models compared", _compared),
    Section("by_field", "By field", _by_field),
    Section("attacks", "Attacks and perturbations", _attacks),
    Section("more", "More"),
)
PAGES = (
    Section("protocols", "Published protocols", _protocols),
    Section("over_refusal", "Over-refused prompts", _over_refusal),
    Section("fields", "By field", _fields),
    Section("comparisons", "Models compared", _compared),
    Section("robustness", "Perturbations and injections", _robustness),
    Section("pairs", "Paired prompts", _pairs),
    Section("samples", "Several samples per prompt"),
    Section("cut_off", "Without answers that were cut off"),
    Section("judges", "The judges' errors, and rates from human labels", _judges),
    Section("scaling", "Scaling", _scaling),
    Section("provenance", "Provenance"),
)
