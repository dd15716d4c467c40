"""The columns of the report's tables: of each its title, and what it shows of a row's
data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from refract.core.decimals import MISSING, estimate_text, interval_text
from refract.core.types import Row
from refract.core.vocabulary import SAMPLES_FIELD
from refract.rates.key import CHANGED, PAIR_DIFFERENCE
from refract.rates.rate import Difference, Rate, rounded
from refract.report.comparisons import Compared, Nearest
from refract.report.markdown import Column
from refract.report.measures import ATTACKS, perturbation_of, title_of
from refract.report.model_sizes import Series, Size, SizedRate
from refract.report.view import JudgeScore
from refract.report.wording import (
    Titles,
    bounds_text,
    clusters_of,
    count_text,
    kinds_text,
    limit_text,
    p_text,
    rate_parts,
    short_estimate,
    short_text,
)
from refract.statistics.raters import Kappa
from refract.statistics.trends import Trend

PROBLEMS = {
    "one size": "fewer than two sizes",
    "constant": "all answers alike",
    "separated": "sizes separate the answers",
}


def kind_of(difference: Difference) -> str:
    """Which prompts a difference is over, in words."""
    group = difference.group
    by = f", {group.field} {group.value}" if group else ""
    return f"{difference.category}{by}".replace("_", " ")


def _not_judged(rate: Rate | None) -> str | None:
    return kinds_text(rate.counts.excluded) if rate and rate.counts.unjudged else None


def _group(rate: Rate) -> str:
    return f"{rate.group.field} {rate.group.value}" if rate.group else ""


def _shown(rate: Rate | Difference) -> str:
    return short_text(rate) if isinstance(rate, Rate) else short_estimate(rate.value, rate.shown)


def _of_rate(titles: Titles) -> list[Column[Rate]]:
    return [
        Column("suite", lambda rate: titles.plain(rate.suite)),
        Column("model", lambda rate: titles.model(rate.model)),
    ]


def compared_columns(titles: Titles, corrected: str) -> list[Column[Compared]]:
    """Paired differences ``b`` minus ``a``: ``b`` stands first, p alone and
    ``corrected``."""
    return [
        Column("suite", lambda pair: titles.plain(pair.difference.suite)),
        Column("prompts", lambda pair: kind_of(pair.difference)),
        Column("first", lambda pair: titles.model(pair.b)),
        Column("second", lambda pair: titles.model(pair.a)),
        Column("refused", lambda pair: _shares(pair.difference)),
        Column("first − second", lambda pair: _change(pair.difference)),
        Column("n", lambda pair: pair.difference.n),
        Column("p", lambda pair: p_text(pair.difference.p)),
        Column(corrected, lambda pair: p_text(pair.difference.p_adjusted)),
    ]


def _shares(difference: Difference) -> str:
    return f"{short_estimate(difference.b)}, {short_estimate(difference.a)}"


def _change(difference: Difference) -> str:
    return short_estimate(difference.value, difference.shown, "+")


def nearest_columns(titles: Titles, near: Nearest, corrected: str) -> list[Column[Difference]]:
    """The model nearest to the reference: what both refused, the difference, and its
    decision."""
    return [
        Column("suite", lambda row: titles.plain(row.suite)),
        Column("prompts", kind_of),
        Column(titles.model(near.reference), lambda row: short_estimate(row.a)),
        Column(titles.model(near.model), lambda row: short_estimate(row.b)),
        Column("difference", _change),
        Column("n", lambda row: row.n),
        Column("p", lambda row: p_text(row.p)),
        Column(corrected, lambda row: p_text(row.p_adjusted)),
        Column("decision", lambda row: row.drop and row.drop.decision),
    ]


class StandingOut(NamedTuple):
    """The rate of one value of a field, beside that of all prompts of the
    category."""

    rate: Rate
    whole: Rate
    category: str


def standing_out_columns(titles: Titles) -> list[Column[StandingOut]]:
    """What the model refused of the prompts of one value, and of all."""
    return [
        Column("suite", lambda row: titles.plain(row.rate.suite)),
        Column("model", lambda row: titles.model(row.rate.model)),
        Column("prompts", lambda row: row.category),
        Column("of", lambda row: _group(row.rate)),
        Column("refused", lambda row: short_estimate(row.rate.value, row.rate.interval)),
        Column("of all", lambda row: short_estimate(row.whole.value)),
        Column("n", lambda row: row.rate.counts.n),
    ]


def perturbed_columns(titles: Titles) -> list[Column[Difference]]:
    """What perturbations did to refusal: shares refused clean and perturbed, flips
    each way and the paired difference."""
    return [
        Column("suite", lambda difference: titles.plain(difference.suite)),
        Column("perturbation", lambda difference: difference.perturbation),
        Column("prompts", lambda difference: difference.category),
        Column("model", lambda difference: titles.model(difference.model)),
        Column("refused clean", lambda difference: short_estimate(difference.a)),
        Column("refused perturbed", lambda difference: short_estimate(difference.b)),
        Column("newly refused", lambda difference: len(difference.prompts["to_refusal"])),
        Column("newly answered", lambda difference: len(difference.prompts["to_compliance"])),
        Column("net", lambda x: short_estimate(x.value, x.interval, "+")),
        Column("n", lambda difference: difference.n),
    ]


def changed_columns(titles: Titles) -> list[Column[Rate]]:
    """How often an answer changed at all under a perturbation."""
    return [
        _of_rate(titles)[0],
        Column("perturbation", lambda rate: perturbation_of(rate, CHANGED)),
        _of_rate(titles)[1],
        Column("answers that changed", _shown),
        Column("of", lambda rate: f"{rate.counts.successes}/{rate.counts.n}"),
        Column("above noise floor", _above_floor),
        Column("not tested", _not_tested),
    ]


def _above_floor(rate: Rate) -> str | None:
    above = rate.above_floor
    return short_estimate(above.value, above.interval, "+") if above else None


def _not_tested(rate: Rate) -> str | None:
    untested = rate.counts.untested
    return kinds_text(untested) if any(untested.values()) else None


class OfSuite(NamedTuple):
    """The rates over one suite of one model, by measure."""

    suite: str
    model: str
    rates: Mapping[str, Rate]


def attack_columns(titles: Titles) -> list[Column[OfSuite]]:
    """Attacks, injections and pairs of whole suites."""
    attack, injection, task = ATTACKS
    return [
        Column("suite", lambda row: titles.plain(row.suite)),
        Column("model", lambda row: titles.model(row.model)),
        Column("attack succeeded", lambda row: _of_requests(row.rates.get(attack))),
        Column("injection succeeded", lambda row: _of_requests(row.rates.get(injection))),
        Column("task done", lambda row: _of_requests(row.rates.get(task))),
        Column("minus its pair", lambda row: short_text(row.rates.get(PAIR_DIFFERENCE.name))),
    ]


def _of_requests(rate: Rate | None) -> str:
    """A rate; where its rows are variants of fewer requests, how many of how many of
    which: ``0.75; 3 of 4, 1 request``."""
    requests = clusters_of(rate) if rate else ""
    if not rate or not requests:
        return short_text(rate)
    return f"{short_text(rate)}; {rate.counts.successes} of {rate.counts.n}, {requests}"


class Tested(NamedTuple):
    """A difference to the pair, with its p alone and corrected."""

    rate: Rate
    p: float | None = None
    adjusted: float | None = None


def pair_columns(titles: Titles, tests: int) -> list[Column[Tested]]:
    """Differences to the pair."""
    return [
        Column("suite", lambda row: titles.plain(row.rate.suite)),
        Column("model", lambda row: titles.model(row.rate.model)),
        Column("group", lambda row: _group(row.rate)),
        Column("pairs", lambda row: row.rate.counts.n),
        Column("difference", lambda x: short_estimate(x.rate.value, x.rate.interval, "+")),
        Column("p", lambda row: p_text(row.p)),
        Column(f"p (Holm, {tests})", lambda row: p_text(row.adjusted)),
    ]


class Turn(NamedTuple):
    """One turn of the conversations of a suite: the rate refused there, and what was
    so there first (``refusal``, ``compliance``)."""

    suite: str
    model: str
    category: str
    turn: str
    rates: dict[str, Rate]


def turn_columns(titles: Titles) -> list[Column[Turn]]:
    """Conversations by turn."""
    return [
        Column("suite", lambda row: titles.plain(row.suite)),
        Column("model", lambda row: titles.model(row.model)),
        Column("prompts", lambda row: row.category),
        Column("turn", lambda row: row.turn),
        Column("refused", lambda row: short_text(row.rates.get("rate"))),
        Column("first refused here", lambda row: short_text(row.rates.get("refusal"))),
        Column("first answered here", lambda row: short_text(row.rates.get("compliance"))),
        Column("conversations", _conversations),
        Column("not judged", lambda row: _not_judged(row.rates.get("rate"))),
    ]


def _conversations(row: Turn) -> int | None:
    first = row.rates.get("refusal")
    return first.counts.n if first else None


def language_columns(titles: Titles) -> list[Column[Rate]]:
    """What is answered otherwise than in the source language."""
    return [
        *_of_rate(titles),
        Column("measure", lambda rate: rate.name),
        Column("language", lambda rate: rate.group.value or "any"),
        Column("share", _shown),
        Column("requests", lambda rate: rate.counts.n),
        Column("not judged", _not_judged),
    ]


def stability_columns(titles: Titles) -> list[Column[Rate]]:
    """Rates over several answers to one prompt."""
    return [
        *_of_rate(titles),
        Column("measure", lambda rate: rate.name),
        Column("over", _over),
        Column("mean over prompts", _shown),
        Column("prompts", lambda rate: rate.counts.n),
        Column("not judged", _not_judged),
    ]


def _over(rate: Rate) -> str:
    return rate.group.value + (" samples" if rate.group.field == SAMPLES_FIELD else "")


def further_columns(titles: Titles) -> list[Column[Rate]]:
    """What judges of other things than refusal say."""
    return [
        *_of_rate(titles),
        Column("judge", lambda rate: rate.key.judge),
        Column("measure", lambda rate: title_of(rate.measure)),
        Column("share or mean", _shown),
        Column("answers", lambda rate: rate.counts.n),
        Column("not judged", _not_judged),
    ]


class Powered(NamedTuple):
    """A rate that human labels correct, beside the raw one of a judge."""

    rate: Rate
    raw: Rate
    prompts: str
    judge: str


def powered_columns(titles: Titles) -> list[Column[Powered]]:
    """Rates from human labels beside the raw ones."""
    return [
        Column("suite", lambda row: titles.plain(row.rate.suite)),
        Column("model", lambda row: titles.model(row.rate.model)),
        Column("prompts", lambda row: row.prompts),
        Column("judge", lambda row: row.judge),
        Column("raw rate", lambda row: short_estimate(row.raw.value, row.raw.interval)),
        Column("prediction-powered", lambda row: _labelled(row.rate)),
    ]


def _labelled(rate: Rate) -> str:
    labels = rate.counts.labels
    assert labels
    if rate.interval:
        return f"{_shown(rate)}, {labels.used} of {rate.counts.n} labelled"
    if labels.stale:
        return f"{labels.stale} labels are of other answers"
    return f"{labels.blank} drawn and left blank" if labels.blank else MISSING


class Twice(NamedTuple):
    """How far two judges agree on the same ``n`` answers."""

    suite: str
    model: str
    judges: str
    kappa: Kappa
    alike: int
    n: int


TWICE: list[Column[Twice]] = [
    Column("suite", lambda row: row.suite),
    Column("model", lambda row: row.model),
    Column("judges", lambda row: row.judges),
    Column("κ", lambda row: _kappa(row.kappa)),
    Column("alike", lambda row: f"{row.alike} of {row.n}"),
]


def _kappa(kappa: Kappa) -> str:
    if kappa.low is None or kappa.high is None:
        return short_estimate(kappa.kappa)
    return short_estimate(kappa.kappa, (kappa.low, kappa.high))


Scores = tuple[str, Mapping[str, JudgeScore]]


SCORES: list[Column[Scores]] = [
    Column("judge", lambda row: row[0]),
    Column("pairs", lambda row: next(iter(row[1].values())).n),
    Column("κ", lambda row: _score(row[1].get("kappa"))),
    Column("precision", lambda row: _score(row[1].get("precision"))),
    Column("recall", lambda row: _score(row[1].get("recall"))),
    Column("specificity", lambda row: _score(row[1].get("specificity"))),
]


def _score(score: JudgeScore | None) -> str:
    return short_estimate(score.value, score.interval) if score else MISSING


class SeriesPoint(NamedTuple):
    """One model of a series."""

    series: Series
    model: str
    point: SizedRate
    size: Size


def point_columns(titles: Titles) -> list[Column[SeriesPoint]]:
    """The rates behind the trends."""
    return [
        Column("family", lambda row: row.series.family),
        Column("suite", lambda row: titles.plain(row.series.suite)),
        Column("measure", lambda row: row.series.title),
        Column("model", lambda row: titles.model(row.model)),
        Column("parameters", _parameters),
        Column("rate", lambda row: short_estimate(row.point.rate, row.point.interval)),
        Column("of", lambda row: f"{row.point.successes}/{row.point.n}"),
    ]


def _parameters(row: SeriesPoint) -> str:
    return f"{row.point.size:,.0f}" + ("" if row.size.counted else " (stated)")


def trend_columns(titles: Titles) -> list[Column[Series]]:
    """The trend of each family."""
    return [
        Column("family", lambda series: series.family),
        Column("suite", lambda series: titles.plain(series.suite)),
        Column("measure", lambda series: series.title),
        Column("models", lambda series: len(series.points)),
        Column("slope", lambda series: _slope(series.trend)),
        Column("dispersion", lambda series: _dispersion(series.trend)),
    ]


def _slope(trend: Trend) -> str:
    if trend.problem:
        return f"none: {PROBLEMS[trend.problem]}"
    ends = "" if trend.low is None else f" [{trend.low:+.3f}, {trend.high:+.3f}]"
    return f"{trend.slope:+.3f}{ends}"


def _dispersion(trend: Trend) -> str:
    return MISSING if trend.problem or trend.dispersion is None else f"{trend.dispersion:.2f}"


Named = tuple[str, Row]


def model_columns(titles: Titles) -> list[Column[Named]]:
    """What answered: each model by name, with its provenance."""
    return [
        Column("model", lambda row: titles.model(row[0])),
        Column("adapter", lambda row: row[1]["model"]["definition"]["adapter"]),
        Column("version", lambda row: row[1]["model"]["identity"]["adapter_version"]),
        Column("source", lambda row: _source(row[1]["model"]["definition"])),
        Column("revision or content", lambda row: _content(row[1]["model"]["identity"])),
        Column("decoding", lambda row: _decoding(row[1]["model"])),
        Column("arithmetic", lambda x: x[1]["model"]["identity"].get("arithmetic") or MISSING),
        Column("prompt tokens", lambda row: _used(row[1], "prompt_tokens")),
        Column("answer tokens", lambda row: _used(row[1], "completion_tokens")),
        Column("cost (USD)", lambda row: _used(row[1], "cost_usd")),
    ]


def _source(definition: Row) -> object:
    source = definition.get("model_id") or definition.get("path") or MISSING
    adapter = definition.get("adapter_path")
    return f"{source} + {adapter}" if adapter else source


def _content(identity: Row) -> object:
    content = identity.get("model")
    if not isinstance(content, dict):
        content = identity
    stated = (content.get("commit") or content.get("sha256") or MISSING)[:16]
    adapter = (identity.get("peft") or {}).get("sha256")
    return f"{stated} + {adapter[:16]}" if adapter else stated


def _decoding(model: Row) -> str:
    if model["definition"]["adapter"] == "recorded":
        return "not known"
    return "greedy" if model["seed"] is None else f"seed {model['seed']}"


def _used(facts: Row, name: str) -> str:
    return count_text((facts.get("usage") or {}).get(name))


def suite_columns(titles: Titles) -> list[Column[Named]]:
    """What was asked."""
    return [
        Column("suite", lambda row: titles.suite(row[0])),
        Column("SHA-256", lambda row: row[1]["sha256"][:16]),
        Column("judges", lambda row: ", ".join(row[1]["judges"])),
    ]


JUDGES: list[Column[Named]] = [
    Column("judge", lambda row: row[0]),
    Column("kind", lambda row: row[1]["kind"]),
    Column("version", lambda row: row[1]["version"]),
]


def threshold_columns(titles: Titles) -> list[Column[Rate]]:
    """Rates with their thresholds."""
    return [
        *_of_rate(titles),
        Column("measure", lambda rate: rate.name),
        Column("rate", lambda rate: "not measured" if rate.value is None else _shown(rate)),
        Column("limit", lambda rate: rate.threshold and limit_text(rate.threshold)),
        Column("verdict", lambda rate: rate.decision),
    ]


class Detail(NamedTuple):
    """A rate by a judge, and the same ``without`` the answers that were cut off, and
    ``by_model``, without the refusals by the provider."""

    rate: Rate
    judge: str
    measure: str
    without: Rate | None
    by_model: Rate | None


def detail_columns(titles: Titles) -> list[Column[Detail]]:
    """Every rate of the first table, with all that limits it."""
    return [
        Column("suite", lambda row: titles.plain(row.rate.suite)),
        Column("model", lambda row: titles.model(row.rate.model)),
        Column("judge", lambda row: row.judge),
        Column("measure", lambda row: row.measure),
        Column("rate", lambda row: " ".join(rate_parts(row.rate)[:2]).strip()),
        Column("on these prompts", lambda row: _these(row.rate)),
        Column("refused", lambda row: _refused(row.rate)),
        Column("partial", lambda row: row.rate.counts.partial or MISSING),
        Column("by the provider", lambda row: row.rate.counts.by_provider or MISSING),
        Column("without these", lambda row: _without(row.by_model)),
        Column("clusters", lambda row: clusters_of(row.rate) or MISSING),
        Column("cut off", lambda row: _cut_off(row.rate)),
        Column("without cut-off", lambda row: _without(row.without)),
        Column("not judged", lambda row: _not_judged(row.rate) or MISSING),
        Column("if all were judged", lambda row: bounds_text(row.rate) or MISSING),
    ]


def _these(rate: Rate) -> str:
    return (
        MISSING if rate.judge_unknown else interval_text((rate.with_judge or rate).these) or MISSING
    )


def _refused(rate: Rate) -> str:
    counts = rate.counts
    return MISSING if counts.successes is None else f"{counts.successes}/{counts.n}"


def _cut_off(rate: Rate) -> str:
    return f"{100 * rate.counts.cut_off_share:.0f} %" if rate.counts.cut_off else MISSING


def _without(rate: Rate | None) -> str:
    return estimate_text(rate.value, rate.shown) if rate else MISSING


# Tables beside the pages, of numbers.


def _number(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _p(p: float | None) -> str | None:
    return None if p is None else f"{p:.4g}"


def _low(interval: tuple[float, float] | None) -> float | None:
    return interval and rounded(interval[0])


def _high(interval: tuple[float, float] | None) -> float | None:
    return interval and rounded(interval[1])


def compared_numbers(titles: Titles) -> list[Column[Compared]]:
    """Paired differences: ``b`` stands first, as in :func:`compared_columns`."""
    return [
        Column("suite", lambda pair: titles.plain(pair.difference.suite)),
        Column("category", lambda pair: pair.difference.category),
        Column("field", lambda pair: pair.difference.group.field),
        Column("value", lambda pair: pair.difference.group.value),
        Column("first", lambda pair: titles.model(pair.b)),
        Column("second", lambda pair: titles.model(pair.a)),
        Column("n", lambda pair: pair.difference.n),
        Column("clusters", lambda pair: pair.difference.clusters),
        Column("rate_first", lambda pair: _number(pair.difference.b)),
        Column("rate_second", lambda pair: _number(pair.difference.a)),
        Column("difference", lambda pair: _number(pair.difference.value)),
        Column("low", lambda pair: _low(pair.difference.interval)),
        Column("high", lambda pair: _high(pair.difference.interval)),
        Column("p", lambda pair: _p(pair.difference.p)),
        Column("p_adjusted", lambda pair: _p(pair.difference.p_adjusted)),
        Column("judge_low", lambda pair: _low(pair.difference.judge_interval)),
        Column("judge_high", lambda pair: _high(pair.difference.judge_interval)),
    ]


def perturbed_numbers(titles: Titles) -> list[Column[Difference]]:
    """What perturbations did to refusal."""
    return [
        Column("suite", lambda difference: titles.plain(difference.suite)),
        Column("perturbation", lambda difference: difference.perturbation),
        Column("category", lambda difference: difference.category),
        Column("model", lambda difference: titles.model(difference.model)),
        Column("n", lambda difference: difference.n),
        Column("clusters", lambda difference: difference.clusters),
        Column("rate_clean", lambda difference: _number(difference.a)),
        Column("rate_perturbed", lambda difference: _number(difference.b)),
        Column("newly_refused", lambda difference: len(difference.prompts["to_refusal"])),
        Column("newly_answered", lambda difference: len(difference.prompts["to_compliance"])),
        Column("difference", lambda difference: _number(difference.value)),
        Column("low", lambda difference: _low(difference.interval)),
        Column("high", lambda difference: _high(difference.interval)),
    ]
