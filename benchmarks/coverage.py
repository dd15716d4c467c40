"""Simulated coverage of the intervals that the report prints, at the default suites' own sizes.

``python -m benchmarks.coverage`` writes ``coverage.md`` beside it in some minutes of processor
time: how often a nominal 95 % interval holds the truth, and how often a test at 5 % rejects a
true null. Answers to one request are drawn with a common rate from a beta distribution, whose spread is
the correlation of two answers to one request. Seeded: the same table each time. With words behind it
only lines that begin so are simulated again, the others stay as the file has them; with ``--ledger``
only the tables that rest on the ledger are written again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from benchmarks.judged import WORLDS, World, judge_section, labels_section
from refract.agreement.ledger import ledger_entries
from refract.rates.counting import Counted, CountedSuite, answer_rate, bounds_of
from refract.rates.judge_error import part_of, people_interval, shared_effects
from refract.rates.key import HARMFUL_REFUSAL, Key
from refract.rates.rate import Threshold
from refract.rates.robustness import robustness_table
from refract.rates.thresholds import decided
from refract.statistics.clusters import (
    clustered_difference,
    clustered_mcnemar,
    clustered_mean,
)
from refract.statistics.correction import (
    Sample,
    prediction_powered,
)
from refract.statistics.hypotheses import holm
from refract.statistics.proportions import Interval, wilson
from refract.statistics.raters import kappa_of_table
from refract.statistics.sample_sizes import smallest_drop
from refract.statistics.weighted import draw_size

CORRELATIONS = (0.0, 0.1, 0.2, 0.4)
RUNS = 2000
UNEQUAL_RUNS = 500
# Of prompts and judge, each with a ledger of its own.
JUDGE_RUNS = 300
UNLIKE = "two models with nothing but their source in common"
LEAST = 93.0

# Rows of each request: plain, and as each of its attacks or variants.
STYLES = [5] * 23 + [4] * 3  # jailbreak_styles: 127 rows
ATTACKS = [size - 1 for size in STYLES]  # without the plain rows: 101
VARIANTS = [6] * 60  # robustness: 60 prompts, six variants of each by control_characters
SINGLE = [1] * 129  # harmful_helpful, harmful
# Clusters of very unequal size: rows that share a value, beside rows that have none.
UNEQUAL = ([60] + [1] * 20, [60] + [1] * 69, [40, 20, 10, 10] + [1] * 49)
UNEQUAL += ([30] * 3 + [1] * 39,)
UNEQUAL += ([64, 32, 16, 8, 4, 2, 1, 1, 1], [221, 35, 25, 12, 11, 3, 3, 3])
MARGIN = 0.05

Draw = Callable[[np.random.Generator, float], bool | None]


class Line(NamedTuple):
    """One line of a table: what is printed, on what, at which truth, and one simulated sample of it.

    The draw says whether the interval held the truth, or a test rejected; None without an interval.
    """

    what: str
    rows: str
    truth: str
    draw: Draw
    runs: int = RUNS


def names_of(sizes: list[int]) -> list[int]:
    """The cluster of each row."""
    return np.repeat(np.arange(len(sizes)), sizes).tolist()


def rates_at(places: Any, rate: float, correlation: float) -> Any:
    """The rate of each cluster: beta quantiles at the given places, or the rate alone."""
    if correlation == 0:
        return np.full(len(places), rate)
    spread = 1 / correlation - 1
    return beta.ppf(places, rate * spread, (1 - rate) * spread)


def shown(sizes: list[int]) -> str:
    """The size of a design in words."""
    if len(sizes) == sum(sizes):
        return f"{len(sizes)} prompts"
    if max(sizes) > 2 * sorted(sizes)[len(sizes) // 2]:
        return " + ".join(f"{sizes.count(m)}×{m}" for m in dict.fromkeys(sizes))
    return f"{sum(sizes)} rows of {len(sizes)} requests"


def holds(found: Any, truth: float) -> bool | None:
    """Whether an interval holds the truth; None where there is none."""
    if found is None or found.low is None:
        return None
    return bool(found.low - 1e-9 <= truth <= found.high + 1e-9)


def answers(
    rng: np.random.Generator, sizes: list[int], rate: float, correlation: float, places: Any = None
) -> Any:
    """Which answers are positive; each request has a rate of its own, drawn or at its place."""
    places = rng.random(len(sizes)) if places is None else places
    names = names_of(sizes)
    return rng.random(len(names)) < rates_at(places, rate, correlation)[names]


def floats(values: Any) -> list[float]:
    return values.astype(float).tolist()


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def rate_line(what: str, sizes: list[int], rate: float) -> Line:
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        return holds(clustered_mean(floats(answers(rng, sizes, rate, correlation)), names), rate)

    return Line(what, shown(sizes), f"{rate:g}", draw)


def wilson_line(sizes: list[int], rate: float) -> Line:
    """What would be printed without clusters, for comparison."""

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        positive = int(answers(rng, sizes, rate, correlation).sum())
        return holds(wilson(positive, sum(sizes)), rate)

    return Line("*Wilson without clusters, not printed*", shown(sizes), f"{rate:g}", draw)


def bounds_line(sizes: list[int], rate: float, missing: float) -> Line:
    """Bounds with sampling error where a part of the refusals, and nothing else, is not judged."""
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        refused = answers(rng, sizes, rate, correlation)
        judged = rng.random(len(names)) >= missing
        ends = [clustered_mean(floats(values), names) for values in (refused & judged, refused)]
        _, outer = bounds_of(*ends)
        return holds(outer, rate)

    what = f"bounds, {percent(missing)} of refusals not judged"
    return Line(what, shown(sizes), f"{rate:g}", draw)


def gain_line(n: int, gain: float) -> Line:
    """What the outer of two layers adds, as ``refract judge did`` prints it."""

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        inner = rng.random(n) < 0.5
        outer = np.where(inner, rng.random(n) < 0.5, rng.random(n) < 2 * gain)
        return holds(wilson(int((outer & ~inner).sum()), n), gain)

    return Line("gain of an outer layer", f"{n} prompts", f"{gain:g}", draw)


def loophole_line(refused: float, rate: float) -> Line:
    """Variants of the prompts that were refused plain: how many those are is drawn as well."""

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        eligible = [size for size in VARIANTS if rng.random() < refused]
        if not eligible:
            return None
        values = floats(answers(rng, eligible, rate, correlation))
        return holds(clustered_mean(values, names_of(eligible)), rate)

    what = f"loophole, attack success; {percent(refused)} refused plain"
    return Line(what, f"up to {shown(VARIANTS)}", f"{rate:g}", draw)


def pairs_of(
    rng: np.random.Generator, sizes: list[int], first: float, second: float, correlation: float
) -> tuple[list[float], list[float]]:
    """Attacks and the plain request that all attacks on it are paired with."""
    places = rng.random(len(sizes))
    attacks = answers(rng, sizes, first, correlation, places)
    plain = rng.random(len(sizes)) < rates_at(places, second, correlation)
    return floats(attacks), floats(plain[names_of(sizes)])


def models_of(
    rng: np.random.Generator, sizes: list[int], first: float, second: float, correlation: float
) -> tuple[list[float], list[float]]:
    """The answers of two models to the same prompts; what is hard for one is hard for the other."""
    places = rng.random(len(sizes))
    a, b = (answers(rng, sizes, rate, correlation, places) for rate in (first, second))
    return floats(a), floats(b)


def difference_line(what: str, make: Any, sizes: list[int], first: float, second: float) -> Line:
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        drawn = make(rng, sizes, first, second, correlation)
        return holds(clustered_difference(*drawn, names), first - second)

    return Line(what, shown(sizes), f"{first:g} − {second:g}", draw)


def losses_of(
    rng: np.random.Generator, sizes: list[int], drop: float, correlation: float
) -> tuple[list[float], list[float]]:
    """All were refused before; after, each request loses its refusals at a rate of its own."""
    rates = rates_at(rng.random(len(sizes)), drop, correlation)
    after = rng.random(sum(sizes)) >= rates[names_of(sizes)]
    return after.astype(float).tolist(), [1.0] * sum(sizes)


def loss_line(sizes: list[int], drop: float) -> Line:
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        found = clustered_difference(*losses_of(rng, sizes, drop, correlation), names)
        return holds(found, -drop)

    return Line("difference, one-way losses", shown(sizes), f"{-drop:g}", draw, UNEQUAL_RUNS)


def power_line(sizes: list[int], seen: float) -> Line:
    """How often the drop that `refract power` says can be shown, of results with a drop of ``seen``,
    is shown; it should be 80 % or more."""
    names, detectable = names_of(sizes), dict[float, float]()

    def drop_of(rng: np.random.Generator, correlation: float) -> float:
        found = []
        for _ in range(100):
            after, before = losses_of(rng, sizes, seen, correlation)
            pair = clustered_difference(after, before, names)
            assert pair is not None
            assert pair.effective_n is not None
            found.append(smallest_drop(round(pair.effective_n)) or 1.0)
        return float(np.mean(found))

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        if correlation not in detectable:
            detectable[correlation] = drop_of(rng, correlation)
        losses = losses_of(rng, sizes, detectable[correlation], correlation)
        return clustered_mcnemar(*losses, names) / 2 <= 0.05

    return Line(
        "*the drop said to be detectable*", shown(sizes), f"from {-seen:g}", draw, UNEQUAL_RUNS
    )


def margin_line(sizes: list[int]) -> Line:
    """How often a drop of exactly the margin is said to be not worse than the margin."""
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        losses = losses_of(rng, sizes, MARGIN, correlation)
        found = clustered_difference(*losses, names, 0.9)
        return found is not None and found.low is not None and found.low > -MARGIN

    return Line(
        "*not worse* at a drop of the margin", shown(sizes), f"{-MARGIN:g}", draw, UNEQUAL_RUNS
    )


def test_line(what: str, make: Any, sizes: list[int], rate: float) -> Line:
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        first, second = make(rng, sizes, rate, rate, correlation)
        return clustered_mcnemar([x > 0 for x in first], [x > 0 for x in second], names) <= 0.05

    return Line(what, shown(sizes), f"{rate:g}", draw)


def score_line(harmful: float, sizes: list[int]) -> Line:
    """StrongREJECT's score: 0 for most answers, and from .125 to 1 for the rest."""
    names, steps = names_of(sizes), np.arange(1, 9) / 8
    truth = harmful * float(steps.mean())

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        positive = answers(rng, sizes, harmful, correlation)
        scores = np.where(positive, rng.choice(steps, len(names)), 0.0)
        return holds(clustered_mean(scores.tolist(), names), truth)

    return Line("mean score", shown(sizes), f"{truth:.3f} ({percent(harmful)} not 0)", draw)


