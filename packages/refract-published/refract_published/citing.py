"""What a paper cites for the things of the catalogues."""

from __future__ import annotations

import functools
import re
from typing import Any

from refract.core.params import read_yaml
from refract_published.catalogues import HERE, JUDGES, SUITES

# The catalogues, and the key under which an entry says whose it is.
CATALOGUES = {SUITES: "title", JUDGES: "of"}


@functools.cache
def references() -> dict[str, dict[str, Any]]:
    """Fields of BibTeX by key; ``of`` are the names of what an entry is cited for."""
    entries = {key: dict(entry) for key, entry in read_yaml(HERE / "references.yaml").items()}
    for path, field in CATALOGUES.items():
        for name, described in read_yaml(path).items():
            numbers = re.findall(r"arXiv:? ?(\d{4}\.\d{4,5})", str(described[field]))
            for entry in entries.values():
                if entry.get("eprint") in numbers:
                    entry["of"] = [*entry.get("of", ()), name]
    return entries
