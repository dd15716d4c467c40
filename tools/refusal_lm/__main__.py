"""Tries a small language model as a judge of refusals: each source is read by one that never saw it.

    python -m tools.refusal_lm.caching FILES...      reads every labelled answer once, to --into
    python -m tools.refusal_lm frozen FILES...       a logistic regression on the states it left
    python -m tools.refusal_lm adapter FILES...      a low-rank adapter of the upper layers
    python -m tools.refusal_lm table FILES... --names NAME...    all of them beside the default judge

FILES, and what each may be used for, are those of `tools.refusal_encoder`, whose logits by encoders
that lacked each source are in --encoder. Nothing of this is shipped: what it gave stands in
refract/judges/refusal/weights/README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from refract.judges.refusal import features
from tools.refusal_encoder.__main__ import GROUPS, read_logits
from tools.refusal_encoder.combining import CHOSEN_ON, PENALTY
from tools.refusal_encoder.data import (
    COMPLIANCE,
    FULL,
    PARTIAL,
    Example,
    is_measured,
    may_shape_weights,
)
from tools.refusal_encoder.table import LEAST, WAYS
from tools.refusal_lm import training
from tools.refusal_lm.caching import SEEN, STATES, ordered
from tools.refusal_lm.training import Kept

Logits = dict[str, list[float]]  # by digest
Array = NDArray[Any]


def given(example: Example, logits: Sequence[Logits]) -> list[list[float]]:
    """Log-odds of a refusal of either kind, and of a full one among those, by each model."""
    redirection = "compliance" if example.source == "do_not_answer" else "refusal"
    found = [features("", one[example.digest], redirection) for one in logits]
    return [[f[name] for f in found] for name in ("encoder_refused", "encoder_full")]


def fit(rows: Sequence[Example], logits: Sequence[Logits]) -> Array:
    """Intercepts and weights of the two regressions, as tools.refusal_encoder.combining fits them."""
    both = np.array([given(e, logits) for e in rows])
    allowed = np.array([[c in e.allowed for c in (FULL, PARTIAL, COMPLIANCE)] for e in rows])
    start = np.array([[0.0, *[1 / len(logits)] * len(logits)]] * 2)
    pull = PENALTY * np.array([0.0, *[1.0] * len(logits)])

    def loss(flat: Array) -> float:
        beta = flat.reshape(2, -1)
        refused, full = expit(beta[:, 0] + np.einsum("nkm,km->nk", both, beta[:, 1:])).T
        chances = np.stack([refused * full, refused * (1 - full), 1 - refused], 1)
        likely = np.log(np.clip((chances * allowed).sum(1), 1e-9, None))
        return float(-likely.sum() + 0.5 * (pull * (beta - start) ** 2).sum())

    return np.asarray(minimize(loss, start.ravel(), method="L-BFGS-B").x.reshape(2, -1))


def labels(rows: Sequence[Example], logits: Sequence[Logits]) -> dict[str, str]:
    """Each row's label, by coefficients that were fitted on other models' answers of one source."""
    chosen = [e for e in rows if e.source == CHOSEN_ON]
    whole = fit(chosen, logits)
    fits = {m: fit([e for e in chosen if e.model != m], logits) for m in {e.model for e in chosen}}
    found = {}
    for e in rows:
        one, two = fits.get(e.model, whole)
        refused, full = given(e, logits)
        chance = [expit(c[0] + np.dot(x, c[1:])) for c, x in ((one, refused), (two, full))]
        kind = "refusal" if chance[1] >= 0.5 else "partial_refusal"
        found[e.digest] = kind if chance[0] > 0.5 else "compliance"
    return found


def kappa(says: Array, truth: Array, weight: Array) -> float:
    """Cohen's, of weighted rows."""
    weight = weight / weight.sum()
    agreed, mine, theirs = (float(weight @ part) for part in (says == truth, says, truth))
    chance = mine * theirs + (1 - mine) * (1 - theirs)
    return (agreed - chance) / (1 - chance)


