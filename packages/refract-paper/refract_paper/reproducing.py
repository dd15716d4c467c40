"""``refract reproduce``: results made again, and compared with those in git."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from refract.core.environment import git
from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import has_form
from refract.core.params import load_definitions, read_yaml
from refract.core.showing import say
from refract.core.types import Row
from refract.judges import read_judge
from refract.judges.cases import asks_model
from refract.models import identity_of, open_model
from refract.models.answering import ANSWERS
from refract.models.protocol import AdapterError
from refract.project import project_root
from refract.project.inputs import named_path, texts_of
from refract.results.current import left_over, result_files
from refract.results.sources import ResultsError, read_run, resolve_commit

RESPONSES = Path("data/responses")
# What is compared byte by byte: provenance has the hashes of prompts, responses and verdicts.
FILES = ("metrics", ":!metrics/ran")
SHOWN = 160  # characters of a line that differs
LOG_LINES = 12  # of a pipeline that failed
GENERATED = "generated again, with an empty store"
RECORDED = "from recorded answers, unless with --regenerate"
STORED = "from stored answers, since it cannot be run here"
NOT_STORED = (
    "would ask, since not all is stored here; `dvc pull` brings answers that were pushed, though no "
    "judge's replies; --ask asks, and pays"
)
# Run by a worktree's own code: a command in which served models refuse to ask, and end it so.
MISSING = 66
ASKING_NOTHING = f"""
import os, sys
from refract.cli import main
from refract.core.registry import find
from refract.models import ADAPTERS
from refract.models.provider import Provider
def refuse(model, requests):
    first = "/".join(filter(None, map(requests[0].metadata.get, ("suite", "prompt_id"))))
    print(len(requests), "answers are missing" + (first and ", the first to ") + first, flush=True)
    os._exit({MISSING})
for name in ADAPTERS:
    kind = find(ADAPTERS, name, "adapter")
    if issubclass(kind, Provider):
        kind.answer = refuse
main()
"""


def reproduce(
    what: Annotated[
        str, Argument(help="A git revision, or a results file of `refract run`.")
    ] = "HEAD",
    exec_: Annotated[
        bool, Option("--exec", help="Of a revision: run the commands and compare every byte.")
    ] = False,
    regenerate: Annotated[
        bool, Option(help="With --exec: generate again also the answers that are recorded.")
    ] = False,
    ask: Annotated[
        bool, Option(help="With --exec: ask, and pay, for answers and replies that are not stored.")
    ] = False,
) -> None:
    """Print the commands that make results again; with --exec, make them and compare.

    Exits with 1 if anything differs. The command of a results file, which may be anybody's, is
    printed alone.

    Example: refract reproduce HEAD --exec
    """
    if Path(what).is_file():
        command: Any = read_run(Path(what), edited=True).get("command")
        if not has_form(command, [str]) or command[:1] != ["run"]:
            raise UsageError(f"{what}: names no command of refract run")
        if exec_ or regenerate or ask:
            raise UsageError(
                f"--exec is for revisions: the command of {what} may be anybody's; read and run it"
            )
        say(shlex.join(["refract", *command, "--out", "results.json"]))
        return
    root = project_root()
    commit = resolve_commit(root, what)
    if commit is None:
        raise UsageError(f"{what!r} is not a git revision or a results file")
    if not exec_:
        say(f"git worktree add --detach ../refract-{commit[:9]} {commit}")
        say(f"cd ../refract-{commit[:9]}")
        own = "PATH=$PWD/.venv/bin:$PATH " if (root / "Makefile").is_file() else ""
        if own:
            say("make setup")
        say("rm -r metrics dvc.lock")  # what is there already would not be made again
        say(f"REFRACT_CACHE=off {own}dvc repro --no-run-cache")
        say(f"git diff --exit-code -- {shlex.join(FILES)} && echo identical")
        return
    files, differences = rebuild(root, commit, regenerate=regenerate, ask=ask)
    say(f"{files} files of metrics compared, which name prompts, responses and verdicts by hash")
    for line in differences:
        say(f"DIFFERENT {line}")
    if not differences:
        say("byte-identical")
    raise typer.Exit(int(bool(differences)))


def rebuild(root: Path, commit: str, *, regenerate: bool, ask: bool) -> tuple[int, list[str]]:
    """Makes the results of a commit again in a temporary worktree. Returns how many files were compared,
    and a line for each that differs.

    Models that run here answer with an empty store. Served models and judges that are
    models use the user's own store, and are asked what it lacks only where they may ``ask``. With
    ``regenerate`` recorded answers are generated too. Raises :class:`RefractError`."""
    with _worktree(root, commit) as folder:
        params = read_yaml(folder / "params.yaml")
        names = params["grid"]["models"]
        left = left_over(folder, names)
        other = [file for name in left for file in result_files(name)]
        listed = (git(folder, "ls-files", "-z", "--", *FILES) or "").split("\0")[:-1]
        files = [file for file in listed if file not in other]
        if not files:
            raise ResultsError("it has no results: metrics/ was not committed after dvc repro")
        if left:
            say(f"not made again, since the grid does not name them: {', '.join(left)}")
        _bring_files(root, folder, params)
        ways = _bring_answers(root, folder, params["models"], names=names, regenerate=regenerate)
        differences = []
        for path in (folder / "metrics").rglob("*"):
            if path.is_file() and path.relative_to(folder).as_posix() not in other:
                path.unlink()
        (folder / "dvc.lock").unlink(missing_ok=True)
        targets = [f"model-inference@{name}" for name in ways[GENERATED] + ways[RECORDED]]
        targets = targets or ["generate-perturbations"]
        _dvc_repro(folder, targets, {"REFRACT_CACHE": str(folder.parent / "store")})
        if not ask:
            _check_stored(folder, params, ways[STORED])
        _dvc_repro(folder, [], {})
        changed = git(folder, "diff", "--name-only", "--relative", "-z", "--", *FILES) or ""
        for name in changed.split("\0")[:-1]:
            now = (folder / name).read_text("utf-8") if (folder / name).is_file() else ""
            line = first_difference(git(folder, "show", f"HEAD:./{name}") or "", now)
            differences.append(f"{name}: {line}")
        return len(files), differences


@contextlib.contextmanager
def _worktree(root: Path, commit: str) -> Iterator[Path]:
    """The project at a commit, checked out into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        tree = Path(temporary) / "worktree"
        if git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit) is None:
            raise RefractError(f"git could not check out {commit[:9]} into a worktree")
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # it clears up, too
        try:
            yield tree / (git(root, "rev-parse", "--show-prefix") or "").strip()
        finally:
            signal.signal(signal.SIGTERM, before)
            git(root, "worktree", "remove", "--force", str(tree))


