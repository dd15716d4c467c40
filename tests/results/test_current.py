"""Results are those of the grid: what left it goes, what is missing is named, and what ran is noted."""

from __future__ import annotations

import json
import warnings

import pytest

from refract.core.progress import read_object
from refract.core.tables import read_table, write_table
from refract.results import ResultsWarning, load_results
from refract.results.current import remove_left_over, result_files
from tests.builders import GREEDY, Project


def test_results_of_a_model_that_left_the_grid_are_removed_and_hashed_by_nobody(project, tmp_path):
    """The README's steps: a model added to the grid, another one taken out, `dvc repro`, a commit."""
    params = project.params()
    params["models"]["mine"] = {**GREEDY, "seed": 7}
    params["grid"]["models"] = ["mine", "sampling"]
    project.set_params(params)
    notes = project.refract("show").stdout
    assert "note: no results of mine, which the grid of params.yaml names; run: dvc repro" in notes
    done = project.repro()
    assert "report: removed the results of greedy, which the grid does not name" in done.output
    assert remove_left_over(project.folder, ["mine", "sampling"]) == []
    gone = (*result_files("greedy"), "metrics/ran/greedy.json")
    assert not any((project.folder / path).exists() for path in gone)
    project.commit("my model")
    # A tree without any trace of it has the same hashes, so that nothing is to be done there.
    clone = project.clone(tmp_path / "clone")
    dry = clone.run("dvc", "repro", "--dry", "--allow-missing")
    assert (dry.returncode, dry.stdout.count("Running stage")) == (0, 1), dry.stdout + dry.stderr


def test_rows_of_other_numbers_are_named_and_no_number_is_joined_to_them(project):
    path = project.folder / "data/prompts/alpha.jsonl"
    rows = path.read_bytes()
    path.unlink()  # a link into DVC's cache
    path.write_bytes(rows.replace(b"question 3", b"another question"))
    with pytest.warns(ResultsWarning) as warned:
        results = load_results(project.folder)
    (text,) = (str(warning.message) for warning in warned)
    assert text.startswith(
        "rows of greedy, sampling are missing: data/prompts/alpha.jsonl is not what metrics/ was "
        "made of; run: dvc checkout (or dvc pull"
    )
    assert (len(results.outcomes), set(results.rows["suite"])) == (48, {"beta"})
    assert f"note: {text}" in project.refract("show").stdout
    for command in (("page",), ("gate", "--confidence", ".99")):
        failed = project.refract(*command)
        assert failed.exit_code in (1, 2)
        assert "run: dvc checkout" in str(failed.exception)
    path.unlink()
    project.command("dvc", "checkout")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResultsWarning)
        assert len(load_results(project.folder).rows) == 48


def test_where_one_model_has_no_results_yet_the_others_are_read_and_it_is_named(project):
    for path in result_files("sampling"):
        (project.folder / path).unlink()
    with pytest.warns(ResultsWarning, match="no results of sampling, .*; run: dvc repro"):
        assert set(load_results(project.folder).tables["model"]) == {"greedy"}
    shown = project.refract("show")
    assert shown.exit_code == 0
    assert "note: no results of sampling, " in shown.stdout
    for command in (("compare",), ("gate",), ("page",)):
        failed = project.refract(*command)
        assert failed.exit_code
        assert "no results of sampling; run: dvc repro" in str(failed.exception)


def test_it_is_said_whether_the_numbers_are_those_of_git_and_what_explains_it(project):
    def last_line() -> str:
        return project.refract("show").stdout.splitlines()[-1]

    paths = [
        project.folder / f"metrics/{place}"
        for place in ("tables/greedy.csv", "provenance/greedy.json", "ran/greedy.json")
    ]
    whole = [path.read_text("utf-8") for path in paths]
    count = sum(len(read_table(path)) for path in paths[0].parent.iterdir())
    equal = f"All {count} rates equal those of HEAD"
    assert last_line() == f"{equal}, as do the bytes of all files of metrics/."
    provenance = json.loads(whole[1])
    provenance["model"]["seed"] = 8
    paths[1].write_text(json.dumps(provenance), "utf-8")
    paths[2].write_text(whole[2].replace('"python": "3', '"python": "4'), "utf-8")
    files = "bytes differ in metrics/provenance/greedy.json, because"
    assert last_line().startswith(f"{equal}; {files} greedy: model seed: ")
    assert "greedy: answers, python: 3" in last_line()
    paths[2].write_text(whole[2], "utf-8")
    paths[1].write_text(whole[1] + "\n", "utf-8")
    assert (
        last_line()
        == f"{equal}; {files} of edited files or other code: no input, library or machine differs"
    )
    (row, *rows) = read_table(paths[0])
    write_table(paths[0], list(row), [{**row, "rate": "0.1234"}, *rows[1:]])
    said = last_line()
    assert said.startswith(f"2 of {count} rates differ from those of HEAD (greedy {row['suite']}")
    assert f"{row['rate']} → 0.1234, " in said
    assert " → none); bytes differ in " in said
    project.command("git", "rm", "-r", "-q", "--cached", "metrics")
    project.command("git", "commit", "-q", "-m", "No results")
    assert "HEAD" not in last_line()


def test_it_is_said_how_many_answers_the_store_gave(project):
    shown = project.refract("show").stdout
    assert "0 from the store (" in shown
    assert "0 reused from this project's own rows, 48 generated" in shown
    for path in (project.folder / "data/responses").glob("*/*.jsonl"):
        path.unlink()
    done = project.repro()
    assert (
        "model-inference@greedy: 24 answers reused (24 from the store), 0 generated" in done.output
    )
    line = f"48 from the store ({project.cache / 'responses.sqlite'})"
    assert line in project.refract("show").stdout


def test_what_ran_is_noted_beside_the_numbers(computed: Project):
    noted = read_object(computed.folder / "metrics/ran/greedy.json")
    (run,) = noted["runs"]
    assert noted["suites"]["alpha"]["runs"] == [[0, 12]]
    assert run["code"]["commit"] == computed.command("git", "rev-parse", "HEAD~1").strip()
    assert (run["code"]["dirty"], run["code"]["changed"]) == (False, [])
    assert run["machine"]["processor"]
    assert run["libraries"] == {}  # a synthetic model computes with none
    assert run["started_at"].endswith("Z")
    assert noted["judged"]["python"] == run["python"]
