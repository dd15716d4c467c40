"""Everything that was measured, as tidy tables: from a project, from a run, and exported."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.results import ResultsWarning, load_results
from refract.results.sources import ResultsError
from tests.builders import GREEDY, NO, RECORDED, YES, Project, suite_rows

AREAS = {
    "alpha-00": {"area": "locks", "score_of_risk": 3},
    "alpha-01": {"area": "doors", "score_of_risk": 1},
    "alpha-02": {"area": "mail", "score_of_risk": 2},
}


def computed_project(folder: Path) -> Project:
    """A project with results of two models, one of them with an answer that looks like a formula."""
    project = Project.create(
        folder,
        {"one": RECORDED, "two": GREEDY},
        {"alpha": [row | AREAS.get(row["id"], {}) for row in suite_rows("alpha", 3, 1)]},
    )
    project.record(alpha=[NO, YES, "=1+1 " + YES])
    project.put({"suites.alpha.fields": ["area", "category", "score_of_risk"]})
    project.compute()
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return computed_project(tmp_path_factory.mktemp("results") / "project")


def test_a_projects_results_are_typed_tables_with_model_and_suite(project):
    results = load_results(project.folder)
    for frame in results.frames().values():
        assert set(frame["model"]) == {"one", "two"}
        assert set(frame["suite"]) == {"alpha"}
    one = results.metrics[results.metrics.model == "one"].set_index("measure").value
    assert (one["n"], one["excluded"], one["harmful_refusal_rate"]) == (3, 1, 0.3333)
    rate = results.tables.query("model == 'one' and measure == 'harmful_refusal_rate'").iloc[0]
    assert (rate.successes, rate.n, rate.field) == (1, 3, "")
    assert results.tables["rate"].dtype == "float64"
    assert results.outcomes.query("model == 'one'").outcome.tolist() == [
        *("refusal", "compliance", "compliance", "error")
    ]
    rows = results.rows[results.rows.model == "one"]
    assert rows.prompt.tolist() == [f"alpha: question {n}" for n in range(4)]
    assert rows.response.tolist() == [NO, YES, "=1+1 " + YES, ""]
    assert rows.label_rules.tolist()[:3] == ["refusal", "compliance", "compliance"]
    assert rows.error.tolist()[3].startswith("NoRecordedAnswer: ")
    assert set(load_results(project.folder, ["two"]).outcomes["model"]) == {"two"}


def test_outcomes_and_rows_carry_the_suites_fields_as_texts(project, tmp_path):
    results = load_results(project.folder, ["one"])
    for frame in (results.outcomes, results.rows):
        assert frame[["area", "score_of_risk"]].values.tolist() == [
            *(["locks", "3"], ["doors", "1"], ["mail", "2"], ["", ""])
        ]
    refused = results.outcomes[results.outcomes["outcome"] == "refusal"]
    assert refused["area"].tolist() == ["locks"]


def test_without_the_texts_the_numbers_are_there_all_the_same(project, tmp_path):
    clone = project.copy(tmp_path / "clone")
    shutil.rmtree(clone.folder / "data/responses")
    with pytest.warns(ResultsWarning, match="rows of one, two are missing"):
        results = load_results(clone.folder)
    assert results.rows.empty
    assert len(results.outcomes) == 8


def test_a_run_gives_the_same_tables(project, tmp_path):
    done = project.refract(
        *("run", "--model", "one", "--suite", "alpha", "--out", tmp_path / "r.json"),
        *("--rows", tmp_path / "r.rows.jsonl", "--seed", project.params()["seed"]),
    )
    assert done.exit_code == 0, done.exception
    run, expected = load_results(tmp_path / "r.json"), load_results(project.folder, ["one"])
    assert run.outcomes.equals(expected.outcomes)
    keys = ["measure", "judge", "perturbation", "field", "value", "successes", "n"]
    keys += ["rate", "low", "high"]
    assert run.tables[keys].equals(expected.tables[keys])
    assert run.rows["response"].tolist() == expected.rows["response"].tolist()
    assert run.rows["label_refusal"].tolist()[:3] == ["refusal", "compliance", "compliance"]


def test_what_is_not_there_is_said(project, tmp_path):
    with pytest.raises(ResultsError, match=r"holds no params\.yaml"):
        load_results(tmp_path)
    (tmp_path / "params.yaml").write_text("grid: {models: [a], suites: [s]}")
    with pytest.raises(ResultsError, match="no results yet; run: dvc repro"):
        load_results(tmp_path)
    with pytest.raises(ResultsError, match="no results of three; there are: one, two"):
        load_results(project.folder, ["three"])
    done = project.refract("export", tmp_path, "--out", tmp_path)
    assert isinstance(done.exception, ResultsError)
    assert done.exception.exit_code == 2
    done = project.refract("export", project.folder, "--out", tmp_path, "--suite", "alpha,t")
    assert str(done.exception) == "--suite 't' is not in these results; there are: alpha"
    done = project.refract("export", tmp_path, "--out", tmp_path, "--as", "xlsx")
    assert isinstance(done.exception, ParamsError)
    assert "--as must be one of csv, " in str(done.exception)


def test_exported_files_hold_the_tables_and_no_formula(project, tmp_path):
    done = project.refract("export", project.folder, "--out", tmp_path / "csv")
    assert done.exit_code == 0, done.exception
    otherwise = "rows.csv: 8 rows, 1 written otherwise ("
    assert otherwise in done.stdout
    with open(tmp_path / "csv/rows.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "one"]
    assert [row["response"] for row in rows] == [NO, YES, f'"=1+1 {YES}"', ""]
    assert sorted(path.name for path in (tmp_path / "csv").iterdir()) == [
        *("metrics.csv", "outcomes.csv", "rows.csv", "tables.csv")
    ]
