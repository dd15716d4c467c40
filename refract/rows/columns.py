"""The columns of the tables that are written for every model."""

from __future__ import annotations

from refract.rows.labels import EXCLUDED, UNTESTED

OUTCOME_COLUMNS = (
    "suite",
    "prompt_id",
    "source_id",
    "category",
    "perturbation",
    "prompt_sha256",
    "outcome",
    "changed",
)
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
    "n",
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
    *(f"excluded_{label}" for label in EXCLUDED),
    "labelled",
    "stale_labels",
    "blank_labels",
    "threshold",
    "passed",
)
