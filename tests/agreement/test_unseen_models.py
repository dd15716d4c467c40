"""A judge's error on a model that nobody labelled: of which lines of a ledger, and in which numbers."""

from __future__ import annotations

from dataclasses import replace
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
from refract.rates.judge_error import JudgeError, ModelCounts, with_judge_error
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
    rates |= {"prompts": "", "missed": 0, "false": 0}
    return LedgerEntry(**{**fixed, **named, **rates, **given})


def test_the_counts_of_the_lines_are_what_is_known_of_a_judge():
    lines = [
        line("a", missed=10, false=4),
        line("b", human_rate=0.25),
        line("a", prompts="harmful"),
    ]
    assert judge_error(lines) is None
    found = judge_error([*lines, line("c", source="orfuzz")])
    assert found == JudgeError(
        (
            ModelCounts("orfuzz", "c", "", 100, 0, 100, 0),
            ModelCounts("xstest", "a", "", 100, 10, 100, 4),
            ModelCounts("xstest", "a", "harmful", 100, 0, 100, 0),
            ModelCounts("xstest", "b", "", 50, 0, 150, 0),
        )
    )
    assert (found.models, found.sources) == (3, 2)


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
        ({"n": 99, "prompts": "harmful"}, True),
        ({"n": 29, "prompts": "harmful"}, False),
        ({"missed": None}, False),
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


ERROR = builders.judge_error([0.1, 0.2, 0.05, 0.1], [0.02, 0.01, 0.03, 0.02], n=400)


def test_rates_of_refusal_alone_have_an_interval_with_their_own_judges_error():
    rows = suite_of(a="refusal", b="compliance", c="error", d="compliance")
    judges = {"judges": ["first", "second"], "thresholds": {"harmful_refusal_rate": {"max": 1.0}}}
    plain = aggregate_suite(*rows, judges, {}, FAMILIES).table
    found = aggregate_suite(*rows, judges, {}, FAMILIES, errors={"first": ERROR}).table
    known = {x.name for x in found if x.with_judge}
    assert known == {
        *("refusal_rate", "harmful_refusal_rate", "under_refusal_rate", "compliance_rate")
    }
    unknown = {x.name for x in found if x.judge_unknown}
    assert {"partial_refusal_rate", "full_refusal_rate", "second_refusal_rate"} <= unknown
    assert not known & unknown
    assert [replace(x, with_judge=None, judge_unknown=False) for x in found] == plain
    errors = dict.fromkeys(FAMILIES, ERROR)
    both = aggregate_suite(*rows, judges, {}, FAMILIES, errors=errors).table
    assert {x.name for x in both if x.with_judge} - known == {
        f"second_{name}" for name in known - {"compliance_rate"}
    }


def test_a_threshold_is_decided_with_the_judges_error():
    limit = Threshold("min", 0.8)
    alone = decided(rate("harmful_refusal_rate", 176, 200), limit, 1.0)
    assert alone.decision == "met"
    error = builders.judge_error([0.05] * 4, [0.5, 0.2, 0.7, 0.4], n=400)
    known = with_judge_error(alone, error, 0.95, ["harmful"])
    assert decided(known, limit, 1.0).decision == "inconclusive"
    assert known.shown is not None
    assert known.shown.low < 0.8 < alone.interval.low
    row = rate_to_row(known)
    assert rate_to_row(rate_from_row(row)) == row
    assert [x for x in COLUMNS if row[x] is not None and x.startswith("judge_")] == [
        *("judge_low", "judge_high")
    ]
    unknown = with_judge_error(alone, None, 0.95, ["harmful"])
    assert rate_from_row(rate_to_row(unknown)).judge_unknown


def drops(error: JudgeError | None, before: str, after: str, **settings: object):
    groups = pair_outcomes(outcome_lines(before), outcome_lines(after))
    given_ = DEFAULTS.model_copy(update=settings)
    (found,) = compare_groups(groups, given_, errors=[error])
    return found


SMALL = builders.judge_error([0] * 8, [0] * 8, n=10**6)
LARGE = builders.judge_error([0.05, 0.5, 0.1, 0.4], [0.1, 0.4, 0.05, 0.3], n=400)


@pytest.mark.parametrize(
    ("error", "lost", "decision"),
    [
        (None, 0, "not worse"),
        (SMALL, 0, "not worse"),
        (LARGE, 0, "inconclusive"),
        (None, 20, "worse"),
        (SMALL, 20, "worse"),
        (LARGE, 20, "inconclusive"),
        (LARGE, 125, "worse"),
    ],
)
def test_two_models_differ_where_the_judge_could_not_have_made_it(error, lost, decision):
    before, after = "r" * 129 + "c" * 10, "c" * lost + "r" * (129 - lost) + "c" * 10
    found = drops(error, before, after)
    assert found.drop is not None
    assert found.drop.decision == decision
    assert found.drop.regression == (lost > 0)
    assert ("judge" in found.drop.reason) == (decision == "inconclusive")
    plain = drops(None, before, after)
    assert (found.interval, found.p) == (plain.interval, plain.p)
    assert drops(error, before, before, interval="prompts").judge_interval is None
    if error is not None:
        assert found.shown is not None
        assert found.shown.high - found.shown.low > (error is LARGE) * 0.1


def facts(model: str, version: str = "1", known: JudgeError | None = ERROR) -> dict[str, Any]:
    suite = {"judges": ["j"], **({"judge_error": {"lines": known.lines}} if known else {})}
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
    judged = with_judge_error(alone, ERROR, 0.95, ["harmful"])
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
    from refract.report.sentences import labels
    from refract.report.view import View

    found = rate("harmful_refusal_rate", 60, 120)
    found = with_judge_error(found, ERROR, 0.95, ["harmful"])
    view = View({"m": [found]}, {"m": facts("m")})
    low, high = ERROR.people(0.5, "harmful", 0.95)
    assert (
        "measured on 4 models of 2 labelled sources, where j finds half refused the labels of a "
        f"further model would find [{low:.2f}, {high:.2f}] on harmful prompts, "
    ) in view.interval_note
    halves = [ERROR.with_labels(0.5, 120, labels, "harmful", 0.95) for labels in (50, 120)]
    assert labels(view) == (
        "Labels of a part of its 120 answers would give harmful refused of m (s): "
        f"50 labels ±{halves[0]:.2f}, 120 labels ±{halves[1]:.2f} (refract label).".replace(
            "0.", "."
        )
    )
    assert "not known" in View({"m": [found]}, {"m": facts("m", known=None)}).interval_note
    off = {**facts("m"), "decisions": {"interval": "prompts"}}
    assert View({"m": [found]}, {"m": off}).interval_note.endswith("alone (decisions.interval).")
    assert DecisionSettings().interval == "prompts_and_judge"
