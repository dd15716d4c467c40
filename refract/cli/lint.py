"""``refract lint``: everything wrong with a suite, in one pass."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from refract.errors import UsageError
from refract.rows.showing import say
from refract.rows.suites import check_suite


def lint_files(paths: Sequence[Path]) -> int:
    """Prints ``file:line: message`` for each problem; returns 1 if there is any, else 0."""
    found = 0
    for path in paths:
        try:
            rows, problems = check_suite(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        for problem in problems:
            say(f"{path}:{problem.line}: {problem.message}", file=sys.stderr)
        found += len(problems)
        if not problems:
            say(f"{path}: {len(rows)} rows, no problems")
    return int(found > 0)
