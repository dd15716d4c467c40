"""Results are those of the grid: what left it goes, what is missing is named, and what ran is noted."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refract.core.jsonl import read_rows, write_json, write_rows
from refract.core.tables import read_table, write_table
from refract.results import ResultsWarning, load_results
from refract.results.current import left_over, result_files
from refract.results.sources import ResultsError
from tests.agreement.answers import fill_in
from tests.builders import GREEDY, Project, setting, suite_rows

TABLE, OUTCOMES = "metrics/tables/one.csv", "metrics/outcomes/one.csv"
PROVENANCE, SUITE = "metrics/provenance/one.json", "data/suites/alpha.jsonl"
MISSING = "one: metrics/provenance/MODEL.json is missing, or of an earlier version"


def test_a_model_that_left_the_grid_keeps_its_results_and_has_them_when_it_is_back(
    project, tmp_path
):
    """The tutorial's steps: a model added to the grid, another one taken out, `dvc repro`, a commit."""
    params = project.params()
    before = project.params()
    kept = (*result_files("greedy"), "metrics/ran/greedy.json")
    files = {path: (project.folder / path).read_bytes() for path in kept}
    params["models"]["mine"] = {**GREEDY, "seed": 7}
    params["grid"]["models"] = ["mine", "sampling"]
    project.set_params(params)
    notes = project.refract("show").stdout
    assert "note: no results of mine, which the grid of params.yaml names; run: dvc repro" in notes
    done = project.repro()
    line = "report: without greedy, which the grid does not name; their results are kept"
    assert line in done.output
    assert left_over(project.folder, ["mine", "sampling"]) == ["greedy"]
    assert "greedy" not in (project.folder / "metrics/report.md").read_text()
    project.commit("my model")
    clone = project.clone(tmp_path / "clone")
    dry = clone.run("dvc", "repro", "--dry", "--allow-missing")
    assert (dry.returncode, dry.stdout.count("Running stage")) == (0, 1), dry.stdout + dry.stderr
    project.set_params(before)
    project.repro()
    assert {path: (project.folder / path).read_bytes() for path in kept} == files


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
    failed = project.refract("page")
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
    path = project.folder / "metrics/provenance/greedy.json"
    facts = json.loads(path.read_text())
    facts["model"]["identity"]["arithmetic"] = "fast"
    write_json(path, facts)
    shown = project.refract("show")
    assert shown.exit_code == 0
    assert "\ngreedy: fast arithmetic: of this machine\n" in shown.stdout
    assert "note: no results of sampling, " in shown.stdout
    for command in (("compare",), ("gate",), ("page",)):
        failed = project.refract(*command)
        assert failed.exit_code
        assert "no results of sampling; run: dvc repro" in str(failed.exception)


@pytest.fixture(scope="module")
def of_thresholds(tmp_path_factory) -> Project:
    """Two models whose thresholds are met, computed and committed."""
    steady = {**GREEDY, "refusal_rate": {"harmful": 1.0, "helpful": 0.0}}
    project = Project.create(
        tmp_path_factory.mktemp("thresholds") / "project",
        {"one": steady, "sampled": {**steady, "temperature": 1}},
        {"alpha": suite_rows("alpha", 20, 20), "beta": suite_rows("beta", 3, 3)},
    )
    params = project.params()
    params["grid"]["suites"] = ["alpha"]
    params["perturbations"] = {"noise": {"kind": "typos", "rate": 0.1}}
    params["suites"]["alpha"] |= {
        "perturbations": ["noise"],
        "thresholds": {"harmful_refusal_rate": {"min": 0.5}, "noise_fail_rate": {"max": 0.9}},
    }
    project.set_params(params)
    project.compute()
    params["suites"]["gamma"] = {"file": "data/suites/beta.jsonl", "judges": ["rules"]}
    project.set_params(params)  # of no suite in the grid
    project.commit("results")
    return project


@pytest.fixture
def measured(of_thresholds) -> Iterator[Project]:
    """The same, to be changed in place."""
    yield of_thresholds
    of_thresholds.command("git", "checkout", "--quiet", ".")


def rows_with(path: str, change: Callable[[list], list]) -> Callable[[Project], None]:
    def changed(project: Project) -> None:
        file = project.folder / path
        table = path.endswith(".csv")
        rows = change(read_table(file) if table else read_rows(file))
        write_table(file, list(rows[0]), rows) if table else write_rows(file, rows)

    return changed


def swapped(rows: list) -> list:
    other = {"harmful": "helpful", "helpful": "harmful"}
    return [{**row, "category": other[row["category"]]} for row in rows]


