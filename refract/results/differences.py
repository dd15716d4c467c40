"""What differs between two sets of results, and between the runs that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refract.core.environment import git, same_release
from refract.core.progress import ran_file, read_object
from refract.core.tables import parse_table
from refract.core.types import Row
from refract.results.current import differing, named

# What is compared byte by byte: provenance has the hashes of prompts, responses and
# verdicts. Of metrics/ran, which has times, counts are.
FILES = ("metrics", ":!metrics/ran")
# Of a suite's provenance, what the run itself made: no difference is due to it.
OUTPUTS = ("responses_sha256", "verdicts_sha256")
# Of a row of a table, what names its rate, and the rate.
NAMES = ("suite", "measure", "judge", "perturbation", "field", "value")
NUMBERS = ("rate", "low", "high", "successes", "n")
# Libraries that pass texts on and compute nothing.
CLIENTS = ("anthropic", "openai")
# Of what a model says of its run: no cause, or among the libraries.
TOLD_APART = ("load_seconds", "torch", "transformers")
# What can change a number besides libraries, of all that is noted of a run.
MACHINE = ("architecture", "libc", "processor", "accelerator")


def run_differences(expected: Row, now: Row) -> list[str]:
    """What differs between the runs that made two sets of answers, and their judging,
    of all that can move a number: device, processor, versions, batch shape.

    Both as ``metrics/ran/MODEL.json`` has them; what is not known of one side is no
    difference."""
    answers = _differing_causes("answers", expected.get("runs", ()), now.get("runs", ()))
    judged, judged_now = expected.get("judged"), now.get("judged")
    if judged is None or judged_now is None:
        return answers
    return answers + _differing_causes("verdicts", [judged], [judged_now])


def _differing_causes(what: str, runs: Iterable[Row], runs_now: Iterable[Row]) -> list[str]:
    """What differs between some runs and others; a line for each cause."""
    old = [_causes_in(run) for run in runs]
    new = [_causes_in(run) for run in runs_now]
    lines = []
    for cause in sorted({cause for run in (*old, *new) for cause in run}):
        before = [run[cause] for run in old if cause in run]
        after = [run[cause] for run in new if cause in run]
        same = all(_same(cause, x, y) for x in before for y in after)
        if before and after and not same:
            lines.append(f"{what}, {cause}: {_listed(before)} → {_listed(after)}")
    return lines


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(sorted({str(value) for value in values}))


def _same(cause: str, value: Any, other: Any) -> bool:
    if cause.startswith("library") and value is not None and other is not None:
        return same_release(value, other)
    return bool(value == other)


def _causes_in(run: Row) -> dict[str, Any]:
    """What of a run can move a number, flat. Where no library computed, that is
    Python alone."""
    causes: dict[str, Any] = {"python": run["python"]}
    if run.get("said_model"):
        causes["the server's model"] = run["said_model"]
    libraries = dict(run["libraries"])
    for client in CLIENTS:
        libraries.pop(client, None)
    if not libraries:
        return causes
    if run["device"]:
        causes["device"] = run["device"]
    for key, value in run["runtime"].items():
        if key not in TOLD_APART:
            causes[key] = value
    for key in MACHINE:
        causes[key] = run["machine"].get(key)
    for name, release in libraries.items():
        causes[f"library {name}"] = release
    return causes


def input_differences(was: Row, now: Row) -> list[str]:
    """What may explain that results differ, of their provenance; the earliest input
    first."""
    lines = []
    for key in ("suites", "judges", "model", "run"):
        for line in differing(was.get(key, {}), now.get(key, {})):
            if not any(output in line for output in OUTPUTS):
                lines.append(f"{key} {line}")
    return lines


def causes_since_head(root: Path, models: Iterable[str]) -> list[str]:
    """What may explain that results in a project's folder differ from those of git's
    HEAD."""
    causes = []
    for name in models:
        paths = (f"metrics/provenance/{name}.json", str(ran_file(name)))
        for path, compare in zip(paths, (input_differences, run_differences), strict=True):
            was = json.loads(_in_head(root, path) or "{}")
            causes += [f"{name}: {line}" for line in compare(was, read_object(root / path))]
    return causes


def reproduced(root: Path) -> str:
    """Whether the rates and files of a project's ``metrics/`` are those of git's
    HEAD, and what explains it where they are not, as a sentence; "" where HEAD has
    none."""
    in_head = (git(root, "ls-tree", "--name-only", "HEAD", "metrics/tables/") or "").split()
    if not in_head:
        return ""
    listed = git(root, "diff", "--name-only", "--relative", "-z", "HEAD", "--", *FILES) or ""
    changed = listed.split("\0")[:-1]
    texts = {}
    for file in sorted((root / "metrics/tables").glob("*.csv")):
        texts[f"metrics/tables/{file.name}"] = file.read_text("utf-8")
    texts_before = {}
    for path in in_head:
        head = _in_head(root, path) if path in changed else None
        texts_before[path] = head or texts.get(path, "")
    before, now = _rates(texts_before), _rates(texts)
    keys = list({**before, **now})
    moved = []
    for key in keys:
        if before.get(key) != now.get(key):
            name = " ".join(part for part in key if part)
            moved.append(f"{name}: {_rate_of(before, key)} → {_rate_of(now, key)}")
    equal = f"All {len(keys)} rates equal those of HEAD"
    changed += [path for path in texts if path not in in_head]
    models = sorted({Path(path).stem for path in (*in_head, *texts)})
    counts = [line for model in models for line in _count_differences(root, model)]
    if counts:
        counted = f"counts in metrics/ran differ from HEAD's ({named(counts)})"
    if not changed:
        others = f"but {counted}" if counts else "and the counts in metrics/ran"
        return f"{equal}, as do the bytes of all other files of metrics/ {others}."
    if moved:
        equal = f"{len(moved)} of {len(keys)} rates differ from those of HEAD ({named(moved)})"
    if counts:
        equal = f"{equal}; {counted}"
    causes = causes_since_head(root, models)
    why = named(causes) or "of edited files or other code: no input, library or machine differs"
    return f"{equal}; bytes differ in {named(changed)}, because {why}"


def _count_differences(root: Path, model: str) -> list[str]:
    """What differs between the counts of answers and certificates that a project says of
    a model and those in git's HEAD."""
    path = str(ran_file(model))
    was = _counts(json.loads(_in_head(root, path) or "{}"))
    now = _counts(read_object(root / path))
    return [f"{model}: {line}" for line in differing(was, now)]


def _counts(ran: Row) -> Row:
    """The answers of each suite and what is certified of them, of what a file of
    ``metrics/ran`` says."""
    counts = {}
    for suite, notes in ran.get("suites", {}).items():
        certificates = dict(notes.get("certificates") or {})
        certificates.pop("margins", None)
        answers = [stretch[1] for stretch in notes.get("runs", ())]
        counts[suite] = {"answers": sum(answers), "certified": certificates}
    return counts


def _rate_of(rates: Mapping[tuple[str, ...], tuple[str, ...]], key: tuple[str, ...]) -> str:
    return rates[key][0] if key in rates else "none"


def _in_head(root: Path, path: str) -> str | None:
    return git(root, "show", f"HEAD:./{path}")


def _rates(tables: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The rates of models' tables by what names them, as they are written."""
    rates = {}
    for path, text in tables.items():
        for row in parse_table(text.encode()):
            key = (Path(path).stem, *(row.get(column, "") for column in NAMES))
            rates[key] = tuple(row[column] for column in NUMBERS)
    return rates
