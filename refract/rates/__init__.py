"""Verdict rows in; outcomes, and rates with their intervals, out."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from refract.rates.clean_prompts import (
    pair_table,
    rate_table,
    share_table,
    with_one_interval,
)
from refract.rates.counting import (
    CONFIDENCE,
    REFUSED_ENDINGS,
    Counted,
    CountedSuite,
    clusters_of,
    flip_floors,
    outcome,
)
from refract.rates.judge_error import JudgeError, with_judge_errors
from refract.rates.judge_rates import (
    abstention_table,
    change_table,
    injection_table,
    judge_table,
    refusal_table,
    thinking_table,
)
from refract.rates.key import (
    CHANGED,
    FAMILY_MEASURES,
    SAMPLED,
    Key,
    Measure,
    counted_by_function,
    printed_twice,
)
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
from refract.rates.turns import turn_table


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
    return ["language"] if len({row.get("language") for row in sources} - {None}) > 1 else []


def aggregate_suite(
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow] | Mapping[str, ResponseRow],
    verdicts: Sequence[VerdictRow] | Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
    *,
    confidence: float = CONFIDENCE,
    errors: Mapping[str, JudgeError] | None = None,
    estimand: Estimand = "prompts_like_these",
    refused_endings: Collection[str] = REFUSED_ENDINGS,
    texts: Mapping[str, PromptRow] | None = None,
    strict: bool = True,
) -> Aggregate:
    """Outcomes and rates of one suite; responses and verdicts by prompt id need not
    be in memory (:class:`refract.core.jsonl.RowsById`).

    ``definition`` is the suite's (:class:`refract.core.params.SuiteSettings`): its
    first judge decides the outcomes. ``judges`` are its judges' definitions by name,
    ``families`` the label family of each. The first ``strings`` judge measures
    injections, the first ``similarity`` judge measures changed answers. ``errors`` is
    the known error of each refusal judge; with None intervals are of the prompts
    alone. ``estimand`` is what thresholds ask about, ``refused_endings`` how an answer
    can end that counts as refused.
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
    outcomes = _outcomes(
        sources,
        prompts,
        responses=responses,
        verdicts=verdicts,
        definition=definition,
        samples=samples,
        refused_endings=refused_endings,
    )
    suite = CountedSuite(
        sources=sources,
        outcomes=outcomes,
        fields=fields_of(sources, definition.get("fields")),
        confidence=confidence,
        refused_endings=refused_endings,
        prompts=texts or {row["prompt_id"]: row for row in prompts},
        responses=responses,
    )
    last_turns = [row for row in prompts if is_last(row)]
    floors = flip_floors(last_turns, suite.outcomes)
    rates = with_one_interval(rate_table(suite) + share_table(suite) + pair_table(suite))
    rates += turn_table(suite, prompts)
    if samples > 1 or not thresholds.keys().isdisjoint(measure.name for measure in SAMPLED):
        rates += sample_table(suite, samples)
    rates += variant_table(suite, last_turns)
    rates += attack_table(suite, last_turns, floors.loophole)
    rates += language_table(suite, definition.get("source_language") or "en")
    rates += _rates_of_judges(
        suite, prompts, verdicts=verdicts, definition=definition, families=families
    )
    for name in definition["judges"]:
        asked = judges.get(name, {})
        wordings = asked.get("wordings") or ()
        if wordings or asked.get("repeats", 1) > 1:
            rates += change_table(
                suite,
                verdicts,
                judge=name,
                family=families[name],
                wordings=wordings,
                deciding=name == definition["judges"][0],
            )
    if definition.get("protocol"):
        of_protocol = _rates_of_protocol(
            suite, verdicts, definition=definition, judges=judges, families=families
        )
        # A number that the protocol counts in its own way goes before the suite's of
        # that name.
        counted_by_it = {rate.name for rate in of_protocol}
        rates = [rate for rate in rates if rate.name not in counted_by_it] + of_protocol
    for measure in counted_by_function():
        rates += _rates_of_function(measure, suite)
    compared, further_samples = _compared(
        suite,
        last_turns,
        verdicts=verdicts,
        definition=definition,
        judges=judges,
        families=families,
    )
    limits = _fail_limits(thresholds, {row["name"] for row in compared})
    names = {rate.name for rate in rates}
    defaults = {name: limit for name, limit in DEFAULT_THRESHOLDS.items() if name in names}
    max_unjudged = definition.get("max_unjudged")
    if compared:
        rates += robustness_table(
            compared + further_samples,
            limits=limits,
            max_unjudged=max_unjudged,
            flips=floors,
            confidence=confidence,
        )
    if errors is not None:
        rates = with_judge_errors(
            rates,
            definition["judges"][0],
            errors=errors,
            confidence=confidence,
            categories={row["category"] for row in suite.requested},
        )
    if samples > 1:
        # Without width is what takes each answer alone (flips, attacks): how they
        # vary is not known.
        for place, rate in enumerate(rates):
            if rate.these and rate.these.low == rate.these.high:
                rates[place] = replace(rate, these=None)
    if not strict:
        names = {rate.name for rate in rates}
        thresholds = {name: limit for name, limit in thresholds.items() if name in names}
    # A flip or fail rate may have a threshold of its own; fail rates have theirs by
    # now.
    rates = apply_thresholds(
        rates,
        defaults | thresholds,
        max_unjudged=max_unjudged,
        samples=samples,
        estimand=estimand,
    )
    _check_names(rates)
    return Aggregate(
        answers=outcomes,
        table=rates,
        compared=compared,
        fields=_field_values(suite.requested, suite.fields),
    )


