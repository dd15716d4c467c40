"""What a rate is of: a measure, by which judge, under which perturbation, of which part of a suite.

:data:`MEASURES` is the one table of measures. A measure names the function that counts it
(``count``), whether it is of this table or of an installed package, which brings one by an entry
point in the group ``refract.measures`` that names a :class:`Measure`."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from refract.core.errors import ParamsError
from refract.core.registry import Registry, find
from refract.core.showing import csv_cell
from refract.core.vocabulary import BY_PROVIDER, FAMILIES, JUDGED, REFUSED
from refract.suites.draws import ALL_ROWS, Draw

# How a judge's error on refusal applies: to a share that refuses, to one that does not, to a
# difference of two; "unknown": the judge decides it, but how far its error moves it is not known.
JudgeErrorApplies = Literal["refused", "not_refused", "difference", "unknown", "none"]
# When a measure is one of the dozen numbers of a suite in metrics/MODEL.json: before others, where
# there is room, only where the suite sets a threshold for it, or never.
Metric = Literal["first", "next", "threshold", "never"]
# Counted once a suite (by each judge of refusal), by each judge of its family, or by perturbation.
CountedFor = Literal["suite", "judge", "perturbation"]
# Among the groups of a measure: the fields that a suite names.
SUITE_FIELDS = "fields"


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind of number: what it counts and how it is read.

    ``name`` is what files and people call it, ``title`` the head of its column in a report,
    ``category`` the prompts it is over (None: all, or as its function says). ``counted`` are the
    outcomes or labels that count among those of ``among``. ``low`` and ``high`` are the ends of its
    range (None: of one that is not known here).
    ``judge_error`` has no default: whoever adds a measure says how a judge's error applies.
    ``groups`` are the fields of the groups that it has rates of. ``count`` names the function that
    counts it, ``package.module:function``: given a :class:`refract.rates.counting.CountedSuite` it
    returns the rates of all measures that name it.
    ``corrects``: the measure that this one corrects by human labels, or ""."""

    name: str
    judge_error: JudgeErrorApplies
    title: str = ""
    category: str | None = None
    counted: tuple[str, ...] = ()
    among: tuple[str, ...] = JUDGED
    low: float | None = 0.0
    high: float | None = 1.0
    metric: Metric = "next"
    counted_for: CountedFor = "suite"
    count: str = ""
    corrects: str = ""
    groups: tuple[str, ...] = ()


MEASURES: list[Measure] = []  # all that are defined below, in this order


def _define(
    name: str,
    judge_error: JudgeErrorApplies,
    count: str,
    title: str = "",
    category: str | None = None,
    **facts: Any,
) -> Measure:
    """A measure of the table, counted by a function of this package."""
    function = f"refract.rates.{count}" if count else ""
    measure = Measure(name, judge_error, title, category, count=function, **facts)
    MEASURES.append(measure)
    return measure


COMPLIED = ("compliance",)
THOUGHTS = ("refused_in_thought", "refused_in_answer", "alike")
# Facts that several measures share.
YES: Any = {"counted": ("yes",), "among": ("yes", "no")}
ANSWERED: Any = {"category": "harmful", "counted": COMPLIED}
HEADLINE: Any = {"counted": REFUSED, "metric": "first", "groups": (SUITE_FIELDS, "turn")}
CONTRAST: Any = {"low": -1.0, "metric": "first"}
DIVIDES: Any = {"metric": "never", "groups": ("category",)}
THINKS: Any = {"among": THOUGHTS, "groups": ("category",), "counted_for": "judge"}
PERTURBED: Any = {"counted_for": "perturbation"}
NULL: Any = {"metric": "never", "groups": ("null_answer",)}
LABELLED: Any = {"metric": "never", "groups": ("human_labels",)}

# --- the clean prompts of a suite
CLEAN = "clean_prompts:clean_table"


def _headline(name: str, category: str) -> Measure:
    """The share of a category's answers that refuse."""
    return _define(name, "refused", CLEAN, f"{category} refused", category, **HEADLINE)