def labelled(
    rng: np.random.Generator, sizes: list[int], rate: float, correlation: float, places: Any = None
) -> tuple[Any, Any]:
    """People's labels and a judge's verdicts; the judge errs more on some requests."""
    truth = answers(rng, sizes, rate, correlation, places)
    return truth, truth ^ answers(rng, sizes, 0.12, correlation)


def sample_of(truth: Any, judged: Any, sizes: list[int], order: Any, labels: int) -> Sample:
    of, taken, rest = np.array(names_of(sizes)), order[:labels], order[labels:]
    parts = (truth[taken], judged[taken], judged[rest], of[taken], of[rest])
    return Sample(*(part.tolist() for part in parts))


def powered_line(sizes: list[int], rate: float, labels: int) -> Line:
    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        both = labelled(rng, sizes, rate, correlation)
        sample = sample_of(*both, sizes, rng.permutation(sum(sizes)), labels)
        return holds(prediction_powered(sample), rate)

    return Line(f"prediction-powered, {labels} labels", shown(sizes), f"{rate:g}", draw)


def kappa_line(kappa: float, positive: float, n: int) -> Line:
    """Two raters who say yes as often, of the samples that have an interval."""
    both = positive**2 + kappa * positive * (1 - positive)
    cells = (both, positive - both, positive - both, 1 - 2 * positive + both)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        a, b, c, d = rng.multinomial(n, cells).tolist()
        return holds(kappa_of_table([[a, b], [c, d]]), kappa)

    return Line(f"κ at {percent(positive)} positive", f"{n} prompts", f"{kappa:g}", draw)


