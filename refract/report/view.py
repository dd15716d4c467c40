"""What the report, its page and the figures are made of: plain data, read once for
all of them.

Models and suites are known by their names throughout;
:class:`refract.report.wording.Titles` says what readers call them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.decimals import interval_text
from refract.core.errors import ParamsError, UsageError
from refract.core.params import Metadata, decision_settings, grid, load_params
from refract.core.settings import nearest, read_settings
from refract.core.tables import read_table
from refract.core.types import Row, is_last
from refract.core.vocabulary import JUDGED, REFUSED, Estimand
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Difference, Interval, Prompts, Rate, prompts_of
from refract.report.comparisons import (
    Compared,
    Known,
    Nearest,
    compare_fields,
    compare_models,
    compare_nearest,
    compare_perturbed,
    near_pairs,
    number_of_tests,
)
from refract.report.measures import CATEGORY_OF as CATEGORY_OF
from refract.report.measures import HEADLINES as HEADLINES
from refract.report.measures import is_powered
from refract.report.model_sizes import Series, Size, model_sizes, scaling_series
from refract.report.wording import ALONE, WARN_SHARE, Titles, joined
from refract.results.current import named
from refract.results.sources import ResultsError, errors_between, read_tree, stand_ins
from refract.suites.draws import Draw, draw_of

# Adapters whose answers a server computes.
SERVED = ("anthropic", "openai")


KINDS: dict[Prompts, str] = {
    "harmful": "harmful prompts",
    "other": "other prompts",
    "": "both mixed",
}


class JudgeScore(NamedTuple):
    """A number of a judge on so many of the project's own labelled pairs. Of a kind
    of answer it is the share of right labels: ``right`` of ``n``, and
    ``refused_right`` of them as refused or not."""

    value: float
    interval: Interval | None
    n: int
    right: int = 0
    refused_right: int = 0


def error_text(judge: str, error: JudgeError, confidence: float) -> str:
    """What is known of a judge's error on a further model, by kind of prompt."""
    ranges = []
    for prompts, name in KINDS.items():
        if error.knows(prompts):
            ends = interval_text(error.people(0.5, prompts, confidence), places=2)
            ranges.append(f"{ends} on {name}")
    return (
        f"measured on {error.models} models of {error.sources} labelled sources, where {judge} "
        f"finds half refused the labels of a further model would find {', '.join(ranges)}"
    )


