"""Rates counted again from the outcomes beside them.

A hash protects nothing where whoever edits a file can write the hash anew. What outcomes
add up to cannot be edited: rates of refusal, how they divide and differ, and the
decisions on thresholds are computed again here, and compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refract.core.errors import RefractError
from refract.core.params import DecisionSettings
from refract.core.showing import csv_cell
from refract.core.types import Row
from refract.core.vocabulary import OUTCOME_COLUMNS
from refract.rates import fields_of
from refract.rates.clean_prompts import rate_table, share_table
from refract.rates.counting import Counted, CountedSuite, outcome
from refract.rates.followed import followed
from refract.rates.judge_error import JudgeError, with_judge_errors
from refract.rates.key import CHANGED, CLEAN_MEASURES, CONTRASTS, OVERALL, SAMPLED, SHARES
from refract.rates.rate import Rate
from refract.rates.robustness import CLEAN_SAMPLES
from refract.rates.thresholds import DEFAULT_THRESHOLDS, decided
from refract.results.table_rows import KEY_COLUMNS, rate_to_row

# What outcomes alone add up to, by the judge that decides them.
RECOUNTED = {*CLEAN_MEASURES, *SHARES, *CONTRASTS.values()}
# Columns of a rate that are no counted numbers.
NOT_COUNTED = ("shown", "clustered_by", "threshold_kind", "threshold", "decision", "passed")
TOLERANCE = 1e-9
Lines = Sequence[Mapping[str, Any]]


def recount_problems(rates: Sequence[Rate], outcomes: Lines, facts: Mapping[str, Any]) -> list[str]:
    """Where the rates of one model are not what its outcomes add up to, and decisions
    not what rates and thresholds give: a line for each, none where all hold.

    ``facts`` is the provenance of the results. Of what needs more than outcomes
    (further judges, pairs, most of perturbations) ranges and decisions are looked at
    alone."""
    suites = facts["suites"]
    has_protocol = False
    for about in suites.values():
        has_protocol |= bool((about.get("definition") or {}).get("protocol"))
    problems: list[str] = []
    for suite in {rate.suite: None for rate in rates}:
        if suite not in suites and not has_protocol:  # which has averages over suites
            problems.append(f"{suite} has rates and no provenance")
    for suite, about in suites.items():
        lines = [line for line in outcomes if line["suite"] == suite]
        stated = [rate for rate in rates if rate.suite == suite]
        if not lines or not stated:
            problems.append(f"{suite} has no {'rates' if lines else 'outcomes'}")
            continue
        try:
            for problem in _suite_problems(stated, lines, about, facts):
                problems.append(f"{suite} {problem}")
        except (KeyError, TypeError, ValueError, RefractError) as error:
            problems.append(f"{suite} cannot be counted again ({type(error).__name__}: {error})")
    return problems


def row_problems(rows: Iterable[Row], outcomes: Lines, facts: Mapping[str, Any]) -> list[str]:
    """Where the rows with texts of one run have other outcomes than the table of
    outcomes, or than their own verdicts give."""
    refused_endings = DecisionSettings(**(facts.get("decisions") or {})).refused_endings
    outcome_of = {(line["suite"], line["prompt_id"]): line["outcome"] for line in outcomes}
    problems: list[str] = []
    for row in rows:
        try:
            suite, prompt_id = row["suite"], row["prompt_id"]
            again = outcome(
                row,  # type: ignore[arg-type]
                row["judges"].get(row["judge"]),
                cut_off=facts["suites"][suite].get("cut_off"),
                refused_endings=refused_endings,
            )
            stated = outcome_of.pop((suite, prompt_id), None)
        except (AttributeError, KeyError, TypeError) as error:
            return [
                *problems,
                f"a row is none that Refract wrote ({type(error).__name__}: {error})",
            ]
        if not row.get("outcome") == again == stated:
            problems.append(f"{suite} {prompt_id}: {stated}, by its verdict {again}")
    problems += [f"{suite} {prompt_id}: no row" for suite, prompt_id in outcome_of]
    return problems


def _suite_problems(
    rates: Sequence[Rate], lines: Lines, about: Mapping[str, Any], facts: Mapping[str, Any]
) -> Iterator[str]:
    """The problems of one suite."""
    settings = DecisionSettings(**(facts.get("decisions") or {}))
    definition = about.get("definition") or {}
    own_way = _counted_by_protocol(definition)
    again = {}
    for rate in _recounted(lines, about, settings):
        if rate.name not in own_way:
            again[_printed(rate)] = rate
    labelled = {rate.measure.corrects for rate in rates}
    for rate in rates:
        recount = again.pop(_printed(rate), None)
        by_people = rate.key.is_headline and rate.measure.name in labelled
        if recount is not None:
            yield from _differing(rate, recount, judged=not by_people)
        elif rate.measure in RECOUNTED and rate.key.is_headline and rate.name not in own_way:
            if rate.counts.n:
                yield f"{_name(rate)}: its outcomes give no such rate"
        elif rate.measure == CHANGED and rate.group == OVERALL:
            yield from _changed_differing(rate, lines)
        if not _in_range(rate):
            yield f"{_name(rate)}: {rate.value} of {rate.counts.n} answers is no such share"
        numbers = rate if by_people or recount is None else recount.asked(settings.estimand)
        if recount is None and settings.estimand == "these_prompts":
            continue  # files do not hold all that this is decided by
        yield from _decision_problems(rate, numbers, definition)
    for rate in again.values():
        if rate.counts.n:
            yield f"{_name(rate)}: missing, counted again {rate.value}"


def _counted_by_protocol(definition: Mapping[str, Any]) -> Sequence[str]:
    """The measures that the protocol of a suite counts in its own way."""
    protocol = followed(definition)
    return () if protocol is None else [key.name for key in protocol.possible_keys()]


def _recounted(lines: Lines, about: Mapping[str, Any], settings: DecisionSettings) -> list[Rate]:
    """The rates that the outcomes of one suite add up to."""
    sources: dict[str, Row] = {}
    outcomes: dict[str, Counted] = {}
    samples = max(int(line["sample"]) for line in lines)
    for line in lines:
        id_, source, sample = line["prompt_id"], line["source_id"], int(line["sample"])
        row: Row = {"id": source, "category": line["category"]}
        for name, cell in line.items():
            if name not in OUTCOME_COLUMNS and cell:
                row[name] = cell
        sources.setdefault(source, row)
        outcomes[id_] = Counted(
            line["outcome"],
            line["cluster"],
            cut_off=line["cut_off"] not in ("0", 0),
            prompt=id_.removesuffix(f"~{sample}") if samples > 1 else None,
        )
    rows = list(sources.values())
    columns = {name for row in rows for name in row}
    fields = fields_of(rows, (about.get("definition") or {}).get("fields"))
    suite = CountedSuite(
        sources=rows,
        outcomes=outcomes,
        fields=[field for field in fields if field in columns],
        confidence=settings.confidence,
        refused_endings=settings.refused_endings,
    )
    rates = rate_table(suite) + share_table(suite)
    if settings.interval == "prompts_and_judge":
        error = JudgeError.read(about.get("judge_error"))
        rates = with_judge_errors(
            rates,
            "",
            errors={"": error} if error else {},
            confidence=settings.confidence,
            categories={row["category"] for row in rows},
        )
    counted = []
    for rate in rates:
        if samples > 1 and rate.these and rate.these.low == rate.these.high:
            rate = replace(rate, these=None)
        if rate.measure in RECOUNTED:
            counted.append(rate)
    return counted


def _printed(rate: Rate) -> tuple[str, ...]:
    """What a file calls a rate."""
    group = rate.group
    return (rate.name, rate.key.judge, group.field, str(csv_cell(group.value)))


def _name(rate: Rate) -> str:
    return f"{rate.name} of {rate.group.field} {rate.group.value}" if rate.group else rate.name


def _differing(stated: Rate, again: Rate, *, judged: bool) -> Iterator[str]:
    """The first number of a rate that is another one, counted again; with the judge's
    error only where that is not known from people's labels (``judged``)."""
    row = rate_to_row(stated)
    same_key = replace(again, key=stated.key)
    for column, value in rate_to_row(same_key).items():
        if column in NOT_COUNTED or (column.startswith("judge_") and not judged):
            continue
        if not _same(row[column], value):
            yield f"{_name(stated)}: {column} is {row[column]}, counted again {value}"
            return


