"""The numbers of a project's own files: read from ``data/`` suite by suite, and what goes to
``metrics/``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from refract.agreement.judged_answers import judged_answers, project_rows, source_rows, without
from refract.agreement.label_files import LABEL_FILE, JudgedAnswer, read_labels
from refract.core.jsonl import StoredRows, read_rows, sha256_file
from refract.core.params import DecisionSettings, definition, grid, load_params
from refract.core.settings import read_settings
from refract.core.tables import write_table
from refract.core.types import NullVerdictRow, PromptRow, Row
from refract.core.vocabulary import outcome_columns
from refract.rates import outcome_lines
from refract.results.counted import (
    SuiteAnswers,
    SuiteNumbers,
    count_suite,
    provenance,
    samples_in,
    suite_provenance,
)
from refract.results.current import COUNTED, rows_missing, suite_inputs
from refract.results.recounted import differing_rates
from refract.results.sources import read_side
from refract.suites.draws import Draw

# What no rate needs of a prompt row.
TEXTS = ("attempts", "script", "seed", "suite")


class StoredSuite(NamedTuple):
    """A suite of the pipeline: its numbers, and its rows where these are on disk."""

    numbers: SuiteNumbers
    rows: StoredRows


def stored_suites(
    root: Path,
    params: Mapping[str, Any],
    model: str,
    settings: DecisionSettings,
    suites: Sequence[str] | None = None,
) -> Iterator[StoredSuite]:
    """The suites of the grid, or those named, as a project's ``data/`` has them for one model.
    Raises FileNotFoundError where something is missing, and
    :class:`refract.core.errors.RefractError` for rows that cannot be used."""
    folder = root / f"data/verdicts/{model}"
    judges = json.loads((folder / "judges.json").read_text("utf-8"))
    families = json.loads((folder / "families.json").read_text("utf-8"))
    for suite in grid(params, "suites") if suites is None else suites:
        wanted = definition(params, "suites", suite)
        rows = project_rows(root, model, suite)
        sources = source_rows(root, wanted)
        prompts = list(cast(Iterator[PromptRow], without(TEXTS, rows.prompts.values())))
        judged: Sequence[JudgedAnswer] = ()
        labels = None
        label_file = root / LABEL_FILE.format(model=model, suite=suite)
        if label_file.is_file():
            judged = judged_answers(suite, wanted, sources, rows, settings.refused_endings)
            labels = read_labels(label_file, judged)
        null_verdicts = root / COUNTED["null_verdicts"].format(model=model, suite=suite)
        answers = SuiteAnswers(
            suite=suite,
            definition=wanted,
            sources=sources,
            prompts=prompts,
            responses=rows.responses,
            verdicts=rows.verdicts,
            draw=Draw(
                asked=wanted.get("sample"),
                total=len(sources),
                seed=params.get("seed", 0),
                samples=samples_in(prompts),
            ),
            texts=rows.prompts,
            judged=judged,
            labels=labels,
            null_verdicts=cast(list[NullVerdictRow], read_rows(null_verdicts)),
        )
        numbers = count_suite(answers, model, judges=judges, families=families, settings=settings)
        # Before the next suite's are read.
        del answers, sources, prompts, judged, labels
        yield StoredSuite(numbers, rows)


def number_problems(folder: Path) -> Iterator[str]:
    """Where numbers of a project or bundle are not what its files give, a line for each:
    every column from answers and verdicts where these are here, else rates of refusal
    from outcomes. Nothing in it is run."""
    params = load_params(folder / "params.yaml")
    models = sorted(path.stem for path in (folder / "metrics/provenance").glob("*.json"))
    if not models:
        yield f"{folder / 'metrics/provenance'}: no results are here"
    side = read_side(folder, models)
    yield from side.reasons
    for model, result in side.results.items():
        facts: Row = result.provenance or {"suites": {}}
        here = []
        for suite in facts["suites"]:
            if (folder / COUNTED["verdicts"].format(model=model, suite=suite)).is_file():
                here.append(suite)
        if not here:
            continue
        other = rows_missing(folder, {model: facts})
        for suite in here:
            yield from other.get((model, suite), ())
        settings = read_settings(DecisionSettings, "decisions", facts.get("decisions"))
        for numbers, _ in stored_suites(folder, params, model, settings=settings, suites=here):
            stated = [rate for rate in result.rates if rate.suite == numbers.suite]
            for problem in differing_rates(stated, numbers.rates):
                yield f"{model}, {numbers.suite}: {problem}"


def stored_provenance(
    params: Mapping[str, Any], model: str, suites: Sequence[StoredSuite], settings: DecisionSettings
) -> Row:
    """What the numbers of a model in the project of the current folder were made of."""
    judges = _read_json(f"data/verdicts/{model}/judges.json")
    unread = _read_json(f"data/verdicts/{model}/unread.json")
    described = _read_json(f"data/responses/{model}/model.json")
    facts: dict[str, Row] = {}
    for numbers, _ in suites:
        wanted, name = numbers.definition, numbers.suite
        # The report shows these texts, and depends on their hashes here.
        hashes = {"sha256": sha256_file(Path(wanted["file"]))}
        for kind, path in COUNTED.items():
            hashes[f"{kind}_sha256"] = sha256_file(Path(path.format(model=model, suite=name)))
        inputs = suite_inputs(params, name)
        facts[name] = suite_provenance(numbers, hashes, inputs, unread=unread[name])
    responses = chain.from_iterable(suite.rows.responses.values() for suite in suites)
    return provenance(
        described,
        judges,
        suites=facts,
        responses=responses,
        settings=settings,
        null_answers=_read_json(f"data/null_verdicts/{model}/drawn.json"),
    )


def _read_json(path: str) -> Row:
    values: Row = json.loads(Path(path).read_text("utf-8"))
    return values


def write_lines(model: str, suites: Sequence[StoredSuite]) -> None:
    """Writes a line for each outcome. Texts are read again from disk as lines are written."""
    columns = outcome_columns(dict.fromkeys(suite.numbers.columns) for suite in suites)
    outcomes = (
        outcome_lines(numbers.suite, rows.prompts.values(), numbers.aggregate)
        for numbers, rows in suites
    )
    write_table(Path(f"metrics/outcomes/{model}.csv"), columns, chain.from_iterable(outcomes))