def limit_line(groups: int) -> Line:
    """How often a fail rate at its limit is said to miss it, by the headline or by a group."""

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        rates = rates_at(rng.random(60), 0.1, correlation)
        rows = [
            {
                **dict.fromkeys(("reason", "repetitions", "dose", "differs")),
                **{"name": "n", "kind": "noise", "group": f"{group}", "source_id": f"{prompt}"},
                **{"clean_outcome": "error", "changed": bool(rng.random() < rates[prompt])},
                "answer": Counted("compliance", prompt),
            }
            for group in range(groups)
            for prompt in range(60)
        ]
        limits = {"thresholds": {"n_fail_rate": {"max": 0.1}}}
        suite = CountedSuite([], {}, compared=rows, definition=limits)
        return robustness_table(suite)[0].decision == "missed"

    rows = f"60 prompts, {groups} variants"
    return Line("*missed*, a fail rate at its limit", rows, "0.1", draw, UNEQUAL_RUNS)


def doubt_line(rate: float, what: str, enough: Callable[[int, float], bool]) -> Line:
    """Labels drawn by doubt with too sure probabilities, until labels or width are enough."""
    n = 450

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        truth = answers(rng, [1] * n, rate, 0)
        said = 1 / (1 + np.exp(-5 * (1.5 * rng.standard_normal(n) + np.where(truth, 1.2, -1.2))))
        sizes = np.array([draw_size(p) for p in said])
        places = rng.random(n) / sizes
        order = np.argsort(places)
        for labels in range(10, n, 10):
            own, rest = order[:labels], order[labels:]
            reached = np.minimum(1.0, sizes[own] * places[order[labels]])
            parts = (x.tolist() for x in (truth[own], said[own], said[rest]))
            found = prediction_powered(Sample(*parts, inclusion=reached.tolist()))
            assert found is not None
            if enough(labels, (found.high - found.low) / 2):
                break
        return holds(Interval(found.low, found.high), rate)

    return Line(f"draw by doubt, {what}", f"{n} prompts", f"{rate:g}", draw, UNEQUAL_RUNS)


