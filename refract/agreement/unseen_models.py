"""What the ledger says of a judge on a model that nobody has labelled: the gaps of those that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from refract.agreement.ledger import ALL, ANY, LEDGER, UNMEASURED, LedgerEntry, read_ledger
from refract.core.types import Row
from refract.rates.judge_error import JudgeError

# Fewer models, or fewer answers of one, say too little.
LEAST_MODELS, LEAST_ANSWERS = 3, 100
# What sources call one and the same model.
SAME_MODELS = {"ChatGPT": "gpt-3.5-turbo (early 2023)", "llama3.0": "llama3"}
# Settings with which the ledger's judges were measured, and what changes no verdict.
MEASURED_WITH = {"redirection": "refusal"}
NO_MATTER = ("kind", "version", "validate", "batch_size", "device")


def counting_lines(entries: Sequence[LedgerEntry], judge: str, version: str) -> list[LedgerEntry]:
    """The lines of a judge on one model each whose answers had no part in it, of sources that ask one
    question, partial refusals being refusals.

    Neither the source nor the model may have shaped the judge of the line, or a judge that it reads (of
    one without such a line it is not known, so that no line counts)."""
    models_of = {source: set(models.split()) for source, models in UNMEASURED.items()}
    for entry in entries:
        models_of.setdefault(entry.source, set()).add(_one_name(entry.model))

    def seen(entry: LedgerEntry) -> bool:
        sources = set(entry.shaped_by.split())
        models = set().union(*(models_of.get(source, ()) for source in sources))
        if entry.source in sources or _one_name(entry.model) in models:
            return True
        of = entry.source, entry.model, entry.partial
        alike = [x for x in entries if (x.source, x.model, x.partial) == of]
        read = [[x for x in alike if x.judge == name] for name in entry.reads.split()]
        return not all(read) or any(seen(x) for lines in read for x in lines)

    return [
        entry
        for entry in entries
        if (entry.judge, entry.version) == (judge, version)
        and (entry.question, entry.partial) == (ANY, "refusal")
        and entry.model not in ("", ALL)
        and entry.n >= LEAST_ANSWERS
        and not seen(entry)
    ]


def _one_name(model: str) -> str:
    return SAME_MODELS.get(model, model)


def judge_error(lines: Sequence[LedgerEntry]) -> JudgeError | None:
    """The judge's error on one more model than those of some lines; None of fewer than three."""
    if len(lines) < LEAST_MODELS:
        return None
    gaps = [line.gap or 0.0 for line in lines]
    return JudgeError(len(gaps), fmean(gaps), stdev(gaps), fmean(map(_variance, lines)))


def _variance(line: LedgerEntry) -> float:
    """Of the error on one answer: the share of wrong verdicts less the square of the gap."""
    wrong = (line.judge_rate or 0.0) * (1 - (line.precision or 0.0))
    wrong += (line.human_rate or 0.0) * (1 - (line.recall or 0.0))
    return max(0.0, wrong - (line.gap or 0.0) ** 2)


@cache
def _known(judge: str, version: str, path: Path) -> JudgeError | None:
    return judge_error(counting_lines(read_ledger(path), judge, version))


def known_errors(
    judges: Mapping[str, Mapping[str, Any]], rows: Iterable[Row]
) -> dict[str, JudgeError]:
    """By name, the errors of those judges that the ledger knows, on a suite's ``rows``.

    ``judges`` are definitions with their ``version``. Nothing is known of another version, of other
    settings than :data:`MEASURED_WITH`, and where a row states another language than English."""
    languages = {str(row["language"]).strip().lower()[:2] for row in rows if row.get("language")}
    if languages - {"en"}:
        return {}
    errors = {}
    for name, given in judges.items():
        settings = {key: value for key, value in given.items() if key not in NO_MATTER}
        error = _known(str(given.get("kind")), str(given.get("version")), LEDGER)
        if error is not None and settings.items() <= MEASURED_WITH.items():
            errors[name] = error
    return errors