def rates_edited(rows: list) -> list:
    return [{**row, "rate": "0.1", "low": "0.05", "high": "0.2"} for row in rows]


def without_hashes(project: Project) -> None:
    facts = json.loads((project.folder / PROVENANCE).read_text("utf-8"))
    (project.folder / PROVENANCE).write_text(json.dumps({**facts, "files": None}), "utf-8")


CHANGES = {
    "a threshold": (
        setting("suites.alpha.thresholds.harmful_refusal_rate.min", 0.99),
        "one, sampled: suites.alpha.thresholds.harmful_refusal_rate.min: 0.5 → 0.99",
    ),
    "the model": (
        setting("models.one.refusal_rate", 0.1),
        'one: models.one.refusal_rate: {"harmful":1.0,"helpful":0.0} → 0.1',
    ),
    "the judge": (
        setting("judges.rules", {"kind": "strings"}),
        'one, sampled: judges.rules.kind: "rules" → "strings"',
    ),
    "a perturbation": (
        setting("perturbations.noise.rate", 0.5),
        "suites.alpha.perturbations.noise.rate: 0.1 → 0.5",
    ),
    "the seed": (setting("seed", 7), "sampled: seed: 20260 → 7"),
    "one more suite": (
        setting("grid.suites", ["alpha", "beta"]),
        "one, sampled: suite beta has no numbers",
    ),
    "another suite": (
        setting("grid.suites", ["beta"]),
        "one, sampled: suite alpha is not in the grid",
    ),
    "the suite's file": (rows_with(SUITE, swapped), "the file of suite alpha is another one"),
    "edited rates": (rows_with(TABLE, rates_edited), f"one: {TABLE} is not as it was written"),
    "lost outcomes": (rows_with(OUTCOMES, lambda rows: rows[5:]), f"one: {OUTCOMES} is not as"),
    "provenance without hashes": (without_hashes, MISSING),
}


@pytest.mark.parametrize("what", CHANGES)
def test_nothing_is_decided_on_numbers_that_are_not_what_params_ask_for(what, measured):
    change, reason = CHANGES[what]
    change(measured)
    done = measured.refract("gate", "--fail-on", "regression")
    assert done.exit_code == 1
    assert str(done.exception).startswith("not decided: these numbers are not what params.yaml")
    assert reason in str(done.exception)
    assert str(done.exception).endswith("; run: dvc repro")
    for command in ("show", "compare"):
        done = measured.refract(command)
        assert done.exit_code == 0, done.exception
        (line,) = (x for x in done.output.splitlines() if "numbers are not what params" in x)
        assert reason in line
    done = measured.refract("compare", "--fail-on", "regression")
    assert done.exit_code == 1
    assert "INCONCLUSIVE: working tree: these numbers are not what" in done.stderr
    if what == "lost outcomes":  # no text can be joined to them
        with pytest.raises(
            ResultsError, match=r"has 75 outcomes of alpha and .* answers; run: dvc repro"
        ):
            load_results(measured.folder)
        return
    with pytest.warns(ResultsWarning, match="numbers are not what params"):
        load_results(measured.folder)


def test_labels_are_those_that_were_counted_or_a_reason(of_thresholds, tmp_path):
    project = of_thresholds.copy(tmp_path / "labelled")
    labels = project.folder / "data/labels/one/alpha.csv"
    project.refract("label", "--model", "one", "--suite", "alpha", "--n", 5)

    def reasons(*command: str) -> str:
        done = project.refract(*command)
        said = f"{done.output}{done.exception}".splitlines()
        return "".join(line for line in said if "data/labels" in line and "not what" in line)

    commands = (("gate",), ("show",), ("compare", "HEAD"))
    other = "the labels in data/labels/one/alpha.csv are not those that were counted"
    assert not any(reasons(*command) for command in commands)  # nobody has labelled any
    fill_in(labels, ["refusal"] * 5)
    assert all(other in reasons(*command) for command in commands)
    project.compute()
    rows = read_table(labels)
    rows[0]["notes"] = "read twice"
    write_table(labels, list(rows[0]), rows)
    project.commit("with labels")
    assert not any(reasons(*command) for command in commands)
    fill_in(labels, ["compliance"] * 5)
    assert all(other in reasons(*command) for command in commands)
    assert not reasons("compare", "HEAD", "HEAD")
    project.commit("other labels, the same numbers")
    assert other in reasons("compare", "HEAD", "HEAD")
    labels.unlink()
    gone = "data/labels/one/alpha.csv, whose labels were counted, is not here"
    assert all(gone in reasons(*command) for command in commands)
    project.commit("no labels, the same numbers")
    assert gone in reasons("compare", "HEAD", "HEAD")
    # Where git is not to have them, a clone's numbers are right.
    (project.folder / "data/labels/.gitignore").write_text("one/\n", "utf-8")
    assert not any(reasons(*command) for command in commands)


