"""Two compared results as texts: decisions, tables of differences, and the remarks below."""

from __future__ import annotations

from collections import Counter

from refract.core.decimals import MISSING, estimate_text
from refract.rates.rate import Difference, DropDecision, leaves_out_0
from refract.report.comparisons import ORDER
from refract.report.markdown import ShownTable, shown_table
from refract.report.wording import cluster_notes, short_estimate
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


class SidesText:
    """What is written of two compared sides; ``wide``: with p, flips and what was left out."""

    def __init__(self, sides: ComparedSides, *, wide: bool = False) -> None:
        self.sides = sides
        self.wide = wide
        self.differences = sides.differences
        self.primary = [(row, row.drop) for row in self.differences if row.drop]
        self.models = list(dict.fromkeys(row.model for row in self.differences))
        self.percent = f"{100 * sides.confidence:g} %"
        worse = sum(drop.p_worse_holm is not None for _, drop in self.primary)
        self.worse_title = f"p worse (Holm, {worse})"
        self.tests = sum(row.p_adjusted is not None for row in self.differences)

    def counts(self) -> str:
        """How many primary measures got which decision."""
        decisions = Counter(drop.decision for _, drop in self.primary)
        counts = [f"{count} {decision}" for decision, count in sorted(decisions.items())]
        return ", ".join(counts) or "none"

    def regressions(self) -> list[str]:
        """A line for each primary measure that is shown to be worse."""
        worse = [(row, drop) for row, drop in self.primary if drop.regression]
        return [f"{self._brief_name(row)}: {self._why(row, drop)}" for row, drop in worse]

    def failures(self, fail_on: str) -> list[str]:
        """A line for each reason why a build fails."""
        lines = []
        for row, drop in self.primary:
            if drop.regression:
                lines.append(f"REGRESSION {_name(row)}: {self._why(row, drop)}")
            elif fail_on == "inconclusive" and drop.decision != NOT_WORSE:
                lines.append(f"INCONCLUSIVE {_name(row)}: {self._why(row, drop)}")
        undecided = self.sides.undecided
        if not self.primary:
            undecided = ["no primary measure could be compared"]
        return lines + [f"INCONCLUSIVE: {reason}" for reason in undecided]

    def of_model(self, model: str) -> list[Difference]:
        """The differences of one model, or of one pair, by suite and category."""
        suites = list(dict.fromkeys(row.suite for row in self.differences))

        def order(row: Difference) -> tuple[int, int]:
            kind = ORDER.index(row.category) if row.category in ORDER else len(ORDER)
            return suites.index(row.suite), kind

        return sorted((row for row in self.differences if row.model == model), key=order)

    def table(self, model: str) -> ShownTable:
        """The same as a table."""
        return shown_table(map(self._cells, self.of_model(model)), filled=False)

    def _cells(self, row: Difference) -> dict[str, object]:
        drop, prompts = row.drop, row.prompts
        cells: dict[str, object] = {"suite": row.suite, "category": _category(row), "n": row.n}
        change = f"B − A [{self.percent}]"
        if not self.wide:
            cells["A"] = _number(row.a, "z.2f")
            cells["B"] = _number(row.b, "z.2f")
            cells[change] = short_estimate(row.value, row.shown, "+")
        else:
            if row.clusters != row.n:
                notes = [f"{row.clusters} clusters", *cluster_notes(row.clusters, row)]
                cells["n"] = f"{row.n} ({', '.join(notes)})"
            left_out = [
                f"{len(prompts[key])} {kind}" for key, kind in LEFT_OUT.items() if prompts[key]
            ]
            cells |= {
                "A": _number(row.a),
                "B": _number(row.b),
                change: estimate_text(row.value, row.shown, "+"),
                "p": _number(row.p, ".2g"),
                f"p (Holm, {self.tests})": _number(row.p_adjusted, ".2g"),
                **{kind: len(prompts[key]) for key, kind in FLIPS.items()},
                "left out": ", ".join(left_out) or "0",
                self.worse_title: _number(drop.p_worse_holm if drop else None, ".2g"),
                "worst case": _number(drop.worst if drop else None, "+z.3f"),
            }
        return cells | {"decision": drop.decision if drop else MISSING}

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
        for row, drop in self.primary:
            if drop.reason and not drop.regression:
                reasons.setdefault(drop.reason, []).append(self._brief_name(row))
        notes = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        for note in self.sides.notes:
            only = len(self.models) == 1 and list(note.models) == self.models
            notes.append(note.line(of_models=not only))
        if self.primary:
            notes.append(
                "decision: worse, if fewer harmful prompts are shown to be refused, or more of others "
                f"(one-sided p, Holm over the {len(self.primary)} primary rows); not worse, if that is "
                f"within the margin of {self.primary[0][1].margin} at the worst of what was not "
                f"judged (one-sided, {self.percent})"
            )
        if self.tests and self.wide:
            notes.append(
                f"cite p (Holm, {self.tests}), corrected for the {self.tests} rows that were tested, or "
                "of a primary row the decision and p worse; p alone is of a row named before the "
                "answers were seen"
            )
        chance = []
        for row in self.differences:
            by_chance = row.p_adjusted is not None and row.may_be_chance(self.sides.confidence)
            if by_chance and leaves_out_0(row.shown):
                name = self._brief_name(row, _category(row))
                chance.append(f"{name} (p {_number(row.p_adjusted, '.2g')})")
        if chance:
            notes.append(
                f"may be chance though the interval leaves out 0, which is of one test, p (Holm, "
                f"{self.tests}) of all: {'; '.join(chance)}"
            )
        if any(row.judge_interval for row in self.differences):
            notes.append(
                "intervals, worst cases and decisions of two models hold the judge's error on both (p "
                "does not); --interval prompts leaves it out, labels of both runs replace it (refract "
                "correct)"
            )
        return notes

    def _brief_name(self, row: Difference, category: str = "") -> str:
        """The name of a row, without its model where only one is compared."""
        name = f"{row.suite} {category or row.category}"
        return name if len(self.models) == 1 else f"{row.model} {name}"

    def _why(self, row: Difference, drop: DropDecision) -> str:
        """The refusal rates, what the unjudged could make of them, and the decision."""
        text = "no pair judged on both sides"
        if row.n:
            text = f"refusal {row.a:.3f} → {row.b:.3f}"
        if drop.p_worse_holm is not None:
            text += f", {self.worse_title} {drop.p_worse_holm:.2g}"
        if drop.worst is not None:
            text += f", worst case {drop.worst:+z.3f}"
        reason = f" ({drop.reason})" if drop.reason else ""
        return f"{text} against a margin of {drop.margin}: {drop.decision}{reason}"


def _name(difference: Difference) -> str:
    return f"{difference.model} {difference.suite} {difference.category}"


def _category(difference: Difference) -> str:
    category = difference.category.replace("borderline_discrimination", "harmful − borderline")
    category = category.replace("discrimination", "harmful − helpful")
    return f"{category}, {difference.perturbation}" if difference.perturbation else category


def _number(value: float | None, form: str = "z.3f") -> str:
    return MISSING if value is None else format(value, form)
