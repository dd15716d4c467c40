"""The tables of the page, ready to be laid out: results with bars and links, compared
models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from refract.core.decimals import MISSING, decimals, interval_text
from refract.core.types import Row
from refract.rates.key import KAPPA
from refract.rates.rate import Interval
from refract.report.comparison_tables import kind_of
from refract.report.comparisons import Compared
from refract.report.first_table import cells_of, first_table, shown_lines
from refract.report.view import View
from refract.report.wording import (
    CATEGORY_OF,
    WARN_SHARE,
    alone_mark,
    detail_text,
    limit_text,
    negated,
    p_text,
    rate_text,
    short_estimate,
)


def filter_link(**wanted: str) -> str:
    """A link that filters the answers of the page."""
    return f"#filter?{urlencode({key: value for key, value in wanted.items() if value})}"


def commands(view: View) -> dict[str, dict[str, tuple[str, str]]]:
    """By model and suite, as the page calls them: the name of the file of a suite with
    one prompt, and the command that has the model answer it again. Of the synthetic
    model there is none: it knows more of a prompt than its text."""
    again: dict[str, dict[str, tuple[str, str]]] = {}
    for model, facts in view.provenance.items():
        if facts["model"]["definition"]["adapter"] != "synthetic":
            seed = facts["model"].get("seed")
            options = "" if seed is None else f" --seed {seed}"
            for suite in facts["suites"]:
                command = (
                    f"refract run --model {model} --suite again/{suite}.jsonl{options} --no-store "
                    "--out again/results.json --rows again/results.rows.jsonl"
                )
                of_model = again.setdefault(view.titles.model(model), {})
                of_model[view.titles.suite(suite)] = f"again/{suite}.jsonl", command
    return again


def results(view: View) -> dict[str, list[Row]]:
    """The lines of the first table, by suite: each a model with a link to its answers, and
    cells. Of a rate with a value a cell has a bar, number, interval, mark and limits, and
    links to the answers behind it and to those that were not judged."""
    shown = first_table(view).header
    without = view.by_measure("cut_off")
    suites: dict[str, list[Row]] = {}
    for line in shown_lines(view):
        uncut = without.get((line.suite, line.model), {})
        named = {"model": view.titles.model(line.model), "suite": view.titles.suite(line.suite)}
        named["perturbation"] = "none"
        cells: list[dict[str, Any]] = []
        for column, rate, mark, text in cells_of(line):
            if column not in shown:
                continue
            cells.append({"column": column, "text": text, "measured": rate is not None, "bar": ""})
            if rate is None or rate.value is None or rate.measure == KAPPA:
                continue
            category = CATEGORY_OF.get(rate.measure.name, "")
            counts = rate.counts
            detail = detail_text(rate)
            cut_off = category and not line.judge and counts.cut_off_share >= WARN_SHARE
            if cut_off and rate.name in uncut:
                detail += f"; without cut-off answers: {rate_text(uncut[rate.name])}"
            if rate.threshold:
                detail += f"; {limit_text(rate.threshold)} asked: {rate.decision}"
            # The page filters by what the first judge said.
            refused = "refused" if category and counts.successes and not line.judge else ""
            link = {**named, "category": category}
            cells[-1] |= {
                "bar": _bar(
                    rate.value,
                    rate.shown,
                    difference=not category,
                    limit=rate.threshold.limit if rate.threshold else None,
                ),
                "value": decimals(rate.value, places=2),
                "interval": interval_text(rate.shown, places=2) + alone_mark(rate),
                "mark": mark,
                "detail": detail,
                "link": filter_link(**link, outcome=refused),
                "unjudged": "",
            }
            if category and counts.unjudged and not line.judge:
                cells[-1]["unjudged"] = filter_link(**link, outcome="not judged")
        row = {"model": view.name(line), "link": filter_link(**named), "cells": cells}
        suites.setdefault(view.titles.plain(line.suite), []).append(row)
    return suites


def compared(view: View) -> dict[tuple[str, str], list[Row]]:
    """Each pair of models in both orders, since either may be chosen first: what the second
    refused minus what the first did, with how many prompts each alone refused and a link to
    them."""
    suites = [rate.suite for rate in view.every]
    suites += [pair.difference.suite for pair in view.compared]
    rows: dict[tuple[str, str], list[Row]] = {}
    for pair in sorted(view.compared, key=lambda pair: suites.index(pair.difference.suite)):
        for a, b, difference in (pair, swapped(pair)):
            value = difference.value
            ends = difference.shown
            suite = difference.suite
            alone = []
            for by, other, ids in ((a, b, "to_compliance"), (b, a, "to_refusal")):
                link = filter_link(
                    model=view.titles.model(by),
                    differs=view.titles.model(other),
                    suite=view.titles.plain(suite),
                    category=difference.category,
                    perturbation="none",
                    outcome="refused",
                )
                number = len(difference.prompts.get(ids, ()))
                nothing = "0" if difference.category in CATEGORY_OF.values() else MISSING
                alone.append((link, str(number)) if number else ("", nothing))
            row = {
                "suite": view.titles.plain(suite),
                "prompts": f"{kind_of(difference)}, {difference.n}",
                "shares": (short_estimate(difference.a), short_estimate(difference.b)),
                "value": short_estimate(value, sign="+"),
                "interval": interval_text(ends, "+", 2),
                "bar": "" if value is None else _bar(value, ends, difference=True),
                "p": p_text(difference.p_adjusted),
                "alone": alone,
            }
            rows.setdefault((a, b), []).append(row)
    places = {model: place for place, model in enumerate(view.models)}
    return dict(sorted(rows.items(), key=lambda row: [places[model] for model in row[0]]))


def swapped(pair: Compared) -> Compared:
    """The same two models the other way round."""
    difference = pair.difference
    prompts = difference.prompts
    turned = replace(
        difference,
        a=difference.b,
        b=difference.a,
        value=None if difference.value is None else -difference.value,
        interval=negated(difference.interval),
        judge_interval=negated(difference.judge_interval),
        prompts={
            "to_refusal": prompts.get("to_compliance", ()),
            "to_compliance": prompts.get("to_refusal", ()),
        },
    )
    return Compared(a=pair.b, b=pair.a, difference=turned)


def _bar(
    value: float, ends: Interval | None, *, difference: bool, limit: float | None = None
) -> Markup:
    """A number with its interval as a small drawing for a cell, with a line at its limit, of a
    difference at none."""
    left, scale, line = 0, 100, ""
    if difference:
        left = 50
        scale = 50
        line = '<path class="middle" d="M50 0V14"/>'
    elif limit is not None:
        line = f'<path class="limit" d="M{100 * limit:.1f} 0V14"/>'
    low, high = ends or (value, value)
    low = left + scale * low
    at = left + scale * value
    high = left + scale * high
    return Markup(
        '<svg class="bar" viewBox="-3 0 106 14" width="106" height="14" aria-hidden="true">'
        '<rect class="track" x="0" y="5" width="100" height="4"/>'
        f'<rect class="interval" x="{low:.1f}" y="3" width="{max(1, high - low):.1f}" height="8"/>'
        f'{line}<circle class="rate" cx="{at:.1f}" cy="7" r="3"/></svg>'
    )
