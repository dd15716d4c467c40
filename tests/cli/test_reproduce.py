"""Results are made again from what is in git, and a difference is named down to its row."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from refract.cli import app, rebuild
from refract.core.jsonl import read_rows, write_rows
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.models.synthetic import REFUSALS
from refract.results.differences import (
    first_difference,
    folder_differences,
    input_differences,
    locked_outputs,
)
from tests.builders import NO, ROOT, YES, Project, suite_rows

SCHEMA = json.loads((ROOT / "refract/results/provenance.schema.json").read_text("utf-8"))


def answers(folder: Path, refused: int) -> None:
    write_rows(
        folder / "data/recorded/answers.jsonl",
        [{"id": f"alpha-{n:02d}", "response": NO if n < refused else YES} for n in range(8)],
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """The pipeline of two models and one suite, run once and committed."""
    project = Project.create(
        tmp_path_factory.mktemp("reproduce") / "project",
        {
            "answers": {"adapter": "recorded", "path": "data/recorded/answers.jsonl"},
            "sampling": {"adapter": "synthetic", "refusal_rate": 0.5, "temperature": 1},
        },
        {"alpha": suite_rows("alpha", 4, 4)},
    )
    answers(project.folder, 4)
    project.repro()
    project.commit("results")
    return project


def refract(folder: Path, *arguments: object):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_head_of_a_clean_clone_is_made_again_to_the_byte(project, tmp_path):
    project.command("git", "clone", "--quiet", str(project.folder), str(tmp_path / "clone"))
    done = refract(tmp_path / "clone", "reproduce", "--exec")
    assert done.exit_code == 0, done.output
    assert "generated again, with an empty store: answers, sampling" in done.stdout
    metrics = project.folder / "metrics"
    files = len([p for p in metrics.rglob("*") if p.is_file() and p.parent.name != "ran"])
    outputs = len(locked_outputs(project.folder / "dvc.lock"))
    assert outputs >= 7  # prompts; responses, verdicts and failures of each model
    assert f"{files} files of metrics and {outputs} outputs" in done.stdout
    assert done.stdout.endswith("byte-identical\n")
    # The worktree is gone, and the clone is as it was.
    clone = Project(tmp_path / "clone")
    assert clone.command("git", "worktree", "list").count("\n") == 1
    assert clone.command("git", "status", "--porcelain") == ""


def test_a_difference_is_named_down_to_the_row_and_the_input(project, tmp_path):
    stale = project.copy(tmp_path / "stale")
    answers(stale.folder, 3)
    stale.commit("other answers, and the numbers of the ones before")
    done = refract(stale.folder, "reproduce", "HEAD", "--exec", "--model", "answers")
    assert done.exit_code == 1
    lines = done.stdout.split("\n")
    (outcome,) = (line for line in lines if line.startswith("DIFFERENT metrics/outcomes"))
    assert "metrics/outcomes/answers.csv: line 5: was 'alpha,alpha-03,alpha-03,harmful," in outcome
    assert re.search(r"refusal,[^']*', now 'alpha,alpha-03,.*compliance,", outcome)
    (response,) = (
        line for line in lines if line.startswith("DIFFERENT data/responses/answers/alpha.jsonl")
    )
    assert "line 1: was " in response  # the file's hash is part of each request's
    causes = [line for line in lines if line.startswith("CAUSE?")]
    assert causes[0].startswith("CAUSE? answers: model identity.sha256: ")
    assert "sampling" not in done.stdout


def test_a_model_that_cannot_be_run_here_is_made_of_stored_answers(project, tmp_path, monkeypatch):
    monkeypatch.setattr(rebuild, "runs_here", lambda definition: False)
    copy = project.copy(tmp_path / "copy")
    done = refract(copy.folder, "reproduce", "--exec", "--model", "sampling")
    assert done.exit_code == 0, done.output
    assert "from stored answers, since it cannot be run here: sampling" in done.stdout
    assert "not in git, taken from this checkout: data/responses/sampling" in done.stdout


def test_answers_in_git_are_made_again_and_what_differs_is_counted_with_the_rates_it_moves(
    project, tmp_path
):
    kept = project.copy(tmp_path / "kept")
    responses = kept.folder / "data/responses/sampling"
    rows = read_rows(responses / "alpha.jsonl")
    said = next(n for n, row in enumerate(rows[:4]) if row["response"] in REFUSALS)
    other = Answer(YES, "stop")
    rows[said] = dict(answer_row(rows[said]["request_sha256"], other, rows[said]["prompt_id"]))
    write_rows(kept.folder / "data/answers/sampling/alpha.jsonl", rows)
    shutil.rmtree(kept.cache)
    shutil.rmtree(responses)
    shutil.rmtree(kept.folder / ".dvc/cache")
    (kept.folder / "dvc.lock").unlink()
    kept.repro()
    kept.commit("answers in git, one of them changed")
    same = refract(kept.folder, "reproduce", "HEAD", "--exec")
    assert same.exit_code == 0, same.output
    assert "from the answers in git, unless with --regenerate: sampling" in same.stdout
    again = refract(kept.folder, "reproduce", "HEAD", "--exec", "--regenerate")
    assert again.exit_code == 1
    assert "sampling: 1 of 8 answers differ from those in git\n" in again.stdout
    held = json.loads((kept.folder / "metrics/sampling.json").read_text("utf-8"))["alpha"]
    before = json.loads((project.folder / "metrics/sampling.json").read_text("utf-8"))["alpha"]
    moved = "harmful_refusal_rate"
    assert held[moved] < before[moved]
    assert f"sampling: alpha {moved}: {held[moved]} -> {before[moved]}\n" in again.stdout


def test_the_commands_are_printed_for_the_commit_that_is_meant(project):
    commit = project.command("git", "rev-parse", "HEAD").strip()
    short = commit[:9]
    done = refract(project.folder, "reproduce")
    assert done.stdout.split("\n")[:-1] == [
        f"git worktree add --detach ../refract-{short} {commit}",
        f"cd ../refract-{short}",
        "make setup",
        "rm -r metrics dvc.lock",
        "REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro",
        "git diff --exit-code -- metrics ':!metrics/ran' && echo identical",
    ]
    assert (
        "dvc repro aggregate@answers"
        in refract(project.folder, "reproduce", "--model", "answers").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "'nowhere' is not a git revision or a results file"),
        (("HEAD", "--model", "third"), "'third' is not in the grid of HEAD: answers, sampling"),
        (("params.yaml",), "params.yaml: cannot be read"),
        (("HEAD~1", "--exec"), "has no results: metrics/ was not committed after dvc repro"),
    ],
)
def test_what_cannot_be_made_again_is_refused_with_the_reason(project, arguments, message):
    done = refract(project.folder, "reproduce", *arguments)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)


@pytest.fixture
def run(project, tmp_path) -> Path:
    out = tmp_path / "r.json"
    other = tmp_path / "aardvark.jsonl"
    write_rows(other, suite_rows("aardvark", 4, 4))
    done = refract(
        project.folder,
        *("run", "--adapter", "synthetic", "--set", "refusal_rate=0.5", "--temperature", 1),
        # Not in the order of their names.
        *("--set", "drift=0.5", "--suite", "alpha", "--suite", other, "--seed", 3),
        *("--sample", 6, "--out", out),
    )
    assert done.exit_code == 0, done.exception
    return out


def test_a_run_goes_through_reproduce_and_back(project, run, tmp_path):
    done = refract(project.folder, "reproduce", run, "--exec")
    assert (done.exit_code, done.stdout.split("\n")[1]) == (0, "byte-identical"), done.output
    command = shlex.split(refract(project.folder, "reproduce", run).stdout)
    assert command[:2] == ["refract", "run"]
    command[command.index("results.json")] = str(tmp_path / "again.json")
    assert refract(project.folder, *command[1:]).exit_code == 0
    assert (tmp_path / "again.json").read_bytes() == run.read_bytes()
    assert (tmp_path / "again.outcomes.csv").read_bytes() == run.with_suffix(
        ".outcomes.csv"
    ).read_bytes()


def test_a_run_on_a_suite_that_changed_names_the_suite(project, run, tmp_path):
    copy = project.copy(tmp_path / "copy")
    for n in range(8):
        copy.rewrite("data/suites/alpha.jsonl", f"alpha: question {n}", f"alpha: other {n}")
    done = refract(copy.folder, "reproduce", run, "--exec")
    assert done.exit_code == 1
    assert "DIFFERENT r.outcomes.csv: line 2: was 'alpha,alpha-0" in done.stdout
    assert "CAUSE? suite alpha[sampled 6/8, seed=3].prompts_sha256: " in done.stdout


def test_other_libraries_are_named_where_the_numbers_are_the_same(project, run):
    results = json.loads(run.read_text())
    results["provenance"]["run"]["libraries"]["torch"] = "1.0"
    run.write_text(json.dumps(results))
    done = refract(project.folder, "reproduce", run, "--exec")
    assert done.exit_code == 0
    assert "byte-identical numbers, though these inputs differ:" in done.stdout
    assert "  library torch: 1.0 → " in done.stdout


def test_provenance_keeps_to_its_schema(project, run):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for path in (project.folder / "metrics/provenance").glob("*.json"):
        validator.validate(json.loads(path.read_text("utf-8")))
    held = json.loads(run.read_text("utf-8"))["provenance"]
    validator.validate(held)
    del held["suites"]["alpha[sampled 6/8, seed=3]"]["sha256"]
    with pytest.raises(jsonschema.ValidationError, match="'sha256' is a required property"):
        validator.validate(held)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (b"a\nb\nc\n", b"a\nx\nc\n", "line 2: was 'b', now 'x'"),
        (b"a\nb\n", b"a\n", "line 2: was 'b', now ''"),
        (b"a", b"a\nb", "line 2: was not there"),
        (b"a\nb", b"a", "line 2: is missing now"),
        (b"a\r\n", b"a\n", "line 1: was 'a\\r', now 'a'"),
        (b"\xff\x1b[0m", b"", "line 1: was '\\ufffd\\x1b[0m', now ''"),
    ],
)
def test_the_first_line_that_differs_is_shown_inertly(old, new, shown):
    assert first_difference(old, new) == shown


def test_folders_are_compared_file_by_file(tmp_path):
    for name, files in (("a", {"x": "1\n2", "y": ""}), ("b", {"x": "1\n3", "z/w": ""})):
        for path, text in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_text(text)
    assert folder_differences(tmp_path / "a", tmp_path / "b") == [
        "x line 2: was '2', now '3'",
        "y is missing now",
        "z/w was not there",
    ]
    assert folder_differences(tmp_path / "a/x", tmp_path / "b/x") == [" line 2: was '2', now '3'"]


def test_inputs_are_named_in_the_order_in_which_they_work():
    old = {
        "suites": {"s": {"sha256": "a"}},
        "judges": {"j": {"version": "1"}},
        "model": {"seed": 1},
    }
    new = {
        "suites": {"s": {"sha256": "b"}},
        "judges": {"j": {"version": "2"}},
        "model": {"seed": 2},
    }
    assert input_differences(old, new, {"torch": "1", "absent": "1"}, {"torch": "2"}) == [
        'suite s.sha256: "a" → "b"',
        'judge j.version: "1" → "2"',
        "model seed: 1 → 2",
        "library torch: 1 → 2",
    ]
