"""Where results can be (the working tree, a git revision, a folder, a file of ``refract run``), and what
differs between two of them."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import git
from refract.core.errors import RefractError
from refract.core.jsonl import (
    has_form,
    parse_json,
    sha256_file,
    sha256_json,
    write_json,
    write_rows,
)
from refract.core.params import DecisionSettings, grid, parse_yaml
from refract.core.tables import Line, parse_table, read_table, write_table
from refract.core.types import Row
from refract.core.vocabulary import outcome_columns
from refract.rates.comparison import (
    DEFAULTS,
    NEEDED,
    PairedOutcomes,
    compare_groups,
    is_primary,
    pair_outcomes,
)
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Difference, Rate
from refract.results.current import ReadFile, current_note, differing, named, not_current
from refract.results.table_rows import rates_from_rows


class ResultsError(RefractError, ValueError):
    """Results cannot be found or used; the message says what to name or run instead."""

    exit_code = 2


class EditedError(ResultsError):
    """Results are not as they were written, so that nothing is decided on them."""

    exit_code = 1


class Result(NamedTuple):
    """One model's outcomes, its provenance (None where there is none that can be used), and its rates
    (empty of outcomes alone)."""

    outcomes: Sequence[Mapping[str, str]]
    provenance: Row | None
    rates: Sequence[Rate] = ()


class Side(NamedTuple):
    """Results by model, what they are called, and why they are not what ``params.yaml`` beside them asks
    for (:func:`refract.results.current.not_current`)."""

    name: str
    results: dict[str, Result]
    reasons: Sequence[str] = ()


@dataclass(frozen=True)
class ComparedSides:
    """What each side is, what else differs between them, and all paired differences, b − a, at a
    confidence. ``undecided`` are the notes that keep a build from passing: numbers that are
    not what their params.yaml asks for, and suites that cannot be compared."""

    a: str
    b: str
    notes: list[str]
    confidence: float
    differences: list[Difference]
    undecided: list[str]


def resolve_commit(root: Path, revision: str) -> str | None:
    """The full hash of a revision's commit, or None if there is none."""
    sha = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return sha.strip() if sha else None


def find_side(root: Path, spec: str | None) -> Side:
    """The results that a name on the command line stands for, in the project at ``root``.

    None is the working tree. Otherwise, in this order: a results file of ``refract run`` or an outcomes
    CSV; the folder of a project; a model of the grid; a git revision; ``REVISION:MODEL``. Raises
    :class:`ResultsError`."""
    if spec is None:
        return read_side(root)
    path = Path(spec)
    if path.is_file():
        return Side(spec, _read_file(path))
    if path.is_dir():
        return read_side(path, name=spec)
    models = tree_models(root)
    if spec in models:
        return read_side(root, [spec], name=spec)
    if commit := resolve_commit(root, spec):
        return read_side(root, name=f"{spec} ({commit[:9]})", commit=commit)
    revision, colon, model = spec.rpartition(":")
    if colon and (commit := resolve_commit(root, revision)):
        name = f"{model} at {revision} ({commit[:9]})"
        return read_side(root, [model], name=name, commit=commit)
    raise ResultsError(
        f"{spec!r} is not a file, a folder, a model of the grid ({', '.join(models)}), a git revision "
        "or REVISION:MODEL"
    )


def read_tree(root: Path, models: Sequence[str] | None = None) -> dict[str, Result]:
    """The results in a project's folder, of the grid's models unless some are named, unchecked."""
    return _read_models(_reader(root), tree_models(root) if models is None else models)


def read_side(
    root: Path, models: Sequence[str] | None = None, *, name: str = "working tree", commit: str = ""
) -> Side:
    """The same as a side, checked against params.yaml; of a ``commit`` read from git alone. Raises
    :class:`ResultsError`."""
    read = _reader(root, commit)
    params = _read_params(root, read, commit)
    wanted = grid(params, "models") if models is None else models
    results = _read_models(read, wanted, commit)
    facts = {model: result.provenance for model, result in results.items()}
    return Side(name, results, not_current(params, facts, read))