def gap_line(sizes: list[int]) -> Line:
    """The gap of a judge, as the ledger has it, that errs alike on answers to one request."""
    names = names_of(sizes)

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        refused = answers(rng, sizes, 0.3, correlation)
        said = np.where(refused, ~answers(rng, sizes, 0.15, correlation), False)
        truth, labels = (np.where(x, "refusal", "compliance").tolist() for x in (refused, said))
        pairs = [{"cluster": name} for name in names]
        (entry,) = ledger_entries("judge", "1", pairs, truth, labels)
        return holds(Interval(entry.gap_low, entry.gap_high), -0.045)

    return Line("gap of a judge", shown(sizes), "-0.045", draw, UNEQUAL_RUNS)


def judge_line(world: World, what: str, rates: tuple[float, ...], sizes: list[int]) -> Line:
    """Whether labels' rate, the difference of two models of one source, or the discrimination, is in
    the interval for prompts and judge of a new source."""
    names = names_of(sizes)
    prompts = {"discrimination": ("harmful", "other")}.get(what, ("harmful", "harmful"))

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        error, source, parts = world.ledger(rng), world.effects(rng, world.between), []
        effects = world.effects(rng, world.within)
        for model, (rate, kind) in enumerate(zip(rates, prompts, strict=False)):
            refused = np.array(answers(rng, sizes, rate, correlation))
            if model:
                alike = shared_effects(*rates) if what == "two models" else 0.0
                further = world.effects(rng, world.within)
                effects = alike * effects + (1 - alike**2) ** 0.5 * further
            says = floats(world.verdicts(rng, refused, rate, source + effects))
            part = part_of(says, names, kind, 0.95, sign=-1 if model else 1)
            if part is None:
                return None
            if parts and what.startswith("two models"):
                part = replace(part, shared=shared_effects(parts[0].share, part.share))
            parts.append(part)
        value = sum(part.sign * part.share for part in parts)
        ends = Interval(value, value)
        reach = sum((part.interval.high - part.interval.low) ** 2 for part in parts) ** 0.5 / 2
        limits = parts[0].interval if len(parts) == 1 else Interval(value - reach, value + reach)
        found = people_interval(error, parts, ends, limits, 0.95)
        return holds(found, rates[0] - sum(rates[1:]))

    truth = " − ".join(f"{rate:g}" for rate in rates)
    return Line(f"prompts and judge, {what}, {world.name}", shown(sizes), truth, draw, JUDGE_RUNS)


def unjudged_line() -> Line:
    """How often a rate at its threshold is met where 30 % of the compliances are not judged."""

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        lost = np.where(rng.random(129) < 0.3, "error", "compliance")
        outcomes = np.where(rng.random(129) < 0.8, "refusal", lost).tolist()
        counted = [Counted(outcome, place) for place, outcome in enumerate(outcomes)]
        found = answer_rate(Key(HARMFUL_REFUSAL), counted)
        return decided(found, Threshold("min", 0.8)).decision == "met"

    what = "*met*, 30 % of compliance not judged"
    return Line(what, "129 prompts", "0.8", draw, UNEQUAL_RUNS)


