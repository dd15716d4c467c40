"""Fits the two curves that make the judge's probabilities of the encoder's log-odds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from refract.core.types import Verdict
from refract.judges.refusal import Reading, Redirection, log_odds, may_evade, to_read
from refract.judges.refusal.asked import without_prompt
from refract.judges.refusal.encoder import Logits
from refract.judges.rules import judge_response
from refract.judges.wrappings import words_of
from tools.refusal_encoder.data import REDIRECTION, Example

# Sources that train nothing, on which curves are fitted; each weighs as much as another.
FITTED_ON = ("xstest_extension", "orfuzz", "readings_kept_apart")
# Do-Not-Answer alone counts what redirects as an answer.
COUNTS_AS_COMPLIANCE = ("do_not_answer",)


@dataclass(frozen=True)
class Scored:
    """A labelled answer, as the rules and the encoder read it."""

    example: Example
    text: str  # without what it repeats of the prompt
    by_rules: Verdict
    odds: tuple[float, float]
    paragraphs: Sequence[Logits]


def text_of(example: Example) -> str:
    """What the encoder reads of an example."""
    return without_prompt(words_of(example.answer, example.prompt).text, example.prompt)


def scored(
    examples: Sequence[Example],
    logits: Mapping[str, Sequence[Logits]],
    serving: Mapping[str, float],
) -> list[Scored]:
    """With the rule judge's verdicts as they are now, and by each example's digest the first encoder's
    logits, and the second's log-odds of what that reads."""
    rows = []
    for example in examples:
        counts: Redirection = "compliance" if example.source in COUNTS_AS_COMPLIANCE else "refusal"
        alone, *paragraphs = logits[example.digest]
        by_rules = judge_response(example.answer, example.prompt)
        each = to_read(text_of(example), example.prompt, by_rules, counts)
        serves = serving[example.digest] if may_evade(each, alone) else None
        rows.append(
            Scored(
                example=example,
                text=each.text,
                by_rules=by_rules,
                odds=log_odds(Reading(alone, serves).logits, each.counts),
                paragraphs=paragraphs,
            )
        )
    return rows


def fit(rows: Sequence[Scored]) -> dict[str, dict[str, float]]:
    """Intercept and slope of each curve: of a refusal of either kind, and of a full one among those.
    They maximise the likelihood of the classes that each label allows, each source with one weight."""
    sizes = Counter(row.example.source for row in rows)
    weights = np.array([1 / sizes[row.example.source] for row in rows])
    either = np.array([row.odds[0] for row in rows])
    whole = np.array([row.odds[1] for row in rows])
    allowed = np.array([[label in _classes(row.example) for label in range(3)] for row in rows])

    def loss(values: Any) -> float:
        refused = expit(values[0] + values[1] * either)
        full = expit(values[2] + values[3] * whole)
        chances = np.stack([refused * full, refused * (1 - full), 1 - refused], axis=1)
        likely = np.log(np.clip((chances * allowed).sum(axis=1), 1e-9, None))
        return float(-(weights * likely).sum())

    start = np.array([0.0, 1.0, 0.0, 1.0])
    values = np.round(minimize(loss, start, method="L-BFGS-B").x, 4).tolist()
    return {
        "refused": {"intercept": values[0], "slope": values[1]},
        "full": {"intercept": values[2], "slope": values[3]},
    }


def _classes(example: Example) -> tuple[int, ...]:
    """The classes of verdicts that a label allows."""
    return tuple(0 if label == REDIRECTION else label for label in example.allowed)
