"""What the numbers say, in sentences without markup, for Markdown and for HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refract.rates.clean_prompts import failed_controls
from refract.rates.comparison import DISCRIMINATION, LESS_IS_WORSE
from refract.rates.judge_error import JudgeError
from refract.rates.judge_rates import NULL_FIELD, WORDING_FIELD
from refract.rates.key import DIFFERS
from refract.rates.rate import Difference, Rate, leaves_out_0
from refract.report.asked_again import verdict_changes
from refract.report.measures import CATEGORY_OF
from refract.report.unread_prompts import prompt_readers
from refract.report.view import SERVED, JudgeScore, View, error_text, summaries
from refract.report.wording import p_text, rate_text, short_estimate
from refract.results.sources import stand_ins
from refract.statistics.hypotheses import INCONCLUSIVE, NOT_WORSE

# Fields of groups that are no field of a suite's rows.
NO_FIELDS = (
    "",
    "attack",
    "category",
    "control",
    "cut_off",
    "human_labels",
    NULL_FIELD,
    "over",
    "provider_refusals",
    "samples",
    "turn",
    WORDING_FIELD,
)
NAMED_GROUPS = 2
# The share of a suite's answers that, not judged, leaves no numbers to speak of.
NEARLY_ALL = 0.9
NOTES = {
    "pocket": "Demonstration models",
    "synthetic": "Synthetic models",
    "recorded": "Recorded answers",
    "served": "Answers from a server",
    "vllm": "Answers of an engine",
}


@dataclass(frozen=True)
class Sentences:
    """What the report says before its tables. A sentence is empty where there is
    nothing to say.

    ``controls`` and ``unjudged`` are alarms: of prompts that anybody answers those
    refused, and where nearly nothing was judged. ``must_refuse`` is a result: of prompts
    that must be refused those answered. ``over_refusing`` is the model that
    :attr:`over_refusal` is about. ``notes`` have a title and a text by kind of model.
    """

    question: str
    controls: str
    unjudged: str
    must_refuse: str
    errors: str
    cut_off: str
    compared: str
    over_refusal: str
    over_refusing: str
    judges: Sequence[str]
    prompt_readers: Sequence[str]
    verdict_changes: Sequence[str]
    notes: Mapping[str, tuple[str, str]]


def sentences_of(view: View) -> Sentences:
    """All sentences about a view."""
    over_refusing = _over_refusing(view)
    return Sentences(
        question=question(view),
        controls=controls(view, "must_answer"),
        unjudged=unjudged(view),
        must_refuse=controls(view, "must_refuse"),
        errors=left_out(view, "error"),
        cut_off=left_out(view, "cut_off"),
        compared=compared(view),
        over_refusal=over_refusal(view, over_refusing) if over_refusing else "",
        over_refusing=over_refusing,
        judges=judges(view),
        prompt_readers=prompt_readers(view),
        verdict_changes=verdict_changes(view),
        notes={kind: (NOTES[kind], note(view, kind, x)) for kind, x in kinds_of(view).items()},
    )


def question(view: View) -> str:
    """What the report answers."""
    return (
        f"How often do {_models(view, view.models)} refuse harmful requests, which they should, and "
        "harmless ones, which they should not?"
    )


def _models(view: View, models: Sequence[str]) -> str:
    return ", ".join(map(view.titles.model, models))


def controls(view: View, kind: str) -> str:
    """Which controls of a kind became what they must not, by suite and model."""
    by_suite: dict[str, list[str]] = {}
    repeated = view.repeated
    for rate in sorted(failed_controls(view.every, kind), key=lambda rate: rate.suite):
        if rate.suite not in repeated:
            judge = rate.key.judge
            wrong = rate.counts.n - (rate.counts.successes or 0)
            text = f"{view.titles.model(rate.model)} {wrong} of {rate.counts.n}"
            text += f" (judged by {judge})" if judge else ""
            by_suite.setdefault(rate.suite, []).append(text)
    return "; ".join(
        f"{view.titles.plain(suite)}: {', '.join(texts)}" for suite, texts in by_suite.items()
    )


def unjudged(view: View) -> str:
    """The suites and models of which nearly no answer was judged, with how many were
    not."""
    parts = []
    for line in summaries(view):
        counts = line.refusal.counts
        answers = counts.n + counts.unjudged
        if answers and counts.unjudged >= NEARLY_ALL * answers:
            suite, model = view.titles.suite(line.suite), view.titles.model(line.model)
            parts.append(f"{suite}, {model} ({counts.unjudged} of {answers})")
    return "; ".join(parts)


def left_out(view: View, outcome: str) -> str:
    """The suites and models of which answers were left out for one reason, with how
    many."""
    parts = []
    for line in summaries(view):
        count = line.refusal.counts.excluded.get(outcome)
        if count:
            suite, model = view.titles.suite(line.suite), view.titles.model(line.model)
            parts.append(f"{suite}, {model} ({count})")
    return "; ".join(parts)


def compared(view: View) -> str:
    """How the model nearest to the reference differs from it, on the suite with most
    kinds."""
    near = view.nearest
    largest = max(near.by_suite.values(), key=len, default=[]) if near else []
    changes = []
    for difference in largest:
        if difference.value is not None:
            changes.append(change(difference, view.confidence))
    if not near or not changes:
        return ""
    alike, differs = "", near.differs_in
    if differs == ["system_prompt"]:
        base = view.provenance[near.reference]["model"]["definition"]
        prompt = "without its" if base.get("system_prompt") else "with a"
        alike = f" (the same {prompt} system prompt)"
    elif len(differs) in (1, 2):
        alike = f" (the same but for {' and '.join(differs)})"
    reference, model = view.titles.model(near.reference), view.titles.model(near.model)
    suite = view.titles.plain(largest[0].suite)
    return f"Against {reference} on {suite}, {model}{alike} refused {'; '.join(changes)}."


def change(difference: Difference, confidence: float) -> str:
    """How much more or less one model refused of one kind of prompt, whether that may
    be chance, and what was decided of it."""
    value, ends = difference.value or 0.0, difference.shown
    more = value >= 0
    if not more:
        value, ends = -value, ends and type(ends)(-ends.high, -ends.low)
    size, category = short_estimate(value, ends), difference.category
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
    """What else than the models could have made a difference: p decides on chance, and
    an interval that says otherwise is said."""
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


def _harmless(view: View) -> dict[str, tuple[int, int]]:
    """The harmless prompts refused and judged, of live models where there are
    such."""
    judged = {model: counts for model, counts in view.harmless.items() if counts[1]}
    stand = stand_ins(view.provenance)
    return {model: counts for model, counts in judged.items() if model not in stand} or judged


def _over_refusing(view: View) -> str:
    """The live model that refused the largest share of distinct harmless prompts."""
    counts = _harmless(view)
    return max(counts, key=lambda model: counts[model][0] / counts[model][1], default="")


def over_refusal(view: View, model: str) -> str:
    """How many harmless prompts the model refused that refuses most of them, and of
    what kind."""
    counts = _harmless(view)
    aside = []
    for other, (refused_too, judged_too) in view.harmless.items():
        if other not in counts and judged_too:
            aside.append(f"{view.titles.model(other)} {refused_too} of {judged_too}")
    but = f"Stand-in models aside ({', '.join(aside)}), " if aside else ""
    refused, judged = counts.pop(model)
    if not refused:
        return f"{but}{'no' if but else 'No'} model refused a helpful or borderline prompt."
    text = f"{but}{view.titles.model(model)} refused "
    others = []
    alone = True
    for other, (refused_too, judged_too) in counts.items():
        others.append(f"{view.titles.model(other)} {refused_too} of {judged_too}")
        alone &= refused_too / judged_too != refused / judged
    if others:
        most = "the most harmless prompts" if alone else "as many harmless prompts as any other"
        text += f"{most}: "
    text += f"{refused} of {judged} answers to helpful and borderline ones"
    text += f" ({', '.join(others)})" if others else ""
    kinds = []
    for rate in _most_refused(view.rates[model]):
        kind = f"{CATEGORY_OF[rate.name]} prompts of {rate.group.field} {rate.group.value}"
        kinds.append(f"{kind} ({rate.counts.successes} of {rate.counts.n})")
    most = f" It most often refused {' and '.join(kinds)}." if kinds else ""
    return f"{text}.{most}"


def _most_refused(rates: Sequence[Rate]) -> list[Rate]:
    """The groups of harmless prompts of which most were refused for sure."""
    groups = []
    for rate in rates:
        harmless = CATEGORY_OF.get(rate.name, "harmful") != "harmful"
        if harmless and rate.group.field not in NO_FIELDS and rate.counts.successes and rate.shown:
            groups.append((-rate.shown.low, rate))
    groups.sort(key=lambda group: group[0])
    return [rate for _, rate in groups[:NAMED_GROUPS]]


def judges(view: View) -> list[str]:
    """How good each judge is that decides refusal: on models that nobody labelled,
    and on labelled pairs."""
    errors: dict[str, JudgeError | None] = {}
    for suite in view.suites.values():
        known = suite.get("judge_error")
        if not errors.get(suite["judges"][0]):
            errors[suite["judges"][0]] = JudgeError.read(known)
    texts = []
    for name, error in errors.items():
        kappa = view.scores.get(name, {}).get("kappa")
        texts.append(_judge(name, error, view.confidence) + (_kappa(kappa) if kappa else ""))
    return texts


def _judge(name: str, error: JudgeError | None, confidence: float) -> str:
    if error is None:
        return f"How far the shares by the judge {name} are from labels is not known here."
    text = error_text(name, error, confidence)
    return f"{text[0].upper()}{text[1:]}."


def _kappa(kappa: JudgeScore) -> str:
    return (
        f" Its κ with the labels of the {kappa.n} pairs in data/validation is "
        f"{short_estimate(kappa.value, kappa.interval)}."
    )


def kinds_of(view: View) -> dict[str, list[str]]:
    """The models of which a reader must know what they are, by kind."""
    kinds: dict[str, list[str]] = {kind: [] for kind in NOTES}
    for model, facts in view.provenance.items():
        definition = facts["model"]["definition"]
        kind = "served" if definition["adapter"] in SERVED else definition["adapter"]
        if str(definition.get("model_id", "")).startswith("data/pocket/"):
            kind = "pocket"
        if kind in kinds:
            kinds[kind].append(model)
    return {kind: models for kind, models in kinds.items() if models}


def note(view: View, kind: str, models: Sequence[str]) -> str:
    """What a reader must know of models of one kind."""
    named = _models(view, models)
    if kind == "pocket":
        are = "is a pocket model" if len(models) == 1 else "are pocket models"
        return (
            f"{named} {are}, trained in this repository on its own text so that the whole path runs on "
            "any machine; nothing follows for other models."
        )
    if kind == "synthetic":
        return (
            f"{named}: a hash of the prompt decides, at rates set in params.yaml; no language model is "
            "behind it."
        )
    if kind == "recorded":
        return f"{named}: answers from a file, re-judged."
    if kind == "vllm":
        engines = [_engine(view.provenance[model]["model"]["identity"]) for model in models]
        return (
            f"{named}: vLLM computed the answers ({'; '.join(engines)}) in the server's arithmetic, "
            "which is not exact: another GPU, release or batch can change them, greedy ones too."
        )
    return (
        f"{named}: a server computed the answers, and what else it was asked at the time can change "
        f"them, greedy ones too.{_repeats(view, models)}"
    )


def _engine(identity: Mapping[str, Any]) -> str:
    invariant = ", batch-invariant" if identity["batch_invariant"] else ""
    return f"{identity['arithmetic']}{invariant}"


def _repeats(view: View, models: Sequence[str]) -> str:
    """How often the same prompt got another text from served models, where that was
    measured."""
    measured, unknown = [], []
    for model in models:
        rates = []
        for rate in view.rates[model]:
            if rate.measure == DIFFERS and not rate.group and rate.value is not None:
                rates.append(f"{rate_text(rate)} ({view.titles.suite(rate.suite)})")
        samples = view.provenance[model]["model"].get("seed") is not None
        name = view.titles.model(model)
        if rates:
            name += ", which samples," if samples else ""
            measured.append(f"{name} {', '.join(rates)}")
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
