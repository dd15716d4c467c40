"""The tables of the page, ready to be laid out: results with bars and links, compared
models."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from refract.core.decimals import MISSING, decimals, interval_text
from refract.rates.key import DISCRIMINATION, KAPPA
from refract.rates.rate import Interval, Rate
from refract.report.comparisons import Compared
from refract.report.first_table import (
    contrast_of,
    first_lines,
    first_table,
    mark_of,
)
from refract.report.measures import CATEGORY_OF, MEASURES
from refract.report.table_columns import kind_of
from refract.report.view import Summary, View
from refract.report.wording import (
    alone_mark,
    detail_text,
    limit_text,
    p_text,
    rate_text,
    short_estimate,
)

Ends = tuple[float, float]


class ResultCell(NamedTuple):
    """A cell of the results. Of a rate with a value: its bar, number, interval, mark
    and limits, and links to the answers behind it and to those that were not
    judged."""

    column: str
    text: str
    measured: bool
    bar: Markup = Markup()
    value: str = ""
    interval: str = ""
    mark: str = ""
    detail: str = ""
    link: str = ""
    unjudged: str = ""


class ResultLine(NamedTuple):
    """One model's results on a suite, with a link to its answers there."""

    model: str
    link: str
    cells: list[ResultCell]


class Against(NamedTuple):
    """One model minus another on prompts of one kind: both shares refused, their
    difference, and how many prompts each alone refused, with a link to them where
    there are such."""

    suite: str
    prompts: str
    shares: tuple[str, str]
    value: str
    interval: str
    bar: Markup
    p: str
    alone: list[tuple[str, str]]


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


def results(view: View) -> dict[str, list[ResultLine]]:
    """The lines of the first table, by suite."""
    table, suites = first_table(view), dict[str, list[ResultLine]]()
    for line, row in zip(first_lines(view), table.rows, strict=True):
        cells = []
        rates = _rates_by_column(view, line)
        for column, text in zip(table.header[2:], row[2:], strict=True):
            cells.append(_cell(view, line, column, text, rates.get(column)))
        named = {"model": view.titles.model(line.model), "suite": view.titles.suite(line.suite)}
        link = filter_link(**named, perturbation="none")
        suites.setdefault(line.suite, []).append(ResultLine(row[1], link, cells))
    return {view.titles.plain(suite): lines for suite, lines in suites.items()}


def _rates_by_column(view: View, line: Summary) -> dict[str, Rate | None]:
    rates: dict[str, Rate | None] = {DISCRIMINATION.title: contrast_of(view, line)}
    for rate in line.headlines:
        if rate:
            rates[MEASURES[rate.measure.name]] = rate
    return rates


def _cell(view: View, line: Summary, column: str, text: str, rate: Rate | None) -> ResultCell:
    if rate is None or rate.value is None:
        measured = rate is not None or (column == KAPPA.title and text != MISSING)
        return ResultCell(column, text, measured)
    category = CATEGORY_OF.get(rate.measure.name, "")
    detail, without = detail_text(rate), line.without.get(rate.name)
    if without:
        detail += f"; without cut-off answers: {rate_text(without)}"
    if rate.threshold:
        detail += f"; {limit_text(rate.threshold)} asked: {rate.decision}"

    def link(outcome: str) -> str:
        # The page filters by what the first judge said.
        outcome = "" if line.judge else outcome
        return filter_link(
            model=view.titles.model(line.model),
            suite=view.titles.suite(line.suite),
            perturbation="none",
            category=category,
            outcome=outcome,
        )

    return ResultCell(
        column=column,
        text=text,
        measured=True,
        bar=rate_bar(rate) if category else difference_bar(rate.value, rate.shown),
        value=decimals(rate.value, places=2),
        interval=interval_text(rate.shown, places=2) + alone_mark(rate),
        mark=mark_of(rate) if category else "",
        detail=detail,
        link=link("refused" if category and rate.counts.successes else ""),
        unjudged=link("not judged") if category and rate.counts.unjudged and not line.judge else "",
    )


def compared(view: View) -> dict[tuple[str, str], list[Against]]:
    """Each pair of models in both orders, since either may be chosen first."""
    suites = [rate.suite for rate in view.every]
    suites += [pair.difference.suite for pair in view.compared]
    rows: dict[tuple[str, str], list[Against]] = {}
    for pair in sorted(view.compared, key=lambda pair: suites.index(pair.difference.suite)):
        rows.setdefault((pair.b, pair.a), []).append(_against(view, pair, turned=False))
        rows.setdefault((pair.a, pair.b), []).append(_against(view, pair, turned=True))
    places = {model: place for place, model in enumerate(view.models)}
    return dict(sorted(rows.items(), key=lambda row: [places[model] for model in row[0]]))


def _against(view: View, pair: Compared, *, turned: bool) -> Against:
    """A pair as the page shows it: ``b`` minus ``a``, or ``turned``."""
    difference, value, ends = pair.difference, pair.difference.value, pair.difference.shown
    models, shares = (pair.b, pair.a), (difference.b, difference.a)
    prompts = difference.prompts
    alone = prompts.get("to_refusal", ()), prompts.get("to_compliance", ())
    if turned:
        models, shares, alone = models[::-1], shares[::-1], alone[::-1]
        value = None if value is None else -value
        ends = ends and Interval(-ends.high, -ends.low)
    names = view.titles.model(models[0]), view.titles.model(models[1])
    links = []
    for by, other, ids in ((*names, alone[0]), (*names[::-1], alone[1])):
        link = filter_link(
            model=by,
            differs=other,
            suite=view.titles.plain(difference.suite),
            category=difference.category,
            perturbation="none",
            outcome="refused",
        )
        nothing = "0" if difference.category in CATEGORY_OF.values() else MISSING
        links.append((link, str(len(ids))) if ids else ("", nothing))
    return Against(
        suite=view.titles.plain(difference.suite),
        prompts=f"{kind_of(difference)}, {difference.n}",
        shares=(short_estimate(shares[0]), short_estimate(shares[1])),
        value=short_estimate(value, sign="+"),
        interval=interval_text(ends, "+", 2) if value is not None else "",
        bar=Markup() if value is None else difference_bar(value, ends),
        p=p_text(difference.p_adjusted),
        alone=links,
    )


def rate_bar(rate: Rate) -> Markup:
    """A rate with its interval as a small drawing for a cell, and a line at its
    threshold."""
    assert rate.value is not None
    low, high = rate.shown or (rate.value, rate.value)
    limit = ""
    if rate.threshold:
        limit = f'<path class="limit" d="M{100 * rate.threshold.limit:.1f} 0V14"/>'
    return _bar(100 * low, 100 * rate.value, 100 * high, limit)


def difference_bar(value: float, ends: Ends | None) -> Markup:
    """The same of a difference, with a line at none."""
    low, high = ends or (value, value)
    middle = '<path class="middle" d="M50 0V14"/>'
    return _bar(50 + 50 * low, 50 + 50 * value, 50 + 50 * high, middle)


def _bar(low: float, value: float, high: float, line: str) -> Markup:
    return Markup(
        '<svg class="bar" viewBox="-3 0 106 14" width="106" height="14" aria-hidden="true">'
        '<rect class="track" x="0" y="5" width="100" height="4"/>'
        f'<rect class="interval" x="{low:.1f}" y="3" width="{max(1, high - low):.1f}" height="8"/>'
        f'{line}<circle class="rate" cx="{value:.1f}" cy="7" r="3"/></svg>'
    )
