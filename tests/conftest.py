from __future__ import annotations

import os
import shutil
import sys
import tempfile
from types import SimpleNamespace

import pytest

from refract.core.environment import data_folder
from tests.builders import Project


def pytest_configure(config):
    """Hides the user's own store from every fixture; what the user fetched is remembered."""
    os.environ.setdefault("REFRACT_TEST_FETCHED", str(data_folder()))
    folder = tempfile.mkdtemp(prefix="refract-tests-")
    os.environ |= {"REFRACT_CACHE": folder, "REFRACT_DATA": os.path.join(folder, "data")}
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(autouse=True)
def _store_of_its_own(monkeypatch, tmp_path_factory, request):
    """Points every test, and each process it starts, to a store that nobody else uses."""
    folder = tmp_path_factory.getbasetemp() / "stores" / str(abs(hash(request.node.nodeid)))
    monkeypatch.setenv("REFRACT_CACHE", str(folder))
    monkeypatch.setenv("REFRACT_DATA", str(folder / "data"))


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
def packages(request):
    """The publishers' packages, or the test is skipped; see tests/publisher_packages.py."""
    from tests.publisher_packages import unpacked

    return unpacked(request.config.cache)


@pytest.fixture(scope="session")
def computed(tmp_path_factory) -> Project:
    """The pipeline of two models and two suites, run once; tests that change it take ``project``."""
    return Project.computed(tmp_path_factory.mktemp("computed") / "project")


@pytest.fixture
def project(computed, tmp_path) -> Project:
    """A copy of the computed pipeline, to be changed."""
    return computed.copy(tmp_path / "project")


@pytest.fixture
def rates(project) -> Project:
    """The same, for what is of no concern to the report: the pipeline ends at the rates."""
    project.end_at_the_rates()
    return project
