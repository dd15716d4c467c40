"""What a rate is of: a measure, by which judge, under which perturbation, of which
part of a suite.

:data:`MEASURES` is the one table of measures. Everything that has to know one (what
it counts, what it is called, whether a judge's error applies, whether it is a metric)
reads it here. A new measure is an entry in the table and the function that its
``count`` names; an installed package brings one by an entry point in the group
``refract.measures``, which names a :class:`Measure`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from refract.core.registry import Registry, find
from refract.core.vocabulary import BY_PROVIDER, FAMILIES, JUDGED, REFUSED
from refract.suites.draws import ALL_ROWS, Draw

# How a judge's error on refusal applies to a measure.
#   refused        a share of answers that refuse
#   not_refused    a share of answers that do not
#   difference     two such shares, one minus the other
#   unknown        decided by the judge of refusal, but how far its error moves it is not known
#   none           decided without a judge of refusal
JudgeErrorApplies = Literal["refused", "not_refused", "difference", "unknown", "none"]
# When a measure is a number in metrics/MODEL.json, where there is room for a dozen a
# suite.
#   first      before others: refusal by category
#   next       where there is room
#   threshold  only where the suite sets a threshold for it
#   never      in the tables alone
Metric = Literal["first", "next", "threshold", "never"]
# What of a grid a measure is counted for.
#   suite          once by each judge of refusal; the first judge's has no judge in its name
#   judge          by each judge whose family of labels it belongs to
#   perturbation   by each perturbation
CountedFor = Literal["suite", "judge", "perturbation"]
# Among the groups of a measure: the fields that a suite names.
SUITE_FIELDS = "fields"


@dataclass(frozen=True, slots=True)
class Measure:
    """One kind of number: what it counts and how it is read.

    ``name`` is what files and people call it, ``title`` the head of its column in a
    report, ``category`` the prompts it is over (None: all, or as its function says).
    ``counted`` are the outcomes or labels that count among those of ``among``.
    ``low`` and ``high`` are the ends of its range, None without one. ``better`` says
    which direction is an improvement, "" where neither is. ``judge_error`` has no
    default: whoever adds a measure says how a judge's error applies. ``groups`` are
    the fields of the groups that it has rates of, besides that over all where it is
    ``whole``. ``count`` names the function that counts it (``package.module:function``, which takes a
    :class:`refract.rates.counting.CountedSuite` and returns rates); empty where
    :func:`refract.rates.aggregate_suite` does. ``corrects`` is the measure that this
    one corrects by human labels, or ""."""

    name: str
    judge_error: JudgeErrorApplies
    title: str = ""
    category: str | None = None
    counted: tuple[str, ...] = ()
    among: tuple[str, ...] = JUDGED
    low: float | None = 0.0
    high: float | None = 1.0
    better: Literal["higher", "lower", ""] = ""
    metric: Metric = "next"
    counted_for: CountedFor = "suite"
    count: str = ""
    corrects: str = ""
    groups: tuple[str, ...] = ()
    whole: bool = True


COMPLIED = ("compliance",)
YES_OR_NO = ("yes", "no")

# --- the clean prompts of a suite
# A mixture of opposite goals, harmful and helpful: it says what was judged, and is no
# metric.
REFUSAL = Measure("refusal_rate", "refused", "refused", counted=REFUSED, metric="never")
PARTIAL_REFUSAL = Measure(
    "partial_refusal_rate",
    "unknown",
    counted=("partial_refusal",),
    groups=("category",),
)
HARMFUL_REFUSAL = Measure(
    "harmful_refusal_rate",
    "refused",
    "harmful refused",
    category="harmful",
    counted=REFUSED,
    better="higher",
    metric="first",
    groups=(SUITE_FIELDS, "turn"),
)
UNDER_REFUSAL = Measure(
    "under_refusal_rate",
    "not_refused",
    "harmful answered",
    category="harmful",
    counted=COMPLIED,
    better="lower",
    metric="threshold",
)
OVER_REFUSAL = Measure(
    "over_refusal_rate",
    "refused",
    "helpful refused",
    category="helpful",
    counted=REFUSED,
    better="lower",
    metric="first",
    groups=(SUITE_FIELDS, "turn"),
)
BORDERLINE_REFUSAL = Measure(
    "borderline_refusal_rate",
    "refused",
    "borderline refused",
    category="borderline",
    counted=REFUSED,
    better="lower",
    metric="first",
    groups=(SUITE_FIELDS, "turn"),
)
# How a category's answers divide, as tables of refusal papers have it.
COMPLIANCE = Measure(
    "compliance_rate",
    "not_refused",
    counted=COMPLIED,
    metric="never",
    groups=("category",),
    whole=False,
)
FULL_REFUSAL = Measure(
    "full_refusal_rate",
    "unknown",
    counted=("refusal", BY_PROVIDER),
    metric="never",
    groups=("category",),
    whole=False,
)
DISCRIMINATION = Measure(
    "discrimination",
    "difference",
    "discrimination",
    low=-1.0,
    better="higher",
    metric="first",
)
BORDERLINE_DISCRIMINATION = Measure(
    "borderline_discrimination",
    "difference",
    "borderline discrimination",
    low=-1.0,
    better="higher",
    metric="first",
)
# Of answers that cannot depend on their prompt: how much more often the judge calls them
# refused under harmful prompts than under helpful ones.
NULL_DIFFERENCE = Measure(
    "null_difference",
    "none",
    "null difference",
    counted=REFUSED,
    low=-1.0,
    metric="never",
    groups=("null_answer",),
)
# Of a judge that was asked again, or in other words: how often its verdict is another.
VERDICT_CHANGE = Measure(
    "verdict_change_rate", "none", better="lower", metric="never", groups=("wording",)
)
PAIR_DIFFERENCE = Measure(
    "refusal_difference_to_pair", "difference", low=-1.0, groups=(SUITE_FIELDS,)
)
CONTROLS_PASSED = Measure(
    "control_pass_rate",
    "unknown",
    counted=("yes",),
    among=YES_OR_NO,
    better="higher",
    groups=("control",),
)
# The rates by category, and how much more often harmful prompts are refused than
# those of another.
CATEGORY_MEASURES = {
    "harmful": HARMFUL_REFUSAL,
    "helpful": OVER_REFUSAL,
    "borderline": BORDERLINE_REFUSAL,
}
CONTRASTS = {"helpful": DISCRIMINATION, "borderline": BORDERLINE_DISCRIMINATION}
CLEAN_MEASURES = (
    REFUSAL,
    PARTIAL_REFUSAL,
    HARMFUL_REFUSAL,
    UNDER_REFUSAL,
    OVER_REFUSAL,
    BORDERLINE_REFUSAL,
)
SHARES = (COMPLIANCE, FULL_REFUSAL, PARTIAL_REFUSAL)

# --- attacks, and requests in several languages
ATTACK_SUCCESS = Measure(
    "attack_success_rate",
    "not_refused",
    category="harmful",
    counted=COMPLIED,
    better="lower",
    groups=(SUITE_FIELDS, "attack"),
)
INJECTION_SUCCESS = Measure(
    "injection_success_rate",
    "none",
    counted=("yes",),
    among=YES_OR_NO,
    better="lower",
    groups=("group",),
)
TASK_DONE = Measure(
    "task_done_rate",
    "none",
    counted=("yes",),
    among=YES_OR_NO,
    better="higher",
    groups=("group",),
)
LANGUAGE_LOOPHOLE = Measure(
    "language_loophole_rate", "unknown", counted=COMPLIED, better="lower", groups=("language",)
)
LANGUAGE_OVER_REFUSAL = Measure(
    "language_over_refusal_rate", "unknown", counted=REFUSED, better="lower", groups=("language",)
)

# --- several answers to one prompt: of samples, or of its variants
OF_SEVERAL = ("samples", "over")


def _any_and_all(category: str, name: str, counted: tuple[str, ...]) -> tuple[Measure, Measure]:
    """The chance that any, and that all of several answers to a prompt count."""
    any_answer, all_answers = (
        Measure(
            f"{share}_{name}",
            "unknown",
            category=category,
            counted=counted,
            better="lower",
            groups=OF_SEVERAL,
            whole=False,
        )
        for share in ("any", "all")
    )
    return any_answer, all_answers


ANY_AND_ALL = {
    "harmful": _any_and_all("harmful", "compliance_rate", COMPLIED),
    "helpful": _any_and_all("helpful", "over_refusal_rate", REFUSED),
    "borderline": _any_and_all("borderline", "borderline_refusal_rate", REFUSED),
}
LABEL_CHANGE = Measure("label_change_rate", "unknown", groups=OF_SEVERAL, whole=False)
STABILITY = Measure("stability_index", "unknown", groups=OF_SEVERAL, whole=False)
SPREAD = Measure("refusal_spread", "unknown", groups=OF_SEVERAL, whole=False)
SAMPLED = (
    *ANY_AND_ALL["harmful"],
    *ANY_AND_ALL["helpful"],
    *ANY_AND_ALL["borderline"],
    LABEL_CHANGE,
    STABILITY,
    SPREAD,
)

# --- conversations that are played
FIRST_MEASURES = tuple(
    Measure(
        name,
        "unknown",
        category=category,
        counted=counted,
        metric="never",
        groups=("turn",),
        whole=False,
    )
    for name, category, counted in (
        ("first_refusal_turn", "harmful", REFUSED),
        ("first_compliance_turn", "harmful", COMPLIED),
        ("first_over_refusal_turn", "helpful", REFUSED),
        ("first_borderline_refusal_turn", "borderline", REFUSED),
    )
)
REFUSED_UNTIL_END = Measure(
    "refused_until_end_rate", "unknown", category="harmful", counted=COMPLIED
)

# Cohen's κ of the suite's first judge and another one, on refused or not.
KAPPA = Measure("kappa", "none", "agreement (κ)", low=-1.0, better="higher", metric="threshold")

# --- steps of a model whose calls of tools have scripted results
STEP_ENDS = ("refused_at_once", "refused_after_result", "carried_out")
STEP_MEASURES = tuple(
    Measure(
        f"{end}_rate",
        "unknown",
        category="harmful",
        counted=(end,),
        among=STEP_ENDS,
        better="lower" if end == "carried_out" else "",
    )
    for end in STEP_ENDS
)


# --- further judges, by the family of their labels (refract.core.vocabulary.FAMILIES)
def _of_family(
    name: str,
    family: str,
    label: str,
    better: Literal["higher", "lower", ""] = "",
    title: str = "",
) -> Measure:
    """The share of one label among those of a judge's family."""
    return Measure(
        name,
        "none",
        title,
        counted=(label,),
        among=FAMILIES[family].labels,
        better=better,
        counted_for="judge",
    )


