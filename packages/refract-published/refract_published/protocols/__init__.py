"""Published protocols by name, as the core finds, counts and runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError
from refract.core.types import Row
from refract.rates.counting import CountedSuite
from refract.rates.key import Key
from refract.rates.rate import Rate
from refract_published.catalogues import PROTOCOLS, find_entry, names_in
from refract_published.protocols import counting, deviations
from refract_published.protocols.definitions import Chosen, Protocol


class Part(Chosen):
    """A part of a protocol, as a suite follows it (:func:`refract.suites.protocols.followed`)."""

    @property
    def samples(self) -> int:
        """How often each prompt is answered."""
        return self.generation.samples

    def possible_keys(self) -> Sequence[Key]:
        """The keys of its numbers."""
        return counting.possible_keys(self)

    def rates(self, suite: CountedSuite) -> list[Rate]:
        """Its numbers of a suite."""
        return counting.protocol_table(self, suite, counting.protocol_judge(self, suite.definition))

    def notes(
        self,
        suite: str,
        definition: Mapping[str, Any],
        model: Mapping[str, Any],
        judges: Mapping[str, Any],
        samples: int,
        sha256: str,
    ) -> Row:
        """What a suite of the pipeline has otherwise than the protocol, for its provenance.

        ``definition`` is the suite's and ``sha256`` that of its file; ``model`` says how its answers
        were generated."""
        generation, adapter = model["generation"][suite], model["definition"]["adapter"]
        judge = counting.protocol_judge(self, definition)
        found = deviations.generation_deviations(self, generation, adapter, samples=samples)
        found += deviations.judging_deviations(self, judge, judges[judge])
        found += deviations.suite_deviations(self, Path(definition["file"]), sha256)
        if definition.get("sample") is not None:
            found.append(f"a sample of {definition['sample']} prompts")
        return {
            "name": self.label,
            "of": self.protocol.of,
            "judge": judge,
            "measures": counting.measure_names(self),
            "deviations": found,
            "unknown": deviations.unknown_notes(self, generation),
            "limits": list(self.protocol.limits),
        }


class Catalogue:
    """The protocols of a file. An installed package adds one of its own by an entry point of
    the group ``refract.protocols``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        return names_in(self.path)

    def protocol(self, label: str, where: str = "--protocol") -> tuple[str, Protocol]:
        """A protocol by ``NAME`` or ``NAME@VERSION``, with its name. Raises ParamsError."""
        name, _, version = label.partition("@")
        protocol = find_entry(self.path, Protocol, noun="protocol", name=name, where=where)
        if version and version != protocol.version:
            raise ParamsError(
                f"{where}: {name} is defined here in version {protocol.version} alone "
                f"(got {version!r}); name {name}@{protocol.version}"
            )
        return name, protocol

    def parts(self, label: str, where: str = "--protocol") -> list[Part]:
        """All parts of a protocol. Raises ParamsError."""
        name, protocol = self.protocol(label, where)
        return [Part(name, part, protocol) for part in protocol.parts]

    def find(self, label: str, where: str) -> Part:
        """What a suite follows, by ``NAME@VERSION`` or ``NAME@VERSION/PART``. Raises ParamsError."""
        wanted, _, name = label.partition("/")
        parts = self.parts(wanted, where)
        for chosen in parts:
            if chosen.part == name or (not name and len(parts) == 1):
                return chosen
        first = parts[0]
        raise ParamsError(
            f"{where}: {first.name} has the parts {', '.join(first.protocol.parts)}; name one, "
            f"such as {first.name}@{first.protocol.version}/{first.part} (got {label!r})"
        )

    def run(self, label: str, *arguments: Any, **options: Any) -> Any:
        """``refract run --protocol``; see :func:`refract_published.protocols.run.run_protocol`."""
        from refract_published.protocols.run import run_protocol

        return run_protocol(self.parts(label), *arguments, **options)

    def lines(self, notes: Row) -> Iterator[str]:
        """What a run by a protocol has otherwise, from its results, in lines."""
        from refract_published.protocols.run import deviation_lines

        return deviation_lines(notes)


CATALOGUE = Catalogue(PROTOCOLS)
