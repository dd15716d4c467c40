"""Refract measures how often language models refuse, and how far perturbed prompts bend answers.

``measure`` a model on suites, ``judge`` answers that already exist, ``compare`` two results,
``load_results`` of a project or a run, and ``checks`` of a model on a DataFrame. Errors that a user
can mend are ``RefractError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refract import checks
    from refract.api import Comparison, compare, judge, measure
    from refract.core.errors import RefractError
    from refract.results import Results, load_results

__all__ = [
    "Comparison",
    "RefractError",
    "Results",
    "checks",
    "compare",
    "judge",
    "load_results",
    "measure",
]

# Where each name is found. It is imported when it is used, so that `import refract` costs nothing.
_OFFERED = {
    "Comparison": "refract.api",
    "RefractError": "refract.core.errors",
    "Results": "refract.results",
    "compare": "refract.api",
    "judge": "refract.api",
    "load_results": "refract.results",
    "measure": "refract.api",
}


def __getattr__(name: str) -> object:
    import importlib

    if name == "checks":
        return importlib.import_module("refract.checks")
    if name == "__version__":
        from importlib.metadata import version

        return version("refract-eval")
    if name not in _OFFERED:
        raise AttributeError(f"module 'refract' has no attribute {name!r}")
    return getattr(importlib.import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
