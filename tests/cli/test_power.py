"""``refract power``: how many prompts a drop needs, and what a number of prompts can show."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import UsageError
from refract.statistics.sample_sizes import drop_power, drop_sample_size, smallest_drop


def test_the_power_of_one_way_losses_is_that_of_five():
    # At .05 five losses without a gain are shown (1/32), four are not (1/16).
    from scipy.stats import binom

    for n, drop in ((20, 0.3), (129, 0.05)):
        assert drop_power(n, drop, 0.0) == pytest.approx(binom.sf(4, n, drop))
    assert smallest_drop(4) is None
    assert drop_power(20, 0.0, 0.0) == 0.0


def test_the_size_without_a_drop_is_at_most_alpha():
    for n, churn in ((30, 0.2), (129, 0.1), (129, 0.5)):
        for alpha in (0.05, 0.01):
            assert drop_power(n, 0.0, churn, alpha) <= alpha


def test_prompts_for_a_drop_and_the_drop_of_as_many_prompts_agree():
    for drop, churn in ((0.05, 0.0), (0.1, 0.1), (0.03, 0.02)):
        n = drop_sample_size(drop, churn)
        assert drop_power(n, drop, churn) >= 0.8
        assert drop_power(n - 1, drop, churn) < 0.8
        assert smallest_drop(n, churn) <= drop


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


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--difference or --n"),
        (("--difference", 0.1, "--n", 5), "--difference or --n"),
        (("--difference", 2), "--difference"),
        (("--n", 0), "0"),
        (("--n", 10, "--alpha", 2), "alpha"),
        (("--n", 10, "--design-effect", 0.5), "--design-effect"),
    ],
)
def test_what_cannot_be_computed_is_wrong_usage(arguments, named):
    with pytest.raises(UsageError, match=named):
        run(*arguments)
