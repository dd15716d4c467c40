"""Results are those of the grid: what left it goes, what is missing is named, and what ran is noted."""

from __future__ import annotations

import contextlib
import json
import shutil
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.jsonl import read_rows, write_rows
from refract.core.progress import read_object
from refract.results import ResultsWarning, load_results
from refract.results.current import left_over, result_files
from tests.builders import GREEDY, Project, suite_rows

GONE = "first"


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> Project:
    """Two models, computed and committed."""
    project = Project.create(
        tmp_path_factory.mktemp("current") / "project",
        {GONE: dict(GREEDY), "second": {**GREEDY, "temperature": 1}},
        {"alpha": suite_rows("alpha", 4, 4)},
    )
    project.repro()
    project.commit("results")
    return project


@pytest.fixture(scope="module")
def after(before, tmp_path_factory) -> Project:
    """The README's steps: a model added to the grid, another one taken out, `dvc repro`, a commit."""
    project = before.copy(tmp_path_factory.mktemp("current") / "after")
    params = project.params()
    params["models"]["mine"] = {**GREEDY, "seed": 7}
    params["grid"]["models"] = ["mine", "second"]
    project.set_params(params)
    notes = refract(project.folder, "show").stdout
    assert "note: no results of mine, which the grid of params.yaml names (not here: " in notes
    assert "note: left out: metrics/ also has results of first, which the grid" in notes
    done = project.repro()
    assert "report: removed the results of first, which the grid does not name" in done.output
    project.commit("my model")
    return project


def refract(folder: Path, *arguments: object):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_results_of_a_model_that_left_the_grid_are_removed_and_hashed_by_nobody(after, tmp_path):
    assert left_over(after.folder, ["mine", "second"]) == {}
    gone = (*result_files(GONE), f"metrics/ran/{GONE}.json")
    assert not any((after.folder / path).exists() for path in gone)
    # A tree without any trace of it has the same hashes, so that nothing is to be done there.
    clone = Project(tmp_path / "clone")
    after.command("git", "clone", "--quiet", str(after.folder), str(clone.folder))
    dry = clone.run("dvc", "repro", "--dry", "--allow-missing")
    assert (dry.returncode, dry.stdout.count("Running stage")) == (0, 1), dry.stdout + dry.stderr


@pytest.fixture
def with_leftovers(after, before, tmp_path) -> Project:
    """A commit as earlier releases made it: the results of the model that left are in it."""
    project = after.copy(tmp_path / "leftovers")
    for path in result_files(GONE):
        (project.folder / path).write_bytes((before.folder / path).read_bytes())
    project.commit("with what is left over")
    return project


def test_readers_leave_out_and_name_what_is_left_over(with_leftovers):
    folder = with_leftovers.folder
    with pytest.warns(ResultsWarning, match="metrics/ also has results of first"):
        results = load_results(folder)
    for frame in results:
        assert set(frame["model"]) == {"mine", "second"}
    done = refract(folder, "export", "--out", folder / "tables")
    assert done.exit_code == 0, done.exception
    assert "left out: metrics/ also has results of first" in done.stderr
    assert "first" not in (folder / "tables/metrics.csv").read_text("utf-8")


def test_rows_of_another_commit_are_named_and_no_number_is_joined_to_them(before, tmp_path):
    project = before.copy(tmp_path / "project")
    project.rewrite("data/suites/alpha.jsonl", "alpha: question 3", "alpha: another question")
    project.repro()
    project.commit("another prompt")
    project.command("git", "checkout", "--quiet", "HEAD~1")  # and no `dvc checkout`
    with pytest.warns(ResultsWarning) as warned:
        results = load_results(project.folder)
    (text,) = (str(one.message) for one in warned)
    assert text.startswith(
        "rows of first, second are missing: data/prompts/alpha.jsonl is not what "
    )
    assert "; run: dvc checkout (or dvc pull" in text
    assert (len(results.outcomes), len(results.rows)) == (16, 0)
    shown = refract(project.folder, "show").stdout
    assert f"note: {text}" in shown
    assert "of other numbers than those in metrics/; run: refract page" in shown
    params = project.params()
    params["suites"]["alpha"]["thresholds"] = {"harmful_refusal_rate": {"min": 0.1}}
    project.set_params(params)
    for command in (("page",), ("gate", "--confidence", ".99")):
        failed = refract(project.folder, *command)
        assert failed.exit_code in (1, 2)
        assert "run: dvc checkout" in str(failed.exception)
    project.command("dvc", "checkout")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResultsWarning)
        assert len(load_results(project.folder).rows) == 16


def test_where_one_model_has_no_results_yet_the_others_are_read_and_it_is_named(before, tmp_path):
    project = before.copy(tmp_path / "project")
    for path in result_files("second"):
        (project.folder / path).unlink()
    with pytest.warns(ResultsWarning, match="no results of second, .*; run: dvc repro"):
        assert set(load_results(project.folder).tables["model"]) == {GONE}
    shown = refract(project.folder, "show")
    assert shown.exit_code == 0
    assert "note: no results of second, " in shown.stdout
    for command in (("compare",), ("gate",), ("page",)):
        failed = refract(project.folder, *command)
        assert failed.exit_code
        assert "no results" in str(failed.exception)
        assert "second" in str(failed.exception)
        assert "dvc repro" in str(failed.exception)


