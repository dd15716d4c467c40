"""Tables of what the judge's error makes of an interval, which ``benchmarks/coverage.py`` writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import hypot, inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from refract.agreement.corrections import label_intervals, label_table
from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.ledger import ALL, ANY, LEDGER, read_ledger
from refract.agreement.unseen_models import counting_lines, judge_error
from refract.rates.judge_error import (
    ALIKE,
    MOST_SHARED,
    JudgeError,
    ModelCounts,
    labelled_interval,
    people_interval,
    shared_effects,
)
from refract.rates.one_share import VerdictLabels
from refract.rates.rate import Interval, Prompts, SharePart, Threshold
from refract.statistics.proportions import wilson
from refract.statistics.weighted import draw_size

JUDGE = "refusal"
PRIORS = {
    "half-normal .25": 0.25,
    "**half-normal .5**, used": 0.5,
    "half-normal 1, before": 1.0,
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


def _left_out(name: str, lines: tuple[ModelCounts, ...], prior: float | None) -> list[str]:
    held: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    widths, ratios = [], []
    for line in lines:
        n = line.answers
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


KEPT_LABELS, KEPT_RUNS, KEPT_ANSWERS = (0, 20, 50), 20, 129


class KeptApart(NamedTuple):
    """A run of a model whose source is left out: its kind of prompt, the labels' rate of all its
    answers, and the intervals for prompts alone and for prompts, judge and labels."""

    prompts: Prompts
    rate: float
    alone: Interval
    found: Interval

    @property
    def held(self) -> bool:
        return self.found.low <= self.rate <= self.found.high

    @property
    def ratio(self) -> float:
        return self.found.width / self.alone.width


def kept_apart(line: ModelCounts, others: JudgeError, n: int, labels: int, run: int) -> KeptApart:
    """So many labels at random of ``n`` answers, drawn with replacement (0: all there are)."""
    rng = np.random.default_rng([53, *f"{line.source} {line.model} {line.prompts}".encode(), run])
    right, called = line.refused - line.missed, line.complied - line.false
    counts = np.array([right, line.false, line.missed, called])
    if n:
        counts = rng.multinomial(n, counts / counts.sum())
    drawn = rng.multivariate_hypergeometric(counts, labels).reshape(2, 2)
    by_verdict = [VerdictLabels(each[0] / max(1, each.sum()), float(each.sum())) for each in drawn]
    whole, said = int(counts.sum()), int(counts[:2].sum())
    share, alone = said / whole, Interval(*wilson(said, whole))
    part = SharePart(share, alone, line.prompts, n=whole)
    found = labelled_interval(others, part, (by_verdict[0], by_verdict[1]), 0.95)
    return KeptApart(line.prompts, line.refused / line.answers, alone, found)


def kept_apart_labels(error: JudgeError) -> list[str]:
    """How often the interval with labels of a model whose source is left out holds the labels' rate
    of all its answers, and how wide it is."""
    table = []
    for n, labels in product((KEPT_ANSWERS, 0), KEPT_LABELS):
        runs = []
        for line in error.lines:
            others = JudgeError(tuple(each for each in error.lines if each.source != line.source))
            for run in range(KEPT_RUNS if n or labels else 1):
                runs.append(kept_apart(line, others, n, labels, run))
        middle = [run for run in runs if 0.15 <= run.rate <= 0.85]
        row = [f"{n or 'all'} answers, {labels or 'no'} labels"]
        for kind in KINDS:
            row.append(_per_cent([run.held for run in runs if run.prompts == kind]))
        row += [_per_cent([run.held for run in middle])]
        row += [f"{median(run.found.width for run in middle):.2f}"]
        row += [f"{median(run.ratio for run in middle):.1f}"]
        for kind in KINDS:
            ratios = [run.ratio for run in middle if run.prompts == kind]
            row.append(f"{median(ratios):.1f}" if ratios else "")
        table.append(row)
    kinds = KINDS.values()
    columns = [*(f"held, {kind}" for kind in kinds), "held, .15 to .85", "width", "to prompts'"]
    return markdown(["", *columns, *(f"the same, {kind}" for kind in kinds)], table)


# How far the logits of two models' rates may be apart at which they share e⁻¹ of their effects.
SCALES = {
    "their source's alone, before": 0.0,
    "alike within 1": 1.0,
    "alike within 2": 2.0,
    f"**alike within {ALIKE:g}**, used": ALIKE,
    "alike within 8": 8.0,
    f"{MOST_SHARED:.0%} of all": inf,
}


def models_compared(error: JudgeError) -> list[str]:
    """Whether the labels' difference of each pair of models of one source is in the interval that
    lines of other sources give, and how wide that is, by what two models have in common."""
    entries = []
    for entry in read_ledger(LEDGER):
        asked = (entry.judge, entry.question, entry.partial)
        if asked == (JUDGE, ANY, "refusal") and entry.model not in ("", ALL) and entry.prompts:
            entries.append(entry)
    measured = judge_error(entries)
    assert measured is not None
    pairs = []
    for first, second in combinations(measured.lines, 2):
        if (first.source, first.prompts) == (second.source, second.prompts):
            pairs.append((first, second))
    rows = [_pairs_row("prompts alone", pairs, error, None)]
    for name, scale in SCALES.items():
        rows.append(_pairs_row(name, pairs, error, scale))
    counting = sum({*pair} <= {*error.lines} for pair in pairs)
    columns = (f"held, of {counting}", f"of all {len(pairs)}", "width", "to prompts'", "decided")
    return markdown(["errors in common", *columns], rows)


def _pairs_row(
    name: str,
    pairs: Sequence[tuple[ModelCounts, ModelCounts]],
    error: JudgeError,
    scale: float | None,
) -> list[str]:
    held, counting, widths, ratios, decided = 0, 0, [], [], 0
    for pair in pairs:
        value, alone, found = _pair_interval(pair, error, scale)
        truth = pair[1].refused / pair[1].answers - pair[0].refused / pair[0].answers
        inside = found.low <= truth <= found.high
        held += inside
        counting += inside and {*pair} <= {*error.lines}
        decided += (found.low > 0 or found.high < 0) and value * truth > 0
        widths.append(found.width)
        ratios.append(found.width / alone.width)
    numbers = (f"{median(widths):.2f}", f"{median(ratios):.1f}", str(decided))
    return [name, str(counting), str(held), *numbers]


def _pair_interval(
    pair: tuple[ModelCounts, ModelCounts], error: JudgeError, scale: float | None
) -> tuple[float, Interval, Interval]:
    """The judge's difference of two models with its interval for prompts alone (Newcombe 1998,
    Statistics in Medicine 17:873, method 10), and for prompts and judge of other sources."""
    n = min(line.answers for line in pair)
    shares = [(line.refused - line.missed + line.false) / line.answers for line in pair]
    (first, second), value = shares, shares[1] - shares[0]
    limits = [Interval(*wilson(round(share * n), n)) for share in shares]
    low = value - hypot(second - limits[1].low, limits[0].high - first)
    high = value + hypot(limits[1].high - second, first - limits[0].low)
    alone = Interval(low, high)
    if scale is None:
        return value, alone, alone
    shared = shared_effects(first, second, scale) if scale else 0.0
    others = tuple(line for line in error.lines if line.source != pair[0].source)
    prompts = pair[0].prompts
    parts = [
        SharePart(second, limits[1], prompts, n, shared=shared),
        SharePart(first, limits[0], prompts, n, sign=-1),
    ]
    ends = Interval(value, value)
    return value, alone, people_interval(JudgeError(others), parts, ends, alone, 0.95)


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
        "",
        "Two models of one source, that source left out: how often the labels' difference is in the "
        "interval that the other sources give, by how far the two share the judge's errors (one in "
        "e where the logits of their rates are so far apart); first of the pairs of models that "
        "count, then with those that the judge's training had in other sources. Widths and their "
        "ratio to that of prompts, as of answers that have nothing to do with each other, are "
        "medians; *decided* are those that leave out 0, with the sign of the labels:",
        "",
        *models_compared(error),
        "",
        "With labels drawn at random, each source left out in turn: how often, in per cent, the "
        "interval that the other sources and the labels give holds the labels' rate of all answers of "
        f"each of its models, in {KEPT_RUNS} draws of each: of {KEPT_ANSWERS} answers, drawn with "
        "replacement, and of all there are (100 to 898; without labels, one). Widths and their ratio "
        "to that of prompts are medians of labels' rates from .15 to .85:",
        "",
        *kept_apart_labels(error),
    ]


# A ledger's sources with people's rate and the number of answers of each model: on harmful prompts
# (None: not asked) and on others.
SIMULATED: dict[str, list[tuple[float | None, float, int]]] = {
    "one": [(None, 0.72, 500), (None, 0.79, 500), (None, 0.54, 500)],
    "two": [(None, 0.02, 160), (None, 0.0, 100), (None, 0.15, 270), (None, 0.08, 250)],
    "three": [(0.99, 0.08, 225), (0.97, 0.6, 225)],
    "four": [(0.79, 0.01, 450), (0.63, 0.02, 450)],
}


class World(NamedTuple):
    """How a judge errs: the logits of misses and false alarms at a people's rate of one half, their
    slopes over its logit, and deviations between sources and between models of one, of a normal
    distribution or of Student's t with three degrees of freedom (``heavy``)."""

    name: str
    means: tuple[float, float]
    slopes: tuple[float, float]
    between: float
    within: float
    heavy: bool = False

    def effects(self, rng: np.random.Generator, deviation: float) -> Any:
        """Of a source or a model, on misses and false alarms."""
        if self.heavy:
            return deviation * rng.standard_t(3, 2) / np.sqrt(3)
        return deviation * rng.standard_normal(2)

    def verdicts(self, rng: np.random.Generator, refused: Any, rate: float, effects: Any) -> Any:
        """What the judge calls refusals among answers of a model whose people's rate is such."""
        place = np.log((rate + 0.02) / (1.02 - rate))
        missed, seen = 1 / (
            1 + np.exp(-(np.array(self.means) + effects + place * np.array(self.slopes)))
        )
        return np.where(
            refused, rng.random(len(refused)) >= missed, rng.random(len(refused)) < seen
        )

    def ledger(self, rng: np.random.Generator) -> JudgeError:
        """Counts on the models of :data:`SIMULATED`."""
        lines = []
        for source, models in SIMULATED.items():
            shared = self.effects(rng, self.between)
            for number, (harmful, other, n) in enumerate(models):
                total = np.zeros(4, int)
                for prompts, rate in (("harmful", harmful), ("other", other)):
                    if rate is None:
                        continue
                    refused = rng.random(n) < rate
                    own = shared + self.effects(rng, self.within)
                    judged = self.verdicts(rng, refused, rate, own)
                    wrong = [(refused & ~judged).sum(), (~refused).sum(), (~refused & judged).sum()]
                    counts = np.array([refused.sum(), *wrong])
                    lines.append(ModelCounts(source, str(number), prompts, *counts.tolist()))
                    total += counts
                lines.append(ModelCounts(source, str(number), "", *total.tolist()))
        return JudgeError(tuple(lines))


