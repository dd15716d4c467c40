"""The tables of the report that compare: models in pairs, and prompts with what perturbations made
of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refract.report.compared_sides import HOLD_JUDGE
from refract.report.comparisons import Compared, number_of_tests, strongest
from refract.report.markdown import ShownTable, shown_table
from refract.report.view import View
from refract.report.wording import p_text, short_estimate


def _compared_table(pairs: Iterable[Compared], corrected: str) -> ShownTable:
    """Paired differences, ``b`` minus ``a``, with p alone and ``corrected``."""
    rows = []
    for a, b, difference in pairs:
        if difference.n:
            row = {
                "suite": difference.suite,
                "prompts": difference.category.replace("_", " "),
                "first": a,
                "second": b,
                "refused": f"{short_estimate(difference.a)}, {short_estimate(difference.b)}",
                "second − first": short_estimate(difference.value, difference.shown, "+"),
                "n": difference.n,
                "p": p_text(difference.p),
                corrected: p_text(difference.p_adjusted),
            }
            rows.append(row)
    return shown_table(rows)


def compared(view: View) -> dict[str, Any]:
    """The comparisons with the reference and of neighbours, tested ones first, and those that
    are more than chance, with most evidence first."""
    pairs = sorted(view.near_compared, key=lambda pair: pair.difference.p_adjusted is None)
    corrected = f"p (Holm, {view.tests})"
    telling = strongest(pairs, view.confidence)
    holds = any(pair.difference.judge_interval for pair in pairs)
    return {
        "tested": number_of_tests(pairs),
        "tests": view.tests,
        "hold_judge": f" Intervals of two models {HOLD_JUDGE}." if holds else "",
        "telling": _compared_table(telling, corrected),
        "pairs": _compared_table(pairs, corrected),
    }


def perturbed_table(view: View, *, by_category: bool = False) -> ShownTable:
    """What perturbations did to refusal: shares refused clean and perturbed, flips
    each way and the paired difference."""
    rows = []
    for difference in view.perturbed:
        if difference.n and bool(difference.category) == by_category:
            row = {
                "suite": difference.suite,
                "perturbation": difference.perturbation,
                "prompts": difference.category,
                "model": difference.model,
                "refused clean": short_estimate(difference.a),
                "refused perturbed": short_estimate(difference.b),
                "newly refused": len(difference.prompts["to_refusal"]),
                "newly answered": len(difference.prompts["to_compliance"]),
                "net": short_estimate(difference.value, difference.interval, "+"),
                "n": difference.n,
            }
            rows.append(row)
    rows.sort(key=lambda row: (row["suite"], row["perturbation"]))
    return shown_table(rows)
