"""Whether what is computed is what ``params.yaml`` asks for: what is missing or left over, and what
mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.core.jsonl import sha256_file

FILES = (
    "metrics/{}.json",
    "metrics/outcomes/{}.csv",
    "metrics/provenance/{}.json",
    "metrics/tables/{}.csv",
)
ROWS = {
    "prompts": "data/prompts/{suite}.jsonl",
    "responses": "data/responses/{model}/{suite}.jsonl",
    "verdicts": "data/verdicts/{model}/{suite}.jsonl",
}
BRINGS_ROWS = (
    "run: dvc checkout (or dvc pull, where this clone never had them; or dvc repro, which makes them "
    "again)"
)
SHOWN = 4  # names in one message; the rest is counted


def result_files(model: str) -> list[str]:
    """The files in git that hold one model's results, as paths from the project's folder."""
    return [file.format(model) for file in FILES]


def without_results(root: Path, models: Sequence[str]) -> dict[str, list[str]]:
    """The models that lack results, each with its files that are not there."""
    absent = {
        model: [path for path in result_files(model) if not (root / path).is_file()]
        for model in models
    }
    return {model: paths for model, paths in absent.items() if paths}


def left_over(root: Path, models: Sequence[str]) -> dict[str, list[str]]:
    """The files of results of other models than the grid's, by model.

    DVC leaves them where they are when a model leaves the grid.
    """
    names = {
        path.stem
        for file in FILES[1:]  # beside metrics/MODEL.json stand files that no model has
        for path in (root / file).parent.glob(f"*{Path(file).suffix}")
    }
    return {
        name: [
            path
            for path in (*result_files(name), f"metrics/ran/{name}.json")
            if (root / path).is_file()
        ]
        for name in sorted(names - set(models))
    }


def remove_left_over(root: Path, models: Sequence[str]) -> list[str]:
    """Removes what :func:`left_over` finds; the names of those models."""
    removed = left_over(root, models)
    for path in (path for paths in removed.values() for path in paths):
        (root / path).unlink()
    return list(removed)


def grid_notes(root: Path, models: Sequence[str]) -> list[str]:
    """What a reader of the results of a grid should know: models without results, and others' that
    are left over."""
    notes = []
    if missing := without_results(root, models):
        paths = [path for absent in missing.values() for path in absent]
        notes.append(
            f"no results of {named(list(missing))}, which the grid of params.yaml names (not here: "
            f"{named(paths)}); run: dvc repro"
        )
    if others := left_over(root, models):
        notes.append(
            f"left out: metrics/ also has results of {named(list(others))}, which the grid of "
            "params.yaml does not name; dvc repro removes them"
        )
    return notes


def rows_missing(
    root: Path, provenance: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], list[str]]:
    """By model and suite, the rows that are not here as the numbers were made of them.

    ``provenance`` by model; each text is a path and what is wrong with it.
    """
    hashes: dict[Path, str] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    for model, facts in provenance.items():
        for suite, of_suite in facts["suites"].items():
            for kind, pattern in ROWS.items():
                path = pattern.format(model=model, suite=suite)
                file, expected = root / path, of_suite.get(f"{kind}_sha256")
                if file not in hashes:
                    hashes[file] = sha256_file(file) if file.is_file() else ""
                if not hashes[file]:
                    missing.setdefault((model, suite), []).append(f"{path} is not here")
                elif expected and hashes[file] != expected:
                    what = f"{path} is not what metrics/ was made of"
                    missing.setdefault((model, suite), []).append(what)
    return missing


def rows_note(missing: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """What :func:`rows_missing` found as one text, with what brings the rows."""
    files = list(dict.fromkeys(text for texts in missing.values() for text in texts))
    models = list(dict.fromkeys(model for model, _ in missing))
    return f"rows of {named(models)} are missing: {named(files)}; {BRINGS_ROWS}"


def named(names: Sequence[str]) -> str:
    """Names for a message: the first few, and how many more."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