def tree_models(root: Path) -> list[str]:
    """The models in the grid of a project. Raises :class:`ResultsError`."""
    return grid(_read_params(root, _reader(root)), "models")


def _reader(root: Path, commit: str = "") -> ReadFile:
    @functools.cache
    def read(path: str) -> bytes | None:
        if commit:
            text = git(root, "show", f"{commit}:./{path}")
            return None if text is None else text.encode("utf-8", "surrogateescape")
        return (root / path).read_bytes() if (root / path).is_file() else None

    return read


def _of(commit: str) -> str:
    return f" of commit {commit[:9]}" if commit else ""


def _read_params(root: Path, read: ReadFile, commit: str = "") -> Mapping[str, Any]:
    content = read("params.yaml")
    if content is None:
        raise ResultsError(
            f"{root} holds no params.yaml{_of(commit)}: name two results files, or change to a "
            "project's folder"
        )
    return parse_yaml(content, f"params.yaml{_of(commit)}")


def _read_models(read: ReadFile, models: Sequence[str], commit: str = "") -> dict[str, Result]:
    results, missing = {}, []
    remedy = "metrics/ was not committed after dvc repro" if commit else "run: dvc repro"
    for model in models:
        held = [f"metrics/{kind}/{model}.csv" for kind in ("outcomes", "tables")]
        if any(read(path) is None for path in held):
            missing.append(model)
            continue
        path = f"metrics/provenance/{model}.json"
        try:
            facts = read(path)
            provenance = parse_json(facts) if facts else None
            if facts and not has_form(provenance, FACTS):
                raise ValueError("incomplete provenance")
            outcomes, table = (_rows(read(path := each)) for each in held)
            rates = rates_from_rows(table, model)
        except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
            raise ResultsError(
                f"{path}{_of(commit)}: not as dvc repro writes it ({error}); {remedy}"
            ) from None
        results[model] = Result(_usable(held[0] + _of(commit), outcomes), provenance, rates)
    if missing:
        raise ResultsError(f"no results of {named(missing)}{_of(commit)}; {remedy}")
    return results


def _rows(content: bytes | None) -> list[Line]:
    if not (rows := parse_table(content or b"")):
        raise ValueError("it holds no rows")
    return rows


def _read_file(path: Path) -> dict[str, Result]:
    if path.suffix == ".csv":
        name = path.stem.removesuffix(".outcomes")
        return {name: Result(_usable(str(path), read_table(path)), None)}
    results, outcomes = read_run(path), run_files(path)["outcomes"]
    if not outcomes.is_file():
        raise ResultsError(f"{path}: its outcomes ({outcomes.name}) are not beside it")
    rows = _usable(str(outcomes), run_outcomes(path, results))
    rates = rates_from_rows(results["tables"], results["model"])
    return {results["model"]: Result(rows, results["provenance"], rates)}


