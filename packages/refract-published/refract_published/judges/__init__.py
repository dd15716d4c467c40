"""Judges of papers by name. The core takes their definitions from here without loading one."""

from __future__ import annotations

from refract_published.catalogues import JUDGES, names_in


def names() -> list[str]:
    return names_in(JUDGES)


def definitions() -> dict[str, dict[str, str]]:
    """What each of them is defined as where params.yaml does not define it."""
    return {name: {"kind": "published"} for name in names()}
