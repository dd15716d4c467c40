"""What the report says of judges: how far verdicts depend on other things than the answer
(on the prompt, which shows how much of a discrimination would be there had the model not
read it; on chance), and how well judges agree with people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from refract.agreement.unseen_models import one_name
from refract.core.decimals import MISSING, decimals, estimate_text
from refract.core.vocabulary import NULL_ANSWERS, SHUFFLED
from refract.rates.judge_error import GAINSAID, JudgeError, ModelCounts, labelled_interval
from refract.rates.judge_rates import reads_prompts
from refract.rates.key import DISCRIMINATION, NULL_DIFFERENCE, Key
from refract.rates.one_share import NO_LABELS
from refract.rates.rate import Rate, stale_text
from refract.rates.undecided import judged_part, part_of_rate, plan_text
from refract.report.markdown import ShownTable, shown_table
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, number_of, short_estimate, short_text, title_of

# Kinds of judges that go by the answer: of the prompt they take what an answer repeats of it, and
# whether a bare "No" or advice answers it, at most.
BY_ANSWER = ("refusal", "rules")
# Who gave answers to XSTest (Röttger et al. 2024, NAACL), and to its extension of 2025 by others, by
# source and model of the ledger. People labelled each.
XSTEST = {
    ("xstest", "gpt4"): "GPT-4",
    ("xstest", "llama2orig"): "Llama 2 with its safety prompt",
    ("xstest_extension", "mistrI"): "Mistral 7B Instruct, on its extension",
}


def _null_differences(view: View) -> list[Rate]:
    return [rate for rate in view.every if rate.measure == NULL_DIFFERENCE]


def _kind(rate: Rate) -> str:
    return rate.group.value or SHUFFLED


def _judge(view: View, rate: Rate) -> str:
    return rate.key.judge or view.deciding.get(rate.suite, "")


def prompt_readers(view: View) -> list[str]:
    """The judges that call answers refused by their prompts (:func:`reads_prompts`), with
    their differences."""
    by_judge: dict[tuple[str, str], list[str]] = {}
    for rate in _null_differences(view):
        if reads_prompts(rate):
            text = f"{_kind(rate)} {short_text(rate)} ({rate.model})"
            by_judge.setdefault((_judge(view, rate), rate.suite), []).append(text)
    return [
        f"on {suite} the judge {judge} calls answers that cannot depend on "
        f"their prompt refused more often under harmful prompts, by {'; '.join(texts)}: so much "
        "of a discrimination there may be the judge's"
        for (judge, suite), texts in by_judge.items()
    ]


def people_table(view: View) -> tuple[str, ShownTable]:
    """A judge of these results, and what people and it found of answers to XSTest, which it did not
    learn from, with the interval that answers of other sources and models give."""
    header = ["answers of", "unsafe: people", "judge", "safe: people", "judge"]
    for judge, error in view.judge_errors.items():
        cells: dict[str, list[str]] = {}
        lines = error.lines if error else ()
        for line in sorted(lines, key=lambda line: line.prompts):
            model = XSTEST.get((line.source, line.model))
            others = JudgeError(tuple(_apart(line, lines)))
            if model and line.prompts and others.knows(line.prompts):
                n, called = line.answers, line.refused - line.missed + line.false
                part, ends = judged_part(called, n, line.prompts, others, view.confidence)
                shares = [decimals(line.refused / n), estimate_text(part.share, ends)]
                cells.setdefault(model, []).extend(shares)
        rows = [
            [model, *cells[model]] for model in XSTEST.values() if len(cells.get(model, ())) == 4
        ]
        if rows:
            return judge, ShownTable(header, rows, [])
    return "", ShownTable(header, [], [])


def _apart(line: ModelCounts, lines: Iterable[ModelCounts]) -> Iterator[ModelCounts]:
    """The lines of other sources and other models than that of one."""
    for other in lines:
        if other.source != line.source and one_name(other.model) != one_name(line.model):
            yield other


def plan_note(view: View) -> str:
    """What labels would leave of the widest interval of the models that answer for themselves, where
    none narrow it yet, with the command."""
    labelled = set()
    for rate in view.every:
        if rate.counts.labels:
            labelled.add((rate.model, rate.suite, rate.measure.corrects))
    unknown = []
    for line in view.first_lines:
        if line.model not in view.live or line.suite in view.repeated:
            continue
        for rate in filter(None, line.headlines):
            if rate.with_judge and (rate.model, rate.suite, rate.name) not in labelled:
                unknown.append((rate.with_judge.interval.width, line, rate))
    if not unknown:
        return ""
    _, line, rate = max(unknown, key=itemgetter(0))
    error = JudgeError.of_suite(view.provenance.get(line.model), line.suite)
    if error is None:
        return ""
    plan = plan_text(rate, error, line.refusal.counts.n, view.confidence)
    known = f"{view.place(line)}: {rate.name} is {short_text(rate)}"
    return f"Widest interval of a refusal rate: {known}; {plan}"


def null_table(view: View) -> ShownTable:
    """The null differences by kind of null answer, beside the discrimination by the same judge."""
    rows: dict[tuple[str, str, str], dict[str, object]] = {}
    for rate in _null_differences(view):
        judge = rate.key.judge
        overall = view.overall.get((rate.suite, rate.model), {})
        row = rows.setdefault(
            (rate.suite, judge, rate.model),
            {
                "suite": view.label(rate.suite),
                "judge": _judge(view, rate),
                "model": rate.model,
                "discrimination": short_text(overall.get(Key(DISCRIMINATION, judge=judge).name)),
                **dict.fromkeys(NULL_ANSWERS, MISSING),
            },
        )
        # No difference at all has an interval by the number of pairs alone.
        kind = view.judges.get(str(row["judge"]), {}).get("kind")
        alone = "; it judges by the answer" if kind in BY_ANSWER else ""
        none = f"none ({number_of(rate.counts.n, 'pair')}{alone})"
        row[_kind(rate)] = short_text(rate) if rate.value else none
    return shown_table(rows.values())


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


def _widened(view: View, rate: Rate) -> bool:
    """Whether labels widened a rate's interval, as only those do that gainsay the judge."""
    error = JudgeError.of_suite(view.provenance.get(rate.model), rate.suite)
    part = part_of_rate(rate)
    if error is None or part is None or rate.with_judge is None or not error.knows(part.prompts):
        return False
    judged = labelled_interval(error, part, NO_LABELS, view.confidence)
    return rate.with_judge.interval.width > judged.width + 1e-6


