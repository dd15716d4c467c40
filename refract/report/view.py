"""What the report, its page and the figures are made of: plain data, read once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.decimals import interval_text
from refract.core.environment import is_public
from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json
from refract.core.params import decision_settings, grid, load_params
from refract.core.tables import read_table
from refract.core.types import Row, is_last
from refract.core.vocabulary import JUDGED, REFUSED
from refract.rates.counting import CONFIDENCE
from refract.rates.judge_error import JUDGE_UNKNOWN, LABELS_ASK, JudgeError
from refract.rates.key import BORDERLINE_DISCRIMINATION, DISCRIMINATION, REFUSAL
from refract.rates.rate import ALONE, Difference, Interval, Prompts, Rate
from refract.report.comparisons import (
    Compared,
    compare_models,
    compare_perturbed,
    near_pairs,
    number_of_tests,
)
from refract.report.wording import CATEGORY_OF, joined, not_judged, number_of, short_text
from refract.results.current import named
from refract.results.sources import ResultsError, read_tree, stand_ins
from refract.suites.draws import ALL_ROWS, Draw, draw_of

# What of a suite's definition decides what each of its rows asks.
ASKED = ("file", "template", "tools")


class JudgeScore(NamedTuple):
    """A number of a judge on so many of the project's own labelled pairs."""

    value: float
    interval: Interval | None
    n: int


class SuiteLine(NamedTuple):
    """One model on one suite by one judge of refusal (empty: the suite's first): its rates
    over the whole suite, by measure."""

    suite: str
    model: str
    judge: str
    rates: dict[str, Rate]

    @property
    def refusal(self) -> Rate:
        """The rate over all prompts."""
        return self.rates[REFUSAL.name]

    @property
    def headlines(self) -> list[Rate | None]:
        """The refusal rates by category, None where the suite has no such prompts."""
        return [self.rates.get(measure) for measure in CATEGORY_OF]

    @property
    def contrast(self) -> Rate | None:
        """Harmful minus helpful refused, where the suite has helpful prompts; else minus
        borderline."""
        helpful = self.rates.get(DISCRIMINATION.name)
        return helpful or self.rates.get(BORDERLINE_DISCRIMINATION.name)


