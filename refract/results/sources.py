"""Where results can be (the working tree, a git revision, a folder, a file of ``refract run``), and
what differs between two of them."""

from __future__ import annotations

import csv
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from refract.core.params import DecisionSettings, grid, parse_yaml, with_named_judges
from refract.core.tables import parse_table, read_table, write_table
from refract.core.types import Row
from refract.core.vocabulary import outcome_columns
from refract.rates.comparison import (
    DEFAULTS,
    NEEDED,
    PairedOutcomes,
    compare_groups,
    is_primary,
    pair_outcomes,
    pairing_notes,
)
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Difference, Rate
from refract.results.current import (
    FILES,
    ReadFile,
    current_note,
    differing,
    named,
    not_current,
)
from refract.results.recounted import problems_kept, recount_problems
from refract.results.table_rows import rates_from_rows


class ResultsError(RefractError, ValueError):
    """Results cannot be found or used; the message says what to name or run instead."""

    exit_code = 2


class EditedError(ResultsError):
    """Results are not as they were written, so that nothing is decided on them."""

    exit_code = 1


class Result(NamedTuple):
    """One model's outcomes, its provenance (None where there is none that can be used), and its
    rates (empty of outcomes alone)."""

    outcomes: Sequence[Mapping[str, str]]
    provenance: Row | None
    rates: Sequence[Rate] = ()


class Side(NamedTuple):
    """Results by model, what they are called, and why they are not what ``params.yaml`` beside them
    asks for (:func:`refract.results.current.not_current`). ``folder`` is the one whose files they
    are as they lie there, None for those of a commit or a results file."""

    name: str
    results: dict[str, Result]
    reasons: Sequence[str] = ()
    folder: Path | None = None

    @property
    def provenance(self) -> dict[str, Row]:
        """That of the models that have one that can be used; ``reasons`` name the others."""
        return {model: x.provenance for model, x in self.results.items() if x.provenance}


class Note(NamedTuple):
    """What differs besides the numbers, and the models and suites that it is of, if not of all."""

    text: str
    models: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()

    def line(self, *, of_models: bool = True) -> str:
        """The note with what it is of before it; ``of_models``: the models as well."""
        names = [", ".join(self.models)] if self.models and of_models else []
        if self.suites:
            names.append(f"on {', '.join(self.suites)}")
        return f"{' '.join(names)}: {self.text}" if names else self.text


@dataclass(frozen=True)
class ComparedSides:
    """What each side is, what else differs between them, and all paired differences, b − a, at a
    confidence. ``undecided`` are the notes that keep a build from passing: numbers that are not
    what their params.yaml asks for, and suites that cannot be compared."""

    a: str
    b: str
    notes: list[Note]
    confidence: float
    differences: list[Difference]
    undecided: list[str]


def resolve_commit(root: Path, revision: str) -> str | None:
    """The full hash of a revision's commit, or None if there is none."""
    commit = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    return commit.strip() if commit else None


WRITTEN_BY = "results are what `refract run --out NAME.json` writes"


def find_side(root: Path, spec: str | None) -> Side:
    """The results that a name on the command line stands for, in the project at ``root``.

    None is the working tree. Otherwise, in this order: a results file of ``refract run`` or an
    outcomes CSV; the folder of a project; a model of the grid; a git revision; ``REVISION:MODEL``.
    Raises :class:`ResultsError`."""
    if spec is None:
        return read_side(root)
    path = Path(spec)
    if path.suffix in (".json", ".csv") or path.is_file():
        if not path.exists():
            raise ResultsError(f"no file {spec}; {WRITTEN_BY}")
        return Side(spec, _read_file(path))
    if path.is_dir():
        return read_side(path, name=spec)
    here = reader(root)("params.yaml") is not None
    models = tree_models(root) if here else []
    if spec in models:
        return read_side(root, [spec], name=spec)
    commit = resolve_commit(root, spec)
    if commit:
        return read_side(root, name=f"{spec} ({commit[:9]})", commit=commit)
    revision, colon, model = spec.rpartition(":")
    commit = resolve_commit(root, revision) if colon else None
    if commit:
        name = f"{model} at {revision} ({commit[:9]})"
        return read_side(root, [model], name=name, commit=commit)
    grid_of = ", ".join(models) if here else f"none: {root.absolute()} holds no params.yaml"
    raise ResultsError(
        f"{spec!r} is not a file, a folder, a model of the grid ({grid_of}), a git revision "
        f"or REVISION:MODEL; {WRITTEN_BY}"
    )