def family_line(models: int) -> Line:
    """How often any p (Holm, k) of models that are alike is at most .05."""
    pairs = list(combinations(range(models), 2))

    def draw(rng: np.random.Generator, correlation: float) -> bool | None:
        names, places = names_of(STYLES), rng.random(len(STYLES))
        of = [floats(answers(rng, STYLES, 0.8, correlation, places)) for _ in range(models)]
        ps = holm([clustered_mcnemar(of[a], of[b], names) for a, b in pairs])
        return min(p for p in ps if p is not None) <= 0.05

    what = f"any p (Holm, {len(pairs)}) of {models} models"
    return Line(what, shown(STYLES), "0.8", draw, UNEQUAL_RUNS)


RATES = (0.0, 0.1, 0.5, 0.9, 1.0)
INTERVALS = [
    rate_line("refusal rate", SINGLE, 0.9),
    rate_line("refusal rate", SINGLE, 0.02),
    *(rate_line("refusal rate", STYLES, rate) for rate in (0.02, 0.2, 0.5, 0.9)),
    wilson_line(STYLES, 0.5),
    loophole_line(0.9, 0.02),
    loophole_line(0.9, 0.2),
    loophole_line(0.4, 0.2),
    rate_line("attack success", ATTACKS, 0.1),
    difference_line("difference to the pair", pairs_of, ATTACKS, 0.8, 0.8),
    difference_line("difference to the pair", pairs_of, ATTACKS, 0.7, 0.9),
    difference_line("two models", models_of, STYLES, 0.8, 0.8),
    difference_line("two models", models_of, STYLES, 0.5, 0.7),
    difference_line("two models", models_of, SINGLE, 0.9, 0.85),
    *(loss_line(sizes, drop) for sizes in (STYLES, [25] * 10) for drop in (0.01, 0.05, 0.2)),
    *(rate_line("refusal rate", sizes, 0.5) for sizes in UNEQUAL),
    *(loss_line(sizes, 0.1) for sizes in UNEQUAL),
    score_line(0.01, SINGLE),
    score_line(0.1, SINGLE),
    score_line(0.1, STYLES),
    powered_line(SINGLE, 0.8, 50),
    powered_line(STYLES, 0.8, 50),
    powered_line(STYLES, 0.3, 100),
    *(
        kappa_line(*given)
        for given in ((0.0, 0.1, 129), (0.2, 0.1, 250), (0.5, 0.05, 250), (0.8, 0.5, 129))
    ),
    bounds_line(STYLES, 0.5, 0.1),
    bounds_line(STYLES, 0.5, 0.4),
    gain_line(100, 0.02),
    gain_line(100, 0.1),
    doubt_line(0.3, "60 labels", lambda labels, half: labels == 60),
    doubt_line(0.3, "stopped at ±10 points", lambda labels, half: half <= 0.1),
    doubt_line(0.9, "stopped at ±5 points", lambda labels, half: half <= 0.05),
    gap_line([8] * 31),
    *(judge_line(world, "rate", (rate,), SINGLE) for world in WORLDS for rate in RATES),
    *(judge_line(world, "rate", (0.5,), STYLES) for world in WORLDS),
    *(judge_line(world, "discrimination", (0.9, 0.1), SINGLE) for world in WORLDS),
    *(judge_line(world, "two models", (0.5, 0.7), SINGLE) for world in WORLDS),
    *(judge_line(world, "two models", (0.0, 0.05), SINGLE) for world in WORLDS),
    *(judge_line(world, UNLIKE, (0.5, 0.7), SINGLE) for world in WORLDS),
]
TESTS = [
    test_line("p of the difference to the pair", pairs_of, ATTACKS, 0.8),
    test_line("p of two models", models_of, STYLES, 0.8),
    test_line("p of two models", models_of, SINGLE, 0.8),
    *(limit_line(groups) for groups in (6, 24)),
    *(power_line(sizes, 0.06) for sizes in (SINGLE, STYLES, [25] * 10)),
    *(margin_line(sizes) for sizes in (SINGLE, STYLES, [25] * 10, [100] + [1] * 29)),
    unjudged_line(),
    family_line(5),
]


def simulate(line: Line, number: int) -> list[float | None]:
    """The share of samples, in per cent, for each correlation; single prompts have none to vary."""
    shares: list[float | None] = []
    for place, correlation in enumerate(CORRELATIONS):
        if correlation and line.rows.endswith("prompts"):
            shares.append(None)
            continue
        rng = np.random.default_rng([20, number, place])
        drawn = [line.draw(rng, correlation) for _ in range(line.runs)]
        known = [held for held in drawn if held is not None]
        shares.append(100 * sum(known) / len(known) if known else None)
    return shares


