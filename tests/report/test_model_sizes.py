"""The report's scaling section, through to the published numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from refract.core.errors import ParamsError
from refract.rates.counting import Counted, CountedSuite
from refract.rates.rate import Interval, Rate
from refract.rates.robustness import attack_table
from refract.report.figure_data import figures_of
from refract.report.model_sizes import effective_n, model_sizes, scaling_series
from refract.report.page_data import page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View
from refract.results.table_rows import rate_to_row, rates_from_rows
from refract.statistics.clusters import clustered_mean
from refract.statistics.proportions import wilson
from tests.builders import rate

# 313 prompts; refusals before and after an attack, by model size in billions.
PUBLISHED = {
    0.5: (174, 66, 0.6207),
    1.5: (263, 123, 0.5323),
    3: (293, 152, 0.4812),
    7: (293, 195, 0.3345),
    14: (308, 274, 0.1104),
}


def source(number: int, **fields) -> dict:
    return {"id": f"{number:03d}", "category": "harmful", "prompt": "x"} | fields


def prompt(number: int, variant: str | None = None, category: str = "harmful") -> dict:
    name = f"{number:03d}"
    return {
        "prompt_id": f"{name}/{variant}" if variant else name,
        "source_id": name,
        "category": category,
        "perturbation": {"name": variant.split("/")[0], "kind": "typos"} if variant else None,
    }


def counted(outcomes: dict[str, str], clusters: dict[str, str] | None = None) -> dict:
    """Answers with these outcomes; a variant is of its prompt's cluster."""
    return {
        id_: Counted(outcome, (clusters or {}).get(id_, id_.split("/")[0]))
        for id_, outcome in outcomes.items()
    }


def attacked(before: int, after: int) -> list[dict]:
    """The table of a model that refuses so many of 313 prompts plain, and of those under attack."""
    sources = [source(n) for n in range(313)]
    prompts = [prompt(n, variant) for n in range(313) for variant in (None, "attack/1")]
    outcomes = {}
    for n in range(313):
        outcomes[f"{n:03d}"] = "refusal" if n < before else "compliance"
        # Answered plain and refused under attack: in no denominator.
        outcomes[f"{n:03d}/attack/1"] = "compliance" if after <= n < before else "refusal"
    return attack_table(CountedSuite(sources, counted(outcomes), rows=prompts), {})


def as_read(rates: list[Rate], model: str) -> list[Rate]:
    """Rates of a suite as they are read back from a table."""
    return rates_from_rows([{**rate_to_row(rate), "suite": "s"} for rate in rates], model)


def view_of(tables, provenance, metadata) -> View:
    return View(tables, provenance, sizes=model_sizes(provenance, metadata))


def section(view: View) -> str:
    """The page on scaling."""
    model = {"definition": {"adapter": "hf"}, "identity": {"adapter_version": "1"}, "seed": None}
    provenance = {key: {"model": model, "judges": {}, "suites": {}} for key in view.provenance}
    shown = replace(view, provenance=provenance, reference=view.models[0])
    return report_pages(Inputs(shown, page_data([]), {}))["scaling"]


def published():
    tables = {
        f"m{size}": as_read(attacked(before, after), f"m{size}")
        for size, (before, after, _) in PUBLISHED.items()
    }
    provenance = {model: {"model": {"parameters": None}} for model in tables}
    metadata = {f"m{size}": {"family": "F", "parameters": size * 1e9} for size in PUBLISHED}
    return tables, provenance, metadata


def test_the_published_success_rates_come_out_of_the_tables_that_the_report_shows():
    tables, provenance, metadata = published()
    view = view_of(tables, provenance, metadata)
    (series,) = view.series
    assert {point.size / 1e9: round(point.rate, 4) for point in series.points.values()} == {
        size: rate for size, (_, _, rate) in PUBLISHED.items()
    }
    assert [point.n for point in series.points.values()] == [b for b, _, _ in PUBLISHED.values()]
    shown = section(view)
    for before, after, _ in PUBLISHED.values():
        rate = (before - after) / before
        assert re.search(rf"{rate:.2f} \\\[.*?\\\] \| {before - after}/{before} \|", shown)
    assert "its denominator is the requests refused before" in shown


def test_the_trend_is_the_logistic_regression_of_the_counts():
    import numpy as np
    from scipy.optimize import minimize

    tables, provenance, metadata = published()
    (series,) = scaling_series(tables, model_sizes(provenance, metadata))
    x = np.log10([size * 1e9 for size in PUBLISHED])
    n = np.array([before for before, _, _ in PUBLISHED.values()])
    k = n - np.array([after for _, after, _ in PUBLISHED.values()])

    def loss(beta):
        eta = beta[0] + beta[1] * (x - 9.5)
        return float(np.sum(n * np.logaddexp(0, eta) - k * eta))

    best = minimize(loss, [0, 0], tol=1e-12).x
    assert series.trend.slope == pytest.approx(best[1], abs=1e-4)
    assert series.trend.low < series.trend.slope < series.trend.high


def test_counted_weights_stand_before_stated_ones_and_families_are_fitted_apart():
    tables, provenance, metadata = published()
    provenance["m7"]["model"]["parameters"] = 7_600_000_000
    metadata["m14"]["family"] = "G"
    del metadata["m3"]["family"]
    view = view_of(tables, provenance, metadata)
    assert (view.sizes["m7"].parameters, view.sizes["m7"].counted) == (7_600_000_000, True)
    assert [list(one.points) for one in view.series] == [["m0.5", "m1.5", "m7"]]
    shown = section(view)
    assert "| m7 | 7,600,000,000 | " in shown
    assert "| m1.5 | 1,500,000,000 (stated) |" in shown
    # A line through two sizes says nothing.
    for model in ("m0.5", "m1.5"):
        metadata[model]["family"] = "G" if model == "m0.5" else "F"
    two = view_of(tables, provenance, {**metadata, "m0.5": {"family": "H"}})
    assert [[*one.points] for one in two.series] == []