def differing_rows(rows: Sequence[Row], again: Sequence[Row]) -> Iterator[str]:
    """Where the rows of a suite's rates are not those that were computed again, in the
    same order."""
    if len(rows) != len(again):
        yield f"{len(rows)} rates, computed again {len(again)}"
        return
    for row, row_again in zip(rows, again, strict=True):
        for column, value in row_again.items():
            if not _same(row[column], value):
                names = (row_again[part] or "" for part in KEY_COLUMNS)
                name = " ".join(part for part in names if part)
                yield f"{name}: {column} is {row[column]}, computed again {value}"
                break


def _same(cell: Any, value: Any) -> bool:
    """Whether two cells of a table are equal; an empty one is 0."""
    if isinstance(cell or 0, int | float) and isinstance(value or 0, int | float):
        distance: float = abs((cell or 0) - (value or 0))
        return distance <= TOLERANCE  # false of nan
    return str(cell) == str(value)


def _changed_differing(rate: Rate, lines: Lines) -> Iterator[str]:
    """How many answers a perturbation changed, where that is not what the outcomes say;
    they do not of further samples of clean prompts."""
    if rate.key.perturbation == CLEAN_SAMPLES:
        return
    cells = []
    for line in lines:
        if line["perturbation"] == rate.key.perturbation:
            cells.append(str(line["changed"]))
    changed, n = cells.count("1"), cells.count("1") + cells.count("0")
    counts = rate.counts
    if (counts.successes, counts.n) != (changed, n):
        stated = f"{counts.successes} of {counts.n}"
        yield f"{_name(rate)}: {stated}, counted again {changed} of {n}"


