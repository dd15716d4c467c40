"""The code, libraries, machine and commit of this run, and the folders that belong to the user."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from refract.core.errors import MissingPackage
from refract.core.jsonl import sha256_file
from refract.core.types import Row

# Libraries whose versions can move a number.
LIBRARIES = ("accelerate", "numpy", "tokenizers", "torch", "transformers")
# Others that can explain why answers differ or fail.
OTHERS = ("anthropic", "bitsandbytes", "openai", "safetensors")
# What decides numbers. (The numbers themselves may not be committed yet.)
INPUTS = ("constraints.txt", "data", "dvc.yaml", "params.yaml", "refract", "stages")


def library_versions(libraries: tuple[str, ...] = LIBRARIES) -> dict[str, str]:
    """The versions of these libraries, of those that are installed."""
    versions = {}
    for library in libraries:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(library)
    return versions


# Those that processes loaded which compute for this one.
loaded_by_processes: set[str] = set()


def loaded_libraries() -> list[str]:
    """The libraries that have a part in what is computed: those that are loaded here or by
    processes of this one."""
    loaded = []
    for name in LIBRARIES + OTHERS:
        if name.replace("-", "_") in sys.modules or name in loaded_by_processes:
            loaded.append(name)
    return loaded


def need_local(*packages: str) -> None:
    """Raises MissingPackage for the first of these packages that is not installed. They are
    named as they are imported, and come with the extra ``local``."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            # Where this package is installed, from a clone too, pip adds what the extra lacks.
            raise MissingPackage(
                f"{package} is not installed, which local models and judges need; run: "
                "pip install 'refract-eval[local]'"
            )


def pinned_versions(constraints: str) -> dict[str, str]:
    """The versions that the text of a constraints file pins."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints, re.M))


def pinned_libraries(constraints: Path) -> dict[str, str]:
    """The versions of ``LIBRARIES`` that a constraints file pins."""
    pins = pinned_versions(constraints.read_text("utf-8"))
    return {name: pins[name] for name in LIBRARIES if name in pins}


@functools.cache
def code_sha256(part: str = "") -> str:
    """A hash of the paths and contents of all files of this package, or of one ``part``, but for
    the defaults that an installed package carries, so that a checkout has the same."""
    root = Path(__file__).parents[1] / part
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and not {"__pycache__", "defaults"} & set(inside.parts):
            digest.update(f"{inside.as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()


def git(root: Path, *arguments: str) -> str | None:
    """What git prints in a folder, or None where it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None


def is_public(root: Path, file: str, *, outside: bool = False) -> bool:
    """Whether git has a project's file, or would take it, and not DVC in its place; ``outside`` is
    what holds where there is no repository."""
    listed = git(root, "ls-files", "-co", "--exclude-standard", "--", file)
    taken = bool(listed)
    if listed is None:  # no repository, or one that git cannot or will not read
        folders = (root.resolve(), *root.resolve().parents)
        taken = outside and not any((folder / ".git").exists() for folder in folders)
    return taken and not (root / f"{file}.dvc").exists()


def this_run(runtime: Mapping[str, Any] | None) -> Row:
    """What computes in this process, as JSON. ``runtime`` is what a model tells about
    itself (device, dtype, batch shape, …), None where it computes nothing here.

    No request's hash and no output of the pipeline depends on it."""
    own = dict(runtime or {})
    commit = git(Path.cwd(), "rev-parse", "--verify", "--quiet", "HEAD")
    status = ["--no-optional-locks", "status", "--porcelain", "-z", "--", *INPUTS]
    listed = git(Path.cwd(), *status) or ""
    changed = [ascii(entry[3:])[1:-1] for entry in listed.split("\0") if entry]
    return {
        "code": {
            "refract": importlib.metadata.version("refract-eval"),
            "sha256": code_sha256(),
            "commit": commit and commit.strip(),
            "changed": changed[:20],
            "dirty": bool(changed),
        },
        "device": own.pop("device", None),
        "runtime": own,
        "machine": {
            "platform": platform.platform(),
            "architecture": platform.machine(),
            "libc": " ".join(platform.libc_ver()).strip() or None,
            "processor": _processor(),
            "cores": os.cpu_count(),
            "accelerator": _accelerator(),
        },
        "python": platform.python_version(),
        "libraries": library_versions(tuple(loaded_libraries())),
    }


def utc(seconds: float) -> str:
    """A time in Unix seconds, or SOURCE_DATE_EPOCH where that is set, as ISO 8601."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    time = datetime.fromtimestamp(int(epoch) if epoch.isdigit() else int(seconds), UTC)
    return time.isoformat().replace("+00:00", "Z")


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text("utf-8", "replace") if cpu.is_file() else ""
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return name[1] if name else platform.processor() or platform.machine()


def _accelerator() -> str | None:
    torch = sys.modules.get("torch")  # importing it for this would cost a second
    if torch is None or not torch.cuda.is_available():
        return None
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    kind = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    return f"{', '.join(names)} ({kind})"


def data_folder() -> Path:
    """The folder of files that were fetched for the user: ``REFRACT_DATA``, or the one
    that the operating system names."""
    import platformdirs

    setting = os.environ.get("REFRACT_DATA", "").strip()
    folder = setting or platformdirs.user_data_dir("refract", appauthor=False)
    return Path(folder).expanduser().resolve()


def cache_folder() -> Path | None:
    """The folder of the response store; None where ``REFRACT_CACHE`` turns the store off."""
    setting = os.environ.get("REFRACT_CACHE", "").strip()
    if setting.lower() in ("off", "0", "none", "no", "false"):
        return None
    import platformdirs

    folder = setting or platformdirs.user_cache_dir("refract", appauthor=False)
    return Path(folder).expanduser().resolve()
