"""What the pipeline prints: one line for each stage, and every warning in one place at the end."""

from __future__ import annotations

import contextlib
import re

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.jsonl import write_rows
from refract.core.progress import FOLDER, warning_lines
from stages import aggregate, check_inputs
from tests.builders import NO, RECORDED, YES, Project, suite_rows


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """A model that lacks one answer and misses a threshold."""
    project = Project.create(
        tmp_path_factory.mktemp("runs") / "project",
        {"one": {"adapter": "recorded", "path": "data/recorded/answers.jsonl"}},
        {"alpha": suite_rows("alpha", 4, 1)},
    )
    project.put({"suites.alpha.thresholds": {"harmful_refusal_rate": {"min": 0.9}}})
    write_rows(
        project.folder / "data/recorded/answers.jsonl",
        [{"id": f"alpha-{n:02d}", "response": NO if n < 3 else YES} for n in range(4)],
    )
    (project.folder / "first").write_text(project.repro().output, "utf-8")
    return project


WARNINGS = [
    "model-inference@one: alpha: 1 of 5 answers are errors; the first: NoRecordedAnswer: ",
    "aggregate@one: alpha: 1 of 5 answers not judged: 1 error",
    "aggregate@one: 1 of 1 thresholds inconclusive: alpha harmful_refusal_rate 0.75 (>= 0.9)",
]


def test_dvc_repro_tells_what_each_stage_did_and_lists_the_warnings_last(project):
    output = (project.folder / "first").read_text("utf-8")
    told = re.sub(r"in \d+\.\d s", "in T s", output)
    for line in (
        "generate-perturbations: 5 prompts and 0 variants of 1 suites in T s",
        "model-inference@one: 0 answers reused, 5 read in T s, 1 warning",
        "judge@one: judged by rules (5): 0 verdicts reused, 10 judged in T s",
        "aggregate@one: 5 answers of 1 suite counted, 1 not judged in T s, 2 warnings",
    ):
        assert f"\n{line}\n" in told
    end = told[told.index("\nreport: metrics/report.md, ") :].splitlines()[2:]
    assert end[0] == "warnings (3):"
    shown = [line.strip() for line in end[1:4]]
    assert all(any(one.startswith(known) for one in shown) for known in WARNINGS), shown
    assert end[4] == "counted, beside each rate in the report: of 5 answers 1 not judged"
    # Nothing of it is hashed.
    assert "seconds" not in (project.folder / "dvc.lock").read_text("utf-8")
    assert project.command("git", "check-ignore", str(FOLDER / "x.json"))


def test_when_nothing_is_to_be_done_the_warnings_are_still_known(project, monkeypatch):
    assert project.repro().ran == set()
    monkeypatch.chdir(project.folder)
    shown = CliRunner().invoke(app, ["show"]).stdout
    assert "warnings (3):" in shown
    assert all(warning in shown for warning in WARNINGS)
    assert shown.index("report: ") < shown.index("warnings (3):")


def test_labels_that_count_for_nothing_are_listed_once(project, tmp_path):
    other = project.copy(tmp_path / "other")
    assert other.refract("label", "--model", "one", "--suite", "alpha").exit_code == 0
    drawn = other.folder / "data/labels/one/alpha.csv"
    for place in ("one/alphas.csv", "ones/alpha.csv"):
        file = other.folder / "data/labels" / place
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(drawn.read_bytes())
    with contextlib.chdir(other.folder):
        check_inputs.main()
        aggregate.main("one")
    suite = "data/labels/one/alphas.csv is not read: grid.suites has no 'alphas'"
    model = "data/labels/ones/alpha.csv is not read: grid.models has no 'ones'"
    lines = warning_lines(other.folder, ["one"])
    assert [line for line in lines if "label" in line] == [
        f"  check-inputs: {suite}; did you mean 'alpha'?",
        f"  check-inputs: {model}; did you mean 'one'?",
        "  aggregate@one: alpha: no drawn answer has a label yet",
    ]


def test_the_report_of_the_last_good_run_survives_one_that_fails(project):
    names = ("metrics/report.md", "metrics/report/judges.md", "metrics/figures/refusal.svg")
    before = {name: (project.folder / name).read_bytes() for name in names}
    params = project.params()
    project.set_params({**params, "decisions": {**params["decisions"], "reference": "gone"}})
    done = project.run("dvc", "repro")
    assert done.returncode != 0
    assert "decisions.reference must be a model of the grid: one" in done.stdout + done.stderr
    assert {name: (project.folder / name).read_bytes() for name in names} == before
    project.set_params(params)


def test_what_was_not_judged_is_of_all_answers_that_are_counted(tmp_path, capsys):
    project = Project.create(
        tmp_path / "project", {"one": RECORDED}, {"alpha": suite_rows("alpha", 2, 1)}, report=False
    )
    project.put(
        {"perturbations": {"loud": {"kind": "upper"}}, "suites.alpha.perturbations": ["loud"]}
    )
    project.record(alpha=[NO] * 3)
    project.compute()
    assert "aggregate@one: 6 answers of 1 suite counted, 3 not judged in" in capsys.readouterr().out
