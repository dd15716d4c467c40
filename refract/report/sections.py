"""The sections of the report: what each shows beyond the view itself, for the template of its name.

:data:`FRONT` are the sections of ``metrics/report.md``, :data:`PAGES` the pages behind it. A
section is an entry in one of the two and a template, ``templates/front/NAME.md.j2`` or
``templates/pages/NAME.md.j2``; the template has the ``view``, the sentences about it (``say``), and
what the section's function gives. A table is rows by column
(:func:`refract.report.markdown.shown_table`). Where a template writes nothing, there is no such
section.

An installed package adds a page by an entry point of the group ``refract.sections``: an object with
a ``title`` and a method ``markdown(inputs)``, which returns the page's text; empty: no page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from refract.core.decimals import MISSING
from refract.core.registry import Registry, find
from refract.core.vocabulary import JUDGED, REFUSED
from refract.rates.key import ATTACK_SUCCESS, CHANGED, INJECTION_SUCCESS, PAIR_DIFFERENCE, TASK_DONE
from refract.report.comparison_tables import compared, perturbed_table
from refract.report.first_table import details_table, first_table, threshold_table
from refract.report.judge_notes import (
    further_table,
    null_table,
    people_table,
    powered_table,
    prompt_readers,
    scores_table,
)
from refract.report.markdown import ShownTable, environment, shown_table, tidy
from refract.report.page_data import PageData
from refract.report.sentences import Sentences
from refract.report.view import View, may_vary
from refract.report.wording import kinds_text, p_text, short_estimate, short_text
from refract.statistics.hypotheses import holm

USAGE = {
    "prompt tokens": "prompt_tokens",
    "answer tokens": "completion_tokens",
    "cost (USD)": "cost_usd",
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


INSTALLED = Registry({}, "refract.sections", "title", "markdown")


def report_pages(inputs: Inputs) -> dict[str, str]:
    """The report and the pages behind it that have something in them, in Markdown."""
    templates = environment()
    view = inputs.view
    templates.globals |= {"view": view, "say": Sentences(view)}
    templates.globals |= {"prompt_readers": prompt_readers(view)}
    computed: dict[Callable[[Inputs], Data], Data] = {}

    def written(folder: str, section: Section, titles: Mapping[str, str]) -> str:
        if section.data not in computed:
            computed[section.data] = section.data(inputs)
        template = templates.get_template(f"{folder}/{section.name}.md.j2")
        return tidy(template.render(computed[section.data], pages=titles))

    titles, pages = {}, {}
    bodies = {(page.name, page.title): written("pages", page, {}) for page in PAGES}
    for name in sorted(INSTALLED.installed().keys() - {page.name for page in PAGES}):
        page = find(INSTALLED, name, "section of the report")
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
    reader, people = people_table(view)
    return {
        "people": people,
        "people_by": reader,
        "first": first_table(view),
        "details": details_table(view),
        "thresholds": threshold_table(view),
    }


def _judges(inputs: Inputs) -> Data:
    view = inputs.view
    return {
        "further": further_table(view),
        "nulls": null_table(view),
        "powered": powered_table(view),
        "scores": scores_table(view),
    }


def limits(inputs: Inputs) -> Data:
    """Of each model the answers that were cut off, ended in a loop or were not judged; and
    which models' answers are those of any machine."""
    view, rows, exact = inputs.view, [], []
    for model in view.models:
        lines = [line for line in view.first_lines if line.model == model]
        counts = [line.refusal.counts for line in lines]
        unjudged = Counter[str]()
        for each in counts:
            unjudged.update(each.excluded)
        usage = view.provenance.get(model, {}).get("usage") or {}
        row = {
            "model": model,
            "answers to clean prompts": sum(each.n + each.unjudged for each in counts),
            "cut off": sum(view.cut_off.get((model, line.suite), 0) for line in lines),
            "not judged": kinds_text(unjudged),
            "ended in a loop, of all requests": usage.get("looped") or None,
        }
        rows.append(row)
    for model, facts in view.provenance.items():
        if facts["model"]["identity"].get("arithmetic") == "exact":
            exact.append(model)
    return {"counts": shown_table(rows), "exact": ", ".join(exact)}


def over_refused(inputs: Inputs) -> ShownTable:
    """The harmless prompts that live models refused, those of most models first; of a suite
    that is not in git the id. The answers are those of :func:`harmless_counts`."""
    view = inputs.view
    varying = {name for name, facts in view.provenance.items() if may_vary(facts)}
    models = view.live
    private = {view.label(name) for name in view.private}
    prompts: dict[str, tuple[str, str]] = {}
    refused: dict[str, dict[str, bool]] = {}
    for row in inputs.answers.clean():
        if row["category"] != "harmful" and row["model"] in models and row["outcome"] in JUDGED:
            shown = row["id"] if row["suite"] in private else row["prompt"]
            prompts.setdefault(row["prompt"], (shown, row["category"]))
            by_model = refused.setdefault(row["prompt"], {})
            model, refuses = row["model"], row["outcome"] in REFUSED
            if model not in by_model or (refuses and model in varying):
                by_model[model] = refuses
    rows = []
    for prompt, (shown, category) in prompts.items():
        refusing = [model for model, refuses in refused[prompt].items() if refuses]
        if refusing:
            shares = f"{len(refusing)} of {len(refused[prompt])}"
            cells = {"prompt": shown, "category": category, "refused by": shares}
            rows.append(cells | {"models": ", ".join(refusing)})
    rows.sort(key=lambda row: -int(row["refused by"].split()[0]))
    return shown_table(rows)