def _in_range(rate: Rate) -> bool:
    """Whether a rate's counts and value can be those of its measure."""
    counts, measure, value = rate.counts, rate.measure, rate.value
    if counts.n < 0 or (counts.successes or 0) < 0:
        return False
    if value is None or measure.low is None or measure.high is None:
        return value is None or math.isfinite(value)
    inside: bool = measure.low - TOLERANCE <= value <= measure.high + TOLERANCE
    return inside


def _decision_problems(rate: Rate, numbers: Rate, definition: Mapping[str, Any]) -> Iterator[str]:
    """Where a rate's threshold is not its suite's, or its decision not what the
    ``numbers`` give."""
    thresholds = {**DEFAULT_THRESHOLDS, **(definition.get("thresholds") or {})}
    limit = thresholds.get(rate.name)
    if rate.threshold is None:
        has_limit = limit and rate.group == OVERALL and rate.measure not in SAMPLED
        if rate.decision or has_limit:
            yield f"{_name(rate)}: decided {rate.decision} without its threshold {limit}"
        return
    perturbed = bool(rate.key.perturbation)  # some kinds have a limit by default
    if {rate.threshold.kind: rate.threshold.limit} != limit and (limit or not perturbed):
        yield f"{_name(rate)}: the threshold is {rate.threshold}, its suite sets {limit}"
    decision = decided(numbers, rate.threshold, definition.get("max_unjudged")).decision
    # A group of a perturbation can miss what all of its prompts do not.
    if decision != rate.decision and not (perturbed and rate.decision == "missed"):
        yield f"{_name(rate)}: decided {rate.decision}, counted again {decision}"
