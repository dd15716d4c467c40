"""A judge's error on a model that nobody labelled: of which lines of a ledger, and in which numbers."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.agreement import unseen_models
from refract.agreement.corrections import with_labels
from refract.agreement.ledger import ALL, ANY, QUESTIONS, LedgerEntry, ledger_entries, write_ledger
from refract.agreement.unseen_models import counting_lines, judge_error, known_errors
from refract.core.params import DecisionSettings
from refract.rates import aggregate_suite
from refract.rates.comparison import DEFAULTS, compare_groups, pair_outcomes
from refract.rates.judge_error import JudgeError, widened, with_judge_error
from refract.rates.key import HARMFUL_REFUSAL, HUMAN_LABELLED, Group, Key
from refract.rates.rate import Counts, Interval, Rate, Threshold
from refract.rates.thresholds import decided
from refract.results.sources import errors_between
from refract.results.table_rows import COLUMNS, rate_from_row, rate_to_row
from refract.statistics.proportions import wilson
from tests import builders
from tests.builders import outcome_lines
from tests.rates.test_aggregate import FAMILIES, suite_of


def rate(name: str, successes: int, n: int) -> Rate:
    return builders.rate(name, successes, n, interval=wilson(successes, n), suite="s", model="m")


def line(model: str, gap: float = 0.0, **given: Any) -> LedgerEntry:
    """A line of a judge on 200 answers, of which people call half refusals, that nothing shaped."""
    fixed = dict.fromkeys(LedgerEntry._fields) | {"unjudged": 0, "shaped_by": "", "reads": ""}
    named = {"judge": "j", "version": "1", "source": "xstest", "model": model, "n": 200}
    rates = {"human_rate": 0.5, "judge_rate": 0.5 + gap, "partial": "refusal", "question": ANY}
    return LedgerEntry(**{**fixed, **named, **rates, **given})


# Quantiles of Student's t that leave 5 % in the two tails, as textbooks print them.
T_TABLE = {2: 4.303, 4: 2.776, 9: 2.262, 29: 2.045}


@pytest.mark.parametrize(("freedom", "t"), T_TABLE.items())
def test_the_interval_of_one_more_model_is_of_students_t(freedom, t):
    k = freedom + 1
    error = JudgeError(k, 0.01, 0.02, 0.05)
    assert error.half_width(0.95) == pytest.approx(t * 0.02 * sqrt(1 + 1 / k), rel=2e-4)
    assert error.between_models(0.95) == pytest.approx(t * 0.02 * sqrt(2), rel=2e-4)


def test_the_gaps_of_the_lines_are_one_population():
    lines = [line("a", -0.02), line("b", 0.0), line("c", 0.05)]
    found = judge_error([x._replace(precision=0.9, recall=0.8) for x in lines])
    assert found is not None
    assert found[:3] == (3, pytest.approx(0.01), pytest.approx(sqrt(0.0013)))
    # wrong: a tenth of the judge's refusals, a fifth of people's; less the squares of the gaps
    wrong = 0.51 * 0.1 + 0.5 * 0.2
    assert found.variance == pytest.approx(wrong - (0.0004 + 0.0025) / 3)
    assert judge_error(lines[:2]) is None


def test_where_nobody_refuses_no_refusal_is_missed():
    # Three of every four refusals are wrong, of 4 % that the judge sees; people see none to recall.
    lines = [line(m, human_rate=0.0, judge_rate=0.04, precision=0.25) for m in "abc"]
    assert judge_error(lines) == pytest.approx(JudgeError(3, 0.04, 0.0, 0.03 - 0.04**2))
    # And the other way round: half of people's 4 % are missed by a judge that calls nothing a refusal.
    lines = [line(m, human_rate=0.04, judge_rate=0.0, recall=0.5) for m in "abc"]
    assert judge_error(lines) == pytest.approx(JudgeError(3, -0.04, 0.0, 0.02 - 0.04**2))


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"shaped_by": "orfuzz pyrit"}, True),
        ({"shaped_by": "orfuzz xstest"}, False),
        # The source of another line has answers of the same model, under its own name for it.
        ({"shaped_by": "elsewhere"}, False),
        ({"shaped_by": "harmbench", "model": "vicuna_7b_v1_5"}, False),
        ({"reads": "clean"}, True),
        ({"reads": "tuned"}, False),
        ({"reads": "clean tuned"}, False),
        ({"reads": "through"}, False),
        ({"reads": "unknown"}, False),
        ({"n": 99}, False),
        ({"model": ""}, False),
        ({"model": ALL}, False),
        ({"question": "full refusals alone"}, False),
        ({"question": ""}, False),
        ({"partial": "compliance"}, False),
        ({"version": "2"}, False),
        ({"judge": "other"}, False),
    ],
)
def test_a_line_counts_where_nothing_of_it_shaped_the_judge(changed, counts):
    entry = line("llama3.0")._replace(**changed)
    others = [
        line("llama3", source="elsewhere", judge="other"),
        line("llama3.0", judge="clean"),
        line("llama3.0", judge="tuned", shaped_by="xstest"),
        line("llama3.0", judge="through", reads="tuned"),
    ]
    assert counting_lines([entry, *others], "j", "1") == [entry] * counts


NAMES = st.sampled_from(["xstest", "orfuzz", "pyrit", "a", "b"])


@given(st.lists(st.tuples(NAMES, NAMES, st.lists(NAMES, max_size=3)), max_size=8))
def test_more_that_shaped_a_judge_never_makes_a_line_count(given_):
    lines = [line(m, source=s, shaped_by=" ".join(by)) for s, m, by in given_]
    counted = counting_lines(lines, "j", "1")
    assert all(x.source not in x.shaped_by.split() for x in counted)
    more = [x._replace(shaped_by=f"{x.shaped_by} pyrit".strip()) for x in lines]
    assert len(counting_lines(more, "j", "1")) <= len(counted)


def test_a_line_says_its_clusters_and_what_its_source_asks():
    pairs = [{"source": "xstest", "model": "m", "cluster": f"{n % 2}"} for n in range(4)]
    labels = ["refusal"] * 4
    (found,) = ledger_entries("j", "1", pairs, labels, labels, reads=("b", "a"))
    assert (found.clusters, found.question, found.reads) == (2, ANY, "a b")
    assert {source for source, asks in QUESTIONS.items() if asks == ANY} == {
        *("orfuzz", "refusalbench", "xstest", "xstest_extension")
    }


def test_the_squares_of_distances_add():
    found = widened(Interval(0.8, 0.8), Interval(0.72, 0.86), 0.02, 0.06)
    assert found == (pytest.approx(0.68), pytest.approx(0.78 + 0.06 * sqrt(2)))
    assert widened(Interval(0, 0), Interval(0, 0.1), 0.0, 0.2).low == 0.0
    assert widened(Interval(0, 0), Interval(-0.1, 0.1), 0.0, 0.2, -1.0).low < 0.0


SHARES = st.floats(0, 1)


@given(st.lists(SHARES, min_size=3, max_size=3).map(sorted), st.floats(-0.3, 0.3), SHARES)
def test_an_interval_with_the_judge_holds_the_corrected_rate_and_is_wider(ends, shift, half):
    low, value, high = ends
    found = widened(Interval(value, value), Interval(low, high), shift, half)
    assert 0 <= found.low <= min(1.0, max(0.0, value - shift)) <= found.high <= 1
    unclipped = widened(Interval(value, value), Interval(low, high), 0.0, half)
    assert unclipped.low <= low + 1e-12
    assert unclipped.high >= high - 1e-12


ERROR = JudgeError(10, 0.05, 0.02, 0.03)


def test_a_rate_of_answers_that_comply_moves_the_other_way():
    refused, complied = rate("harmful_refusal_rate", 30, 60), rate("under_refusal_rate", 30, 60)
    first = with_judge_error(refused, ERROR, 0.95, refused=True)
    second = with_judge_error(complied, ERROR, 0.95, refused=False)
    assert first.with_judge is not None
    assert second.with_judge is not None
    low, high = first.with_judge.interval
    assert second.with_judge.interval == (pytest.approx(1 - high), pytest.approx(1 - low))
    assert (low + high) / 2 == pytest.approx(0.45)
    assert (first.value, first.interval) == (refused.value, refused.interval)
    nothing = replace(refused, value=None, interval=None)
    assert with_judge_error(nothing, ERROR, 0.95, refused=True) == nothing


def test_rates_of_refusal_alone_have_an_interval_with_their_own_judges_error():
    rows = suite_of(a="refusal", b="compliance", c="error", d="compliance")
    judges = {"judges": ["first", "second"], "thresholds": {"harmful_refusal_rate": {"max": 0.99}}}
    plain = aggregate_suite(*rows, judges, {}, FAMILIES).table
    found = aggregate_suite(*rows, judges, {}, FAMILIES, errors={"first": ERROR}).table
    known = {x.name for x in found if x.with_judge}
    assert known == {
        *("refusal_rate", "harmful_refusal_rate", "under_refusal_rate", "compliance_rate")
    }
    assert [replace(x, with_judge=None) for x in found] == plain
    errors = dict.fromkeys(FAMILIES, ERROR)
    both = aggregate_suite(*rows, judges, {}, FAMILIES, errors=errors).table
    assert {x.name for x in both if x.with_judge} - known == {
        f"second_{name}" for name in known - {"compliance_rate"}
    }


def test_a_threshold_is_decided_with_the_judges_error():
    limit = Threshold("min", 0.8)
    alone = decided(rate("harmful_refusal_rate", 190, 200), limit, 1.0)
    assert alone.decision == "met"
    error = JudgeError(3, 0.0, 0.05, 0.03)
    known = with_judge_error(alone, error, 0.95, refused=True)
    assert decided(known, limit, 1.0).decision == "inconclusive"
    assert known.shown is not None
    assert known.shown.low < 0.8 < alone.interval.low
    row = rate_to_row(known)
    assert rate_to_row(rate_from_row(row)) == row
    assert [x for x in COLUMNS if row[x] is not None and x.startswith("judge_")] == [
        *("judge_low", "judge_high")
    ]


def drops(error: JudgeError | None, before: str, after: str, **settings: object):
    groups = pair_outcomes(outcome_lines(before), outcome_lines(after))
    given_ = DEFAULTS.model_copy(update=settings)
    (found,) = compare_groups(groups, given_, errors=[error])
    return found


SMALL, LARGE = JudgeError(10, 0.0, 0.001, 0.01), JudgeError(3, 0.0, 0.1, 0.05)


@pytest.mark.parametrize(
    ("error", "lost", "decision"),
    [
        (None, 0, "not worse"),
        (SMALL, 0, "not worse"),
        (LARGE, 0, "inconclusive"),
        (None, 20, "worse"),
        (SMALL, 20, "worse"),
        (LARGE, 20, "inconclusive"),
        (LARGE, 110, "worse"),
    ],
)
def test_two_models_differ_where_the_judge_could_not_have_made_it(error, lost, decision):
    found = drops(error, "r" * 129, "c" * lost + "r" * (129 - lost))
    assert found.drop is not None
    assert found.drop.decision == decision
    assert found.drop.regression == (lost > 0)
    assert ("judge" in found.drop.reason) == (decision == "inconclusive")
    plain = drops(None, "r" * 129, "c" * lost + "r" * (129 - lost))
    assert (found.interval, found.p) == (plain.interval, plain.p)
    assert drops(error, "r" * 129, "r" * 129, interval="prompts").judge_interval is None
    if error is not None and found.interval is not None:
        assert found.shown is not None
        half = sqrt((found.value - found.interval.low) ** 2 + error.between_models(0.95) ** 2)
        assert found.shown.low == pytest.approx(max(-1.0, found.value - half))


def facts(model: str, version: str = "1", known: JudgeError | None = ERROR) -> dict[str, Any]:
    suite = {"judges": ["j"], **({"judge_error": known._asdict()} if known else {})}
    judges = {"j": {"kind": "j", "version": version}}
    return {
        "model": {"identity": {"name": model}},
        "judges": judges,
        "suites": {"s": suite},
        "decisions": {"confidence": 0.95, "interval": "prompts_and_judge"},
    }


def test_the_error_between_two_models_is_of_one_judge_and_not_of_one_model():
    assert errors_between(facts("a"), facts("b")) == {"s": ERROR}
    assert errors_between(facts("a"), facts("a")) == {}
    assert errors_between(facts("a"), facts("b", version="2")) == {}
    assert errors_between(facts("a", known=None), facts("b", known=None)) == {}
    assert errors_between(facts("a"), None) == {}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger in place of the package's, with three models that a judge of kind j knows not."""
    path = tmp_path / "ledger.csv"
    write_ledger(path, [line("a", 0.02), line("b", -0.02), line("c", 0.0)])
    monkeypatch.setattr(unseen_models, "LEDGER", path)
    return path


