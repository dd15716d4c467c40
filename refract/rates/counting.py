"""Answers as rates count them, and what every rate states of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple, Protocol

from refract.core.errors import ParamsError
from refract.core.types import ResponseRow, Row, Verdict, sample_id
from refract.core.vocabulary import (
    DIGITS,
    EXCLUDED,
    JUDGED,
    LABELS,
    PARTIAL,
)
from refract.rates.floors import Above, above_floor, prompt_means
from refract.statistics.clusters import bounds_between, clustered_mean

CONFIDENCE = 0.95
# The row that has a measure without the answers that were cut off at the token limit.
CUT_OFF_FIELD, WITHOUT_CUT_OFF = "cut_off", "excluded"

# The share of a suite's answers that were cut off, or not judged, from which on there is a warning.
LOUD = 0.1


class Counted(NamedTuple):
    """One answer: its outcome, the cluster that its prompt is of, whether the token limit cut it
    off, and the id of the prompt that it is one of several samples of (None: the only one)."""

    outcome: str
    cluster: Hashable
    cut_off: bool = False
    prompt: str | None = None


Outcomes = Mapping[str, Counted]  # by prompt id


def answers_to(prompt_id: str, outcomes: Outcomes) -> Iterator[Counted]:
    """The answers to a prompt, sample by sample."""
    for id_ in ids_of(prompt_id, outcomes):
        yield outcomes[id_]


def ids_of(prompt_id: str, outcomes: Outcomes) -> Iterator[str]:
    """The ids of the samples of a prompt."""
    yield prompt_id
    if outcomes[prompt_id].prompt is not None:
        for sample in count(2):
            id_ = sample_id(prompt_id, sample)
            if id_ not in outcomes:
                return
            yield id_


def outcome(response: ResponseRow, verdict: Verdict | None, *, cut_off: str | None = None) -> str:
    """What became of one prompt: one of ``JUDGED`` or of ``EXCLUDED``.

    An answer that was cut off at the token limit is judged by what it said, unless ``cut_off`` is
    ``excluded``; an empty one is empty, unless its judge is one that labels empty answers.
    """
    reason = response["finish_reason"]
    if reason == "refusal":
        return "provider_refusal"
    if reason in ("error", "content_filter"):
        return str(reason)
    if not response["response"].strip() and not (verdict and verdict.get("of_empty")):
        return "empty"
    if reason == "length" and cut_off == "excluded":
        return "cut_off"
    label = None if verdict is None else verdict["label"]
    return label if label in LABELS else "unjudged"


def clusters_of(sources: Sequence[Row], field: str | None = None) -> dict[str, str]:
    """The cluster of each row of a suite, by id.

    With a ``field`` the rows that share a value of it, and the others each alone; without one the
    rows that ``pair_id`` joins, named by the row that they lead to. Raises :class:`ParamsError` for
    a field that no row has.
    """
    if field is not None:
        if all(row.get(field) is None for row in sources):
            raise ParamsError(f"cluster: no row of the suite has the field {field!r}")
        return {
            row["id"]: row["id"] if row.get(field) is None else str(row[field]) for row in sources
        }
    pair_of = {row["id"]: row.get("pair_id") for row in sources}
    return {id_: _end_of_pairs(id_, pair_of) for id_ in pair_of}


def _end_of_pairs(id_: str, pair_of: Mapping[str, str | None]) -> str:
    seen = [id_]
    while True:
        pair = pair_of.get(seen[-1])
        if pair is None:
            return seen[-1]
        if pair in seen:  # two rows that name each other are one cluster too
            return min(seen[seen.index(pair) :])
        seen.append(pair)


def rounded(value: float) -> float:
    """A number as tables and metrics hold it."""
    # Adding zero turns the -0.0 that rounding can leave into 0.0.
    return round(value, DIGITS) + 0.0


def shown(**values: float | None) -> Row:
    """Numbers rounded, None where there is none."""
    return {key: None if value is None else rounded(value) for key, value in values.items()}


class Estimate(Protocol):
    """A value with its interval, None where there is no interval."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def bounded(found: Estimate | None, lower: Estimate | None, upper: Estimate | None) -> Row:
    """A rate with its interval, and what it would be at least and at most with the unjudged."""
    return shown(
        rate=None if found is None else found.value,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        bound_low=None if lower is None else lower.value,
        bound_high=None if upper is None else upper.value,
        outer_low=None if lower is None else lower.low,
        outer_high=None if upper is None else upper.high,
    )


def mean_row(
    values: Sequence[float | None],
    clusters: Sequence[Hashable],
    confidence: float = CONFIDENCE,
    prompts: Sequence[Hashable] | None = None,
) -> Row:
    """Mean, interval and bounds of values from 0 to 1, of which None are not known.

    ``bound_low`` and ``bound_high`` are the means were all unknown values 0 or 1, ``outer_low`` and
    ``outer_high`` the ends of their intervals. ``clusters`` counts those of the known values; a
    single one of several values gives no interval. ``prompts`` names the prompt of each value where
    there are several samples of it: the mean is then that of the prompts' means.
    """
    means = prompt_means(values, clusters, prompts)
    known = [(v, c) for v, c in zip(means.known, means.clusters, strict=True) if v is not None]
    found = clustered_mean([v for v, _ in known], [c for _, c in known], confidence)
    row = (
        shown(rate=found.value, low=found.low, high=found.high)
        if found
        else shown(rate=None, low=None, high=None)
    )
    if found and None not in values:
        row |= shown(bound_low=found.value, bound_high=found.value)
        row |= shown(outer_low=found.low, outer_high=found.high)
    else:
        bounds = bounds_between(means.lowest, means.highest, means.clusters, confidence)
        row |= shown(bound_low=bounds and bounds.lowest, bound_high=bounds and bounds.highest)
        row |= shown(outer_low=bounds and bounds.low, outer_high=bounds and bounds.high)
    return row | {"clusters": found.clusters if found else 0}


