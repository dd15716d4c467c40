"""The results of a commit, made again in a worktree and compared with those in git."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import git
from refract.core.errors import RefractError
from refract.core.params import read_yaml
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate.verification import recorded_answers, verify_answers
from refract.models import identity_of, open_model
from refract.models.answering import ANSWERS
from refract.models.protocol import AdapterError
from refract.models.store import open_store
from refract.project import read_project
from refract.project.inputs import named_path, texts_of
from refract.results.current import left_over, result_files
from refract.results.differences import FILES, causes_since_head
from refract.results.sources import ResultsError

RESPONSES = Path("data/responses")
SHOWN = 160  # characters of a line that differs
LOG_LINES = 12  # of a pipeline that failed


class Rebuilt(NamedTuple):
    """How many files were compared, what differs, and what may explain it."""

    files: int
    differences: list[str]
    causes: list[str]


def rebuild(root: Path, commit: str, *, regenerate: bool) -> Rebuilt:
    """Makes the results of a commit again in a temporary worktree.

    Models that run here answer with an empty store. Served models and judges that are
    models use the user's own store, so that nothing is paid for twice. With
    ``regenerate`` recorded answers are generated too. Raises :class:`RefractError`.
    """
    with _worktree(root, commit) as folder:
        files = (git(folder, "ls-files", "--", *FILES) or "").splitlines()
        if not files:
            raise ResultsError("it has no results: metrics/ was not committed after dvc repro")
        params = read_yaml(folder / "params.yaml")
        models, names = params["models"], params["grid"]["models"]
        # What params.yaml names and git does not hold: imported suites, answers, weights.
        definitions = list(params["judges"].values())
        for axis, wanted in params["grid"].items():
            definitions += [params[axis][name] for name in wanted]
        for _, key, text in texts_of(definitions):
            path = named_path(key, text)
            if path is not None and _copy(root, folder, path):
                say(f"not in git, taken from this checkout: {path}")
        again, recorded = _bring_answers(root, folder, models, names=names, regenerate=regenerate)
        differences = []
        for name in recorded:
            if models[name]["adapter"] == "hf":
                differences += verify_recorded(folder, name)
        kept: set[Path] = set()
        for name in left_over(folder, names):
            kept.update(folder / file for file in result_files(name))
        for path in sorted((folder / "metrics").rglob("*")):
            if path.is_file() and path not in kept:
                path.unlink()
        (folder / "dvc.lock").unlink(missing_ok=True)
        if again or recorded:
            targets = [f"model-inference@{name}" for name in again + recorded]
            _dvc_repro(folder, targets, {"REFRACT_CACHE": str(folder.parent / "store")})
        _dvc_repro(folder, [], {})
        changed = git(folder, "diff", "--name-only", "--relative", "-z", "--", *FILES) or ""
        for name in changed.split("\0")[:-1]:
            committed = git(folder, "show", f"HEAD:./{name}") or ""
            file = folder / name
            now = file.read_text("utf-8") if file.is_file() else ""
            differences.append(f"{name}: {first_difference(committed, now)}")
        causes = causes_since_head(folder, names)
    return Rebuilt(len(files), differences, causes)


@contextlib.contextmanager
def _worktree(root: Path, commit: str) -> Iterator[Path]:
    """The project at a commit, checked out into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        tree = Path(temporary) / "worktree"
        if git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit) is None:
            raise RefractError(f"git could not check out {commit[:9]} into a worktree")
        try:
            yield tree / (git(root, "rev-parse", "--show-prefix") or "").strip()
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def _bring_answers(
    root: Path, folder: Path, models: Row, names: Sequence[str], regenerate: bool
) -> tuple[list[str], list[str]]:
    """Puts the answers that are not to be generated where the worktree's pipeline
    finds them, and takes away those that are. Returns the models that answer again, and
    those whose answers are recorded; of others they are stored."""
    again: list[str] = []
    recorded: list[str] = []
    stored: list[str] = []
    for name in names:
        with contextlib.chdir(folder):
            here = runs_here(models[name])
        in_git = any((folder / ANSWERS / name).glob("*.jsonl"))
        local = models[name]["adapter"] == "hf"
        if not here:
            stored.append(name)
            _copy(root, folder, RESPONSES / name)
        elif regenerate:
            again.append(name)
            if in_git:
                shutil.rmtree(folder / ANSWERS / name)
                (folder / ANSWERS / name).mkdir()  # DVC needs what a stage depends on
        else:
            if local:
                _copy(root, folder, RESPONSES / name)
            has_answers = in_git or (local and any((folder / "data").glob(f"*/{name}/*.jsonl")))
            (recorded if has_answers else again).append(name)
    for text, group in (
        ("generated again, with an empty store", again),
        ("from recorded answers, unless with --regenerate", recorded),
        ("from stored answers, since it cannot be run here", stored),
    ):
        if group:
            say(f"{text}: {', '.join(group)}", flush=True)
    return again, recorded


def verify_recorded(folder: Path, name: str) -> list[str]:
    """Verifies the recorded answers of a project's local model, and prints how many
    hold, or that the weights are not here. Returns a line for each answer that does
    not hold."""
    with contextlib.chdir(folder):
        project = read_project(Path())
        try:
            with open_store() as store:
                recorded = recorded_answers(name, project)
                suites = list(verify_answers(recorded, None, project, store=store))
        except AdapterError as error:
            say(f"not verified: {error}")
            return []
    lines = []
    for suite in suites:
        say(suite)
        for failure in suite.failures:
            lines.append(
                f"answer {name} {suite.suite} {failure['prompt_id']}: {failure['problem']}"
            )
        if not (suite.passed or suite.failures):
            lines.append(f"answers {name} {suite}")
    return lines


def runs_here(definition: Mapping[str, Any]) -> bool:
    """Whether a model's answers can be made again on this machine, in the current
    folder."""
    try:
        model = open_model("model", dict(definition))
        identity_of(model)
    except (AdapterError, OSError):
        return False  # its weights or its file are not here
    return model.runs_here


def _copy(root: Path, folder: Path, path: Path) -> bool:
    """Copies a file or folder of the checkout into the worktree, unless it is there."""
    source, target = root / path, folder / path
    if path.is_absolute() or ".." in path.parts or target.exists() or not source.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
    return True


def _dvc_repro(folder: Path, targets: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs the pipeline of a worktree with its own code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), **environment}
    command = ["dvc", "repro", *targets]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-LOG_LINES:]
        raise RefractError("the pipeline failed:\n  " + "\n  ".join(lines))


def first_difference(old: str, new: str) -> str:
    """The first line that differs between two texts, as text for people; "" where
    none does."""
    pairs = itertools.zip_longest(old.split("\n"), new.split("\n"))
    for number, (before, after) in enumerate(pairs, 1):
        if before != after:
            return f"line {number}: was {_line(before)}, now {_line(after)}"
    return ""


def _line(line: str | None) -> str:
    if line is None:
        return "nothing"
    return repr(line if len(line) <= SHOWN else f"{line[:SHOWN]}…")
