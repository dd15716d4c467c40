"""What a command that somebody else wrote may do here (``refract reproduce FILE --exec``)."""

from __future__ import annotations

import json
import os

from refract.core.errors import UsageError

VARIABLE = "REFRACT_ALLOWED"
NEEDED: set[str] = set()
"""All that this process needed so far."""


def need(what: str) -> None:
    """Notes what a definition is going to do: send prompts and keys to a server, run
    others' code.
    Raises UsageError where this process runs another's command and was not allowed
    that."""
    NEEDED.add(what)
    allowed = os.environ.get(VARIABLE)
    if allowed is not None and what not in json.loads(allowed):
        raise UsageError(f"not allowed: {what}")
