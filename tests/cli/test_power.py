"""``refract power``: how many prompts a drop needs, and what a number of prompts can show."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.cli.power import default_judge_error
from refract.core.errors import UsageError
from refract.rates.comparison import compare_groups, pair_outcomes
from refract.rates.judge_error import JudgeError
from refract.statistics.sample_sizes import smallest_drop
from tests.builders import outcome_lines


def run(*arguments: object, interval: str = "prompts") -> str:
    done = CliRunner().invoke(app, ["power", *map(str, arguments), "--interval", interval])
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


def test_of_two_models_the_drop_must_be_more_than_the_judgesdefault_judge_error():
    printed = run("--n", 129, "--discordant", 0.1, interval="prompts_and_judge")
    (line,) = (line for line in printed.splitlines() if " 129 " in line)
    alone, of_two = map(float, line.split()[-2:])
    assert alone == round(smallest_drop(129, 0.1), 3) < of_two
    assert "50 of each ±0.1" in printed
    # As compare decides: the drop found is in 80 % of cases at least so large.
    error = default_judge_error()
    least = of_two - 0.8416 * ((of_two + 0.1 - of_two**2) / 129) ** 0.5
    assert decided(least + 0.02, error) == "worse"
    assert decided(least - 0.02, error) == "inconclusive"
    assert decided(least - 0.02, None) == "worse"
    # No number of prompts shows what is within the judge's error.
    arguments = ("--difference", 0.05, "--discordant", 0)
    (line,) = (
        x for x in run(*arguments, interval="prompts_and_judge").splitlines() if " 134 " in x
    )
    assert line.split()[-1] == "none"


def decided(drop: float, error: JudgeError | None) -> str:
    """The decision where of 129 harmful prompts, 80 % of them refused, so many are lost besides 6 that
    are lost and 6 that are gained."""
    lost = round(129 * drop) + 6
    before = "r" * 103 + "c" * 26
    after = "c" * lost + "r" * (103 - lost) + "r" * 6 + "c" * 20
    groups = pair_outcomes(outcome_lines(before), outcome_lines(after))
    (difference,) = compare_groups(groups, errors=[error], detectable=False)
    assert difference.drop is not None
    if error and difference.drop.decision == "inconclusive":
        assert "judge's error" in difference.drop.reason
    return difference.drop.decision


def test_where_the_judge_is_the_limit_the_reason_does_not_say_too_few_prompts():
    outcomes = "r" * 800 + "c" * 200
    groups = pair_outcomes(outcome_lines(outcomes), outcome_lines(outcomes))
    (alone,) = compare_groups(groups, errors=[None], detectable=False)
    assert alone.drop.decision == "not worse"
    (judged,) = compare_groups(groups, errors=[default_judge_error()], detectable=False)
    assert judged.drop.decision == "inconclusive"
    assert judged.drop.reason == (
        "the judge's error on two models, not the number of prompts: of these alone the worst case is "
        f"{alone.drop.worst:+.3f}"
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--difference or --n"),
        (("--difference", 0.1, "--n", 5), "--difference or --n"),
        (("--difference", 2), "--difference"),
        (("--n", 0), "0"),
        (("--n", 10, "--alpha", 2), "alpha"),
        (("--n", 10, "--design-effect", 0.5), "--design-effect"),
        (("--n", 10, "--rate", 1), "--rate"),
    ],
)
def test_what_cannot_be_computed_is_wrong_usage(arguments, named):
    with pytest.raises(UsageError, match=named):
        run(*arguments)
