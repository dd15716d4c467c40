"""Results are made again from what is in git, and a difference is named down to its row."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.jsonl import read_rows, write_rows
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.models.synthetic import REFUSALS
from refract_paper import reproducing
from tests.builders import NO, RECORDED, ROOT, SAMPLING, YES, Project, suite_rows

pytestmark = pytest.mark.slow
SCHEMA = json.loads((ROOT / "refract/results/provenance.schema.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """The pipeline of two models and one suite, run once and committed."""
    project = Project.create(
        tmp_path_factory.mktemp("reproduce") / "project",
        {"answers": RECORDED, "sampling": SAMPLING},
        {"alpha": suite_rows("alpha", 4, 4)},
        report=False,
    )
    project.record(alpha=[NO] * 4 + [YES] * 4)
    project.compute_for_dvc()
    project.commit("results")
    return project


@pytest.fixture(autouse=True)
def _forked(monkeypatch):
    """What makes results again starts the commands of :mod:`tests.forked`."""
    monkeypatch.setattr(sys, "executable", shutil.which("python"))


def refract(folder: Path, *arguments: object):
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_head_of_a_clean_clone_is_made_again_to_the_byte(project, tmp_path, monkeypatch):
    monkeypatch.setattr(reproducing, "runs_here", lambda model: model["adapter"] == "recorded")
    project.command("git", "clone", "--quiet", str(project.folder), str(tmp_path / "clone"))
    done = refract(tmp_path / "clone", "reproduce", "--exec")
    assert done.exit_code == 0, done.output
    assert "generated again, with an empty store: answers\n" in done.stdout
    assert "from stored answers, since it cannot be run here: sampling\n" in done.stdout
    metrics = project.folder / "metrics"
    files = len([p for p in metrics.rglob("*") if p.is_file() and p.parent.name != "ran"])
    assert f"{files} files of metrics compared" in done.stdout
    assert done.stdout.endswith("byte-identical\n")
    # The worktree is gone, and the clone is as it was.
    clone = Project(tmp_path / "clone")
    assert clone.command("git", "worktree", "list").count("\n") == 1
    assert clone.command("git", "status", "--porcelain") == ""


def test_results_of_a_model_outside_the_grid_are_not_counted_as_made_again(project, tmp_path):
    other = project.copy(tmp_path / "other")
    other.put({"grid.models": ["answers"]})
    other.commit("a model leaves the grid")
    done = refract(other.folder, "reproduce", "--exec")
    assert "not made again, since the grid does not name them: sampling\n" in done.stdout
    assert "4 files of metrics compared" in done.stdout  # of eight that are there
    assert done.stdout.endswith("byte-identical\n")


# Whoever asked at this address would be told that nobody is there.
SERVED = {"adapter": "openai", "model_id": "m", "base_url": "http://127.0.0.1:9/v1"}
SERVED["api_key_env"] = None


@pytest.mark.parametrize(
    ("changed", "stage", "first"),
    [
        ({"models.sampling": SERVED}, "model-inference sampling", ", the first to alpha/alpha-00"),
        ({"judges.j": {"kind": "llm_refusal", "model": SERVED}}, "judge answers", ""),
    ],
)
def test_what_is_served_is_not_asked_for_what_is_not_stored(
    project, tmp_path, monkeypatch, changed, stage, first
):
    monkeypatch.setattr(reproducing, "runs_here", lambda model: model["adapter"] != "openai")
    other = project.copy(tmp_path / "other")
    judges = {"suites.alpha.judges": ["j"]} if "judges.j" in changed else {}
    other.put({**changed, **judges})
    other.commit("something that is served")
    done = refract(other.folder, "reproduce", "--exec")
    missing = f"8 answers are missing{first}"
    assert str(done.exception) == f"{stage} {reproducing.NOT_STORED}:\n  {missing}"


def test_stages_that_a_shared_cache_holds_are_run(project, tmp_path):
    other = project.copy(tmp_path / "other")
    other.command("dvc", "config", "cache.dir", str(other.folder / ".dvc/cache"))
    other.commit("a cache that every checkout shares")
    shutil.rmtree(other.folder / ".dvc/cache/runs")
    other.rewrite("data/verdicts/answers/alpha.jsonl", '"refusal"', '"compliance"')
    other.command("dvc", "commit", "--force", "--quiet", "judge@answers")
    done = refract(other.folder, "reproduce", "--exec")
    assert done.stdout.endswith("byte-identical\n")


def test_the_signal_to_end_leaves_no_worktree(project, monkeypatch):
    def ended(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(reproducing, "_dvc_repro", ended)
    assert refract(project.folder, "reproduce", "--exec").exit_code == 130
    assert project.command("git", "worktree", "list").count("\n") == 1


def test_a_difference_is_named_down_to_the_row_and_answers_in_git_can_be_generated_again(
    project, tmp_path
):
    other = project.copy(tmp_path / "other")
    rows = read_rows(other.folder / "data/responses/sampling/alpha.jsonl")
    changed = next(n for n, row in enumerate(rows[:4]) if row["response"] in REFUSALS)
    key, id_ = rows[changed]["request_sha256"], rows[changed]["prompt_id"]
    rows[changed] = dict(answer_row(key, Answer(YES, "stop"), id_))
    write_rows(other.folder / "data/answers/sampling/alpha.jsonl", rows)
    other.commit("answers in git, of which the numbers are not")
    done = refract(other.folder, "reproduce", "HEAD", "--exec")
    assert done.exit_code == 1
    assert "from recorded answers, unless with --regenerate: sampling" in done.stdout
    (line,) = (
        line
        for line in done.stdout.split("\n")
        if line.startswith("DIFFERENT metrics/outcomes/sampling.csv: line ")
    )
    assert f"was 'alpha,{id_},{id_},harmful,," in line
    assert f"now 'alpha,{id_},{id_},harmful,," in line
    again = refract(other.folder, "reproduce", "HEAD", "--exec", "--regenerate")
    assert again.exit_code == 0, again.output
    assert "generated again, with an empty store: answers, sampling" in again.stdout
    assert again.stdout.endswith("byte-identical\n")


def test_the_commands_are_printed_for_the_commit_that_is_meant(project):
    commit = project.command("git", "rev-parse", "HEAD").strip()
    short = commit[:9]
    done = refract(project.folder, "reproduce")
    begin = [f"git worktree add --detach ../refract-{short} {commit}", f"cd ../refract-{short}"]
    end = "git diff --exit-code -- metrics ':!metrics/ran' && echo identical"
    repro = "dvc repro --no-run-cache"
    clone = ["make setup", "rm -r metrics dvc.lock"]
    clone.append(f"REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH {repro}")
    assert done.stdout.splitlines() == [*begin, *clone, end]
    (project.folder / "Makefile").unlink()  # as in a project of `refract init`
    done = refract(project.folder, "reproduce")
    own = ["rm -r metrics dvc.lock", f"REFRACT_CACHE=off {repro}"]
    assert done.stdout.splitlines() == [*begin, *own, end]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "'nowhere' is not a git revision or a results file"),
        (("params.yaml",), "params.yaml: cannot be read"),
        (("HEAD~1", "--exec"), "it has no results: metrics/ was not committed after dvc repro"),
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
        *("--limit", 6, "--out", out),
    )
    assert done.exit_code == 0, done.exception
    return out


def test_the_command_of_a_run_is_printed_and_makes_the_same_bytes(project, run, tmp_path):
    command = shlex.split(refract(project.folder, "reproduce", run).stdout)
    assert command[:2] == ["refract", "run"]
    command[command.index("results.json")] = str(tmp_path / "again.json")
    assert refract(project.folder, *command[1:]).exit_code == 0
    for ending in (".json", ".outcomes.csv"):
        again = (tmp_path / "again").with_suffix(ending)
        assert again.read_bytes() == run.with_suffix(ending).read_bytes()


STRANGER = ["run", "--adapter", "stranger:Model", "--suite", "alpha"]


@pytest.mark.parametrize("command", [STRANGER, ["init", "mine"], ["run", ["--rows"]]])
def test_a_results_file_runs_no_command(project, run, tmp_path, command):
    """Nor sends it a key or a prompt anywhere: it may be anybody's."""
    copy = project.copy(tmp_path / "copy")
    (copy.folder / "stranger.py").write_text("open('ran', 'w')\n")
    run.write_text(json.dumps({**json.loads(run.read_text()), "command": command}))
    done = refract(copy.folder, "reproduce", run, "--exec")
    assert (done.exception.exit_code, done.stdout) == (2, "")
    assert not (copy.folder / "ran").exists()
    printed = refract(copy.folder, "reproduce", run)
    assert (printed.exit_code == 0) == (command == STRANGER)


def test_provenance_keeps_to_its_schema(project, run):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for path in (project.folder / "metrics/provenance").glob("*.json"):
        validator.validate(json.loads(path.read_text("utf-8")))
    held = json.loads(run.read_text("utf-8"))["provenance"]
    validator.validate(held)
    del held["suites"]["alpha"]["sha256"]
    with pytest.raises(jsonschema.ValidationError, match="'sha256' is a required property"):
        validator.validate(held)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("a\nb\nc\n", "a\nx\nc\n", "line 2: was 'b', now 'x'"),
        ("a\nb\n", "a\n", "line 2: was 'b', now ''"),
        ("a", "a\nb", "line 2: was nothing, now 'b'"),
        ("a\nb", "a", "line 2: was 'b', now nothing"),
        ("a\r\n\x1b[0m", "a\n", "line 1: was 'a\\r', now 'a'"),
        ("a\n", "a\n", ""),
    ],
)
def test_the_first_line_that_differs_is_named(old, new, line):
    assert reproducing.first_difference(old, new) == line
