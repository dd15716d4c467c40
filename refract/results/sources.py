"""Where results can be (the working tree, a git revision, a folder, a file of ``refract run``), and what
differs between two of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import git
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import canonical_json, has_form, parse_json, write_json, write_rows
from refract.core.params import DecisionSettings, grid
from refract.core.tables import read_table, write_table
from refract.core.types import Row
from refract.core.vocabulary import outcome_columns
from refract.rates.comparison import DEFAULTS, NEEDED, PairedOutcomes, compare_groups, pair_outcomes
from refract.rates.rate import Difference, Rate
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


@dataclass(frozen=True)
class ComparedSides:
    """What each side is, what else differs between them, and all paired differences, second side minus
    first, at a confidence."""

    a: str
    b: str
    notes: list[str]
    confidence: float
    differences: list[Difference]


ReadFile = Callable[[str], str | None]  # the text of a path of a project, None without such a file


def resolve_commit(root: Path, revision: str) -> str | None:
    """The full hash of a revision's commit, or None if there is none."""
    sha = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return sha.strip() if sha else None


def find_side(root: Path, spec: str | None) -> Side:
    """The results that a name on the command line stands for, in the project at ``root``.

    None is the working tree. Otherwise, in this order: a results file of ``refract run`` or an
    outcomes CSV; the folder of a project; a model of the grid; a git revision; ``REVISION:MODEL``.
    Raises :class:`ResultsError`.
    """
    if spec is None:
        return Side("working tree", read_tree(root))
    path = Path(spec)
    if path.is_file():
        return Side(spec, _read_file(path))
    if path.is_dir():
        return Side(spec, read_tree(path))
    models = tree_models(root)
    if spec in models:
        return Side(spec, read_tree(root, [spec]))
    if commit := resolve_commit(root, spec):
        return Side(f"{spec} ({commit[:9]})", read_revision(root, commit))
    revision, colon, model = spec.rpartition(":")
    if colon and (commit := resolve_commit(root, revision)):
        name = f"{model} at {revision} ({commit[:9]})"
        return Side(name, read_revision(root, commit, [model]))
    raise ResultsError(
        f"{spec!r} is not a file, a folder, a model of the grid ({', '.join(models)}), a git revision "
        "or REVISION:MODEL"
    )


def read_tree(root: Path, models: Sequence[str] | None = None) -> dict[str, Result]:
    """The results in a project's folder, of the grid's models unless some are named."""
    wanted = tree_models(root) if models is None else models
    return _read_models(partial(_text_in, root), wanted)


def read_rate_tables(
    root: Path, models: Sequence[str]
) -> tuple[dict[str, Sequence[Rate]], dict[str, Row]]:
    """The rates and the provenance of some models, by name. Raises :class:`ResultsError`."""
    results = read_tree(root, models)
    provenance = {model: result.provenance or {} for model, result in results.items()}
    return {model: result.rates for model, result in results.items()}, provenance


def read_grid(root: Path, commit: str) -> list[str]:
    """The models in a commit's grid. Raises :class:`ResultsError`."""
    params = git(root, "show", f"{commit}:./params.yaml")
    if params is None:
        raise ResultsError(f"commit {commit[:9]} has no params.yaml")
    return _grid_models(params, f"params.yaml of commit {commit[:9]}")


def read_revision(
    root: Path, commit: str, models: Sequence[str] | None = None
) -> dict[str, Result]:
    """The same of a commit, read from git alone."""

    def read(path: str) -> str | None:
        return git(root, "show", f"{commit}:./{path}")

    wanted = read_grid(root, commit) if models is None else models
    return _read_models(read, wanted, commit)


def _text_in(root: Path, path: str) -> str | None:
    file = root / path
    return file.read_bytes().decode("utf-8", "replace") if file.is_file() else None


def tree_models(root: Path) -> list[str]:
    """The models in the grid of a project. Raises :class:`ResultsError`."""
    params = _text_in(root, "params.yaml")
    if params is None:
        raise ResultsError(
            f"{root} holds no params.yaml: name two results files, or change to a project's folder"
        )
    return _grid_models(params, "params.yaml")


