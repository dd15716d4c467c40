"""What a check found, and how it is made of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from refract.checks.measuring import Measured, why_untested
from refract.core.types import Row
from refract.statistics.proportions import Interval, wilson

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    ``metric`` is a share of the rows that could be tested: of char injection the fail rate of the
    worst character and feature, of the others the share of ``counts["tested"]`` that failed; None
    where nothing could be tested. ``interval`` is its 95 % Wilson interval. ``counts`` has ``rows``,
    ``tested``, ``failed`` and ``errors`` over all rows and variants. ``failures`` holds the failing
    rows, ``errors`` a sentence for each row that could not be tested, ``details`` one row for each
    group (char injection) or each answer. True where the check passed.
    """

    passed: bool
    metric: float | None
    interval: Interval | None
    counts: dict[str, int]
    failures: pd.DataFrame
    errors: list[str]
    details: pd.DataFrame = field(repr=False)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "not passed"
        counts = self.counts
        return (
            f"{verdict}: {counts['failed']} of {counts['tested']} tested rows failed, "
            f"{counts['errors']} of {counts['rows']} could not be tested"
        )


def exchange(found: Measured, prompt_id: str) -> Row:
    prompt = found.prompts[prompt_id]
    response = found.responses[prompt_id]
    return {
        "id": found.labels[prompt["source_id"]],
        "prompt": prompt["attempts"][response["attempt"]],
        "response": response["response"],
    }


def unjudged(found: Measured, ids: Sequence[str], judge: str) -> list[str]:
    return [
        f"{id_}: not judged ({why_untested(found, id_, judge)})"
        for id_ in ids
        if found.verdicts[id_][judge]["label"] is None
    ]


def labelled_result(
    passed: bool, failures: list[Row], errors: list[str], details: list[Row]
) -> CheckResult:
    """The result of a check whose verdict on each answer is a label."""
    tested = len(details) - len(errors)
    counts = {"rows": len(details), "tested": tested, "failed": len(failures)}
    return check_result(
        passed, (len(failures), tested), counts, failures, errors, details, tuple(details[0])
    )


def check_result(
    passed: bool,
    rate: tuple[int, int],
    counts: dict[str, int],
    failures: list[Row],
    errors: list[str],
    details: list[Row],
    columns: Sequence[str],
) -> CheckResult:
    import pandas as pd

    failed, tested = rate
    return CheckResult(
        passed=passed,
        metric=failed / tested if tested else None,
        interval=wilson(failed, tested),
        counts={**counts, "errors": len(errors)},
        failures=pd.DataFrame(failures, columns=list(columns)),
        errors=errors,
        details=pd.DataFrame(details),
    )
