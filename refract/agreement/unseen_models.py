"""A judge's error on an unlabelled model, from its gaps on labelled ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refract.agreement.ledger import ALL, ANY, LEDGER, SOURCES, LedgerEntry, read_ledger
from refract.core.types import Row
from refract.rates.judge_error import JudgeError, ModelCounts

# Fewer models, or fewer answers of one, say too little.
LEAST_MODELS, LEAST_ANSWERS, LEAST_OF_KIND = 3, 100, 30
# What changes no verdict of the ledger's judges, which were measured without settings.
NO_MATTER = ("kind", "version", "other_languages", "validate", "batch_size", "device")


def counting_lines(entries: Sequence[LedgerEntry], judge: str, version: str) -> list[LedgerEntry]:
    """The lines of a judge that tell of its errors on a model that nobody has labelled, over all
    prompts and by kind.

    Each is on one model's answers, with partial refusals as refusals, from sources that ask
    ``ANY``. Neither the source nor the model may have shaped the judge of the line or a judge that
    it reads. Where a judge that it reads has no such line, that is unknown, and the line does not
    count.
    """
    models: dict[str, set[str]] = {}
    for source, names in SOURCES["unmeasured"].items():
        models[source] = set(map(one_name, names))
    for entry in entries:
        models.setdefault(entry.source, set()).add(one_name(entry.model))

    def seen(entry: LedgerEntry) -> bool:
        sources = entry.shaped_by.split()
        if entry.source in sources:
            return True
        for source in sources:
            if one_name(entry.model) in models.get(source, ()):
                return True
        for name in entry.reads.split():
            key = entry._replace(judge=name).key
            lines = [line for line in entries if line.key == key]
            if not lines or any(map(seen, lines)):
                return True
        return False

    counting = []
    for entry in entries:
        asked = (entry.judge, entry.version, entry.question, entry.partial)
        if asked != (judge, version, ANY, "refusal") or entry.model in ("", ALL):
            continue
        least = LEAST_OF_KIND if entry.prompts else LEAST_ANSWERS
        if entry.n >= least and entry.missed is not None and not seen(entry):
            counting.append(entry)
    return counting


def one_name(model: str) -> str:
    """A model's one name, of those that sources call it."""
    name: str = SOURCES["same_models"].get(model, model)
    return name


def judge_error(lines: Sequence[LedgerEntry]) -> JudgeError | None:
    """The judge's error on a further model; None of fewer than three models."""
    counts = []
    for line in lines:
        refused = round((line.human_rate or 0.0) * line.n)
        complied = line.n - refused
        missed, false = line.missed or 0, line.false or 0
        of_model = (line.source, line.model, line.prompts)
        counts.append(ModelCounts(*of_model, refused, missed, complied, false))
    error = JudgeError(tuple(sorted(counts)))
    return error if error.models >= LEAST_MODELS else None


@cache
def _known(judge: str, version: str, path: Path) -> JudgeError | None:
    return judge_error(counting_lines(read_ledger(path), judge, version))


def known_errors(
    judges: Mapping[str, Mapping[str, Any]], rows: Iterable[Row]
) -> dict[str, JudgeError]:
    """The errors of those judges that the ledger knows, by name, on a suite's ``rows``.

    ``judges`` are definitions with their ``version``. Nothing is known of another version, of
    one with settings, and where a row states another language than English.
    """
    for row in rows:
        language = row.get("language")
        if language and str(language).strip().lower()[:2] != "en":
            return {}
    errors = {}
    for name, definition in judges.items():
        kind, version = str(definition.get("kind")), str(definition.get("version"))
        error = _known(kind, version, LEDGER)
        if error is not None and definition.keys() <= {*NO_MATTER}:
            errors[name] = error
    return errors
