"""The files and folders that params.yaml names, wherever they are, and their hashes.

DVC watches the project's own data. What a definition names beside that (a folder of weights, a file of
answers, a template) reaches it through these hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refract.core.errors import RefractError
from refract.core.jsonl import parse_line, sha256_file
from refract.models import checkpoint
from refract.models.protocol import LASTING_ERRORS
from refract.project.inputs import Stat, stat_of

# A folder that is no checkpoint is watched file by file, up to so many.
MOST_FILES = 10_000


# How a verdict's error begins whose judge model did not answer.
JUDGE_FAILED = "the judge failed: "
# Settings whose text may be the bare name of a folder.
FOLDERS = ("model_id", "peft", "encoder")


def named_paths(definition: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Path]]:
    """Each setting of a definition, however deep, whose text names a file that is here, or a folder.

    A folder counts where it is written as a path or the setting may be one, since many a word is also
    the name of a folder.
    """
    for key, value in definition.items():
        place = f"{where}.{key}" if where else str(key)
        values = value if isinstance(value, list) else [value]
        for number, held in enumerate(values):
            inner = f"{place}.{number}" if isinstance(value, list) else place
            if isinstance(held, Mapping):
                yield from named_paths(held, inner)
            elif isinstance(held, str) and held and stat_of(path := Path(held).expanduser()):
                folder = (key in FOLDERS or "/" in held) and not _holds_project(path)
                if path.is_file() or folder:
                    yield inner, path


def _holds_project(folder: Path) -> bool:
    """Whether what the pipeline writes lies in a folder, which would then always have changed."""
    return Path("data").resolve().is_relative_to(folder.resolve())


def files_of(path: Path) -> list[Path]:
    """The files that decide what a file or folder is: of a checkpoint those that determine its
    answers, with an adapter's base; of another folder all. Some need not be there."""
    if not path.is_dir():
        return [path]
    folders = [path]
    if (path / "adapter_config.json").is_file():
        base = checkpoint.adapter_base(path)
        folders += [base] if base is not None else []
    files: list[Path] = []
    for folder in folders:
        if any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
            files += [folder / "adapter_config.json", folder / "adapter_model.safetensors"]
            try:
                files += checkpoint.content_files(folder, code=True)
            except RefractError:  # it cannot be loaded either, which its stage says
                files += folder.glob("*")
        else:
            inside = sorted(entry for entry in folder.rglob("*") if entry.is_file())
            files += inside[:MOST_FILES]
    return sorted(set(files))


def watched_of(path: Path, files: list[Path]) -> list[Path]:
    """What has to be looked at to see that a folder's files are the same: they, and the folders that
    hold them, in which another one may appear."""
    return [*files, *({file.parent for file in files} | {path} if path.is_dir() else ())]


class Hashes:
    """SHA-256 of files, computed anew only for those that changed. ``known`` is what an earlier
    :attr:`seen` held: the stat and hash by path."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self.seen: dict[str, tuple[Stat, str]] = {}

    def of(self, path: Path) -> str | None:
        """The hash of a file; None where there is none, or it cannot be read."""
        stat = stat_of(path)
        if stat is None or not path.is_file():
            return None
        before = self._known.get(str(path))
        if isinstance(before, list) and before[:1] == [stat]:
            self.seen[str(path)] = (stat, str(before[1]))
        else:
            try:
                self.seen[str(path)] = (stat, sha256_file(path))
            except OSError:
                return None
        return self.seen[str(path)][1]

    def of_all(self, path: Path, files: list[Path]) -> str:
        """One hash of a file, or of a folder's files with their names, wherever the folder is."""
        total = hashlib.sha256()
        for file in files:
            digest = self.of(file)
            if digest is not None:
                name = file.relative_to(path) if file.is_relative_to(path) else Path(file.name)
                total.update(f"{name.as_posix()}\0{digest}\n".encode("utf-8", "backslashreplace"))
        return total.hexdigest()


def errors_to_ask_again(folder: Path) -> int:
    """How many rows of a model's responses or verdicts are errors that another try could mend."""
    count = 0
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, "rb") as file:
            for line in file:
                if b'"error": {' in line or JUDGE_FAILED.encode() in line:
                    count += bool(_passing(line))
    return count


def _passing(line: bytes) -> set[str]:
    """The types of the errors of a row that may pass: of its answer, or of judges that ask a model."""
    try:
        row = parse_line(line)
        types = {row["error"]["type"]} if "error" in row else set()
        for verdict in row.get("judges", {}).values():
            if str(verdict["error"]).startswith(JUDGE_FAILED):
                types.add(verdict["error"].removeprefix(JUDGE_FAILED).partition(":")[0])
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()
    return types - LASTING_ERRORS
