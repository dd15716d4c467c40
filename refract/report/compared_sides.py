"""Two compared results as texts: decisions, tables of differences, and the remarks below."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from refract.core.decimals import MISSING, estimate_text
from refract.rates.rate import Difference, DropDecision, leaves_out_0
from refract.report.comparisons import ORDER
from refract.report.markdown import ShownTable
from refract.report.wording import (
    cluster_notes,
    short_estimate,
)
from refract.results.sources import ComparedSides
from refract.statistics.hypotheses import NOT_WORSE

LEFT_OUT = {
    "to_unjudged": "no longer judged",
    "to_judged": "newly judged",
    "not_judged": "not judged",
    "only_a": "only in A",
    "only_b": "only in B",
    "reworded": "reworded",
}
FLIPS = {"to_refusal": "newly refused", "to_compliance": "newly answered"}
FLIP_HEADER = ["model", "suite", "category", "perturbation", "prompt", "flip"]


class Primary(NamedTuple):
    """A primary measure: the difference with the decision on its drop."""

    difference: Difference
    drop: DropDecision

    @property
    def name(self) -> str:
        """The model, the suite and the category."""
        return f"{self.difference.model} {self.difference.suite} {self.difference.category}"


class SidesText:
    """What is written of two compared sides; ``wide``: with p, flips and what was left out."""

    def __init__(self, sides: ComparedSides, *, wide: bool = False) -> None:
        self.sides = sides
        self.wide = wide
        self.differences = sides.differences
        self.primary = [Primary(row, row.drop) for row in self.differences if row.drop]
        self.models = list(dict.fromkeys(row.model for row in self.differences))
        self.percent = f"{100 * sides.confidence:g} %"
        worse = sum(row.drop.p_worse_holm is not None for row in self.primary)
        self.worse_title = f"p worse (Holm, {worse})"
        self.tests = sum(row.p_adjusted is not None for row in self.differences)

    def counts(self) -> str:
        """How many primary measures got which decision."""
        decisions = Counter(row.drop.decision for row in self.primary)
        counts = [f"{count} {decision}" for decision, count in sorted(decisions.items())]
        return ", ".join(counts) or "none"

    def regressions(self) -> list[str]:
        """A line for each primary measure that is shown to be worse."""
        lines = []
        for row in self.primary:
            if row.drop.regression:
                lines.append(f"{self._without_model(row.name)}: {self._why(row)}")
        return lines

    def failures(self, fail_on: str) -> list[str]:
        """A line for each reason why a build fails."""
        lines = []
        for row in self.primary:
            if row.drop.regression:
                lines.append(f"REGRESSION {row.name}: {self._why(row)}")
            elif fail_on == "inconclusive" and row.drop.decision != NOT_WORSE:
                lines.append(f"INCONCLUSIVE {row.name}: {self._why(row)}")
        undecided = self.sides.undecided
        if not self.primary:
            undecided = ["no primary measure could be compared"]
        return lines + [f"INCONCLUSIVE: {reason}" for reason in undecided]

    def table(self, model: str) -> ShownTable:
        """The differences of one model, or of one pair, by suite and category."""
        header = ["suite", "category", "n", "A", "B", f"B − A [{self.percent}]"]
        if self.wide:
            header += ["p", f"p (Holm, {self.tests})", *FLIPS.values(), "left out"]
            header += [self.worse_title, "worst case", "detectable"]
        suites = list(dict.fromkeys(row.suite for row in self.differences))

        def order(row: Difference) -> tuple[int, int]:
            kind = ORDER.index(row.category) if row.category in ORDER else len(ORDER)
            return suites.index(row.suite), kind

        rows = sorted((row for row in self.differences if row.model == model), key=order)
        cells = [_wide_cells(row) if self.wide else _cells(row) for row in rows]
        return ShownTable([*header, "decision"], cells, [])

    def flips(self) -> ShownTable:
        """Every prompt that flipped."""
        rows = []
        for row in self.differences:
            names = [row.model, row.suite, row.category, row.perturbation]
            for key, kind in FLIPS.items():
                rows += [[*names, prompt, kind] for prompt in row.prompts[key]]
        return ShownTable(FLIP_HEADER, rows, [])

    def notes(self) -> list[str]:
        """The remarks below the tables."""
        reasons: dict[str, list[str]] = {}
        for row in self.primary:
            if row.drop.reason and not row.drop.regression:
                reasons.setdefault(row.drop.reason, []).append(self._without_model(row.name))
        notes = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        notes += map(self._without_model, self.sides.notes)
        if self.primary:
            notes.append(
                "decision: worse, if fewer harmful prompts are shown to be refused, or more of others "
                f"(one-sided p, Holm over the {len(self.primary)} primary rows); not worse, if that is "
                f"within the margin of {self.primary[0].drop.margin} at the worst of what was not "
                f"judged (one-sided, {self.percent})"
            )
        if self.tests and self.wide:
            notes.append(
                f"cite p (Holm, {self.tests}), corrected for the {self.tests} rows that were tested, or "
                "of a primary row the decision and p worse; p alone is of a row named before the "
                "answers were seen"
            )
        notes += self._disagreements()
        if self.primary and self.wide:
            notes.append(
                "detectable: the smallest drop that prompts as alike show in 80 % of cases"
            )
        if any(row.judge_interval for row in self.differences):
            notes.append(
                "intervals, worst cases and decisions of two models hold the judge's error on both (p "
                "does not); --interval prompts leaves it out, labels of both runs replace it (refract "
                "correct)"
            )
        return notes

    def _disagreements(self) -> list[str]:
        """A remark where an interval leaves out 0 and the corrected p does not."""
        names = []
        for row in self.differences:
            chance = row.may_be_chance(self.sides.confidence)
            if row.p_adjusted is not None and chance and leaves_out_0(row.shown):
                name = " ".join([row.model, *_names(row)])
                names.append(f"{self._without_model(name)} (p {_number(row.p_adjusted, '.2g')})")
        if not names:
            return []
        return [
            f"may be chance though the interval leaves out 0, which is of one test, p (Holm, "
            f"{self.tests}) of all: {'; '.join(names)}"
        ]

    def _without_model(self, text: str) -> str:
        """A text without the model's name at its start, where only one is compared."""
        if len(self.models) != 1:
            return text
        return text.removeprefix(f"{self.models[0]}: ").removeprefix(f"{self.models[0]} ")

    def _why(self, row: Primary) -> str:
        """The refusal rates, what the unjudged could make of them, and the decision."""
        difference, drop = row.difference, row.drop
        text = "no pair judged on both sides"
        if difference.n:
            text = f"refusal {difference.a:.3f} → {difference.b:.3f}"
        if drop.p_worse_holm is not None:
            text += f", {self.worse_title} {drop.p_worse_holm:.2g}"
        if drop.worst is not None:
            text += f", worst case {drop.worst:+z.3f}"
        reason = f" ({drop.reason})" if drop.reason else ""
        return f"{text} against a margin of {drop.margin}: {drop.decision}{reason}"


