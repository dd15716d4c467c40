"""Results are made again from what is in git, and a difference is named down to its row."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.jsonl import read_rows, write_rows
from refract.evaluate import rebuilding
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.models.synthetic import REFUSALS
from refract.results import differences
from tests.builders import NO, ROOT, YES, Project, suite_rows
from tests.fault_server import FaultServer

SCHEMA = json.loads((ROOT / "refract/results/provenance.schema.json").read_text("utf-8"))


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
        report=False,
    )
    write_rows(
        project.folder / "data/recorded/answers.jsonl",
        [{"id": f"alpha-{n:02d}", "response": NO if n < 4 else YES} for n in range(8)],
    )
    project.repro()
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
    monkeypatch.setattr(rebuilding, "runs_here", lambda model: model["adapter"] == "recorded")
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
    assert "CAUSE? none of suites, judges, models" in done.stdout
    again = refract(other.folder, "reproduce", "HEAD", "--exec", "--regenerate")
    assert again.exit_code == 0, again.output
    assert "generated again, with an empty store: answers, sampling" in again.stdout
    assert again.stdout.endswith("byte-identical\n")


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
    assert "CAUSE? suites alpha.prompts_sha256: " in done.stdout


def test_other_libraries_are_named_where_the_numbers_are_the_same(project, run):
    results = json.loads(run.read_text())
    results["provenance"]["run"]["libraries"]["torch"] = "1.0"
    run.write_text(json.dumps(results))
    done = refract(project.folder, "reproduce", run, "--exec")
    assert done.exit_code == 0
    assert "byte-identical, though these inputs differ:" in done.stdout
    assert '  run libraries.torch: "1.0" → ' in done.stdout


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
    assert rebuilding.first_difference(old, new) == line


def test_inputs_are_named_in_the_order_in_which_they_work():
    old, new = (
        {"suites": {"s": {"sha256": side, "responses_sha256": side}}, "model": {"seed": side}}
        | {"judges": {"j": {"version": side}}}
        for side in "ab"
    )
    named = ["suites s.sha256", "judges j.version", "model seed"]
    expected = [f'{name}: "a" → "b"' for name in named]
    assert differences.input_differences(old, new) == expected


KEY = "sk-mine-0123456789"


@pytest.fixture
def server(monkeypatch, tmp_path) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", "other-0123456789")
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "store"))
    with FaultServer() as server:
        yield server


def theirs(run: Path, *command: str, **definition: object) -> Path:
    """A results file as somebody else may have made it, with this command."""
    results = json.loads(run.read_text())
    results["command"] = ["run", *command]
    if definition:
        results["provenance"]["model"]["definition"] = definition
    run.write_text(json.dumps(results))
    return run


def asking(url: str, **settings: str) -> tuple[str, ...]:
    said = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ("--adapter", "openai", "--model-id", "m", "--base-url", f"{url}/v1", *said)


SUITE = ("--suite", "alpha", "--limit", "2")


@pytest.mark.parametrize(
    ("variable", "as_judge"),
    [("OPENAI_API_KEY", False), ("OTHER_KEY", False), ("null", False), ("OPENAI_API_KEY", True)],
)
def test_a_results_file_sends_no_key_and_no_prompt_to_a_server_that_the_user_does_not_name(
    project, run, server, variable, as_judge
):
    command = (*asking(server.url, api_key_env=variable), *SUITE)
    if as_judge:
        host = f"{server.url}/v1"
        command = ("--adapter", "synthetic", *SUITE, "--judge-model", "openai:m")
        command += ("--judge-base-url", host)
    done = refract(project.folder, "reproduce", theirs(run, *command), "--exec")
    key = "" if variable == "null" else f" and the key in {variable}"
    asked = f"the file asks to send prompts{key} to {server.url}, which params.yaml"
    assert asked in done.stdout
    assert (done.exit_code, server.arrived) == (1, 0)
    # With the flag prompts go there, and the provider's key, but no other.
    done = refract(project.folder, "reproduce", run, "--exec", "--allow-host", server.url)
    allowed = variable != "OTHER_KEY"
    assert (asked in done.stdout, server.arrived > 0) == (not allowed, allowed)
    sent = any(KEY in head for head in server.seen_headers)
    assert sent is (variable == "OPENAI_API_KEY")


def test_a_server_that_is_asked_for_and_allowed_gets_what_was_said(project, run, server):
    path = theirs(run, *asking(server.url), *SUITE)
    with contextlib.chdir(project.folder):
        CliRunner().invoke(app, ["reproduce", str(path), "--exec"], input="y\n")
    assert server.arrived == 2
    assert all(KEY in head for head in server.seen_headers)


def test_a_server_of_the_users_own_params_is_not_asked_for(project, run, server, tmp_path):
    copy = project.copy(tmp_path / "copy")
    mine = f"  mine: {{adapter: openai, model_id: other, base_url: '{server.url}/v2'}}"
    copy.rewrite("params.yaml", "\nmodels:\n", f"\nmodels:\n{mine}\n")
    done = refract(copy.folder, "reproduce", theirs(run, *asking(server.url), *SUITE), "--exec")
    assert ("asks to" in done.output, server.arrived) == (False, 2), done


@pytest.mark.parametrize(
    "definition",
    [
        {"adapter": "hf", "model_id": "there", "trust_remote_code": True},
        {"adapter": "stranger:Model"},
    ],
)
def test_a_results_file_runs_no_code_of_others(project, run, tmp_path, definition):
    copy = project.copy(tmp_path / "copy")
    (copy.folder / "stranger.py").write_text("open('ran', 'w')\n")
    command = ["--adapter", definition["adapter"], *SUITE]
    for key in definition.keys() - {"adapter"}:
        command += ["--set", f"{key}={json.dumps(definition[key])}"]
    path = theirs(run, *command, **definition)
    done = refract(copy.folder, "reproduce", path, "--exec")
    assert "the file asks to run the code of" in str(done.exception)
    assert not (copy.folder / "ran").exists()


@pytest.mark.parametrize(
    "command",
    [["run", "--rows", "x"], ["run", "--out=x"], ["cache", "clear"], [], ["run", ["--rows"]], None],
)
def test_a_results_file_writes_nowhere_else_and_runs_no_other_command(project, run, command):
    results = json.loads(run.read_text())
    run.write_text(json.dumps({**results, "command": command}))
    done = refract(project.folder, "reproduce", run, "--exec")
    assert done.exit_code != 0
    assert not (project.folder / "x").exists()
