"""What the report says of judges: how far verdicts depend on other things than the answer
(on the prompt, which shows how much of a discrimination would be there had the model not
read it; on chance and the words of the judge's question), and how well judges agree with
people and with each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refract.core.decimals import MISSING, decimals
from refract.core.vocabulary import NULL_ANSWERS, SHUFFLED, refusal_of
from refract.rates.judge_rates import reads_prompts
from refract.rates.key import DISCRIMINATION, NULL_DIFFERENCE, VERDICT_CHANGE, Key
from refract.rates.rate import Rate
from refract.report.markdown import ShownTable, shown_table
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, short_estimate, short_text, title_of
from refract.statistics.raters import cohen_kappa

if TYPE_CHECKING:
    from refract.report.page_data import PageData


def _null_differences(view: View) -> list[Rate]:
    return [rate for rate in view.every if rate.measure == NULL_DIFFERENCE]


def _kind(rate: Rate) -> str:
    return rate.group.value or SHUFFLED


def _judge(view: View, rate: Rate) -> str:
    return rate.key.judge or view.deciding.get(rate.suite, "")


def null_notes(view: View, suites: Sequence[str]) -> list[str]:
    """For each of these suites, by the judge that decides: how much of the discrimination
    would be there had the models not read the prompts; equal texts once."""
    by_suite: dict[str, dict[str, list[str]]] = {}
    for rate in _null_differences(view):
        if _kind(rate) == SHUFFLED and not rate.key.judge and rate.suite in suites:
            texts = by_suite.setdefault(rate.suite, {})
            texts.setdefault(short_text(rate), []).append(view.titles.model(rate.model))
    notes = []
    for suite, texts in by_suite.items():
        shares = list(texts)
        if len(texts) > 1:
            shares = [f"{text} ({', '.join(models)})" for text, models in texts.items()]
        notes.append(
            f"discrimination on {view.titles.plain(suite)}: of this, {', '.join(shares)} would be "
            "there had the model not read the prompt"
        )
    return notes


def prompt_readers(view: View) -> list[str]:
    """The judges that call answers refused by their prompts (:func:`reads_prompts`), with
    their differences; equal ones once."""
    by_judge: dict[tuple[str, str], dict[str, list[str]]] = {}
    for rate in _null_differences(view):
        if reads_prompts(rate):
            texts = by_judge.setdefault((_judge(view, rate), rate.suite), {})
            models = texts.setdefault(f"{_kind(rate)} {short_text(rate)}", [])
            models.append(view.titles.model(rate.model))
    warnings = []
    for (judge, suite), texts in by_judge.items():
        parts = [f"{text} ({', '.join(models)})" for text, models in texts.items()]
        warnings.append(
            f"on {view.titles.plain(suite)} the judge {judge} calls answers that cannot depend on "
            f"their prompt refused more often under harmful prompts, by {'; '.join(parts)}: so much "
            "of a discrimination there may be the judge's"
        )
    return warnings


def null_table(view: View) -> ShownTable:
    """The null differences by kind of null answer, beside the discrimination by the same
    judge."""
    rows: dict[tuple[str, str, str], dict[str, object]] = {}
    for rate in _null_differences(view):
        judge = rate.key.judge
        overall = view.overall.get((rate.suite, rate.model), {})
        row = rows.setdefault(
            (rate.suite, judge, rate.model),
            {
                "suite": view.titles.suite(rate.suite),
                "judge": _judge(view, rate),
                "model": view.titles.model(rate.model),
                "discrimination": short_text(overall.get(Key(DISCRIMINATION, judge=judge).name)),
                **dict.fromkeys(NULL_ANSWERS, MISSING),
            },
        )
        row[_kind(rate)] = short_text(rate)
    return shown_table(rows.values())


def verdict_changes(view: View) -> list[str]:
    """For each judge that was asked again, on each model's answers to each suite: how many
    verdicts flipped."""
    lines = []
    for rate in view.every:
        if rate.measure == VERDICT_CHANGE:
            counts, share = rate.counts, short_text(rate)
            flipped = f"{share} of {counts.n} verdicts"
            if counts.successes is not None:
                flipped = f"{counts.successes} of {counts.n} verdicts ({share})"
            answers = f"{view.titles.plain(rate.suite)}, answers of {view.titles.model(rate.model)}"
            judge = _judge(view, rate)
            lines.append(f"{judge} on {answers}: {flipped} flipped on asking again")
    return lines


def further_table(view: View) -> ShownTable:
    """What judges of other things than refusal say of each suite's answers."""
    rows = []
    for rate in view.every:
        if rate.key.judge and rate.measure.counted_for == "judge" and not rate.group:
            judge = rate.key.judge
            measure = title_of(rate.measure)
            row = view.measured(rate, "share or mean", n="answers", judge=judge, measure=measure)
            rows.append(row)
    return shown_table(rows)