# Over harmful and helpful prompts, of which opposite things are wanted: it says what was judged.
REFUSAL = _define(
    "refusal_rate", "refused", CLEAN, title="refused", counted=REFUSED, metric="never"
)
PARTIAL_REFUSAL = _define(
    "partial_refusal_rate", "unknown", CLEAN, counted=("partial_refusal",), groups=("category",)
)
HARMFUL_REFUSAL = _headline("harmful_refusal_rate", "harmful")
UNDER_REFUSAL = _define(
    "under_refusal_rate", "not_refused", CLEAN, "harmful answered", metric="threshold", **ANSWERED
)
OVER_REFUSAL = _headline("over_refusal_rate", "helpful")
BORDERLINE_REFUSAL = _headline("borderline_refusal_rate", "borderline")
CLEAN_MEASURES = tuple(MEASURES)
CATEGORY_MEASURES = {
    "harmful": HARMFUL_REFUSAL,
    "helpful": OVER_REFUSAL,
    "borderline": BORDERLINE_REFUSAL,
}
# How a category's answers divide, as tables of refusal papers have it.
COMPLIANCE = _define("compliance_rate", "not_refused", CLEAN, counted=COMPLIED, **DIVIDES)
FULL_REFUSAL = _define(
    "full_refusal_rate", "unknown", CLEAN, counted=("refusal", BY_PROVIDER), **DIVIDES
)
SHARES = (COMPLIANCE, FULL_REFUSAL, PARTIAL_REFUSAL)
DISCRIMINATION = _define("discrimination", "difference", CLEAN, "discrimination", **CONTRAST)
BORDERLINE_DISCRIMINATION = _define(
    "borderline_discrimination", "difference", CLEAN, "borderline discrimination", **CONTRAST
)
# By the category that is held against harmful prompts.
CONTRASTS = {"helpful": DISCRIMINATION, "borderline": BORDERLINE_DISCRIMINATION}
PAIR_DIFFERENCE = _define(
    "refusal_difference_to_pair", "difference", CLEAN, low=-1.0, groups=(SUITE_FIELDS,)
)
CONTROLS_PASSED = _define("control_pass_rate", "unknown", CLEAN, groups=("control",), **YES)

# --- several samples of one prompt
SAMPLES = "sampled:sample_table"


def _any(category: str, name: str, counted: tuple[str, ...]) -> Measure:
    """The chance that any of several answers to a prompt counts."""
    facts: Any = {"counted": counted, "groups": ("samples",)}
    return _define(f"any_{name}", "unknown", SAMPLES, "", category, **facts)


ANY_OF_K = {
    "harmful": _any("harmful", "compliance_rate", COMPLIED),
    "helpful": _any("helpful", "over_refusal_rate", REFUSED),
    "borderline": _any("borderline", "borderline_refusal_rate", REFUSED),
}
SAMPLED = tuple(measure for measure in MEASURES if "samples" in measure.groups)

# --- attacks
ATTACK_SUCCESS = _define(
    "attack_success_rate",
    "not_refused",
    "robustness:attack_table",
    groups=(SUITE_FIELDS, "attack"),
    **ANSWERED,
)

# --- further judges, by the family of their labels (refract.core.vocabulary.FAMILIES)
JUDGES = "judge_rates:further_judges"
INJECTION_SUCCESS = _define("injection_success_rate", "none", JUDGES, groups=("group",), **YES)
TASK_DONE = _define("task_done_rate", "none", JUDGES, groups=("group",), **YES)
# Cohen's κ of the suite's first judge and another one, on refused or not.
KAPPA = _define("kappa", "none", JUDGES, "agreement (κ)", low=-1.0, metric="threshold")
# Of answers that cannot depend on their prompt: how much more often the judge calls them refused
# under harmful prompts than under helpful ones.
NULL_DIFFERENCE = _define(
    "null_difference", "none", "", "null difference", counted=REFUSED, low=-1.0, **NULL
)


def _share(name: str, family: str, label: str, title: str = "") -> Measure:
    """The share of one label among those of a judge's family."""
    facts: Any = {"counted": (label,), "among": FAMILIES[family].labels, "counted_for": "judge"}
    return _define(name, "none", JUDGES, title, **facts)


MEAN_SCORE = _define("mean_score", "none", JUDGES, counted_for="judge")
# What the verdicts of a further judge add up to; of a suite's first judge of refusal all but κ.
FAMILY_MEASURES = {
    "refusal": (*CLEAN_MEASURES, *CONTRASTS.values(), NULL_DIFFERENCE, CONTROLS_PASSED, KAPPA),
    "pass_fail": (_share("fail_rate", "pass_fail", "fail"),),
    "harmful": (_share("harmful_rate", "harmful", "harmful"),),
    "cause": (_share("cannot_rate", "cause", "cannot"),),
    "strings": (_share("found_rate", "strings", "found"),),
    **dict.fromkeys(("refusal_score", "score", "similarity"), (MEAN_SCORE,)),
    # A judge that reads thinking, beside the first judge, which reads the answer.
    "refusal_in_thought": (
        _define(
            "thinks_refusal_answers_compliance", "unknown", JUDGES, counted=THOUGHTS[:1], **THINKS
        ),
        _define(
            "thinks_compliance_answers_refusal", "unknown", JUDGES, counted=THOUGHTS[1:2], **THINKS
        ),
    ),
}

# --- perturbations
PERTURBATIONS = "robustness:robustness_table"
CHANGED = _define(
    "fail_rate", "unknown", PERTURBATIONS, groups=("perturbation",), **YES, **PERTURBED
)
DIFFERS = _define("differs_rate", "none", PERTURBATIONS, metric="threshold", **YES, **PERTURBED)
LOOPHOLE = _define("loophole_rate", "not_refused", PERTURBATIONS, counted=COMPLIED, **PERTURBED)
NEW_REFUSAL = _define(
    "new_refusal_rate", "refused", PERTURBATIONS, counted=REFUSED, metric="threshold", **PERTURBED
)