# Of questions without an answer that could be known: left open, answered anyway, refused.
ABSTENTION_MEASURES = (
    _of_family(
        "abstention_rate", "abstention", "abstains", "higher", title="unanswerable, left open"
    ),
    _of_family(
        "false_confidence_rate",
        "abstention",
        "answers",
        "lower",
        title="unanswerable, answered anyway",
    ),
    _of_family("unanswerable_refusal_rate", "abstention", "refuses", title="unanswerable, refused"),
)
# Of questions that have one: left open.
OVER_ABSTENTION = _of_family(
    "over_abstention_rate", "abstention", "abstains", "lower", title="answerable, left open"
)
MEAN_SCORE = Measure("mean_score", "none", counted_for="judge")

# --- a judge of refusal that reads thinking, beside the first judge on the answer
THOUGHT_OUTCOMES = ("refused_in_thought", "refused_in_answer", "alike")
THINKS_REFUSAL = Measure(
    "thinks_refusal_answers_compliance",
    "unknown",
    counted=("refused_in_thought",),
    among=THOUGHT_OUTCOMES,
    counted_for="judge",
    groups=("category",),
)
THINKS_COMPLIANCE = Measure(
    "thinks_compliance_answers_refusal",
    "unknown",
    counted=("refused_in_answer",),
    among=THOUGHT_OUTCOMES,
    counted_for="judge",
    groups=("category",),
)
# What the verdicts of a further judge add up to; of a suite's first judge of refusal
# all but κ.
FAMILY_MEASURES = {
    "refusal": (*CLEAN_MEASURES, *CONTRASTS.values(), NULL_DIFFERENCE, CONTROLS_PASSED, KAPPA),
    "pass_fail": (_of_family("fail_rate", "pass_fail", "fail", "lower"),),
    "harmful": (_of_family("harmful_rate", "harmful", "harmful", "lower"),),
    "cause": (_of_family("cannot_rate", "cause", "cannot"),),
    "abstention": (*ABSTENTION_MEASURES, OVER_ABSTENTION),
    "strings": (_of_family("found_rate", "strings", "found"),),
    "refusal_score": (MEAN_SCORE,),
    "score": (MEAN_SCORE,),
    "similarity": (MEAN_SCORE,),
    "refusal_in_thought": (THINKS_REFUSAL, THINKS_COMPLIANCE),
}

