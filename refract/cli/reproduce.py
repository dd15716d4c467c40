"""``refract reproduce``: results made again from what is in git, and compared byte for byte."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refract.core.errors import RefractError, UsageError
from refract.core.showing import say
from refract.core.types import Row

SHOWN = 160
# The providers' own keys, which --allow-host allows with the server.
KEYS = ("ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_API_KEY")


def reproduce(
    what: Annotated[str, typer.Argument()] = "HEAD",
    exec_: Annotated[bool, typer.Option("--exec")] = False,
    regenerate: bool = False,
    allow_host: list[str] | None = None,
) -> None:
    """Print the commands that make results again; with --exec, make them and compare.

    Exits with 1 if anything differs. Answers of local models that are recorded are verified, not
    generated again.

    Example: refract reproduce HEAD --exec

    Args:
        what: A git revision, or a results file of `refract run`.
        exec_: Run the commands and compare every byte.
        regenerate: With --exec: generate again also the answers that are recorded.
        allow_host: With --exec of a results file: a server (https://…) that gets prompts and the
          provider's key, besides those of params.yaml. Repeatable; any other is asked for.
    """
    from refract.project import project_root
    from refract.results.differences import FILES
    from refract.results.sources import read_run, resolve_commit

    if Path(what).is_file():
        results = read_run(Path(what), edited=True)
        command, made = results.get("command"), results["provenance"] or {}
        known = isinstance(command, list) and all(isinstance(word, str) for word in command)
        if regenerate:
            raise UsageError(f"{what}: --regenerate is for revisions")
        if not known or "definition" not in (made.get("model") or {}):
            raise UsageError(f"{what}: names no command and model")
        if exec_:
            raise typer.Exit(_run_again(Path(what), results, allow_host or []))
        say(shlex.join(["refract", *results["command"], "--out", "results.json"]))
        return
    root = project_root()
    commit = resolve_commit(root, what)
    if commit is None:
        raise UsageError(f"{what!r} is not a git revision or a results file")
    if exec_:
        with _worktree(root, commit) as folder:
            raise typer.Exit(_rebuild(root, folder, regenerate=regenerate))
    for line in (
        f"git worktree add --detach ../refract-{commit[:9]} {commit}",
        f"cd ../refract-{commit[:9]}",
        "make setup",
        "rm -r metrics dvc.lock",  # what is there already would not be made again
        "REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro",
        f"git diff --exit-code -- {shlex.join(FILES)} && echo identical",
    ):
        say(line)


# A revision


@contextlib.contextmanager
def _worktree(root: Path, commit: str) -> Iterator[Path]:
    """The project at a commit, checked out into a temporary folder."""
    from refract.core.environment import git

    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        tree = Path(temporary) / "worktree"
        if git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit) is None:
            raise RefractError(f"git could not check out {commit[:9]} into a worktree")
        try:
            yield tree / (git(root, "rev-parse", "--show-prefix") or "").strip()
        finally:
            git(root, "worktree", "remove", "--force", str(tree))


def _rebuild(root: Path, folder: Path, *, regenerate: bool) -> int:
    """Makes the results of the commit in ``folder`` again and says what differs; the exit code.

    Models that run here answer with an empty store; whatever is still asked after that (served models,
    judges that are models) has the user's own, so that nothing that was paid for is paid twice.
    """
    from refract.core.environment import git
    from refract.core.params import read_yaml
    from refract.models.answering import ANSWERS
    from refract.results.differences import FILES, causes_since_head
    from refract.results.sources import ResultsError

    def committed(path: str) -> str:
        return git(folder, "show", f"HEAD:./{path}") or ""

    count = len((git(folder, "ls-files", "--", *FILES) or "").splitlines())
    if not count:
        raise ResultsError("it has no results: metrics/ was not committed after dvc repro")
    params = read_yaml(folder / "params.yaml")
    models = params["grid"]["models"]
    _bring_files(root, folder, params)
    with contextlib.chdir(folder):
        here = [name for name in models if _runs_here(params["models"][name])]
    in_git = [name for name in here if any((folder / ANSWERS / name).glob("*.jsonl"))]
    elsewhere = [name for name in models if name not in here]
    of_weights = [name for name in here if params["models"][name]["adapter"] == "hf"]
    for name in [] if regenerate else of_weights:
        _bring(root, folder, Path("data/responses", name))
    recorded = [name for name in of_weights if any((folder / "data").glob(f"*/{name}/*.jsonl"))]
    kept = [] if regenerate else [name for name in here if name in {*in_git, *recorded}]
    for label, names in (
        ("generated again, with an empty store", [name for name in here if name not in kept]),
        ("from recorded answers, unless with --regenerate", kept),
        ("from stored answers, since it cannot be run here", elsewhere),
    ):
        if names:
            say(f"{label}: {', '.join(names)}", flush=True)
    for name in in_git if regenerate else ():
        shutil.rmtree(folder / ANSWERS / name)
        (folder / ANSWERS / name).mkdir()  # DVC needs what a stage depends on
    for name in elsewhere:
        _bring(root, folder, Path("data/responses", name))
    wrong = [line for name in kept if name in of_weights for line in verify_recorded(folder, name)]
    shutil.rmtree(folder / "metrics")
    (folder / "dvc.lock").unlink(missing_ok=True)
    if here:
        store = {"REFRACT_CACHE": str(folder.parent / "store")}
        _dvc_repro(folder, [f"model-inference@{name}" for name in here], store)
    _dvc_repro(folder, [], {})
    changed = git(folder, "diff", "--name-only", "--relative", "-z", "--", *FILES) or ""
    differences = wrong
    for path in changed.split("\0")[:-1]:
        made = folder / path
        now = made.read_text("utf-8") if made.is_file() else ""
        differences.append(f"{path}: {first_difference(committed(path), now)}")
    causes = causes_since_head(folder, models)
    say(f"{count} files of metrics compared, which name prompts, responses and verdicts by hash")
    return _tell(differences, causes)


def verify_recorded(folder: Path, name: str) -> list[str]:
    """Verifies the recorded answers of a project's local model and says how many hold; a line for each
    that does not. Where its weights are not here, says so."""
    from refract.cli.verify import recorded_answers, show, verified
    from refract.models.protocol import AdapterError
    from refract.project import read_project

    with contextlib.chdir(folder):
        project = read_project(Path())
        try:
            found = list(verified(recorded_answers(name, project), None, project))
        except AdapterError as error:
            say(f"not verified: {error}")
            return []
    show(found)
    failed = ((suite.suite, failure) for suite in found for failure in suite.failures)
    return [f"answer {name} {suite} {x['prompt_id']}: {x['problem']}" for suite, x in failed]


def _runs_here(definition: Mapping[str, Any]) -> bool:
    """Whether a model's answers can be made again on this machine, in the current folder."""
    from refract.models import identity_of, open_model
    from refract.models.protocol import AdapterError

    try:
        model = open_model("model", dict(definition))
        identity_of(model)
    except (AdapterError, OSError):
        return False  # its weights or its file are not here
    return model.runs_here


def _bring_files(root: Path, folder: Path, params: Row) -> None:
    """Copies what params.yaml names and git does not hold (imported suites, answers, weights)."""
    from refract.project.inputs import named_path, texts_of

    used = [params[axis][name] for axis, names in params["grid"].items() for name in names]
    for _, key, text in texts_of([*used, *params["judges"].values()]):
        path = named_path(key, text)
        if path is not None and _bring(root, folder, path):
            say(f"not in git, taken from this checkout: {path}")


def _bring(root: Path, folder: Path, path: Path) -> bool:
    source, target = root / path, folder / path
    if path.is_absolute() or ".." in path.parts or target.exists() or not source.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    return True


def _dvc_repro(folder: Path, targets: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs the pipeline of a worktree with its own code."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), **environment}
    command = ["dvc", "repro", *targets]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
        raise RefractError("the pipeline failed:\n" + "\n".join(f"  {line}" for line in lines))


# A results file of `refract run`


def _run(command: Sequence[str], out: Path, hosts: Sequence[str], store: Mapping[str, str]) -> None:
    """Runs a results file's command, which may be anybody's. What the definitions of the user's own
    project need is allowed, and the ``hosts``; for each further server the user is asked. Raises
    :class:`UsageError` where it needs more, :class:`RefractError` where it fails."""
    from refract.core.consent import NEEDED, VARIABLE
    from refract.project import find_project

    NEEDED.clear()
    find_project()
    allowed = set(NEEDED)
    for host in hosts:
        allowed.add(f"send prompts to {host.rstrip('/')}")
        allowed |= {f"send prompts and the key in {key} to {host.rstrip('/')}" for key in KEYS}
    program = [sys.executable, "-P", "-c", "from refract.cli import main; main()"]
    while not out.is_file():
        env = {**os.environ, **store, VARIABLE: json.dumps(sorted(allowed))}
        words = [*program, *command, "--out", str(out)]
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        needed = re.search(r"^refract: not allowed: (.+)$", done.stderr, re.M)
        if needed is None:
            if not out.is_file():
                raise RefractError(f"the run failed: {done.stderr.strip()[-2000:]}")
        elif not needed[1].startswith("send ") or needed[1] in allowed:
            what = f"the file asks to {needed[1]}, which your params.yaml does not name; if you"
            raise UsageError(f"{what} trust it, run the command that is printed without --exec")
        else:
            say(f"the file asks to {needed[1]}, which params.yaml and --allow-host do not name")
            typer.confirm("allow it?", abort=True)
            allowed.add(needed[1])


def _run_again(path: Path, results: Row, hosts: Sequence[str]) -> int:
    """Runs a results file's command, without stored answers where the model runs here; the exit code."""
    from refract.core.progress import read_object
    from refract.core.registry import find
    from refract.models import ADAPTERS
    from refract.results.differences import input_differences, run_differences
    from refract.results.sources import read_run

    command, definition = results["command"], results["provenance"]["model"]["definition"]
    if command[:1] != ["run"] or any(re.match("--(out|rows)(=|$)", word) for word in command):
        raise UsageError(f"{path}: its command is not `refract run` without --out and --rows")
    adapter = definition.get("adapter")
    here = adapter in ADAPTERS and find(ADAPTERS, adapter, "adapter").runs_here
    if not here:
        say("from stored answers, since it cannot be run here")
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        new = Path(temporary) / "new.json"
        _run(command, new, hosts, {"REFRACT_CACHE": "off"} if here else {})
        made = read_run(new)
        # Without the provenance, which another version of a library moves alone.
        no_hash = dict.fromkeys(("provenance", "sha256"))
        texts = [json.dumps({**side, **no_hash}, indent=1) for side in (results, made)]
        pairs = {path.name: texts}
        if (outcomes := path.with_suffix(".outcomes.csv")).is_file():
            files = (outcomes, new.with_suffix(".outcomes.csv"))
            pairs[outcomes.name] = [file.read_text("utf-8") for file in files]
        ran = (read_object(file.with_suffix(".ran.json")) for file in (path, new))
        causes = input_differences(results["provenance"], made["provenance"])
        causes += run_differences(*ran)
    say(f"{path}: {' and '.join(pairs)} compared")
    differences = [f"{name}: {first_difference(*pair)}" for name, pair in pairs.items()]
    return _tell([line for line in differences if not line.endswith(": ")], causes)


# What differs


def _tell(differences: Sequence[str], causes: Sequence[str]) -> int:
    """Prints each difference and what may explain it; the exit code."""
    if not differences:
        say(f"byte-identical{', though these inputs differ:' if causes else ''}")
    for line in differences:
        say(f"DIFFERENT {line}")
    for cause in causes:
        say(f"CAUSE? {cause}" if differences else f"  {cause}")
    if differences and not causes:
        say(
            "CAUSE? none of suites, judges, models, library versions and what is known of the machine "
            "differs; what is left are files edited after they were made"
        )
    return int(bool(differences))


def first_difference(old: str, new: str) -> str:
    """The first line that differs between two texts, as text for people; "" where none does."""
    before, after = old.split("\n"), new.split("\n")
    for number, pair in enumerate(itertools.zip_longest(before, after), 1):
        if pair[0] != pair[1]:
            cut = (x and (x if len(x) <= SHOWN else f"{x[:SHOWN]}…") for x in pair)
            was, now = ("nothing" if line is None else repr(line) for line in cut)
            return f"line {number}: was {was}, now {now}"
    return ""
