"""Verdict rows in; outcomes, and rates with their intervals, out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from refract.core.errors import ParamsError, RowError
from refract.core.jsonl import sha256_json
from refract.core.showing import csv_cell
from refract.core.types import (
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    VerdictRow,
    is_last,
    prompt_of_sample,
    turns_of,
)
from refract.core.vocabulary import OUTPUT_SENSITIVITY, TAKEN, Estimand
from refract.rates.clean_prompts import pair_table, rate_table, share_table
from refract.rates.counting import (
    CONFIDENCE,
    Counted,
    CountedSuite,
    clusters_of,
    flip_floors,
    outcome,
)
from refract.rates.judge_error import JudgeError
from refract.rates.judge_rates import injection_table, judge_table, refusal_table
from refract.rates.rate import Rate
from refract.rates.robustness import (
    CLEAN_SAMPLES,
    attack_table,
    comparisons,
    language_table,
    robustness_table,
)
from refract.rates.sampled import MEASURES_OF_SAMPLES, sample_table, variant_table
from refract.rates.thresholds import DEFAULT_THRESHOLDS, apply_thresholds
from refract.rates.turns import turn_table


class Aggregate(NamedTuple):
    """What one suite's verdicts add up to: answers by prompt id, rates, a row for each perturbed prompt,
    and the values of the suite's ``fields`` by source id."""

    answers: dict[str, Counted]
    table: list[Rate]
    compared: list[Row]
    fields: dict[str, dict[str, str]]


def fields_of(sources: Sequence[Row], fields: Sequence[str] | None) -> Sequence[str]:
    """The fields that a suite's rates are broken down by: ``language`` where its definition names none
    and its rows are in several."""
    if fields is not None:
        return fields
    return ["language"] if len({row.get("language") for row in sources} - {None}) > 1 else []


def aggregate_suite(
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow] | Mapping[str, ResponseRow],
    verdicts: Sequence[VerdictRow] | Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
    confidence: float = CONFIDENCE,
    errors: Mapping[str, JudgeError] | None = None,
    estimand: Estimand = "prompts_like_these",
) -> Aggregate:
    """Outcomes and rates of one suite. No text of the prompts is needed; responses and verdicts by
    prompt id need not be in memory (:class:`refract.core.jsonl.RowsById`).

    ``definition`` is the suite's (:class:`refract.core.params.SuiteSettings`): its first judge decides
    the outcomes. ``judges`` maps its judges to their definitions, ``families`` to the family of their
    labels, of which the first of strings looks for attacks' strings and the first of similarity compares
    perturbed answers, ``errors`` to what is known of their errors on refusal. ``estimand`` is what
    thresholds ask about. Raises :class:`RowError` when the rows do not belong together,
    :class:`ParamsError` for fields and thresholds that the suite does not have."""
    response_of, verdict_of = responses, verdicts
    if not isinstance(response_of, Mapping):
        response_of = {row["prompt_id"]: row for row in response_of}
    if not isinstance(verdict_of, Mapping):
        verdict_of = {row["prompt_id"]: row["judges"] for row in verdict_of}
    samples = max((row.get("sample", 1) for row in prompts), default=1)
    headline = definition["judges"][0]
    first_of = {families[name]: name for name in reversed(definition["judges"])}
    strings, similarity = first_of.get("strings"), first_of.get("similarity")
    fields = fields_of(sources, definition.get("fields"))
    cut_off, max_unjudged = definition.get("cut_off"), definition.get("max_unjudged")
    clusters = clusters_of(sources, definition.get("cluster"))
    thresholds = dict(definition.get("thresholds") or {})
    outcomes: dict[str, Counted] = {}
    unmatched = []
    for prompt in prompts:
        id_ = prompt["prompt_id"]
        try:
            response, said = response_of[id_], verdict_of[id_]
        except KeyError:
            unmatched.append(id_)
            continue
        outcomes[id_] = Counted(
            outcome(response, said.get(headline), cut_off=cut_off),
            clusters[prompt["source_id"]],
            response["finish_reason"] == "length",
            prompt_of_sample(prompt) if samples > 1 else None,
        )
    if unmatched:
        raise RowError(
            f"{len(unmatched)} prompts have no response or no verdict, such as {unmatched[0]!r}; "
            "run: dvc repro"
        )
    errors = errors or {}
    suite = CountedSuite(sources, outcomes, fields, confidence, errors.get(headline))
    every_turn, prompts = prompts, [row for row in prompts if is_last(row)]
    floors = flip_floors(prompts, outcomes)
    rates = rate_table(suite) + share_table(suite) + pair_table(suite)
    rates += turn_table(suite, every_turn)
    if samples > 1 or not thresholds.keys().isdisjoint(MEASURES_OF_SAMPLES):
        rates += sample_table(suite, samples)
    rates += variant_table(suite, prompts)
    rates += attack_table(suite, prompts, floors.loophole)
    rates += language_table(suite, definition.get("source_language") or "en")
    if strings is not None:
        rates += injection_table(suite, verdict_of, strings)
    earlier = {row["prompt_id"] for row in every_turn if not is_last(row)}
    clean_samples = earlier | {
        row["prompt_id"]
        for row in prompts
        if row["perturbation"] is None and row.get("sample", 1) > 1
    }
    for name in definition["judges"]:
        family = families[name]
        if family == "refusal" and name != headline:
            judged = replace(suite, judge_error=errors.get(name))
            rates += refusal_table(judged, response_of, verdict_of, name, cut_off)
        elif family != "refusal" and name not in (strings, similarity):
            # Further samples of clean prompts are compared for the noise floor alone.
            left_out = clean_samples if family == "similarity" else earlier
            concerned = {id_: answer for id_, answer in outcomes.items() if id_ not in left_out}
            rates += judge_table(name, family, verdict_of, concerned, confidence)
    if definition.get("protocol"):
        # Here, so that the types of rates are there without the settings of protocols.
        from refract.rates.protocol_rates import protocol_judge, protocol_table
        from refract.suites.protocols import find_part

        part = find_part(definition["protocol"], "protocol")
        judge = protocol_judge(definition, judges)
        rates += protocol_table(part, suite, response_of, verdict_of, judge, families[judge])
    scores, sensitivity = None, OUTPUT_SENSITIVITY
    if similarity is not None:
        scores = {id_: said[similarity]["score"] for id_, said in verdict_of.items()}
        sensitivity = judges[similarity].get("output_sensitivity", OUTPUT_SENSITIVITY)
    every = comparisons(prompts, response_of, scores, outcomes, sensitivity)
    compared = [row for row in every if row["name"] != CLEAN_SAMPLES]
    limits = _fail_limits(thresholds, {row["name"] for row in compared})
    measures = {rate.measure for rate in rates}
    defaults = {name: limit for name, limit in DEFAULT_THRESHOLDS.items() if name in measures}
    if compared:
        noise = [row for row in every if row["name"] == CLEAN_SAMPLES]
        rates += robustness_table(compared + noise, limits, max_unjudged, floors, confidence)
    if samples > 1:
        # Without width is what takes each answer alone (flips, attacks): how they vary is not known.
        rates = [
            replace(rate, these=None) if rate.these and rate.these.low == rate.these.high else rate
            for rate in rates
        ]
    # A flip or fail rate may have a threshold of its own; fail rates have theirs by now.
    rates = apply_thresholds(rates, defaults | thresholds, max_unjudged, samples, estimand)
    return Aggregate(outcomes, rates, compared, _field_values(suite.requested, fields))