@dataclass(frozen=True)
class View:
    """The numbers of the grid's models, and what is computed of them for people.

    ``compared`` are the models on whole suites; ``harmless`` are the :func:`harmless_counts` by
    model, ``cut_off`` the :func:`cut_off_of` by model and suite. ``scores`` are by judge and
    measure, ``unread`` warnings of languages that a judge was not measured in, ``private`` the
    suites that are not in git."""

    rates: Mapping[str, Sequence[Rate]]
    provenance: Mapping[str, Any]
    reference: str = ""
    compared: Sequence[Compared] = ()
    scores: Mapping[str, Mapping[str, JudgeScore]] = field(default_factory=dict)
    perturbed: Sequence[Difference] = ()
    harmless: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cut_off: Mapping[tuple[str, str], int] = field(default_factory=dict)
    unread: Sequence[str] = ()
    private: Collection[str] = ()

    @cached_property
    def live(self) -> set[str]:
        """The models that answer for themselves; all where none does."""
        return {*self.models} - {*stand_ins(self.provenance)} or {*self.models}

    @property
    def confidence(self) -> float:
        """That of the intervals as they were computed, whatever params.yaml asks for by now."""
        return confidence_of(self.provenance)

    @cached_property
    def draws(self) -> dict[str, Draw]:
        """How each suite was drawn."""
        return draws_of(self.provenance)

    @property
    def of_live(self) -> str:
        """Which models tests are of; empty where none answers for itself."""
        return "" if {*self.models} <= {*stand_ins(self.provenance)} else " of live models"

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
        """The rates over whole suites, by suite and model, then by printed name."""
        rates: dict[tuple[str, str], dict[str, Rate]] = {}
        for rate in self.every:
            if not rate.group.field:
                rates.setdefault((rate.suite, rate.model), {})[rate.name] = rate
        return rates

    @cached_property
    def lines(self) -> list[SuiteLine]:
        """Each suite and model with a refusal rate, by its first judge and below that by each
        further judge of refusal."""
        lines = []
        suites = dict.fromkeys(rate.suite for rate in self.every)
        for suite, model in product(suites, self.models):
            by_judge: dict[str, dict[str, Rate]] = {}
            for rate in self.overall.get((suite, model), {}).values():
                if not rate.key.perturbation:
                    by_judge.setdefault(rate.key.judge, {})[rate.measure.name] = rate
            for judge in ("", *self.judges) if REFUSAL.name in by_judge.get("", {}) else ():
                if REFUSAL.name in by_judge.get(judge, {}):
                    lines.append(SuiteLine(suite, model, judge=judge, rates=by_judge[judge]))
        return lines

    @property
    def first_lines(self) -> list[SuiteLine]:
        """Those of the suites' first judges."""
        return [line for line in self.lines if not line.judge]

    @property
    def limited(self) -> list[Rate]:
        """The rates that a threshold is set for, suite by suite."""
        suites = list(dict.fromkeys(rate.suite for rate in self.every))
        limited = [rate for rate in self.every if rate.decision]
        return sorted(limited, key=lambda rate: suites.index(rate.suite))

    @cached_property
    def suites(self) -> dict[str, Row]:
        """What provenance says of each suite, by name."""
        suites: dict[str, Row] = {}
        for facts in self.provenance.values():
            suites |= facts["suites"]
        return suites

    @cached_property
    def repeated(self) -> dict[str, str]:
        """The suites whose prompts are some of those that another suite here asks as often, in the
        same way and for the same judge, with that suite."""
        wholes, parts = {}, {}
        for name, suite in self.suites.items():
            definition = suite["definition"]
            samples = definition.get("samples") or 1
            asked = canonical_json([suite["judges"][0], samples, *map(definition.get, ASKED)])
            if draw_of(suite).is_part:
                parts[name] = asked
            elif definition.get("file"):
                wholes[asked] = name
        return {name: wholes[asked] for name, asked in parts.items() if asked in wholes}

    @cached_property
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
    def judge_errors(self) -> dict[str, JudgeError | None]:
        """What is known of the error of each judge that decides refusal in a suite."""
        errors: dict[str, JudgeError | None] = {}
        for suite in self.suites.values():
            if not errors.get(suite["judges"][0]):
                errors[suite["judges"][0]] = JudgeError.read(suite.get("judge_error"))
        return errors

    def name(self, line: SuiteLine) -> str:
        """What readers call the model of a line, with the judge if it is a further one."""
        return f"{line.model}, by {line.judge}" if line.judge else line.model

    def label(self, suite: str) -> str:
        """A suite with its draw: ``NAME[sampled 60/309, seed=1]``."""
        return self.draws.get(suite, ALL_ROWS).label(suite)

    def place(self, line: SuiteLine) -> str:
        """A line's suite, as it was drawn, and its model."""
        return f"{self.label(line.suite)}, {line.model}"

    def names(self, rate: Rate | Difference) -> dict[str, object]:
        """A number's suite and model: the first cells of its row."""
        return {"suite": rate.suite, "model": rate.model}

    def measured(self, rate: Rate, value: str, n: str, **cells: str) -> dict[str, object]:
        """A row of a rate in columns called ``value`` and ``n``, behind other cells, with what
        was not judged of it."""
        numbers = {value: short_text(rate), n: rate.counts.n, "not judged": not_judged(rate)}
        return self.names(rate) | cells | numbers

    @cached_property
    def interval_note(self) -> str:
        """What the intervals of refusal rates allow for."""
        for facts in self.provenance.values():
            if (facts.get("decisions") or {}).get("interval") == "prompts":
                return "Intervals are of the prompts alone (decisions.interval)."
        notes = []
        decisions = [facts.get("decisions") or {} for facts in self.provenance.values()]
        own = sorted({str(each["labels_ask"]) for each in decisions if each.get("labels_ask")})
        asked = f"by labels that ask {'; '.join(own) or LABELS_ASK}"
        if any(rate.with_judge and not rate.measure.corrects for rate in self.every):
            notes.append(f"intervals are of prompts and judge, {asked}")
        if any(rate.judge_unknown for rate in self.every):
            unknown = JUDGE_UNKNOWN + (f" {asked}" if own and not notes else "")
            notes.append(f"intervals with {ALONE} are of the prompts alone: {unknown}")
        notes = notes or ["intervals are of the prompts alone"]
        if any(rate.measure.corrects and rate.interval for rate in self.every):
            notes.append(f"where a part of the run has labels{self.by_models}, they are of these")
        return joined(notes)

    @property
    def by_models(self) -> str:
        """How many labels of the runs no person gave, in brackets."""
        labels = 0
        for facts in self.provenance.values():
            for suite in facts.get("suites", {}).values():
                labels += suite.get("labels_by_models", 0)
        return f" ({labels} are a language model's, not a person's)" if labels else ""

    @property
    def near_compared(self) -> list[Compared]:
        """The comparisons with the reference, and of neighbours."""
        reference = self.reference if self.reference in self.models else self.models[0]
        near = [{*pair} for pair in near_pairs(self.models, reference)]
        return [pair for pair in self.compared if {pair.a, pair.b} in near]

    @property
    def tests(self) -> int:
        """For how many tests the p of ``compared`` is corrected."""
        return number_of_tests(self.compared)


def error_text(judge: str, error: JudgeError, confidence: float) -> str:
    """What is known of a judge's error on a further model, by kind of prompt."""
    kinds: dict[Prompts, str] = {
        "harmful": "harmful prompts",
        "other": "other prompts",
        "": "both mixed",
    }
    ranges = []
    for prompts, name in kinds.items():
        if error.knows(prompts):
            ends = interval_text(error.people(0.5, prompts, confidence), places=2)
            models, sources = error.measured_on(prompts)
            known = f"measured on {models} models of {sources} sources"
            ranges.append(f"{ends} of answers to {name} ({known})")
    return (
        f"The judge {judge} errs. Where it finds 0.50 of the answers refused, labels would find "
        f"{'; '.join(ranges)}."
    )


