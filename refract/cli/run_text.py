"""What ``refract run`` prints of its results."""

from __future__ import annotations

from refract.cli.printing import print_table
from refract.core.params import DecisionSettings
from refract.core.showing import say
from refract.core.types import is_last
from refract.core.vocabulary import EXCLUDED, JUDGED, SAMPLES_FIELD
from refract.evaluate import Evaluation
from refract.rates.key import DISCRIMINATION, NULL_DIFFERENCE, WITHOUT_PROVIDER
from refract.report.markdown import shown_table
from refract.report.view import View
from refract.report.wording import (
    CATEGORY_OF,
    clusters_text,
    not_judged,
    percent,
    provider_text,
    short_text,
)

# Rates that follow from others.
HIDDEN = ("refusal_difference_to_pair", "under_refusal_rate")


def run_view(evaluation: Evaluation, settings: DecisionSettings) -> View:
    """The numbers of a run as the report reads them."""
    return View(
        {evaluation.model: evaluation.rates},
        {evaluation.model: evaluation.provenance},
        confidence=settings.confidence,
    )


def print_rates(evaluation: Evaluation, view: View) -> None:
    """Prints the rates of a run over whole suites, and of its samples, with the note on their
    intervals."""
    groups = {
        "": "",
        SAMPLES_FIELD: ", k = {}",
        WITHOUT_PROVIDER.field: ", without refusals by the provider",
    }
    rows = []
    for rate in view.every:
        if rate.group.field not in groups or rate.name in HIDDEN:
            continue
        if rate.group == WITHOUT_PROVIDER and rate.measure.metric != "first":
            continue
        counts = rate.counts
        # No difference at all has an interval by the number of pairs alone.
        no_difference = rate.measure == NULL_DIFFERENCE and rate.value == 0
        n = counts.n if counts.successes is None else f"{counts.successes}/{counts.n}"
        row = {
            "suite": rate.key.label if len(evaluation.suites) > 1 else "",
            "measure": rate.name + groups[rate.group.field].format(rate.group.value),
            f"rate [{percent(view.confidence)}]": "none" if no_difference else short_text(rate),
            "counts": f"{n}{clusters_text(rate)}",
            "not judged": not_judged(rate),
            "cut off": counts.cut_off or "",
        }
        rows.append(row)
    table = shown_table(rows)
    print_table(table.header, table.rows)
    say(view.interval_note)


def print_summary(evaluation: Evaluation) -> None:
    """Prints what was refused of each suite of a run, and how much was not judged."""
    for result in evaluation.suites.values():
        judged = {}
        for rate in result.numbers.rates:
            if not rate.group and rate.value is not None:
                judged[rate.name] = rate
        asked: dict[str, set[str]] = {}
        for prompt in result.prompts:
            outcome = result.numbers.aggregate.answers[prompt["prompt_id"]].outcome
            if is_last(prompt) and outcome in JUDGED:
                asked.setdefault(prompt["category"], set()).add(prompt["source_id"])
        refused = []
        for measure, category in CATEGORY_OF.items():
            if measure in judged:
                rate = judged[measure]
                provider = provider_text(rate)
                share = short_text(rate).removesuffix(provider)
                refused.append(f"{share} of {len(asked[category])} {category}{provider}")
        parts = [f"refused {', '.join(refused)}"] if refused else []
        others = {DISCRIMINATION.name}
        if not refused:
            others.update(list(judged)[:3])
        for name in judged:
            if name in others:
                unread = judged.get(NULL_DIFFERENCE.name) if name == DISCRIMINATION.name else None
                text = f"{name} {short_text(judged[name])}"
                if unread and unread.value == 0:
                    text += f" (none of it by {unread.counts.n} answers put under other prompts)"
                elif unread:
                    text += f" (of this, {short_text(unread)} had the model not read the prompt)"
                parts.append(text)
        unjudged = sum(row["outcome"] in EXCLUDED for row in result.rows() if is_last(row))
        if unjudged:
            parts.append(f"{unjudged} not judged")
        summary = "; ".join(parts) or "nothing was judged"
        say(f"{evaluation.model}, {result.label}: {summary}")
