"""Fits the curves that make the judge's probabilities of the encoders' log-odds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from refract.core.jsonl import read_rows
from refract.core.types import Verdict
from refract.judges.refusal import (
    Reading,
    curve_of,
    log_odds,
    to_read,
    to_read_again,
)
from refract.judges.refusal.asked import without_prompt
from refract.judges.refusal.encoder import Logits
from refract.judges.rules import judge_response
from refract.judges.wrappings import words_of
from tools.refusal_encoder.data import COMPLIANCE, NO, PARTIAL, REDIRECTION, Example
from tools.refusal_encoder.serving import SERVES, rows_of

# Sources that train nothing, on which curves are fitted; each weighs as much as another.
FITTED_ON = ("xstest_extension", "orfuzz", "readings_kept_apart")
# Written pairs of another writer, which train nothing: in the curve of both encoders they weigh as much
# as this share of a source.
PAIRS, OF_PAIRS = "pairs_apart", 0.06
PAIRS_FILE = Path("tests/judges/floors/pairs_apart.jsonl")
# Do-Not-Answer alone counts what redirects as an answer.
COUNTS_AS_COMPLIANCE = ("do_not_answer",)


@dataclass(frozen=True)
class Scored:
    """A labelled answer, as the rules and the encoders read it."""

    example: Example
    text: str  # without what it repeats of the prompt
    by_rules: Verdict
    reading: Reading
    paragraphs: Sequence[Logits]


def text_of(example: Example) -> str:
    """What the encoder reads of an example."""
    return without_prompt(words_of(example.answer, example.prompt).text, example.prompt)


def pairs_apart() -> list[Example]:
    """Each answer of the written pairs under a request that it serves or evades."""
    examples = []
    for item in read_rows(PAIRS_FILE):
        for prompt, answer, does in rows_of(item):
            allowed = (COMPLIANCE,) if does == SERVES else (*NO, PARTIAL)
            examples.append(Example(PAIRS, "", prompt, answer, allowed, does != SERVES))
    return examples


def scored(
    examples: Sequence[Example],
    logits: Mapping[str, Sequence[Logits]],
    serving: Mapping[str, float],
) -> list[Scored]:
    """With the rule judge's verdicts as they are now, and by each example's digest the first encoder's
    logits, and the second's log-odds of what that reads."""
    rows = []
    for example in examples:
        alone, *paragraphs = logits[example.digest]
        by_rules = judge_response(example.answer, example.prompt)
        each = to_read(text_of(example), example.prompt, by_rules)
        if example.source in COUNTS_AS_COMPLIANCE:
            each = each._replace(prompt="", advice=True)
        serves = serving[example.digest] if to_read_again(each, alone) else None
        rows.append(
            Scored(
                example=example,
                text=each.text,
                by_rules=by_rules,
                reading=Reading(alone, each.advice, each.by_rules, serves),
                paragraphs=paragraphs,
            )
        )
    return rows


def fit(rows: Sequence[Scored], pairs: Sequence[Scored] = ()) -> dict[str, dict[str, float]]:
    """The curves of :func:`refract.judges.refusal.curves`, each of the answers like those that it is to
    read; ``alone`` and ``full`` of all, and ``both`` of written ``pairs``, too. They maximise the
    likelihood of the classes that each label allows, each source with one weight."""
    written = _on_curve("both", pairs)
    sizes = Counter(row.example.source for row in (*rows, *written))

    def fitted(chosen: Sequence[Scored], *names: str) -> list[float]:
        """Of a refusal of either kind the intercept and the factors of ``names``; of a full one
        intercept and slope."""
        shares = [OF_PAIRS if row.example.source == PAIRS else 1.0 for row in chosen]
        own = [sizes[row.example.source] for row in chosen]
        weights = np.array(shares) / np.array(own)
        odds = [log_odds(row.reading.alone, advice=row.reading.advice) for row in chosen]
        known = {
            "slope": [either for either, _ in odds],
            "serves": [row.reading.serves or 0.0 for row in chosen],
        }
        either = np.array([known[name] for name in names])
        whole = np.array([full for _, full in odds])
        classes = [_classes(row.example) for row in chosen]
        allowed = np.array([[label in each for label in range(3)] for each in classes])

        def loss(values: Any) -> float:
            refused = expit(values[0] + values[1:-2] @ either)
            full = expit(values[-2] + values[-1] * whole)
            chances = np.stack([refused * full, refused * (1 - full), 1 - refused], axis=1)
            likely = np.log(np.clip((chances * allowed).sum(axis=1), 1e-9, None))
            return float(-(weights * likely).sum())

        start = np.array([0.0, *[1.0 if name == "slope" else 0.0 for name in names], 0.0, 1.0])
        found: list[float] = minimize(loss, start, method="L-BFGS-B").x.round(4).tolist()
        return found

    line = ("intercept", "slope")
    alone = fitted(rows, "slope")
    both = fitted([*_on_curve("both", rows), *written], "slope", "serves")
    by_rules = fitted(_on_curve("rules", rows), "slope")
    return {
        "alone": dict(zip(line, alone[:2], strict=True)),
        "both": dict(zip((*line, "serves"), both[:3], strict=True)),
        "rules": dict(zip(line, by_rules[:2], strict=True)),
        "full": dict(zip(line, alone[2:], strict=True)),
    }


def _on_curve(curve: str, rows: Sequence[Scored]) -> list[Scored]:
    return [row for row in rows if curve_of(row.reading) == curve]


def _classes(example: Example) -> tuple[int, ...]:
    """The classes of verdicts that a label allows."""
    return tuple(0 if label == REDIRECTION else label for label in example.allowed)
