"""``refract reproduce``: results made again from what is in git, and compared byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.cli.project import find_params, project_root
from refract.errors import UsageError
from refract.params import load_params
from refract.results.differences import (
    first_difference,
    folder_differences,
    input_differences,
    locked_outputs,
    pinned_versions,
)
from refract.results.environment import library_versions
from refract.results.sources import ResultsError, git, read_run, resolve_commit
from refract.rows.jsonl import Row
from refract.rows.showing import say

# The options of ``refract run`` that set a key of the definition; all others go through --set.
OPTIONS = {
    "adapter": "--adapter",
    "model_id": "--model-id",
    "revision": "--revision",
    "path": "--path",
    "base_url": "--base-url",
    "system_prompt": "--system-prompt",
    "temperature": "--temperature",
    "max_tokens": "--max-tokens",
    "device": "--device",
    "dtype": "--dtype",
}
# Adapters whose answers are made by a server, which may have changed or gone.
SERVED = ("anthropic", "openai")


def reproduce(what: str, model: str | None, execute: bool) -> int:
    """Prints the commands, or runs them and compares; returns 0 if all is equal, else 1."""
    try:
        if Path(what).is_file():
            if model is not None:
                raise UsageError("--model is for revisions; a results file holds one model")
            return _reproduce_run(Path(what), execute)
        return _reproduce_revision(what, model, execute)
    except ResultsError as error:
        raise UsageError(str(error)) from None


def _reproduce_revision(revision: str, model: str | None, execute: bool) -> int:
    root = project_root()
    commit = resolve_commit(root, revision)
    if commit is None:
        raise UsageError(f"{revision!r} is no git revision and no results file")
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        params_file = Path(temporary) / "params.yaml"
        text = git(root, "show", f"{commit}:./params.yaml")
        if text is None:
            raise ResultsError(f"commit {commit[:9]} has no params.yaml")
        params_file.write_text(text, "utf-8")
        params = load_params(params_file)
        models = params["grid"]["models"]
        if model is not None and model not in models:
            raise UsageError(f"{model!r} is not in the grid of {revision}: {', '.join(models)}")
        wanted = models if model is None else [model]
        if not execute:
            say(_commands(commit, model))
            return 0
        return _Rebuild(root, commit, params, wanted, model, Path(temporary)).run()


def _commands(commit: str, model: str | None) -> str:
    """What a person types to make a commit's results again and compare them."""
    folder = f"../refract-{commit[:9]}"
    target = f" aggregate@{model}" if model else ""
    files = "metrics dvc.lock"
    if model:
        files = " ".join(_files_of(model))
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


def _files_of(model: str) -> list[str]:
    return [
        f"metrics/{model}.json",
        *(f"metrics/{kind}/{model}.csv" for kind in ("outcomes", "tables")),
        f"metrics/provenance/{model}.json",
    ]


