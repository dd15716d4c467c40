"""``refract lint``: everything wrong with a suite, in one pass."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.suites.rows import check_suite


def lint(files: list[Path]) -> None:
    """Check suites and list every problem with its line; exit with 1 if there is any.

    Example: refract lint data/suites/harmful_helpful.jsonl

    Args:
        files: Suite files (JSONL).
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