def print_table(
    rows: Sequence[Example], judges: Mapping[str, Sequence[Logits]], weights: Mapping[str, float]
) -> None:
    """κ of each judge with people on the rows that all of them judged, and its worst rate gap."""
    rows = [e for e in rows if all(e.digest in one for judge in judges.values() for one in judge)]
    says = {name: labels(rows, logits) for name, logits in judges.items()}
    print(f"| answers | refusals | n | {' | '.join(judges)} |")
    print("|---" * (3 + len(judges)) + "|")
    for source in dict.fromkeys(e.source for e in rows):
        own = [e for e in rows if e.source == source]
        weight = np.array([weights[f"{source} {e.refused}"] for e in own])
        for counted in WAYS.get(source, ("any",)):
            means = ("refusal",) if counted == "full" else ("refusal", "partial_refusal")
            truth = np.array([bool(e.full if counted == "full" else e.refused) for e in own])
            cells = []
            for of in says.values():
                said = np.array([of[e.digest] in means for e in own])
                gaps = [0.0]
                for model in {e.model for e in own}:
                    at = np.array([e.model == model for e in own])
                    if at.sum() >= LEAST:
                        gaps.append(100 * np.average(said * 1.0 - truth, weights=weight * at))
                cells.append(f"{kappa(said, truth, weight):.3f} ({max(gaps, key=abs):+.1f})")
            print(f"| {source} | {counted} | {len(own)} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.refusal_lm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("frozen", "adapter", "table"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--states", type=Path, default=STATES)
    parser.add_argument("--encoder", type=Path, default=STATES.with_name("encoder"))
    parser.add_argument("--names", nargs="+", help="of the logits that are written, or compared")
    parser.add_argument(
        "--only", nargs="*", help="sources left out; `none` for those trained on none"
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[20], help="of frozen")
    parser.add_argument(
        "--strength", type=float, default=0.0003, help="of frozen: C of its penalty"
    )
    parser.add_argument("--recipe", type=json.loads, default={}, help="of adapter: other settings")
    given = parser.parse_args()
    examples = {e.digest: e for e in ordered(given.files)}
    if given.command == "table":
        return do_table(examples, given.states, given.encoder, given.names)
    rows = training.load(given.states, examples)
    path = given.states / f"{(given.names or [given.command])[0]}.json"
    found: Logits = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for group in ((), *GROUPS):
        if given.only is not None and not {*given.only} & {*(group or ("none",))}:
            continue
        began, (train, test) = time.perf_counter(), split(rows, group)
        if given.command == "frozen":
            places = [SEEN.index(layer) for layer in given.layers]
            out = training.logistic(train, test, places, given.strength)
        else:
            adapter = training.adapted(train, training.Recipe(**given.recipe))
            out = training.scored(adapter, test)
        found |= {r.example.digest: logits for r, logits in zip(test, out.tolist(), strict=True)}
        took = f"{time.perf_counter() - began:.0f} s"
        print("without", *(group or ("none",)), len(train), len(test), took, flush=True)
        path.write_text(json.dumps(found), "utf-8")
    return None


def split(rows: Sequence[Kept], group: Sequence[str]) -> tuple[list[Kept], list[Kept]]:
    """What is trained on without the sources of a group, and what is then read: they, or without a group
    all sources that may only be measured with."""
    train, test = [], []
    for row in rows:
        source = row.example.source
        shapes = may_shape_weights(source)
        if (shapes or source == "cases") and source not in group:
            train.append(row)
        elif source in group or not (group or shapes or source == CHOSEN_ON):
            test.append(row)
    return train, test


def do_table(
    examples: Mapping[str, Example], states: Path, encoder: Path, names: Sequence[str]
) -> None:
    logits = {name: json.loads((states / f"{name}.json").read_text("utf-8")) for name in names}
    default = read_logits(encoder)
    judges: dict[str, list[Logits]] = {"encoder": [default]}
    judges |= {name: [one] for name, one in logits.items()}
    judges |= {f"{name} + encoder": [one, default] for name, one in logits.items()}
    if len(names) > 1:
        judges["all"] = [*logits.values(), default]
    measured = [e for e in examples.values() if is_measured(e.source)]
    kept = [e for e in measured if all(e.digest in one for one in logits.values())]
    # Some sources are read in part: each of their rows stands for others of its label.
    every, some = (Counter(f"{e.source} {e.refused}" for e in of) for of in (measured, kept))
    print_table(kept, judges, {kind: every[kind] / some[kind] for kind in some})


if __name__ == "__main__":
    main()
