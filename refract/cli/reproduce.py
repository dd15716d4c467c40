"""``refract reproduce``: results made again from what is in git, and compared byte for byte."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer import Argument, Option

from refract.core.consent import NEEDED, VARIABLE
from refract.core.errors import RefractError, UsageError
from refract.core.progress import read_object
from refract.core.registry import find
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate.rebuilding import first_difference, rebuild
from refract.models import ADAPTERS
from refract.project import find_project, project_root
from refract.results.differences import FILES, input_differences, run_differences
from refract.results.sources import read_run, resolve_commit

# The providers' own keys, which --allow-host allows with the server.
KEYS = ("ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_API_KEY")


def reproduce(
    source: Annotated[
        str, Argument(metavar="what", help="A git revision, or a results file of `refract run`.")
    ] = "HEAD",
    exec_: Annotated[
        bool, Option("--exec", help="Run the commands and compare every byte.")
    ] = False,
    regenerate: Annotated[
        bool, Option(help="With --exec: generate again also the answers that are recorded.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        Option(
            help="With --exec of a results file: a server (https://…) that gets prompts and the "
            "provider's key, besides those of params.yaml. Repeatable."
        ),
    ] = None,
) -> None:
    """Print the commands that make results again; with --exec, make them and compare.

    Exits with 1 if anything differs. Answers of local models that are recorded are verified, not
    generated again.

    Example: refract reproduce HEAD --exec
    """
    if Path(source).is_file():
        path = Path(source)
        if regenerate:
            raise UsageError(f"{path}: --regenerate is for revisions")
        results = read_run(path, edited=True)
        command = results.get("command")
        model = (results["provenance"] or {}).get("model") or {}
        is_command = isinstance(command, list) and all(isinstance(word, str) for word in command)
        if not is_command or "definition" not in model:
            raise UsageError(f"{path}: names no command and model")
        if exec_:
            _run_again(path, results, allow_host or [])
        say(shlex.join(["refract", *results["command"], "--out", "results.json"]))
        return
    root = project_root()
    commit = resolve_commit(root, source)
    if commit is None:
        raise UsageError(f"{source!r} is not a git revision or a results file")
    if exec_:
        rebuilt = rebuild(root, commit, regenerate=regenerate)
        say(
            f"{rebuilt.files} files of metrics compared, which name prompts, responses and verdicts "
            "by hash"
        )
        _finish(rebuilt.differences, rebuilt.causes)
    say(f"git worktree add --detach ../refract-{commit[:9]} {commit}")
    say(f"cd ../refract-{commit[:9]}")
    say("make setup")
    say("rm -r metrics dvc.lock")  # what is there already would not be made again
    say("REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro")
    say(f"git diff --exit-code -- {shlex.join(FILES)} && echo identical")


def _run_again(path: Path, results: Row, hosts: Sequence[str]) -> NoReturn:
    """Runs a results file's command, without stored answers where the model runs here, and exits."""
    command = results["command"]
    if command[:1] != ["run"] or any(re.match("--(out|rows)(=|$)", word) for word in command):
        raise UsageError(f"{path}: its command is not `refract run` without --out and --rows")
    adapter = results["provenance"]["model"]["definition"].get("adapter")
    here = adapter in ADAPTERS and find(ADAPTERS, adapter, "adapter").runs_here
    if not here:
        say("from stored answers, since it cannot be run here")
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        new = Path(temporary) / "new.json"
        _run(command, new, hosts, store={"REFRACT_CACHE": "off"} if here else {})
        new_results = read_run(new)
        texts = []
        for made in (results, new_results):
            # Provenance moves with the version of a library alone.
            texts.append(json.dumps({**made, "provenance": None, "sha256": None}, indent=1))
        pairs = {path.name: texts}
        outcomes = path.with_suffix(".outcomes.csv")
        if outcomes.is_file():
            new_outcomes = new.with_suffix(".outcomes.csv")
            pairs[outcomes.name] = [file.read_text("utf-8") for file in (outcomes, new_outcomes)]
        causes = input_differences(results["provenance"], new_results["provenance"])
        causes += run_differences(
            read_object(path.with_suffix(".ran.json")), read_object(new.with_suffix(".ran.json"))
        )
    say(f"{path}: {' and '.join(pairs)} compared")
    differences = []
    for name, (old_text, new_text) in pairs.items():
        difference = first_difference(old_text, new_text)
        if difference:
            differences.append(f"{name}: {difference}")
    _finish(differences, causes)


def _run(command: Sequence[str], out: Path, hosts: Sequence[str], store: dict[str, str]) -> None:
    """Runs a results file's command, which may be anybody's.

    What the definitions of the user's own project need is allowed, and the ``hosts``; the user is
    asked for each further server. Raises :class:`UsageError` where the command needs more,
    :class:`RefractError` where it fails.
    """
    NEEDED.clear()
    find_project()
    allowed = set(NEEDED)
    for host in hosts:
        server = host.rstrip("/")
        allowed.add(f"send prompts to {server}")
        allowed.update(f"send prompts and the key in {key} to {server}" for key in KEYS)
    # Without the current folder on its path, which may hold anybody's code.
    program = [sys.executable, "-P", "-c", "from refract.cli import main; main()"]
    while not out.is_file():
        env = {**os.environ, **store, VARIABLE: json.dumps(sorted(allowed))}
        words = [*program, *command, "--out", str(out)]
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        match = re.search(r"^refract: not allowed: (.+)$", done.stderr, re.M)
        if match is None:
            if not out.is_file():
                raise RefractError(f"the run failed: {done.stderr.strip()[-2000:]}")
            return
        need = match[1]
        if not need.startswith("send ") or need in allowed:
            raise UsageError(
                f"the file asks to {need}, which your params.yaml does not name; if you trust it, run "
                "the command that is printed without --exec"
            )
        say(f"the file asks to {need}, which params.yaml and --allow-host do not name")
        typer.confirm("allow it?", abort=True)
        allowed.add(need)


def _finish(differences: Sequence[str], causes: Sequence[str]) -> NoReturn:
    """Prints each difference and what may explain it, and exits."""
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
    raise typer.Exit(int(bool(differences)))
