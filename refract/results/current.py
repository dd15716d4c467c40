"""Whether what is computed is what ``params.yaml`` asks for: what is missing or left over, and what
mends it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.agreement.label_files import LABEL_FILE, labels_sha256
from refract.core.jsonl import canonical_json, sha256_file
from refract.core.params import grid, null_settings
from refract.core.types import Row
from refract.rates.comparison import DEFAULTS

FILES = (
    "metrics/{}.json",
    "metrics/outcomes/{}.csv",
    "metrics/tables/{}.csv",
    "metrics/provenance/{}.json",  # written last
)
ROWS = {
    "prompts": "data/prompts/{suite}.jsonl",
    "responses": "data/responses/{model}/{suite}.jsonl",
    "verdicts": "data/verdicts/{model}/{suite}.jsonl",
}
# Everything that the numbers of a suite are counted from.
COUNTED = {**ROWS, "null_verdicts": "data/null_verdicts/{model}/{suite}.jsonl"}
# Of results that were written before labels had a hash.
UNKNOWN = "unknown"
SHOWN = 4  # names in one message; the rest is counted
# A file of a project by its path, None without such a file.
ReadFile = Callable[[str], bytes | None]
Ignored = Callable[[str], bool]  # whether git is not to have the file at a path


def result_files(model: str) -> list[str]:
    """The files in git that hold one model's results, as paths from the project's folder."""
    return [file.format(model) for file in FILES]


def without_results(root: Path, models: Sequence[str]) -> list[str]:
    """The models that lack a file of their results."""
    without = []
    for model in models:
        if not all((root / path).is_file() for path in result_files(model)):
            without.append(model)
    return without


def left_over(root: Path, models: Sequence[str]) -> list[str]:
    """The other models than the grid's that have results, which stay: whoever puts one back into
    the grid has them, and what made them."""
    names = {
        path.stem
        for file in FILES[1:]  # beside metrics/MODEL.json stand files that no model has
        for path in (root / file).parent.glob(f"*{Path(file).suffix}")
    }
    return sorted(names - set(models))


def suite_inputs(params: Mapping[str, Any], suite: str) -> Row:
    """What of ``params.yaml`` a suite's numbers are made of: its definition with those of its
    perturbations, and the seed where prompts are drawn or perturbed."""
    definition: Row = _entries(params, "suites").get(suite) or {}
    known = _entries(params, "perturbations")
    used = {name: known.get(name) for name in definition.get("perturbations") or ()}
    seeded = used or definition.get("sample")
    seed = params.get("seed") if seeded else None
    return {**definition, "perturbations": used, "seed": seed}


def not_current(
    params: Mapping[str, Any],
    provenance: Mapping[str, Row | None],
    read: ReadFile,
    ignored: Ignored,
) -> list[str]:
    """Why results are not those that ``params.yaml`` asks for: what differs between it and their
    provenance (by model), or between them and what was written; none where nothing does. A suite's
    file that is not here counts as unchanged, and so do labels that git ``ignored``, or that a
    bundle lacks."""
    models_of: dict[str, list[str]] = {}
    for model, facts in provenance.items():
        lines = ["metrics/provenance/MODEL.json is missing, or of an earlier version"]
        if facts and facts.get("files") and facts.get("decisions"):
            lines = _differences(params, model, facts=facts, read=read, ignored=ignored)
        for line in lines:
            models_of.setdefault(line, []).append(model)
    return [f"{named(models)}: {line}" for line, models in models_of.items()]


def _differences(
    params: Mapping[str, Any], model: str, facts: Row, read: ReadFile, ignored: Ignored
) -> list[str]:
    lines = []
    for path, sha256 in facts["files"].items():
        if hashlib.sha256(read(path) or b"").hexdigest() != sha256:
            lines.append(f"{path} is not as it was written")
    suites = {suite: suite_inputs(params, suite) for suite in grid(params, "suites")}
    measured = facts["suites"]
    for suite in suites:
        if suite not in measured:
            lines.append(f"suite {suite} has no numbers")
    for suite in measured:
        if suite not in suites:
            lines.append(f"suite {suite} is not in the grid")
    judges = _entries(params, "judges")
    defined = _entries(params, "models").get(model)
    decisions = _entries(params, "decisions")
    seed = facts["model"].get("seed")
    wanted: Row = {
        "models": {model: defined},
        "judges": {},
        "suites": {},
        "seed": None if seed is None else params.get("seed"),
        "decisions": {},
        "null_answers": {**null_settings(params).model_dump(), "seed": params.get("seed")},
    }
    computed: Row = {
        "models": {model: facts["model"].get("definition")},
        "judges": {},
        "suites": {},
        "seed": seed,
        "decisions": facts["decisions"],
        "null_answers": facts.get("null_answers"),
    }
    for name, judge in facts["judges"].items():
        computed["judges"][name] = {**judge, "version": None, "other_languages": None}
    for suite, inputs in suites.items():
        for judge in inputs.get("judges") or ():
            wanted["judges"][judge] = judges.get(judge)
        if suite in measured:
            wanted["suites"][suite] = inputs
            computed["suites"][suite] = measured[suite].get("definition")
            content = read(str(inputs.get("file")))
            sha256 = measured[suite]["sha256"]
            if content is not None and hashlib.sha256(content).hexdigest() != sha256:
                lines.append(f"the file of suite {suite} is another one")
            path = LABEL_FILE.format(model=model, suite=suite)
            content, counted = read(path), measured[suite].get("labels_sha256", UNKNOWN)
            if content is None and counted and counted != UNKNOWN:
                if read("dvc.yaml") and not ignored(path):
                    lines.append(f"{path}, whose labels were counted, is not here")
            elif counted not in (labels_sha256(content), UNKNOWN):
                lines.append(f"the labels in {path} are not those that were counted")
    for setting in facts["decisions"]:
        wanted["decisions"][setting] = decisions.get(setting, getattr(DEFAULTS, setting, None))
    return lines + differing(computed, wanted)


def _entries(params: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    entries = params.get(section)
    return entries if isinstance(entries, Mapping) else {}


def current_note(reasons: Sequence[str]) -> str:
    """What :func:`not_current` found as one line, with what brings the numbers up to date."""
    why = named(reasons, "; ")
    return f"these numbers are not what params.yaml asks for: {why}; run: dvc repro"


def rows_missing(
    root: Path, provenance: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], list[str]]:
    """By model and suite, the rows that are not here as the numbers were made of them.

    ``provenance`` by model; each text is a path and what is wrong with it."""
    hashed = functools.cache(lambda file: sha256_file(file) if file.is_file() else "")
    missing: dict[tuple[str, str], list[str]] = {}
    for model, facts in provenance.items():
        for suite, of_suite in facts["suites"].items():
            for kind, pattern in COUNTED.items():
                path = pattern.format(model=model, suite=suite)
                if kind not in ROWS and f"{kind}_sha256" not in of_suite:
                    continue  # no number was made of it
                sha256 = hashed(root / path)
                if not sha256 or sha256 != of_suite.get(f"{kind}_sha256", sha256):
                    wrong = "not what metrics/ was made of" if sha256 else "not here"
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


def notes_of(
    lacking: Sequence[str], reasons: Sequence[str], missing: Mapping[tuple[str, str], Sequence[str]]
) -> list[str]:
    """What a reader of results should know: which models of the grid have none, why they are not
    those that params.yaml asks for (:func:`not_current`), which rows are not here
    (:func:`rows_missing`)."""
    names = f"no results of {named(lacking)}, which the grid of params.yaml names; run: dvc repro"
    notes = [names] if lacking else []
    notes += [current_note(reasons)] if reasons else []
    return notes + ([rows_note(missing)] if missing else [])


def named(names: Sequence[str], separator: str = ", ") -> str:
    """Names for a message: the first few, and how many more."""
    more = len(names) - SHOWN
    return separator.join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def differing(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The values that differ between two JSON objects, as ``key: before → after``."""
    lines = []
    for key in sorted({*before, *after}):
        value, other = before.get(key), after.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            lines += differing(value, other, f"{prefix}{key}.")
        elif value != other:
            lines.append(f"{prefix}{key}: {_short(value)} → {_short(other)}")
    return lines


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
