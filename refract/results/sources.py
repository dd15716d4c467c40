"""Where results can be: the working tree, a git revision, a folder, a file of ``refract run``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.core.environment import git
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import write_json, write_rows
from refract.core.params import grid
from refract.core.tables import read_table, write_table
from refract.core.types import Row
from refract.core.vocabulary import outcome_columns
from refract.rates.comparison import NEEDED
from refract.rates.rate import Rate
from refract.results.current import named
from refract.results.table_rows import rates_from_rows


class ResultsError(RefractError, ValueError):
    """Results cannot be found or used; the message says what to name or run instead."""

    exit_code = 2


class Result(NamedTuple):
    """One model's outcomes, its provenance (None where there is none), and its rates (empty if the
    table is absent)."""

    outcomes: list[dict[str, str]]
    provenance: Row | None
    rates: Sequence[Rate] = ()


class Side(NamedTuple):
    """One side of a comparison: what it is, and its results by model."""

    name: str
    results: dict[str, Result]


def resolve_commit(root: Path, revision: str) -> str | None:
    """The full hash of a revision's commit, or None if there is none."""
    if revision.startswith("-"):
        return None
    found = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return found.strip() if found else None


def find_side(root: Path, spec: str | None) -> Side:
    """The results that a name on the command line stands for, in the project at ``root``.

    None is the working tree. Otherwise, in this order: a results file of ``refract run`` or an
    outcomes CSV; a folder (a project, its ``metrics``, or a folder of outcomes CSV files); a model
    of the grid; a git revision; ``REVISION:MODEL``. Raises :class:`ResultsError`.
    """
    if spec is None:
        return Side("working tree", read_tree(root))
    path = Path(spec)
    if path.is_file():
        return Side(spec, _read_file(path))
    if path.is_dir():
        return Side(spec, _read_folder(path))
    models = _tree_models(root)
    if spec in models:
        return Side(spec, {spec: _read_model(root / "metrics", spec)})
    commit = resolve_commit(root, spec)
    if commit:
        return Side(f"{spec} ({commit[:9]})", read_revision(root, commit))
    revision, colon, model = spec.rpartition(":")
    commit = resolve_commit(root, revision) if colon else None
    if commit:
        found = read_revision(root, commit)
        if model not in found:
            known = ", ".join(sorted(found))
            raise ResultsError(f"{revision} has no results of {model!r}; it has {known}")
        return Side(f"{model} at {revision} ({commit[:9]})", {model: found[model]})
    raise ResultsError(
        f"{spec!r} is not a file, a folder, a model of the grid ({', '.join(models)}), a git revision "
        "or REVISION:MODEL"
    )


def read_tree(root: Path) -> dict[str, Result]:
    """The results of the grid's models in the working tree."""
    models = _tree_models(root)
    missing = [m for m in models if not (root / f"metrics/outcomes/{m}.csv").is_file()]
    if len(missing) > 1:
        raise ResultsError(f"no results of {named(missing)} yet; run: dvc repro")
    return {model: _read_model(root / "metrics", model) for model in models}


def read_grid(root: Path, commit: str) -> list[str]:
    """The models in a commit's grid. Raises :class:`ResultsError`."""
    params = git(root, "show", f"{commit}:./params.yaml")
    if params is None:
        raise ResultsError(f"commit {commit[:9]} has no params.yaml")
    return _grid_models(params, f"params.yaml of commit {commit[:9]}")


def read_revision(root: Path, commit: str) -> dict[str, Result]:
    """The results of the models in a commit's grid, read from git alone."""
    results = {}
    for model in read_grid(root, commit):
        path = f"metrics/outcomes/{model}.csv"
        outcomes, provenance, table = (
            git(root, "show", f"{commit}:./{file}")
            for file in (path, f"metrics/provenance/{model}.json", f"metrics/tables/{model}.csv")
        )
        if outcomes is None:
            raise ResultsError(
                f"commit {commit[:9]} has no results of {model}: metrics/ was not committed after "
                "dvc repro"
            )
        facts = json.loads(provenance) if provenance else None
        rates = rates_from_rows(_rows(table or ""), facts, model)
        lines = _usable(f"{path} of commit {commit[:9]}", _rows(outcomes))
        results[model] = Result(lines, facts, rates)
    return results


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def _tree_models(root: Path) -> list[str]:
    path = root / "params.yaml"
    if not path.is_file():
        raise ResultsError(
            f"{root} holds no params.yaml: name two results files, or change to a project's folder"
        )
    return _grid_models(path.read_text("utf-8"), "params.yaml")