class _Rebuild:
    """One revision's results made again in a worktree of its own."""

    def __init__(
        self,
        root: Path,
        commit: str,
        params: dict[str, Any],
        models: Sequence[str],
        only: str | None,
        temporary: Path,
    ) -> None:
        self.root = root
        self.commit = commit
        self.params = params
        self.models = models
        self.only = only
        self.temporary = temporary
        self.prefix = (git(root, "rev-parse", "--show-prefix") or "").strip()
        self.tree = temporary / "worktree"
        self.folder = self.tree / self.prefix

    def run(self) -> int:
        with self._worktree():
            expected = self._committed()
            self._bring_files()
            stored = [name for name in self.models if not self._runs_here(name)]
            shutil.rmtree(self.folder / "metrics", ignore_errors=True)
            (self.folder / "dvc.lock").unlink(missing_ok=True)
            fresh = [name for name in self.models if name not in stored]
            if fresh:
                say(f"asked again, with an empty store: {', '.join(fresh)}", flush=True)
            for name in stored:
                say(f"from stored answers, since it cannot be run here: {name}", flush=True)
                self._bring(f"data/responses/{name}")
            judges_stored = self._stored_judges()
            if judges_stored:
                names = ", ".join(judges_stored)
                say(f"from stored replies, since they cannot be run here: judges {names}")
            if stored or judges_stored:
                if fresh:
                    self._repro(*(f"model-inference@{name}" for name in fresh))
                if stored:
                    self._repro(*(f"model-inference@{name}" for name in stored), empty_store=False)
            targets = [f"aggregate@{self.only}"] if self.only else []
            # Whatever is still to be asked was stored before, or is a judge's.
            self._repro(*targets, empty_store=not judges_stored)
            return self._compare(expected)

    @contextlib.contextmanager
    def _worktree(self) -> Iterator[None]:
        if (
            git(self.root, "worktree", "add", "--detach", "--quiet", str(self.tree), self.commit)
            is None
        ):
            raise ResultsError(f"git could not check out {self.commit[:9]} into a worktree")
        try:
            yield
        finally:
            git(self.root, "worktree", "remove", "--force", str(self.tree))

    def _committed(self) -> dict[str, bytes]:
        """The files to be made again, as they are in the commit."""
        if self.only:
            wanted = [self.folder / path for path in _files_of(self.only)]
        else:
            wanted = sorted((self.folder / "metrics").rglob("*"))
        found = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in wanted
            if path.is_file()
        }
        if not found:
            raise ResultsError(
                f"commit {self.commit[:9]} has no results: metrics/ was not committed after dvc repro"
            )
        lock = self.folder / "dvc.lock"
        self.locked = locked_outputs(_yaml(lock)) if lock.is_file() else {}
        return found

    def _runs_here(self, name: str) -> bool:
        return self._can_run(self.params["models"][name])

    def _can_run(self, definition: Mapping[str, Any]) -> bool:
        """Whether a model's answers can be made on this machine without a server or a download."""
        adapter = definition.get("adapter")
        if adapter in SERVED:
            return False
        if adapter == "hf":
            model_id = str(definition.get("model_id"))
            if (self.folder / model_id).is_dir():
                return True
            from refract.models.checkpoint import cached_snapshot

            revision = str(definition.get("revision") or "main")
            return cached_snapshot(model_id, revision) is not None
        if adapter == "recorded":
            return (self.folder / str(definition.get("path"))).is_file()
        return True

    def _stored_judges(self) -> list[str]:
        """The judges of the grid's suites that ask a model which cannot be run here."""
        used = {
            judge
            for suite in self.params["grid"]["suites"]
            for judge in self.params["suites"][suite]["judges"]
        }
        found = []
        for judge in sorted(used):
            model = self.params["judges"][judge].get("model")
            if isinstance(model, Mapping) and not self._can_run(model):
                found.append(judge)
        return found

    def _bring_files(self) -> None:
        """Copies what params.yaml names and git does not hold (imported suites, answers, weights)."""
        named = [self.params["suites"][suite]["file"] for suite in self.params["grid"]["suites"]]
        for definition in (
            *(self.params["models"][name] for name in self.models),
            *self.params["judges"].values(),
        ):
            for key in ("path", "model_id"):
                value = definition.get(key)
                named += value if isinstance(value, list) else [value]
        for path in named:
            if isinstance(path, str) and not Path(path).is_absolute():
                self._bring(path)

    def _bring(self, path: str) -> None:
        source, target = self.root / path, self.folder / path
        if target.exists() or not source.exists() or ".." in Path(path).parts:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        say(f"not in git, taken from this checkout: {path}")

    def _repro(self, *targets: str, empty_store: bool = True) -> None:
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
        }
        if empty_store:
            env["REFRACT_CACHE"] = str(self.temporary / "store")
        done = subprocess.run(
            ["dvc", "repro", *targets], cwd=self.folder, env=env, capture_output=True, text=True
        )
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
            raise ResultsError("the pipeline failed:\n" + "\n".join(f"  {line}" for line in lines))

    def _compare(self, expected: Mapping[str, bytes]) -> int:
        lines = []
        for path, content in expected.items():
            made = self.folder / path
            if not made.is_file():
                lines.append(f"{path}: is not made any more")
            elif made.read_bytes() != content:
                lines.append(f"{path}: {first_difference(content, made.read_bytes())}")
        locked = self.locked
        now = locked_outputs(_yaml(self.folder / "dvc.lock"))
        compared = [path for path in locked if path in now]
        for path in compared:
            if locked[path] != now[path]:
                lines.append(f"{path}: hash was {locked[path]}, is {now[path]}")
                # Which row differs shows only where this checkout has the output of that commit.
                if self.root.joinpath(path).exists():
                    inside = folder_differences(self.root / path, self.folder / path)
                    lines += [f"{path}/{line}" for line in inside]
        say(
            f"{self.commit[:9]}: {len(expected)} files of metrics and {len(compared)} outputs "
            f"(prompts, responses, verdicts) compared"
        )
        if not lines:
            say("byte-identical")
            return 0
        for line in lines:
            say(f"DIFFERENT {line}")
        self._explain(expected)
        return 1

    def _explain(self, expected: Mapping[str, bytes]) -> None:
        constraints = self.folder / "constraints.txt"
        pinned = pinned_versions(constraints.read_text("utf-8")) if constraints.is_file() else {}
        installed = library_versions()
        causes = []
        for name in self.models:
            path = f"metrics/provenance/{name}.json"
            if path in expected and (self.folder / path).is_file():
                was = json.loads(expected[path])
                now = json.loads((self.folder / path).read_text("utf-8"))
                causes += [f"{name}: {cause}" for cause in input_differences(was, now, {}, {})]
        causes += input_differences(None, None, pinned, installed)
        _print_causes(causes)


