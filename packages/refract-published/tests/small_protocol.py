"""A small protocol, for tests of what protocols fix and count."""

from __future__ import annotations

from refract_published.protocols.definitions import Chosen, Protocol

ROWS = [
    {"id": str(n), "prompt": "?", "category": category, "area": area}
    for n, (category, area) in enumerate(
        [("harmful", "a"), ("harmful", "a"), ("harmful", "b"), ("helpful", "b"), ("helpful", "b")]
    )
]


def protocol(**changes) -> Protocol:
    """A small protocol."""
    part = {
        "suite": {"kind": "generic", "page": "nowhere", "columns": {"prompt": "text"}},
        "judge": "wildguard",
        "empty": "judged",
        "partial": "refused",
        "measures": {"rate": {"counts": "complied", "over": "all"}},
    } | changes.pop("part", {})
    return Protocol.model_validate(
        {
            "version": "1.0",
            "of": "A test",
            "generation": {"max_tokens": 9, "temperature": 0},
            "parts": {"one": part},
            "sources": {},
        }
        | changes
    )


def chosen(**changes) -> Chosen:
    return Chosen("small", "one", protocol(**changes))