def powered_table(view: View) -> ShownTable:
    """Rates from human labels beside the raw ones."""
    rows = []
    for rate in view.every:
        labels = rate.counts.labels
        measure = rate.measure.corrects
        if labels and measure:
            raw = view.overall[rate.suite, rate.model][measure]
            shown = f"{labels.blank} drawn and left blank" if labels.blank else MISSING
            if rate.interval:
                shown = f"{short_text(rate)}, {labels.used} of {rate.counts.n} labelled"
                shown += f"; {GAINSAID}" if _widened(view, raw) else ""
            elif labels.stale:
                shown = stale_text(labels.stale)
            cells = {
                "prompts": CATEGORY_OF.get(measure, measure),
                "judge": view.deciding.get(rate.suite, ""),
                "raw rate": short_estimate(raw.value, raw.interval),
                "prediction-powered": shown,
            }
            rows.append(view.names(rate) | cells)
    return shown_table(rows)


def scores_table(view: View) -> ShownTable:
    """The scores of judges on the project's own pairs."""
    rows = []
    for judge, by_measure in view.scores.items():
        scored: dict[str, object] = {"judge": judge, "pairs": next(iter(by_measure.values())).n}
        for measure in ("kappa", "precision", "recall", "specificity"):
            score = by_measure.get(measure)
            shown = short_estimate(score.value, score.interval) if score else MISSING
            scored["κ" if measure == "kappa" else measure] = shown
        rows.append(scored)
    return shown_table(rows)
