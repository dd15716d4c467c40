"""Rates that outcomes do not add up to decide nothing, whatever hashes were written beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from refract.core.jsonl import sha256_file, sha256_json, write_json
from refract.rates.rate import Interval, Rate, WithJudge
from refract.results import recounted
from refract.results.recounted import _of_labels, problems_kept, recount_problems
from refract.results.sources import Result, read_tree
from tests.builders import ROOT, rate

Edit = Callable[[dict], object]
SUITE = "harmful_helpful"


def sealed(results: dict) -> None:
    """The results with the hashes that whoever edits them can write."""
    results["outcomes_sha256"] = sha256_file(Path("ok.outcomes.csv"))
    results["rows_sha256"] = sha256_file(Path("ok.rows.jsonl"))
    contents = {key: value for key, value in results.items() if key != "sha256"}
    write_json(Path("ok.json"), {**contents, "sha256": sha256_json(contents)})


def rates(value: object) -> Edit:
    def edit(results: dict) -> None:
        for row in results["tables"]:
            row["rate"] = value

    return edit


def turned(_: dict) -> None:
    path = Path("ok.outcomes.csv")
    path.write_text(path.read_text().replace("compliance", "refusal"))


EDITS = {
    "rates": rates(0.999),
    "rates that no share has": rates(7),
    "counts": lambda results: [row.update(n=-5) for row in results["tables"]],
    "no rates": lambda results: results.update(tables=[]),
    "a rate is gone": lambda results: results["tables"].pop(0),
    "outcomes": turned,
    "an interval": lambda results: results["tables"][0].update(low=0.001),
}
COMMANDS = [("compare", "ok.json", "ok.json"), ("export", "ok.json", "--out", "exported")]


@pytest.mark.parametrize("what", EDITS)
def test_an_edited_run_is_refused_though_its_hashes_are_right(cli, run_results, what):
    EDITS[what](run_results)
    sealed(run_results)
    for command in COMMANDS:
        done = cli(*command)
        assert (done.code, done.out) == (1, ""), command
        assert "ok.json is not what its outcomes add up to: s " in done.err


def test_a_run_as_it_was_written_is_read(cli, run_results):
    sealed(run_results)
    assert [cli(*command).code for command in COMMANDS] == [0, 0]


@pytest.fixture(scope="module")
def in_git() -> dict[str, Result]:
    return read_tree(ROOT)


def test_the_results_in_git_are_what_their_outcomes_add_up_to(in_git):
    problems = {
        model: recount_problems(result.rates, result.outcomes, result.provenance)
        for model, result in in_git.items()
    }
    assert problems == {model: [] for model in in_git}


EDITED = [
    ("harmful_refusal_rate", {"value": 0.5}, "rate is 0.5, counted again "),
    ("discrimination", {"outer": Interval(0.9, 1.0)}, "outer_low is 0.9, counted again "),
    ("over_refusal_rate", {"decision": "missed"}, "decision is missed, counted again met"),
    ("over_refusal_rate", {"threshold": None}, "threshold_kind is None, counted again max"),
    ("borderline_refusal_rate", {"with_judge": None}, "judge_low is None, counted again "),
]


@pytest.fixture(scope="module")
def rates_in_git(in_git) -> list[Rate]:
    return [rate for rate in in_git["synthetic"].rates if rate.suite == SUITE]


@pytest.fixture(scope="module")
def problems_of(in_git) -> Callable[[list[Rate]], list[str]]:
    """Where these rates of one suite in git are not what its outcomes add up to."""
    result = in_git["synthetic"]
    suites = {SUITE: result.provenance["suites"][SUITE]}
    provenance = {**result.provenance, "suites": suites}
    return lambda rates: recount_problems(rates, result.outcomes, provenance)


@pytest.mark.parametrize(("name", "change", "problem"), EDITED)
def test_each_number_that_a_decision_rests_on_is_counted_again(
    name, change, problem, rates_in_git, problems_of
):
    edited = [
        replace(rate, **change) if rate.name == name and not rate.group else rate
        for rate in rates_in_git
    ]
    assert sum(rate not in rates_in_git for rate in edited) == 1
    problems = problems_of(edited)
    assert f" {name}: {problem}" in problems[0], problems


def test_two_rates_of_one_name_are_named(rates_in_git, problems_of):
    repeated = [*rates_in_git, rates_in_git[0]]
    assert problems_of(repeated) == [f"{SUITE} two rates have one name"]


def test_files_are_counted_again_until_they_once_had_no_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path))
    counted = []

    def counting(rates, outcomes, facts):
        counted.append(outcomes)
        return ["s is wrong"] if outcomes == ["edited"] else []

    monkeypatch.setattr(recounted, "recount_problems", counting)
    files = {"right": [b"table", b"outcomes", None], "edited": [b"table", b"edited", None]}
    problems = [problems_kept(files[name], [], [name], {}) for name in ("right", "edited") * 2]
    assert problems == [[], ["s is wrong"], [], ["s is wrong"]]
    assert counted == [["right"], ["edited"], ["edited"]]


def test_what_labels_gave_is_taken_as_stated_of_refusal_rates_and_within_these_of_contrasts():
    def stated(contrast: Interval, value: float | None = 0.5) -> dict[str, Interval]:
        ends = {
            "harmful_refusal_rate": Interval(0.5, 0.75),
            "over_refusal_rate": Interval(0.0, 0.25),
        }
        ends |= {"discrimination": contrast, "under_refusal_rate": Interval(0.0, 0.01)}
        of_labels = rate(
            "prediction_powered_harmful_refusal_rate", 1, 2, "human_labels=", value=value
        )
        found = [rate(name, 1, 2, with_judge=WithJudge(each)) for name, each in ends.items()]
        return _of_labels([of_labels, *found])

    harmful = {"harmful_refusal_rate": Interval(0.5, 0.75)}
    assert stated(Interval(0.25, 0.75)) == {**harmful, "discrimination": Interval(0.25, 0.75)}
    assert stated(Interval(0.9, 1.0)) == stated(Interval(0.24, 0.75)) == harmful
    assert stated(Interval(0.25, 0.75), value=None) == {}  # of labels that cannot be used