def _grid_models(text: str, where: str) -> list[str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return grid(YAML(typ="safe", pure=True).load(text), "models")
    except (YAMLError, ParamsError, AttributeError) as error:
        raise ResultsError(f"{where}: {error}") from None


def _read_model(metrics: Path, model: str) -> Result:
    path = metrics / f"outcomes/{model}.csv"
    if not path.is_file():
        raise ResultsError(f"no results of {model} yet ({path}); run: dvc repro")
    return _read_outcomes(path, metrics / f"provenance/{model}.json")


def _read_outcomes(path: Path, provenance: Path) -> Result:
    facts = json.loads(provenance.read_text("utf-8")) if provenance.is_file() else None
    table = path.parent.parent / "tables" / path.name
    rows = read_table(table) if table.is_file() else []
    rates = rates_from_rows(rows, facts, path.stem)
    return Result(_usable(str(path), read_table(path)), facts, rates)


def _read_file(path: Path) -> dict[str, Result]:
    if path.suffix == ".csv":
        name = path.stem.removesuffix(".outcomes")
        return {name: Result(_usable(str(path), read_table(path)), None)}
    results = read_run(path)
    outcomes = path.with_suffix(".outcomes.csv")
    if not outcomes.is_file():
        raise ResultsError(f"{path}: its outcomes ({outcomes.name}) are not beside it")
    rows = _usable(str(outcomes), read_table(outcomes))
    # A run names its suites by their labels, which say of what a sample was drawn.
    provenance = results["provenance"]
    suites = {held["suite"]: {**held, "label": x} for x, held in provenance["suites"].items()}
    provenance = {**provenance, "suites": suites}
    rates = rates_from_rows(results["tables"], provenance, results["model"])
    return {results["model"]: Result(rows, provenance, rates)}


def read_run(path: Path) -> Row:
    """Reads a results file of ``refract run``. Raises :class:`ResultsError` for any other file."""
    try:
        results = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read ({error})") from None
    if not isinstance(results, Mapping) or not {"model", "provenance", "tables"} <= set(results):
        raise ResultsError(f"{path}: not a results file of refract run")
    return dict(results)


def write_run(
    path: Path,
    results: Row,
    outcomes: Sequence[Row],
    made: Row,
    rows: Iterable[Row] = (),
    *,
    outcomes_path: Path | None = None,
    rows_path: Path | None = None,
) -> None:
    """Writes what a run of ``refract run`` gave: its results, the outcomes and what ``made`` its
    answers beside them, and its rows with their texts where they have a path."""
    write_json(path, results)
    table = outcomes_path or path.with_suffix(".outcomes.csv")
    write_table(table, outcome_columns(outcomes), outcomes)
    write_json(path.with_suffix(".ran.json"), made)
    if rows_path is not None:
        write_rows(rows_path, rows)


def _read_folder(folder: Path) -> dict[str, Result]:
    if (folder / "params.yaml").is_file() and (folder / "metrics/outcomes").is_dir():
        return read_tree(folder)
    if folder.name == "metrics" and (folder.parent / "params.yaml").is_file():
        return read_tree(folder.parent)
    metrics = folder / "metrics" if (folder / "metrics/outcomes").is_dir() else folder
    if (metrics / "outcomes").is_dir():
        models = sorted(path.stem for path in (metrics / "outcomes").glob("*.csv"))
        return {model: _read_model(metrics, model) for model in models}
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise ResultsError(f"{folder}: holds no outcomes (CSV)")
    beside = folder.parent / "provenance"
    return {path.stem: _read_outcomes(path, beside / f"{path.stem}.json") for path in paths}


def _usable(where: str, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    if not rows:
        raise ResultsError(f"{where}: holds no outcomes")
    absent = [name for name in NEEDED if name not in rows[0]]
    if absent:
        raise ResultsError(
            f"{where}: not an outcomes table, or an older one: it lacks {', '.join(absent)}; "
            "run dvc repro there"
        )
    return rows