def test_the_last_good_report_outlives_one_that_fails(before, tmp_path):
    project = before.copy(tmp_path / "project")
    kept = [project.folder / "metrics/report.md", project.folder / "data/report/report.html"]
    kept += sorted((project.folder / "metrics/figures").iterdir())
    held = [path.read_bytes() for path in kept]
    project.rewrite("data/suites/alpha.jsonl", "alpha: question 3", "alpha: another question")
    with open(project.folder / "stages/report.py", "r+", encoding="utf-8") as file:
        text = file.read().replace('run = StageRun("report")', 'raise OSError("no space")')
        file.seek(0)
        file.write(text)
    done = project.run("dvc", "repro")
    assert done.returncode
    assert [path.read_bytes() for path in kept] == held
    shown = refract(project.folder, "show").stdout
    assert "of other numbers than those in metrics/, since `report` did not end" in shown


def test_it_is_said_how_many_answers_the_store_gave(before, tmp_path):
    project = before.copy(tmp_path / "project")
    shown = refract(project.folder, "show").stdout
    assert "0 from the store (" in shown
    assert "0 reused from this project's own rows, 16 generated" in shown
    for model in (GONE, "second"):
        for path in (project.folder / "data/responses" / model).iterdir():
            path.unlink()
    done = project.repro()
    assert (
        f"model-inference@{GONE}: 8 answers reused (8 from the store), 0 generated" in done.output
    )
    line = f"16 from the store ({project.cache / 'responses.sqlite'})"
    assert line in refract(project.folder, "show").stdout
    # From nothing, as the README says.
    shutil.rmtree(project.folder / "data/responses")
    again = project.repro(REFRACT_CACHE=str(tmp_path / "empty"))
    assert set(again.generated.values()) == {8}


def test_what_ran_is_noted_beside_the_numbers_and_kept_while_the_rows_are_the_same(
    before, tmp_path
):
    held = read_object(before.folder / f"metrics/ran/{GONE}.json")
    (run,) = held["runs"]
    assert held["suites"]["alpha"]["runs"] == [[0, 8]]
    assert run["code"]["commit"] == before.command("git", "rev-parse", "HEAD~1").strip()
    assert (run["code"]["dirty"], run["code"]["changed"]) == (False, [])
    assert run["machine"]["processor"]
    assert run["libraries"] == {}  # a synthetic model computes with none
    assert run["measured"]["answers"] == 8
    assert run["started_at"].endswith("Z")
    assert held["judged"]["python"] == run["python"]
    # Answers generated again, somewhere else and the same: the note of what made them stays.
    again = Project(tmp_path / "again")
    before.command("git", "clone", "--quiet", str(before.folder), str(again.folder))
    (again.folder / "dvc.lock").unlink()
    assert again.repro().generated[GONE, "alpha"] == 8
    assert again.command("git", "status", "--porcelain") == ""
    # A new prompt is answered by a run of its own; the others keep theirs, although the store that
    # knew of it is gone.
    for path in again.cache.iterdir():
        path.unlink()
    rows = read_rows(again.folder / "data/suites/alpha.jsonl")
    rows.insert(2, {**rows[0], "id": "alpha-99", "prompt": "alpha: one more"})
    write_rows(again.folder / "data/suites/alpha.jsonl", rows)
    assert again.repro().generated[GONE, "alpha"] == 1
    now = read_object(again.folder / f"metrics/ran/{GONE}.json")
    assert now["suites"]["alpha"]["runs"] == [[0, 2], [1, 1], [0, 6]]
    assert now["runs"][0] == run
    assert now["runs"][1]["code"]["changed"] == ["data/suites/alpha.jsonl"]
    assert "dvc.lock" not in json.dumps(now["runs"][1]["code"])


def test_reproduce_names_what_made_the_results_otherwise_and_can_move_them(after, tmp_path):
    project = after.copy(tmp_path / "project")
    path = project.folder / "metrics/ran/mine.json"
    held = read_object(path)
    held["judged"]["machine"]["processor"] = "no cause: rules compute with Python alone"
    held["judged"]["python"] = "3.11.0"
    for run in held["runs"]:
        run |= {"device": "cpu", "libraries": {"torch": "2.13.0"}}
    path.write_text(json.dumps(held), "utf-8")
    project.commit("as if another machine had made it")
    done = refract(project.folder, "reproduce", "--exec", "--model", "mine")
    assert done.exit_code == 0, done.output
    differs = done.stdout.partition("byte-identical results, though this differs:\n")[
        2
    ].splitlines()
    assert len(differs) == 1
    assert differs[0].startswith("  mine: verdicts, python: 3.11.0 → ")