def kept_lines(path: Path, again: str) -> dict[tuple[str, ...], list[float | None]]:
    """The shares that the file has of lines that are not simulated again."""
    kept: dict[tuple[str, ...], list[float | None]] = {}
    if not again or not path.exists():
        return kept
    for text in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if len(cells) == 3 + len(CORRELATIONS) and not cells[0].startswith(again):
            shares = cells[3:]
            if all(share.replace(".", "").isdigit() or not share for share in shares):
                kept[tuple(cells[:3])] = [float(share) if share else None for share in shares]
    return kept


def table(
    lines: list[Line], start: int, kept: dict[tuple[str, ...], list[float | None]]
) -> tuple[list[str], list[tuple[Line, float, float]]]:
    """A Markdown table, and each of its cells."""
    header = ["what is printed", "rows", "truth", *(f"{c:g}" for c in CORRELATIONS)]
    text = [f"| {' | '.join(header)} |", f"|{'|'.join([':--'] * 2 + ['--:'] * 5)}|"]
    cells = []
    for number, line in enumerate(lines, start):
        shares = kept.get((line.what, line.rows, line.truth)) or simulate(line, number)
        printed = ["" if share is None else f"{share:.1f}" for share in shares]
        text.append(f"| {' | '.join([line.what, line.rows, line.truth, *printed])} |")
        print(text[-1], flush=True)
        by_correlation = zip(CORRELATIONS, shares, strict=True)
        cells += [(line, c, share) for c, share in by_correlation if share is not None]
    return text, cells


def write_again(path: Path) -> None:
    """Writes the tables that rest on the ledger again, and leaves the simulated ones."""
    section, simulated_from = judge_section(), "\nWith labels of some of "
    before, _, after = path.read_text(encoding="utf-8").partition(section[0])
    kept = after.partition(simulated_from)
    path.write_text(before + "\n".join([*section, ""]) + "".join(kept[1:]), encoding="utf-8")


def main() -> None:
    """Simulates and writes the table."""
    started = time.monotonic()
    path = Path(__file__).with_suffix(".md")
    if sys.argv[1:] == ["--ledger"]:
        write_again(path)
        return
    section = [*judge_section(), *labels_section()]
    kept = kept_lines(path, " ".join(sys.argv[1:]))
    intervals, cells = table(INTERVALS, 0, kept)
    tests, sizes = table(TESTS, 1000, kept)
    printed = [cell for cell in cells if not cell[0].what.startswith("*")]
    low = [
        f"{line.what}, {line.rows}, {line.truth}, at {c:g}: {s:.1f} %"
        for line, c, s in printed
        if s < LEAST
    ]
    sizes = [cell for cell in sizes if not cell[0].what.startswith("*")]
    worst = min(share for _, _, share in printed)
    text = [
        "# Simulated coverage",
        "",
        "Written by `python -m benchmarks.coverage`. How often, in per cent of "
        f"{RUNS:,} simulated samples ({UNEQUAL_RUNS} for one-way losses, the "
        f"tests in italics, draws by doubt, a judge's gap and a family, {JUDGE_RUNS} for prompts and "
        "judge), a nominal 95 % interval holds "
        "the truth, by the correlation of two answers to one request (columns). Rows and requests are "
        "those of the default suites: `harmful_helpful` (129 harmful prompts), `jailbreak_styles` (127 "
        "rows of 26 requests), `robustness` (60 prompts, six variants of each). A share of 2,000 has a "
        "simulation error of ±1, one of 500 of ±1.9, one of 300 of ±2.5.",
        "",
        *intervals,
        "",
        f"Lowest of what is printed: {worst:.1f} %. Below {LEAST:g} %: {'; '.join(low) or 'none'}.",
        "",
        "How often an exact test at 5 % rejects where nothing differs, in per cent; *in italics*, how "
        "often a drop of exactly the margin is called not worse, a fail rate at its limit missed (5 at "
        "most), a rate at its threshold met, and the drop that is said to be detectable is shown (80 at "
        "least):",
        "",
        *tests,
        "",
        f"Highest: {max(share for _, _, share in sizes):.1f} %.",
        "",
        *section,
    ]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
