"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.core.jsonl import read_prompts, read_responses, write_json, write_rows
from refract.core.params import definition, grid, load_params
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
    ``judges.json`` (definitions and versions) and ``families.json``."""
    run = StageRun("judge", name)
    params = load_params()
    folder = Path("data/verdicts") / name
    suites = {suite: definition(params, "suites", suite) for suite in grid(params, "suites")}
    used: dict[str, dict[str, Any]] = {
        judge: definition(params, "judges", judge)
        for wanted in suites.values()
        for judge in wanted["judges"]
    }
    judges = open_judges(used)  # all of them, before the first one costs anything
    for suite, wanted in suites.items():
        own = {judge: judges[judge] for judge in wanted["judges"]}
        check_counted(suite, own, perturbed=bool(wanted.get("perturbations")))
    judged = dict.fromkeys(judges, 0)
    for suite, wanted in suites.items():
        responses = read_responses(Path(f"data/responses/{name}/{suite}.jsonl"))
        sources = load_suite(Path(wanted["file"]))
        for warning in language_warnings(sources, {one: used[one] for one in wanted["judges"]}):
            run.warn(f"{suite}: {warning}")
        verdicts = judge_suite(
            answered_prompts(read_prompts(Path(f"data/prompts/{suite}.jsonl")), responses),
            responses,
            {row["id"]: row for row in sources},
            {judge: judges[judge] for judge in wanted["judges"]},
        )
        write_rows(folder / f"{suite}.jsonl", verdicts)
        for judge in wanted["judges"]:
            judged[judge] += len(verdicts)
            errors = [e for row in verdicts if (e := row["judges"][judge]["error"])]
            if errors:
                run.warn(
                    f"{suite}: {judge} failed on {len(errors)} of {len(verdicts)} answers; the "
                    f"first: {errors[0]}"
                )
    write_json(
        folder / "judges.json",
        {name: {**used[name], "version": judge.version} for name, judge in judges.items()},
    )
    write_json(folder / "families.json", {name: judge.FAMILY for name, judge in judges.items()})
    note_verdicts(ran_file(name), folder, suites)
    run.end("judged by " + ", ".join(f"{judge} ({count:,})" for judge, count in judged.items()))


if __name__ == "__main__":
    run_stage("judge", main, "MODEL")
