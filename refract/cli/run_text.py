"""The results of ``refract run`` as texts: the table of its rates, and a line for each suite."""

from __future__ import annotations

from refract.core.params import DecisionSettings
from refract.core.vocabulary import EXCLUDED, SAMPLES_FIELD, Estimand
from refract.evaluate import Evaluation, SuiteResult
from refract.rates.counting import coverage_warnings
from refract.rates.key import DISCRIMINATION, NULL_DIFFERENCE, WITHOUT_CUT_OFF, WITHOUT_PROVIDER
from refract.rates.rate import Rate
from refract.report.markdown import ShownTable
from refract.report.view import View
from refract.report.wording import (
    CATEGORY_OF,
    clusters_text,
    kinds_text,
    percent,
    provider_text,
    rate_text,
    short_estimate,
    short_text,
)


def run_view(evaluation: Evaluation, settings: DecisionSettings) -> View:
    """The numbers of a run as the report reads them."""
    return View(
        {evaluation.model: [rate.asked(settings.estimand) for rate in evaluation.rates]},
        {evaluation.model: evaluation.provenance},
        confidence=settings.confidence,
        estimand=settings.estimand,
    )


def run_table(
    evaluation: Evaluation, settings: DecisionSettings, *, wide: bool = False
) -> ShownTable:
    """The rates of a run over whole suites, and of its samples, with the note on their intervals;
    ``wide``: those too that follow from others, and without cut-off answers."""
    groups = {"": "", SAMPLES_FIELD: ", k = {}"}
    groups[WITHOUT_PROVIDER.field] = ", without refusals by the provider"
    hidden = {"refusal_difference_to_pair"}
    header = ["suite", "measure", f"rate [{percent(settings.confidence)}]"]
    if wide:
        groups[WITHOUT_CUT_OFF.field] = ", without cut-off answers"
    else:
        hidden.add("under_refusal_rate")  # 1 - harmful_refusal_rate
        header.append("counts")
    view = run_view(evaluation, settings)
    rows = []
    for rate in view.every:
        in_brief = rate.group != WITHOUT_PROVIDER or rate.measure.metric == "first"
        if rate.group.field in groups and rate.name not in hidden and (wide or in_brief):
            measure = rate.name + groups[rate.group.field].format(rate.group.value)
            suite = rate.key.label if len(evaluation.suites) > 1 else ""
            rows.append([suite, measure, *_cells(rate, wide=wide)])
    header += ["not judged", "cut off"]
    filled = []
    for number in range(len(header)):
        if any(row[number] not in ("", "0") for row in rows):
            filled.append(number)
    return ShownTable(header, rows, [view.interval_note]).only(filled)


def _cells(rate: Rate, *, wide: bool) -> list[str]:
    counts = rate.counts
    n = counts.n if counts.successes is None else f"{counts.successes}/{counts.n}"
    cells = [rate_text(rate)] if wide else [short_text(rate), f"{n}{clusters_text(rate)}"]
    return [*cells, kinds_text(counts.excluded), str(counts.cut_off or 0)]


def coverage_lines(result: SuiteResult) -> list[str]:
    """What was not judged or cut off in a suite, where it is much."""
    loops = sum(response["finish_reason"] == "loop" for response in result.responses)
    whole = result.numbers.whole
    return coverage_warnings(whole, loops) if whole else []


def suite_summary(result: SuiteResult, estimand: Estimand) -> str:
    """What was refused of a suite, and how much was not judged."""
    judged: dict[str, Rate] = {}
    for rate in result.numbers.rates:
        if not rate.group and rate.value is not None:
            judged[rate.name] = rate.asked(estimand)
    refused = []
    for measure, category in CATEGORY_OF.items():
        if measure in judged:
            rate = judged[measure]
            share = short_estimate(rate.value, rate.shown)
            refused.append(f"{share} of {rate.counts.n} {category}{provider_text(rate)}")
    parts = [f"refused {', '.join(refused)}"] if refused else []
    others = {DISCRIMINATION.name}
    if not refused:
        others.update(list(judged)[:3])
    for name in judged:
        if name in others:
            unread = judged.get(NULL_DIFFERENCE.name) if name == DISCRIMINATION.name else None
            text = f"{name} {short_text(judged[name])}"
            if unread:
                text += f" (of this, {short_text(unread)} had the model not read the prompt)"
            parts.append(text)
    unjudged = sum(row["outcome"] in EXCLUDED for row in result.rows())
    if unjudged:
        parts.append(f"{unjudged} not judged")
    return "; ".join(parts) or "nothing was judged"