def _outcomes(
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Mapping[str, ResponseRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    samples: int,
    refused_endings: Collection[str],
) -> dict[str, Counted]:
    """What became of each prompt, by the suite's first judge. Raises
    :class:`RowError` for a prompt without a response or a verdict."""
    clusters = clusters_of(sources, definition.get("cluster"))
    deciding = definition["judges"][0]
    outcomes: dict[str, Counted] = {}
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
            refused_endings=refused_endings,
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
    return outcomes


def _first_of_family(
    definition: Mapping[str, Any], families: Mapping[str, str], family: str
) -> str | None:
    """The first judge of a suite whose labels are of a family."""
    return next((name for name in definition["judges"] if families[name] == family), None)


def _rates_of_judges(
    suite: CountedSuite,
    prompts: Sequence[PromptRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    families: Mapping[str, str],
) -> list[Rate]:
    """The rates of a suite's further judges: other judges of refusal, strings and
    scores."""
    rates = []
    strings = _first_of_family(definition, families, "strings")
    similarity = _first_of_family(definition, families, "similarity")
    if strings is not None:
        rates += injection_table(suite, verdicts, strings)
    earlier = {row["prompt_id"] for row in prompts if not is_last(row)}
    further_samples = {
        row["prompt_id"]
        for row in prompts
        if row["perturbation"] is None and row.get("sample", 1) > 1
    }
    for name in definition["judges"]:
        family = families[name]
        if family == "refusal":
            if name != definition["judges"][0]:
                rates += refusal_table(
                    suite,
                    verdicts,
                    first=definition["judges"][0],
                    judge=name,
                    cut_off=definition.get("cut_off"),
                )
        elif family == "refusal_in_thought":
            rates += thinking_table(suite, verdicts, judge=name)
        elif name not in (strings, similarity):
            left_out = earlier
            if family == "similarity":
                # Further samples of clean prompts are compared for the noise floor
                # alone.
                left_out = earlier | further_samples
            outcomes = {
                prompt_id: answer
                for prompt_id, answer in suite.outcomes.items()
                if prompt_id not in left_out
            }
            if family == "abstention":
                rates += abstention_table(name, suite, prompts, verdicts, outcomes)
                continue
            rates += judge_table(
                name,
                FAMILY_MEASURES[family],
                verdicts=verdicts,
                outcomes=outcomes,
                confidence=suite.confidence,
            )
    return rates


def _rates_of_protocol(
    suite: CountedSuite,
    verdicts: Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
) -> list[Rate]:
    """The rates of the published protocol that a suite follows."""
    # Here, so that the types of rates are there without the settings of protocols.
    from refract.rates.protocol_rates import protocol_judge, protocol_table
    from refract.suites.protocols import find_part

    part = find_part(definition["protocol"], "protocol")
    judge = protocol_judge(definition, judges)
    return protocol_table(
        part,
        suite,
        responses=suite.responses,
        verdicts=verdicts,
        judge=judge,
        family=families[judge],
    )


def _rates_of_function(measure: Measure, suite: CountedSuite) -> list[Rate]:
    """The rates of a measure that a function of its own counts
    (:attr:`Measure.count`)."""
    try:
        function = pkgutil.resolve_name(measure.count)
    except (ImportError, AttributeError, ValueError) as error:
        raise ParamsError(
            f"the measure {measure.name} cannot be counted: {measure.count!r} cannot be imported "
            f"({error}); it must be package.module:function of an installed package"
        ) from None
    return list(function(suite))


def _compared(
    suite: CountedSuite,
    prompts: Sequence[PromptRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
) -> tuple[list[Row], list[Row]]:
    """The perturbed answers compared with the clean ones, and the further samples of
    clean prompts with the first."""
    scores, sensitivity = None, OUTPUT_SENSITIVITY
    similarity = _first_of_family(definition, families, "similarity")
    if similarity is not None:
        scores = {
            prompt_id: by_judge[similarity]["score"] for prompt_id, by_judge in verdicts.items()
        }
        sensitivity = judges[similarity].get("output_sensitivity", OUTPUT_SENSITIVITY)
    compared = []
    further_samples = []
    for row in comparisons(
        prompts,
        suite.responses,
        similarities=scores,
        outcomes=suite.outcomes,
        sensitivity=sensitivity,
    ):
        if row["name"] == CLEAN_SAMPLES:
            further_samples.append(row)
        else:
            compared.append(row)
    return compared, further_samples


def _check_names(rates: Sequence[Rate]) -> None:
    """Raises :class:`ParamsError` where files could not tell two rates apart."""
    for first, second in printed_twice(rate.key for rate in rates):
        raise ParamsError(
            f"two numbers would be called {first.name!r}: {first.described}, and "
            f"{second.described}; rename the judge, perturbation or field"
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


def _fail_limits(thresholds: dict[str, Any], perturbations: set[str]) -> dict[str, float]:
    """Takes the limits of perturbations' fail rates out of a suite's thresholds. Raises
    :class:`ParamsError` for one that is not ``{max: x}``."""
    limits = {}
    for name in perturbations:
        key = Key(CHANGED, perturbation=name)
        limit = thresholds.pop(key.name, None)
        if limit is not None:
            if "max" not in limit:
                raise ParamsError(f"the threshold of {key.name} must be {{max: x}}")
            limits[name] = limit["max"]
    return limits


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
        request = row["request_sha256"][:32]
        if request not in seen:
            seen.add(request)
            yield row