def _robustness(inputs: Inputs) -> Data:
    view, changed = inputs.view, []
    for rate in view.every:
        if rate.measure == CHANGED and not rate.group:
            counts, floor = rate.counts, rate.above_floor
            row = {
                "suite": rate.suite,
                "perturbation": rate.key.perturbation,
                "model": rate.model,
                "answers that changed": short_text(rate),
                "of": f"{counts.successes}/{counts.n}",
                "above noise floor": floor and short_estimate(floor.value, floor.interval, "+"),
                "not tested": kinds_text(counts.untested)
                if any(counts.untested.values())
                else None,
            }
            changed.append(row)
    return {
        "perturbed": perturbed_table(view),
        "by_category": perturbed_table(view, by_category=True),
        "changed": shown_table(changed),
    }


def _attacks(inputs: Inputs) -> Data:
    """Attacks, injections and pairs of whole suites."""
    view, rows = inputs.view, []
    columns = {
        "attack succeeded": ATTACK_SUCCESS,
        "injection succeeded": INJECTION_SUCCESS,
        "task done": TASK_DONE,
        "minus its pair": PAIR_DIFFERENCE,
    }
    for (suite, model), rates in sorted(view.overall.items(), key=lambda entry: entry[0][0]):
        cells = {column: rates.get(measure.name) for column, measure in columns.items()}
        if any(cells.values()):
            row = {"suite": suite, "model": model}
            rows.append(row | {column: short_text(rate) for column, rate in cells.items()})
    return {"attacks": shown_table(rows)}


def _pairs(inputs: Inputs) -> Data:
    """Differences in refusal to a row's pair, with Holm's p over those of live models."""
    view, rows = inputs.view, []
    pairs = [rate for rate in view.every if rate.measure == PAIR_DIFFERENCE and not rate.group]
    adjusted = holm([rate.statistics.p if rate.model in view.live else None for rate in pairs])
    tests = sum(p is not None for p in adjusted)
    for rate, p in zip(pairs, adjusted, strict=True):
        cells = {
            "pairs": rate.counts.n,
            "difference": short_estimate(rate.value, rate.interval, "+"),
            "p": p_text(rate.statistics.p),
            f"p (Holm, {tests})": p_text(p),
        }
        rows.append(view.names(rate) | cells)
    return {"pairs": shown_table(rows), "tests": tests}


def seed_used(model: Mapping[str, Any]) -> int | None:
    """The run's seed where answers are drawn by it; None of a model that does not sample, or whose
    provider is sent no seed."""
    identity, adapter = model["identity"], model["definition"]["adapter"]
    is_used = adapter != "anthropic"
    if adapter == "openai":  # which is sent one with a temperature alone
        is_used = identity.get("seed") and identity.get("temperature") is not None
    return model["seed"] if is_used else None


def _provenance(inputs: Inputs) -> Data:
    view = inputs.view
    models, suites, judges = [], [], []
    for name, facts in view.provenance.items():
        model, usage = facts["model"], facts.get("usage") or {}
        definition, identity = model["definition"], model["identity"]
        content = identity["model"] if isinstance(identity.get("model"), dict) else identity
        content = (content.get("commit") or content.get("sha256") or MISSING)[:16]
        seed = seed_used(model)
        drawn = "sampled, no seed sent" if seed is None else f"seed {seed}"
        decoding = "greedy" if model["seed"] is None else drawn
        row = {
            "model": name,
            "adapter": definition["adapter"],
            "version": identity["adapter_version"],
            "source": definition.get("model_id") or definition.get("path") or MISSING,
            "revision or content": content,
            "decoding": "not known" if definition["adapter"] == "recorded" else decoding,
            "arithmetic": identity.get("arithmetic") or MISSING,
        }
        for column, kind in USAGE.items():
            row[column] = MISSING if usage.get(kind) is None else f"{usage[kind]:,}"
        models.append(row)
    for name, suite in view.suites.items():
        row = {"suite": view.label(name), "SHA-256": suite["sha256"][:16]}
        suites.append(row | {"judges": ", ".join(suite["judges"])})
    for name, judge in view.judges.items():
        judges.append({"judge": name, "kind": judge["kind"], "version": judge["version"]})
    return {
        "models": shown_table(models),
        "suites": shown_table(suites),
        "judges": shown_table(judges),
        "pins": ", ".join(f"{name} {version}" for name, version in inputs.pins.items()),
    }


FRONT = (
    Section("head", "Refusal report", _results),
    Section("limits", "What limits it", limits),
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
    Section("judges", "How good the judges are", _judges),
    Section("details", "Every rate with what limits it", _results),
    Section("pairs", "Paired prompts", _pairs),
    Section("provenance", "What these numbers are made of", _provenance),
)
