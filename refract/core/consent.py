"""What definitions are going to do beyond this process: ``refract run`` says it first."""

from __future__ import annotations

NEEDED: set[str] = set()
"""All that this process needed so far."""


def need(what: str) -> None:
    """Notes what a definition is going to do: send prompts and keys to a server, run others' code."""
    NEEDED.add(what)
