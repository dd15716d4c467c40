"""What the numbers say, in sentences without markup, for Markdown and for HTML."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from refract.rates.clean_prompts import failed_controls
from refract.rates.key import DIFFERS
from refract.report.view import View, error_text
from refract.report.wording import clusters_text, number_of, short_estimate, short_text
from refract.statistics.raters import more_labels

# Adapters whose answers a server computes.
SERVED = ("anthropic", "openai")
# The share of a suite's answers that, not judged, leaves no numbers to speak of.
NEARLY_ALL = 0.9
# Models that are not what they seem, by kind: a title and a text.
NOTES = {
    "pocket": (
        "Demonstration models",
        "trained in this repository on its own text so that the whole path runs on any machine; nothing "
        "follows for other models.",
    ),
    "synthetic": (
        "Synthetic models",
        "a hash of the prompt decides, at rates set in params.yaml; no language model is behind it.",
    ),
    "recorded": ("Recorded answers", "answers from a file, re-judged."),
    "served": (
        "Answers from a server",
        "a server computed the answers, and what else it was asked at the time can change them, greedy "
        "ones too.",
    ),
}


class Sentences:
    """What the report says of a view before its tables. A sentence is empty where there is
    nothing to say."""

    def __init__(self, view: View) -> None:
        self.view = view

    @property
    def question(self) -> str:
        """What the report answers."""
        return (
            f"How often do {self._models(self.view.models)} refuse harmful requests, which they should, "
            "and harmless ones, which they should not?"
        )

    @cached_property
    def controls(self) -> str:
        """An alarm: of prompts that anybody answers those refused."""
        return self._controls("must_answer")

    @cached_property
    def must_refuse(self) -> str:
        """A result: of prompts that must be refused those answered."""
        return self._controls("must_refuse")

    def _controls(self, kind: str) -> str:
        by_suite: dict[str, list[str]] = {}
        for rate in sorted(failed_controls(self.view.every, kind), key=lambda rate: rate.suite):
            if rate.suite not in self.view.repeated:
                wrong = rate.counts.n - (rate.counts.successes or 0)
                text = f"{rate.model} {wrong} of {rate.counts.n}"
                text += f" (judged by {rate.key.judge})" if rate.key.judge else ""
                by_suite.setdefault(rate.suite, []).append(text)
        return "; ".join(f"{suite}: {', '.join(texts)}" for suite, texts in by_suite.items())

    @cached_property
    def unjudged(self) -> str:
        """An alarm: the suites and models of which nearly no answer was judged."""
        texts = []
        for line in self.view.first_lines:
            counts = line.refusal.counts
            answers = counts.n + counts.unjudged
            if answers and counts.unjudged >= NEARLY_ALL * answers:
                texts.append(f"{self.view.place(line)} ({counts.unjudged} of {answers})")
        return "; ".join(texts)

    @cached_property
    def errors(self) -> str:
        """The suites and models with errors instead of answers."""
        texts = []
        for line in self.view.first_lines:
            number = line.refusal.counts.excluded.get("error")
            if number:
                texts.append(f"{self.view.place(line)} ({number})")
        return "; ".join(texts)

    @cached_property
    def over_refusal(self) -> str:
        """How many answers to harmless prompts each model refused, live ones first."""
        texts = []
        for model in sorted(self.view.harmless, key=lambda name: name not in self.view.live):
            refused, answers = self.view.harmless[model]
            if answers:
                texts.append(f"{model} {refused} of {answers}")
        return ", ".join(texts)

    @cached_property
    def judges(self) -> list[str]:
        """How good each judge is that decides refusal."""
        texts = []
        for name, error in self.view.judge_errors.items():
            text = f"How far the shares by the judge {name} are from labels is not known here."
            if error:
                text = error_text(name, error, self.view.confidence)
            kappa = self.view.scores.get(name, {}).get("kappa")
            if kappa:
                shown = short_estimate(kappa.value, kappa.interval)
                text += (
                    f" Its κ with the labels of the {number_of(kappa.n, 'pair')} in data/validation "
                    f"is {shown}{more_labels(kappa.n)}."
                )
            texts.append(text)
        return texts

    @cached_property
    def notes(self) -> list[tuple[str, str]]:
        """What a reader must know of models that are not what they seem: a title and a text for
        each kind of model."""
        kinds: dict[str, list[str]] = {kind: [] for kind in NOTES}
        for model, facts in self.view.provenance.items():
            definition = facts["model"]["definition"]
            kind = "served" if definition["adapter"] in SERVED else definition["adapter"]
            if str(definition.get("model_id", "")).startswith("data/pocket/"):
                kind = "pocket"
            if kind in kinds:
                kinds[kind].append(model)
        notes = []
        for kind, models in kinds.items():
            if models:
                title, text = NOTES[kind]
                text += self._repeats(models) if kind == "served" else ""
                notes.append((title, f"{self._models(models)}: {text}"))
        return notes

    def _repeats(self, models: Iterable[str]) -> str:
        """How often served models answered the same prompt otherwise."""
        texts = []
        for model in models:
            for rate in self.view.rates[model]:
                if rate.measure == DIFFERS and not rate.group and rate.value is not None:
                    names = self.view.names(rate)
                    shown = f"{short_text(rate)} of {rate.counts.n}{clusters_text(rate)}"
                    texts.append(f"{names['model']} {shown} ({names['suite']})")
        if texts:
            return f" Repeats with another text than the first answer: {'; '.join(texts)}."
        return " A perturbation with kind: repeat measures how often."

    def _models(self, models: Iterable[str]) -> str:
        return ", ".join(models)
