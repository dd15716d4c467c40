"""The packages beside the core: what each is made of, and what it may import."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from refract.core.errors import MissingPackage, ParamsError, UsageError
from refract.core.params import definition, with_named_judges
from refract.core.registry import PACKAGES, Registry, find
from refract.project import default_project, find_judge
from tests.builders import ROOT
from tests.docs.test_layers import imports_of

FOLDERS = sorted(path for path in (ROOT / "packages").iterdir() if path.is_dir())
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def project_of(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def imports(path: Path) -> set[str]:
    """The top-level modules that a file imports, anywhere in it, or names as ``module:object``."""
    named = re.findall(r'"(refract_\w+)(?:\.\w+)*:\w', path.read_text("utf-8"))
    return {*named, *(module.partition(".")[0] for module, _ in imports_of(path))}


def test_the_core_imports_no_package():
    named = {folder.name.replace("-", "_") for folder in FOLDERS}
    for top in ("refract", "stages"):
        for path in (ROOT / top).rglob("*.py"):
            assert imports(path) & named == set(), path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_package_imports_no_other_one_and_has_what_a_package_has(folder):
    module = folder.name.replace("-", "_")
    for path in (folder / module).rglob("*.py"):
        others = {top for top in imports(path) if top.startswith("refract_")}
        assert others <= {module}, path
        assert imports(path) & {"tests", "tools", "benchmarks", "stages"} == set(), path
    project = project_of(folder)
    extra = folder.name.removeprefix("refract-")
    assert project["name"] == folder.name
    assert project["version"] == CORE["version"]
    assert f"refract-eval=={CORE['version']}" in project["dependencies"]
    assert f"{folder.name}=={CORE['version']}" in CORE["optional-dependencies"][extra]
    assert "```console" in (folder / "README.md").read_text("utf-8")
    assert list((folder / "tests").glob("test_*.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_core_names_what_each_package_brings(folder):
    """So that a message can say what to install. Groups of many names, such as a catalogue's, are
    named by the package's own definition."""
    points = project_of(folder)["entry-points"]
    named = PACKAGES[folder.name.removeprefix("refract-")]
    for group, names in named.items():
        assert set(names) == set(points[group])


def test_a_name_of_an_absent_package_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    registry = Registry({}, "refract.arithmetics")
    message = (
        "^models.m: arithmetic: 'exact' comes with the package refract-exact, which is not installed; "
        r"run: pip install 'refract-eval\[exact\]'$"
    )
    with pytest.raises(MissingPackage, match=message):
        find(registry, "exact", "models.m: arithmetic")


def test_a_judge_that_nothing_here_defines_may_come_with_an_absent_package(monkeypatch):
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    params = {"judges": {"rules": {"kind": "rules"}}, "suites": {"s": {"judges": ["wildguard"]}}}
    assert with_named_judges(params) == params
    remedy = (
        r"; more come with the package refract-published: pip install 'refract-eval\[published\]'$"
    )
    with pytest.raises(
        ParamsError, match=rf"names 'wildguard', .*such as wildguard: {{kind: rules}}{remedy}"
    ):
        definition(params, "judges", "wildguard", "suites.s")
    with pytest.raises(UsageError, match=rf"no judge 'wildguard'.*{remedy}"):
        find_judge("wildguard", default_project())
    with pytest.raises(MissingPackage, match="judge calls comes with the package refract-dialogue"):
        find_judge("calls", default_project()._replace(params={}))