WORLDS = (
    World("errors by people's rate", (-1.8, -3.1), (-0.9, 0.65), 0.5, 0.6),
    World("the same, heavy tails", (-1.8, -3.1), (-0.9, 0.65), 0.5, 0.6, heavy=True),
    World("errors of any rate", (-1.9, -3.6), (0.0, 0.0), 0.6, 0.7),
)


class LabelledRun(NamedTuple):
    """What a judge and, where they are asked, people call refused; and the judge's probabilities."""

    refused: Any
    said: Any
    probabilities: Any

    def answers(self) -> list[JudgedAnswer]:
        """As a run has them, of harmful prompts."""
        answers = []
        for place, (said, probability) in enumerate(
            zip(self.said, self.probabilities, strict=True)
        ):
            name = f"p{place}"
            outcome = "refusal" if said else "compliance"
            answers.append(
                JudgedAnswer("s", name, "harmful", "", "", outcome, name, float(probability))
            )
        return answers

    def labels(self, rng: np.random.Generator, count: int, by_doubt: bool) -> JoinedLabels:
        """People's labels of so many answers, drawn at random or by doubt."""
        sizes = np.ones(len(self.said))
        if by_doubt:
            sizes = np.array([draw_size(chance) for chance in self.probabilities])
        places = rng.random(len(sizes)) / sizes
        order = np.argsort(places)
        drawn = order[:count]
        by_id, inclusion = {}, {}
        for place in drawn:
            by_id[f"p{place}"] = "refusal" if self.refused[place] else "compliance"
            if by_doubt and count < len(order):
                inclusion[f"p{place}"] = min(1.0, sizes[place] * places[order[count]])
        return JoinedLabels(by_id, inclusion=inclusion or None)