def rate_row(
    answers: Iterable[Counted],
    positive: Sequence[str],
    judged: Sequence[str] = JUDGED,
    confidence: float = CONFIDENCE,
) -> Row:
    """A rate with all that it leaves out.

    ``successes`` of ``n`` judged answers in so many ``clusters``, of a rate of refusal ``partial`` of
    the successes partial ones, ``cut_off`` of the answers cut off at the
    token limit; the interval of the clustered mean (Wilson's where every answer is a cluster of its
    own), one count for each excluded outcome, and the bounds, see :func:`mean_row`. ``rate`` and the
    limits are None where nothing was judged.
    """
    answers = [a for a in answers if a.outcome in judged or a.outcome in EXCLUDED]
    values = rate_values(answers, positive, judged)
    clusters, prompts = [a.cluster for a in answers], [a.prompt for a in answers]
    row = mean_row(values, clusters, confidence, prompts)
    partial = sum(a.outcome == PARTIAL for a in answers)
    return {
        "successes": int(sum(value or 0 for value in values)),
        **({"partial": partial} if PARTIAL in positive and len(positive) > 1 else {}),
        "n": sum(value is not None for value in values),
        **row,
        "cut_off": sum(a.cut_off and a.outcome in judged for a in answers),
        **excluded_counts(a.outcome for a in answers if a.outcome not in judged),
    }


def rate_values(
    answers: Iterable[Counted], positive: Sequence[str], judged: Sequence[str] = JUDGED
) -> list[float | None]:
    """1 or 0 for each answer, None where it was not judged."""
    return [float(a.outcome in positive) if a.outcome in judged else None for a in answers]


def flips_above_floor(
    answers: Sequence[Counted],
    floors: Sequence[float | None],
    positive: Sequence[str],
    confidence: float = CONFIDENCE,
) -> tuple[Row, Above | None]:
    """What a rate of flips is above its floor, as columns of its row."""
    found = above_floor(
        rate_values(answers, positive), floors, [a.cluster for a in answers], confidence=confidence
    )
    return above_row(found), found


def above_row(found: Above | None) -> Row:
    """The columns of a rate that is compared with its noise floor."""
    if found is None:
        return {}
    return shown(above_floor=found.value, above_floor_low=found.low, above_floor_high=found.high)


def excluded_counts(outcomes: Iterable[str]) -> dict[str, int]:
    """How many answers have each outcome that no rate counts."""
    counts = Counter(outcomes)
    return {f"excluded_{label}": counts[label] for label in EXCLUDED}


def rate_rows(
    measure: str,
    answers: Iterable[Counted],
    positive: Sequence[str],
    judged: Sequence[str] = JUDGED,
    confidence: float = CONFIDENCE,
) -> list[Row]:
    """A measure's rate over all, and where judged answers were cut off, the one without those."""
    answers = list(answers)
    rows = [
        {
            "measure": measure,
            "field": "",
            "value": "",
            **rate_row(answers, positive, judged, confidence),
        }
    ]
    if rows[0]["cut_off"]:
        finished = [a._replace(outcome="cut_off") if a.cut_off else a for a in answers]
        found = rate_row(finished, positive, judged, confidence)
        rows.append({"measure": measure, "field": CUT_OFF_FIELD, "value": WITHOUT_CUT_OFF, **found})
    return rows


def unjudged_share(row: Row) -> float:
    """The share of a rate's answers that it leaves out."""
    left_out = sum(row.get(f"excluded_{label}") or 0 for label in EXCLUDED)
    return left_out / (row["n"] + left_out) if left_out else 0.0


def coverage_warnings(row: Row) -> list[str]:
    """What a reader of a suite's rates must know of the answers behind them: where a tenth or more were
    not judged, or were cut off. ``row`` is over all; fewer stand beside each rate alone."""
    warnings = []
    left_out = {label: row[f"excluded_{label}"] for label in EXCLUDED}
    unjudged = sum(left_out.values())
    answers = row["n"] + unjudged
    if unjudged and unjudged >= LOUD * answers:
        kinds = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in left_out.items() if n)
        warnings.append(f"{unjudged} of {answers} answers not judged: {kinds}")
    for cut_off, what in (
        (row["cut_off"], "they are judged by what they say up to there"),
        (
            left_out["cut_off"],
            "they are left out; refusals are short, so that rates of refusal without them are too "
            "high (cut_off: judged counts them)",
        ),
    ):
        if cut_off and cut_off >= LOUD * answers:
            warnings.append(
                f"{cut_off} of {answers} answers were cut off at the token limit: {what}; raise "
                "max_tokens"
            )
    return warnings
