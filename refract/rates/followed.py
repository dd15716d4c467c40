"""The published protocol that a suite follows: what the package that brings it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from refract.core.types import Row
from refract.rates.counting import CountedSuite
from refract.rates.key import Key
from refract.rates.rate import Rate
from refract.suites.protocols import CATALOGUES, FixedGeneration


class Followed(FixedGeneration, Protocol):
    """What a protocol fixes and counts of a suite that follows it."""

    def possible_keys(self) -> Sequence[Key]:
        """The keys of its numbers; a group's value is left empty."""

    def rates(self, suite: CountedSuite) -> list[Rate]:
        """Its numbers of a suite."""

    def notes(
        self,
        suite: str,
        definition: Mapping[str, Any],
        model: Mapping[str, Any],
        judges: Mapping[str, Any],
        samples: int,
        sha256: str,
    ) -> Row:
        """What the provenance of a suite says: the protocol's ``name``, and ``deviations``.

        ``definition`` is the suite's and ``sha256`` that of its file, ``model`` what is known
        of its answers, ``judges`` are their definitions."""


def followed(definition: Mapping[str, Any], where: str = "protocol") -> Followed | None:
    """The protocol that a suite's definition names, if any.
    Raises ParamsError and MissingPackage."""
    label = definition.get("protocol")
    if not label:
        return None
    protocol: Followed = CATALOGUES.holding(label, where).find(label, where)
    return protocol
