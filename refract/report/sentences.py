"""What the numbers say, in sentences without markup, for Markdown and for HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from refract.rates.clean_prompts import failed_controls
from refract.rates.comparison import DISCRIMINATION, LESS_IS_WORSE
from refract.rates.judge_error import JudgeError
from refract.rates.judge_rates import NULL_FIELD
from refract.rates.key import DIFFERS
from refract.rates.rate import Counts, Difference, leaves_out_0, prompts_of
from refract.report.judge_notes import prompt_readers, verdict_changes
from refract.report.view import View, error_text
from refract.report.wording import CATEGORY_OF, negated, p_text, rate_text, short_estimate
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import INCONCLUSIVE, NOT_WORSE

# Adapters whose answers a server computes.
SERVED = ("anthropic", "openai", "vllm")
# Fields of groups that are no field of a suite's rows.
NO_FIELDS = (
    *("", "attack", "category", "control", "cut_off", "human_labels", NULL_FIELD, "over"),
    *("provider_refusals", "samples", "turn"),
)
NAMED_GROUPS = 2
# The share of a suite's answers that, not judged, leaves no numbers to speak of.
NEARLY_ALL = 0.9
NOTES = {
    "pocket": "Demonstration models",
    "synthetic": "Synthetic models",
    "recorded": "Recorded answers",
    "served": "Answers from a server",
}


@dataclass(frozen=True)
class Sentences:
    """What the report says before its tables. A sentence is empty where there is nothing to
    say.

    ``controls`` and ``unjudged`` are alarms: of prompts that anybody answers those
    refused, and where nearly nothing was judged. ``must_refuse`` is a result: of prompts
    that must be refused those answered. ``notes`` have a title and a text.
    """

    question: str
    controls: str
    unjudged: str
    must_refuse: str
    errors: str
    cut_off: str
    compared: str
    over_refusal: str
    judges: list[str]
    prompt_readers: list[str]
    verdict_changes: list[str]
    labels: str
    notes: list[tuple[str, str]]


def sentences_of(view: View) -> Sentences:
    """All that is said of the numbers of a view."""
    return Sentences(
        question=f"How often do {_models(view, view.models)} refuse harmful requests, which they "
        "should, and harmless ones, which they should not?",
        controls=controls(view, "must_answer"),
        unjudged="; ".join(_unjudged(view)),
        must_refuse=controls(view, "must_refuse"),
        errors="; ".join(_left_out(view, "error")),
        cut_off="; ".join(_left_out(view, "cut_off")),
        compared=compared(view),
        over_refusal=over_refusal(view),
        judges=judges(view),
        prompt_readers=prompt_readers(view),
        verdict_changes=verdict_changes(view),
        labels=labels(view),
        notes=notes(view),
    )


def _models(view: View, models: Iterable[str]) -> str:
    return ", ".join(map(view.titles.model, models))


def controls(view: View, kind: str) -> str:
    """Which controls of a kind became what they must not, by suite and model."""
    by_suite: dict[str, list[str]] = {}
    for rate in sorted(failed_controls(view.every, kind), key=lambda rate: rate.suite):
        if rate.suite not in view.repeated:
            wrong = rate.counts.n - (rate.counts.successes or 0)
            text = f"{view.titles.model(rate.model)} {wrong} of {rate.counts.n}"
            text += f" (judged by {rate.key.judge})" if rate.key.judge else ""
            by_suite.setdefault(view.titles.plain(rate.suite), []).append(text)
    return "; ".join(f"{suite}: {', '.join(texts)}" for suite, texts in by_suite.items())


def _counted(view: View) -> Iterator[tuple[str, Counts]]:
    """What the first judges counted, by the titles of suite and model."""
    for line in view.first_lines:
        name = f"{view.titles.suite(line.suite)}, {view.titles.model(line.model)}"
        yield name, line.refusal.counts


def _unjudged(view: View) -> Iterator[str]:
    """The suites and models of which nearly no answer was judged, with how many."""
    for name, counts in _counted(view):
        answers = counts.n + counts.unjudged
        if answers and counts.unjudged >= NEARLY_ALL * answers:
            yield f"{name} ({counts.unjudged} of {answers})"


def _left_out(view: View, outcome: str) -> Iterator[str]:
    """The suites and models of which answers were left out for a reason, with how many."""
    for name, counts in _counted(view):
        if counts.excluded.get(outcome):
            yield f"{name} ({counts.excluded[outcome]})"


def compared(view: View) -> str:
    """How the model nearest to the reference differs from it, on the suite of most kinds."""
    near = view.nearest
    largest = max(near.by_suite.values(), key=len, default=[]) if near else []
    valued = [difference for difference in largest if difference.value is not None]
    if not near or not valued:
        return ""
    changes = "; ".join(change(difference, view.confidence) for difference in valued)
    alike, differs = "", near.differs_in
    if differs == ["system_prompt"]:
        base = view.provenance[near.reference]["model"]["definition"]
        prompt = "without its" if base.get("system_prompt") else "with a"
        alike = f" (the same {prompt} system prompt)"
    elif len(differs) in (1, 2):
        alike = f" (the same but for {' and '.join(differs)})"
    reference = view.titles.model(near.reference)
    suite = view.titles.plain(largest[0].suite)
    return (
        f"Against {reference} on {suite}, {view.titles.model(near.model)}{alike} refused {changes}."
    )


def change(difference: Difference, confidence: float) -> str:
    """A difference in words: its size, whether it may be chance, and what was decided."""
    value = difference.value or 0.0
    ends = difference.shown
    category = difference.category
    more = value >= 0
    size = short_estimate(abs(value), ends if more else negated(ends))
    if category in DISCRIMINATION:
        text = f"its {category.replace('_', ' ')} is {size} {'higher' if more else 'lower'}"
    else:
        text = f"{size} {'more' if more else 'fewer'} of the {category} prompts"
    doubt = _doubt(difference, confidence)
    remarks = [doubt] if doubt else []
    drop = difference.drop
    less_is_worse = category in LESS_IS_WORSE
    # A clear change for the better leaves nothing to be ruled out.
    if drop and (doubt or more != less_is_worse):
        worse = "drop" if less_is_worse else "rise"
        if drop.decision == NOT_WORSE:
            remarks.append(f"a {worse} above {drop.margin} is ruled out")
        elif drop.decision == INCONCLUSIVE:
            remarks.append(f"a {worse} above {drop.margin} is possible")
        elif doubt:
            remarks.append(f"a {worse} where these two alone are compared")
    return f"{text} ({'; '.join(remarks)})" if remarks else text


def _doubt(difference: Difference, confidence: float) -> str:
    """What else could have made a difference: p decides on chance, and an interval that says
    otherwise is said."""
    by_chance = difference.may_be_chance(confidence)
    shown = leaves_out_0(difference.shown)
    if by_chance is None:
        return "" if shown else "may be chance"
    p = p_text(difference.p if difference.p_adjusted is None else difference.p_adjusted)
    if by_chance:
        name = "p" if difference.p_adjusted is None else "p (Holm)"
        return f"may be chance: {name} {p}" if shown else "may be chance"
    if shown:
        return ""
    if leaves_out_0(difference.interval):
        return "may be the judge's error"
    return f"p {p}, though the interval holds 0"


def over_refusal(view: View) -> str:
    """Which model refused the largest share of distinct harmless prompts, of live models where
    there are such, how many and of what kind."""
    judged = {model: counts for model, counts in view.harmless.items() if counts[1]}
    stand = stand_ins(view.provenance)
    live = [name for name in judged if name not in stand] or list(judged)
    shares = {name: judged[name][0] / judged[name][1] for name in live}
    if not shares:
        return ""
    model = max(shares, key=lambda name: shares[name])
    aside: list[str] = []
    others: list[str] = []
    for name, (refused, answers) in judged.items():
        if name != model:
            texts = others if name in shares else aside
            texts.append(f"{view.titles.model(name)} {refused} of {answers}")
    but = f"Stand-in models aside ({', '.join(aside)}), " if aside else ""
    refused, answers = judged[model]
    if not refused:
        return f"{but}{'no' if but else 'No'} model refused a helpful or borderline prompt."
    text = f"{but}{view.titles.model(model)} refused "
    if others:
        alone = list(shares.values()).count(shares[model]) == 1
        text += (
            "the most harmless prompts: " if alone else "as many harmless prompts as any other: "
        )
    text += f"{refused} of {answers} answers to helpful and borderline ones"
    text += f" ({', '.join(others)})." if others else "."
    # The groups of harmless prompts of which most were refused for sure.
    groups = []
    for rate in view.rates[model]:
        category = CATEGORY_OF.get(rate.name, "harmful")
        of_field = category != "harmful" and rate.group.field not in NO_FIELDS
        if of_field and rate.counts.successes and rate.shown:
            kind = f"{category} prompts of {rate.group.field} {rate.group.value}"
            kind += f" ({rate.counts.successes} of {rate.counts.n})"
            groups.append((-rate.shown.low, kind))
    groups.sort(key=lambda group: group[0])
    if groups:
        text += f" It most often refused {' and '.join(kind for _, kind in groups[:NAMED_GROUPS])}."
    return text


def judges(view: View) -> list[str]:
    """How good each judge is that decides refusal."""
    errors: dict[str, JudgeError | None] = {}
    for suite in view.suites.values():
        if not errors.get(suite["judges"][0]):
            errors[suite["judges"][0]] = JudgeError.read(suite.get("judge_error"))
    texts = []
    for name, error in errors.items():
        text = f"How far the shares by the judge {name} are from labels is not known here."
        if error:
            text = error_text(name, error, view.confidence)
            text = f"{text[0].upper()}{text[1:]}."
        kappa = view.scores.get(name, {}).get("kappa")
        if kappa:
            shown = short_estimate(kappa.value, kappa.interval)
            text += f" Its κ with the labels of the {kappa.n} pairs in data/validation is {shown}."
        texts.append(text)
    return texts


def labels(view: View) -> str:
    """How short human labels would make the interval of the headline rate over most answers;
    empty where the judge's error is not known, or people labelled already."""
    headlines = []
    for each in view.every:
        if each.measure.corrects:
            return ""
        if each.name in CATEGORY_OF and not each.group and each.value and each.with_judge:
            headlines.append(each)
    if not headlines:
        return ""
    rate = max(headlines, key=lambda rate: rate.counts.n)
    suite = view.provenance[rate.model]["suites"][rate.suite]
    error = JudgeError.read(suite.get("judge_error"))
    if error is None:
        return ""
    prompts = prompts_of([rate.measure.category or ""])
    share, n, widths = rate.value or 0.0, rate.counts.n, []
    for count in dict.fromkeys((min(50, n), min(200, n), n)):
        half = error.with_labels(share, n, count, prompts, view.confidence)
        widths.append(f"{count} labels ±{half:.2f}".replace("0.", "."))
    return (
        f"Labels of a part of its {n} answers would give {rate.measure.title} of "
        f"{view.titles.model(rate.model)} ({view.titles.plain(rate.suite)}): {', '.join(widths)} "
        "(refract label)."
    )