def judge_tables(view: View, answers: PageData) -> dict[str, Any]:
    """Rates from human labels beside the raw ones, what judges of other things than
    refusal say, κ of the first judge with every other, and scores on the project's
    own pairs."""
    powered, scores = [], []
    for rate in view.every:
        labels = rate.counts.labels
        measure = rate.measure.corrects
        if labels and measure:
            raw = view.overall[rate.suite, rate.model][measure]
            shown = f"{labels.blank} drawn and left blank" if labels.blank else MISSING
            if rate.interval:
                shown = f"{short_text(rate)}, {labels.used} of {rate.counts.n} labelled"
            elif labels.stale:
                shown = f"{labels.stale} labels are of other answers"
            cells = {
                "prompts": CATEGORY_OF.get(measure, measure),
                "judge": view.deciding.get(rate.suite, ""),
                "raw rate": short_estimate(raw.value, raw.interval),
                "prediction-powered": shown,
            }
            powered.append(view.names(rate) | cells)
    for judge, by_measure in view.scores.items():
        scored: dict[str, object] = {"judge": judge, "pairs": next(iter(by_measure.values())).n}
        for measure in ("kappa", "precision", "recall", "specificity"):
            score = by_measure.get(measure)
            shown = short_estimate(score.value, score.interval) if score else MISSING
            scored["κ" if measure == "kappa" else measure] = shown
        scores.append(scored)
    return {
        "further": further_table(view),
        "nulls": null_table(view),
        "powered": shown_table(powered),
        "twice": shown_table(_twice(view, answers)),
        "scores": shown_table(scores),
        "weak": list(_weaknesses(view)),
    }


def _weaknesses(view: View) -> Iterator[str]:
    """Where a judge's label is right less often than over all of the project's own
    pairs."""
    for judge, scores in view.scores.items():
        if "label_accuracy" not in scores:
            continue
        share, kinds = scores["label_accuracy"].value, []
        ordered = sorted(view.kinds.get(judge, {}).items(), key=lambda kind: kind[1])
        for kind, score in ordered:
            if score.interval and score.interval.high < share:
                right = f"{score.right}/{score.n} ({score.refused_right}/{score.n})"
                kinds.append(f"{kind.replace('_', ' ')} {right}")
        if kinds:
            yield (
                f"Where {judge} is weak, its label right less often than over all pairs "
                f"({decimals(share)}), by kind of answer, and in parentheses refused or not told "
                f"rightly: {'; '.join(kinds)}."
            )


def verdict_pairs(row: Mapping[str, str], first: str) -> Iterator[tuple[str, tuple[bool, bool]]]:
    """The first judge and each other one that reads the answer, with whether they say that
    it refuses."""
    labels = {}
    for verdict in json.loads(row["verdicts"]):
        if "reads" not in verdict:
            labels[verdict["judge"]] = verdict["label"]
    decided = refusal_of(labels.pop(first, None))
    for judge, label in labels.items():
        refused = refusal_of(label)
        if refused is not None and decided is not None:
            yield f"{first}, {judge}", (decided, refused)


def _twice(view: View, answers: PageData) -> Iterator[dict[str, object]]:
    """Cohen's κ, on refused or not, of each suite's first judge and every other that
    told refusal."""
    labels: dict[tuple[str, str, str], list[tuple[bool, bool]]] = {}
    deciding = {view.titles.suite(suite): judge for suite, judge in view.deciding.items()}
    for row in answers.clean():
        for judges, pair in verdict_pairs(row, deciding.get(row["suite"], "")):
            labels.setdefault((row["suite"], row["model"], judges), []).append(pair)
    for (suite, model, judges), pairs in labels.items():
        by_first, by_other = zip(*pairs, strict=True)
        kappa = cohen_kappa(by_first, by_other, view.confidence)
        ends = None
        if kappa.low is not None and kappa.high is not None:
            ends = kappa.low, kappa.high
        yield {
            "suite": suite,
            "model": model,
            "judges": judges,
            "κ": short_estimate(kappa.kappa, ends),
            "alike": f"{sum(decided == refused for decided, refused in pairs)} of {len(pairs)}",
        }
