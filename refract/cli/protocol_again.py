"""Running the results of ``refract run --protocol`` again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from refract.core.types import Row

if TYPE_CHECKING:
    from refract.evaluate.run import Run
    from refract.models.store import ResponseStore


def protocol_command(results: Row) -> list[str]:
    """The command that made the results, but for the file that they go to."""
    held, run = results["protocol"], results["provenance"]["run"]
    asked = held["asked"]
    command = ["refract", "run", "--protocol", held["name"]]
    own = asked["model"]
    command += ["--adapter", own["adapter"]] if len(own) == 1 else ["--model", results["model"]]
    for key, value in asked["settings"].items():
        if key == "adapter":
            continue
        command += ["--set", f"{key}={json.dumps(value)}"]
    for part, path in asked["files"].items():
        command += ["--suite", path if len(held["parts"]) == 1 else f"{part}={path}"]
    command += ["--seed", str(run["seed"])]
    for option in ("sample", "samples", "cut_off"):
        value = run["sample"] if option == "sample" else asked[option]
        if value is not None:
            command += [f"--{option.replace('_', '-')}", str(value)]
    level = f"{run.get('confidence', 0.95):.2f}".removeprefix("0")
    command += ["--confidence", level] if level != ".95" else []
    return [*command, *(["--judge", asked["judge"]["name"]] if asked["judge"] else [])]


def run_again(results: Row, store: ResponseStore) -> Run:
    """The same protocol on the same model, files and options. Raises
    :class:`refract.core.errors.RefractError`."""
    from refract.evaluate.protocol_run import Asked, run_protocol
    from refract.evaluate.run import Judge
    from refract.suites.protocols.catalogue import find_protocol

    asked, run = results["protocol"]["asked"], results["provenance"]["run"]
    name, protocol = find_protocol(results["protocol"]["name"], "protocol")
    judge = asked["judge"]
    return run_protocol(
        name,
        protocol,
        results["model"],
        asked["model"],
        Asked(
            settings=asked["settings"],
            files={part: Path(path) for part, path in asked["files"].items()},
            judge=None if judge is None else Judge(judge["name"], judge["definition"]),
            seed=run["seed"],
            sample=run["sample"],
            samples=asked["samples"],
            cut_off=asked["cut_off"],
            confidence=run.get("confidence", 0.95),
        ),
        store,
    )