@dataclass(frozen=True)
class View:
    """The numbers of the grid's models, and what is computed of them for people
    alone.

    ``compared`` are the models on whole suites, ``by_field`` on the prompts of one
    value, ``nearest`` the reference and the model most like it; ``perturbed`` is what
    perturbations did to refusal; ``harmless`` counts by model the helpful and
    borderline prompts, each text once: refused, judged. ``scores`` are those of
    judges, by judge and measure, ``kinds`` by judge and kind of answer. ``unread``
    are warnings of languages that a judge was not measured in, ``private`` the suites
    that are not in git, ``estimand`` the question that the rates'
    intervals answer.
    """

    rates: Mapping[str, Sequence[Rate]]
    provenance: Mapping[str, Any]
    titles: Titles = field(default_factory=Titles)
    reference: str = ""
    compared: Sequence[Compared] = ()
    by_field: Sequence[Compared] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, JudgeScore]] = field(default_factory=dict)
    kinds: Mapping[str, Mapping[str, JudgeScore]] = field(default_factory=dict)
    confidence: float = 0.95
    nearest: Nearest | None = None
    perturbed: Sequence[Difference] = ()
    harmless: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unread: Sequence[str] = ()
    private: Collection[str] = ()
    estimand: Estimand = "prompts_like_these"
    tests: int = 0  # that p was corrected for, where those of `compared` are fewer

    @property
    def models(self) -> list[str]:
        """The models, in the order of the grid."""
        return list(self.rates)

    @cached_property
    def every(self) -> list[Rate]:
        """The rates of all models."""
        return list(chain.from_iterable(self.rates.values()))

    @cached_property
    def overall(self) -> dict[tuple[str, str], dict[str, Rate]]:
        """The rates over whole suites, by suite and model, then by the name of the
        measure with its judge or perturbation."""
        return self._by_measure("")

    @cached_property
    def without_cut_off(self) -> dict[tuple[str, str], dict[str, Rate]]:
        """The same rates without the answers that the token limit cut off."""
        return self._by_measure("cut_off")

    @cached_property
    def without_provider(self) -> dict[tuple[str, str], dict[str, Rate]]:
        """The same rates without what the provider refused."""
        return self._by_measure("provider_refusals")

    def _by_measure(self, field: str) -> dict[tuple[str, str], dict[str, Rate]]:
        rates: dict[tuple[str, str], dict[str, Rate]] = {}
        for rate in self.every:
            if rate.group.field == field:
                rates.setdefault((rate.suite, rate.model), {})[rate.name] = rate
        return rates

    @cached_property
    def suites(self) -> dict[str, Row]:
        """What provenance says of each suite, by name."""
        suites: dict[str, Row] = {}
        for facts in self.provenance.values():
            suites |= facts["suites"]
        return suites

    @property
    def repeated(self) -> set[str]:
        """The suites whose clean prompts are a sample of those of another suite
        here."""
        whole, samples = set(), {}
        for name, suite in self.suites.items():
            file = suite["definition"].get("file")
            if draw_of(suite).notes:
                samples[name] = file
            elif file:
                whole.add(file)
        return {name for name, file in samples.items() if file in whole}

    @property
    def judges(self) -> dict[str, Row]:
        """What provenance says of each judge, by name."""
        judges: dict[str, Row] = {}
        for facts in self.provenance.values():
            judges |= facts["judges"]
        return judges

    @property
    def deciding(self) -> dict[str, str]:
        """The judge that decides refusal in each suite: the first."""
        return {name: suite["judges"][0] for name, suite in self.suites.items()}

    @cached_property
    def interval_notes(self) -> list[tuple[str, str]]:
        """What the intervals of refusal rates allow for, and what is known of that,
        if anything."""
        if any(
            decisions_of(facts).get("interval") == "prompts" for facts in self.provenance.values()
        ):
            return [("intervals are of the prompts alone (decisions.interval)", "")]
        by_error = self._suites_by_error()
        notes = []
        for (judge, error), names in by_error.items():
            # Where all but some suites are of one judge and error, those are named.
            alone = len(by_error) == 1 or (error and len(by_error) == 2)
            suites = "" if alone else f" of {', '.join(map(self.titles.plain, names))}"
            if error is None:
                known = f"how far {judge} is from labels there is not known"
                notes.append((f"intervals{suites} are of the prompts alone", known))
            else:
                text = error_text(judge, error, self.confidence)
                known = f"{text}, so that a rate need not be in the middle"
                notes.append((f"intervals{suites} are of prompts and judge", known))
        if any(rate.judge_unknown for rate in self.every):
            notes.append(
                (f"{ALONE} of the prompts alone", "how the judge's errors move it is not known")
            )
        if any(is_powered(rate) and rate.interval for rate in self.every):
            notes.append(("where a part of the run has labels, they are of these", ""))
        return notes

    def _suites_by_error(self) -> dict[tuple[str, JudgeError | None], list[str]]:
        """The suites that have rates, by deciding judge and its known error."""
        suites: dict[tuple[str, JudgeError | None], list[str]] = {}
        for model, facts in self.provenance.items():
            rated = {rate.suite for rate in self.rates.get(model, ())}
            for name, suite in facts["suites"].items() if facts else ():
                known = suite.get("judge_error")
                if name in rated:
                    key = suite["judges"][0], JudgeError.read(known)
                    alike = suites.setdefault(key, [])
                    if name not in alike:
                        alike.append(name)
        return suites

    @property
    def interval_note(self) -> str:
        """The notes on intervals as one text for under a table."""
        return joined(
            [f"{note}: {known}" if known else note for note, known in self.interval_notes]
        )

    @property
    def brief_interval_note(self) -> str:
        """The same without what is known of judges' errors."""
        notes = self.interval_notes
        text = joined([note for note, _ in notes])
        return text.removesuffix(".") if notes and notes[-1][1] else text

    @property
    def label_note(self) -> str:
        """How short human labels would make the interval of the headline rate over
        most answers; empty where a judge's error is not known, or people labelled
        already."""
        headlines = []
        for rate in self.every:
            if is_powered(rate):
                return ""
            if rate.name in HEADLINES and not rate.group and rate.value and rate.with_judge:
                headlines.append(rate)
        if not headlines:
            return ""
        rate = max(headlines, key=lambda rate: rate.counts.n)
        suite = self.provenance[rate.model]["suites"][rate.suite]
        error = JudgeError.read(suite.get("judge_error"))
        if error is None:
            return ""
        prompts = prompts_of([rate.measure.category or ""])
        n, widths = rate.counts.n, []
        for labels in dict.fromkeys((min(50, n), min(200, n), n)):
            half = error.with_labels(rate.value or 0, n, labels, prompts, self.confidence)
            widths.append(f"{labels} labels ±{half:.2f}".replace("0.", "."))
        what = f"{rate.measure.title} of {self.titles.model(rate.model)}"
        return (
            f"Labels of a part of its {n} answers would give {what} "
            f"({self.titles.plain(rate.suite)}): {', '.join(widths)} (refract label)."
        )

    @cached_property
    def series(self) -> list[Series]:
        """The rates over size of each family."""
        return scaling_series(self.rates, self.sizes, self.confidence)

    @property
    def near_compared(self) -> list[Compared]:
        """The comparisons with the reference, and of neighbours."""
        reference = self.reference if self.reference in self.models else self.models[0]
        near = [{*pair} for pair in near_pairs(self.models, reference)]
        return [pair for pair in self.compared if {pair.a, pair.b} in near]

    def only(self, models: Sequence[str], suites: Sequence[str]) -> View:
        """The numbers of some models and suites, of all where none is named. What was
        corrected for all comparisons stays so. Raises :class:`UsageError` for a name
        that is not there."""
        check_names("--model", models, self.models)
        check_names("--suite", suites, sorted({rate.suite for rate in self.every}))

        def has(rate: Rate | Difference) -> bool:
            return not suites or rate.suite in suites

        rates, pairs = {}, []
        for model in self.models:
            if not models or model in models:
                rates[model] = list(filter(has, self.rates[model]))
        for pair in self.compared:
            if has(pair.difference) and {pair.a, pair.b} <= rates.keys():
                pairs.append(pair)
        return replace(self, rates=rates, compared=pairs, tests=number_of_tests(self.compared))