def _usable(where: str, rows: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
    if not rows:
        raise ResultsError(f"{where}: holds no outcomes")
    if absent := [name for name in NEEDED if name not in rows[0]]:
        raise ResultsError(f"{where}: not an outcomes table: it lacks {', '.join(absent)}")
    return rows


def read_run(path: Path, *, edited: bool = False) -> Row:
    """Reads a results file of ``refract run``. Raises :class:`ResultsError` for any other file and,
    unless it may be ``edited``, :class:`EditedError` where it or its rows are not as they were written.
    """
    try:
        results = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read ({error})") from None
    if not has_form(results, RUN):
        raise ResultsError(f"{path}: not a results file of refract run")
    try:
        rates_from_rows(results["tables"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{path}: not results that Refract wrote ({reason})") from None
    results = dict(results)
    if not edited:
        _check_hash(path, path, results, "sha256", _contents_sha256(results))
        if (rows := path.with_suffix(RUN_ROWS)).is_file():
            _check_hash(path, rows, results, "rows_sha256", sha256_file(rows))
    return results


def _contents_sha256(results: Row) -> str:
    return sha256_json({key: value for key, value in results.items() if key != "sha256"})


def _check_hash(path: Path, file: Path, results: Row, key: str, sha256: str) -> None:
    """Raises :class:`EditedError` where a file of a run has another hash than its results say."""
    written = results.get(key)
    if written != sha256:
        why = f"that run's is {str(written)[:12]}…" if written else f"{path} names none ({key})"
        raise EditedError(
            f"not decided: {file} is not of the run that wrote {path}: its SHA-256 is {sha256[:12]}…, "
            f"{why}; run: refract reproduce {path} --exec"
        )


# What results hold, as far as it is read again; see has_form.
OF_SUITE = {"sha256": str, "prompts_sha256": str, "judges": [str], "draw": {"total": int}}
FACTS = {
    "model": {"identity": {}, "definition": {"adapter": str}},
    "judges": {...: {}},
    "suites": {...: OF_SUITE},
}
RUN = {
    "model": str,
    "provenance": FACTS,
    "metrics": {...: {...: int | float}},
    "tables": [{"suite": str, "measure": str, "judge": str, "field": str, "value": str}],
}


# Rows that `refract run --rows` wrote under this name are taken for those of the results beside them.
RUN_ROWS = ".rows.jsonl"


def run_files(path: Path) -> dict[str, Path]:
    """The files that :func:`write_run` writes beside a run's results, by what they hold."""
    kinds = {"outcomes": ".outcomes.csv", "what ran": ".ran.json"}
    return {kind: path.with_suffix(suffix) for kind, suffix in kinds.items()}


def run_outcomes(path: Path, results: Row) -> list[dict[str, str]]:
    """The outcomes beside a results file of ``refract run``, none without them. Raises
    :class:`EditedError` for those of another run."""
    outcomes = run_files(path)["outcomes"]
    if not outcomes.is_file():
        return []
    _check_hash(path, outcomes, results, "outcomes_sha256", sha256_file(outcomes))
    return read_table(outcomes)


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
    answers beside them, and its rows with their texts where they have a path. The results hold the
    hashes of the outcomes and of themselves."""
    beside = run_files(path)
    write_table(beside["outcomes"], outcome_columns(outcomes), outcomes)
    if rows_path is not None:
        write_rows(rows_path, rows)
    results = {**results, "outcomes_sha256": sha256_file(beside["outcomes"])}
    write_json(path, {**results, "sha256": _contents_sha256(results)})
    write_json(beside["what ran"], made)


def compare_sides(a: Side, b: Side, settings: DecisionSettings = DEFAULTS) -> ComparedSides:
    """All paired comparisons of two sides.

    Models are paired by name, or, with one on each side, as they are. Raises :class:`ResultsError` where
    nothing can be compared."""
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
        for side, paired in zip((a, b), zip(*pairs, strict=True), strict=True)
        if (models := [model for model in side.results if model not in paired])
    ]
    # A model that left A has no pair in which a drop could show.
    gone = [model for model in a.results if model not in [first for first, _ in pairs]]
    gone = [
        model for model in gone if any(is_primary(x, settings) for x in a.results[model].outcomes)
    ]
    groups: list[tuple[str, PairedOutcomes]] = []
    errors: list[JudgeError | None] = []
    live: list[bool] = []
    differs: list[tuple[str, str, str]] = []  # model, suite (or none), what
    refused: list[tuple[str, str, str]] = []
    for first, second in pairs:
        name = first if first == second else f"{first} → {second}"
        left, right = a.results[first], b.results[second]
        of_pair, not_compared = check_conditions(left.provenance, right.provenance)
        differs += [(name, suite, what) for suite, what in of_pair]
        refused += [(name, suite, why) for suite, why in not_compared.items()]
        compared = [
            [row for row in result.outcomes if row["suite"] not in not_compared]
            for result in (left, right)
        ]
        paired = pair_outcomes(*compared)
        groups += [(name, group) for group in paired]
        between = errors_between(left.provenance, right.provenance)
        errors += [between.get(group.suite) for group in paired]
        live += [not stand_ins({"A": left.provenance, "B": right.provenance})] * len(paired)
    if not any(group.pairs for _, group in groups):
        raise ResultsError(
            "nothing to compare: "
            + ("; ".join(_grouped(refused)) or "no prompt is on both sides with the same text")
        )
    alike = "(no change) the clean prompts count in {} alone".format
    repeated = dict.fromkeys((m, x.suite, alike(x.repeats)) for m, x in groups if x.repeats)
    # What bears on the most comes first.
    undecided = [f"{side.name}: {current_note(side.reasons)}" for side in (a, b) if side.reasons]
    undecided += [f"not compared: {reason}" for reason in _grouped(refused)]
    undecided += [f"B has no primary measure of {named(gone)}, which A has"] if gone else []
    notes = [*undecided, *alone, *_grouped(differs), *_grouped(repeated)]
    differences = compare_groups([x for _, x in groups], settings, live, errors=errors)
    of_models = [replace(x, model=name) for (name, _), x in zip(groups, differences, strict=True)]
    return ComparedSides(a.name, b.name, notes, settings.confidence, of_models, undecided)


def errors_between(first: Row | None, second: Row | None) -> dict[str, JudgeError]:
    """By suite, what is known of the judge's error where two results are of two models that were judged
    alike. Of one model twice its errors are taken to be the same, so that they cancel."""
    if not first or not second or first["model"]["identity"] == second["model"]["identity"]:
        return {}
    errors = {}
    for suite, one in first["suites"].items():
        other = second["suites"].get(suite)
        known = other and (other.get("judge_error") or one.get("judge_error"))
        if known and _deciding(first, one) == _deciding(second, other):
            errors[suite] = JudgeError(**known)
    return errors


def _deciding(facts: Row, suite: Row) -> Row | None:
    """The definition of the judge that decides a suite's refusals: the first."""
    definition: Row | None = facts["judges"].get(next(iter(suite["judges"]), ""))
    return definition


def stand_ins(provenance: Mapping[str, Row | None]) -> list[str]:
    """The models that did not answer for themselves: recorded answers and synthetic models."""
    return [
        model
        for model, facts in provenance.items()
        if facts and facts["model"]["definition"]["adapter"] in ("recorded", "synthetic")
    ]


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


def check_conditions(
    first: Row | None, second: Row | None
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What differs between the provenance of two results besides their outcomes: notes, each with the
    suite it is of (or none), and for each suite that is not to be compared the reason.

    A suite is refused where both the model and the way it was judged differ: whatever the numbers say
    could then come from either. None stands for a result without provenance."""
    if first is None or second is None:
        sides = " and ".join(name for name, side in (("A", first), ("B", second)) if side is None)
        unknown = f"{sides}: no provenance; judges and settings are unknown"
        return [("", unknown)], {}
    notes, refused = [], {}
    changed = differing(first["model"]["identity"], second["model"]["identity"])
    if changed:
        notes.append(("", "the models differ: " + "; ".join(changed)))
    seeds = first["model"].get("seed"), second["model"].get("seed")
    if seeds[0] != seeds[1]:
        notes.append(("", f"the seeds differ: {seeds[0]} → {seeds[1]}"))
    for suite, one in first["suites"].items():
        if (other := second["suites"].get(suite)) is None:
            continue
        was, now = one["sha256"], other["sha256"]
        if was != now:
            notes.append((suite, f"the suite's file differs: {was[:12]} → {now[:12]}"))
        elif one["prompts_sha256"] != other["prompts_sha256"]:
            notes.append((suite, "drawn or perturbed differently from the same file"))
        # What decides the outcomes of the suite's answers.
        judged = [
            {"judge": _deciding(facts, of), "cut_off": of.get("cut_off")}
            for facts, of in ((first, one), (second, other))
        ]
        scoring = differing(judged[0], judged[1])
        if scoring and changed:
            refused[suite] = (
                "both the models and the judging differ, so that a difference could come from "
                f"either ({'; '.join(scoring)}); judge both alike and compare again"
            )
        elif scoring:
            same = "the judging differs, the model does not"
            notes.append((suite, f"{same}: {'; '.join(scoring)}"))
    return notes, refused
