"""The numbers of a project's own files: read from ``data/`` suite by suite, and what goes to
``metrics/``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from refract.agreement.judged_answers import judged_answers, project_rows, source_rows, without
from refract.agreement.label_files import (
    LABEL_FILE,
    JudgedAnswer,
    labels_sha256,
    read_labels,
)
from refract.core.errors import RefractError, RowError
from refract.core.jsonl import StoredRows, parse_json, read_rows, sha256_file
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
from refract.results.current import COUNTED, left_over, result_files, rows_missing, suite_inputs
from refract.results.recounted import differing_rates
from refract.results.sources import UNREADABLE, Result, read_side
from refract.suites.draws import Draw

# What no rate needs of a prompt row.
TEXTS = ("attempts", "script", "seed", "suite")
# A bundle's list of hashes.
SUMS = "SHA256SUMS"


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
    judges = _read_json(folder / "judges.json")
    families = _read_json(folder / "families.json")
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


def number_problems(
    folder: Path, note: Callable[[str], object] = lambda text: None
) -> Iterator[str]:
    """Where numbers of a project or bundle are not what its files give, a line for each:
    every column from answers and verdicts where these are here, else rates of refusal
    from outcomes. What is not counted again goes to ``note``. Nothing in it is run."""
    yield from _sum_problems(folder)
    params = load_params(folder / "params.yaml")
    models = grid(params, "models")
    others = left_over(folder, models)
    if others:
        note(f"not checked, since the grid of params.yaml does not name them: {', '.join(others)}")
    for model in others:
        *_, table, facts = result_files(model)
        if (folder / table).is_file() and not (folder / facts).is_file():
            yield f"{facts} is not here, by which {table} could be checked"
    for model in models:
        try:
            side = read_side(folder, [model])
        except RefractError as error:
            yield str(error)
        except UNREADABLE as error:
            yield f"{model}: its results cannot be read ({type(error).__name__}: {error})"
        else:
            yield from side.reasons
            yield from _suite_problems(folder, params, model, side.results[model], note)


def _suite_problems(
    folder: Path, params: Row, model: str, result: Result, note: Callable[[str], object]
) -> Iterator[str]:
    """Where the numbers of a model are not what its answers and verdicts give."""
    facts: Row = result.provenance or {"suites": {}}
    other = rows_missing(folder, {model: facts})
    by_outcomes = []
    for suite in facts["suites"]:
        if not (folder / COUNTED["verdicts"].format(model=model, suite=suite)).is_file():
            by_outcomes.append(suite)
            continue
        yield from other.get((model, suite), ())
        not_counted = f"{model}, {suite}: cannot be counted again"
        try:
            settings = read_settings(DecisionSettings, "decisions", facts.get("decisions"))
            ((numbers, _),) = stored_suites(folder, params, model, settings, [suite])
            stated = [rate for rate in result.rates if rate.suite == suite]
            problems = list(differing_rates(stated, numbers.rates))
        except OSError as error:
            bundle = (folder / SUMS).is_file()
            anew = "get the bundle anew" if bundle else "run: dvc checkout (or dvc repro)"
            yield f"{not_counted}: {error.filename} cannot be read ({error.strerror}); {anew}"
        except (*UNREADABLE, IndexError, RefractError) as error:
            yield f"{not_counted} ({type(error).__name__}: {error})"
        else:
            for problem in problems:
                yield f"{model}, {suite}: {problem}"
    if by_outcomes:
        note(
            f"{model}, {', '.join(by_outcomes)}: counted again from outcomes alone, since the "
            f"verdicts are not in data/verdicts/{model}"
        )


def _sum_problems(folder: Path) -> Iterator[str]:
    """Where the files of a bundle are not those that its list of hashes names."""
    if not (folder / SUMS).is_file() or (folder / "dvc.yaml").is_file():
        return  # a project's is its owner's
    hashes = {}
    for line in (folder / SUMS).read_text("utf-8", "replace").splitlines():
        sha256, _, name = line.partition("  ")
        hashes[name or line] = sha256
    for name, sha256 in hashes.items():
        if not (folder / name).is_file():
            yield f"{name} is not here, which {SUMS} names"
        elif sha256_file(folder / name) != sha256:
            yield f"{name} is not as {SUMS} has it"
    for path in sorted([*folder.glob("data/**/*"), *folder.glob("metrics/**/*")]):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and name not in hashes:
            yield f"{name} is not among the files that {SUMS} names"


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
        hashes: Row = {"sha256": sha256_file(Path(wanted["file"]))}
        for kind, path in COUNTED.items():
            hashes[f"{kind}_sha256"] = sha256_file(Path(path.format(model=model, suite=name)))
        labels = Path(LABEL_FILE.format(model=model, suite=name))
        hashes["labels_sha256"] = labels_sha256(labels.read_bytes() if labels.is_file() else None)
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


def _read_json(path: str | Path) -> Row:
    try:
        values: Row = parse_json(Path(path).read_bytes())
    except ValueError as error:
        raise RowError(f"{path}: not JSON ({error}); run: dvc repro") from None
    return values


def write_lines(model: str, suites: Sequence[StoredSuite]) -> None:
    """Writes a line for each outcome. Texts are read again from disk as lines are written."""
    columns = outcome_columns(dict.fromkeys(suite.numbers.columns) for suite in suites)
    outcomes = (
        outcome_lines(numbers.suite, rows.prompts.values(), numbers.aggregate)
        for numbers, rows in suites
    )
    write_table(Path(f"metrics/outcomes/{model}.csv"), columns, chain.from_iterable(outcomes))