def _bring_files(root: Path, folder: Path, params: Row) -> None:
    """Copies what params.yaml names and git does not hold: imported suites, answers, weights."""
    definitions = list(params["judges"].values())
    for axis, wanted in params["grid"].items():
        definitions += [params[axis][name] for name in wanted]
    for _, key, text in texts_of(definitions):
        path = named_path(key, text)
        if path is not None and _copy(root, folder, path):
            say(f"not in git, taken from this checkout: {path}")


def _bring_answers(
    root: Path, folder: Path, models: Mapping[str, Row], names: Sequence[str], regenerate: bool
) -> dict[str, list[str]]:
    """Puts the answers that are not to be generated where the worktree's pipeline finds
    them, and takes away those that are. Returns the models by how they answer."""
    ways: dict[str, list[str]] = {GENERATED: [], RECORDED: [], STORED: []}
    for name in names:
        answers = folder / ANSWERS / name
        local = models[name]["adapter"] == "hf"
        with contextlib.chdir(folder):
            here = runs_here(models[name])
        if not here or (local and not regenerate):
            _copy(root, folder, RESPONSES / name)
        recorded = [*answers.glob("*.jsonl"), *(folder / RESPONSES / name).glob("*.jsonl")]
        ways[STORED if not here else RECORDED if recorded and not regenerate else GENERATED].append(
            name
        )
        if here and regenerate and answers.is_dir():
            shutil.rmtree(answers)
            answers.mkdir()  # DVC needs what a stage depends on
    for way, group in ways.items():
        if group:
            say(f"{way}: {', '.join(group)}", flush=True)
    return ways


def runs_here(definition: Row) -> bool:
    """Whether a model's answers can be made again on this machine, in the current folder."""
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


def _check_stored(folder: Path, params: Row, models: Sequence[str]) -> None:
    """Runs the stages that would ask these models, and judges that ask a model, by stored answers
    alone. Raises :class:`RefractError` where some are missing."""
    with contextlib.chdir(folder):
        judging, measuring = (_ask(load_definitions(of)) for of in ("judges", "validated"))
    stages = [["model-inference", name] for name in models]
    stages += [["judge", name] for name in params["grid"]["models"] if judging]
    if measuring and "validate-judges" in read_yaml(folder / "dvc.yaml")["stages"]:
        stages.append(["validate-judges"])
    for stage in stages:
        command = [sys.executable, "-c", ASKING_NOTHING, "stage", *stage]
        _run(folder, command, {}, f"{' '.join(stage)} {NOT_STORED}")


def _ask(definitions: Row) -> bool:
    """Whether one of these judges asks a model."""
    return any(asks_model(read_judge(*judge)[0]) for judge in definitions["judges"].items())


def _dvc_repro(folder: Path, targets: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs the pipeline of a worktree, of which no stage is taken from what DVC has stored."""
    _run(folder, ["dvc", "repro", "--no-run-cache", *targets], environment)


def _run(
    folder: Path, command: Sequence[str], environment: Mapping[str, str], missing: str = ""
) -> None:
    """Runs a command with a worktree's own code; ``missing`` says that it lacks answers. An interrupt
    ends all that it started."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True, process_group=0
    ) as running:
        try:
            out, err = running.communicate()
        except KeyboardInterrupt:
            os.killpg(running.pid, signal.SIGTERM)
            running.communicate()
            raise
    if running.returncode:
        lines = (out + err).strip().splitlines()[-LOG_LINES:]
        problem = missing if running.returncode == MISSING else "the pipeline failed"
        raise RefractError(f"{problem}:\n  " + "\n  ".join(lines))


def first_difference(old: str, new: str) -> str:
    """The first line that differs between two texts; "" where none does."""
    pairs = itertools.zip_longest(old.split("\n"), new.split("\n"))
    for number, pair in enumerate(pairs, 1):
        if pair[0] != pair[1]:
            was, now = ("nothing" if line is None else repr(line[:SHOWN]) for line in pair)
            return f"line {number}: was {was}, now {now}"
    return ""