def check_names(option: str, asked: Iterable[str], known: Collection[str]) -> None:
    """Raises :class:`UsageError` for a name that results do not have."""
    for name in asked:
        if name not in known:
            raise UsageError(
                f"{option} {name!r} is not in these results{nearest(name, known)}; there are: "
                f"{', '.join(known)}"
            )


def read_view(root: Path) -> View:
    """Reads ``params.yaml`` and ``metrics/`` of a project.

    Raises :class:`ParamsError`, :class:`ResultsError` (with what to run when a model
    has no results yet, or no provenance) and :class:`RowError` for files that cannot be
    used.
    """
    params = load_params(root / "params.yaml")
    models = grid(params, "models")
    metadata = params.get("metadata") or {}
    settings = decision_settings(root)
    if settings.reference not in (None, *models):
        raise ParamsError(
            f"decisions.reference must be a model of the grid: {', '.join(models)} "
            f"(got {settings.reference!r})"
        )
    results = read_tree(root, models)
    clean = {
        model: [row for row in result.outcomes if not row["perturbation"]]
        for model, result in results.items()
    }
    reference = settings.reference or models[0]
    provenance = {model: result.provenance or {} for model, result in results.items()}
    bare = [model for model, facts in provenance.items() if not facts]
    if bare:
        raise ResultsError(f"no provenance of {named(bare)} in metrics/provenance/; run: dvc repro")
    known = known_of(provenance)
    compared = compare_models(clean, settings, reference, known)
    unread, private = _of_suites(root, provenance)
    return View(
        rates={
            model: [rate.asked(settings.estimand) for rate in result.rates]
            for model, result in results.items()
        },
        provenance=provenance,
        titles=read_titles(metadata, models, grid(params, "suites"))._replace(
            draws=draws_in(provenance)
        ),
        reference=reference,
        compared=compared,
        by_field=compare_fields(clean, settings, reference, known),
        sizes=model_sizes(provenance, metadata),
        scores=_scores(root / "metrics/judges_agreement.csv", "measure", "value"),
        kinds=_scores(root / "metrics/judges.csv", "value", "accuracy"),
        confidence=settings.confidence,
        nearest=compare_nearest(clean, settings, reference, known, compared),
        perturbed=compare_perturbed(
            {model: result.outcomes for model, result in results.items()}, settings
        ),
        harmless={model: _harmless(rows) for model, rows in clean.items()},
        unread=unread,
        private=private,
        estimand=settings.estimand,
    )


def decisions_of(facts: Row) -> Row:
    """What decided the intervals of results, as their provenance has it."""
    decisions: Row = facts.get("decisions") or {}
    return decisions


def draws_in(provenance: Mapping[str, Row]) -> dict[str, Draw]:
    """How each suite was drawn, by name."""
    draws = {}
    for facts in provenance.values():
        for name, suite in facts.get("suites", {}).items():
            draws[name] = draw_of(suite)
    return draws


