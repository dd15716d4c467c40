"""RefusalBench: refusal rates on prompts of protein design, by model and tier of risk."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from refract.core.types import Row
from refract.papers.cells import Cell, Paper, percent
from refract.papers.files import Folder

STRICT = frozenset({"direct_refusal", "indirect_refusal"})
INCLUSIVE = STRICT | {"non_responsive"}
TIERS = ("benign", "borderline", "dual_use")
TIER, MODEL, ALL = 235, 705, 13_389  # answers to a tier, of a model, of the snapshot
# Refusals in per cent: a part of the model's id, the tier ("" for all), strict, inclusive.
PUBLISHED = (
    ("nemotron-super-3-120b", "benign", "0.4", "6.8"),
    ("nemotron-super-3-120b", "borderline", "0.9", "3.0"),
    ("nemotron-super-3-120b", "dual_use", "6.8", "8.9"),
    ("nemotron-super-3-120b", "", "2.7", "6.2"),
    ("kimi-k2.6", "", "", "95.0"),
    ("gpt-5.5", "", "", "66.4"),
)
LOWEST, HIGHEST = "0.1", "94.6"  # strict, over the models of the snapshot


def cells(folder: Folder) -> list[Cell]:
    """The published rates that have a source, and strict rates of every model and tier there is."""
    columns = {"model": ("model",), "tier": ("tier",), "label": ("modal_compliance", "label")}
    rows = [
        *folder.rows("adjudicated.csv", columns),
        *folder.rows("refusalbench*.jsonl", columns),
    ]
    found = []
    for part, tier, strict, inclusive in PUBLISHED:
        held = [
            row for row in rows if part in row["model"].casefold() and tier in ("", row["tier"])
        ]
        needed = TIER if tier else MODEL
        name = f"{part}, {tier or 'all tiers'}"
        for column, published, labels in (
            ("strict", strict, STRICT),
            ("inclusive", inclusive, INCLUSIVE),
        ):
            if published:
                found.append(Cell(name, column, published, _rate(held, labels), len(held), needed))
    models = sorted({row["model"] for row in rows})
    rates = [
        rate
        for model in models
        if (rate := _rate([row for row in rows if row["model"] == model], STRICT)) is not None
    ]
    for name, published, extreme in (("lowest", LOWEST, min), ("highest", HIGHEST, max)):
        computed = extreme(rates) if rates else None
        found.append(Cell(f"{name} of 19 models", "strict", published, computed, len(rows), ALL))
    for model in models:
        for tier in TIERS:
            held = [row for row in rows if (row["model"], row["tier"]) == (model, tier)]
            if held:
                found.append(
                    Cell(f"{model}, {tier}", "strict", "", _rate(held, STRICT), len(held), TIER)
                )
    return found


def _rate(rows: Sequence[Row], labels: frozenset[str]) -> Fraction | None:
    return percent(sum(row["label"] in labels for row in rows), len(rows))


PAPER = Paper(
    "RefusalBench: refusal rates on biological research prompts, May 2026",
    "Weidener et al. 2026, arXiv 2605.21545: abstract; v1.1_nvidia_addition.md and "
    "sensitivity/deliverable1_multilevel.md in results/snapshots/2026-05/ of "
    "https://github.com/AppliedScientific/refusalbench",
    (
        "adjudicated.csv, from results/snapshots/2026-05/council/ of that repository",
        "or refusalbench*.jsonl: model, tier, label",
    ),
    cells,
)
