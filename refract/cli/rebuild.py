"""One revision's results made again in a git worktree of its own, and compared byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from refract.core.environment import git
from refract.core.errors import RefractError
from refract.core.params import read_yaml
from refract.core.progress import RAN_FOLDER, ran_file, read_object
from refract.core.showing import say
from refract.core.types import Row
from refract.evaluate import Definition
from refract.models import identity_of, open_model
from refract.models.answering import ANSWERS, known_answers
from refract.models.protocol import AdapterError, Answer
from refract.results.current import result_files
from refract.results.differences import (
    first_difference,
    folder_differences,
    input_differences,
    locked_outputs,
    run_differences,
)
from refract.results.sources import ResultsError

# Settings of models and judges that may name files which git does not hold.
FILES = ("path", "model_id")


def runs_here(definition: Definition) -> bool:
    """Whether a model's answers can be made again on this machine, in the current folder."""
    try:
        model = open_model("model", dict(definition))
        identity_of(model)
    except (AdapterError, OSError):
        return False  # its weights or its file are not here
    return model.runs_here


def tell(differences: Sequence[str], causes: Sequence[str], *, same: str) -> int:
    """Prints each difference and what may explain it; without a difference, that what is the ``same``
    is so, and what differs all the same. Returns the exit code."""
    if not differences:
        say(f"byte-identical{f' {same}:' if causes else ''}")
        for cause in causes:
            say(f"  {cause}")
        return 0
    for line in differences:
        say(f"DIFFERENT {line}")
    for cause in causes or [
        "none of suites, judges, models, library versions and what is known of the machine "
        "differs; what is left are files edited after they were made"
    ]:
        say(f"CAUSE? {cause}")
    return 1


