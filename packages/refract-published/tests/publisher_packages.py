"""The publishers' packages with texts of judges, downloaded once by pip into pytest's cache.

Tests that need them are skipped where no package index can be reached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refract_published.judges import names
from refract_published.judges.entry import find_judge
from refract_published.texts import fetch

SOURCES = [source for name in names() for source in find_judge(name).sources]
PACKAGES = sorted({source.package for source in SOURCES if source.package})


def fetch_from(wheels: Path, name: str) -> None:
    """Puts the texts of a published judge into the user's data folder, from wheels that are here."""
    for wheel in wheels.glob("*.whl"):
        package = wheel.name.split("-")[0]
        fetch([s for s in find_judge(name).sources if _of(s.package) == package], wheel)


def downloaded(cache: pytest.Cache) -> Path:
    """The folder with the publishers' wheels."""
    folder = Path(cache.mkdir("publishers")).absolute() / "wheels"
    lacking = [p for p in PACKAGES if not any(folder.glob(f"{_of(p)}-{p.partition('==')[2]}-*"))]
    if lacking:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download")
        options = ("--no-deps", "--only-binary", ":all:", "--ignore-requires-python")
        command = [*pip, *options, "--dest", str(folder), *lacking]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if ended.returncode:
            pytest.skip(f"no package index within reach: {ended.stderr.strip()[-200:]}")
    return folder


def _of(package: str | None) -> str:
    return str(package).partition("==")[0].replace("-", "_")
