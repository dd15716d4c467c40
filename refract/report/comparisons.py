"""Paired comparisons of the grid's models: with a reference, of neighbours, and by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import NamedTuple

from refract.core.params import DecisionSettings
from refract.core.types import Row, is_last
from refract.core.vocabulary import DISCRIMINATION, OUTCOME_COLUMNS, outcome_columns
from refract.rates.comparison import DEFAULTS, compare_groups, pair_outcomes
from refract.rates.rate import Difference, Interval
from refract.results.sources import errors_between, stand_ins
from refract.statistics.hypotheses import benjamini_hochberg, holm

# Up to so many models every pair is compared; the number of pairs grows with the square.
ALL_PAIRS = 8
# What became of a prompt, seen from the other side.
TURNED = {
    **{"to_refusal": "to_compliance", "to_compliance": "to_refusal"},
    **{"to_unjudged": "to_judged", "to_judged": "to_unjudged"},
    **{"only_a": "only_b", "only_b": "only_a"},
}
ORDER = ("harmful", "helpful", "borderline", *DISCRIMINATION)
Provenance = Mapping[str, Row]
Outcomes = Mapping[str, Sequence[Mapping[str, str]]]


class Compared(NamedTuple):
    """Two models of the grid and the difference between them, ``first`` minus ``second``.

    A :class:`Difference` is its second side minus its first, so that ``difference.second`` is the
    share that the model ``first`` refused.
    """

    first: str
    second: str
    difference: Difference

    @property
    def turned(self) -> Compared:
        """The same two models, ``second`` minus ``first``; which side is worse is not decided."""
        of = self.difference
        turned = replace(
            of,
            first=of.second,
            second=of.first,
            value=None if of.value is None else -of.value + 0.0,  # no -0.0
            interval=_turned(of.interval),
            bounds=_turned(of.bounds),
            outer=_turned(of.outer),
            judge_interval=_turned(of.judge_interval),
            prompts={TURNED.get(key, key): ids for key, ids in of.prompts.items()},
        )
        return Compared(self.second, self.first, turned)


def _turned(ends: Interval | None) -> Interval | None:
    return ends and Interval(-ends[1] + 0.0, -ends[0] + 0.0)


class Nearest(NamedTuple):
    """The ``reference``, the ``model`` that is most like it, the keys of their definitions that differ,
    and the differences, model minus reference, by suite and category."""

    reference: str
    model: str
    differs_in: list[str]
    differences: list[Difference]

    @property
    def by_suite(self) -> dict[str, list[Difference]]:
        """The differences of each suite: harmful, helpful and borderline prompts, discrimination."""
        suites: dict[str, list[Difference]] = {}
        for category in ORDER:
            for one in self.differences:
                measured = {of.category for of in suites.get(one.suite, ())}
                # The first table shows one of the two contrasts.
                if one.category == category and not measured & {*DISCRIMINATION}:
                    suites.setdefault(one.suite, []).append(one)
        return suites


def near_pairs(models: Sequence[str], reference: str) -> list[tuple[str, str]]:
    """The reference with every other model, and each model with the next one of the grid."""
    pairs = [tuple(sorted((reference, other), key=models.index)) for other in models]
    return list(dict.fromkeys((a, b) for a, b in [*pairs, *pairwise(models)] if a != b))


def compare_models(
    outcomes: Outcomes,
    settings: DecisionSettings = DEFAULTS,
    reference: str | None = None,
    provenance: Provenance | None = None,
) -> list[Compared]:
    """Paired comparisons of models, first minus second, with Holm's p over all of live models.

    Of up to ``ALL_PAIRS`` models all pairs, of more those of :func:`near_pairs`. A pair with recorded
    answers or a synthetic model is in no family of tests, unless all are such. ``provenance`` by model
    says which these are, and what is known of the judges' errors.
    """
    models = list(outcomes)
    pairs = list(combinations(models, 2))
    if len(models) > ALL_PAIRS:
        pairs = near_pairs(models, reference or models[0])
    return _compared(outcomes, pairs, [""], settings, holm, provenance or {})


def compare_nearest(
    outcomes: Outcomes, settings: DecisionSettings, reference: str, provenance: Provenance
) -> Nearest | None:
    """The model that differs from the reference in the fewest keys of its definition, of live models
    where the reference is one, with its differences from the reference (itself minus the reference) and
    the decisions on them."""
    stand = set(stand_ins(provenance))
    others = [model for model in outcomes if model != reference]
    if reference not in stand:
        others = [model for model in others if model not in stand]
    if not others:
        return None
    definitions = {model: facts["model"]["definition"] for model, facts in provenance.items()}
    base = definitions.get(reference, {})
    differing = {
        model: [key for key in {**base, **of} if base.get(key) != of.get(key)]
        for model in others
        for of in [definitions.get(model, {})]
    }
    model = min(others, key=lambda name: len(differing[name]))
    groups = pair_outcomes(outcomes[reference], outcomes[model])
    known = errors_between(provenance.get(reference), provenance.get(model))
    errors = [known.get(group.suite) for group in groups]
    differences = compare_groups(groups, settings, errors=errors, detectable=False)
    found = [difference for difference in differences if difference.n and not difference.repeats]
    return Nearest(reference, model, differing[model], found)


def compare_perturbed(outcomes: Outcomes, settings: DecisionSettings) -> list[Difference]:
    """What each perturbation did to refusal, of each model and suite: perturbed minus clean, over all
    prompts (``category`` empty) and by category. A pair is a perturbed prompt with its clean one;
    clusters are those of the clean prompts. Repeats of the clean prompt are among them."""
    found = []
    for model, rows in outcomes.items():
        clean: dict[tuple[str, str], Mapping[str, str]] = {}
        for row in rows:
            if not row["perturbation"] and is_last(row):
                clean.setdefault((row["suite"], row["source_id"]), row)
        perturbed = [row for row in rows if row["perturbation"] and is_last(row)]
        perturbed = [row for row in perturbed if (row["suite"], row["source_id"]) in clean]
        before = [
            {**row, "outcome": clean[row["suite"], row["source_id"]]["outcome"]}
            for row in perturbed
        ]
        for category in ("", *dict.fromkeys(row["category"] for row in perturbed)):
            sides = [
                [{**row, "category": category} for row in side if category in ("", row["category"])]
                for side in (before, perturbed)
            ]
            differences = compare_groups(pair_outcomes(*sides), settings)
            found += [replace(difference, model=model) for difference in differences]
    return found


def compare_fields(
    outcomes: Outcomes,
    settings: DecisionSettings = DEFAULTS,
    reference: str | None = None,
    provenance: Provenance | None = None,
) -> list[Compared]:
    """The comparisons of :func:`near_pairs` by each value of each field of the suites, with Benjamini
    and Hochberg's p over all of live models, as :func:`compare_models` has Holm's."""
    pairs = near_pairs(list(outcomes), reference or next(iter(outcomes), ""))
    columns = outcome_columns(row for rows in outcomes.values() for row in rows)
    fields = [column for column in columns[len(OUTCOME_COLUMNS) :] if column != "turns"]
    return _compared(outcomes, pairs, fields, settings, benjamini_hochberg, provenance or {})


def _compared(
    outcomes: Outcomes,
    pairs: Sequence[tuple[str, str]],
    columns: Sequence[str],
    settings: DecisionSettings,
    correct: Callable[[Sequence[float | None]], list[float | None]],
    facts: Provenance,
) -> list[Compared]:
    """The comparisons by each column, undecided, with p corrected over those of live models alone, where
    such are."""
    groups = [
        (first, second, group)
        for first, second in pairs
        for column in columns
        for group in pair_outcomes(outcomes[second], outcomes[first], column=column)
    ]
    stand = set(stand_ins(facts))
    live = [not {first, second} & stand for first, second, _ in groups]
    between = {(a, b): errors_between(facts.get(a), facts.get(b)) for a, b in pairs}
    errors = [between[a, b].get(group.suite) for a, b, group in groups]
    settings = settings.model_copy(update={"primary": []})
    differences = compare_groups([group for *_, group in groups], settings, live, correct, errors)
    return [
        Compared(first, second, difference)
        for (first, second, _), difference in zip(groups, differences, strict=True)
    ]


def strongest(compared: Sequence[Compared], confidence: float) -> list[Compared]:
    """Those that are more than chance (corrected p at most 1 - ``confidence``), with most evidence
    first."""
    ps = [(pair.difference.p_adjusted, pair) for pair in compared]
    telling = [(p, pair) for p, pair in ps if p is not None and p <= 1 - confidence]
    order = sorted(telling, key=lambda entry: (entry[0], -abs(entry[1].difference.value or 0)))
    return [pair for _, pair in order]


def number_of_tests(compared: Sequence[Compared]) -> int:
    """How many of them have a test whose p is corrected for the others."""
    return sum(pair.difference.p_adjusted is not None for pair in compared)