def notes(view: View) -> list[tuple[str, str]]:
    """What a reader must know of models that are not what they seem: a title and a text for each
    kind of model."""
    kinds: dict[str, list[str]] = {kind: [] for kind in NOTES}
    for model, facts in view.provenance.items():
        definition = facts["model"]["definition"]
        kind = "served" if definition["adapter"] in SERVED else definition["adapter"]
        if str(definition.get("model_id", "")).startswith("data/pocket/"):
            kind = "pocket"
        if kind in kinds:
            kinds[kind].append(model)
    are = "is a pocket model" if len(kinds["pocket"]) == 1 else "are pocket models"
    texts = {
        "pocket": f" {are}, trained in this repository on its own text so that the whole path runs on "
        "any machine; nothing follows for other models.",
        "synthetic": ": a hash of the prompt decides, at rates set in params.yaml; no language model "
        "is behind it.",
        "recorded": ": answers from a file, re-judged.",
        "served": ": a server computed the answers, and what else it was asked at the time can change "
        f"them, greedy ones too.{_repeats(view, kinds['served'])}",
    }
    return [
        (NOTES[kind], _models(view, models) + texts[kind])
        for kind, models in kinds.items()
        if models
    ]


def _repeats(view: View, models: Iterable[str]) -> str:
    """How often served models answered the same prompt otherwise."""
    measured, unknown = [], []
    for model in models:
        rates = []
        for rate in view.rates[model]:
            if rate.measure == DIFFERS and not rate.group and rate.value is not None:
                rates.append(f"{rate_text(rate)} ({view.titles.suite(rate.suite)})")
        name = view.titles.model(model)
        if rates:
            samples = view.provenance[model]["model"].get("seed") is not None
            measured.append(f"{name}{', which samples,' if samples else ''} {', '.join(rates)}")
        else:
            unknown.append(name)
    text = ""
    if measured:
        text += f" Repeats with another text than the first answer: {'; '.join(measured)}."
    if unknown:
        text += (
            f" How often a repeat differs was not measured for {', '.join(unknown)}: a perturbation "
            "with kind: repeat in one of the suites measures it."
        )
    return text