def _field_values(sources: Sequence[Row], fields: Sequence[str]) -> dict[str, dict[str, str]]:
    """The values of some fields by source id, as cells; what a row lacks is left out. Rows that have the
    same ones share them."""
    names = [field for field in fields if field not in TAKEN]
    values: dict[str, dict[str, str]] = {}
    shared: dict[tuple[object, ...], dict[str, str]] = {}
    for row in sources:
        cells = {x: str(csv_cell(str(row[x]))) for x in names if row.get(x) is not None}
        values[row["id"]] = shared.setdefault(tuple(cells.items()), cells)
    return values


def _fail_limits(thresholds: dict[str, Any], perturbations: set[str]) -> dict[str, float]:
    """Takes the limits of perturbations' fail rates out of a suite's thresholds. Raises
    :class:`ParamsError` for one that is not ``{max: x}``."""
    limits = {}
    for name in perturbations:
        limit = thresholds.pop(f"{name}_fail_rate", None)
        if limit is not None:
            if "max" not in limit:
                raise ParamsError(f"the threshold of {name}_fail_rate must be {{max: x}}")
            limits[name] = limit["max"]
    return limits


def outcome_lines(suite: str, prompts: Iterable[PromptRow], aggregate: Aggregate) -> Iterator[Row]:
    """One line for each prompt variant, without its text; ``prompt_sha256`` is the start of the hash of
    its attempts, so that two results can be compared prompt by prompt."""
    changed_of = {row["prompt_id"]: row["changed"] for row in aggregate.compared}
    for prompt in prompts:
        id_, source = prompt["prompt_id"], prompt["source_id"]
        answer, changed = aggregate.answers[id_], changed_of.get(id_)
        yield {
            "suite": suite,
            "prompt_id": id_,
            "source_id": source,
            "category": prompt["category"],
            "perturbation": (prompt["perturbation"] or {}).get("name", ""),
            "prompt_sha256": sha256_json(prompt.get("script", prompt["attempts"]))[:16],
            "outcome": answer.outcome,
            "changed": None if changed is None else int(changed),
            "cluster": csv_cell(str(answer.cluster)),
            "cut_off": int(answer.cut_off),
            "sample": prompt.get("sample", 1),
            **aggregate.fields.get(source, {}),
            **turns_of(prompt),
        }


def usage(responses: Iterable[ResponseRow], price: Mapping[str, float] | None) -> Row:
    """Tokens that the answers to some prompts took, reused ones included, and what they cost; where some
    ended in a loop, how many (``looped``).

    ``price`` is in USD per million tokens; the cost is None without one, a count where an answer does
    not say its own."""
    totals: dict[str, int | None] = {"prompt_tokens": 0, "completion_tokens": 0}
    looped = 0
    for row in responses:
        looped += row["finish_reason"] == "loop"
        if row["error"] is None:
            for kind, before in totals.items():
                now: int | None = row[kind]  # type: ignore[literal-required]
                totals[kind] = None if before is None or now is None else before + now
    sent, received = totals.values()
    cost = None
    if price and sent is not None and received is not None:
        cost = round((sent * price["input"] + received * price["output"]) / 1e6, 4)
    used: Row = {**totals, "cost_usd": cost}
    return {**used, "looped": looped} if looped else used


def asked_once(responses: Iterable[ResponseRow]) -> Iterator[ResponseRow]:
    """Responses, one of each request: prompts that share it took its tokens once."""
    seen: set[str] = set()
    for row in responses:
        if (request := row["request_sha256"][:32]) not in seen:
            seen.add(request)
            yield row