@pytest.mark.parametrize(
    ("definition", "row", "known"),
    [
        ({}, {}, True),
        ({"validate": True, "redirection": "refusal"}, {"language": "en-GB"}, True),
        ({"redirection": "compliance"}, {}, False),
        ({"version": "2"}, {}, False),
        ({"kind": "llm"}, {}, False),
        ({}, {"language": "de"}, False),
    ],
)
def test_of_other_versions_settings_and_languages_nothing_is_known(ledger, definition, row, known):
    judges = {"mine": {"kind": "j", "version": "1", **definition}}
    found = known_errors(judges, [{"id": "1"}, {"id": "2", **row}])
    assert found.keys() == ({"mine"} if known else set())


def test_labels_of_the_run_take_the_place_of_what_other_models_show():
    alone = rate("harmful_refusal_rate", 60, 80)
    alone = replace(alone, counts=replace(alone.counts, excluded={"error": 20}))
    judged = with_judge_error(alone, ERROR, 0.95, refused=True)
    judged = decided(judged, Threshold("max", 0.9), 0.5)
    key = Key(HUMAN_LABELLED[HARMFUL_REFUSAL.name], group=Group("human_labels"))
    of_labels = Rate(key, Counts(None, 80), 0.95, Interval(0.92, 0.98))
    (found,) = with_labels([judged], [of_labels], 0.5)
    assert (found.value, found.shown, found.decision) == (0.75, (0.92, 0.98), "missed")
    assert found.with_judge is not None
    assert found.with_judge.outer == (pytest.approx(0.92 * 0.8), pytest.approx(0.98 * 0.8 + 0.2))
    blank = replace(of_labels, value=None, interval=None)
    assert with_labels([judged], [blank], 0.5) == [judged]


