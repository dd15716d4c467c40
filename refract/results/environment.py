"""What computes a result besides params.yaml and the suites: this code, and its libraries."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from pathlib import Path

from refract.rows.jsonl import sha256_file

# Libraries whose versions can move a number.
LIBRARIES = ("accelerate", "bert-score", "numpy", "tokenizers", "torch", "transformers")


def library_versions() -> dict[str, str]:
    """The installed versions of :data:`LIBRARIES`."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def pinned_versions(constraints: str) -> dict[str, str]:
    """The versions that the text of a constraints file pins."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints, re.M))


def pinned_libraries(constraints: Path) -> dict[str, str]:
    """The versions of :data:`LIBRARIES` that a constraints file pins."""
    pins = pinned_versions(constraints.read_text("utf-8"))
    return {name: pins[name] for name in LIBRARIES if name in pins}


def code_sha256() -> str:
    """One hash of every source file of this package, by path and content.

    The defaults that an installed package carries are not code: a checkout has the same hash.
    """
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and not {"__pycache__", "defaults"} & set(inside.parts):
            digest.update(f"{inside.as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()
