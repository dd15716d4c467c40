"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

import sys
from pathlib import Path

from stages.judge import judge_suite, judge_version
from stages.models.answers import AdapterError, DefinitionError
from stages.params import ParamsError, definition, grid, load_params
from stages.rows.jsonl import RowError, read_rows, write_json, write_rows
from stages.rows.showing import printable, say
from stages.rows.suites import SuiteError, load_suite
from stages.store import StoreError


def main(name: str) -> None:
    """Writes ``data/verdicts/NAME/SUITE.jsonl`` for each suite of the grid."""
    params = load_params()
    folder = Path("data/verdicts") / name
    used = {}
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
        say(f"{name} {suite}: {len(verdicts)} judged by {', '.join(judges)}")
    write_json(
        folder / "judges.json",
        {judge: {**used[judge], "version": judge_version(used[judge])} for judge in sorted(used)},
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m stages.judge MODEL")
    try:
        main(sys.argv[1])
    except (
        AdapterError,
        DefinitionError,
        ParamsError,
        RowError,
        StoreError,
        SuiteError,
    ) as error:
        sys.exit(printable(f"judge: {error}", keep="\n"))
