"""Everything that was measured, as tidy tables: from a project, from a run, and exported."""

from __future__ import annotations

import builtins
import contextlib
import csv

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.errors import UsageError
from refract.results import load_results
from refract.results.sources import ResultsError
from refract.rows.jsonl import write_rows
from tests.pipeline import Project, suite_rows
from tests.test_compare import NO, YES, compute


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    project = Project.create(
        tmp_path_factory.mktemp("results") / "project",
        {
            "one": {"adapter": "recorded", "path": "data/recorded/answers.jsonl"},
            "two": {"adapter": "synthetic", "refusal_rate": 0.5},
        },
        {"alpha": suite_rows("alpha", 3, 1)},
    )
    texts = [NO, YES, "=1+1 " + YES]
    write_rows(
        project.folder / "data/recorded/answers.jsonl",
        [{"id": f"alpha-{n:02d}", "response": text} for n, text in enumerate(texts)],
    )
    compute(project)
    return project


def refract(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_projects_results_are_typed_tables_with_model_and_suite(project):
    results = load_results(project.folder)
    for frame in results:
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


def test_without_the_texts_the_numbers_are_there_all_the_same(project, tmp_path):
    clone = project.copy(tmp_path / "clone")
    for path in (clone.folder / "data/responses").rglob("*.jsonl"):
        path.unlink()
    results = load_results(clone.folder)
    assert results.rows.empty
    assert len(results.outcomes) == 8


def test_a_run_gives_the_same_tables(project, tmp_path):
    with contextlib.chdir(project.folder):
        done = refract(
            *("run", "--model", "one", "--suite", "alpha", "--out", tmp_path / "r.json"),
            *("--rows", tmp_path / "r.rows.jsonl"),
        )
    assert done.exit_code == 0, done.exception
    run, expected = load_results(tmp_path / "r.json"), load_results(project.folder, ["one"])
    assert run.outcomes.equals(expected.outcomes)
    keys = ["measure", "field", "value", "successes", "n", "rate", "low", "high"]
    assert run.tables[keys].equals(expected.tables[keys])
    assert run.rows["response"].tolist() == expected.rows["response"].tolist()
    assert run.rows["label"].tolist()[:3] == ["refusal", "compliance", "compliance"]


def test_exported_files_hold_the_tables_and_no_formula(project, tmp_path):
    done = refract("export", project.folder, "--out", tmp_path / "csv")
    assert done.exit_code == 0, done.exception
    with open(tmp_path / "csv/rows.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "one"]
    assert [row["response"] for row in rows] == [NO, YES, f'"=1+1 {YES}"', ""]
    assert sorted(path.name for path in (tmp_path / "csv").iterdir()) == [
        *("metrics.csv", "outcomes.csv", "rows.csv", "tables.csv")
    ]


def test_parquet_keeps_types_and_texts(project, tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    done = refract("export", project.folder, "--out", tmp_path, "--format", "parquet")
    assert done.exit_code == 0, done.exception
    expected = load_results(project.folder)
    rows = pd.read_parquet(tmp_path / "rows.parquet")
    assert rows.response.tolist() == expected.rows.response.tolist()
    assert pd.read_parquet(tmp_path / "tables.parquet")["rate"].equals(expected.tables["rate"])


def test_without_pyarrow_parquet_says_what_to_install(project, tmp_path, monkeypatch):
    real = builtins.__import__

    def no_pyarrow(name, *rest):
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    done = refract("export", project.folder, "--out", tmp_path, "--format", "parquet")
    assert isinstance(done.exception, UsageError)
    assert "pip install 'refract-eval[parquet]'" in str(done.exception)


def test_what_is_not_there_is_said(project, tmp_path):
    with pytest.raises(ResultsError, match="no results yet; run: dvc repro"):
        load_results(tmp_path)
    with pytest.raises(ResultsError, match="no results of three; there are: one, two"):
        load_results(project.folder, ["three"])
    done = refract("export", tmp_path, "--out", tmp_path)
    assert isinstance(done.exception, ResultsError)
    assert done.exception.exit_code == 2
    done = refract("export", tmp_path, "--out", tmp_path, "--format", "xlsx")
    assert done.exit_code == 2
    assert "'xlsx'" in done.stderr
    assert "'parquet'" in done.stderr
