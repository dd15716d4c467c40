"""The publishers' packages, downloaded once and unpacked, and an environment to run their code in.

Both are kept in pytest's cache. Tests that need them are skipped where no package index can be
reached.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import pytest

from refract.core.published_text import fetch
from refract_published.judges import names
from refract_published.judges.entry import find_judge

# What the publishers' code needs to write a prompt; all else is stood in for.
NEEDED = ("pydantic", "jinja2", "pyyaml", "appdirs", "platformdirs")
SOURCES = [source for name in names() for source in find_judge(name).sources]
# NVIDIA's package reads replies of its guard, whose prompt is in its weights.
PACKAGES = sorted(
    {source.package for source in SOURCES if source.package} | {"nemoguardrails==0.24.1"}
)


def fetch_from(packages: Path, name: str) -> None:
    """Puts the texts of a published judge into the user's data folder, from wheels that are here."""
    for wheel in (packages / "wheels").glob("*.whl"):
        package = wheel.name.split("-")[0]
        fetch([s for s in find_judge(name).sources if _of(s.package) == package], wheel)


def unpacked(cache: pytest.Cache) -> Path:
    """The folder with the publishers' wheels, unpacked, and an environment to run them in."""
    key = f"{sys.version_info.major}{sys.version_info.minor}-{'-'.join(PACKAGES)}"
    folder = Path(cache.mkdir("publishers")).absolute() / f"{zlib.crc32(key.encode()):x}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as making:
            _download(Path(making))
            # An environment is run by its path alone; another process may have been faster.
            with contextlib.suppress(OSError):
                os.rename(making, folder)
    return folder


def _of(package: str | None) -> str:
    return str(package).partition("==")[0].replace("-", "_")


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        pytest.skip(f"no package index within reach: {ended.stderr.strip()[-200:]}")


def _download(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(*pip, "install", "--target", str(folder / "site"), *NEEDED)
    wheels = folder / "wheels"
    _run(
        *(*pip, "download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python"),
        *("--dest", str(wheels), *PACKAGES),
    )
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "unpacked" / wheel.stem)
