"""Published protocols that suites follow: catalogues of installed packages, by their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from refract.core.registry import Registry, find, missing_package


class FixedGeneration(Protocol):
    """What a protocol fixes of how the answers to a suite are generated."""

    @property
    def samples(self) -> int:
        """How often each prompt is answered."""

    def fixed(self) -> dict[str, Any]:
        """Settings of a model, as JSON; null stands for none."""


class Catalogues(Registry):
    """Catalogues of protocols.

    A catalogue has ``names()``; ``find(label, where)``, which gives what a suite follows
    (:class:`refract.rates.followed.Followed`) or raises ParamsError; and ``run``, which
    ``refract run --protocol`` calls. A label is ``NAME@VERSION`` or ``NAME@VERSION/PART``."""

    def name_of(self, label: str) -> str | None:
        """The name of the catalogue that has a label's protocol."""
        for name in sorted(self.installed()):
            if label.partition("@")[0] in find(self, name, "protocol").names():
                return name
        return None

    def holding(self, label: str, where: str) -> Any:
        """The catalogue that has a label's protocol; where none has it, one that says so.
        Raises MissingPackage where none is installed."""
        name = self.name_of(label) or min(self.installed(), default=None)
        if name is None:
            raise missing_package(f"{where}: the protocol {label!r}", "published")
        return find(self, name, where)

    def code_of(self, name: str) -> dict[str, Path]:
        """The code of the package whose catalogue has the protocol of a label."""
        return super().code_of(self.name_of(name) or name)


CATALOGUES = Catalogues({}, "refract.protocols", "names", "find", "run")


def fixed_by(label: str, where: str) -> FixedGeneration:
    """What the protocol of a label fixes. Raises ParamsError and MissingPackage."""
    fixed: FixedGeneration = CATALOGUES.holding(label, where).find(label, where)
    return fixed
