"""How far verdicts of judges depend on chance and on the words of their question, in
sentences."""

from __future__ import annotations

from refract.rates.key import VERDICT_CHANGE
from refract.report.view import View
from refract.report.wording import short_text


def verdict_changes(view: View) -> list[str]:
    """For each judge that was asked again or in other words, on each model's answers to
    each suite: how many verdicts flipped."""
    by_judge: dict[tuple[str, str, str], list[str]] = {}
    for rate in view.every:
        if rate.measure != VERDICT_CHANGE:
            continue
        judge = rate.key.judge or view.deciding.get(rate.suite, "")
        counts, share = rate.counts, short_text(rate)
        flipped = f"{share} of {counts.n} verdicts"
        if counts.successes is not None:
            flipped = f"{counts.successes} of {counts.n} verdicts ({share})"
        how = f"in the words of {rate.group.value}" if rate.group else "on asking again"
        texts = by_judge.setdefault((rate.suite, judge, rate.model), [])
        texts.append(f"{flipped} flipped {how}")
    lines = []
    for (suite, judge, model), texts in by_judge.items():
        titles = view.titles
        lines.append(
            f"{judge} on {titles.plain(suite)}, answers of {titles.model(model)}: "
            f"{', '.join(texts)}"
        )
    return lines
