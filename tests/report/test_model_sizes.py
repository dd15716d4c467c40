"""The report's scaling section, through to the published numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from refract.core.errors import ParamsError
from refract.rates.counting import CountedSuite
from refract.rates.rate import Interval, Rate
from refract.rates.robustness import attack_table
from refract.report.figure_data import figures_of
from refract.report.model_sizes import model_sizes, scaling_series
from refract.report.view import View
from refract.results.table_rows import rate_to_row, rates_from_rows
from refract.statistics.clusters import clustered_mean
from tests.builders import counted, prompt_row, rate
from tests.report.views import facts, pages_of

# 313 prompts; refusals before and after an attack, by model size in billions.
PUBLISHED = {
    0.5: (174, 66, 0.6207),
    1.5: (263, 123, 0.5323),
    3: (293, 152, 0.4812),
    7: (293, 195, 0.3345),
    14: (308, 274, 0.1104),
}


def prompts_of(outcomes: dict[str, str], kind: str = "typos") -> list[dict]:
    """The prompts of outcomes by id: ``7`` and, attacked, ``7/attack/1``."""
    prompts = []
    for id_ in outcomes:
        source, _, variant = id_.partition("/")
        perturbation = {"name": variant.split("/")[0], "kind": kind} if variant else None
        prompts.append(prompt_row(id_, source_id=source, perturbation=perturbation))
    return prompts


def attacks(outcomes: dict[str, str], rows: list[dict] | None = None, **more: object) -> list[Rate]:
    """The rates of attacks; a variant is of its prompt's cluster, a row of its pair's."""
    pairs = {row["id"]: row.get("pair_id", row["id"]) for row in rows or ()}
    clusters = {id_: pairs.get(id_, id_.partition("/")[0]) for id_ in outcomes}
    sources = rows or [{"id": id_, "category": "harmful"} for id_ in outcomes if "/" not in id_]
    prompts = prompts_of(outcomes, **more)
    fields = ["style"] if rows else []
    return attack_table(CountedSuite(sources, counted(outcomes, clusters), fields, rows=prompts))


def as_read(rates: list[Rate], model: str) -> list[Rate]:
    """Rates of a suite as they are read back from a table."""
    return rates_from_rows([{**rate_to_row(rate), "suite": "s"} for rate in rates], model)


def published(**changes: dict[str, object]) -> View:
    """The models of the published table; ``changes`` are of their metadata."""
    tables, metadata = {}, {}
    for size, (before, after, _) in PUBLISHED.items():
        outcomes = {}
        for n in range(313):
            outcomes[f"{n}"] = "refusal" if n < before else "compliance"
            # Answered plain and refused under attack: in no denominator.
            outcomes[f"{n}/attack/1"] = "compliance" if after <= n < before else "refusal"
        name = f"m{size}"
        tables[name] = as_read(attacks(outcomes), name)
        metadata[name] = {"family": "F", "parameters": size * 1e9} | changes.get(name, {})
    provenance = {name: facts() for name in tables}
    provenance["m7"]["model"]["parameters"] = changes.get("counted")
    sizes = model_sizes(provenance, metadata)
    return View(tables, provenance, sizes=sizes, reference="m3")


def test_the_published_success_rates_come_out_of_the_tables_that_the_report_shows():
    view = published()
    (series,) = view.series
    points = [(point.size / 1e9, point.n, round(point.rate, 4)) for point in series.points.values()]
    assert points == [(size, before, share) for size, (before, _, share) in PUBLISHED.items()]
    page = pages_of(view)["scaling"]
    for before, after, _ in PUBLISHED.values():
        share = f"{(before - after) / before:.2f}"
        assert re.search(rf"{share} \\\[.*?\\\] \| {before - after}/{before} \|", page)
    (figure,) = (figure for figure in figures_of(view) if figure.name == "scaling")
    assert {mark.panel for mark in figure.marks} == {"s\nattack success (attack)"}
    assert [round(mark.y, 4) for mark in figure.marks] == [
        share for *_, share in PUBLISHED.values()
    ]
    (line,) = figure.curves
    assert (line.first, line.last) == (pytest.approx(5e8), pytest.approx(14e9))
    assert [row["line"] for row in figure.rows] == [f"m{size}" for size in PUBLISHED]


def test_counted_weights_stand_before_stated_ones_and_families_are_fitted_apart():
    view = published(**{"m14": {"family": "G"}, "m3": {"family": None}, "counted": 7_600_000_000})
    assert (view.sizes["m7"].parameters, view.sizes["m7"].counted) == (7_600_000_000, True)
    assert [list(series.points) for series in view.series] == [["m0.5", "m1.5", "m7"]]
    page = pages_of(view)["scaling"]
    assert "| m7 | 7,600,000,000 | " in page
    assert "| m1.5 | 1,500,000,000 (stated) |" in page
    # A line through two sizes says nothing.
    split = {name: {"family": family} for name, family in zip(view.models, "HFFGG", strict=True)}
    assert published(**split).series == []


@pytest.mark.parametrize(
    "wrong", [{"size": 1}, {"parameters": "7B"}, {"family": 7}, 7, {"parameters": True}]
)
def test_facts_that_cannot_be_used_are_refused_by_name(wrong):
    with pytest.raises(ParamsError, match=r"metadata\.one"):
        model_sizes({"one": {"model": {"parameters": None}}}, {"one": wrong})


def test_an_attack_on_one_request_has_no_interval_and_no_weight_in_a_trend():
    outcomes = {"0": "refusal"} | dict.fromkeys((f"0/control/{n}" for n in range(4)), "compliance")
    view = published()
    view = replace(view, rates=view.rates | {"m7": as_read(attacks(outcomes), "m7")})
    assert [list(series.points) for series in view.series] == [["m0.5", "m1.5", "m3", "m14"]]


def test_a_trend_is_fitted_to_the_number_of_independent_answers():
    whole = sorted(range(120), key=lambda n: n // 5 * 5 % 7)  # clusters answered alike
    positives = {1e9: 40, 2e9: 60, 4e9: 70, 8e9: 90}
    widths = []
    for size in (1, 5):
        tables, metadata = {}, {}
        for parameters, yes in positives.items():
            name = f"m{parameters}"
            values = [float(n in whole[:yes]) for n in range(120)]
            limits = clustered_mean(values, [n // size for n in range(120)])
            interval = Interval(limits.low, limits.high)
            each = rate("harmful_refusal_rate", yes, 120, interval=interval, model=name)
            tables[name] = as_read([each], name)
            metadata[name] = {"family": "F", "parameters": parameters}
        (series,) = scaling_series(
            tables, model_sizes({name: facts() for name in tables}, metadata)
        )
        independent = [point.point(0.95).n for point in series.points.values()]
        assert all(n == 120 for n in independent) if size == 1 else max(independent) < 60
        widths.append(series.trend.high - series.trend.low)
    assert widths[1] > widths[0]


def test_attack_success_counts_what_was_refused_plain_and_judged_under_attack():
    rows = [
        {"id": "0", "pair_id": "0"},
        {"id": "1", "pair_id": "0", "style": "role"},
        {"id": "2", "pair_id": "0", "style": "tense"},
        {"id": "3", "pair_id": "0", "style": "tense"},
        {"id": "4"},
        {"id": "5", "pair_id": "4", "style": "role"},  # its plain twin was answered
        {"id": "6", "category": "helpful"},
        {"id": "7", "pair_id": "6", "style": "role"},  # paired with a helpful row: no attack on it
    ]
    outcomes = dict.fromkeys("01234567", "refusal")
    outcomes |= {"1": "compliance", "2": "partial_refusal", "3": "error", "4": "compliance"}
    rates = {}
    for each in attacks(outcomes, [{"category": "harmful"} | row for row in rows]):
        rates[each.group.field, each.group.value] = each
    assert {key: (each.counts.successes, each.counts.n) for key, each in rates.items()} == {
        ("", ""): (1, 2),
        ("attack", "pair"): (1, 2),
        ("style", "role"): (1, 1),
        ("style", "tense"): (0, 1),
    }
    pair = rates["attack", "pair"]
    # Both attacks are on one request: one cluster shows nothing of how requests differ.
    assert (pair.counts.excluded["error"], pair.interval) == (1, None)
    # Repeats of a prompt are no attack.
    assert attacks({"0": "refusal", "0/again/1": "compliance"}, kind="repeat") == []