def _print_causes(causes: Sequence[str]) -> None:
    for cause in causes:
        say(f"CAUSE? {cause}")
    if not causes:
        say(
            "CAUSE? none of suites, judges, models and library versions differs; what is left is "
            "the machine (processor, device), or files edited after they were made"
        )


def _yaml(path: Path) -> dict[str, Any]:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load(path.read_text("utf-8")) or {}


def _reproduce_run(path: Path, execute: bool) -> int:
    from refract.cli.run import measure_suites
    from refract.rows.jsonl import write_json
    from refract.rows.tables import write_table
    from refract.store import ResponseStore, open_store

    results = read_run(path)
    provenance = results["provenance"]
    definition = provenance["model"]["definition"]
    ((judge, judge_definition),) = provenance["judges"].items()
    suites = [facts["argument"] for facts in provenance["suites"].values()]
    run = provenance["run"]
    if not execute:
        say(_run_command(results, suites, judge))
        return 0
    judge_definition = {k: v for k, v in judge_definition.items() if k != "version"}
    params = {**find_params()}
    params["judges"] = {**params["judges"], judge: judge_definition}
    served = definition.get("adapter") in SERVED
    if served:
        say("from stored answers, since it cannot be run here")
    with open_store() if served else ResponseStore(None) as store:
        made, outcome_rows, *_ = measure_suites(
            params,
            definition,
            suites,
            run["seed"],
            run["sample"],
            judge,
            store,
            results["model"],
        )
    from refract.rows.columns import OUTCOME_COLUMNS

    lines = []
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        new = Path(temporary) / "results.json"
        # Numbers and provenance apart: another library version moves the latter alone.
        old = Path(temporary) / "old.json"
        write_json(new, {key: made[key] for key in made if key != "provenance"})
        write_json(old, {key: results[key] for key in results if key != "provenance"})
        pairs = [(path.name, old.read_bytes(), new.read_bytes())]
        outcomes = path.with_suffix(".outcomes.csv")
        if outcomes.is_file():
            table = Path(temporary) / "outcomes.csv"
            write_table(table, OUTCOME_COLUMNS, outcome_rows)
            pairs.append((outcomes.name, outcomes.read_bytes(), table.read_bytes()))
    for name, was, now in pairs:
        if was != now:
            lines.append(f"{name}: {first_difference(was, now)}")
    here = made["provenance"]
    causes = input_differences(
        {**provenance, "model": provenance["model"]}, here, run["libraries"], library_versions()
    )
    if run["code_sha256"] != here["run"]["code_sha256"]:
        causes.append(f"code: {run['code_sha256'][:12]} → {here['run']['code_sha256'][:12]}")
    say(f"{path}: {' and '.join(name for name, *_ in pairs)} compared")
    if not lines:
        say("byte-identical" + (" numbers, though these inputs differ:" if causes else ""))
        for cause in causes:
            say(f"  {cause}")
        return 0
    for line in lines:
        say(f"DIFFERENT {line}")
    _print_causes(causes)
    return 1


def _run_command(results: Row, suites: Sequence[str], judge: str) -> str:
    provenance = results["provenance"]
    definition = dict(provenance["model"]["definition"])
    command = ["refract", "run"]
    if find_params()["models"].get(results["model"]) == definition:
        command += ["--model", results["model"]]
        definition = {}
    for key, value in definition.items():
        if key in OPTIONS and isinstance(value, str | int | float) and not isinstance(value, bool):
            command += [OPTIONS[key], str(value)]
        else:
            command += ["--set", f"{key}={json.dumps(value)}"]
    for suite in suites:
        command += ["--suite", suite]
    command += ["--seed", str(provenance["run"]["seed"])]
    if provenance["run"]["sample"] is not None:
        command += ["--sample", str(provenance["run"]["sample"])]
    return shlex.join([*command, "--judge", judge, "--out", "results.json"])
