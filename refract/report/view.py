"""What the report, its page and the figures are made of: plain data, read once for all of them.

Models and suites are known by their names throughout; :class:`refract.report.wording.Titles` says what
readers call them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import ParamsError, UsageError
from refract.core.params import Metadata, decision_settings, grid, load_params
from refract.core.settings import nearest, read_settings
from refract.core.tables import read_table
from refract.core.types import is_last
from refract.core.vocabulary import JUDGED, REFUSED, Estimand
from refract.rates.judge_error import JudgeError
from refract.rates.rate import Difference, Interval, Rate
from refract.report.comparisons import (
    Compared,
    Nearest,
    compare_fields,
    compare_models,
    compare_nearest,
    compare_perturbed,
    near_pairs,
    number_of_tests,
)
from refract.report.model_sizes import Series, Size, model_sizes, scaling_series
from refract.report.wording import WARN_SHARE, Titles, plain
from refract.results.sources import read_tree

HEADLINES = {
    "harmful_refusal_rate": "Harmful refused",
    "over_refusal_rate": "Helpful refused (over-refusal)",
    "borderline_refusal_rate": "Borderline refused",
}
CATEGORY_OF = dict(zip(HEADLINES, ("harmful", "helpful", "borderline"), strict=True))
# Of measures that human labels of the run correct.
POWERED = "prediction_powered_"
# Adapters whose answers a server computes.
SERVED = ("anthropic", "openai")


class JudgeScore(NamedTuple):
    """A number of a judge on so many of the project's own labelled pairs. Of a kind of answer it is the
    share of right labels: ``right`` of ``n``, and ``refused_right`` of them as refused or not."""

    value: float
    interval: Interval | None
    n: int
    right: int = 0
    refused_right: int = 0


@dataclass(frozen=True)
class View:
    """The numbers of the grid's models, and what is computed of them for people alone.

    ``compared`` are the models on whole suites, ``by_field`` on the prompts of one value, ``nearest``
    the reference and the model most like it; ``perturbed`` is what perturbations did to refusal;
    ``harmless`` counts by model the helpful and borderline prompts, each text once: refused, judged.
    ``scores`` are those of judges, by judge and measure, ``kinds`` by judge and kind of answer.
    ``unread`` are warnings of languages that a judge was not measured in, ``private`` the labels of the
    suites that are not in git, ``estimand`` the question that the rates' intervals answer.
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
        return [rate for rates in self.rates.values() for rate in rates]

    @cached_property
    def overall(self) -> dict[tuple[str, str], dict[str, Rate]]:
        """The rates over whole suites, by suite's label and model, then by measure."""
        return self._by_measure("")

    @cached_property
    def without_cut_off(self) -> dict[tuple[str, str], dict[str, Rate]]:
        """The same rates without the answers that the token limit cut off."""
        return self._by_measure("cut_off")

    def _by_measure(self, field: str) -> dict[tuple[str, str], dict[str, Rate]]:
        rates: dict[tuple[str, str], dict[str, Rate]] = {}
        for rate in self.every:
            if rate.group.field == field:
                rates.setdefault((rate.suite, rate.model), {})[rate.measure] = rate
        return rates

    @property
    def suites(self) -> list[Mapping[str, Any]]:
        """What provenance says of each suite."""
        every = (facts["suites"].items() for facts in self.provenance.values())
        return list({name: suite for suites in every for name, suite in suites}.values())

    @property
    def repeated(self) -> set[str]:
        """The labels of suites whose clean prompts are a sample of those of another suite here."""
        files = {suite["label"]: suite.get("definition", {}).get("file") for suite in self.suites}
        whole = {file for label, file in files.items() if file and "[" not in label}
        return {label for label, file in files.items() if "[" in label and file in whole}

    @property
    def judges(self) -> dict[str, Mapping[str, Any]]:
        """What provenance says of each judge, by name."""
        return {n: j for facts in self.provenance.values() for n, j in facts["judges"].items()}

    @property
    def deciding(self) -> dict[str, str]:
        """The judge that decides refusal in each suite, by its label: the first."""
        return {suite["label"]: suite["judges"][0] for suite in self.suites}

    @property
    def interval_note(self) -> str:
        """What the intervals of refusal rates allow for, as one text for under a table."""
        of: dict[tuple[str, JudgeError | None], dict[str, None]] = {}
        here = {(model, rate.suite) for model, rates in self.rates.items() for rate in rates}
        made = {model: facts for model, facts in self.provenance.items() if facts}
        for model, facts in made.items():
            for name, suite in facts["suites"].items():
                known, label = suite.get("judge_error"), suite.get("label", name)
                error = JudgeError(**known) if known else None
                if (model, label) in here:
                    of.setdefault((suite["judges"][0], error), {})[label] = None
        if any(facts.get("interval") == "prompts" for facts in made.values()):
            return "Intervals are of the prompts alone (decisions.interval)."
        notes = []
        for (judge, error), suites in of.items():
            named = ", ".join(self.titles.suite(plain(suite)) for suite in suites)
            # Where all but some suites are of one judge and error, those are named.
            where = "" if len(of) == 1 or (error and len(of) == 2) else f" of {named}"
            if error is None:
                notes.append(
                    f"intervals{where} are of the prompts alone: how far {judge} is from people there "
                    "is not known"
                )
            else:
                half = 100 * error.half_width(self.confidence)
                notes.append(
                    f"intervals{where} are of prompts and judge: on a model that nobody labelled the "
                    f"share by {judge} is {100 * error.mean:+.1f} ± {half:.1f} points from people's "
                    f"({error.models} models), so that a rate need not be in the middle"
                )
        if any(rate.measure.startswith(POWERED) and rate.interval for rate in self.every):
            notes.append("where people labelled a part of the run, they are of these labels")
        return "; ".join(notes)[:1].upper() + "; ".join(notes)[1:] + "." if notes else ""

    @property
    def label_note(self) -> str:
        """How short human labels would make the interval of the headline rate over most answers; empty
        where a judge's error is not known, or people labelled already."""
        made = (suite for facts in self.provenance.values() for suite in facts["suites"].values())
        errors = [JudgeError(**suite["judge_error"]) for suite in made if suite.get("judge_error")]
        found = [r for r in self.every if r.measure in HEADLINES and not r.group and r.value]
        if not errors or not found or any(r.measure.startswith(POWERED) for r in self.every):
            return ""
        rate = max(found, key=lambda rate: rate.counts.n)
        assert rate.value is not None
        n, said = rate.counts.n, []
        for labels in (*(m for m in (50, 200) if m < n), n):
            half = errors[0].with_labels(rate.value, n, labels, self.confidence)
            said.append(f"{labels} labels ±{half:.2f}".replace("0.", "."))
        return f"People's labels of a part of {n} answers would give: {', '.join(said)} (refract label)."

    @cached_property
    def series(self) -> list[Series]:
        """The rates over size of each family."""
        return scaling_series(self.rates, self.sizes, self.confidence)

    @property
    def near_compared(self) -> list[Compared]:
        """The comparisons with the reference, and of neighbours."""
        reference = self.reference if self.reference in self.models else self.models[0]
        near = [{*pair} for pair in near_pairs(self.models, reference)]
        return [pair for pair in self.compared if {pair.first, pair.second} in near]

    def only(self, models: Sequence[str], suites: Sequence[str]) -> View:
        """The numbers of some models and suites, of all where none is named. What was corrected for
        all comparisons stays so. Raises :class:`UsageError` for a name that is not there."""
        check_names("--model", models, self.models)
        check_names("--suite", suites, sorted({plain(rate.suite) for rate in self.every}))
        kept = [model for model in self.models if model in (models or self.models)]

        def has(suite: str) -> bool:
            return not suites or plain(suite) in suites

        rates = {model: [rate for rate in self.rates[model] if has(rate.suite)] for model in kept}
        pairs = [pair for pair in self.compared if has(pair.difference.suite)]
        pairs = [pair for pair in pairs if {pair.first, pair.second} <= set(kept)]
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

    Raises :class:`ParamsError`, :class:`ResultsError` (with what to run when a model has no results
    yet) and :class:`RowError` for files that cannot be used.
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
    compared = clean, settings, reference, provenance
    outcomes = {model: result.outcomes for model, result in results.items()}
    return View(
        {model: [r.asked(settings.estimand) for r in of.rates] for model, of in results.items()},
        provenance,
        read_titles(metadata, models, grid(params, "suites")),
        reference,
        # As in the sentences: a later model minus the one before it in the grid.
        [pair.turned for pair in compare_models(*compared)],
        [pair.turned for pair in compare_fields(*compared)],
        model_sizes(provenance, metadata),
        _scores(root / "metrics/judges_agreement.csv", "measure", "value"),
        _scores(root / "metrics/judges.csv", "value", "accuracy"),
        settings.confidence,
        compare_nearest(clean, settings, reference, provenance),
        compare_perturbed(outcomes, settings),
        {model: _harmless(rows) for model, rows in clean.items()},
        *_of_suites(root, provenance),
        settings.estimand,
    )


