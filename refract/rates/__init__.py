"""Verdict rows in; outcomes, and rates with their intervals, out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from refract.core.errors import ParamsError, RefractError, RowError
from refract.core.jsonl import sha256_json
from refract.core.params import DecisionSettings
from refract.core.showing import csv_cell
from refract.core.types import (
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    prompt_of_sample,
    turns_of,
)
from refract.core.vocabulary import TAKEN
from refract.rates.comparison import DEFAULTS
from refract.rates.counting import Counted, CountedSuite, clusters_of
from refract.rates.judge_error import JudgeError, with_judge_error
from refract.rates.key import counters, name_clashes
from refract.rates.rate import Rate
from refract.rates.robustness import CLEAN_SAMPLES, comparisons
from refract.rates.thresholds import with_decisions


class Aggregate(NamedTuple):
    """What one suite's verdicts add up to: answers by prompt id, rates, a row for each perturbed
    prompt, and the values of the suite's ``fields`` by source id."""

    answers: Mapping[str, Counted]
    table: list[Rate]
    compared: list[Row]
    fields: dict[str, dict[str, str]]


def fields_of(sources: Sequence[Row], fields: Sequence[str] | None) -> Sequence[str]:
    """The fields that a suite's rates are broken down by: ``language`` where its definition names
    none and its rows are in several."""
    if fields is not None:
        return fields
    languages = {row.get("language") for row in sources} - {None}
    return ["language"] if len(languages) > 1 else []


def aggregate_suite(
    sources: Sequence[Row],
    prompts: Sequence[PromptRow],
    responses: Mapping[str, ResponseRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
    families: Mapping[str, str],
    *,
    settings: DecisionSettings = DEFAULTS,
    errors: Mapping[str, JudgeError] | None = None,
    texts: Mapping[str, PromptRow] | None = None,
    strict: bool = True,
) -> Aggregate:
    """Outcomes and rates of one suite; responses and verdicts are by prompt id, and need not be in
    memory (:class:`refract.core.jsonl.RowsById`).

    ``definition`` is the suite's (:class:`refract.core.params.SuiteSettings`): its first judge
    decides the outcomes. ``judges`` are its judges' definitions by name, ``families`` the label
    family of each. ``settings`` say the confidence and what counts as refused. ``errors`` is the
    known error of each refusal judge; with None intervals are of the prompts alone. ``texts`` has
    the prompts with their texts where ``prompts`` come without. Unless ``strict``, a threshold of a
    measure that these rows and judges have no number for is left out. Raises :class:`RowError` when
    the rows do not belong together, :class:`ParamsError` for fields and thresholds that the suite
    does not have."""
    suite = CountedSuite(
        sources=sources,
        outcomes={},
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
    suite = replace(suite, outcomes=_outcomes(suite))
    suite = replace(suite, compared=comparisons(suite))
    rates: list[Rate] = []
    for count in counters():
        try:
            rates += count(suite)
        except ValueError as error:
            place = getattr(count, "__module__", "")
            if isinstance(error, RefractError) or place.startswith("refract."):
                raise
            name = getattr(count, "__qualname__", repr(count))
            raise ParamsError(f"the measure that {place}:{name} counts: {error}") from error
    rates = with_limits(suite, rates, errors)
    rates = with_decisions(suite, rates, strict=strict)
    for clash in name_clashes(rate.key for rate in rates):
        raise ParamsError(clash)
    return Aggregate(
        answers=suite.outcomes,
        table=rates,
        compared=[row for row in suite.compared if row["name"] != CLEAN_SAMPLES],
        fields=_field_values(suite.requested, suite.fields),
    )


def _outcomes(suite: CountedSuite) -> dict[str, Counted]:
    """The outcomes of a suite's answers by its first judge, by prompt id."""
    clusters = clusters_of(suite.sources, suite.definition.get("cluster"))
    several = suite.samples > 1
    outcomes = {}
    unmatched = []
    for prompt in suite.rows:
        prompt_id = prompt["prompt_id"]
        try:
            response, by_judge = suite.responses[prompt_id], suite.verdicts[prompt_id]
        except KeyError:
            unmatched.append(prompt_id)
            continue
        outcomes[prompt_id] = Counted(
            suite.outcome_by(suite.first, response, by_judge),
            clusters[prompt["source_id"]],
            cut_off=response["finish_reason"] == "length",
            prompt=prompt_of_sample(prompt) if several else None,
        )
    if unmatched:
        raise RowError(
            f"{len(unmatched)} prompts have no response or no verdict, such as {unmatched[0]!r}; "
            "run: dvc repro"
        )
    return outcomes


def with_limits(
    suite: CountedSuite, rates: Sequence[Rate], errors: Mapping[str, JudgeError] | None
) -> list[Rate]:
    """The rates of a suite with the ``errors`` of its judges in their intervals (None: of the
    prompts alone)."""
    if errors is None:
        return list(rates)
    categories = {row["category"] for row in suite.requested}
    result = []
    for rate in rates:
        error = errors.get(rate.key.judge or suite.first)
        result.append(with_judge_error(rate, error, suite.confidence, categories))
    return result


def _field_values(sources: Sequence[Row], fields: Sequence[str]) -> dict[str, dict[str, str]]:
    """The values of some fields by source id, as cells; what a row lacks is left out. Rows that
    have the same ones share them."""
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
    """One line for each prompt variant, without its text; ``prompt_sha256`` is the start of the
    hash of its attempts, so that two results can be compared prompt by prompt."""
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
    """Tokens that the answers to some prompts took, reused ones included, and what they cost; where
    some ended in a loop, how many (``looped``).

    ``price`` is in USD per million tokens; the cost is None without one, a count where an answer
    does not say its own."""
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
