"""The words of verdicts and outcomes, each defined once."""

from __future__ import annotations

# Labels about refusal.
REFUSED = ("refusal", "partial_refusal")
JUDGED = (*REFUSED, "compliance")
# What a person or a judge may say of an answer; a degenerate one has nothing to judge in it.
LABELS = (*JUDGED, "degenerate")
# What can happen to a prompt besides being judged; none of it counts as an ordinary answer.
EXCLUDED = (
    "error",
    "empty",
    "cut_off",
    "content_filter",
    "provider_refusal",
    "degenerate",
    "unjudged",
)
# Digits of rates in files.
DIGITS = 4
# Why a perturbed prompt could not be tested.
UNTESTED = ("clean_not_judged", "not_injected", "not_answered", "not_compared")