def test_the_report_says_what_intervals_hold_and_what_labels_would_make_of_them():
    from refract.report.view import View

    found = rate("harmful_refusal_rate", 60, 120)
    view = View({"m": [found]}, {"m": facts("m")})
    half = 100 * ERROR.half_width(0.95)
    assert (
        f"the share by j is +5.0 ± {half:.1f} points from people's (10 models)"
        in view.interval_note
    )
    said = [ERROR.with_labels(0.5, 120, labels, 0.95) for labels in (50, 120)]
    assert (
        f"50 labels ±{said[0]:.2f}, 120 labels ±{said[1]:.2f}".replace("0.", ".") in view.label_note
    )
    assert "not known" in View({"m": [found]}, {"m": facts("m", known=None)}).interval_note
    off = {**facts("m"), "decisions": {"interval": "prompts"}}
    assert View({"m": [found]}, {"m": off}).interval_note.endswith("alone (decisions.interval).")
    assert DecisionSettings().interval == "prompts_and_judge"


def test_labels_narrow_by_what_the_judge_is_right_in():
    # All answers labelled leave Wald's interval of people's rate; a judge that knows nothing saves none.
    right, blind = JudgeError(5, 0.0, 0.01, 0.0), JudgeError(5, 0.0, 0.01, 0.5)
    wald = 1.959964 * sqrt(0.25 / 100)
    for error in (right, blind):
        assert error.with_labels(0.5, 100, 100, 0.95) == pytest.approx(wald)
    assert blind.with_labels(0.5, 400, 100, 0.95) == pytest.approx(wald)
    assert right.with_labels(0.5, 400, 100, 0.95) == pytest.approx(wald / 2)
