"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from typer import Option

from refract.core.errors import UsageError

# Options that some commands put into a panel of their help.
judge_model = partial(
    Option,
    metavar="NAME|ADAPTER:MODEL_ID",
    help="The model that judges, such as hf:path/to/folder; alone it means --judge llm.",
)
judge_base_url = partial(
    Option, metavar="URL", help="Its server; default: its definition's or its provider's."
)

NumbersFile = Annotated[Path | None, Option(help="Also write the numbers here (JSON).")]
AsJson = Annotated[Literal["table", "json"], Option("--format", help="How it is printed.")]
Models = Annotated[
    list[str] | None, Option("--model", help="Models of the grid: NAME,...; default: all.")
]
NoStore = Annotated[
    bool, Option("--no-store", help="Take no stored answers and verdicts, and store none.")
]
Suites = Annotated[list[str] | None, Option("--suite", help="Suites: NAME,...; default: all.")]
# What makes a project a project; no command writes over it.
PROJECT_FILES = ("params.yaml", "dvc.yaml", "dvc.lock")
# What the pipeline's commands read.
PIPELINE = ("metrics", "data/suites", "data/prompts", "data/responses", "data/verdicts")


def keep_inputs(written: Mapping[str, Path | None], read: Iterable[Path | str | None]) -> None:
    """Refuses, before anything is done, to write over what a command reads.

    ``written`` are files by what messages call them, ``read`` files, and folders whose files are read.
    Raises :class:`UsageError`, also where two files to be written are one, or one is a folder."""
    inputs = [Path(path).resolve() for path in (*PROJECT_FILES, *read) if path]
    names: dict[Path, str] = {}
    for name, path in written.items():
        if path is None:
            continue
        target = path.resolve()
        parent = path.parent.resolve()
        folders = {parent, *parent.parents}
        is_device = folders & {Path("/dev"), Path("/proc")} and Path("/dev/shm") not in folders
        if path.name == "-" or is_device:
            raise UsageError(f"{name} {path}: only a file can be written; name one")
        if target.is_dir():
            raise UsageError(f"{name} {path} is a folder; name a file")
        if target.exists() and not target.is_file():
            raise UsageError(f"{name} {path} is no regular file; name one")
        folder = next(parent for parent in target.parents if parent.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise UsageError(
                f"{name} {path}: nothing can be written to {folder}; name another file"
            )
        for source in inputs:
            both = target.exists() and source.exists()
            in_it = both and (target.samefile(source) or source in target.parents)
            if target == source or in_it:
                raise UsageError(f"{name} {path} would overwrite what is read; name another file")
        if target in names:
            raise UsageError(f"{names[target]} and {name} are one file, {path}; name two")
        names[target] = name


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option, each of which may hold several with commas."""
    parts = ",".join(values or ()).split(",")
    return [part.strip() for part in parts if part.strip()]


def one_of(option: str, values: Sequence[str] | None) -> str | None:
    """The value of an option that is given once, or not. Raises :class:`UsageError`."""
    if len(values or ()) > 1:
        raise UsageError(
            f"{option} takes one (got {', '.join(values or ())}); define several judges in params.yaml "
            "and name each with --judge"
        )
    return values[0] if values else None


def mapping(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeatable option of the form name=value. Raises :class:`UsageError`."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes name=value (got {pair!r})")
        values[name] = value
    return values


def yaml_values(option: str, pairs: Sequence[str] | None) -> dict[str, Any]:
    """The values of a repeatable option of the form key=value, as YAML. Raises :class:`UsageError`."""
    values = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        try:
            values[key] = YAML(typ="safe", pure=True).load(text)
        except (YAMLError, RecursionError):
            equals = ""
        if not equals or not key:
            raise UsageError(f"{option} takes key=value with a YAML value (got {pair!r})")
    return values
