"""Rates counted again, and where they are not what was written.

A hash protects nothing where whoever edits a file can write the hash anew. What outcomes
add up to cannot be edited: whatever is read is counted again from them, by the functions
that counted it first, and every check of numbers compares as :func:`differing_rates`."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from refract.agreement.corrections import SIDES, with_labels
from refract.core.environment import cache_folder, code_sha256
from refract.core.errors import RefractError
from refract.core.jsonl import sha256_json
from refract.core.params import DecisionSettings
from refract.core.types import Row
from refract.core.vocabulary import OUTCOME_COLUMNS
from refract.rates import fields_of, with_limits
from refract.rates.clean_prompts import rate_table, share_table
from refract.rates.counting import Counted, CountedSuite
from refract.rates.judge_error import JudgeError
from refract.rates.key import CLEAN_MEASURES, CONTRASTS, SHARES
from refract.rates.rate import Interval, Rate
from refract.rates.thresholds import with_decisions
from refract.results.table_rows import ALL, COLUMNS, rate_to_row

# What outcomes alone add up to, by the judge that decides them, and the columns of it.
OF_OUTCOMES = {*CLEAN_MEASURES, *SHARES, *CONTRASTS.values()}
COUNTED_COLUMNS = {column.name for column in ALL if not column.place.startswith("key.")}
COUNTED_COLUMNS -= {"clustered_by", "shown"}
TOLERANCE = 1e-9
Lines = Sequence[Mapping[str, Any]]


def differing_rates(
    stated: Sequence[Rate], again: Iterable[Rate], columns: Collection[str] = tuple(COLUMNS)
) -> Iterator[str]:
    """Where the rates of a suite are not those that were counted again: of each the first
    number that differs, and those that are not on both sides."""
    written = {_printed(rate): rate for rate in stated}
    if len(written) < len(stated):
        yield "two rates have one name"
    for rate in again:
        before = written.pop(_printed(rate), None)
        if before is None:
            if rate.counts.n:
                yield f"{_name(rate)}: missing, counted again {rate.value}"
            continue
        row, row_again = rate_to_row(before), rate_to_row(rate)
        for column in COLUMNS:
            if column in columns and not _same(row[column], row_again[column]):
                change = f"{row[column]}, counted again {row_again[column]}"
                yield f"{_name(rate)}: {column} is {change}"
                break
    for rate in written.values():
        if rate.counts.n:
            yield f"{_name(rate)}: counted again there is no such rate"


def _printed(rate: Rate) -> tuple[str, ...]:
    """What a file calls a rate."""
    return (rate.name, rate.key.judge, rate.key.perturbation, *rate.group.printed)


def _name(rate: Rate) -> str:
    return f"{rate.name} of {rate.group.field} {rate.group.value}" if rate.group else rate.name


def _same(cell: Any, value: Any) -> bool:
    """Whether two cells of a table are equal; an empty one is 0."""
    if isinstance(cell or 0, int | float) and isinstance(value or 0, int | float):
        distance: float = abs((cell or 0) - (value or 0))
        return distance <= TOLERANCE  # false of nan
    return str(cell) == str(value)


def recount_problems(rates: Sequence[Rate], outcomes: Lines, facts: Mapping[str, Any]) -> list[str]:
    """Where the rates of one model, with intervals and decisions, are not what its outcomes add up to:
    a line for each. What needs more than outcomes (further judges, pairs, perturbations) is not
    counted.

    ``facts`` is the provenance of the results."""
    suites = facts["suites"]
    problems = []
    for suite in dict.fromkeys(rate.suite for rate in rates):
        if suite not in suites:
            problems.append(f"{suite} has rates and no provenance")
    for suite, about in suites.items():
        lines = [line for line in outcomes if line["suite"] == suite]
        stated = [rate for rate in rates if rate.suite == suite]
        if not lines or not stated:
            problems.append(f"{suite} has no {'rates' if lines else 'outcomes'}")
            continue
        try:
            settings = DecisionSettings(**facts.get("decisions") or {})
            again = _counted_again(stated, lines, about, settings)
            differing = differing_rates(stated, again, COUNTED_COLUMNS)
            problems += [f"{suite} {problem}" for problem in differing]
        except (KeyError, TypeError, ValueError, RefractError) as error:
            problems.append(f"{suite} cannot be counted again ({type(error).__name__}: {error})")
    return problems


def problems_kept(
    written: Sequence[bytes | None],
    rates: Sequence[Rate],
    outcomes: Lines,
    facts: Mapping[str, Any],
) -> list[str]:
    """As :func:`recount_problems`, of files that hold ``written``: beside the response store an empty
    file, named by their hash and that of the code, says that they were without a problem."""
    hashes = [hashlib.sha256(content or b"").hexdigest() for content in written]
    folder = cache_folder()
    mark = folder and folder / "counted_again" / sha256_json([code_sha256(), *hashes])
    if mark and mark.is_file():
        return []
    problems = recount_problems(rates, outcomes, facts)
    if mark and not problems:
        with contextlib.suppress(OSError):  # they are counted again next time
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
    return problems


def _counted_again(
    stated: Sequence[Rate], lines: Lines, about: Mapping[str, Any], settings: DecisionSettings
) -> list[Rate]:
    """The rates of one suite by its outcomes; as ``stated`` where they need more than these."""
    suite = _suite_of(lines, about, settings)
    error = JudgeError.read(about.get("judge_error"))
    errors = {suite.first: error} if error else {}
    with_judge = settings.interval == "prompts_and_judge"
    counted = with_limits(
        suite, rate_table(suite) + share_table(suite), errors if with_judge else None
    )
    before = {_printed(rate): rate for rate in stated}
    again = [rate for rate in counted if rate.measure in OF_OUTCOMES]
    for rate in again:
        before.pop(_printed(rate), None)
    again = with_labels(again, _of_labels(stated))
    others = []
    for rate in before.values():
        if not (rate.measure in OF_OUTCOMES and rate.key.is_headline):
            others.append(rate)
    return with_decisions(suite, again, strict=False) + others


def _of_labels(stated: Sequence[Rate]) -> dict[str, Interval]:
    """The intervals that labels gave, which are not here: as stated of refusal rates, and of contrasts
    where they lie within what those of both sides leave."""
    labelled = {rate.measure.corrects for rate in stated if rate.value is not None}
    known = {}
    for rate in stated:
        if rate.key.is_headline and rate.with_judge:
            known[rate.measure.name] = rate.with_judge.interval
    intervals = {name: ends for name, ends in known.items() if name in labelled}
    for contrast, names in SIDES.items():
        if labelled.intersection(names) and known.keys() >= {contrast, *names}:
            (low, high), (other_low, other_high) = (known[name] for name in names)
            ends = known[contrast]
            if (
                low - other_high - TOLERANCE
                <= ends.low
                <= ends.high
                <= high - other_low + TOLERANCE
            ):
                intervals[contrast] = ends
    return intervals


def _suite_of(lines: Lines, about: Mapping[str, Any], settings: DecisionSettings) -> CountedSuite:
    """A suite of outcomes alone."""
    sources: dict[str, Row] = {}
    outcomes = {}
    samples = max(int(line["sample"]) for line in lines)
    for line in lines:
        id_, source = line["prompt_id"], line["source_id"]
        row: Row = {"id": source, "category": line["category"]}
        for name, cell in line.items():
            if name not in OUTCOME_COLUMNS and cell:
                row[name] = cell
        sources.setdefault(source, row)
        outcomes[id_] = Counted(
            line["outcome"],
            line["cluster"],
            cut_off=line["cut_off"] not in ("0", 0),
            prompt=id_.removesuffix(f"~{int(line['sample'])}") if samples > 1 else None,
        )
    rows = list(sources.values())
    columns = {name for row in rows for name in row}
    definition = about.get("definition") or {}
    last: Any = {"sample": samples}
    return CountedSuite(
        sources=rows,
        outcomes=outcomes,
        fields=[name for name in fields_of(rows, definition.get("fields")) if name in columns],
        confidence=settings.confidence,
        refused_endings=settings.refused_endings,
        rows=[last],
        definition={**definition, "judges": about["judges"]},
    )
