"""What differs between two sets of results, and between the runs that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refract.core.environment import git, same_release
from refract.core.progress import ran_file, read_object
from refract.core.types import Row
from refract.results.current import differing

# What is compared byte by byte: provenance has the hashes of prompts, responses and verdicts. Of
# metrics/ran, which has times, counts are.
FILES = ("metrics", ":!metrics/ran")
# Of a suite's provenance, what the run itself made: no difference is due to it.
OUTPUTS = ("responses_sha256", "verdicts_sha256")
# Libraries that pass texts on and compute nothing.
CLIENTS = ("anthropic", "openai")
# Of what a model says of its run: no cause, or among the libraries.
TOLD_APART = ("load_seconds", "torch", "transformers")
# What can change a number besides libraries, of all that is noted of a run.
MACHINE = ("architecture", "libc", "processor", "accelerator")


def run_differences(expected: Row, now: Row) -> list[str]:
    """What differs between the runs that made two sets of answers, and their judging, of all that
    can move a number: device, processor, versions, batch shape.

    Both as ``metrics/ran/MODEL.json`` has them; what is not known of one side is no difference."""
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
    """What of a run can move a number, flat. Where no library computed, that is Python alone."""
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
    """What may explain that results differ, of their provenance; the earliest input first."""
    lines = []
    for key in ("suites", "judges", "model", "run"):
        for line in differing(was.get(key, {}), now.get(key, {})):
            if not any(output in line for output in OUTPUTS):
                lines.append(f"{key} {line}")
    return lines


def causes_since_head(root: Path, models: Iterable[str]) -> list[str]:
    """What may explain that results in a project's folder differ from those of git's HEAD."""
    causes = []
    for name in models:
        paths = (f"metrics/provenance/{name}.json", str(ran_file(name)))
        for path, compare in zip(paths, (input_differences, run_differences), strict=True):
            was = json.loads(_in_head(root, path) or "{}")
            causes += [f"{name}: {line}" for line in compare(was, read_object(root / path))]
    return causes


def _in_head(root: Path, path: str) -> str | None:
    return git(root, "show", f"HEAD:./{path}")
