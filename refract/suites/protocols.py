"""Published protocols that suites follow: catalogues of installed packages, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refract.core.registry import Registry, find, missing_package


class Catalogues(Registry):
    """Catalogues of protocols.

    A catalogue has ``names()``; ``find(label, where)``, which gives what a suite follows
    (``refract_published.protocols.Part`` is such a class) or raises ParamsError; and ``run``, which
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


def followed(definition: Mapping[str, Any], where: str = "protocol") -> Any:
    """What fixes how answers to a suite are generated, and counts them, where its definition names
    a protocol; else None. Raises ParamsError and MissingPackage."""
    label = definition.get("protocol")
    return CATALOGUES.holding(label, where).find(label, where) if label else None
