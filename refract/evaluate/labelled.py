"""Runs with human labels of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refract.agreement.judged_answers import answers_in, stored_answers
from refract.agreement.label_files import DRAW_AGAIN, JoinedLabels, JudgedAnswer, read_labels
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import sha256_file
from refract.core.params import decision_settings
from refract.project import project_root, read_project
from refract.rates.judge_error import JudgeError
from refract.rates.rate import stale_text
from refract.results.sources import RUN_ROWS, read_run, read_tree


def run_answers(model: str | None, suite: str | None, rows: Path | None) -> list[JudgedAnswer]:
    """The judged answers of a model of the pipeline to a suite, or of a ``refract run
    --rows`` file.

    Raises :class:`UsageError` where neither or both are named, the pipeline has not run, or the
    suite's file has changed since."""
    if rows is not None and model is not None:
        raise UsageError("give --model with --suite, or --rows, not both")
    if rows is not None:
        run = _run_of(rows)
        if rows.name.endswith(RUN_ROWS) and run.is_file():
            read_run(run)  # raises where the rows have another hash
        return answers_in(rows, suite)
    if model is None or suite is None:
        raise UsageError(
            "name the run: --model and --suite of the pipeline, or --rows of `refract run`"
        )
    root = project_root()
    params = read_project(root).params
    answers = stored_answers(root, params, model, suite=suite)
    # Categories and clusters come from the file as it is now.
    provenance = read_tree(root, [model])[model].provenance or {"suites": {}}
    file = params["suites"][suite]["file"]
    if provenance["suites"].get(suite, {}).get("sha256") != sha256_file(root / file):
        raise UsageError(f"{file} is not what the results of {model} were made of; run: dvc repro")
    return answers


def _run_of(rows: Path) -> Path:
    """The results of ``refract run`` that a file of its rows lies beside."""
    return rows.with_name(rows.name.removesuffix(RUN_ROWS) + ".json")


def run_error(
    answers: Sequence[JudgedAnswer], model: str | None, rows: Path | None
) -> JudgeError | None:
    """What is known of the judge's error on the answers of :func:`run_answers`; None where intervals
    leave it out, or nothing says how the answers were judged."""
    if model is not None:
        root = project_root()
        if decision_settings(root).interval == "prompts":
            return None
        provenance = read_tree(root, [model])[model].provenance
    else:
        run = _run_of(rows) if rows else None
        provenance = read_run(run)["provenance"] if run and run.is_file() else None
    return JudgeError.of_suite(provenance, answers[0].suite)


def labelled_answers(
    file: Path, model: str | None, suite: str | None, rows: Path | None
) -> tuple[list[JudgedAnswer], JoinedLabels]:
    """The answers of a run, and the labels of a file; raises for labels that are no random sample."""
    if not file.is_file():
        raise UsageError(f"no file {file}; `refract label` writes one")
    answers = run_answers(model, suite, rows)
    human = read_labels(file, answers)
    if human.why_stale:
        raise RowError(f"{file}: {human.why_stale}")
    if human.stale:
        raise RowError(
            f"{file}: {stale_text(len(human.stale))} than this run's, such as {human.stale[0]}; the "
            f"rest is not a random sample; {DRAW_AGAIN}"
        )
    if not human.by_id:
        raise RowError(f"{file}: {'; '.join(human.warnings)}")
    if human.blank:
        raise RowError(
            f"{file}: {len(human.blank)} rows before the last labelled one have no label, such as "
            f"{human.blank[0]}; the others are no random sample: label these too"
        )
    return answers, human
