"""Two compared results as texts: decisions, tables of differences, and the remarks below."""

from __future__ import annotations

from collections import Counter

from refract.core.decimals import MISSING
from refract.rates.judge_error import LABELS_ASK
from refract.rates.rate import Difference, DropDecision
from refract.report.markdown import ShownTable, shown_table
from refract.report.wording import p_text, percent, short_estimate
from refract.results.sources import ComparedSides
from refract.statistics.hypotheses import NOT_WORSE

HOLD_JUDGE = (
    f"hold the judge's error on both, by labels that ask {LABELS_ASK} (p does not; labels of these "
    "answers change neither); decisions.interval: prompts leaves it out"
)
FLIPS = {"to_refusal": "newly refused", "to_compliance": "newly answered"}
FLIP_HEADER = ["model", "suite", "category", "perturbation", "prompt", "flip"]


class SidesText:
    """What is written of two compared sides."""

    def __init__(self, sides: ComparedSides) -> None:
        self.sides = sides
        self.differences = sides.differences
        self.primary = [(row, row.drop) for row in self.differences if row.drop]
        self.models = list(dict.fromkeys(row.model for row in self.differences))
        self.percent = percent(sides.confidence)
        self.tests = sum(row.p_adjusted is not None for row in self.differences)

    def counts(self) -> str:
        """How many primary measures got which decision."""
        decisions = Counter(drop.decision for _, drop in self.primary)
        counts = [f"{count} {decision}" for decision, count in sorted(decisions.items())]
        return ", ".join(counts) or "none"

    def regressions(self) -> list[str]:
        """A line for each primary measure that is shown to be worse."""
        worse = [(row, drop) for row, drop in self.primary if drop.regression]
        return [f"{self._name(row)}: {_why(row, drop)}" for row, drop in worse]

    def failures(self, fail_on: str) -> list[str]:
        """A line for each reason why a build fails."""
        lines = [f"REGRESSION {line}" for line in self.regressions()]
        for row, drop in self.primary:
            if fail_on == "inconclusive" and drop.decision != NOT_WORSE and not drop.regression:
                lines.append(f"INCONCLUSIVE {self._name(row)}: {_why(row, drop)}")
        undecided = self.sides.undecided
        if not self.primary:
            undecided = ["no primary measure could be compared"]
        return lines + [f"INCONCLUSIVE: {reason}" for reason in undecided]

    def of_model(self, model: str) -> list[Difference]:
        """The differences of one model, or of one pair, suite by suite."""
        suites = list(dict.fromkeys(row.suite for row in self.differences))
        of_model = [row for row in self.differences if row.model == model]
        return sorted(of_model, key=lambda row: suites.index(row.suite))

    def table(self, model: str) -> ShownTable:
        """The same as a table."""
        return shown_table(map(self._cells, self.of_model(model)), filled=False)

    def _cells(self, row: Difference) -> dict[str, object]:
        return {
            "suite": row.suite,
            "category": _category(row),
            "n": row.n,
            "A": short_estimate(row.a),
            "B": short_estimate(row.b),
            f"B − A [{self.percent}]": short_estimate(row.value, row.shown, "+"),
            f"p (Holm, {self.tests})": p_text(row.p_adjusted),
            "decision": row.drop.decision if row.drop else MISSING,
        }

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
                reasons.setdefault(drop.reason, []).append(self._name(row))
        notes = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        for note in self.sides.notes:
            only = len(self.models) == 1 and list(note.models) == self.models
            notes.append(note.line(of_models=not only))
        tested = sum(drop.p_worse is not None for _, drop in self.primary)
        if self.primary:
            notes.append(
                "decision: worse, if fewer harmful prompts are shown to be refused, or more of others "
                f"(one-sided p, Holm over the {tested} primary rows that were tested); not worse, if "
                f"that is within the margin of {self.primary[0][1].margin} at the worst of what was not "
                f"judged (one-sided, {self.percent})"
            )
        if self.tests:
            notes.append(
                f"p is corrected for the {self.tests} rows that were tested; where it is large, a "
                "difference may be chance though its interval, of one test, leaves out 0"
            )
        if any(row.judge_interval for row in self.differences):
            notes.append(f"intervals and decisions of two models {HOLD_JUDGE}")
        return notes

    def _name(self, row: Difference) -> str:
        """The name of a row, without its model where only one is compared."""
        name = f"{row.suite} {row.category}"
        return name if len(self.models) == 1 else f"{row.model} {name}"


def _why(row: Difference, drop: DropDecision) -> str:
    """The refusal rates, what the unjudged could make of them, and the decision."""
    text = f"refusal {row.a:.3f} → {row.b:.3f}" if row.n else "no pair judged on both sides"
    if drop.p_worse_holm is not None:
        text += f", p worse (Holm) {drop.p_worse_holm:.2g}"
    if drop.worst is not None:
        text += f", worst case {drop.worst:+z.3f}"
    reason = f" ({drop.reason})" if drop.reason else ""
    return f"{text} against a margin of {drop.margin}: {drop.decision}{reason}"


def _category(difference: Difference) -> str:
    category = difference.category.replace("borderline_discrimination", "harmful − borderline")
    category = category.replace("discrimination", "harmful − helpful")
    return f"{category}, {difference.perturbation}" if difference.perturbation else category
