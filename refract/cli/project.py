"""Names on the command line: suites and judges of params.yaml, or files of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.errors import UsageError
from refract.judges import JUDGES
from refract.params import load_params


def project_root() -> Path:
    """The folder whose params.yaml counts: the current one, else the one the code came from."""
    here = Path.cwd()
    return here if (here / "params.yaml").is_file() else Path(__file__).parents[2]


def find_params() -> dict[str, Any]:
    """params.yaml of :func:`project_root`."""
    return load_params(project_root() / "params.yaml")


def find_suite(name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A suite by its name in params.yaml or by its file: (name, definition).

    Raises :class:`UsageError` when it is neither.
    """
    if name in params["suites"]:
        definition = dict(params["suites"][name])
        definition["file"] = str(project_root() / definition["file"])
        return name, definition
    path = Path(name)
    if path.is_file():
        return path.stem, {"file": name}
    known = ", ".join(sorted(params["suites"]))
    raise UsageError(f"no suite and no file {name!r}; params.yaml defines: {known}")


def find_judge(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """A judge by its name in params.yaml or by its kind. Raises :class:`UsageError`."""
    if name in params["judges"]:
        return params["judges"][name]
    if name in JUDGES:
        return {"kind": name}
    known = ", ".join(sorted({*params["judges"], *JUDGES}))
    raise UsageError(f"no judge {name!r}; there are: {known}")
