"""What is asked first of a result: refusal by category, what was left out, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.report.markdown import MISSING, excluded_counts, left_out, shown_rate
from refract.results.tables import Table

HEADLINES = (
    ("harmful_refusal_rate", "Harmful refused"),
    ("over_refusal_rate", "Helpful refused (over-refusal)"),
    ("borderline_refusal_rate", "Borderline refused"),
)
CATEGORY_OF = {
    "harmful_refusal_rate": "harmful",
    "over_refusal_rate": "helpful",
    "borderline_refusal_rate": "borderline",
}
# Adapters whose answers a server computes, and the end of the measure of how often its repeats differ.
SERVED = ("anthropic", "openai")
DIFFERS = "_differs_rate"
MAIN_HEADER = ("Suite", "Model", *(label for _, label in HEADLINES), "Not judged", "Thresholds")


class Summary(NamedTuple):
    """One model on one suite: a table row for each of ``HEADLINES`` (None where the suite has no such
    prompts), what was left out in words, and the rows that a threshold is set for."""

    suite: str
    model: str
    rates: list[Mapping[str, str] | None]
    left_out: str
    limits: list[Mapping[str, str]]

    @property
    def decision(self) -> str | None:
        """``missed`` or ``inconclusive`` if any threshold is, else ``met``; None without thresholds."""
        decisions = [limit_decision(row) for row in self.limits]
        worst = (one for one in ("missed", "inconclusive", "met") if one in decisions)
        return next(worst, None)


def limit_decision(row: Mapping[str, str]) -> str:
    """What a row's interval says of its threshold: met, missed or inconclusive."""
    return row.get("decision") or ("met" if row["passed"] == "1" else "missed")


def summaries(tables: Mapping[str, Table]) -> list[Summary]:
    """One for each suite and model that has a refusal rate, suite by suite."""
    found = []
    for suite in dict.fromkeys(row["suite"] for table in tables.values() for row in table):
        for model, table in tables.items():
            own = [row for row in table if row["suite"] == suite]
            rates = {row["measure"]: row for row in own if not row["field"]}
            if "refusal_rate" in rates:
                found.append(
                    Summary(
                        suite,
                        model,
                        [rates.get(measure) for measure, _ in HEADLINES],
                        _left_out(rates["refusal_rate"]),
                        [row for row in own if row["passed"] or row.get("decision")],
                    )
                )
    return found


def _left_out(row: Mapping[str, str]) -> str:
    """What was not judged, with its share of all answers: ``2 degenerate (0.6 %)``."""
    unjudged = sum(excluded_counts(row).values())
    answers = int(row["n"]) + unjudged
    return f"{left_out(row)} ({100 * unjudged / answers:.1f} %)" if unjudged else "0"


def verdict(line: Summary) -> str:
    """What is said of a line's thresholds: which measures missed theirs, which are inconclusive, and
    how many are met where all of them are."""
    named: dict[str, dict[str, None]] = {}
    for row in line.limits:
        named.setdefault(limit_decision(row), {})[row["measure"]] = None
    parts = [
        f"{shown}: {', '.join(named[decision])}"
        for decision, shown in (("missed", "MISSED"), ("inconclusive", "inconclusive"))
        if decision in named
    ]
    return "; ".join(parts) or (f"met ({len(line.limits)})" if line.limits else MISSING)


def main_rows(tables: Mapping[str, Table]) -> list[list[str]]:
    """The rows under ``MAIN_HEADER``."""
    return [
        [line.suite, line.model, *map(shown_rate, line.rates), line.left_out, verdict(line)]
        for line in summaries(tables)
    ]


def model_notes(
    provenance: Mapping[str, Any], tables: Mapping[str, Table]
) -> list[tuple[str, str]]:
    """What a reader must know of the models before reading their numbers: a title and a text."""
    notes = []
    definitions = {model: found["model"]["definition"] for model, found in provenance.items()}
    pocket = [
        model
        for model, definition in definitions.items()
        if str(definition.get("model_id", "")).startswith("data/pocket/")
    ]
    if pocket:
        notes.append(
            (
                "Demonstration models",
                f"{', '.join(pocket)} are pocket models, trained in this repository on its own text "
                "so that the whole path runs on any machine. Their numbers say nothing about other "
                "models.",
            )
        )
    synthetic = [m for m, d in definitions.items() if d["adapter"] == "synthetic"]
    if synthetic:
        notes.append(
            (
                "Synthetic models",
                f"{', '.join(synthetic)}: a hash of the prompt decides, at rates set in params.yaml; no "
                "language model is behind it.",
            )
        )
    recorded = [m for m, d in definitions.items() if d["adapter"] == "recorded"]
    if recorded:
        notes.append(
            ("Recorded answers", f"{', '.join(recorded)}: answers from a file, re-judged.")
        )
    served = [m for m, d in definitions.items() if d["adapter"] in SERVED]
    if served:
        notes.append(("Answers from a server", _server_note(served, provenance, tables)))
    return notes


def _server_note(
    served: Sequence[str], provenance: Mapping[str, Any], tables: Mapping[str, Table]
) -> str:
    """How often a server gave the same prompt another text, for each model where that was measured."""
    found = {
        model: [
            f"{shown_rate(row)} ({row['suite']})"
            for row in tables.get(model, [])
            if row["measure"].endswith(DIFFERS) and not row["field"] and row["rate"]
        ]
        for model in served
    }
    sampled = {model for model in served if provenance[model]["model"].get("seed") is not None}
    measured = [
        f"{model}{', which samples,' if model in sampled else ''} {', '.join(shares)}"
        for model, shares in found.items()
        if shares
    ]
    missing = [model for model, shares in found.items() if not shares]
    said = (
        f"{', '.join(served)}: a server computed the answers, and what else it was asked at the time "
        "can change them, greedy ones too."
    )
    if measured:
        said += f" Repeats with another text than the first answer: {'; '.join(measured)}."
    if missing:
        said += (
            f" How often a repeat differs was not measured for {', '.join(missing)}: a perturbation "
            "with kind: repeat in one of the suites measures it."
        )
    return said
