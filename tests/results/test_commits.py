"""Rates over the commits of a branch, as git alone has them."""

from __future__ import annotations

import json
import os
import subprocess
from html import escape
from pathlib import Path

import pytest

from refract.core.decimals import estimate_text
from refract.core.jsonl import write_json
from refract.rates.rate import Interval
from refract.results.table_rows import write_rates
from refract.statistics.paired import tango
from tests.builders import outcome_lines, rate, suite_facts, write_outcomes

IDENTITY = {"model_id": "first"}
JUDGES = {"rules": {"kind": "rules", "version": "1"}}


def git(*arguments: str, day: int = 1) -> str:
    when = f"2026-01-{day:02d}T12:00:00Z"
    names = {"GIT_AUTHOR_NAME": "T", "GIT_AUTHOR_EMAIL": "t@localhost", "GIT_AUTHOR_DATE": when}
    names |= {"GIT_COMMITTER_NAME": "T", "GIT_COMMITTER_EMAIL": "t@localhost"}
    env = {**os.environ, **names, "GIT_COMMITTER_DATE": when}
    done = subprocess.run(["git", *arguments], env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(day: int, refused: int, identity: dict, judges: dict, models: str = "one") -> str:
    """Commits results of one model on 20 harmful prompts, of which so many were refused."""
    Path("params.yaml").write_text(f"grid: {{models: [{models}], suites: [s]}}\n# {day}\n")
    interval = Interval(refused / 40, refused / 20)
    write_rates(
        Path(f"metrics/tables/{models}.csv"),
        [rate("harmful_refusal_rate", refused, 20, interval=interval)],
    )
    outcomes = outcome_lines("r" * refused + "c" * (20 - refused))
    write_outcomes(Path(f"metrics/outcomes/{models}.csv"), outcomes)
    facts = {
        "model": {"identity": identity, "definition": {"adapter": "hf"}, "seed": None},
        "judges": judges,
        "suites": {"s": suite_facts(prompts_sha256="cd" * 32)},
    }
    write_json(Path(f"metrics/provenance/{models}.json"), facts)
    code = {"code": {"refract": "0.1.0", "sha256": "ef" * 32}}
    write_json(Path(f"metrics/ran/{models}.json"), {"judged": code, "day": day})
    git("add", ".")
    git("commit", "--quiet", "--message", str(day), day=day)
    return git("rev-parse", "HEAD")


@pytest.fixture
def commits(tmp_path, monkeypatch) -> list[str]:
    """Six commits: the first numbers, the same again, another model, a table of an older
    schema, another judge, and the model gone from the grid."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    other = {"model_id": "second"}
    made = [commit(1, 10, IDENTITY, JUDGES), commit(2, 10, IDENTITY, JUDGES)]
    made.append(commit(3, 15, other, JUDGES))
    table = Path("metrics/tables/one.csv")
    table.write_text(table.read_text().replace(",judge,", ",rater,"))
    git("commit", "--quiet", "--all", "--message", "older", day=4)
    made.append(git("rev-parse", "HEAD"))
    made.append(commit(5, 14, other, {"rules": {"kind": "rules", "version": "2"}}))
    made.append(commit(6, 3, other, JUDGES, models="two"))
    return made


def test_a_line_stands_for_each_commit_that_moved_the_rate_with_what_changed(cli, commits):
    done = cli("history", "--model", "one", "--format", "json", "--page", "h.html")
    report = json.loads(done.out)
    lines = []
    for change in report["changes"]:
        paired = change["difference"]
        difference = paired and (paired["n"], paired["difference"], paired["low"] > 0)
        numbers = [change[name] for name in ("date", "rate", "low", "high", "n")]
        lines.append((change["commit"], *numbers, change["causes"], difference))
    model = {"model": ['model_id: "first" → "second"']}
    judge = {"judge": ['version: "1" → "2"']}
    assert lines == [
        (commits[0], "2026-01-01", 0.5, 0.25, 0.5, 20, {}, None),
        (commits[2], "2026-01-03", 0.75, 0.375, 0.75, 20, model, (20, 0.25, True)),
        (commits[4], "2026-01-05", 0.7, 0.35, 0.7, 20, judge, (20, -0.05, False)),
        (commits[5], "2026-01-06", None, None, None, None, {}, None),
    ]
    (sentence,) = report["skipped"]
    assert sentence.startswith(f"skipped 1 of 6 commits ({commits[3][:9]}): the results of one in")
    page = Path("h.html").read_text("utf-8")
    assert [commits[2][:9] in page, "<svg" in page, escape(sentence) in page] == [True, True, True]


def test_the_table_is_of_the_range_and_the_measures_named(cli, commits):
    done = cli("history", "harmful_refusal_rate", "--rev", f"{commits[0]}..HEAD~3", "--last", 2)
    first, second = commits[1][:9], commits[2][:9]
    # Of the ten that were not refused, five are.
    paired = tango(10, 5, 0, 5)
    change = estimate_text(0.25, Interval(paired.low, paired.high), "+").split()
    assert [line.split() for line in done.out.splitlines()] == [
        ["one,", "s:", "harmful_refusal_rate"],
        ["commit", "date", "rate", "change", "what", "changed"],
        [first, "2026-01-02", "0.500", "[0.250,", "0.500]", "—", "first"],
        [second, "2026-01-03", "0.750", "[0.375,", "0.750]", *change, "model"],
        [],
    ]  # fmt: skip


def test_what_git_does_not_have_is_said(cli, commits):
    assert "not a git revision or range" in cli("history", "--rev", "nope").err
    done = cli("history", "typos_fail_rate", "--last", "1")
    assert (done.code, done.err) == (
        2,
        "refract: none of 1 commits that can be read has such a measure, model or suite\n",
    )