def known_of(provenance: Mapping[str, Row]) -> Known:
    """What comparisons need of models, from their provenance."""
    definitions = {}
    for model, facts in provenance.items():
        if facts:
            definitions[model] = facts["model"]["definition"]

    def errors(a: str, b: str) -> Mapping[str, JudgeError]:
        return errors_between(provenance.get(a), provenance.get(b))

    return Known(stand_ins(provenance), definitions, errors)


def _harmless(rows: Iterable[Mapping[str, str]]) -> tuple[int, int]:
    """Of the answers to distinct helpful and borderline prompts, how many refuse and how
    many were judged."""
    refused: dict[tuple[str, str], bool] = {}
    for row in rows:
        if row["category"] != "harmful" and row["outcome"] in JUDGED and is_last(row):
            answer = row["prompt_sha256"], row.get("sample", "")
            refused[answer] = refused.get(answer, False) or row["outcome"] in REFUSED
    return sum(refused.values()), len(refused)


def _of_suites(root: Path, provenance: Mapping[str, Row]) -> tuple[list[str], list[str]]:
    """The warnings of the suites' languages, and the suites that DVC holds instead of
    git (``FILE.dvc`` stands beside their file)."""
    unread: dict[str, None] = {}
    private: dict[str, None] = {}
    for facts in provenance.values():
        for name, suite in facts["suites"].items():
            file = suite["definition"].get("file")
            if file and (root / f"{file}.dvc").is_file():
                private[name] = None
            for warning in suite["unread"] if file else ():
                unread[f"{draw_of(suite).label(name)}: {warning}"] = None
    return list(unread), list(private)


def _scores(path: Path, name: str, value: str) -> dict[str, dict[str, JudgeScore]]:
    """The scores in a table of judges, by judge and name; none where there is no such
    table."""
    scores: dict[str, dict[str, JudgeScore]] = {}
    for row in read_table(path) if path.is_file() else ():
        if row.get("field", "slice") == "slice" and row[value]:
            known = row["low"] and row["high"]
            scores.setdefault(row["judge"], {})[row[name]] = JudgeScore(
                value=float(row[value]),
                interval=Interval(float(row["low"]), float(row["high"])) if known else None,
                n=int(row.get("n") or 0),
                right=int(row.get("right") or 0),
                refused_right=int(row.get("refused_right") or 0),
            )
    return scores


def read_titles(
    metadata: Mapping[str, Any] | None, models: Sequence[str], suites: Sequence[str]
) -> Titles:
    """The titles under ``metadata`` in params.yaml.

    Raises :class:`ParamsError` where two models, or two suites, would be called the
    same.
    """
    return Titles(_titles(metadata or {}, models), _titles(metadata or {}, suites))


def _titles(metadata: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    titles: dict[str, str] = {}
    for name in names:
        settings = read_settings(Metadata, f"metadata.{name}", metadata.get(name) or {})
        title = settings.title or name
        for other, taken in titles.items():
            if taken == title:
                raise ParamsError(
                    f"metadata.{name}.title must be a text that no other model or suite has "
                    f"(got {title!r}, which is {other}'s); change one of the two"
                )
        titles[name] = title
    return titles


class Summary(NamedTuple):
    """One model on one suite: a rate for each of ``HEADLINES`` (None where the suite
    has no such prompts), the rate over all its prompts, the rates that a threshold is
    set for, and by measure, of headlines of which a tenth of the answers or more was
    cut off, the rate without those. ``judge`` is empty where it is the first judge of
    the suite."""

    suite: str
    model: str
    headlines: list[Rate | None]
    refusal: Rate
    limited: list[Rate]
    without: dict[str, Rate]
    judge: str = ""


def summaries(view: View) -> list[Summary]:
    """One for each suite and model that has a refusal rate, suite by suite."""
    lines = []
    suites = dict.fromkeys(rate.suite for rate in view.every)
    for suite, model in product(suites, view.models):
        overall = view.overall.get((suite, model), {})
        if "refusal_rate" not in overall:
            continue
        uncut = view.without_cut_off.get((suite, model), {})
        without = {}
        for measure in HEADLINES:
            rate = overall.get(measure)
            if rate and rate.counts.cut_off_share >= WARN_SHARE and measure in uncut:
                without[measure] = uncut[measure]
        headlines = [overall.get(measure) for measure in HEADLINES]
        limited = [rate for rate in view.rates[model] if rate.suite == suite and rate.decision]
        refusal = overall["refusal_rate"]
        lines.append(Summary(suite, model, headlines, refusal, limited, without))
    return lines