@pytest.mark.parametrize(
    "wrong",
    [{"size": 1}, {"parameters": "7B"}, {"family": 7}, 7, {"parameters": True}],
)
def test_facts_that_cannot_be_used_are_refused_by_name(wrong):
    with pytest.raises(ParamsError, match=r"metadata\.one"):
        model_sizes({"one": {"model": {"parameters": None}}}, {"one": wrong})


def test_an_attack_on_one_request_has_no_interval_and_no_weight_in_a_trend():
    prompts = [prompt(0), *(prompt(0, f"control/{n}") for n in range(4))]
    outcomes = {one["prompt_id"]: "compliance" for one in prompts} | {"000": "refusal"}
    of_one = counted(outcomes, {p["prompt_id"]: "000" for p in prompts})
    rows = attack_table(CountedSuite([source(0)], of_one, rows=prompts), {})
    tables, provenance, metadata = published()
    tables["m7"] = as_read(rows, "m7")
    view = view_of(tables, provenance, metadata)
    assert [list(one.points) for one in view.series] == [["m0.5", "m1.5", "m3", "m14"]]


def test_a_trend_is_fitted_to_the_number_of_independent_answers():
    rates = [("m1", 1e9, 40), ("m2", 2e9, 60), ("m4", 4e9, 70), ("m8", 8e9, 90)]
    tables, found = {}, {}
    for clustered in (False, True):
        for name, _, positives in rates:
            clusters = [n // 5 for n in range(120)] if clustered else list(range(120))
            whole = sorted(range(120), key=lambda n: n // 5 * 5 % 7)  # clusters answered alike
            values = [float(n in whole[:positives]) for n in range(120)]
            limits = clustered_mean(values, clusters)
            interval = Interval(limits.low, limits.high)
            one = rate("harmful_refusal_rate", positives, 120, interval=interval, model=name)
            tables[name] = as_read([one], name)
        provenance = {name: {"model": {"parameters": None}} for name in tables}
        metadata = {name: {"family": "F", "parameters": size} for name, size, _ in rates}
        (found[clustered],) = scaling_series(tables, model_sizes(provenance, metadata))
    assert all(one.point(0.95).n == 120 for one in found[False].points.values())
    assert all(one.point(0.95).n < 60 for one in found[True].points.values())
    width = {key: one.trend.high - one.trend.low for key, one in found.items()}
    assert width[True] > width[False]


@pytest.mark.parametrize(("positives", "n"), [(0, 40), (7, 40), (40, 40), (65, 129)])
def test_the_effective_number_of_a_wilson_interval_is_its_own(positives, n):
    assert effective_n(positives / n, *wilson(positives, n)) == pytest.approx(n, rel=1e-6)


def test_the_scaling_figure_has_every_point_and_the_line_of_the_trend():
    view = view_of(*published())
    (figure,) = (figure for figure in figures_of(view) if figure.name == "scaling")
    assert {mark.panel for mark in figure.marks} == {"s\nattack success (attack)"}
    rates = [round(mark.y, 4) for mark in figure.marks]
    assert rates == [rate for _, _, rate in PUBLISHED.values()]
    (line,) = figure.curves
    assert (line.first, line.last) == (pytest.approx(5e8), pytest.approx(14e9))
    assert line.slope < 0
    assert [row["line"] for row in figure.rows] == [f"m{size}" for size in PUBLISHED]


def test_attack_success_counts_what_was_refused_plain_and_judged_under_attack():
    sources = [
        source(0, pair_id="000"),
        source(1, pair_id="000", style="role"),
        source(2, pair_id="000", style="tense"),
        source(3, pair_id="000", style="tense"),
        source(4),
        source(5, pair_id="004", style="role"),  # its plain twin was answered
        {**source(6), "category": "helpful"},
        source(7, pair_id="006", style="role"),  # paired with a helpful row: no attack on it
    ]
    outcomes = dict.fromkeys((f"{n:03d}" for n in range(8)), "refusal")
    outcomes |= {"001": "compliance", "002": "partial_refusal", "003": "error", "004": "compliance"}
    found = counted(outcomes, {"001": "000", "002": "000", "003": "000"})
    rows = {
        (rate.group.field, rate.group.value): rate
        for rate in attack_table(
            CountedSuite(sources, found, ["style"], rows=[prompt(n) for n in range(8)]), {}
        )
    }
    counts = {key: rate.counts for key, rate in rows.items()}
    assert {key: (held.successes, held.n) for key, held in counts.items()} == {
        ("", ""): (1, 2),
        ("attack", "pair"): (1, 2),
        ("style", "role"): (1, 1),
        ("style", "tense"): (0, 1),
    }
    assert counts["attack", "pair"].excluded["error"] == 1
    # Both attacks are on one request: one cluster shows nothing of how requests differ.
    assert rows["attack", "pair"].interval is None


def test_repeats_of_a_prompt_are_no_attack():
    repeat = prompt(0, "again/1")
    repeat["perturbation"]["kind"] = "repeat"
    outcomes = {"000": "refusal", "000/again/1": "compliance"}
    suite = CountedSuite([source(0)], counted(outcomes), rows=[prompt(0), repeat])
    assert attack_table(suite, {}) == []
