"""How much of a discrimination would be there had the model not read the prompt, in
sentences and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.core.vocabulary import NULL_ANSWERS, SHUFFLED
from refract.rates.judge_rates import reads_prompts
from refract.rates.key import DISCRIMINATION, NULL_DIFFERENCE, Key
from refract.rates.rate import Rate
from refract.report.markdown import Column, ShownTable, shown_table
from refract.report.view import View
from refract.report.wording import Titles, short_text


class NullDifferences(NamedTuple):
    """The null differences of one judge on a model's answers to a suite, by kind of null
    answer, beside the ``discrimination`` by that judge. ``further`` says whether another
    judge than this one decides."""

    suite: str
    judge: str
    model: str
    further: bool
    discrimination: Rate | None
    by_kind: dict[str, Rate]


def null_differences(view: View) -> list[NullDifferences]:
    """Those of all suites, judges and models that have any."""
    rows: dict[tuple[str, str, str], NullDifferences] = {}
    for rate in view.every:
        if rate.measure != NULL_DIFFERENCE:
            continue
        further = rate.key.judge
        key = (rate.suite, further, rate.model)
        if key not in rows:
            overall = view.overall.get((rate.suite, rate.model), {})
            rows[key] = NullDifferences(
                suite=rate.suite,
                judge=further or view.deciding.get(rate.suite, ""),
                model=rate.model,
                further=bool(further),
                discrimination=overall.get(Key(DISCRIMINATION, judge=further).name),
                by_kind={},
            )
        rows[key].by_kind[rate.group.value or SHUFFLED] = rate
    return list(rows.values())


def null_notes(view: View, suites: Sequence[str]) -> list[str]:
    """For each of these suites, by the judge that decides: how much of the discrimination
    would be there had the models not read the prompts; equal texts once."""
    by_suite: dict[str, dict[str, list[str]]] = {}
    for row in null_differences(view):
        rate = row.by_kind.get(SHUFFLED)
        if rate and not row.further and row.suite in suites:
            texts = by_suite.setdefault(row.suite, {})
            texts.setdefault(short_text(rate), []).append(view.titles.model(row.model))
    notes = []
    for suite, texts in by_suite.items():
        shares = [*texts]
        if len(texts) > 1:
            shares = [f"{text} ({', '.join(models)})" for text, models in texts.items()]
        notes.append(
            f"discrimination on {view.titles.plain(suite)}: of this, {', '.join(shares)} would be "
            "there had the model not read the prompt"
        )
    return notes


def prompt_readers(view: View) -> list[str]:
    """The judges that call answers refused by their prompts (:func:`reads_prompts`), with
    their differences; equal ones once."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in null_differences(view):
        for kind, rate in row.by_kind.items():
            if reads_prompts(rate):
                texts = found.setdefault((row.judge, row.suite), {})
                models = texts.setdefault(f"{kind} {short_text(rate)}", [])
                models.append(view.titles.model(row.model))
    warnings = []
    for (judge, suite), texts in found.items():
        parts = [f"{text} ({', '.join(models)})" for text, models in texts.items()]
        warnings.append(
            f"on {view.titles.plain(suite)} the judge {judge} calls answers that cannot depend on "
            f"their prompt refused more often under harmful prompts, by {'; '.join(parts)}: so much "
            "of a discrimination there may be the judge's"
        )
    return warnings


def null_table(view: View) -> ShownTable:
    """The null differences by kind of null answer, beside the discrimination."""
    return shown_table(_columns(view.titles), null_differences(view)).filled


def _columns(titles: Titles) -> list[Column[NullDifferences]]:
    columns: list[Column[NullDifferences]] = [
        Column("suite", lambda row: titles.suite(row.suite)),
        Column("judge", lambda row: row.judge),
        Column("model", lambda row: titles.model(row.model)),
        Column("discrimination", lambda row: short_text(row.discrimination)),
    ]
    for kind in NULL_ANSWERS:
        columns.append(_kind_column(kind))
    return columns


def _kind_column(kind: str) -> Column[NullDifferences]:
    return Column(kind, lambda row: short_text(row.by_kind.get(kind)))