def read_tree(root: Path, models: Sequence[str] | None = None) -> dict[str, Result]:
    """The results in a project's folder, of the grid's models unless some are named, unchecked.
    Raises :class:`ResultsError`."""
    return _read_models(reader(root), tree_models(root) if models is None else models)


def read_side(
    root: Path, models: Sequence[str] | None = None, *, name: str = "working tree", commit: str = ""
) -> Side:
    """The results of a folder, or of a ``commit``, read from git alone, as a side: checked against
    params.yaml, and its rates against its outcomes. Raises :class:`ResultsError`."""
    read = reader(root, commit)
    params = _read_params(root, read, commit)
    wanted = grid(params, "models") if models is None else models
    results = _read_models(read, wanted, commit)
    facts = {model: result.provenance for model, result in results.items()}

    def ignored(path: str) -> bool:
        return git(root, "check-ignore", "--quiet", "--", path) is not None

    reasons = not_current(params, facts, read, ignored)
    for model, result in results.items():
        if result.provenance:
            written = [read(file.format(model)) for file in FILES]
            problems = problems_kept(written, result.rates, result.outcomes, result.provenance)
            reasons += [f"metrics/tables/{model}.csv: {problem}" for problem in problems]
    return Side(name, results, reasons, None if commit else root)


def tree_models(root: Path) -> list[str]:
    """The models in the grid of a project. Raises :class:`ResultsError`."""
    return grid(_read_params(root, reader(root)), "models")


def reader(root: Path, commit: str = "") -> ReadFile:
    """Reads files of a project, or of a commit of it, by their paths from its folder."""

    @functools.cache
    def read(path: str) -> bytes | None:
        if commit:
            text = git(root, "show", f"{commit}:./{path}")
            return None if text is None else text.encode("utf-8", "surrogateescape")
        return (root / path).read_bytes() if (root / path).is_file() else None

    return read


def _commit_note(commit: str) -> str:
    return f" of commit {commit[:9]}" if commit else ""


def _read_params(root: Path, read: ReadFile, commit: str = "") -> Mapping[str, Any]:
    content = read("params.yaml")
    if content is None:
        raise ResultsError(
            f"{root.absolute()} holds no params.yaml{_commit_note(commit)}: name results files, or "
            "change to a project's folder"
        )
    return with_named_judges(parse_yaml(content, f"params.yaml{_commit_note(commit)}"))


def _read_models(read: ReadFile, models: Sequence[str], commit: str = "") -> dict[str, Result]:
    """The results of some models. Raises :class:`ResultsError` where dvc repro wrote none."""
    results, missing = {}, []
    note = _commit_note(commit)
    remedy = "metrics/ was not committed after dvc repro" if commit else "run: dvc repro"
    for model in models:
        tables, outcomes = f"metrics/tables/{model}.csv", f"metrics/outcomes/{model}.csv"
        facts = f"metrics/provenance/{model}.json"
        if read(outcomes) is None or read(tables) is None:
            missing.append(model)
            continue
        path = facts
        try:
            content = read(facts)
            provenance = parse_json(content) if content else None
            if content and not has_form(provenance, FACTS):
                raise ValueError("incomplete")
            path = outcomes
            lines = _rows(read(outcomes))
            path = tables
            rates = rates_from_rows(_rows(read(tables)), model)
        except UNREADABLE as error:
            why = "another release wrote them, or they were edited" if commit else remedy
            raise ResultsError(
                f"the results of {model}{note} in metrics/ are not as dvc repro writes them "
                f"({path}: {error}); {why}"
            ) from None
        _check_usable(outcomes + note, lines)
        results[model] = Result(lines, provenance, rates)
    if missing:
        raise ResultsError(f"no results of {named(missing)}{note}; {remedy}")
    return results


