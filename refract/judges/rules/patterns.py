"""The phrases of the rule judge, which are data: `phrases/` holds them, this module compiles them.

A file of phrases is TOML with one table per pattern, named by its id. Its syntax is described at
the top of `phrases/en/refusals.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "phrases"
INSERTED = re.compile(r"\{([a-z_]+)\}")


def read_phrases(name: str) -> dict[str, Any]:
    """The content of `phrases/NAME.toml`."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def in_full(id_: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """A table's pattern on one line, with the patterns inserted that it names as {id}."""
    text = "".join(line.strip(" ") for line in tables[id_]["pattern"].split("\n"))
    return INSERTED.sub(lambda found: in_full(found[1], tables), text)


class Phrases:
    """Patterns of several files. Each is an attribute named by its id, compiled when first used."""

    def __init__(self, *files: str) -> None:
        self.files = files

    @cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        """All tables by id, in the order of the files."""
        tables: dict[str, dict[str, Any]] = {}
        for file in self.files:
            found = read_phrases(file)
            if twice := tables.keys() & found.keys():
                raise ValueError(f"phrases/{file}.toml: {', '.join(twice)} defined before")
            tables.update(found)
        return tables

    def __getattr__(self, id_: str) -> re.Pattern[str]:
        if id_ not in self.tables:
            raise AttributeError(f"no pattern {id_!r} in phrases/{', '.join(self.files)}")
        pattern = re.compile(in_full(id_, self.tables))
        setattr(self, id_, pattern)  # found without this function from now on
        return pattern


ENGLISH = Phrases("en/refusals", "en/signs", "en/prompts", "en/deflections", "en/degenerate")


@cache
def words(id_: str) -> frozenset[str]:
    """A list of English words."""
    return frozenset(ENGLISH.tables[id_]["words"].split())
