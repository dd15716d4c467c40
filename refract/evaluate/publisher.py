"""The prompts of a protocol: the publisher's file, from the user or from its address, as a suite."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from refract.core.environment import data_folder
from refract.core.errors import UsageError
from refract.core.jsonl import sha256_file, write_bytes
from refract.core.types import Row
from refract.rates.protocols import matches
from refract.suites.importing import import_file
from refract.suites.protocols.catalogue import Chosen
from refract.suites.rows import SuiteError, check_suite

SECONDS = 60
MOST_BYTES = 500_000_000


class Prompts(NamedTuple):
    """The rows of one part of a protocol, the file they are from, and what is not the publisher's."""

    rows: list[Row]
    path: Path
    sha256: str
    deviations: list[str]


def protocol_prompts(chosen: Chosen, given: Path | None) -> Prompts:
    """The rows that belong to a part of a protocol: of the publisher's file, or of a suite that was
    made of it. Without one that was ``given`` the file comes from its address, once.

    Raises :class:`UsageError` where there is no file, :class:`SuiteError` for one that cannot be read.
    """
    wanted = chosen.own.suite
    if given is not None and not given.is_file():
        raise UsageError(f"--suite: no file {given}")
    path = given or _fetched(chosen)
    digest = sha256_file(path)
    rows, problems = check_suite(path) if path.suffix == ".jsonl" else ([], [])
    deviations = []
    if rows and all(problem.harmless for problem in problems):
        deviations.append(f"suite {path.name}: not checked against the publisher's file")
    else:
        options = {"columns": wanted.columns, "values": wanted.values, "category": wanted.category}
        rows = import_file(wanted.kind, path, suite=chosen.part, **options).rows
        if wanted.sha256 not in (None, digest):
            deviations.append(
                f"suite {path.name} (SHA-256 {digest[:16]}…) instead of the publisher's "
                f"({str(wanted.sha256)[:16]}…)"
            )
    found = [row for row in rows if matches(row, wanted.where)]
    if not found:
        where = "; ".join(f"{key}: {', '.join(values)}" for key, values in wanted.where.items())
        raise SuiteError(f"{path}: no row has what {chosen.label} asks for ({where})")
    return Prompts(found, path, digest, deviations)


def _fetched(chosen: Chosen) -> Path:
    wanted = chosen.own.suite
    option = "--suite FILE" if len(chosen.protocol.parts) == 1 else f"--suite {chosen.part}=FILE"
    if wanted.url is None:
        raise UsageError(
            f"{chosen.label}: its prompts are not here and cannot be fetched by anybody; get them from "
            f"{wanted.page} and name the file with {option}"
        )
    path = data_folder() / "suites" / f"{chosen.part}-{wanted.url.rpartition('/')[2]}"
    if path.is_file():
        return path
    try:
        with urlopen(wanted.url, timeout=SECONDS) as reply:
            data: bytes = reply.read(MOST_BYTES)
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(
            f"{chosen.label}: {wanted.url} cannot be read ({reason}); get the file on another machine "
            f"and name it with {option}"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    if wanted.sha256 not in (None, digest):
        raise UsageError(
            f"{chosen.label}: {wanted.url} is another file than the one the protocol was defined with: "
            f"its SHA-256 is {digest}, and {wanted.sha256} is expected; to use it all the same, name "
            f"it with {option}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, [data])
    return path
