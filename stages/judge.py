"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from refract.core.jsonl import RowsById, iter_rows, stored_rows, write_json, write_rows
from refract.core.params import definition, grid, load_definitions
from refract.core.progress import StageRun, ran_file, run_stage
from refract.judges import check_counted, judge_rows, language_warnings, noting_errors, open_judges
from refract.models.origins import note_verdicts


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
        rows = stored_rows(
            Path(f"data/prompts/{suite}.jsonl"), Path(f"data/responses/{name}/{suite}.jsonl")
        )
        file = Path(given["file"])
        mine = {judge: definitions[judge] for judge in of_suite[suite]}
        unread[suite] = language_warnings(iter_rows(file), mine)
        for warning in unread[suite]:
            run.warn(f"{suite}: {warning}")
        numbers = {row["id"]: number for number, row in enumerate(iter_rows(file))}
        sources = RowsById(file, numbers, key="id")
        verdicts = judge_rows(rows.prompts, rows.responses, sources, of_suite[suite])
        errors: dict[str, Counter[str]] = {judge: Counter() for judge in mine}
        write_rows(folder / f"{suite}.jsonl", noting_errors(verdicts, errors))
        judged.update(dict.fromkeys(mine, len(rows.prompts)))
        for judge, failed in errors.items():
            if failed:
                run.warn(
                    f"{suite}: {judge} failed on {failed.total()} of {len(rows.prompts)} answers; "
                    f"the first: {next(iter(failed))}"
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
