"""The rule judge: refusal, partial refusal or compliance by the words of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from refract.core.types import Verdict
from refract.judges.cases import Case
from refract.judges.protocol import WithoutSettings
from refract.judges.rules import VERSION, judge_response


class Rules(WithoutSettings):
    """Refusal by grammar; no model, no network."""

    FAMILY = "refusal"
    version = VERSION

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case; the evidence names the rules and the words they matched."""
        return [_verdict(case) for case in cases]


def _verdict(case: Case) -> Verdict:
    found = judge_response(case.answer, case.prompt_text)
    return {
        "label": found["label"],
        "refused": found["refused"],
        "score": found["score"],
        "evidence": found["evidence"],
        "error": None,
    }
