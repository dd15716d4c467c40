"""The page says at which commit it stands and what moved since the numbers before."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import RowError
from refract.core.jsonl import write_rows
from refract.core.tables import read_table, write_table
from refract.rates.rate import Difference
from refract.report.moves import (
    SHOWN,
    Commit,
    Moves,
    biggest_moves,
    commit_now,
    moves_in_words,
)
from refract.report.report_files import PAGE
from stages.report import main as report
from tests.builders import Project, suite_rows
from tests.results.test_compare import NO, YES, compute

HARMFUL = 12


def answers(project: Project, refused: int) -> None:
    write_rows(
        project.folder / "data/recorded/answers.jsonl",
        [
            {"id": f"{suite}-{n:02d}", "response": NO if n < refused else YES}
            for suite in ("alpha", "beta")
            for n in range(HARMFUL + 2)
        ],
    )


@pytest.fixture(scope="module")
def committed(tmp_path_factory) -> Project:
    """One model and one suite, computed and committed."""
    project = Project.create(
        tmp_path_factory.mktemp("moves") / "project",
        {"one": {"adapter": "recorded", "path": "data/recorded/answers.jsonl"}},
        {"alpha": suite_rows("alpha", HARMFUL, 2)},
    )
    answers(project, 12)
    compute(project)
    project.commit("first numbers \u202e")
    return project


@pytest.fixture
def project(committed, tmp_path) -> Project:
    return committed.copy(tmp_path / "project")


def head(project: Project) -> str:
    return project.command("git", "rev-parse", "HEAD").strip()[:9]


def write_report(project: Project) -> str:
    with contextlib.chdir(project.folder):
        report()
        return PAGE.read_text("utf-8")


def test_the_first_numbers_have_nothing_to_be_compared_with(project):
    assert biggest_moves(project.folder) == Moves(
        None, [], 0, [], "No earlier commit has other numbers."
    )
    commit, changed = commit_now(project.folder)
    assert (commit.sha, commit.subject, changed) == (
        head(project),
        "first numbers \\u202e",
        False,
    )


def test_moves_are_against_the_last_other_numbers_before_and_after_they_are_committed(project):
    first = head(project)
    answers(project, 4)
    compute(project)
    before = biggest_moves(project.folder)
    assert before.against.sha == first
    (row,) = before.rows
    assert (row.suite, row.category, row.n) == ("alpha", "harmful", 12)
    assert (row.first, row.second, len(row.prompts["to_compliance"])) == (1.0, 4 / 12, 8)
    # Of the model's two comparisons, one did not move.
    assert (before.compared, before.reason) == (2, "")
    # The recorded answers are the model: it is said to be another.
    assert [note.split(":")[:2] for note in before.notes] == [["one", " the models differ"]]
    assert commit_now(project.folder)[1] is True

    project.commit("other numbers")
    assert biggest_moves(project.folder) == before
    assert commit_now(project.folder)[1] is False
    # A commit that moves no number moves nothing here either.
    (project.folder / "NOTES.md").write_text("x")
    project.commit("notes")
    assert biggest_moves(project.folder) == before
    assert commit_now(project.folder)[0].subject == "notes"


def test_models_and_suites_that_came_or_left_are_named(project):
    params = project.params()
    params["models"]["two"] = {"adapter": "synthetic"}
    params["grid"]["models"] = ["one", "two"]
    params["suites"]["beta"] = {"file": "data/suites/beta.jsonl", "judges": ["rules"]}
    params["grid"]["suites"] = ["alpha", "beta"]
    write_rows(project.folder / "data/suites/beta.jsonl", suite_rows("beta", 2, 1))
    rows = suite_rows("alpha", HARMFUL, 2)
    rows[0]["prompt"] = "alpha: in other words"
    write_rows(project.folder / "data/suites/alpha.jsonl", [*rows[:-1], *suite_rows("gamma", 1, 0)])
    project.set_params(params)
    answers(project, 12)
    compute(project)
    moves = biggest_moves(project.folder)
    assert moves.reason.startswith(
        "No share of refusals moved; other numbers did, by rows of metrics/tables: "
    )
    notes = [note for note in moves.notes if "file differs" not in note]
    assert notes == [
        "only in these results: two",
        "alpha: prompts without a partner: 1 gone, 1 new, 1 reworded",
        "beta: prompts without a partner: 3 new",
    ]


def test_where_no_share_of_refusals_moved_the_other_numbers_that_did_are_named(project):
    table = project.folder / "metrics/tables/one.csv"
    rows = read_table(table)
    (row,) = (row for row in rows if row["measure"] == "over_refusal_rate" and not row["field"])
    write_table(table, list(row), [one | {"low": "0.9"} if one is row else one for one in rows])
    assert biggest_moves(project.folder).reason == (
        "No share of refusals moved; other numbers did, by rows of metrics/tables: "
        "over_refusal_rate (1)."
    )
    write_table(table, [*row, "more"], [one | {"more": "1"} for one in rows])
    assert biggest_moves(project.folder).reason == (
        "No share of refusals moved; nor did another rate or interval; these files differ "
        "otherwise: metrics/tables/one.csv."
    )


def test_another_model_judged_otherwise_is_not_compared(project):
    answers(project, 4)
    params = project.params()
    params["suites"]["alpha"]["cut_off"] = "excluded"
    project.set_params(params)
    compute(project)
    moves = biggest_moves(project.folder)
    assert moves.rows == []
    assert moves.reason.startswith(
        "No comparison: nothing to compare: one on alpha: both the models"
    )


def test_at_most_a_handful_is_shown_the_best_shown_first(project):
    params = project.params()
    params["grid"]["models"] = models = [f"m{n}" for n in range(SHOWN + 3)]
    params["models"] = {m: {"adapter": "synthetic", "refusal_rate": 0.9} for m in models}
    project.set_params(params)
    compute(project)
    project.commit("many models")
    for number, model in enumerate(models):
        params["models"][model]["refusal_rate"] = 0.9 - 0.08 * number
    project.set_params(params)
    compute(project)
    rows = biggest_moves(project.folder).rows
    assert len(rows) == SHOWN
    order = [row.p_adjusted for row in rows]
    assert order == sorted(order)
    assert all(row.value for row in rows)
    # Twelve harmful prompts say more than two helpful ones, which can all change by chance.
    assert {row.category for row in rows[:4]} == {"harmful"}


def test_without_git_or_without_history_a_sentence_says_so(committed, tmp_path, monkeypatch):
    url = committed.folder.as_uri()
    committed.command("git", "clone", "--quiet", "--depth", "1", url, str(tmp_path / "shallow"))
    assert biggest_moves(tmp_path / "shallow").reason.startswith("This clone is shallow")
    monkeypatch.setenv("PATH", "")
    assert biggest_moves(committed.folder).reason == (
        "There is no git history here to compare with."
    )
    assert commit_now(committed.folder) is None


def test_earlier_numbers_of_another_form_are_no_traceback(project):
    table = project.folder / "metrics/outcomes/one.csv"
    numbers = table.read_bytes()
    table.write_text("suite,prompt\nalpha,1\n")
    project.commit("a form of long ago")
    table.write_bytes(numbers)
    moves = biggest_moves(project.folder)
    assert moves.against.sha == head(project)
    assert moves.reason.startswith("No comparison: metrics/outcomes/one.csv of commit ")


def test_the_page_shows_them_and_is_the_same_bytes_for_the_same_tree_and_history(
    project, monkeypatch
):
    first = head(project)
    answers(project, 4)
    compute(project)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    page = write_report(project)
    assert f"Made at commit <code>{first}</code> of 20" in page
    assert ", with changes that are not committed." in page
    assert "1.000 → 0.333" in page
    assert f"<code>{first}</code> of 20" in page
    assert "“first numbers \\u202e”.</p>" in page
    assert f"refract compare {first}" in page
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert write_report(project) == page
    (project.folder / PAGE).unlink()
    monkeypatch.chdir(project.folder)
    done = CliRunner().invoke(app, ["page"])
    assert (done.exit_code, done.stdout) == (0, f"page: {project.folder / PAGE}\n")
    assert (project.folder / PAGE).read_text("utf-8") == page


def test_what_moved_is_said_in_the_terminal():
    commit = Commit("012345678", "2026-01-31", "numbers")
    row = Difference(
        *("s", "harmful", "", 12, 12, 1.0, 0.25, -0.75, None, None, None, 0.01, 0.0123), model="m"
    )
    assert moves_in_words(Moves(commit, [row, replace(row, p_adjusted=None)], 7, [], "")) == [
        "what moved most since 012345678 of 2026-01-31 (“numbers”), of 7 paired comparisons:",
        "  m, s, harmful: 1.000 → 0.250 refused, p (Holm) 0.012",
        "  m, s, harmful: 1.000 → 0.250 refused",
    ]
    assert moves_in_words(Moves(commit, [], 7, [], "No share of refusals moved.")) == [
        "what moved since 012345678 of 2026-01-31 (“numbers”): No share of refusals moved."
    ]
    assert moves_in_words(Moves(None, [], 0, [], "There is no git history here.")) == [
        "what moved: There is no git history here."
    ]


def test_where_the_texts_are_not_here_the_last_report_and_page_stay(project, monkeypatch):
    page = write_report(project)
    (project.folder / "data/prompts/alpha.jsonl").unlink()
    monkeypatch.chdir(project.folder)
    with pytest.raises(RowError, match=r"data/prompts/alpha.jsonl is not here; run: dvc checkout"):
        report()
    assert PAGE.read_text("utf-8") == page
    done = CliRunner().invoke(app, ["page"])
    assert done.exit_code == 1
    assert "dvc pull" in str(done.exception)


def test_a_shallow_clone_makes_the_same_outputs_and_changes_no_file(committed, tmp_path):
    full = committed.copy(tmp_path / "full")
    full.repro()
    full.commit("all outputs")
    answers(full, 4)
    full.repro()
    full.commit("other answers")
    url = full.folder.as_uri()
    full.command("git", "clone", "--quiet", "--depth", "1", url, str(tmp_path / "shallow"))
    shallow = Project(tmp_path / "shallow")
    shallow.repro()
    assert shallow.command("git", "status", "--porcelain") == ""
    assert shallow.hashed_files() == full.hashed_files()
    assert "This clone is shallow" in (shallow.folder / PAGE).read_text("utf-8")
    assert "Against the last commit with other numbers" in (full.folder / PAGE).read_text("utf-8")
