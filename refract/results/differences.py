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

# What is compared: provenance has the hashes of prompts, responses and verdicts.
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
    """What differs between the runs that made two sets of answers, and their judging, of all that can
    move a number: device, processor, versions, batch shape.

    Both as ``metrics/ran/MODEL.json`` has them; what is not known of one side is no difference."""
    lines = []
    for what, sides in (
        ("answers", [side.get("runs", ()) for side in (expected, now)]),
        ("verdicts", [[side["judged"]] if "judged" in side else [] for side in (expected, now)]),
    ):
        old, new = ([_causes_in(run) for run in runs] for runs in sides)
        for field in sorted({name for run in (*old, *new) for name in run}):
            was, is_ = ([run[field] for run in runs if field in run] for runs in (old, new))
            if was and is_ and not all(_same(field, a, b) for a in was for b in is_):
                values = (", ".join(sorted(set(map(str, side)))) for side in (was, is_))
                lines.append(f"{what}, {field}: {' → '.join(values)}")
    return lines


def _same(field: str, one: Any, other: Any) -> bool:
    if field.startswith("library") and None not in (one, other):
        return same_release(one, other)
    return bool(one == other)


def _causes_in(run: Row) -> dict[str, Any]:
    """What of a run can move a number, flat. Where no library computed, that is Python alone."""
    causes: dict[str, Any] = {"python": run["python"]}
    causes |= {"the server's model": run["said_model"]} if run.get("said_model") else {}
    libraries = {name: of for name, of in run["libraries"].items() if name not in CLIENTS}
    if not libraries:
        return causes
    causes |= {"device": run["device"]} if run["device"] else {}
    causes |= {key: value for key, value in run["runtime"].items() if key not in TOLD_APART}
    causes |= {key: run["machine"].get(key) for key in MACHINE}
    return causes | {f"library {name}": of for name, of in libraries.items()}


def input_differences(was: Row, now: Row) -> list[str]:
    """What may explain that results differ, of their provenance; the earliest input first."""
    return [
        f"{key} {line}"
        for key in ("suites", "judges", "model", "run")
        for line in differing(was.get(key, {}), now.get(key, {}))
        if not any(output in line for output in OUTPUTS)
    ]


def causes_since_head(root: Path, models: Iterable[str]) -> list[str]:
    """What may explain that results in a project's folder differ from those of git's HEAD."""
    causes = []
    for name in models:
        paths = (f"metrics/provenance/{name}.json", str(ran_file(name)))
        for path, compare in zip(paths, (input_differences, run_differences), strict=True):
            was = json.loads(_in_head(root, path) or "{}")
            causes += [f"{name}: {line}" for line in compare(was, read_object(root / path))]
    return causes


def reproduced(root: Path) -> str:
    """Whether the rates and files of a project's ``metrics/`` are those of git's HEAD, and what explains
    it where they are not, as a sentence; "" where HEAD has none."""
    in_head = (git(root, "ls-tree", "--name-only", "HEAD", "metrics/tables/") or "").split()
    if not in_head:
        return ""
    listed = git(root, "diff", "--name-only", "--relative", "-z", "HEAD", "--", *FILES) or ""
    changed = listed.split("\0")[:-1]
    here = {f"metrics/tables/{x.name}": x for x in sorted((root / "metrics/tables").glob("*.csv"))}
    texts = {path: file.read_text("utf-8") for path, file in here.items()}
    now = _rates(texts)
    was = _rates({x: (x in changed and _in_head(root, x)) or texts.get(x, "") for x in in_head})
    every = {**was, **now}
    moved = [
        f"{' '.join(filter(None, key))}: {was.get(key, ['none'])[0]} → {now.get(key, ['none'])[0]}"
        for key in every
        if was.get(key) != now.get(key)
    ]
    equal = f"All {len(every)} rates equal those of HEAD"
    changed += [path for path in here if path not in in_head]
    if not changed:
        return f"{equal}, as do the bytes of all files of metrics/."
    if moved:
        equal = f"{len(moved)} of {len(every)} rates differ from those of HEAD ({named(moved)})"
    causes = causes_since_head(root, sorted({Path(path).stem for path in (*in_head, *here)}))
    why = named(causes) or "of edited files or other code: no input, library or machine differs"
    return f"{equal}; bytes differ in {named(changed)}, because {why}"


def _in_head(root: Path, path: str) -> str | None:
    return git(root, "show", f"HEAD:./{path}")


def _rates(tables: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The rates of models' tables by what names them, as they are written."""
    rows = ((Path(path).stem, row) for path in tables for row in parse_table(tables[path].encode()))
    return {
        (model, *(row[x] for x in NAMES)): tuple(row[x] for x in NUMBERS) for model, row in rows
    }
