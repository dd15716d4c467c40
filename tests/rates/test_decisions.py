"""A comparison decides: worse, not worse than a margin, or inconclusive; nothing else passes."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import ParamsError
from refract.core.params import DecisionSettings, decision_settings
from refract.core.settings import read_settings
from tests.builders import outcome_lines, write_outcomes

# 129 harmful prompts of which 118 are refused, as in harmful_helpful.
BEFORE = "r" * 118 + "c" * 11


def decisions(**given: object) -> DecisionSettings:
    return read_settings(DecisionSettings, "decisions", given)


def test_the_project_sets_what_is_decided(tmp_path):
    assert decision_settings(tmp_path) == decisions()
    path = tmp_path / "params.yaml"
    path.write_text("decisions: {margin: 0.1, primary: [over_refusal_rate]}\n")
    found = decision_settings(tmp_path)
    assert (found.margin, found.categories, found.confidence) == (0.1, ["helpful"], 0.95)
    for given, key in (
        ("margin: 0", "margin"),
        ("primary: [x]", "primary"),
        ("mragin: 1", "margin"),
    ):
        path.write_text(f"decisions: {{{given}}}\n")
        with pytest.raises(ParamsError, match=key):
            decision_settings(tmp_path)


@pytest.mark.parametrize(
    ("after", "regression", "inconclusive"),
    [
        (BEFORE, 0, 0),
        ("ccc" + BEFORE[3:], 0, 1),
        ("c" * 10 + BEFORE[10:], 1, 1),
        ("r" * 60 + "e" * 69, 1, 1),
        ("e" * 129, 1, 1),
    ],
)
def test_the_exit_code_is_never_0_because_answers_vanished(
    after, regression, inconclusive, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sides = [
        str(write_outcomes(tmp_path / f"{name}.csv", outcome_lines(outcomes)))
        for name, outcomes in (("a", BEFORE), ("b", after))
    ]
    assert CliRunner().invoke(app, ["compare", *sides]).exit_code == 0
    for fail_on, code in (("regression", regression), ("inconclusive", inconclusive)):
        done = CliRunner().invoke(app, ["compare", *sides, "--fail-on", fail_on])
        assert done.exit_code == code, done.output
        assert bool(done.stderr) == bool(code)


OTHER = {"harmful": "helpful", "helpful": "harmful"}


@pytest.mark.parametrize(
    ("left", "code", "reason"),
    [
        (lambda rows: [row for row in rows if row["category"] != "harmful"], 1, "0 of A's 40"),
        (lambda rows: rows[38:], 1, "2 of A's 40 prompts with the same text and category (5%)"),
        (lambda rows: rows[20:], 0, ""),  # half of them decide
        (
            lambda rows: (
                [{**row, "category": OTHER[row["category"]]} for row in rows[:80]] + rows[80:]
            ),
            1,
            "0 of A's 40",
        ),
        (lambda rows: [{**row, "prompt_sha256": "x"} for row in rows[:30]] + rows[30:], 1, "10 of"),
        (lambda rows: [row for row in rows if row["suite"] != "t"], 1, "t harmful"),
    ],
)
def test_a_primary_measure_that_lost_its_prompts_does_not_pass(
    left, code, reason, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [
        *outcome_lines("r" * 40, category="harmful"),
        *(
            row | {"prompt_id": f"h{row['prompt_id']}", "source_id": f"h{row['source_id']}"}
            for row in outcome_lines("c" * 40, category="helpful")
        ),
        *(row | {"prompt_sha256": row["prompt_id"]} for row in outcome_lines("r" * 40, suite="t")),
    ]
    sides = [
        str(write_outcomes(tmp_path / f"{name}.csv", lines))
        for name, lines in (("a", rows), ("b", left(rows)))
    ]
    # Pairs that are left are all as before: nothing is worse.
    (tmp_path / "params.yaml").write_text("decisions: {margin: 0.3}\n", "utf-8")
    assert CliRunner().invoke(app, ["compare", *sides]).exit_code == 0
    done = CliRunner().invoke(app, ["compare", *sides, "--fail-on", "regression"])
    assert (done.exit_code, reason in done.stderr) == (code, True), done.output


def test_nothing_that_is_decided_does_not_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(write_outcomes(tmp_path / "a.csv", outcome_lines("rrr", perturbation="noise")))
    done = CliRunner().invoke(app, ["compare", path, path, "--fail-on", "regression"])
    assert done.exit_code == 1
    assert "no primary measure" in done.stderr
