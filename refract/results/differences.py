"""Where two sets of results begin to differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refract.core.environment import same_release
from refract.core.types import Row
from refract.rates.conditions import differing

SHOWN = 160
# Libraries that pass texts on and compute nothing.
CLIENTS = ("anthropic", "openai")
# Of what a model says of its run: no cause, or among the libraries.
TOLD_APART = ("load_seconds", "torch", "transformers")
# What can change a number besides libraries, of all that is noted of a run.
MACHINE = ("architecture", "libc", "processor", "accelerator")
# Fields of a suite's provenance that the run itself produced: they explain no difference.
OUTPUTS = ("responses_sha256", "verdicts_sha256")


def first_difference(expected: bytes, found: bytes) -> str:
    """The first line that differs between two files, as text for people."""
    old, new = expected.split(b"\n"), found.split(b"\n")
    for number, (a, b) in enumerate(zip(old, new, strict=False), 1):
        if a != b:
            return f"line {number}: was {_shown(a)}, now {_shown(b)}"
    number = min(len(old), len(new)) + 1
    return f"line {number}: " + ("is missing now" if len(old) > len(new) else "was not there")


def _shown(line: bytes) -> str:
    text = ascii(line.decode("utf-8", "replace"))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def input_differences(
    expected: Row | None, found: Row | None, pinned: Mapping[str, str], installed: Mapping[str, str]
) -> list[str]:
    """What may explain that results differ, first the earliest input: suites, judges, model, libraries.

    ``expected`` and ``found`` are the provenance of one model's results; ``pinned`` and
    ``installed`` library versions. A device or processor that rounds differently leaves no trace
    here.
    """
    causes = []
    if expected is not None and found is not None:
        for key, what in (("suites", "suite"), ("judges", "judge"), ("model", "model")):
            causes += [
                f"{what} {line}"
                for line in differing(expected[key], found[key])
                if not any(output in line for output in OUTPUTS)
            ]
    causes += [
        f"library {name}: {version} → {installed[name]}"
        for name, version in sorted(pinned.items())
        if not same_release(installed.get(name, version), version)
    ]
    return causes


def run_differences(expected: Row, found: Row) -> list[str]:
    """What differs between the runs that made two sets of answers, and their judging, of all that can
    move a number: device, processor, versions, batch shape.

    Both as ``metrics/ran/MODEL.json`` has them; what is not known of one side is no difference.
    """
    lines = []
    for what, pick in (("answers", answered_by), ("verdicts", judged_by)):
        old, new = (pick(side) for side in (expected, found))
        for field in sorted({name for run in (*old, *new) for name in run}):
            was, now = ([run[field] for run in runs if field in run] for runs in (old, new))
            if was and now and not all(_same(field, a, b) for a in was for b in now):
                shown = (", ".join(sorted({str(value) for value in side})) for side in (was, now))
                lines.append(f"{what}, {field}: {' → '.join(shown)}")
    return lines


def _same(field: str, one: Any, other: Any) -> bool:
    if field.startswith("library") and None not in (one, other):
        return same_release(one, other)
    return bool(one == other)


def answered_by(side: Row) -> list[dict[str, Any]]:
    """What of each run that made answers can move a number, flat.

    ``side`` is what ``metrics/ran/MODEL.json`` has.
    """
    return [_causes_in(run) for run in side.get("runs", ())]


def judged_by(side: Row) -> list[dict[str, Any]]:
    """The same of what judged."""
    return [_causes_in(side["judged"])] if "judged" in side else []


def _causes_in(run: Row) -> dict[str, Any]:
    """What of a run can move a number, flat. Where no library computed, that is Python alone."""
    found: dict[str, Any] = {"python": run["python"]}
    if not run["libraries"].keys() - set(CLIENTS):
        return found
    found |= {"device": run["device"]} if run["device"] else {}
    found |= {key: value for key, value in run["runtime"].items() if key not in TOLD_APART}
    found |= {key: run["machine"].get(key) for key in MACHINE}
    found |= {
        f"library {name}": version
        for name, version in run["libraries"].items()
        if name not in CLIENTS
    }
    return found


def locked_outputs(path: Path) -> dict[str, str]:
    """The hash of each output under data/ that a dvc.lock records, by path; none without the file."""
    from ruamel.yaml import YAML

    lock = YAML(typ="safe", pure=True).load(path.read_text("utf-8")) if path.is_file() else {}
    return {
        out["path"]: out["md5"]
        for stage in lock.get("stages", {}).values()
        for out in stage.get("outs", ())
        if out["path"].startswith("data/")
    }


def folder_differences(expected: Path, found: Path) -> list[str]:
    """The files that differ between two outputs (folders or single files), each with its line."""
    if expected.is_file() or found.is_file():
        pairs = {"": (expected, found)}
    else:
        names = {p.relative_to(top) for top in (expected, found) for p in top.rglob("*")}
        pairs = {str(name): (expected / name, found / name) for name in sorted(names)}
    lines = []
    for name, (old, new) in pairs.items():
        if old.is_dir() or new.is_dir() or old.name == ".gitignore":
            continue
        if not old.exists() or not new.exists():
            lines.append(f"{name} {'is missing now' if old.exists() else 'was not there'}")
        elif old.read_bytes() != new.read_bytes():
            lines.append(f"{name} {first_difference(old.read_bytes(), new.read_bytes())}")
    return lines
