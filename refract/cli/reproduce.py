"""``refract reproduce``: do numbers hold when they are made again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.jsonl import has_form
from refract.core.showing import say
from refract.evaluate.rebuilding import FILES, rebuild
from refract.project import project_root
from refract.results.sources import read_run, resolve_commit


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
        if exec_ or regenerate:
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
        say("make setup")
        say("rm -r metrics dvc.lock")  # what is there already would not be made again
        say("REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro")
        say(f"git diff --exit-code -- {shlex.join(FILES)} && echo identical")
        return
    files, differences = rebuild(root, commit, regenerate=regenerate)
    say(f"{files} files of metrics compared, which name prompts, responses and verdicts by hash")
    for line in differences:
        say(f"DIFFERENT {line}")
    if not differences:
        say("byte-identical")
    raise typer.Exit(int(bool(differences)))
