"""Tables of what the judge's error makes of an interval, which ``benchmarks/coverage.py`` writes."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from refract.agreement.ledger import LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines, judge_error
from refract.rates.judge_error import JudgeError, ModelCounts, Prior, people_interval
from refract.rates.rate import Interval, Prompts, SharePart
from refract.statistics.proportions import wilson

JUDGE = "refusal"
PRIORS = {
    "half-normal .25": Prior(0.25),
    "**half-normal .5**, used": Prior(0.5),
    "half-normal 1, before": Prior(1.0),
    "half of t, 3 degrees, .5": Prior(0.5, freedom=3),
}
# What a judge finds refused, of how many prompts, of which kind.
FOUND: list[tuple[float, int, Prompts]] = [
    (0.57, 129, "harmful"), (0.19, 129, "harmful"), (0.9, 129, "harmful"), (0.9, 2000, "harmful"),
    (0.11, 107, "other"), (0.5, 107, "other"), (0.4, 308, ""),
]  # fmt: skip
KINDS: dict[Prompts, str] = {"harmful": "harmful", "other": "other", "": "mixed"}


def known() -> JudgeError:
    """What the ledger says of the default judge."""
    entries = read_ledger(LEDGER)
    (version,) = {entry.version for entry in entries if entry.judge == JUDGE}
    error = judge_error(counting_lines(entries, JUDGE, version))
    assert error is not None
    return error


def interval_of(error: JudgeError, share: float, n: int, prompts: Prompts) -> Interval:
    """For prompts and judge, of a share of so many prompts."""
    limits = wilson(round(share * n), n)
    part = SharePart(share, Interval(*limits), prompts, n=n)
    return people_interval(error, [part], Interval(share, share), part.interval, 0.95)


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table of which the first column is text."""
    names = list(header)
    rule = "|".join([":--"] + ["--:"] * (len(names) - 1))
    return [f"| {' | '.join(names)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]


def limits_by_prior(error: JudgeError) -> list[str]:
    """The limits of some shares under each prior, and for prompts alone."""
    rows = [["prompts alone"]]
    for share, n, _ in FOUND:
        rows[0].append(_shown(Interval(*wilson(round(share * n), n))))
    for name, prior in PRIORS.items():
        under = JudgeError(error.lines, prior)
        rows.append([name, *(_shown(interval_of(under, *found)) for found in FOUND)])
    columns = [f"{KINDS[prompts]} {share:g} of {n:,}" for share, n, prompts in FOUND]
    return markdown(["prior on both deviations", *columns], rows)


def sources_left_out(error: JudgeError) -> list[str]:
    """Whether the labels' rate of each model of the ledger is in the interval that lines of other
    sources give, and how wide that is."""
    table = [_left_out("prompts alone", error.lines, None)]
    for name, prior in PRIORS.items():
        table.append(_left_out(name, error.lines, prior))
    columns = [*(f"held, {kind}" for kind in KINDS.values()), "width at .15 to .85", "to prompts'"]
    return markdown(["prior on both deviations", *columns], table)


def _left_out(name: str, lines: tuple[ModelCounts, ...], prior: Prior | None) -> list[str]:
    held: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    widths, ratios = [], []
    for line in lines:
        n = line.refused + line.complied
        share = (line.refused - line.missed + line.false) / n
        alone = found = Interval(*wilson(round(share * n), n))
        if prior:
            others = tuple(other for other in lines if other.source != line.source)
            found = interval_of(JudgeError(others, prior), share, n, line.prompts)
        truth = line.refused / n
        held[line.prompts].append(found.low <= truth <= found.high)
        if 0.15 <= truth <= 0.85:
            widths.append(found.high - found.low)
            ratios.append(widths[-1] / (alone.high - alone.low))
    counts = [f"{sum(cells)} of {len(cells)}" for cells in held.values()]
    return [name, *counts, f"{median(widths):.2f}", f"{median(ratios):.1f}"]


def _shown(interval: Interval) -> str:
    return f"{interval.low:.2f}–{interval.high:.2f}"


def judge_section() -> list[str]:
    """Lines of ``coverage.md``."""
    error = known()
    measured = []
    for prompts, kind in KINDS.items():
        models, sources = error.measured_on(prompts)
        measured.append(f"{kind}: {models} of {sources} sources")
    return [
        "## The judge's error",
        "",
        "What the prior on the deviations of sources and models (logits) makes of the 95 % interval "
        f"for prompts and judge, by the ledger's models ({', '.join(measured)}); columns: what is "
        "found refused, of how many prompts:",
        "",
        *limits_by_prior(error),
        "",
        "Each source left out in turn, and the labels' rate of all answers of each of its models looked "
        "for in the interval that the other sources give; width and its ratio to that of prompts are "
        "medians of labels' rates from .15 to .85:",
        "",
        *sources_left_out(error),
    ]