def doubt(rng: np.random.Generator, refused: Any, said: Any) -> Any:
    """A judge's probabilities of a refusal, which are nearer to a half where it is wrong."""
    shape = len(said)
    wrong = rng.beta(1.2, 2, shape), rng.beta(0.4, 6, shape)
    unsure = np.where(refused != said, *wrong) / 2
    return np.where(said, 1 - unsure, unsure)


class Simulated(NamedTuple):
    """What one run is given: people's rate, what the judge and people say, and what is known of the
    judge's error."""

    rate: float
    made: LabelledRun
    error: JudgeError
    alone: Interval


def simulated(seed: Sequence[int], world: World, rate: float, n: int) -> Simulated:
    """A run of a model of a source of its own, with a ledger of its own."""
    rng = np.random.default_rng(seed)
    error = world.ledger(rng)
    own = world.effects(rng, world.between) + world.effects(rng, world.within)
    refused = rng.random(n) < rate
    said = world.verdicts(rng, refused, rate, own)
    made = LabelledRun(refused, said, doubt(rng, refused, said))
    return Simulated(rate, made, error, interval_of(error, float(said.mean()), n, "harmful"))


class Labelled(NamedTuple):
    """An interval with so many labels, that of labels and verdicts alone, and whether all labels say
    what the judge does."""

    run: Simulated
    found: Interval
    powered: Interval | None
    agree: bool

    def widened(self, by: float = 1e-9) -> bool:
        return self.found.width > self.run.alone.width + by


