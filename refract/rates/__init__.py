"""Verdict rows in; outcomes, and rates with their intervals, out."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from refract.core.errors import ParamsError, RowError
from refract.core.jsonl import sha256_json
from refract.core.params import DecisionSettings
from refract.core.showing import csv_cell
from refract.core.types import (
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    VerdictRow,
    prompt_of_sample,
    turns_of,
)
from refract.core.vocabulary import TAKEN
from refract.rates.clean_prompts import pair_table, rate_table, share_table, with_one_interval
from refract.rates.comparison import DEFAULTS
from refract.rates.counting import (
    Counted,
    CountedSuite,
    clusters_of,
    flip_floors,
    outcome,
)
from refract.rates.judge_error import JudgeError, with_judge_errors
from refract.rates.judge_rates import further_judges
from refract.rates.key import CHANGED, SAMPLED, Key, counted_by_function, printed_twice
from refract.rates.rate import Rate
from refract.rates.robustness import (
    CLEAN_SAMPLES,
    attack_table,
    comparisons,
    language_table,
    robustness_table,
)
from refract.rates.sampled import sample_table, variant_table
from refract.rates.thresholds import DEFAULT_THRESHOLDS, apply_thresholds
from refract.rates.turns import step_table, turn_table


class Aggregate(NamedTuple):
    """What one suite's verdicts add up to: answers by prompt id, rates, a row for
    each perturbed prompt, and the values of the suite's ``fields`` by source id."""

    answers: dict[str, Counted]
    table: list[Rate]
    compared: list[Row]
    fields: dict[str, dict[str, str]]


def fields_of(sources: Sequence[Row], fields: Sequence[str] | None) -> Sequence[str]:
    """The fields that a suite's rates are broken down by: ``language`` where its
    definition names none and its rows are in several."""
    if fields is not None:
        return fields
    languages = {row.get("language") for row in sources} - {None}
    return ["language"] if len(languages) > 1 else []