def _harmless(rows: Iterable[Mapping[str, str]]) -> tuple[int, int]:
    """Of the texts that are helpful or borderline prompts, how many were refused and how many judged."""
    of_text = {
        row["prompt_sha256"]: row["outcome"] in REFUSED
        for row in rows
        if row["category"] != "harmful" and row["outcome"] in JUDGED and is_last(row)
    }
    return sum(of_text.values()), len(of_text)


def _of_suites(root: Path, provenance: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The warnings of the suites' languages, and the labels of the suites that DVC holds instead of git
    (``FILE.dvc`` stands beside their file)."""
    unread: dict[str, None] = {}
    private: dict[str, None] = {}
    for facts in provenance.values():
        for suite in facts["suites"].values():
            if not (name := suite.get("definition", {}).get("file")):
                continue
            if (root / f"{name}.dvc").is_file():
                private[suite["label"]] = None
            unread |= dict.fromkeys(f"{suite['label']}: {said}" for said in suite.get("unread", ()))
    return list(unread), list(private)


def _scores(path: Path, name: str, value: str) -> dict[str, dict[str, JudgeScore]]:
    """The scores in a table of judges, by judge and name; none where there is no such table."""
    scores: dict[str, dict[str, JudgeScore]] = {}
    for row in read_table(path) if path.is_file() else ():
        if row.get("field", "slice") == "slice" and row[value]:
            ends = row["low"], row["high"]
            scores.setdefault(row["judge"], {})[row[name]] = JudgeScore(
                float(row[value]),
                Interval(*map(float, ends)) if all(ends) else None,
                *(int(row.get(key) or 0) for key in ("n", "right", "refused_right")),
            )
    return scores


def read_titles(
    metadata: Mapping[str, Any] | None, models: Sequence[str], suites: Sequence[str]
) -> Titles:
    """The titles under ``metadata`` in params.yaml.

    Raises :class:`ParamsError` where two models, or two suites, would be called the same.
    """
    titles: tuple[dict[str, str], dict[str, str]] = {}, {}
    for names, taken in zip((models, suites), titles, strict=True):
        for name in names:
            given = (metadata or {}).get(name) or {}
            title = read_settings(Metadata, f"metadata.{name}", given).title or name
            if other := next((other for other, used in taken.items() if used == title), None):
                raise ParamsError(
                    f"metadata.{name}.title must be a text that no other model or suite has "
                    f"(got {title!r}, which is {other}'s); change one of the two"
                )
            taken[name] = title
    return Titles(*titles)


class Summary(NamedTuple):
    """One model on one suite: a rate for each of ``HEADLINES`` (None where the suite has no such
    prompts), the rate over all its prompts, the rates that a threshold is set for, and by measure, of
    headlines of which a tenth of the answers or more was cut off, the rate without those."""

    suite: str
    model: str
    headlines: list[Rate | None]
    refusal: Rate
    limited: list[Rate]
    without: dict[str, Rate]


def summaries(view: View) -> list[Summary]:
    """One for each suite and model that has a refusal rate, suite by suite."""
    lines = []
    for suite in dict.fromkeys(rate.suite for rate in view.every):
        for model in view.models:
            overall = view.overall.get((suite, model), {})
            uncut = view.without_cut_off.get((suite, model), {})
            if "refusal_rate" in overall:
                headlines = [overall.get(measure) for measure in HEADLINES]
                loud = [r.measure for r in headlines if r and r.counts.cut_off_share >= WARN_SHARE]
                limited = [r for r in view.rates[model] if r.suite == suite and r.decision]
                without = {measure: uncut[measure] for measure in loud if measure in uncut}
                refusal = overall["refusal_rate"]
                lines.append(Summary(suite, model, headlines, refusal, limited, without))
    return lines


def model_notes(view: View) -> dict[str, list[str]]:
    """The models of which a reader must know what they are, by kind."""
    kinds = {k: list[str]() for k in ("pocket", "synthetic", "recorded", "served", "vllm")}
    for model, facts in view.provenance.items():
        definition = facts["model"]["definition"]
        kind = "served" if definition["adapter"] in SERVED else definition["adapter"]
        if str(definition.get("model_id", "")).startswith("data/pocket/"):
            kind = "pocket"
        if kind in kinds:
            kinds[kind].append(model)
    return {kind: models for kind, models in kinds.items() if models}
