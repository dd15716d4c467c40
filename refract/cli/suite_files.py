"""``refract lint``: suites as files, checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.suites.rows import check_suite


def lint(files: Annotated[list[Path], Argument(help="Suite files (JSONL).")]) -> None:
    """Check suites and list every problem with its line; exit with 1 if there is any.

    Example: refract lint data/suites/harmful_helpful.jsonl
    """
    count = 0
    for path in files:
        try:
            rows, problems = check_suite(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        for problem in problems:
            say(f"{path}:{problem.line}: {problem.message}", file=sys.stderr)
        count += len(problems)
        if not problems:
            say(f"{path}: {len(rows)} rows, no problems")
    raise typer.Exit(int(count > 0))