def aggregate_suite(
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow] | Mapping[str, ResponseRow],
    verdicts: Sequence[VerdictRow] | Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
    *,
    settings: DecisionSettings = DEFAULTS,
    errors: Mapping[str, JudgeError] | None = None,
    texts: Mapping[str, PromptRow] | None = None,
    strict: bool = True,
) -> Aggregate:
    """Outcomes and rates of one suite; responses and verdicts by prompt id need not
    be in memory (:class:`refract.core.jsonl.RowsById`).

    ``definition`` is the suite's (:class:`refract.core.params.SuiteSettings`): its
    first judge decides the outcomes. ``judges`` are its judges' definitions by name,
    ``families`` the label family of each. ``settings`` say the confidence, what counts
    as refused, and what thresholds ask about. ``errors`` is the known error of each
    refusal judge; with None intervals are of the prompts alone.
    ``texts`` has the prompts with their texts where ``prompts`` come without. Unless
    ``strict``, a threshold of a measure that these rows and judges have no number for
    is left out. Raises :class:`RowError` when the rows do not belong together,
    :class:`ParamsError` for fields and thresholds that the suite does not have."""
    if not isinstance(responses, Mapping):
        responses = {row["prompt_id"]: row for row in responses}
    if not isinstance(verdicts, Mapping):
        verdicts = {row["prompt_id"]: row["judges"] for row in verdicts}
    samples = max((row.get("sample", 1) for row in prompts), default=1)
    thresholds = dict(definition.get("thresholds") or {})
    max_unjudged = definition.get("max_unjudged")
    outcomes = {}
    clusters = clusters_of(sources, definition.get("cluster"))
    deciding = definition["judges"][0]
    unmatched = []
    for prompt in prompts:
        prompt_id = prompt["prompt_id"]
        try:
            response, by_judge = responses[prompt_id], verdicts[prompt_id]
        except KeyError:
            unmatched.append(prompt_id)
            continue
        label = outcome(
            response,
            by_judge.get(deciding),
            cut_off=definition.get("cut_off"),
            refused_endings=settings.refused_endings,
        )
        outcomes[prompt_id] = Counted(
            label,
            clusters[prompt["source_id"]],
            cut_off=response["finish_reason"] == "length",
            prompt=prompt_of_sample(prompt) if samples > 1 else None,
        )
    if unmatched:
        raise RowError(
            f"{len(unmatched)} prompts have no response or no verdict, such as {unmatched[0]!r}; "
            "run: dvc repro"
        )
    suite = CountedSuite(
        sources=sources,
        outcomes=outcomes,
        fields=fields_of(sources, definition.get("fields")),
        confidence=settings.confidence,
        refused_endings=settings.refused_endings,
        prompts=texts or {row["prompt_id"]: row for row in prompts},
        responses=responses,
        rows=prompts,
        verdicts=verdicts,
        definition=definition,
        judges=judges,
        families=families,
    )
    floors = flip_floors(suite)
    rates = with_one_interval(rate_table(suite) + share_table(suite) + pair_table(suite))
    rates += turn_table(suite)
    if samples > 1 or not thresholds.keys().isdisjoint(measure.name for measure in SAMPLED):
        rates += sample_table(suite, samples)
    rates += variant_table(suite)
    rates += attack_table(suite, floors.loophole)
    rates += language_table(suite, definition.get("source_language") or "en")
    rates += further_judges(suite)
    if definition.get("protocol"):
        # Here, so that the types of rates are there without the settings of protocols.
        from refract.rates.protocol_rates import protocol_judge, protocol_table
        from refract.suites.protocols import find_part

        part = find_part(definition["protocol"], "protocol")
        of_protocol = protocol_table(part, suite, protocol_judge(definition, judges))
        # A number that the protocol counts in its own way goes before the suite's of
        # that name.
        names = {rate.name for rate in of_protocol}
        rates = [rate for rate in rates if rate.name not in names] + of_protocol
    rates += step_table(suite)
    for measure in counted_by_function():
        try:
            function = pkgutil.resolve_name(measure.count)
        except (ImportError, AttributeError, ValueError) as error:
            raise ParamsError(
                f"the measure {measure.name} cannot be counted: {measure.count!r} cannot be "
                f"imported ({error}); it must be package.module:function of an installed package"
            ) from None
        rates += function(suite)
    compared: list[Row] = []
    further_samples: list[Row] = []
    for row in comparisons(suite):
        (further_samples if row["name"] == CLEAN_SAMPLES else compared).append(row)
    if compared:
        limits = {}
        for name in {row["name"] for row in compared}:
            key = Key(CHANGED, perturbation=name)
            limit = thresholds.pop(key.name, None)
            if limit is not None and "max" not in limit:
                raise ParamsError(f"the threshold of {key.name} must be {{max: x}}")
            if limit is not None:
                limits[name] = limit["max"]
        rates += robustness_table(
            compared + further_samples,
            limits=limits,
            max_unjudged=max_unjudged,
            flips=floors,
            confidence=settings.confidence,
        )
    if errors is not None:
        rates = with_judge_errors(
            rates,
            deciding,
            errors=errors,
            confidence=settings.confidence,
            categories={row["category"] for row in suite.requested},
        )
    if samples > 1:
        # Without width is what takes each answer alone (flips, attacks): how they
        # vary is not known.
        for place, rate in enumerate(rates):
            if rate.these and rate.these.low == rate.these.high:
                rates[place] = replace(rate, these=None)
    names = {rate.name for rate in rates}
    if not strict:
        thresholds = {name: limit for name, limit in thresholds.items() if name in names}
    defaults = {name: limit for name, limit in DEFAULT_THRESHOLDS.items() if name in names}
    # A flip or fail rate may have a threshold of its own; fail rates have theirs by
    # now.
    rates = apply_thresholds(
        rates,
        defaults | thresholds,
        max_unjudged=max_unjudged,
        samples=samples,
        estimand=settings.estimand,
    )
    for first, second in printed_twice(rate.key for rate in rates):
        raise ParamsError(
            f"two numbers would be called {first.name!r}: {first.described}, and "
            f"{second.described}; rename the judge, perturbation or field"
        )
    return Aggregate(
        answers=outcomes,
        table=rates,
        compared=compared,
        fields=_field_values(suite.requested, suite.fields),
    )


def _field_values(sources: Sequence[Row], fields: Sequence[str]) -> dict[str, dict[str, str]]:
    """The values of some fields by source id, as cells; what a row lacks is left out.
    Rows that have the same ones share them."""
    names = [field for field in fields if field not in TAKEN]
    values: dict[str, dict[str, str]] = {}
    shared: dict[tuple[object, ...], dict[str, str]] = {}
    for row in sources:
        cells = {}
        for name in names:
            if row.get(name) is not None:
                cells[name] = str(csv_cell(str(row[name])))
        values[row["id"]] = shared.setdefault(tuple(cells.items()), cells)
    return values


def outcome_lines(suite: str, prompts: Iterable[PromptRow], aggregate: Aggregate) -> Iterator[Row]:
    """One line for each prompt variant, without its text; ``prompt_sha256`` is the
    start of the hash of its attempts, so that two results can be compared prompt by
    prompt."""
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
    """Tokens that the answers to some prompts took, reused ones included, and what
    they cost; where some ended in a loop, how many (``looped``).

    ``price`` is in USD per million tokens; the cost is None without one, a count
    where an answer does not say its own."""
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
        if row["request_sha256"] not in seen:
            seen.add(row["request_sha256"])
            yield row
