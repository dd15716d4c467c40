"""A judge's error on a model that nobody labelled: of which lines of a ledger, and in which numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refract.agreement import unseen_models
from refract.agreement.ledger import ALL, ANY, LedgerEntry, write_ledger
from refract.agreement.unseen_models import counting_lines, judge_error, known_errors
from refract.rates import aggregate_suite
from refract.rates.judge_error import JudgeError, ModelCounts
from refract.rates.rate import Rate
from refract.results.sources import errors_between
from refract.statistics.proportions import wilson
from tests import builders
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
    assert (found.models, found.measured_on("harmful"), found.measured_on("")) == (
        3,
        (1, 1),
        (3, 2),
    )


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
        ({"validate": True}, {"language": "en-GB"}, True),
        ({"setting": "other"}, {}, False),
        ({"version": "2"}, {}, False),
        ({"kind": "llm"}, {}, False),
        ({}, {"language": "de"}, False),
    ],
)
def test_of_other_versions_settings_and_languages_nothing_is_known(ledger, definition, row, known):
    judges = {"mine": {"kind": "j", "version": "1", **definition}}
    found = known_errors(judges, [{"id": "1"}, {"id": "2", **row}])
    assert found.keys() == ({"mine"} if known else set())
