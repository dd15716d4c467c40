"""The library versions that a constraints file pins."""

from __future__ import annotations

import re
from pathlib import Path

from refract.core.environment import LIBRARIES


def pinned_versions(constraints: str) -> dict[str, str]:
    """The versions that the text of a constraints file pins."""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints, re.M))


def pinned_libraries(constraints: Path) -> dict[str, str]:
    """The versions of :data:`refract.core.environment.LIBRARIES` that a constraints file pins."""
    pins = pinned_versions(constraints.read_text("utf-8"))
    return {name: pins[name] for name in LIBRARIES if name in pins}
