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
SHOWN = 4  # names in one message; the rest is counted


def result_files(model: str) -> list[str]:
    """The files in git that hold one model's results, as paths from the project's folder."""
    return [file.format(model) for file in FILES]


def without_results(root: Path, models: Sequence[str]) -> list[str]:
    """The models that lack a file of their results."""
    return [m for m in models if not all((root / path).is_file() for path in result_files(m))]


def remove_left_over(root: Path, models: Sequence[str]) -> list[str]:
    """Removes the results of other models than the grid's, which DVC leaves where they are, and returns
    those models' names."""
    names = {
        path.stem
        for file in FILES[1:]  # beside metrics/MODEL.json stand files that no model has
        for path in (root / file).parent.glob(f"*{Path(file).suffix}")
    }
    removed = sorted(names - set(models))
    for name in removed:
        for path in (*result_files(name), f"metrics/ran/{name}.json"):
            (root / path).unlink(missing_ok=True)
    return removed


def grid_notes(root: Path, models: Sequence[str]) -> list[str]:
    """What a reader of the results of a grid should know: which of its models have none."""
    if missing := without_results(root, models):
        names = named(missing)
        return [f"no results of {names}, which the grid of params.yaml names; run: dvc repro"]
    return []


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
                file = root / path
                if file not in hashes:
                    hashes[file] = sha256_file(file) if file.is_file() else ""
                if not hashes[file] or hashes[file] != of_suite.get(f"{kind}_sha256", hashes[file]):
                    wrong = "not what metrics/ was made of" if hashes[file] else "not here"
                    missing.setdefault((model, suite), []).append(f"{path} is {wrong}")
    return missing


def rows_note(missing: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """What :func:`rows_missing` found as one text, with what brings the rows."""
    files = list(dict.fromkeys(text for texts in missing.values() for text in texts))
    models = list(dict.fromkeys(model for model, _ in missing))
    return (
        f"rows of {named(models)} are missing: {named(files)}; run: dvc checkout (or dvc pull, where "
        "this clone never had them; or dvc repro, which makes them again)"
    )


def named(names: Sequence[str]) -> str:
    """Names for a message: the first few, and how many more."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
