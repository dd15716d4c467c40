"""Runs the stage for one model: ``python -m stages.judge MODEL``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from refract.core.jsonl import RowsById, iter_rows, stored_rows, write_json, write_rows
from refract.core.params import grid, load_definitions, load_params, null_settings, run_seed
from refract.core.progress import StageRun, ran_file, run_stage
from refract.core.types import VerdictRow
from refract.judges import (
    check_counted,
    judge_rows,
    noting_errors,
    open_judges,
    reading_warnings,
    thinking_warnings,
)
from refract.judges.cases import AnsweredSuite, Judge, versioned
from refract.judges.null_answers import null_verdicts
from refract.judges.processes import processes_stay
from refract.models.origins import note_verdicts


@processes_stay()
def main(name: str) -> None:
    """Writes ``data/verdicts/NAME/SUITE.jsonl`` for each suite of the grid, and about its judges
    ``judges.json`` (definitions, versions), ``families.json`` and ``unread.json`` (warnings by suite);
    verdicts on null answers and ``drawn.json`` (how many, which seed) to ``data/null_verdicts/NAME``."""
    run = StageRun("judge", name)
    project = load_params()
    drawn, seed = null_settings(project), run_seed(project)
    params = load_definitions("judges")
    folder, null_folder = Path("data/verdicts", name), Path("data/null_verdicts", name)
    suites = {suite: params["suites"][suite] for suite in grid(params, "suites")}
    definitions = params["judges"]  # of the grid's suites, and no others
    judges = open_judges(definitions)  # all of them, before the first one costs anything
    of_suite: dict[str, dict[str, Judge]] = {}
    for suite, defined in suites.items():
        of_suite[suite] = {judge: judges[judge] for judge in defined["judges"]}
        check_counted(suite, of_suite[suite], perturbed=bool(defined.get("perturbations")))
    judged, counts = Counter[str](), Counter(reused=0, judged=0)
    unread: dict[str, list[str]] = {}
    for suite, defined in suites.items():
        rows = stored_rows(
            Path(f"data/prompts/{suite}.jsonl"), Path(f"data/responses/{name}/{suite}.jsonl")
        )
        file = Path(defined["file"])
        mine = {judge: definitions[judge] for judge in of_suite[suite]}
        unread[suite] = reading_warnings(iter_rows(file), mine)
        for warning in unread[suite] + thinking_warnings(rows.responses.values(), mine):
            run.warn(f"{suite}: {warning}")
        numbers = {row["id"]: number for number, row in enumerate(iter_rows(file))}
        sources = RowsById(file, numbers, key="id")
        answered = AnsweredSuite(rows.prompts, rows.responses, sources)
        verdicts = judge_rows(answered, of_suite[suite], counts)
        named = f"of {len(rows.prompts)} answers"
        write_verdicts(run, folder / f"{suite}.jsonl", verdicts, answers=named)
        nulls = null_verdicts(
            suite, answered, of_suite[suite], settings=drawn, seed=seed, counts=counts
        )
        write_verdicts(run, null_folder / f"{suite}.jsonl", nulls, answers="null answers")
        judged.update(dict.fromkeys(mine, len(rows.prompts)))
    write_json(
        folder / "judges.json",
        {name: versioned(definitions[name], judge) for name, judge in judges.items()},
    )
    write_json(folder / "families.json", {name: judge.FAMILY for name, judge in judges.items()})
    write_json(folder / "unread.json", unread)
    write_json(null_folder / "drawn.json", {**drawn.model_dump(), "seed": seed})
    note_verdicts(ran_file(name), folder, suites)
    by = ", ".join(f"{judge} ({count:,})" for judge, count in judged.items())
    kept = f"{counts['reused']:,} verdicts reused, {counts['judged']:,} judged"
    run.end(f"judged by {by}: {kept}", verdicts=dict(counts))


def write_verdicts(run: StageRun, path: Path, verdicts: Iterable[VerdictRow], answers: str) -> None:
    """Writes the verdicts of one suite, and warns of each judge that gave none on some of
    the ``answers``, which are in words."""
    errors: defaultdict[str, Counter[str]] = defaultdict(Counter)
    write_rows(path, noting_errors(verdicts, errors))
    for judge, missing in errors.items():
        ties = sum(count for error, count in missing.items() if error.startswith("tie: "))
        run.warn(
            f"{path.stem}: {judge} gave no verdict on {missing.total()} {answers}"
            f"{f', {ties} of them ties' if ties else ''}; the first: {next(iter(missing))}"
        )


if __name__ == "__main__":
    run_stage("judge", main, "MODEL")
