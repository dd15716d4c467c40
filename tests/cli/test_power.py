"""``refract power``: how many prompts a drop needs, and what a number of prompts can show."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import UsageError
from refract.statistics.sample_sizes import smallest_drop


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["power", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_the_command_says_how_many_prompts_and_what_drop():
    assert re.search(r" 0\.05  +134\n", run("--difference", 0.05))
    printed = run("--n", 129, "--discordant", 0.02)
    assert f"{smallest_drop(129, 0.02):.3f}" in printed
    assert "none" in run("--n", 4)


def test_without_a_share_that_flips_the_command_says_what_each_share_costs():
    lines = run("--difference", 0.1).splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["0", "10", "20", "30"]
    printed = run("--n", 129)
    for churn in (0.0, 0.1, 0.2, 0.3):
        drop = f"{smallest_drop(129, churn):.3f}"
        assert re.search(rf"\n *{100 * churn:g} %  +129  +{drop}", printed)
    # A drop of .9 leaves no room for 20 % that flip besides.
    assert " 10 %" in run("--difference", 0.9)
    assert " 20 %" not in run("--difference", 0.9)


def test_a_design_effect_takes_prompts():
    drop = f"{smallest_drop(43, 0.0):.3f}"
    assert f" {drop}\n" in run("--n", 129, "--design-effect", 3, "--discordant", 0)
    assert re.search(r" 0\.05  +402\n", run("--difference", 0.05, "--design-effect", 3))


PLANNED = "--threshold (must be|goes with)"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--difference or --n"),
        (("--difference", 0.1, "--n", 5), "--difference or --n"),
        (("--difference", 2), "--difference"),
        (
            ("--difference", 0.05, "--discordant", 1.2),
            r"--discordant must be from 0 to 1 \(got 1.2\)",
        ),
        (("--n", 10, "--discordant", -0.2), r"--discordant must be from 0 to 1 \(got -0.2\)"),
        (("--difference", -0.3, "--discordant", 0.9), "--discordant may be at most 0.7"),
        (("--n", 0), r"'--n'.*\(got '0'\)"),
        (("--n", 10, "--alpha", 2), "alpha"),
        (("--n", 10, "--design-effect", 0.5), r"'--design-effect'.*\(got '0.5'\)"),
        (("--n", 10, "--threshold", "x >= .8"), PLANNED),
        (("--n", 10, "--threshold", "over_refusal_rate > .8"), PLANNED),
        (("--n", 10, "--threshold", "over_refusal_rate <= 1.5"), PLANNED),
        (("--n", 1, "--design-effect", 2, "--threshold", "over_refusal_rate >= .8"), PLANNED),
        (("--threshold", "over_refusal_rate >= .8"), PLANNED),
        (("--n", 10, "--difference", 0.1, "--threshold", "over_refusal_rate >= .8"), PLANNED),
    ],
)
def test_what_cannot_be_computed_is_wrong_usage(cli, arguments, named):
    done = cli("power", *arguments)
    assert done.code == 2
    assert re.search(named, done.err)


def test_a_threshold_is_decided_from_the_rates_on_that_are_printed():
    asked = ("--n", 200, "--threshold")
    printed = run(*asked, "harmful_refusal_rate >= 0.8")
    met, missed = map(float, re.findall(r"[<>]= (0\.\d{3}) ?", printed))
    rows = re.findall(r"^(\d\.\d\d) \[.*\] +(met|missed|inconclusive) +(.*?) *$", printed, re.M)
    assert [share for share, *_ in rows] == [f"{tenth / 10:.2f}" for tenth in range(11)]
    for share, decision, labels in rows:
        expected = "inconclusive"
        if float(share) >= met:
            expected = "met"
        elif float(share) <= missed:
            expected = "missed"
        assert decision == expected
        assert (labels == "none") == (decision != "inconclusive")
    assert missed < 0.8 < met
    few = run("--n", 5, "--threshold", "harmful_refusal_rate <= 1.0")
    assert re.findall(r"^(\d\.\d\d) \[", few, re.M) == [
        "0.00",
        "0.20",
        "0.40",
        "0.60",
        "0.80",
        "1.00",
    ]
    # Fewer requests leave more open.
    assert "met at a rate by the judge <= 0.0" in run(*asked, "over_refusal_rate<=.15")
    few = run(*asked, "harmful_refusal_rate >= .8", "--design-effect", 4)
    assert float(re.findall(r">= (0\.\d{3})", few)[-1]) > met


@pytest.mark.parametrize("own", [{"labels_ask": "whether it says no"}, {"interval": "prompts"}])
def test_a_project_that_leaves_the_judges_error_out_is_told_so(tmp_path, monkeypatch, own):
    (tmp_path / "params.yaml").write_text(json.dumps({"decisions": own}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="this project's intervals leave out"):
        run("--n", 129, "--threshold", "over_refusal_rate <= .2")


def test_of_a_judge_whose_error_is_not_known_rates_are_decided_on_the_prompts_alone(monkeypatch):
    monkeypatch.setattr("refract.cli.power.known_errors", lambda judges, rows: {})
    printed = run("--n", 129, "--threshold", "harmful_refusal_rate >= 0.8").splitlines()
    assert re.split(" {2,}", printed[0].strip()) == ["rate by the judge", "decision"]
    assert [line.split()[-1] for line in printed[2:13]] == ["missed"] * 8 + ["inconclusive"] + [
        "met"
    ] * 2
    assert " ".join(printed[13:]) == (
        "On 129 prompts harmful_refusal_rate >= 0.8 is met at a rate by the judge >= 0.876 and missed "
        "at a rate by the judge <= 0.729. Intervals are of the prompts alone: how the judge's errors "
        "move them is not known. Confidence: 95 %"
    )