def _grid_models(text: str, where: str) -> list[str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return grid(YAML(typ="safe", pure=True).load(text), "models")
    except (YAMLError, ParamsError, AttributeError) as error:
        raise ResultsError(f"{where}: {error}") from None


def _read_models(read: ReadFile, models: Sequence[str], commit: str = "") -> dict[str, Result]:
    results, missing = {}, []
    of_commit = f" of commit {commit[:9]}" if commit else ""
    for model in models:
        path = f"metrics/outcomes/{model}.csv"
        outcomes, facts = read(path), read(f"metrics/provenance/{model}.json")
        if outcomes is None:
            missing.append(model)
            continue
        with _reading(f"provenance and table of {model}{of_commit}"):
            provenance = parse_json(facts) if facts else None
            if facts and not has_form(provenance, FACTS):
                raise ValueError("incomplete provenance")
            table = _rows(read(f"metrics/tables/{model}.csv") or "")
            rates = rates_from_rows(table, provenance, model)
        results[model] = Result(_usable(path + of_commit, _rows(outcomes)), provenance, rates)
    if missing:
        remedy = "metrics/ was not committed after dvc repro" if commit else "run: dvc repro"
        raise ResultsError(f"no results of {named(missing)}{of_commit}; {remedy}")
    return results


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


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
    suites = {facts["suite"]: {**facts, "label": x} for x, facts in provenance["suites"].items()}
    provenance = {**provenance, "suites": suites}
    rates = rates_from_rows(results["tables"], provenance, results["model"])
    return {results["model"]: Result(rows, provenance, rates)}


def _usable(where: str, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    if not rows:
        raise ResultsError(f"{where}: holds no outcomes")
    if absent := [name for name in NEEDED if name not in rows[0]]:
        raise ResultsError(f"{where}: not an outcomes table: it lacks {', '.join(absent)}")
    return rows


def read_run(path: Path) -> Row:
    """Reads a results file of ``refract run``. Raises :class:`ResultsError` for any other file."""
    try:
        results = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read ({error})") from None
    if not has_form(results, RUN):
        raise ResultsError(f"{path}: not a results file of refract run")
    with _reading(str(path)):
        rates_from_rows(results["tables"], results["provenance"])
    return dict(results)


# What results hold, as far as it is read again; see has_form.
OF_SUITE = {"sha256": str, "prompts_sha256": str, "judges": [str]}
FACTS = {
    "model": {"identity": {}, "definition": {"adapter": str}},
    "judges": {...: {}},
    "suites": {...: OF_SUITE},
}
RUN = {
    "model": str,
    "provenance": {**FACTS, "suites": {...: {**OF_SUITE, "suite": str}}},
    "metrics": {...: {...: int | float}},
    "tables": [{"suite": str, "measure": str, "field": str, "value": str}],
}


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Whatever a damaged file makes its readers raise, as :class:`ResultsError`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{where}: not results that Refract wrote ({reason})") from None


def run_files(path: Path) -> dict[str, Path]:
    """The files that :func:`write_run` writes beside a run's results, by what they hold."""
    return {
        "outcomes": path.with_suffix(".outcomes.csv"),
        "what ran": path.with_suffix(".ran.json"),
    }


def write_run(
    path: Path,
    results: Row,
    outcomes: Sequence[Row],
    made: Row,
    rows: Iterable[Row] = (),
    *,
    rows_path: Path | None = None,
) -> None:
    """Writes what a run of ``refract run`` gave: its results, the outcomes and what ``made`` its
    answers beside them, and its rows with their texts where they have a path."""
    write_json(path, results)
    beside = run_files(path)
    write_table(beside["outcomes"], outcome_columns(outcomes), outcomes)
    write_json(beside["what ran"], made)
    if rows_path is not None:
        write_rows(rows_path, rows)


def suite_provenance(definition: Mapping[str, Any], samples: int, **origin: str) -> Row:
    """What the numbers of one suite were made of (``provenance.schema.json`` beside this module).

    ``definition`` is the suite's as in params.yaml, with its judges; ``samples`` how often each prompt
    was answered; ``origin`` what it is called and the hashes of its rows.
    """
    facts: Row = {
        **origin,
        "judges": definition["judges"],
        "cut_off": definition.get("cut_off") or "judged",
        "cluster": definition.get("cluster"),
    }
    return facts if samples == 1 else {**facts, "samples": samples}


def compare_sides(a: Side, b: Side, settings: DecisionSettings = DEFAULTS) -> ComparedSides:
    """All paired comparisons of two sides.

    Models are paired by name, or, with one on each side, as they are. Raises
    :class:`ResultsError` where nothing can be compared.
    """
    pairs = [(model, model) for model in a.results if model in b.results]
    if len(a.results) == len(b.results) == 1:
        pairs = list(zip(a.results, b.results, strict=True))
    if not pairs:
        raise ResultsError(
            f"no model is on both sides: A has {', '.join(a.results)}, B has "
            f"{', '.join(b.results)}; name one with REVISION:MODEL"
        )
    alone = [
        f"only in {side.name}: {', '.join(models)}"
        for index, side in enumerate((a, b))
        if (models := [model for model in side.results if model not in [p[index] for p in pairs]])
    ]
    groups: list[tuple[str, PairedOutcomes]] = []
    differs: list[tuple[str, str, str]] = []  # model, suite (or none), what
    refused: list[tuple[str, str, str]] = []
    for first, second in pairs:
        name = first if first == second else f"{first} → {second}"
        left, right = a.results[first], b.results[second]
        conditions = check_conditions(left.provenance, right.provenance)
        differs += [(name, suite, what) for suite, what in conditions.notes]
        refused += [(name, suite, why) for suite, why in conditions.refused.items()]
        compared = [
            [row for row in result.outcomes if row["suite"] not in conditions.refused]
            for result in (left, right)
        ]
        groups += [(name, group) for group in pair_outcomes(*compared)]
    if not any(group.pairs for _, group in groups):
        raise ResultsError(
            "nothing to compare: "
            + ("; ".join(_grouped(refused)) or "no prompt is on both sides with the same text")
        )
    repeated = dict.fromkeys(
        (name, group.suite, f"(no change) the clean prompts count in {group.repeats} alone")
        for name, group in groups
        if group.repeats
    )
    # What bears on the most comes first.
    notes = [f"not compared: {reason}" for reason in _grouped(refused)]
    notes += [*alone, *_grouped(differs), *_grouped(repeated)]
    differences = compare_groups([group for _, group in groups], settings)
    of_models = [replace(x, model=name) for (name, _), x in zip(groups, differences, strict=True)]
    return ComparedSides(a.name, b.name, notes, settings.confidence, of_models)


def _grouped(notes: Iterable[tuple[str, str, str]]) -> list[str]:
    """Merged notes: one line each, with the models and suites that it is about."""
    suites_of: dict[tuple[str, str], list[str]] = {}
    for model, suite, what in notes:
        suites_of.setdefault((what, model), []).extend([suite] if suite else [])
    models_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (what, model), suites in suites_of.items():
        models_of.setdefault((what, tuple(suites)), []).append(model)
    return [
        f"{', '.join(models)}{' on ' if suites else ''}{', '.join(suites)}: {what}"
        for (what, suites), models in models_of.items()
    ]


class Conditions(NamedTuple):
    """Notes for the reader, each with the suite it is of (or none), and for each suite that is not to be
    compared the reason."""

    notes: list[tuple[str, str]]
    refused: dict[str, str]


def check_conditions(first: Row | None, second: Row | None) -> Conditions:
    """What differs between the provenance of two results besides their outcomes.

    A suite is refused where both the model and the way it was judged differ: whatever the numbers
    say could then come from either. None stands for a result without provenance.
    """
    if first is None or second is None:
        sides = " and ".join(name for name, side in (("A", first), ("B", second)) if side is None)
        unknown = f"{sides}: no provenance; judges and settings are unknown"
        return Conditions([("", unknown)], {})
    notes, refused = [], {}
    changed = differing(first["model"]["identity"], second["model"]["identity"])
    if changed:
        notes.append(("", "the models differ: " + "; ".join(changed)))
    seeds = first["model"].get("seed"), second["model"].get("seed")
    if seeds[0] != seeds[1]:
        notes.append(("", f"the seeds differ: {seeds[0]} → {seeds[1]}"))
    for suite, one in first["suites"].items():
        other = second["suites"].get(suite)
        if other is None:
            continue
        if one["sha256"] != other["sha256"]:
            hashes = f"{one['sha256'][:12]} → {other['sha256'][:12]}"
            notes.append((suite, f"the suite's file differs: {hashes}"))
        elif one["prompts_sha256"] != other["prompts_sha256"]:
            notes.append((suite, "drawn or perturbed differently from the same file"))
        scoring = differing(_scoring(first, one), _scoring(second, other))
        if scoring and changed:
            refused[suite] = (
                "both the models and the judging differ, so that a difference could come from "
                f"either ({'; '.join(scoring)}); judge both alike and compare again"
            )
        elif scoring:
            what = f"the judging differs, the model does not: {'; '.join(scoring)}"
            notes.append((suite, what))
    return Conditions(notes, refused)


def _scoring(provenance: Row, suite: Row) -> Row:
    """What decides the outcomes of a suite's answers."""
    judge = provenance["judges"][suite["judges"][0]]
    return {"judge": judge, "cut_off": suite.get("cut_off")}


def differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The values that differ between two JSON objects, as ``key: first → second``."""
    found = []
    for key in sorted({*first, *second}):
        a, b = first.get(key), second.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differing(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}: {_short(a)} → {_short(b)}")
    return found


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
