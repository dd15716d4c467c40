"""A comparison decides: worse, not worse than a margin, or inconclusive; nothing else passes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

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


def compared(
    cli, a: list[dict[str, str]], b: list[dict[str, str]], *options: str
) -> SimpleNamespace:
    """What ``refract compare`` says of two sides."""
    sides = [write_outcomes(Path(f"{name}.csv"), lines) for name, lines in (("a", a), ("b", b))]
    return cli("compare", *sides, *options)


@pytest.mark.parametrize(
    ("after", "regression", "inconclusive"),
    [
        (BEFORE, 0, 0),
        ("ccc" + BEFORE[3:], 0, 1),
        ("r" * 60 + "e" * 69, 1, 1),
    ],
)
def test_the_exit_code_is_never_0_because_answers_vanished(after, regression, inconclusive, cli):
    sides = outcome_lines(BEFORE), outcome_lines(after)
    assert compared(cli, *sides).code == 0
    for fail_on, code in (("regression", regression), ("inconclusive", inconclusive)):
        done = compared(cli, *sides, "--fail-on", fail_on)
        assert done.code == code, done.err
        assert bool(done.err) == bool(code)


@pytest.mark.parametrize(
    ("left", "code", "reason"),
    [
        (lambda rows: [row for row in rows if row["category"] != "harmful"], 1, "0 of A's 40"),
        (lambda rows: rows[38:], 1, "2 of A's 40 prompts with the same text and category (5%)"),
        (lambda rows: rows[20:], 0, ""),  # half of them decide
        (lambda rows: [{**row, "prompt_sha256": "x"} for row in rows[:30]] + rows[30:], 1, "10 of"),
        (lambda rows: [row for row in rows if row["suite"] != "t"], 1, "t harmful"),
    ],
)
def test_a_primary_measure_that_lost_its_prompts_does_not_pass(left, code, reason, cli):
    rows = outcome_lines("r" * 40)
    for row in outcome_lines("c" * 40, category="helpful"):
        rows.append(row | {name: f"h{row[name]}" for name in ("prompt_id", "source_id")})
    for row in outcome_lines("r" * 40, suite="t"):
        rows.append(row | {"prompt_sha256": row["prompt_id"]})
    # Pairs that are left are all as before: nothing is worse.
    Path("params.yaml").write_text("decisions: {margin: 0.3}\n", "utf-8")
    assert compared(cli, rows, left(rows)).code == 0
    done = compared(cli, rows, left(rows), "--fail-on", "regression")
    assert (done.code, reason in done.err) == (code, True), done.err


def test_nothing_that_is_decided_does_not_pass(cli):
    lines = outcome_lines("rrr", perturbation="noise")
    done = compared(cli, lines, lines, "--fail-on", "regression")
    assert done.code == 1
    assert "no primary measure" in done.err
