"""``refract reproduce``: results made again from what is in git, and compared byte for byte."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.core.types import Row


def reproduce(
    what: Annotated[
        str, typer.Argument(help="A git revision, or a results file of `refract run`.")
    ] = "HEAD",
    model: Annotated[str | None, typer.Option(help="This model of the grid alone.")] = None,
    exec_: Annotated[
        bool, typer.Option("--exec", help="Run the commands and compare every byte.")
    ] = False,
    regenerate: Annotated[
        bool,
        typer.Option(help="With --exec: generate again also the answers that are in git."),
    ] = False,
) -> None:
    """Print the commands that make results again; with --exec, make them and compare.

    Exits with 1 if anything differs.

    Example: refract reproduce HEAD --exec
    """
    if regenerate and not exec_:
        raise UsageError("--regenerate goes with --exec")
    if Path(what).is_file():
        if model is not None:
            raise UsageError("--model is for revisions; a results file holds one model")
        raise typer.Exit(_run(Path(what), exec_))
    raise typer.Exit(_revision(what, model, exec_, regenerate))


def _revision(revision: str, model: str | None, execute: bool, regenerate: bool) -> int:
    from refract.cli.rebuild import Rebuild
    from refract.core.environment import git
    from refract.core.params import grid, read_yaml
    from refract.project import project_root
    from refract.results.sources import ResultsError, resolve_commit

    root = project_root()
    commit = resolve_commit(root, revision)
    if commit is None:
        raise UsageError(f"{revision!r} is not a git revision or a results file")
    text = git(root, "show", f"{commit}:./params.yaml")
    if text is None:
        raise ResultsError(f"commit {commit[:9]} has no params.yaml")
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        params_file = Path(temporary) / "params.yaml"
        params_file.write_text(text, "utf-8")
        params = read_yaml(params_file)  # its release may have had other sections than this one
        models = grid(params, "models")
        if model is not None and model not in models:
            raise UsageError(f"{model!r} is not in the grid of {revision}: {', '.join(models)}")
        if execute:
            return Rebuild(root, commit, params, model, Path(temporary), regenerate).run()
    say(_revision_commands(commit, model, _compared_files(root, commit, models, model)))
    return 0


def _compared_files(root: Path, commit: str, models: Sequence[str], model: str | None) -> str:
    """The files to compare, for ``git diff``: those of one model, or all that are made again, which
    results and entries in dvc.lock of models that left the grid are not."""
    from refract.core.environment import git
    from refract.results.current import result_files

    if model:
        return " ".join(result_files(model))
    lock = git(root, "show", f"{commit}:./dvc.lock") or ""
    same_lock = set(re.findall(r"^  aggregate@(\w+):$", lock, re.M)) <= set(models)
    tables = git(root, "ls-tree", "--name-only", commit, "metrics/tables/") or ""
    others = {Path(name).stem for name in tables.splitlines()} - set(models)
    left_out = [path for name in sorted(others) for path in result_files(name)]
    files = ["metrics", *(["dvc.lock"] if same_lock else [])]
    return " ".join([*files, *(f"':!{path}'" for path in ["metrics/ran", *left_out])])


def _revision_commands(commit: str, model: str | None, files: str) -> str:
    """What a person types to make a commit's results again and compare these files."""
    folder = f"../refract-{commit[:9]}"
    target = f" aggregate@{model}" if model else ""
    return "\n".join(
        [
            f"git worktree add --detach {folder} {commit}",
            f"cd {folder}",
            "make setup",
            # What is there already would not be made again.
            "rm -r metrics dvc.lock",
            f"REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro{target}",
            f"git diff --exit-code -- {files} && echo identical",
        ]
    )


