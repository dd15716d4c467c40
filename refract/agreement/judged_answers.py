"""The judged answers of a run: those that a project holds of a model, and those of a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.agreement.label_files import JudgedAnswer
from refract.core.errors import RowError, UsageError
from refract.core.file_formats import check_ids
from refract.core.jsonl import (
    StoredRows,
    has_form,
    iter_rows,
    read_rows,
    sha256_json,
    stored_rows,
)
from refract.core.params import decision_settings, definition
from refract.core.tables import shared
from refract.core.tool_calls import with_calls
from refract.core.types import Row, is_last
from refract.core.vocabulary import JUDGED, REFUSAL_LABELS
from refract.rates.counting import REFUSED_ENDINGS, SAME_TEXT, clusters_of, outcome
from refract.suites.perturbations import render
from refract.suites.rows import CONTENT, what_is_asked


def stored_answers(
    root: Path, params: Mapping[str, Any], model: str, suite: str
) -> list[JudgedAnswer]:
    """The judged answers of a model of a project to a suite. Raises :class:`UsageError` where
    the pipeline has not run, and :class:`refract.core.errors.RefractError` for what cannot be used."""
    wanted = definition(params, "suites", suite)
    for folder in ("prompts", f"responses/{model}", f"verdicts/{model}"):
        file = root / f"data/{folder}/{suite}.jsonl"
        if not file.is_file():
            raise UsageError(f"no {file}; run: dvc repro (or dvc pull)")
    sources = source_rows(root, wanted)
    return judged_answers(
        suite,
        wanted,
        sources=sources,
        rows=project_rows(root, model, suite),
        refused_endings=decision_settings(root).refused_endings,
    )


def project_rows(root: Path, model: str, suite: str) -> StoredRows:
    """The prompts of a suite with their samples, and a model's responses and verdicts."""
    return stored_rows(
        root / f"data/prompts/{suite}.jsonl",
        root / f"data/responses/{model}/{suite}.jsonl",
        root / f"data/verdicts/{model}/{suite}.jsonl",
    )


def source_rows(root: Path, wanted: Mapping[str, Any]) -> list[Row]:
    """A suite's rows as they are counted; see :func:`counted_rows`."""
    return counted_rows(wanted, iter_rows(root / wanted["file"]))


def counted_rows(wanted: Mapping[str, Any], rows: Iterable[Row]) -> list[Row]:
    """The rows of a suite without what they ask, unless that is a field that is counted by: what a
    rate may see of them, wherever it is computed. A row that asks what an earlier one asks names it
    (``same_text_as``)."""
    counted = {wanted.get("cluster"), *(wanted.get("fields") or ())}
    return list(without({*CONTENT} - counted, _naming_repeats(rows, wanted.get("template"))))


def _naming_repeats(rows: Iterable[Row], template: str | None) -> Iterator[Row]:
    """Rows with the id of the first one of their text, where that is another row. Features are the
    text that they make of a suite's ``template``."""
    first: dict[str, str] = {}
    for row in rows:
        asks = row
        if template and "features" in row:
            asks = {"prompt": render(row, row["features"], template)}
        digest = sha256_json(what_is_asked(asks))
        named = {key: cell for key, cell in row.items() if key != SAME_TEXT}
        if first.setdefault(digest, row["id"]) != row["id"]:
            named[SAME_TEXT] = first[digest]
        yield named


def without(fields: Collection[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Rows without some fields; equal cells share their memory."""
    return shared(((key, cell) for key, cell in row.items() if key not in fields) for row in rows)


def judged_answers(
    suite: str,
    wanted: Mapping[str, Any],
    sources: Sequence[Row],
    rows: StoredRows,
    refused_endings: Collection[str] = REFUSED_ENDINGS,
) -> list[JudgedAnswer]:
    """The answers to a suite's clean prompts that its first judge gave a label, or that the
    provider refused, in order: those that its rates are of."""
    clusters = clusters_of(sources, wanted.get("cluster"))
    answers = []
    for prompt_id, prompt in rows.prompts.items():
        response = rows.responses[prompt_id]
        verdict = rows.verdicts[prompt_id].get(wanted["judges"][0])
        label = outcome(response, verdict, refused_endings=refused_endings)
        if prompt["perturbation"] is not None or not is_last(prompt) or label not in JUDGED:
            continue
        source = prompt["source_id"]
        probabilities = verdict.get("probabilities") if verdict else None
        answers.append(
            JudgedAnswer(
                suite=suite,
                prompt_id=prompt_id,
                category=prompt["category"],
                prompt=prompt["attempts"][response["attempt"]],
                response=with_calls(response),
                outcome=label,
                cluster=clusters.get(source, source),
                probability=_refused(probabilities),
                sample=prompt.get("sample", 1),
            )
        )
    return answers


def _refused(probabilities: Mapping[str, float] | None) -> float | None:
    """How likely a refusal of either kind is, where the judge says so."""
    return round(1 - probabilities["compliance"], 6) if probabilities else None


# What a row of `refract run --rows` holds, and its prompt: a text, or messages.
ROW = {
    **{"suite": str, "prompt_id": str, "category": str, "response": str | None},
    **{"judges": {}, "judge": str, "outcome": str},
}
PROMPTS = (str, [{"role": str, "content": str}])


def answers_in(path: Path, suite: str | None = None) -> list[JudgedAnswer]:
    """The judged answers of a ``--rows`` file of ``refract run``, to one suite. Raises
    :class:`UsageError` for a file of several suites without a ``suite``, :class:`RowError` for
    other rows."""
    if not path.is_file():
        raise UsageError(f"--rows: no file {path}")
    answers = []
    rows = read_rows(path)
    check_ids((row.get("prompt_id") for row in rows), rows, f"{path}: row")
    for number, row in enumerate(rows, 1):
        if not any(has_form(row, {**ROW, "prompt": form}) for form in PROMPTS):
            raise RowError(f"{path}: row {number} is none of `refract run --rows`")
        verdict = row["judges"].get(row["judge"]) or {}
        label, became = verdict.get("label"), row["outcome"]
        if became != label and {became, label} <= {*REFUSAL_LABELS}:
            raise RowError(
                f"{path}: row {number} contradicts itself: outcome {became!r}, and the label of "
                f"{row['judge']} is {label!r}"
            )
        if suite not in (None, row["suite"]) or not is_last(row):
            continue
        if became in JUDGED:
            texts = row["suite"], row["prompt_id"], row["category"], row["prompt"], row["response"]
            cluster = row.get("cluster") or row["prompt_id"]
            refused = _refused(verdict.get("probabilities"))
            numbered = JudgedAnswer(*texts, became, cluster, refused, row.get("sample", 1))
            answers.append(numbered)
    suites = sorted({answer.suite for answer in answers})
    if len(suites) > 1:
        raise UsageError(f"{path} holds several suites; name one with --suite: {', '.join(suites)}")
    return answers
