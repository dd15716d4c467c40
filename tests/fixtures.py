from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest

from refract.core.environment import data_folder
from refract.core.jsonl import write_rows
from tests import forked
from tests.builders import Project, suite_rows, write_distribution


def pytest_configure(config):
    """Hides the user's own store from every fixture; what the user fetched is remembered."""
    os.environ.setdefault("REFRACT_TEST_FETCHED", str(data_folder()))
    folder = tempfile.mkdtemp(prefix="refract-tests-")
    os.environ |= {"REFRACT_CACHE": folder, "REFRACT_DATA": os.path.join(folder, "data")}
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # As many tests as there are cores run at a time.
    os.environ["REFRACT_PROCESSES"] = "1"
    hypothesis.settings.register_profile(
        "short", max_examples=40, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    hypothesis.settings.load_profile("short")
    # What is compiled once need not be compiled in each process of each copy.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hasattr(config, "workerinput"):
        paths = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if sys.platform == "linux" and os.environ.get("REFRACT_TESTS_FORK") != "no":
            paths.insert(0, folder)
            config.add_cleanup(forked.start(Path(folder)).communicate)
            config.option.tx = [f"popen//python={folder}/python" for _ in config.option.tx]
        os.environ["PATH"] = os.pathsep.join(paths)


def pytest_collection_modifyitems(items):
    """Long ones first: the other processes would wait for one that is the last."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _store_of_its_own(monkeypatch, tmp_path_factory, request):
    """Points every test, and each process it starts, to a store that nobody else uses."""
    folder = tmp_path_factory.getbasetemp() / "stores" / str(abs(hash(request.node.nodeid)))
    monkeypatch.setenv("REFRACT_CACHE", str(folder))
    monkeypatch.setenv("REFRACT_DATA", str(folder / "data"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A random Llama of 95,000 numbers."""
    from tests.small_models import save_model, save_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    save_tokenizer(folder)
    save_model(folder)
    return folder


@pytest.fixture
def copy(tiny, tmp_path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Runs ``refract`` in this process, in the test's own folder outside the project."""
    from refract.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["refract", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        captured = capsys.readouterr()
        err = captured.err
        if isinstance(code, str):  # what sys.exit("message") prints
            code, err = 1, f"{err}{code}\n"
        return SimpleNamespace(code=code or 0, out=captured.out, err=err)

    return run


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Gives the folder of a name, which the first process that asks for it has filled for all."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        with open(top / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (top / name / "done").exists():
                (top / name).mkdir()
                fill(top / name)
                (top / name / "done").touch()
        return top / name

    return folder


@pytest.fixture
def run_results(shared, tmp_path) -> dict[str, Any]:
    """What `refract run` wrote into ok.json, which lies with its suite and all else in ``tmp_path``."""

    def fill(folder: Path) -> None:
        write_rows(folder / "s.jsonl", suite_rows("s", 10, 10))
        run = ("run", "--model", "synthetic", "--suite", "s.jsonl", "--judge", "rules")
        done = Project(folder).refract(*run, "--out", "ok.json", "--rows", "ok.rows.jsonl")
        assert done.exit_code == 0, done.exception

    shutil.copytree(shared("run", fill), tmp_path, dirs_exist_ok=True)
    return json.loads((tmp_path / "ok.json").read_text())


@pytest.fixture
def refusals_alone(monkeypatch) -> None:
    """The default judge says what is refused, and leaves out what takes as long again: its evidence,
    and the last digits of its probabilities."""
    monkeypatch.setattr(
        "refract.judges.refusal._surest_sentences", lambda texts: [None] * len(texts)
    )
    monkeypatch.setattr("refract.judges.refusal._settled", lambda reading, **_: True)


@pytest.fixture
def install(monkeypatch, tmp_path) -> Iterator[Callable[[str, str, str], None]]:
    """Puts a distribution with one module where Python looks for installed ones."""
    installed = []

    def put(name: str, points: str, module: str) -> None:
        write_distribution(tmp_path / "site", name, points, **{name: module})
        monkeypatch.syspath_prepend(tmp_path / "site")
        installed.append(name)

    yield put
    for name in installed:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def computed(shared) -> Project:
    """The pipeline of two models and two suites, run once; tests that change it take ``project``."""
    folder = shared("computed", lambda folder: Project.computed(folder / "project"))
    return Project(folder / "project")


@pytest.fixture
def project(computed, tmp_path) -> Project:
    """A copy of the computed pipeline, to be changed."""
    return computed.copy(tmp_path / "project")


@pytest.fixture
def rates(project) -> Project:
    """The same, for what is of no concern to the report: the pipeline ends at the rates."""
    project.end_at_the_rates()
    return project
