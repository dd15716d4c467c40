"""What the report, its page and the figures are made of: plain data, read once for all of them.

Models and suites are known by their names throughout; :class:`Titles` says what readers call them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.ledger import LedgerEntry, known_entries
from refract.core.errors import ParamsError, UsageError
from refract.core.params import Metadata, decision_settings, grid, load_params
from refract.core.settings import nearest, read_settings
from refract.core.tables import read_table
from refract.rates.rate import Rate
from refract.report.comparisons import (
    Compared,
    compare_fields,
    compare_models,
    near_pairs,
    read_clean_outcomes,
)
from refract.report.judge_gaps import Near, nearest_entries
from refract.report.model_sizes import Series, Size, model_sizes, scaling_series
from refract.report.wording import MISSING, WARN_SHARE
from refract.results.table_rows import read_rate_tables

HEADLINES = (
    ("harmful_refusal_rate", "Harmful refused"),
    ("over_refusal_rate", "Helpful refused (over-refusal)"),
    ("borderline_refusal_rate", "Borderline refused"),
)
CATEGORY_OF = {
    "harmful_refusal_rate": "harmful",
    "over_refusal_rate": "helpful",
    "borderline_refusal_rate": "borderline",
}
# Lines of a list on the report's first page; the rest is counted, and stands in a linked file.
SHOWN = 10
JUDGE_TABLES = ("judges_agreement", "judges_confusion", "judges")
# Adapters whose answers a server computes, and the end of the measure of how often its repeats differ.
SERVED = ("anthropic", "openai")
DIFFERS = "_differs_rate"
DECISIONS = ("missed", "inconclusive", "met")


class Titles(NamedTuple):
    """The display names under ``metadata``, by name; a name that has none stands for itself."""

    models: Mapping[str, str] = {}
    suites: Mapping[str, str] = {}

    def model(self, name: str) -> str:
        """What readers call a model."""
        return self.models.get(name, name)

    def suite(self, label: str) -> str:
        """A suite's label with its title for its name, as in ``Title[sampled 60/309, seed=1]``."""
        name, bracket, rest = label.partition("[")
        return self.suites.get(name, name) + bracket + rest


@dataclass(frozen=True)
class View:
    """The numbers of the grid's models, and what is computed of them for people alone.

    ``rates`` and ``provenance`` are by model. ``compared`` are the models on whole suites,
    ``by_field`` on the prompts of one value; ``agreement``, ``confusion`` and ``slices`` are the
    tables of judges on the project's own labelled pairs, ``entries`` what is known of them by model.
    """

    rates: Mapping[str, Sequence[Rate]]
    provenance: Mapping[str, Any]
    titles: Titles = field(default_factory=Titles)
    reference: str = ""
    compared: Sequence[Compared] = ()
    by_field: Sequence[Compared] = ()
    sizes: Mapping[str, Size] = field(default_factory=dict)
    agreement: Sequence[Mapping[str, str]] = ()
    confusion: Sequence[Mapping[str, str]] = ()
    slices: Sequence[Mapping[str, str]] = ()
    confidence: float = 0.95
    entries: Sequence[LedgerEntry] = ()

    @property
    def models(self) -> list[str]:
        """The models, in the order of the grid."""
        return list(self.rates)

    @property
    def every(self) -> list[Rate]:
        """The rates of all models."""
        return [rate for rates in self.rates.values() for rate in rates]

    @property
    def suites(self) -> list[Mapping[str, Any]]:
        """What provenance says of each suite."""
        return list(
            {
                n: s for facts in self.provenance.values() for n, s in facts["suites"].items()
            }.values()
        )

    @property
    def judges(self) -> dict[str, Mapping[str, Any]]:
        """What provenance says of each judge, by name."""
        return {n: j for facts in self.provenance.values() for n, j in facts["judges"].items()}

    @property
    def deciding_judges(self) -> list[str]:
        """The judges that decide refusal in a suite: the first of each."""
        suites = [suite for facts in self.provenance.values() for suite in facts["suites"].values()]
        return list(dict.fromkeys(suite["judges"][0] for suite in suites))

    @cached_property
    def near(self) -> dict[tuple[str, str], Near]:
        """What is known of the judge on models like each one, by suite's label and model."""
        return nearest_entries(self.rates, self.provenance, self.entries)

    @cached_property
    def series(self) -> list[Series]:
        """The rates over size of each family."""
        return scaling_series(self.rates, self.sizes, self.confidence)

    @property
    def near_compared(self) -> list[Compared]:
        """The comparisons with the reference, and of neighbours."""
        reference = self.reference if self.reference in self.models else self.models[0]
        near = set(near_pairs(self.models, reference))
        return [pair for pair in self.compared if (pair.first, pair.second) in near]

    def overall(self, model: str, suite: str) -> dict[str, Rate]:
        """The rates of a model over a whole suite, by measure."""
        return {
            rate.measure: rate
            for rate in self.rates[model]
            if rate.suite == suite and not rate.group
        }

    def only(self, models: Sequence[str], suites: Sequence[str]) -> View:
        """The numbers of some models and suites, of all where none is named. What was corrected for
        all comparisons stays so. Raises :class:`UsageError` for a name that is not there."""
        check_names("--model", models, self.models)
        check_names("--suite", suites, sorted({plain(rate.suite) for rate in self.every}))
        kept = [model for model in self.models if not models or model in models]
        return replace(
            self,
            rates={
                model: [r for r in self.rates[model] if not suites or plain(r.suite) in suites]
                for model in kept
            },
            compared=[
                pair
                for pair in self.compared
                if pair.first in kept
                and pair.second in kept
                and (not suites or plain(pair.difference.suite) in suites)
            ],
            sizes={model: size for model, size in self.sizes.items() if model in kept},
        )