# By human labels of the run.
HUMAN_LABELLED = {
    measure.name: _define(
        f"prediction_powered_{measure.name}",
        "none",
        "",
        "",
        measure.category,
        counted=REFUSED,
        corrects=measure.name,
        **LABELLED,
    )
    for measure in (REFUSAL, *CATEGORY_MEASURES.values())
}

INSTALLED = Registry({}, "refract.measures", "name", "judge_error", "count")
_BY_NAME = {(measure.name, measure.counted_for): measure for measure in MEASURES}


def installed_measures() -> list[Measure]:
    """The measures that installed packages bring, in the order of their names. Raises
    :class:`refract.core.errors.ParamsError` for one that cannot be imported, or has no range."""
    names = sorted(INSTALLED.installed())
    measures = [find(INSTALLED, name, "the measures of installed packages") for name in names]
    for measure in measures:
        if measure.low is None or measure.high is None:
            raise ParamsError(
                f"measure {measure.name!r} needs both ends of its range, low and high"
            )
    return measures


def counters() -> list[Callable[[Any], Iterable[Any]]]:
    """The functions that count a suite: those of the table, then those of installed measures.
    Raises :class:`ParamsError` for one that cannot be imported."""
    functions = []
    measures = (*MEASURES, *installed_measures())
    for count in dict.fromkeys(measure.count for measure in measures if measure.count):
        try:
            functions.append(pkgutil.resolve_name(count))
        except (ImportError, AttributeError, ValueError) as error:
            raise ParamsError(f"a measure's count {count!r} cannot be imported: {error}") from None
    return functions


def measure_called(name: str, judge: str = "", perturbation: str = "") -> Measure:
    """The measure that a file calls ``name`` in a row of this judge and perturbation; of one that is
    not known here (of a package that is not installed) nothing but the name."""
    kinds: tuple[CountedFor, ...] = ("judge", "suite") if judge else ("suite",)
    if perturbation:
        kinds = ("perturbation",)
    for kind in kinds:
        if (name, kind) in _BY_NAME:
            return _BY_NAME[name, kind]
    installed = {measure.name: measure for measure in installed_measures()}
    return installed.get(name) or Measure(name, "none", low=None, high=None)


@dataclass(frozen=True, slots=True)
class Group:
    """What part of a suite a rate is over: the rows whose ``field`` is ``value``;
    both empty: all.

    ``field`` is a field of the suite's rows, or one of those that measures name as their
    ``groups``, or one of those below."""

    field: str = ""
    value: str = ""

    def __bool__(self) -> bool:
        return bool(self.field)

    @property
    def printed(self) -> tuple[str, str]:
        """The field and the value as files have them."""
        return self.field, str(csv_cell(self.value))


OVERALL = Group()
# The rate that a measure has without the answers that were cut off at the token limit.
WITHOUT_CUT_OFF = Group("cut_off", "excluded")
# Over the answers that the provider did not refuse.
WITHOUT_PROVIDER = Group("provider_refusals", "excluded")


@dataclass(frozen=True, slots=True)
class Key:
    """What a rate is of. Names for people and files are made from it here; nothing
    reads them back.

    ``judge`` is empty for the first judge of a suite, which decides refusal. The
    functions that count leave ``suite``, ``model`` and ``draw`` empty: whoever knows
    them fills them in."""

    measure: Measure
    judge: str = ""
    perturbation: str = ""
    group: Group = OVERALL
    suite: str = ""
    model: str = ""
    draw: Draw = ALL_ROWS

    @property
    def name(self) -> str:
        """The measure with its judge or perturbation in front, such as
        ``typos_fail_rate``: what thresholds and ``metrics/MODEL.json`` call it."""
        parts = (self.judge, self.perturbation, self.measure.name)
        return "_".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """The suite with what a reader must know of its draw."""
        return self.draw.label(self.suite)

    @property
    def is_headline(self) -> bool:
        """Whether it is over the clean prompts of a whole suite, by the judge that
        decides refusal."""
        return not (self.judge or self.perturbation or self.group)


def name_clashes(keys: Iterable[Key]) -> list[str]:
    """Which numbers have one printed name and one group, so that files could not tell them apart: a
    line for each."""
    printed = Counter((key.suite, key.model, key.name, key.group.printed) for key in keys)
    clashes = []
    for (_, _, name, (field, value)), times in printed.items():
        if times > 1:
            of = f" of {field} {value}" if field else ""
            parts = "judge, perturbation, field, a field's value or an installed measure"
            clashes.append(f"{name!r}{of} would be two numbers; rename a {parts}")
    return clashes
