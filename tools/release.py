"""Builds what is committed as distributions and tries them as a stranger would: ``make release``.

The core and each package become an sdist and a wheel, which twine checks. In a fresh environment of
each Python, pip installs the core's wheel, with which a new project and a CSV are measured, and
then the packages, whose tests run on what was installed. Nothing is uploaded: a tag does that
(``.github/workflows/release.yml``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
TOOLS = ("build", "setuptools>=77", "twine")
# Exact decoding brings torch, of which each environment would load gigabytes: its wheel is built,
# checked and installed without what it needs, and its tests are left to `make test`.
HEAVY = "refract-exact"
TESTED_WITH = (
    "hypothesis",
    "jsonschema",
    "openpyxl",
    "pyarrow",
    "pytest",
    "refract-published[inspect]",
)
# Tests that need neither torch nor the code of the tree.
TESTS = (
    "packages/refract-dialogue/tests/test_calls_judge.py",
    "packages/refract-dialogue/tests/test_rates_by_turn.py",
    "packages/refract-inspect/tests",
    "packages/refract-paper/tests/test_latex.py",
    "packages/refract-published/tests/test_citing.py",
    "packages/refract-published/tests/test_logs.py",
    "tests/judges/test_rules_judge.py",
)
ROWS = 'response,refused\n"I\'m sorry, but I can\'t help with that.",yes\n"Sure: bake it.",no\n'


def run(*command: object, cwd: Path, **variables: str) -> str:
    """What a command prints. Ends the program where it fails."""
    words = [str(word) for word in command]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(words, cwd=cwd, env=env, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def packages(root: Path = ROOT) -> list[Path]:
    """The folders that a distribution is made of, the core's first."""
    return [root, *(file.parent for file in sorted(root.glob("packages/*/pyproject.toml")))]


def versions(root: Path = ROOT) -> set[str]:
    """Every version that a release states, of itself and of what it needs of itself: one number."""
    stated = [folder / "pyproject.toml" for folder in packages(root)]
    stated += [root / "CITATION.cff", root / "packages/refract-paper/docs/cite.md"]
    pattern = r"^ *version(?: = |: )[{\"]?([\w.]+)|\brefract-[\w\[\]-]+==([\w.]+)"
    texts = [path.read_text("utf-8") for path in stated]
    return {"".join(found) for text in texts for found in re.findall(pattern, text, re.M)}


def build(source: Path, folder: Path) -> list[Path]:
    """The sdist and wheel of each distribution, checked."""
    run(sys.executable, "-m", "venv", folder / "tools", cwd=folder)
    python = folder / "tools/bin/python"
    run(python, "-m", "pip", "install", "--quiet", *TOOLS, cwd=folder)
    out = folder / "dist"
    for package in packages(source):
        run(python, "-m", "build", "--no-isolation", "--outdir", out, package, cwd=folder)
    built = sorted(out.iterdir())
    run(python, "-m", "twine", "check", "--strict", *built, cwd=folder)
    return built


def python_of(version: str) -> Path | None:
    """A Python of a version: on the path, or one of pyenv's."""
    found = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for path in (*filter(None, [found]), *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return Path(path)
    return None


def try_with(python: Path, source: Path, dist: Path, folder: Path) -> str:
    """What a stranger does with the distributions; the last line of the tests."""
    folder.mkdir()
    run(python, "-m", "venv", folder / "env", cwd=folder)
    new = folder / "env/bin/python"
    path = os.pathsep.join([str(new.parent), os.environ["PATH"]])
    here = {"PATH": path, "REFRACT_CACHE": str(folder / "store")}
    pip = (new, "-m", "pip", "install", "--quiet", "--no-compile")
    wheels = {path.name.partition("-")[0].replace("_", "-"): path for path in dist.glob("*.whl")}
    run(*pip, wheels.pop("refract-eval"), cwd=folder)
    project = folder / "project"
    run("refract", "init", project, cwd=folder, **here)
    run("dvc", "init", "--no-scm", "--quiet", cwd=project, **here)
    run("dvc", "repro", cwd=project, **here)
    assert "| synthetic |" in (project / "metrics/report.md").read_text("utf-8")
    assert (project / "data/report/report.html").stat().st_size > 10_000
    (folder / "mine.csv").write_text(ROWS, "utf-8")
    run("refract", "judge", "--in", "mine.csv", "--out", "verdicts.jsonl", cwd=folder, **here)
    verdicts = (folder / "verdicts.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(verdict)["label"] for verdict in verdicts] == ["refusal", "compliance"]
    run(*pip, "--no-deps", wheels.pop(HEAVY), cwd=folder)
    run(*pip, "--find-links", dist, *wheels.values(), *TESTED_WITH, cwd=folder)
    run(new, "-c", "import refract_exact", cwd=folder)
    here["REFRACT_TESTS_FORK"] = "no"  # what is installed starts its processes itself
    tests = run(new, "-m", "pytest", "-W", "ignore", *TESTS, cwd=source, **here)
    return tests.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", nargs="*", default=PYTHONS, help="versions to try")
    asked, missing = parser.parse_args(), []
    numbers = versions()
    if len(numbers) != 1:
        raise SystemExit(f"versions are not one number: {', '.join(sorted(numbers))}")
    with tempfile.TemporaryDirectory() as temporary:
        folder, source = Path(temporary), Path(temporary) / "source"
        run("git", "clone", "--quiet", "--no-hardlinks", ROOT, source, cwd=ROOT)
        built = build(source, folder)
        print(f"{len(built)} files of version {numbers.pop()} pass twine check")
        for tree in (source / "refract", *source.glob("packages/*/refract_*")):
            shutil.rmtree(tree)
        for version in asked.python:
            python = python_of(version)
            if python is None:
                missing.append(version)
                continue
            passed = try_with(python, source, folder / "dist", folder / version)
            print(f"Python {version}: demo, a CSV, tests of installed packages: {passed}")
            shutil.rmtree(folder / version)
        shutil.copytree(folder / "dist", ROOT / "dist", dirs_exist_ok=True)
    if missing:
        raise SystemExit(f"not tried, since there is no Python {', '.join(missing)}")


if __name__ == "__main__":
    main()
