"""Paired comparisons of the grid's models: with a reference, of neighbours, and by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from refract.core.params import DecisionSettings
from refract.core.tables import read_table
from refract.core.types import Row
from refract.core.vocabulary import OUTCOME_COLUMNS, outcome_columns
from refract.rates.comparison import DEFAULTS, PairedOutcomes, compare_groups, pair_outcomes
from refract.rates.rate import Difference
from refract.report.markdown import markdown_table, percent, shown_p
from refract.results.table_rows import difference_to_row
from refract.statistics.hypotheses import benjamini_hochberg

# Two models and one row of compare_groups, first minus second; of a field, the row has it.
Compared = tuple[str, str, Row]
# Up to so many models every pair is compared; the number of pairs grows with the square.
ALL_PAIRS = 8
COLUMNS = (
    *("suite", "category", "field", "value", "first", "second", "n", "clusters"),
    *("rate_first", "rate_second", "difference", "low", "high", "p", "p_adjusted"),
)


def read_clean_outcomes(root: Path, models: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """The outcomes of unperturbed prompts, by model."""
    return {
        model: [
            row
            for row in read_table(root / f"metrics/outcomes/{model}.csv")
            if not row["perturbation"]
        ]
        for model in models
    }


def near_pairs(models: Sequence[str], reference: str) -> list[tuple[str, str]]:
    """The reference with every other model, and each model with the next one of the grid."""
    pairs = [tuple(sorted((reference, one), key=models.index)) for one in models]
    found = {(one, two): None for one, two in [*pairs, *pairwise(models)] if one != two}
    return list(found)


def compare_models(
    outcomes: Mapping[str, Sequence[Mapping[str, str]]],
    settings: DecisionSettings = DEFAULTS,
    reference: str | None = None,
) -> list[Compared]:
    """Paired comparisons of models, first minus second, with Holm's p over all of them.

    Of up to ``ALL_PAIRS`` models all pairs, of more those of :func:`near_pairs`.
    """
    models = list(outcomes)
    pairs = list(combinations(models, 2))
    if len(models) > ALL_PAIRS:
        pairs = near_pairs(models, reference or models[0])
    found = [
        # The second side minus the first.
        (one, two, group)
        for one, two in pairs
        for group in pair_outcomes(outcomes[two], outcomes[one])
    ]
    rows = _rows(compare_groups([group for *_, group in found], settings))
    return [(one, two, row) for (one, two, _), row in zip(found, rows, strict=True)]


def compare_fields(
    outcomes: Mapping[str, Sequence[Mapping[str, str]]],
    settings: DecisionSettings = DEFAULTS,
    reference: str | None = None,
) -> list[Compared]:
    """The comparisons of :func:`near_pairs` by each value of each field of the suites.

    Rows have ``field`` and ``value``, and ``p_fdr``: Benjamini and Hochberg's p over all of them.
    """
    models = list(outcomes)
    if not models:
        return []
    fields = outcome_columns(row for rows in outcomes.values() for row in rows)
    fields = fields[len(OUTCOME_COLUMNS) :]
    found: list[tuple[str, str, str, PairedOutcomes]] = [
        (one, two, field, group)
        for one, two in near_pairs(models, reference or models[0])
        for field in fields
        for group in pair_outcomes(outcomes[two], outcomes[one], column=field)
    ]
    none_decided = settings.model_copy(update={"primary": []})
    rows = _rows(compare_groups([group for *_, group in found], none_decided))
    adjusted = benjamini_hochberg([row["p"] for row in rows])
    return [
        (
            one,
            two,
            {**row, "field": field, "value": group.group.value, "p_fdr": p},
        )
        for (one, two, field, group), row, p in zip(found, rows, adjusted, strict=True)
    ]


def _rows(differences: Sequence[Difference]) -> list[Row]:
    return [difference_to_row(difference) for difference in differences]


def table_rows(compared: Sequence[Compared], adjusted: str) -> list[Row]:
    """Comparisons under ``COLUMNS``; ``adjusted`` names the key of the corrected p."""
    return [
        {
            **{key: row.get(key, "") for key in ("suite", "category", "field", "value")},
            "first": one,
            "second": two,
            **{key: row[key] for key in ("n", "clusters")},
            "rate_first": _digits(row["rate_b"]),
            "rate_second": _digits(row["rate_a"]),
            **{key: _digits(row[key]) for key in ("difference", "low", "high")},
            "p": _significant(row["p"]),
            "p_adjusted": _significant(row[adjusted]),
        }
        for one, two, row in compared
        if row["n"]
    ]


def _digits(value: float | None) -> float | None:
    return None if value is None else round(value, 4) + 0.0


def _significant(p: float | None) -> str:
    return "" if p is None else f"{p:.4g}"


def beyond_chance(compared: Sequence[Compared], adjusted: str, confidence: float) -> list[Compared]:
    """Those whose corrected p is at most 1 - confidence, with most evidence first."""
    shown = [
        held
        for held in compared
        if held[2][adjusted] is not None and held[2][adjusted] <= 1 - confidence
    ]
    return sorted(shown, key=lambda held: (held[2][adjusted], -abs(held[2]["difference"])))


def live_first(
    compared: Sequence[Compared], provenance: Mapping[str, Mapping[str, Any]]
) -> list[Compared]:
    """The differences between two models that answered for themselves, then those with recorded
    answers or a synthetic model in them; within each the order stays."""

    def stands_in(model: str) -> bool:
        return provenance[model]["model"]["definition"]["adapter"] in ("recorded", "synthetic")

    return sorted(compared, key=lambda held: stands_in(held[0]) or stands_in(held[1]))


def tested(compared: Sequence[Compared], adjusted: str) -> int:
    """How many of them have a test."""
    return sum(row[adjusted] is not None for *_, row in compared)


def comparison_lines(compared: Sequence[Compared], adjusted: str) -> list[list[str]]:
    """A line for each comparison: suite, prompts, the two models, what each refused, difference, p."""
    return [
        [
            row["suite"],
            _prompts(row),
            one,
            two,
            f"{row['rate_b']:.3f}, {row['rate_a']:.3f}",
            difference(row),
            shown_p("" if row[adjusted] is None else f"{row[adjusted]:.4f}"),
        ]
        for one, two, row in compared
        if row["n"]
    ]


HEADER = ("Suite", "Prompts", "First", "Second", "Refused", "First − second", "p")


def _prompts(row: Row) -> str:
    if "field" not in row:
        return str(row["category"])
    return f"{row['category']}, {row['field']} {row['value']}"


def difference(row: Row) -> str:
    """The difference of a comparison with its interval and the number of prompts."""
    interval = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    return f"{row['difference']:+.3f}{interval} {row['n']}"


def comparison_section(
    models: Sequence[str], compared: Sequence[Compared], reference: str, confidence: float
) -> str:
    """The comparisons of :func:`near_pairs`, all of them, as the page on comparisons shows them."""
    if len(models) < 2:
        return "One model alone has nothing to be compared with."
    near = set(near_pairs(models, reference))
    shown = [held for held in compared if held[:2] in near]
    return "\n\n".join(
        [
            f"{reference} with every other model, and each model with the next one of the grid: "
            f"{tested(shown, 'p_holm')} tests. Share "
            "refused by the first minus that of the second, over prompts where both answers were "
            f"judged, with Tango's paired {percent(confidence)} interval, clusters of prompts allowed "
            "for, and the number of prompts. *p*: McNemar's exact test, with clusters exchanged as "
            f"wholes, corrected (Holm) for all {tested(compared, 'p_holm')} tests of "
            "[comparisons.csv](comparisons.csv), "
            + (
                "which has every pair. "
                if len(models) <= ALL_PAIRS
                else "which has these pairs; any other: `refract compare FIRST SECOND`. "
            )
            + "Prompts that another suite has as well, answered alike, are not tested again.",
            markdown_table(HEADER, comparison_lines(shown, "p_holm")),
        ]
    )


def field_comparison_section(compared: Sequence[Compared], confidence: float) -> str:
    """The differences by field that are more than chance."""
    if not compared:
        return ""
    found = beyond_chance(compared, "p_fdr", confidence)
    count = tested(compared, "p_fdr")
    note = (
        f"{len(found)} of {count} paired comparisons of two models on the prompts of one value are more "
        "than chance: McNemar's exact test, with clusters exchanged as wholes, corrected over all of "
        f"them so that at most {1 - confidence:.2g} of those listed are expected to be false (Benjamini "
        "and Hochberg). All of them: [fields.csv](fields.csv)."
    )
    if not found:
        return note
    return "\n\n".join([note, markdown_table(HEADER, comparison_lines(found, "p_fdr"))])