def _names(difference: Difference) -> list[str]:
    category = difference.category.replace("borderline_discrimination", "harmful − borderline")
    category = category.replace("discrimination", "harmful − helpful")
    if difference.perturbation:
        category += f", {difference.perturbation}"
    return [difference.suite, category]


def _cells(difference: Difference) -> list[str]:
    return [
        *_names(difference),
        str(difference.n),
        _number(difference.a, "z.2f"),
        _number(difference.b, "z.2f"),
        short_estimate(difference.value, difference.shown, "+"),
        difference.drop.decision if difference.drop else MISSING,
    ]


def _wide_cells(difference: Difference) -> list[str]:
    drop, prompts = difference.drop, difference.prompts
    n = str(difference.n)
    if difference.clusters != difference.n:
        notes = cluster_notes(difference.clusters, difference)
        n += f" ({', '.join([f'{difference.clusters} clusters', *notes])})"
    left_out = [f"{len(prompts[key])} {kind}" for key, kind in LEFT_OUT.items() if prompts[key]]
    decision = [MISSING] * 4
    if drop:
        worse, worst = _number(drop.p_worse_holm, ".2g"), _number(drop.worst, "+z.3f")
        decision = [worse, worst, _number(drop.detectable), drop.decision]
    return [
        *_names(difference),
        n,
        _number(difference.a),
        _number(difference.b),
        estimate_text(difference.value, difference.shown, "+"),
        _number(difference.p, ".2g"),
        _number(difference.p_adjusted, ".2g"),
        str(len(prompts["to_refusal"])),
        str(len(prompts["to_compliance"])),
        ", ".join(left_out) or "0",
        *decision,
    ]


def _number(value: float | None, form: str = "z.3f") -> str:
    return MISSING if value is None else format(value, form)
