"""``refract judge``: verdicts on answers that already exist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refract.cli.options import JudgeBaseUrl, JudgeModel, files_named, keep_inputs
from refract.core.errors import UsageError
from refract.core.jsonl import write_rows


def judge(
    in_: Annotated[Path, typer.Option("--in")],
    out: Annotated[Path, typer.Option()],
    judge: str | None = None,
    judge_model: JudgeModel = None,
    judge_base_url: JudgeBaseUrl = None,
) -> None:
    """Judge answers that already exist: one verdict row for each row, in order.

    Example: refract judge --judge rules --in rows.jsonl --out verdicts.jsonl

    Args:
        in_: Rows with id or prompt_id, prompt and response (JSONL), or a log of Inspect or
          lm-evaluation-harness.
        out: Where the verdict rows go (JSONL).
        judge: A judge of params.yaml, a kind of judge, or llm (refusal, by --judge-model); default:
          rules.
    """
    from refract.api import judge_rows
    from refract.models.recorded import read_answers
    from refract.project import MODEL_JUDGE, find_judge, find_project

    if not in_.is_file():
        raise UsageError(f"--in: no file {in_}")
    wanted = judge or ("rules" if judge_model is None else MODEL_JUDGE)
    definition = find_judge(wanted, find_project(), judge_model, judge_base_url)
    keep_inputs({"--out": out}, [in_, *files_named(definition)])
    write_rows(out, judge_rows(read_answers(in_), wanted, definition, f"{in_}: row"))
