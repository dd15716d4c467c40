"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

from pathlib import Path

from refract.judges import judge_suite, judge_version
from refract.params import definition, grid, load_params
from refract.progress.runs import StageRun, run_stage
from refract.rows.jsonl import read_rows, write_json, write_rows
from refract.rows.suites import load_suite


def main(name: str) -> None:
    """Writes ``data/verdicts/NAME/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("judge", name)
    params = load_params()
    folder = Path("data/verdicts") / name
    used = {}
    judged: dict[str, int] = {}
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        judges = {judge: definition(params, "judges", judge) for judge in wanted["judges"]}
        used |= judges
        verdicts = judge_suite(
            read_rows(Path(f"data/prompts/{suite}.jsonl")),
            read_rows(Path(f"data/responses/{name}/{suite}.jsonl")),
            {row["id"]: row for row in load_suite(Path(wanted["file"]))},
            judges,
        )
        write_rows(folder / f"{suite}.jsonl", verdicts)
        for judge in judges:
            judged[judge] = judged.get(judge, 0) + len(verdicts)
            errors = [e for row in verdicts if (e := row["judges"][judge]["error"])]
            if errors:
                run.warn(
                    f"{suite}: {judge} failed on {len(errors)} of {len(verdicts)} answers; the "
                    f"first: {errors[0]}"
                )
    write_json(
        folder / "judges.json",
        {judge: {**used[judge], "version": judge_version(used[judge])} for judge in sorted(used)},
    )
    run.end("judged by " + ", ".join(f"{judge} ({count:,})" for judge, count in judged.items()))


if __name__ == "__main__":
    run_stage("judge", main, "MODEL")