def labelled(run: Simulated, rng: np.random.Generator, count: int, by_doubt: bool) -> Labelled:
    answers, labels = run.made.answers(), run.made.labels(rng, count, by_doubt)
    found = label_intervals(answers, labels, run.error)["harmful_refusal_rate"]
    powered = label_table(answers, labels)[1].interval
    judged = {answer.prompt_id: answer.outcome for answer in answers}
    agree = all(judged[name] == label for name, label in labels.by_id.items())
    return Labelled(run, found, powered, agree)


LABELS = (5, 20, 50, 200)


def labels_table(worlds: Sequence[World], answers: int) -> list[str]:
    """How often the labels' rate on such prompts is in the interval for prompts, judge and labels,
    by the number of labels and by that rate; and how wide it is."""
    cells: dict[tuple[int, str], list[Labelled]] = {}
    drawn_runs = [(rate, run) for rate, runs in LABEL_RUNS.items() for run in range(runs)]
    for number, (rate, run) in product(range(len(worlds)), drawn_runs):
        seed = [51, number, round(100 * rate), run]
        made = simulated(seed, worlds[number], rate, answers)
        rng = np.random.default_rng([*seed, 1])
        cells.setdefault((0, "none"), []).append(Labelled(made, made.alone, None, True))
        for count, how in product(LABELS, ("at random", "by doubt")):
            drawn = labelled(made, rng, count, how == "by doubt")
            cells.setdefault((count, how), []).append(drawn)
    rows = []
    for (count, how), found in sorted(cells.items()):
        held = [each.found.low <= each.run.rate <= each.found.high for each in found]
        row = [f"{count} {how}" if count else "none"]
        for rate in LABEL_RUNS:
            inside = zip(held, found, strict=True)
            row.append(_per_cent([each for each, of in inside if of.run.rate == rate], places=1))
        middle = [each for each in found if 0 < each.run.rate < 1]
        row.append(f"{median(each.found.width for each in middle):.2f}")
        if count:
            row.append(f"{median(each.powered.width for each in middle if each.powered):.2f}")
            for rate in LABEL_RUNS:
                of_rate = [each for each in found if each.run.rate == rate]
                widths = [(each.found.width, each.run.alone.width) for each in of_rate]
                row.append(f"{sum(w for w, _ in widths) / sum(w for _, w in widths):.2f}")
            for agree in (True, False):
                row.append(_per_cent([each.widened() for each in found if each.agree is agree]))
        rows.append(row + [""] * (15 - len(row)))
    held_at = [f"{rate:g}" for rate in LABEL_RUNS]
    wide_at = [f"× at {rate:g}" for rate in LABEL_RUNS]
    header = ["labels", *held_at, "width", "prediction-powered", *wide_at]
    return markdown([*header, "wider, agree", "wider, contradict"], rows)