class Rebuild:
    """The results of a commit, of all models of its grid or of ``only`` one."""

    def __init__(
        self, root: Path, tree: Path, commit: str, only: str | None, regenerate: bool
    ) -> None:
        self.root, self.commit, self.only, self.regenerate = root, commit, only, regenerate
        self.folder = tree / (git(root, "rev-parse", "--show-prefix") or "").strip()
        self.store = tree.with_name("store")
        self.params = read_yaml(self.folder / "params.yaml")
        self.models: list[str] = self.params["grid"]["models"] if only is None else [only]

    def run(self) -> int:
        """Makes the results again and prints every difference; returns the exit code."""
        expected = self._committed()
        locked = locked_outputs(self.folder / "dvc.lock")
        ran = {name: read_object(self.folder / ran_file(name)) for name in self.models}
        in_git = {name: dict(known_answers(self.folder / ANSWERS / name)) for name in self.models}
        in_git = {name: answers for name, answers in in_git.items() if answers}
        self._bring_files()
        shutil.rmtree(self.folder / "metrics", ignore_errors=True)
        (self.folder / "dvc.lock").unlink(missing_ok=True)
        self._reproduce(in_git)
        if self.regenerate:
            for name, before in in_git.items():
                self._count_answers(name, before, expected)
        differences = self._differences(expected, locked)
        causes = []
        for name in self.models if differences else ():
            path = f"metrics/provenance/{name}.json"
            was, now = json.loads(expected.get(path, b"{}")), read_object(self.folder / path)
            if was and now:
                causes += [f"{name}: {cause}" for cause in input_differences(was, now, {}, {})]
        causes += [
            f"{name}: {line}"
            for name, before in ran.items()
            for line in run_differences(before, read_object(self.folder / ran_file(name)))
        ]
        return tell(differences, causes, same="results, though this differs")

    def _committed(self) -> dict[str, bytes]:
        """The files to be made again, as they are in the commit."""
        if self.only:
            wanted = [self.folder / path for path in result_files(self.only)]
        else:
            wanted = sorted((self.folder / "metrics").rglob("*"))
        contents = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in wanted
            if path.is_file() and path.parent != self.folder / RAN_FOLDER
        }
        if not contents:
            raise ResultsError(
                f"commit {self.commit[:9]} has no results: metrics/ was not committed after dvc repro"
            )
        return contents

    def _bring_files(self) -> None:
        """Copies what params.yaml names and git does not hold (imported suites, answers, weights)."""
        named = [self.params["suites"][suite]["file"] for suite in self.params["grid"]["suites"]]
        models = [self.params["models"][name] for name in self.models]
        for definition in (*models, *self.params["judges"].values()):
            for value in map(definition.get, FILES):
                named += value if isinstance(value, list) else [value]
        for path in named:
            if isinstance(path, str) and not Path(path).is_absolute():
                self._bring(path)

    def _bring(self, path: str) -> None:
        source, target = self.root / path, self.folder / path
        if target.exists() or not source.exists() or ".." in Path(path).parts:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
        say(f"not in git, taken from this checkout: {path}")

    def _reproduce(self, in_git: Mapping[str, object]) -> None:
        """Runs the pipeline with an empty store, but for models and judges that cannot be run here."""
        models, judges, suites = (self.params[key] for key in ("models", "judges", "suites"))
        used = {
            judge for suite in self.params["grid"]["suites"] for judge in suites[suite]["judges"]
        }
        with contextlib.chdir(self.folder):
            stored = [name for name in self.models if not runs_here(models[name])]
            served = [
                judge
                for judge in sorted(used)
                if isinstance(model := judges[judge].get("model"), Mapping) and not runs_here(model)
            ]
        fresh = [name for name in self.models if name not in stored]
        made = [name for name in fresh if name not in in_git or self.regenerate]
        kept = [name for name in in_git if not self.regenerate]
        for what, names in (
            ("generated again, with an empty store:", made),
            ("from the answers in git, unless with --regenerate:", kept),
            ("from stored answers, since it cannot be run here:", stored),
            ("from stored replies, since they cannot be run here: judges", served),
        ):
            if names:
                say(f"{what} {', '.join(names)}", flush=True)
        for name in in_git if self.regenerate else ():
            shutil.rmtree(self.folder / ANSWERS / name)
            (self.folder / ANSWERS / name).mkdir()  # DVC needs what a stage depends on
        for name in stored:
            self._bring(f"data/responses/{name}")
        if fresh and (stored or served):
            self._repro(*(f"model-inference@{name}" for name in fresh))
        if stored:
            self._repro(*(f"model-inference@{name}" for name in stored), empty_store=False)
        # By now every model has answered; what is still sent is a judge's.
        self._repro(*([f"aggregate@{self.only}"] if self.only else []), empty_store=not served)

    def _repro(self, *targets: str, empty_store: bool = True) -> None:
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
        } | ({"REFRACT_CACHE": str(self.store)} if empty_store else {})
        done = subprocess.run(
            ["dvc", "repro", *targets], cwd=self.folder, env=env, capture_output=True, text=True
        )
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()[-12:]
            raise RefractError("the pipeline failed:\n" + "\n".join(f"  {line}" for line in lines))

    def _count_answers(
        self, name: str, before: Mapping[str, Answer], expected: Mapping[str, bytes]
    ) -> None:
        """Prints how many answers to the same requests are others than before, and which rates move."""
        now = dict(known_answers(self.folder / f"data/responses/{name}"))
        both = [key for key in before if key in now]
        differ = sum(before[key] != now[key] for key in both)
        say(f"{name}: {differ} of {len(both)} answers differ from those in git")
        path = f"metrics/{name}.json"
        measured: Row = read_object(self.folder / path)
        moved = [
            f"{name}: {suite} {measure}: {value} -> {measured.get(suite, {}).get(measure)}"
            for suite, measures in json.loads(expected.get(path, b"{}")).items()
            for measure, value in measures.items()
            if measure.endswith("_rate") and measured.get(suite, {}).get(measure) != value
        ]
        for line in moved or [f"{name}: no rate moves"]:
            say(line)

    def _differences(self, expected: Mapping[str, bytes], locked: Mapping[str, str]) -> list[str]:
        """Each file of metrics that differs, with its first such line, and each output of a stage."""
        lines = []
        for path, content in expected.items():
            made = self.folder / path
            if not made.is_file():
                lines.append(f"{path}: is no longer produced")
            elif made.read_bytes() != content:
                lines.append(f"{path}: {first_difference(content, made.read_bytes())}")
        now = locked_outputs(self.folder / "dvc.lock")
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
        return lines


@contextlib.contextmanager
def worktree(root: Path, commit: str) -> Iterator[Path]:
    """A commit checked out into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="refract-") as temporary:
        tree = Path(temporary) / "worktree"
        if git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit) is None:
            raise ResultsError(f"git could not check out {commit[:9]} into a worktree")
        try:
            yield tree
        finally:
            git(root, "worktree", "remove", "--force", str(tree))