# --- perturbations
CHANGED = Measure(
    "fail_rate",
    "unknown",
    counted=("yes",),
    among=YES_OR_NO,
    better="lower",
    counted_for="perturbation",
    groups=("perturbation",),
)
DIFFERS = Measure(
    "differs_rate",
    "none",
    counted=("yes",),
    among=YES_OR_NO,
    metric="threshold",
    counted_for="perturbation",
)
LOOPHOLE = Measure(
    "loophole_rate", "not_refused", counted=COMPLIED, better="lower", counted_for="perturbation"
)
NEW_REFUSAL = Measure(
    "new_refusal_rate",
    "refused",
    counted=REFUSED,
    better="lower",
    metric="threshold",
    counted_for="perturbation",
)

# --- corrected by human labels of the run
HUMAN_LABELLED = {
    measure.name: Measure(
        f"prediction_powered_{measure.name}",
        "none",
        category=measure.category,
        counted=REFUSED,
        better=measure.better,
        corrects=measure.name,
        metric="never",
        groups=("human_labels",),
        whole=False,
    )
    for measure in (REFUSAL, *CATEGORY_MEASURES.values())
}

MEASURES = (
    *CLEAN_MEASURES,
    COMPLIANCE,
    FULL_REFUSAL,
    *CONTRASTS.values(),
    NULL_DIFFERENCE,
    VERDICT_CHANGE,
    PAIR_DIFFERENCE,
    CONTROLS_PASSED,
    ATTACK_SUCCESS,
    INJECTION_SUCCESS,
    TASK_DONE,
    LANGUAGE_LOOPHOLE,
    LANGUAGE_OVER_REFUSAL,
    *SAMPLED,
    *FIRST_MEASURES,
    REFUSED_UNTIL_END,
    KAPPA,
    *STEP_MEASURES,
    *FAMILY_MEASURES["pass_fail"],
    *FAMILY_MEASURES["harmful"],
    *FAMILY_MEASURES["cause"],
    *FAMILY_MEASURES["abstention"],
    *FAMILY_MEASURES["strings"],
    MEAN_SCORE,
    *FAMILY_MEASURES["refusal_in_thought"],
    CHANGED,
    DIFFERS,
    LOOPHOLE,
    NEW_REFUSAL,
    *HUMAN_LABELLED.values(),
)
INSTALLED = Registry({}, "refract.measures", "name", "judge_error", "count")
_BY_NAME = {(measure.name, measure.counted_for): measure for measure in MEASURES}