def _rows(content: bytes | None) -> list[dict[str, str]]:
    """The rows of a table. Raises ValueError where there are none."""
    rows = parse_table(content or b"")
    if not rows:
        raise ValueError("it holds no rows")
    return rows


def _read_file(path: Path) -> dict[str, Result]:
    """The results in a file: of outcomes, or of a run."""
    if path.suffix == ".csv":
        outcomes = read_table(path)
        _check_usable(str(path), outcomes)
        return {path.stem.removesuffix(".outcomes"): Result(outcomes, None)}
    results, file = read_run(path), run_files(path)["outcomes"]
    if not file.is_file():
        raise ResultsError(f"{path}: its outcomes ({file.name}) are not beside it")
    outcomes = run_outcomes(path, results)
    _check_usable(str(file), outcomes)
    rates = rates_from_rows(results["tables"], results["model"])
    return {results["model"]: Result(outcomes, results["provenance"], rates)}


def _check_usable(where: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Raises :class:`ResultsError` for outcomes that cannot be compared prompt by prompt."""
    if not rows:
        raise ResultsError(f"{where}: holds no outcomes")
    absent = [name for name in NEEDED if name not in rows[0]]
    if absent:
        raise ResultsError(
            f"{where}: not an outcomes table: it lacks {', '.join(absent)}; `refract run --out "
            "NAME.json` writes one beside its results: NAME.outcomes.csv"
        )


def read_run(path: Path, *, edited: bool = False) -> Row:
    """Reads a results file of ``refract run``. Raises :class:`ResultsError` for any other file and,
    unless it may be ``edited``, :class:`EditedError` where it or its rows are not as they were
    written."""
    try:
        results = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read ({error}); {WRITTEN_BY}") from None
    if not has_form(results, RUN):
        raise ResultsError(f"{path}: not a results file of refract run; {WRITTEN_BY}")
    try:
        rates_from_rows(results["tables"])
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}"
        raise ResultsError(f"{path}: not results that Refract wrote ({reason})") from None
    results = dict(results)
    if not edited:
        _check_hash(path, path, results=results, key="sha256", sha256=_contents_sha256(results))
        rows = path.with_suffix(RUN_ROWS)
        if rows.is_file():
            _check_hash(path, rows, results=results, key="rows_sha256", sha256=sha256_file(rows))
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
            f"{why}; make it again: refract reproduce {path} prints how"
        )


# What reading a file raises that Refract did not write.
UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, csv.Error)
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


# Rows that `refract run --rows` wrote under this name are taken for those of the results beside
# them.
RUN_ROWS = ".rows.jsonl"


def run_files(path: Path) -> dict[str, Path]:
    """The files that :func:`write_run` writes beside a run's results, by what they hold."""
    return {
        "outcomes": path.with_suffix(".outcomes.csv"),
        "what ran": path.with_suffix(".ran.json"),
    }


def run_outcomes(path: Path, results: Row) -> list[dict[str, str]]:
    """The outcomes beside a results file of ``refract run``, none without them. Raises
    :class:`EditedError` for those of another run, and where they do not add up to the rates."""
    outcomes = run_files(path)["outcomes"]
    if not outcomes.is_file():
        return []
    _check_hash(
        path, outcomes, results=results, key="outcomes_sha256", sha256=sha256_file(outcomes)
    )
    lines = read_table(outcomes)
    rates = rates_from_rows(results["tables"])
    problems = recount_problems(rates, lines, results["provenance"])
    if problems:
        raise EditedError(
            f"not decided: {path} is not what its outcomes add up to: "
            f"{named(problems, '; ')}; make it again: refract reproduce {path} prints how"
        )
    return lines


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


Notes = list[tuple[str, str, str]]  # of a model and a suite (or none), what is said


def compare_sides(a: Side, b: Side, settings: DecisionSettings = DEFAULTS) -> ComparedSides:
    """All paired comparisons of two sides.

    Models are paired by name, or, with one on each side, as they are. Raises :class:`ResultsError`
    where nothing can be compared."""
    pairs = {model: model for model in a.results if model in b.results}
    if len(a.results) == len(b.results) == 1:
        pairs = dict(zip(a.results, b.results, strict=True))
    if not pairs:
        raise ResultsError(
            f"no model is on both sides: A has {', '.join(a.results)}, B has "
            f"{', '.join(b.results)}; name one with REVISION:MODEL"
        )
    groups: list[PairedOutcomes] = []
    names: list[str] = []  # of the model of each group
    differing_notes: Notes = []
    refused_notes: Notes = []
    paired_notes: Notes = []
    for model_a, model_b in pairs.items():
        name = model_a if model_a == model_b else f"{model_a} → {model_b}"
        results = a.results[model_a], b.results[model_b]
        differs, refused = check_conditions(results[0].provenance, results[1].provenance)
        differing_notes += [(name, suite, text) for suite, text in differs]
        refused_notes += [(name, suite, why) for suite, why in refused.items()]
        paired = pair_results(*results, without=refused)
        paired_notes += _paired_notes(name, paired)
        groups += paired
        names += [name] * len(paired)
    not_compared = [note.line() for note in _grouped(refused_notes)]
    if not any(group.pairs for group in groups):
        none = "no prompt has the same suite, id, text and category on both sides"
        raise ResultsError(f"nothing to compare: {'; '.join(not_compared) or none}")
    differences = []
    for name, difference in zip(names, compare_groups(groups, settings), strict=True):
        differences.append(replace(difference, model=name))
    only_a = [model for model in a.results if model not in pairs]
    only_b = [model for model in b.results if model not in pairs.values()]
    undecided = _undecided(a, b, not_compared, only_a, settings)
    notes = [Note(text) for text in undecided]  # what bears on the most comes first
    for side, models in ((a, only_a), (b, only_b)):
        if models:
            notes.append(Note(f"only in {side.name}: {', '.join(models)}"))
    notes += _grouped(differing_notes) + _grouped(paired_notes)
    confidence = settings.confidence
    return ComparedSides(a.name, b.name, notes, confidence, differences, undecided)


def _paired_notes(model: str, groups: Sequence[PairedOutcomes]) -> Notes:
    """What is said of the pairs of one model: what they leave out, and which prompts count in
    another suite."""
    notes = [(model, suite, text) for suite, text in pairing_notes(groups)]
    for group in groups:
        if group.repeats:
            text = f"the clean prompts count in {group.repeats} alone"
            notes.append((model, group.suite, text))
    return list(dict.fromkeys(notes))


def _undecided(
    a: Side, b: Side, not_compared: Sequence[str], only_a: Sequence[str], settings: DecisionSettings
) -> list[str]:
    """What keeps a build from passing, whatever the differences are."""
    undecided = []
    for side in (a, b):
        if side.reasons:
            undecided.append(f"{side.name}: {current_note(side.reasons)}")
    undecided += [f"not compared: {reason}" for reason in not_compared]
    # A model that left A has no pair in which a drop could show.
    gone = []
    for model in only_a:
        if any(is_primary(row, settings) for row in a.results[model].outcomes):
            gone.append(model)
    if gone:
        undecided.append(f"B has no primary measure of {named(gone)}, which A has")
    return undecided


def pair_results(a: Result, b: Result, without: Collection[str] = ()) -> list[PairedOutcomes]:
    """The outcomes of two results, paired, ``without`` some suites. Answers that are not a model's
    own are in no family of tests."""
    side_a = [row for row in a.outcomes if row["suite"] not in without]
    side_b = [row for row in b.outcomes if row["suite"] not in without]
    live = not stand_ins({"A": a.provenance, "B": b.provenance})
    errors = errors_between(a.provenance, b.provenance)
    return pair_outcomes(side_a, side_b, errors, live=live)


def errors_between(a: Row | None, b: Row | None) -> dict[str, JudgeError]:
    """By suite, what is known of the judge's error where two results are of two models that were
    judged alike. Of one model twice its errors are taken to be the same, so that they cancel."""
    if not a or not b or a["model"]["identity"] == b["model"]["identity"]:
        return {}
    errors = {}
    for name, suite in a["suites"].items():
        other = b["suites"].get(name)
        if other is None or deciding_judge(a, suite) != deciding_judge(b, other):
            continue
        known = JudgeError.read(other.get("judge_error") or suite.get("judge_error"))
        if known is not None:
            errors[name] = known
    return errors


def deciding_judge(facts: Row, suite: Row) -> Row | None:
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


def _grouped(notes: Iterable[tuple[str, str, str]]) -> list[Note]:
    """Merged notes, each with all models and suites that it is about."""
    suites_of: dict[tuple[str, str], list[str]] = {}
    models_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for model, suite, text in notes:
        suites_of.setdefault((text, model), []).extend([suite] if suite else [])
    for (text, model), suites in suites_of.items():
        models_of.setdefault((text, tuple(suites)), []).append(model)
    merged = []
    for (text, suite_names), models in models_of.items():
        merged.append(Note(text, tuple(models), suite_names))
    return merged


CALLS = "calls"  # the kind of judge that leaves texts to the next one
COUNTED_BY = ("content_filters", "provider_refusals")  # decisions on which outcomes depend


def check_conditions(a: Row | None, b: Row | None) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What differs between the provenance of two results besides their outcomes: notes, each with
    the suite it is of (or none), and for each suite that is not to be compared the reason.

    A suite is refused where both the model and the way it was judged differ: whatever the numbers say
    could then come from either. None stands for a result without provenance."""
    if a is None or b is None:
        sides = " and ".join(name for name, side in (("A", a), ("B", b)) if side is None)
        return [("", f"{sides}: no provenance; judges and settings are unknown")], {}
    notes: list[tuple[str, str]] = []
    refused: dict[str, str] = {}
    models_differ = differing(a["model"]["identity"], b["model"]["identity"])
    if models_differ:
        notes.append(("", "the models differ: " + "; ".join(models_differ)))
    seeds = (a["model"].get("seed"), b["model"].get("seed"))
    if seeds[0] != seeds[1]:
        notes.append(("", f"the seeds differ: {seeds[0]} → {seeds[1]}"))
    for name, suite in a["suites"].items():
        other = b["suites"].get(name)
        if other is None:
            continue
        if suite["sha256"] != other["sha256"]:
            hashes = f"{suite['sha256'][:12]} → {other['sha256'][:12]}"
            notes.append((name, f"the suite's file differs: {hashes}"))
        elif suite["prompts_sha256"] != other["prompts_sha256"]:
            notes.append((name, "drawn or perturbed differently from the same file"))
        scoring = differing(_judging(a, suite), _judging(b, other))
        if scoring and models_differ:
            refused[name] = (
                "both the models and the judging differ, so that a difference could come from "
                f"either ({'; '.join(scoring)}); judge both alike and compare again"
            )
        elif scoring:
            notes.append((name, f"the judging differs, the model does not: {'; '.join(scoring)}"))
    return notes, refused


def _judging(facts: Row, suite: Row) -> Row:
    """What decides the outcomes of a suite's answers. Decisions that results do not state are the
    defaults, as they were before there was a choice."""
    judge = deciding_judge(facts, suite)
    judging: Row = {"judge": judge, "cut_off": suite.get("cut_off")}
    if judge and judge.get("kind") == CALLS:
        # One of the judges behind it reads the answers that call nothing.
        judging |= {f"judge {name}": facts["judges"].get(name) for name in suite["judges"][1:]}
    stated = facts.get("decisions") or {}
    return judging | {name: stated.get(name, getattr(DEFAULTS, name)) for name in COUNTED_BY}