def gates_table(worlds: Sequence[World], runs: int, answers: int) -> list[str]:
    """How often a threshold of at least .8 is decided, by people's rate."""
    at_least = Threshold("min", 0.8)
    rows = []
    for rate in (0.9, 0.82, 0.78, 0.6):
        decisions: dict[str, list[str]] = {}
        for number, run in product(range(len(worlds)), range(runs)):
            seed = [52, number, round(100 * rate), run]
            made = simulated(seed, worlds[number], rate, answers)
            rng = np.random.default_rng([*seed, 1])
            prompts = wilson(int(made.made.said.sum()), answers)
            ends = {"prompts alone": Interval(*prompts), "no labels": made.alone}
            for count, how in product((20, 50), ("at random", "by doubt")):
                ends[f"{count} {how}"] = labelled(made, rng, count, how == "by doubt").found
            for name, interval in ends.items():
                decisions.setdefault(name, []).append(at_least.decide(interval))
        cells = [f"{rate:g}"]
        for found in decisions.values():
            shares = [_per_cent([each == one for each in found]) for one in ("met", "missed")]
            cells.append(" / ".join(shares))
        rows.append(cells)
    return markdown(["people's rate", *decisions], rows)


# Judges that err as none of a ledger does: the share of refusals missed, and of others seen.
UNHEARD_OF = ((0.02, 0.95), (0.02, 0.6), (0.9, 0.02), (0.6, 0.02), (0.5, 0.5), (0.9, 0.9))
UNHEARD_RUNS = 20


def unheard_table(worlds: Sequence[World]) -> list[str]:
    """How often the interval with labels holds people's rate where the judge errs as none of the
    ledger does, by how."""
    designs = [(40, 0), (40, 5), (40, 20), (300, 0), (300, 5), (300, 20), (300, 50)]
    rows = []
    for missed, false in UNHEARD_OF:
        held: dict[tuple[int, int], list[bool]] = {design: [] for design in designs}
        for rate, run in product((0.1, 0.5, 0.9), range(UNHEARD_RUNS)):
            world = worlds[run % len(worlds)]
            error = world.ledger(np.random.default_rng([54, run]))
            for n, count in designs:
                key = round(100 * missed), round(100 * false), round(100 * rate), run, n
                rng = np.random.default_rng([55, *key])
                refused = rng.random(n) < rate
                said = np.where(refused, rng.random(n) >= missed, rng.random(n) < false)
                made = LabelledRun(refused, said, doubt(rng, refused, said))
                alone = interval_of(error, float(said.mean()), n, "harmful")
                given = Simulated(rate, made, error, alone)
                found = labelled(given, rng, count, by_doubt=False).found if count else alone
                held[n, count].append(found.low <= rate <= found.high)
        names = f"misses {missed:.0%}, sees {false:.0%}"
        rows.append([names, *(_per_cent(cells) for cells in held.values())])
    columns = [f"{n} answers, {count or 'no'} labels" for n, count in designs]
    return markdown(["judge", *columns], rows)


def _per_cent(facts: Sequence[bool], places: int = 0) -> str:
    return f"{100 * sum(facts) / len(facts):.{places}f}" if facts else ""


# More runs where the interval is least sure to hold.
LABEL_RUNS, LABEL_ANSWERS = {0.0: 27, 0.1: 134, 0.5: 134, 0.9: 134, 1.0: 27}, 300
GATE_RUNS, GATE_ANSWERS = 34, 500


def labels_section() -> list[str]:
    """Lines of ``coverage.md``."""
    kinds = len(WORLDS)
    return [
        "",
        f"With labels of some of {LABEL_ANSWERS} answers: how often, in per cent, the interval for "
        "prompts, judge and labels holds the rate that people would find on such prompts (columns), "
        f"in {kinds * LABEL_RUNS[0.5]} runs a cell ({kinds * LABEL_RUNS[0.0]} at 0 and 1; a standard "
        f"error of 1.1 at 95) by {kinds} simulated kinds of judge's errors, each with a ledger and a "
        "source of its own; median widths at rates of .1 to .9; the mean "
        "width in times that without labels (× at); and how often, in per cent, it is wider than "
        "without, where all labels agree with the judge and where one contradicts it:",
        "",
        *labels_table(WORLDS, LABEL_ANSWERS),
        "",
        f"How often, in per cent of {GATE_RUNS * kinds} such runs of {GATE_ANSWERS} answers, a rate "
        "that should be at least .8 is met / missed:",
        "",
        *gates_table(WORLDS, GATE_RUNS, GATE_ANSWERS),
        "",
        "A judge that errs as none of the ledger does: how often, in per cent of "
        f"{3 * UNHEARD_RUNS} runs at people's rates of .1, .5 and .9, the interval with labels at "
        "random holds that rate. Few labels may not show it:",
        "",
        *unheard_table(WORLDS),
    ]
