"""The columns of the tables that are written for every model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from refract.core.labels import EXCLUDED, UNTESTED

OUTCOME_COLUMNS = (
    "suite",
    "prompt_id",
    "source_id",
    "category",
    "perturbation",
    "prompt_sha256",
    "outcome",
    "changed",
    "cluster",
    "cut_off",
    "sample",
)
# Names that no field of a suite can have in a table of outcomes, or of rows with texts.
TAKEN = {*OUTCOME_COLUMNS, "model", "prompt", "response", "finish_reason", "error"}
FAILURE_COLUMNS = (
    "suite",
    "prompt_id",
    "perturbation",
    "group",
    "repetitions",
    "dose",
    "clean_prompt",
    "perturbed_prompt",
    "clean_response",
    "perturbed_response",
    "clean_outcome",
    "outcome",
    "similarity",
    "changed_by",
)
TABLE_COLUMNS = (
    "suite",
    "measure",
    "field",
    "value",
    "successes",
    "partial",
    "n",
    "clusters",
    "rate",
    "low",
    "high",
    "p",
    "p_holm",
    "above_floor",
    "above_floor_low",
    "above_floor_high",
    "dose",
    "repetitions",
    *(f"untested_{reason}" for reason in UNTESTED),
    "bound_low",
    "bound_high",
    "outer_low",
    "outer_high",
    "cut_off",
    *(f"excluded_{label}" for label in EXCLUDED),
    "labelled",
    "stale_labels",
    "blank_labels",
    "threshold",
    "decision",
    "passed",
)


def outcome_columns(lines: Iterable[Mapping[str, object]]) -> list[str]:
    """The columns of a table of outcomes: those that all have, then the suites' fields by name."""
    return [
        *OUTCOME_COLUMNS,
        *sorted({key for line in lines for key in line} - set(OUTCOME_COLUMNS)),
    ]