def test_what_is_of_no_suite_or_model_of_the_grid_changes_nothing(measured):
    setting("suites.beta.judges", ["strings"])(measured)
    setting("models.other", dict(GREEDY))(measured)
    assert measured.refract("gate").stdout == "4 of 4 thresholds met\n"
    done = measured.refract("compare", "--fail-on", "regression")
    assert (done.exit_code, "not what params" in done.output) == (0, False)
    assert "not what params" not in measured.refract("show").output


def test_a_side_is_checked_against_the_params_of_its_own_commit(measured):
    """The numbers of a commit whose thresholds were others are right there."""
    CHANGES["a threshold"][0](measured)
    assert measured.refract("compare", "HEAD", "HEAD").exit_code == 0
    done = measured.refract("compare", "HEAD", "--fail-on", "regression")
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" working tree"]


@pytest.mark.parametrize("path", [TABLE, OUTCOMES, PROVENANCE])
@pytest.mark.parametrize("content", [b"suite,measure\n\xff\xfe,x\n", b"{}"])
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(path, content, measured):
    (measured.folder / path).write_bytes(content)
    for command in ("gate", "compare", "show"):
        done = measured.refract(command)
        assert isinstance(done.exception, ResultsError), (command, done.exception, done.output)
        assert path in str(done.exception)
        assert "run: dvc repro" in str(done.exception)


def test_answers_are_not_drawn_with_another_suite_file(measured, tmp_path):
    rows_with(SUITE, swapped)(measured)
    run = ("--model", "one", "--suite", "alpha", "--n", "5", "--out", tmp_path / "labels.csv")
    done = measured.refract("label", *run)
    assert done.exit_code
    assert f"{SUITE} is not what the results of one were made of" in str(done.exception)
    assert not (tmp_path / "labels.csv").exists()
    measured.command("git", "checkout", "--quiet", ".")
    assert measured.refract("label", *run).exit_code == 0


def of_json(change: Callable[[Any], Any]) -> Callable[[str], str]:
    return lambda text: json.dumps(change(json.loads(text)))


EDITS = {
    "a rate": ("ok.json", of_json(lambda x: {**x, "tables": [{**x["tables"][0], "rate": 0.5}]})),
    "a limit": ("ok.json", lambda text: text.replace('"low": 0.', '"low": 0.9', 1)),
    "a metric": ("ok.json", of_json(lambda x: {**x, "metrics": {}})),
    "provenance": ("ok.json", of_json(lambda x: {**x, "provenance": {**x["provenance"], "x": 1}})),
    "no hash": ("ok.json", of_json(lambda x: {k: v for k, v in x.items() if k != "sha256"})),
    "rows": ("ok.rows.jsonl", lambda text: text.replace("refusal", "compliance", 1)),
    "a row less": ("ok.rows.jsonl", lambda text: text[: text.rindex('{"')]),
    "outcomes": ("ok.outcomes.csv", lambda text: text.replace("refusal", "compliance", 1)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_nothing_is_decided_on_a_run_that_was_edited_after_it_was_written(cli, edit, run_results):
    for kind in ("json", "outcomes.csv", "rows.jsonl"):
        shutil.copyfile(f"ok.{kind}", f"other.{kind}")
    file, change = EDITS[edit]
    text = Path(file).read_text("utf-8")
    assert change(text) != text
    Path(file).write_text(change(text), "utf-8")
    commands = [
        ("compare", "ok.json", "other.json"),
        ("compare", "other.json", "ok.json", "--fail-on", "regression"),
        ("export", "ok.json", "--out", "x"),
    ]
    if edit != "outcomes":  # of which labels are not drawn
        commands.append(("label", "--rows", "ok.rows.jsonl", "--out", "labels.csv"))
    for command in commands:
        done = cli(*command)
        assert (done.code, f"not decided: {file} is not" in done.err) == (1, True), done.err


@pytest.mark.parametrize("source", [None, 1, {}])
def test_results_of_what_is_no_path_are_an_error_that_says_what_it_got(source):
    with pytest.raises(ResultsError, match=re.escape(f"a results file (got {source!r})")):
        load_results(source)
