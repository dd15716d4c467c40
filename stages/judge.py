"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from refract.core.jsonl import read_prompts, read_responses, write_json, write_rows
from refract.core.params import definition, grid, load_definitions
from refract.core.progress import (
    StageRun,
    ran_file,
    run_stage,
)
from refract.core.types import answered_prompts
from refract.judges import check_counted, judge_suite, language_warnings, open_judges
from refract.models.origins import note_verdicts
from refract.suites.rows import load_suite


def main(name: str) -> None:
    """Writes ``data/verdicts/NAME/SUITE.jsonl`` for each suite of the grid, and about its judges
    ``judges.json`` (definitions and versions), ``families.json`` and ``unread.json`` (warnings of
    languages that a judge was not measured in, by suite)."""
    run = StageRun("judge", name)
    params = load_definitions("suites", "judges")
    folder = Path("data/verdicts") / name
    suites = {suite: definition(params, "suites", suite) for suite in grid(params, "suites")}
    definitions: dict[str, dict[str, Any]] = {
        judge: definition(params, "judges", judge)
        for given in suites.values()
        for judge in given["judges"]
    }
    judges = open_judges(definitions)  # all of them, before the first one costs anything
    of_suite = {
        suite: {judge: judges[judge] for judge in given["judges"]}
        for suite, given in suites.items()
    }
    for suite, given in suites.items():
        check_counted(suite, of_suite[suite], perturbed=bool(given.get("perturbations")))
    judged: Counter[str] = Counter()
    unread: dict[str, list[str]] = {}
    for suite, given in suites.items():
        responses = read_responses(Path(f"data/responses/{name}/{suite}.jsonl"))
        prompts = answered_prompts(read_prompts(Path(f"data/prompts/{suite}.jsonl")), responses)
        sources = load_suite(Path(given["file"]))
        unread[suite] = language_warnings(sources, {j: definitions[j] for j in of_suite[suite]})
        for warning in unread[suite]:
            run.warn(f"{suite}: {warning}")
        by_id = {row["id"]: row for row in sources}
        verdicts = judge_suite(prompts, responses, by_id, of_suite[suite])
        write_rows(folder / f"{suite}.jsonl", verdicts)
        for judge in of_suite[suite]:
            judged[judge] += len(verdicts)
            errors = [e for row in verdicts if (e := row["judges"][judge]["error"])]
            if errors:
                run.warn(
                    f"{suite}: {judge} failed on {len(errors)} of {len(verdicts)} answers; the "
                    f"first: {errors[0]}"
                )
    write_json(
        folder / "judges.json",
        {name: {**definitions[name], "version": judge.version} for name, judge in judges.items()},
    )
    write_json(folder / "families.json", {name: judge.FAMILY for name, judge in judges.items()})
    write_json(folder / "unread.json", unread)
    note_verdicts(ran_file(name), folder, suites)
    run.end("judged by " + ", ".join(f"{judge} ({count:,})" for judge, count in judged.items()))


if __name__ == "__main__":
    run_stage("judge", main, "MODEL")