def _run(path: Path, execute: bool) -> int:
    from refract.cli.protocol_again import protocol_command, run_again
    from refract.cli.rebuild import print_causes, runs_here
    from refract.core.environment import library_versions
    from refract.core.jsonl import write_json
    from refract.core.progress import read_ran
    from refract.core.tables import write_table
    from refract.core.vocabulary import outcome_columns
    from refract.evaluate.run import Judge, read_sources, run_model
    from refract.models import open_model
    from refract.models.store import ResponseStore, open_store
    from refract.models.store.ran import made_rows
    from refract.project import find_project
    from refract.results.differences import (
        first_difference,
        input_differences,
        run_differences,
    )
    from refract.results.sources import read_run

    results = read_run(path)
    provenance = results["provenance"]
    run, definition = provenance["run"], provenance["model"]["definition"]
    suites = [suite["argument"] for suite in provenance["suites"].values()]
    samples = {held["suite"]: held.get("samples", 1) for held in provenance["suites"].values()}
    by_protocol = "protocol" in results
    name, settings = next(iter(provenance["judges"].items()))
    if not execute:
        if by_protocol:
            say(shlex.join([*protocol_command(results), "--out", "results.json"]))
        else:
            say(_run_command(results, suites, name))
        return 0
    judge = Judge(name, {key: value for key, value in settings.items() if key != "version"})
    stored = not runs_here(definition)
    if stored:
        say("from stored answers, since it cannot be run here")
    with open_store() if stored else ResponseStore(None) as store:
        made = (
            run_again(results, store)
            if by_protocol
            else run_model(
                open_model(results["model"], definition),
                definition,
                [
                    source._replace(
                        definition={**source.definition, "samples": samples[source.name]}
                    )
                    for source in read_sources(suites, find_project())
                ],
                judge,
                store,
                name=results["model"],
                seed=run["seed"],
                sample=run["sample"],
                confidence=run.get("confidence", 0.95),
            )
        )
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        new, old, table = (Path(temporary) / name for name in ("new", "old", "outcomes"))
        # Numbers and provenance apart: another library version moves the latter alone.
        for file, held in ((new, made.results), (old, results)):
            write_json(file, {key: held[key] for key in held if key != "provenance"})
        pairs = [(path.name, old.read_bytes(), new.read_bytes())]
        outcomes = path.with_suffix(".outcomes.csv")
        if outcomes.is_file():
            write_table(table, outcome_columns(made.outcomes), made.outcomes)
            pairs.append((outcomes.name, outcomes.read_bytes(), table.read_bytes()))
    lines = [f"{name}: {first_difference(was, now)}" for name, was, now in pairs if was != now]
    here = made.results["provenance"]
    causes = input_differences(provenance, here, run["libraries"], library_versions())
    # Libraries are in the results themselves.
    ran = run_differences(
        read_ran(path.with_suffix(".ran.json")), made_rows(made.rows, made.origins)
    )
    causes += [line for line in ran if ", library " not in line]
    if run["code_sha256"] != here["run"]["code_sha256"]:
        causes.append(f"code: {run['code_sha256'][:12]} → {here['run']['code_sha256'][:12]}")
    say(f"{path}: {' and '.join(name for name, *_ in pairs)} compared")
    if lines:
        for line in lines:
            say(f"DIFFERENT {line}")
        print_causes(causes)
        return 1
    say("byte-identical" + (" numbers, though these inputs differ:" if causes else ""))
    for cause in causes:
        say(f"  {cause}")
    return 0


def _run_command(results: Row, suites: Sequence[str], judge: str) -> str:
    from refract.project import find_project

    provenance = results["provenance"]
    definition = dict(provenance["model"]["definition"])
    command = ["refract", "run"]
    if find_project().params["models"].get(results["model"]) == definition:
        command += ["--model", results["model"]]
    else:
        command += ["--adapter", definition.pop("adapter")]
        for key, value in definition.items():
            command += ["--set", f"{key}={json.dumps(value)}"]
    for suite in suites:
        command += ["--suite", suite]
    command += ["--seed", str(provenance["run"]["seed"])]
    if provenance["run"]["sample"] is not None:
        command += ["--sample", str(provenance["run"]["sample"])]
    level = f"{provenance['run'].get('confidence', 0.95):.2f}".removeprefix("0")
    if level != ".95":
        command += ["--confidence", level]
    samples = {suite.get("samples") for suite in provenance["suites"].values()}
    if len(samples) == 1 and samples != {None}:
        command += ["--samples", str(*samples)]
    return shlex.join([*command, "--judge", judge, "--out", "results.json"])
