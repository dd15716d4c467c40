"""``refract reproduce``: results made again from what is in git, and compared byte for byte."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.core.types import Row

if TYPE_CHECKING:
    from refract.evaluate import Evaluation


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
    from refract.results.sources import read_run

    if regenerate and not exec_:
        raise UsageError("--regenerate goes with --exec")
    if not Path(what).is_file():
        raise typer.Exit(_revision(what, model, exec_, regenerate))
    if model is not None:
        raise UsageError("--model is for revisions; a results file holds one model")
    results = read_run(Path(what))
    if exec_:
        raise typer.Exit(_run_again(Path(what), results))
    say(shlex.join(_run_command(results)))


def _revision(revision: str, model: str | None, execute: bool, regenerate: bool) -> int:
    from refract.cli.rebuild import Rebuild, worktree
    from refract.project import project_root
    from refract.results.current import result_files
    from refract.results.sources import read_grid, resolve_commit

    root = project_root()
    commit = resolve_commit(root, revision)
    if commit is None:
        raise UsageError(f"{revision!r} is not a git revision or a results file")
    models = read_grid(root, commit)
    if model is not None and model not in models:
        raise UsageError(f"{model!r} is not in the grid of {revision}: {', '.join(models)}")
    if execute:
        with worktree(root, commit) as tree:
            return Rebuild(root, tree, commit, model, regenerate).run()
    folder = f"../refract-{commit[:9]}"
    target = f" aggregate@{model}" if model else ""
    # Provenance has the hashes of prompts, responses and verdicts.
    files = " ".join(result_files(model)) if model else "metrics ':!metrics/ran'"
    for command in (
        f"git worktree add --detach {folder} {commit}",
        f"cd {folder}",
        "make setup",
        "rm -r metrics dvc.lock",  # what is there already would not be made again
        f"REFRACT_CACHE=off PATH=$PWD/.venv/bin:$PATH dvc repro{target}",
        f"git diff --exit-code -- {files} && echo identical",
    ):
        say(command)
    return 0


# A results file of `refract run`


def _suites_in_order(results: Row) -> list[Row]:
    """The provenance of each suite, in the order in which they were named, which objects lose."""
    of_label = results["provenance"]["suites"]
    labels = dict.fromkeys(row["suite"] for row in results["tables"])
    return [of_label[label] for label in labels if label in of_label]


def _run_command(results: Row) -> list[str]:
    """The command that made the results."""
    from refract.project import find_project

    provenance, protocol = results["provenance"], results.get("protocol")
    run, suites = provenance["run"], _suites_in_order(results)
    options: dict[str, object] = {"seed": run["seed"], "sample": run["sample"]}
    command = ["refract", "run"]
    if protocol:
        asked = protocol["asked"]
        command += ["--protocol", protocol["name"]]
        settings = {key: value for key, value in asked["settings"].items() if key != "adapter"}
        adapter = asked["model"]["adapter"] if len(asked["model"]) == 1 else None
        files = [
            path if len(protocol["parts"]) == 1 else f"{part}={path}"
            for part, path in asked["files"].items()
        ]
        judge = asked["judge"] and asked["judge"]["name"]
        options |= {"samples": asked["samples"], "cut-off": asked["cut_off"]}
    else:
        settings = dict(provenance["model"]["definition"])
        adapter = settings.pop("adapter")
        if find_project().params["models"].get(results["model"]) == settings | {"adapter": adapter}:
            adapter, settings = None, {}
        files = [suite["argument"] for suite in suites]
        judge = next(iter(provenance["judges"]))
        of_suites = {(suite.get("samples"), suite["cut_off"]) for suite in suites}
        if len(of_suites) == 1:
            ((samples, cut_off),) = of_suites
            options["samples"] = samples
            options["cut-off"] = cut_off if cut_off == "excluded" else None
    command += ["--model", results["model"]] if adapter is None else ["--adapter", adapter]
    for key, value in settings.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    for file in files:
        command += ["--suite", file]
    for option, value in options.items():
        command += [] if value is None else [f"--{option}", str(value)]
    if run["confidence"] != 0.95:
        command += ["--confidence", f"{run['confidence']:.2f}".removeprefix("0")]
    return [*command, *(["--judge", judge] if judge else []), "--out", "results.json"]


def _evaluate_again(results: Row) -> Evaluation:
    """The same model on the same suites, without stored answers where it can be run here."""
    from dataclasses import replace

    from refract.cli.rebuild import runs_here
    from refract.evaluate import evaluate, read_suites
    from refract.evaluate.protocol_run import Asked, run_protocol
    from refract.models import open_model
    from refract.models.store import ResponseStore, open_store
    from refract.project import find_project

    provenance, name = results["provenance"], results["model"]
    definition = provenance["model"]["definition"]
    before = {suite["suite"]: suite for suite in _suites_in_order(results)}
    judges = {
        judge: {key: value for key, value in settings.items() if key != "version"}
        for judge, settings in provenance["judges"].items()
    }
    options = {key: provenance["run"][key] for key in ("seed", "sample", "confidence")}
    stored = not runs_here(definition)
    if stored:
        say("from stored answers, since it cannot be run here")
    with open_store() if stored else ResponseStore(None) as store:
        if "protocol" in results:
            protocol = results["protocol"]
            return run_protocol(
                protocol["name"], name, Asked(**protocol["asked"]), store, **options
            )
        suites = []
        for suite in read_suites([suite["argument"] for suite in before.values()], find_project()):
            noted = before[suite.name]
            counted = {"samples": noted.get("samples", 1), "cut_off": noted["cut_off"]}
            suites.append(replace(suite, definition={**suite.definition, **counted}))
        return evaluate(
            suites,
            open_model(name, definition),
            judges,
            store,
            name=name,
            definition=definition,
            **options,
        )


def _run_again(path: Path, results: Row) -> int:
    from refract.cli.rebuild import tell
    from refract.core.environment import library_versions
    from refract.core.jsonl import write_json
    from refract.core.progress import read_object
    from refract.results.differences import first_difference, input_differences, run_differences
    from refract.results.sources import write_run

    evaluation = _evaluate_again(results)
    made, ran = evaluation.results(), evaluation.made()
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        new, old = Path(temporary) / "new.json", Path(temporary) / "old.json"
        # Numbers and provenance apart: another library version moves the latter alone.
        numbers, before = (
            {key: side[key] for key in side if key != "provenance"} for side in (made, results)
        )
        write_run(new, numbers, evaluation.outcomes(), ran)
        write_json(old, before)
        pairs = [(path.name, old.read_bytes(), new.read_bytes())]
        outcomes = path.with_suffix(".outcomes.csv")
        if outcomes.is_file():
            again = new.with_suffix(".outcomes.csv").read_bytes()
            pairs.append((outcomes.name, outcomes.read_bytes(), again))
    was, now = results["provenance"], made["provenance"]
    causes = input_differences(was, now, was["run"]["libraries"], library_versions())
    causes += [
        line
        for line in run_differences(read_object(path.with_suffix(".ran.json")), ran)
        if ", library " not in line  # libraries are in the results themselves
    ]
    if was["run"]["code_sha256"] != now["run"]["code_sha256"]:
        hashes = (side["run"]["code_sha256"][:12] for side in (was, now))
        causes.append(f"code: {' → '.join(hashes)}")
    say(f"{path}: {' and '.join(name for name, *_ in pairs)} compared")
    differences = [f"{name}: {first_difference(a, b)}" for name, a, b in pairs if a != b]
    return tell(differences, causes, same="numbers, though these inputs differ")