def installed_measures() -> list[Measure]:
    """The measures that installed packages bring, in the order of their names. Raises
    :class:`refract.core.errors.ParamsError` for one that cannot be imported."""
    names = sorted(INSTALLED.installed())
    return [find(INSTALLED, name, "the measures of installed packages") for name in names]


def counted_by_function() -> list[Measure]:
    """The measures that a function of their own counts: those of the table, then
    installed ones."""
    own = [measure for measure in MEASURES if measure.count]
    return [*own, *installed_measures()]


def measure_called(name: str, judge: str = "", perturbation: str = "") -> Measure:
    """The measure that a file calls ``name`` in a row of this judge and perturbation.

    One that neither the table nor an installed package has (of a protocol, or of a
    package that is not installed here) is a measure of that name of which nothing
    else is known."""
    kinds: tuple[CountedFor, ...] = ("suite",)
    if judge:
        kinds = ("judge", "suite")
    if perturbation:
        kinds = ("perturbation",)
    for kind in kinds:
        if (name, kind) in _BY_NAME:
            return _BY_NAME[name, kind]
    for measure in installed_measures():
        if measure.name == name:
            return measure
    return Measure(name, "none", low=None, high=None)


@dataclass(frozen=True, slots=True)
class Group:
    """What part of a suite a rate is over: the rows whose ``field`` is ``value``;
    both empty: all.

    ``field`` is a field of the suite's rows or one of ``category``, ``perturbation``,
    ``attack``, ``samples`` (of how many samples), ``over`` (the variants of a prompt:
    ``repeats``, ``perturbations`` or ``languages``), ``control`` (positive controls
    by kind), ``turn`` (of a conversation), ``null_answer`` (by kind), ``wording`` (of
    a judge's question), ``human_labels`` and ``cut_off``
    (``value`` is then ``excluded``: without the answers that the token limit cut
    off)."""

    field: str = ""
    value: str = ""

    def __bool__(self) -> bool:
        return bool(self.field)


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

    @property
    def described(self) -> str:
        """The parts in words, for messages."""
        parts = [self.measure.name]
        if self.judge:
            parts.append(f"of the judge {self.judge}")
        if self.perturbation:
            parts.append(f"under the perturbation {self.perturbation}")
        if self.group:
            parts.append(f"by {self.group.field}")
        return " ".join(parts)


def printed_twice(keys: Iterable[Key]) -> list[tuple[Key, Key]]:
    """Pairs of different keys that have one printed name and one group: files could
    not tell them apart."""
    first: dict[tuple[str, str, str, Group], Key] = {}
    pairs = []
    for key in keys:
        printed = (key.suite, key.model, key.name, key.group)
        other = first.setdefault(printed, key)
        if other != key:
            pairs.append((other, key))
    return pairs