def check_names(option: str, asked: Iterable[str], known: Collection[str]) -> None:
    """Raises :class:`UsageError` for a name that results do not have."""
    for name in asked:
        if name not in known:
            raise UsageError(
                f"{option} {name!r} is not in these results{nearest(name, known)}; there are: "
                f"{', '.join(known)}"
            )


def plain(label: str) -> str:
    """The name of a suite, without what its label says of samples."""
    return label.partition("[")[0]


def read_view(root: Path) -> View:
    """Reads ``params.yaml`` and ``metrics/`` of a project.

    Raises FileNotFoundError with what to run when a model has no results yet, ParamsError and
    RowError for files that cannot be used.
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
    rates, provenance = read_rate_tables(root, models)
    outcomes = read_clean_outcomes(root, models)
    reference = settings.reference or models[0]
    agreement, confusion, slices = (
        read_table(path) if path.is_file() else []
        for path in (root / f"metrics/{name}.csv" for name in JUDGE_TABLES)
    )
    return View(
        rates,
        provenance,
        read_titles(metadata, models, grid(params, "suites")),
        reference,
        compare_models(outcomes, settings, reference),
        compare_fields(outcomes, settings, reference),
        model_sizes(provenance, metadata),
        agreement,
        confusion,
        slices,
        settings.confidence,
        known_entries(root),
    )


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
            for other, used in taken.items():
                if used == title:
                    raise ParamsError(
                        f"metadata.{name}.title must be a text that no other model or suite has "
                        f"(got {title!r}, which is {other}'s); change one of the two"
                    )
            taken[name] = title
    return Titles(*titles)


class Summary(NamedTuple):
    """One model on one suite: a rate for each of ``HEADLINES`` (None where the suite has no such
    prompts), the rate over all its prompts, and the rates that a threshold is set for."""

    suite: str
    model: str
    headlines: list[Rate | None]
    refusal: Rate
    limited: list[Rate]

    @property
    def decision(self) -> str | None:
        """``missed`` or ``inconclusive`` if any threshold is, else ``met``; None without thresholds."""
        decisions = [rate.decision for rate in self.limited]
        return next((one for one in DECISIONS if one in decisions), None)

    @property
    def verdict(self) -> str:
        """What is said of the thresholds: which measures missed theirs, which are inconclusive, and
        how many are met where all of them are."""
        parts = []
        for decision, word in (("missed", "MISSED"), ("inconclusive", "inconclusive")):
            measures = [rate.measure for rate in self.limited if rate.decision == decision]
            if measures:
                parts.append(f"{word}: {', '.join(dict.fromkeys(measures))}")
        met = f"met ({len(self.limited)})" if self.limited else MISSING
        return "; ".join(parts) or met


def summaries(view: View) -> list[Summary]:
    """One for each suite and model that has a refusal rate, suite by suite."""
    lines = []
    for suite in dict.fromkeys(rate.suite for rates in view.rates.values() for rate in rates):
        for model, rates in view.rates.items():
            overall = view.overall(model, suite)
            if "refusal_rate" in overall:
                lines.append(
                    Summary(
                        suite,
                        model,
                        [overall.get(measure) for measure, _ in HEADLINES],
                        overall["refusal_rate"],
                        [r for r in rates if r.suite == suite and r.decision],
                    )
                )
    return lines


def unmet(lines: Sequence[Summary]) -> list[Rate]:
    """The rates whose threshold is not met, missed ones first."""
    rates = [rate for line in lines for rate in line.limited if rate.decision != "met"]
    return sorted(rates, key=lambda rate: rate.decision != "missed")


class CutOff(NamedTuple):
    """A suite and model of which a tenth of the answers or more was cut off: the rate over all prompts,
    and each rate that rests on so many, as a label, the rate, and the one without them."""

    refusal: Rate
    rates: list[tuple[str, Rate, Rate]]


class Warnings(NamedTuple):
    """What is wrong with the numbers: rates of refusal that lack answers for errors, results that rest
    on cut-off answers, and rates of refusal that leave them out."""

    errors: list[Rate]
    cut_off: list[CutOff]
    without_cut_off: list[Rate]


def warnings(view: View) -> Warnings:
    """The warnings that stand before the numbers."""
    refusal = [r for r in view.every if r.measure == "refusal_rate" and not r.group]
    cut_off = []
    for over_all in refusal:
        overall = view.overall(over_all.model, over_all.suite)
        without = {
            rate.measure: rate
            for rate in view.rates[over_all.model]
            if rate.suite == over_all.suite and rate.group.field == "cut_off"
        }
        loud = [
            (label.partition(" (")[0].lower(), overall[measure], without[measure])
            for measure, label in HEADLINES
            if measure in without and overall[measure].counts.cut_off_share >= WARN_SHARE
        ]
        if loud or over_all.counts.cut_off_share >= WARN_SHARE:
            cut_off.append(CutOff(over_all, loud))
    return Warnings(
        [rate for rate in refusal if rate.counts.excluded.get("error")],
        cut_off,
        [rate for rate in refusal if rate.counts.excluded.get("cut_off")],
    )


class ModelNote(NamedTuple):
    """Models of one kind, of which a reader must know what they are. Of models behind a server: how
    often the same prompt got another text, where that was measured, and which of them sample."""

    kind: str
    models: list[str]
    differs: Mapping[str, list[Rate]] = {}
    sampled: Sequence[str] = ()


def model_notes(view: View) -> list[ModelNote]:
    """What a reader must know of the models before reading their numbers."""
    kinds: dict[str, list[str]] = {k: [] for k in ("pocket", "synthetic", "recorded", "served")}
    for model, facts in view.provenance.items():
        definition = facts["model"]["definition"]
        pocket = str(definition.get("model_id", "")).startswith("data/pocket/")
        kind = "pocket" if pocket else definition["adapter"]
        kind = "served" if kind in SERVED else kind
        if kind in kinds:
            kinds[kind].append(model)
    differs = {
        model: [
            rate
            for rate in view.rates.get(model, ())
            if rate.measure.endswith(DIFFERS) and not rate.group and rate.value is not None
        ]
        for model in kinds["served"]
    }
    sampled = [m for m in differs if view.provenance[m]["model"].get("seed") is not None]
    return [
        ModelNote(kind, models, differs, sampled) if kind == "served" else ModelNote(kind, models)
        for kind, models in kinds.items()
        if models
    ]
