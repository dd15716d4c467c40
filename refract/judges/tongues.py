"""Languages that a judge cannot read, by the ``language`` of a suite's rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from refract.core.types import Row
from refract.judges.rules.languages import CODES

READ = frozenset(("en", *CODES))
# Kinds of judges that go by the rule judge's phrases, or were trained on what they say.
BY_RULES = ("rules", "embedded", "learned")


def language_warnings(rows: Iterable[Row], judges: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A warning for each judge, by its name with its definition, that cannot read the language of
    some rows of a suite."""
    by_rules = [name for name, held in judges.items() if held.get("kind") in BY_RULES]
    unread: Counter[str] = Counter()
    if by_rules:
        languages = (row["language"] for row in rows if isinstance(row.get("language"), str))
        unread.update(one for one in languages if code(one) not in READ)
    if not unread:
        return []
    named = ", ".join(f"{language} {count}" for language, count in sorted(unread.items()))
    return [
        f"{name} does not read the language of {unread.total()} rows ({named}): a refusal in it "
        "counts as compliance; use a judge that reads it (docs/judges.md)"
        for name in by_rules
    ]


def code(language: str) -> str:
    """The code of a language without region and script: ``pt`` for ``pt-BR``."""
    return re.split("[-_]", language.strip().lower())[0]
