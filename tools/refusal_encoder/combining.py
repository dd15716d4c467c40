"""Fits the coefficients of the combination on answers of sources that the encoder had not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from refract.judges.embedded import features
from refract.judges.rules import VERSION as RULES_VERSION
from refract.judges.rules import judge_response
from tools.refusal_encoder.data import FULL, PARTIAL, Example, may_shape_weights

READS = {
    "learned": {
        "refused": ("encoder_refused",),
        "full": ("encoder_full",),
    },
    "embedded": {
        "refused": ("rules_refusal", "rules_partial_refusal", "encoder_refused"),
        "full": ("rules_refusal", "rules_partial_refusal", "encoder_full"),
    },
}
# Strength of the pull of each coefficient towards 0, in answers.
PENALTY = 3.0
# The rule judge was written with these sources at hand, so that it errs less on them than on answers
# it meets for the first time. The fit reckons with this share of its verdicts there being turned
# around; without it, the encoder could hardly ever overrule the rules.
SHAPED_THE_RULES = ("chatgpt_refusals", "pyrit", "refusalbench", "wildguard", "xstest")
DOUBT = 0.1


@dataclass(frozen=True)
class Scored:
    """A labelled answer with what both judges say of it."""

    example: Example
    label: str  # the rule judge's
    given: dict[str, float]


def scored(examples: Sequence[Example], logits: Mapping[str, Sequence[float]]) -> list[Scored]:
    """With the rule judge's verdicts as they are now, and the logits of each example's digest."""
    rows = []
    for example in examples:
        label = str(judge_response(example.answer, example.prompt)["label"])
        rows.append(Scored(example, label, features(label, logits[example.digest])))
    return rows


def fitting(rows: Sequence[Scored], without: str = "") -> list[Scored]:
    """The rows that coefficients may be fitted on."""
    return [
        row
        for row in rows
        if row.example.source != without and may_shape_weights(row.example.source)
    ]


def fitted(rows: Sequence[Scored]) -> dict[str, Any]:
    """The coefficients that ship, and what they were fitted on."""
    shaping = fitting(rows)
    return {
        **coefficients(shaping),
        "fitted_on": dict(sorted(Counter(row.example.source for row in shaping).items())),
        "rules_version": RULES_VERSION,
        "penalty": PENALTY,
        "doubt": DOUBT,
    }


def fit(rows: Sequence[Scored], reads: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """The two regressions of a judge, together: of a refusal of either kind, and of a full one among
    those. They maximise the likelihood of the classes that each label allows, penalised, with the
    same weight for each source."""
    count = Counter(row.example.source for row in rows)
    doubted = [part for row in rows for part in _doubted(row)]
    first, second = (
        np.array([[1.0, *(row.given[name] for name in names)] for row, _ in doubted])
        for names in (reads["refused"], reads["full"])
    )
    weight = np.array([share / count[row.example.source] for row, share in doubted])
    weight *= len(rows) / weight.sum()
    allowed = np.array([[c in _allowed(row.example) for c in range(3)] for row, _ in doubted])
    split = first.shape[1]
    pull = np.array([PENALTY] * (split + second.shape[1]))
    pull[[0, split]] = 0.0  # the intercepts

    def loss(beta: Any) -> float:
        refused, full = expit(first @ beta[:split]), expit(second @ beta[split:])
        chances = np.stack([refused * full, refused * (1 - full), 1 - refused], 1)
        likely = np.log(np.clip((chances * allowed).sum(1), 1e-9, None))
        return float(-(weight * likely).sum() + 0.5 * (pull * beta**2).sum())

    found = np.round(minimize(loss, np.zeros(len(pull)), method="L-BFGS-B").x, 4).tolist()
    return {
        "refused": dict(zip(("intercept", *reads["refused"]), found[:split], strict=True)),
        "full": dict(zip(("intercept", *reads["full"]), found[split:], strict=True)),
    }


def _allowed(example: Example) -> tuple[int, ...]:
    """The classes that a label allows; a refusal of a source that does not tell full from partial
    ones may be either."""
    if example.refused and example.full is None:
        return (FULL, PARTIAL)
    return example.allowed


def _doubted(row: Scored) -> list[tuple[Scored, float]]:
    """A row with its weight; in two where the rules' verdict may be better than it would be."""
    if row.example.source not in SHAPED_THE_RULES or row.label == "degenerate":
        return [(row, 1.0)]
    turned = {**row.given, "rules_refusal": float(row.label == "compliance")}
    turned["rules_partial_refusal"] = 0.0
    return [(row, 1 - DOUBT), (replace(row, given=turned), DOUBT)]


def coefficients(rows: Sequence[Scored]) -> dict[str, dict[str, dict[str, float]]]:
    """Of both judges."""
    return {judge: fit(rows, reads) for judge, reads in READS.items()}