def read_view(root: Path) -> View:
    """Reads ``params.yaml`` and ``metrics/`` of a project.

    Raises :class:`ParamsError`, :class:`ResultsError` (a model has no results, or no provenance)
    and :class:`RowError` for files that cannot be used."""
    params = load_params(root / "params.yaml")
    models = grid(params, "models")
    settings = decision_settings(root)
    if settings.reference not in (None, *models):
        raise ParamsError(
            f"decisions.reference must be a model of the grid: {', '.join(models)} "
            f"(got {settings.reference!r})"
        )
    results = read_tree(root, models)
    bare = [model for model, result in results.items() if not result.provenance]
    if bare:
        raise ResultsError(f"no provenance of {named(bare)} in metrics/provenance/; run: dvc repro")
    rates, outcomes, clean = {}, {}, {}
    provenance: dict[str, Row] = {}
    unread: dict[tuple[str, str], None] = {}
    files: dict[str, str] = {}
    for model, result in results.items():
        rates[model] = result.rates
        outcomes[model] = result.outcomes
        clean[model] = [row for row in result.outcomes if not row["perturbation"]]
        provenance[model] = result.provenance or {}
        for name, suite in provenance[model]["suites"].items():
            file = suite["definition"].get("file")
            if file:
                files[name] = file
            for warning in suite["unread"] if file else ():
                unread[name, warning] = None
    draws = draws_of(provenance)
    reference = settings.reference or models[0]
    settings = settings.model_copy(update={"confidence": confidence_of(provenance)})
    return View(
        rates=rates,
        provenance=provenance,
        reference=reference,
        compared=compare_models(clean, settings, reference, provenance),
        scores=_scores(root / "metrics/judges_agreement.csv"),
        perturbed=compare_perturbed(outcomes, settings),
        harmless={
            model: harmless_counts(rows, vary=may_vary(provenance[model]))
            for model, rows in clean.items()
        },
        cut_off=cut_off_of(clean),
        unread=[f"{draws[name].label(name)}: {warning}" for name, warning in unread],
        private=[name for name, file in files.items() if not is_public(root, file, outside=True)],
    )


def cut_off_of(clean: Mapping[str, Sequence[Mapping[str, str]]]) -> Counter[tuple[str, str]]:
    """How many answers to clean prompts were cut off, judged or not, by model and suite."""
    counts = Counter[tuple[str, str]]()
    for model, rows in clean.items():
        for row in rows:
            if row["cut_off"] == "1" and is_last(row):
                counts[model, row["suite"]] += 1
    return counts


def draws_of(provenance: Mapping[str, Any]) -> dict[str, Draw]:
    """How each suite was drawn, by name."""
    by_suite: dict[str, dict[str, Draw]] = {}
    for model, facts in provenance.items():
        for name, suite in facts.get("suites", {}).items():
            by_suite.setdefault(name, {})[model] = draw_of(suite)
    draws = {}
    for name, by_model in by_suite.items():
        *_, draw = by_model.values()
        if len({each.samples for each in by_model.values()}) > 1:
            counts = [f"{number_of(x.samples, 'sample')} of {m}" for m, x in by_model.items()]
            draw = replace(draw, samples=1, of_models=", ".join(counts))
        draws[name] = draw
    return draws


def confidence_of(provenance: Mapping[str, Any]) -> float:
    """That of the intervals of results."""
    for facts in provenance.values():
        return float((facts.get("decisions") or {}).get("confidence", CONFIDENCE))
    return CONFIDENCE


def may_vary(facts: Mapping[str, Any]) -> bool:
    """Whether a model's answers to one prompt may differ, by its provenance: it samples, or they were
    recorded elsewhere."""
    model = facts["model"]
    return model["seed"] is not None or model["definition"]["adapter"] == "recorded"


def harmless_counts(rows: Iterable[Mapping[str, str]], *, vary: bool) -> tuple[int, int]:
    """How many answers to helpful and borderline prompts refuse, and were judged: all where they
    ``vary``; else one to each prompt, of the first suite by name."""
    refused: dict[tuple[str, ...], bool] = {}
    for row in sorted(rows, key=itemgetter("suite")):
        if row["category"] != "harmful" and row["outcome"] in JUDGED and is_last(row):
            answer = (row["suite"], row["prompt_id"]) if vary else (row["prompt_sha256"],)
            refused.setdefault(answer, row["outcome"] in REFUSED)
    return sum(refused.values()), len(refused)


def _scores(path: Path) -> dict[str, dict[str, JudgeScore]]:
    """The scores in a table of judges, if there is one, by judge and measure."""
    scores: dict[str, dict[str, JudgeScore]] = {}
    for row in read_table(path) if path.is_file() else ():
        if row["value"]:
            known = row["low"] and row["high"]
            interval = Interval(float(row["low"]), float(row["high"])) if known else None
            score = JudgeScore(float(row["value"]), interval, int(row["n"]))
            scores.setdefault(row["judge"], {})[row["measure"]] = score
    return scores
