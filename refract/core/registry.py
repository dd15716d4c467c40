"""How adapters, judges, perturbations and other parts are found by their names.

A registry maps names to ``module:object``. The module is imported when the name is used,
so that nobody pays for what is not used. An installed package adds to a registry without
a change here: it is named as ``package.module:Object``, or gives names of its own by an
entry point in the registry's group."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

from refract.core.errors import MissingPackage, ParamsError, nearest

# The packages of this repository that bring names, by the registry's group. Where one is not
# installed, messages say which; the extra of refract-eval that installs it has the same name.
PACKAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "dialogue": {"refract.judges": ("calls",)},
    "exact": {"refract.arithmetics": ("exact",), "refract.commands": ("verify",)},
    "gguf": {"refract.weight_files": ("gguf",)},
    "inspect": {},  # it names parts of other tools
    "paper": {
        "refract.commands": ("reproduce",),
        "refract.exporters": ("appendix", "bundle", "latex"),
    },
    "published": {
        "refract.commands": ("import-suite", "judge.fetch", "judge.list", "models.fetch"),
        "refract.judges": (
            *("bert_score", "bert_score_reference", "classifier", "published"),
            *("coherency", "harmfulness", "llm_refusal", "refusal_cause"),
            *("reference", "requirement", "similarity"),
        ),
        "refract.logs": ("inspect", "lm_eval"),
        "refract.named_judges": ("published",),
        "refract.texts": ("published",),
    },
}
PLACE = r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*"


def entry_points(group: str) -> EntryPoints:
    """What installed packages name in a group. They are read once: one reading opens a file of each
    package, and a project asks a hundred times. A package that is installed meanwhile changes a
    folder's time, and they are read again."""
    folders = [folder or "." for folder in sys.path if os.path.isdir(folder or ".")]
    times = tuple((folder, os.path.getmtime(folder)) for folder in folders)
    return _by_group(times).get(group, EntryPoints())


@lru_cache(maxsize=1)
def _by_group(folders: tuple[tuple[str, float], ...]) -> dict[str, EntryPoints]:
    points = importlib.metadata.entry_points()
    return {group: points.select(group=group) for group in points.groups}


def package_code(module: str) -> dict[str, Path]:
    """The folder or file of the package that a module belongs to, by the package's name; {} where
    there is none. Within a namespace, which holds no code of its own, that is a part of it."""
    parts = module.split(".") if module else []
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # a script, or a module that none was loaded from
            spec = None
        if spec is None:
            break
        if spec.origin is not None:
            path = Path(spec.origin)
            return {name: path.parent if path.name == "__init__.py" else path}
    return {}


def code_files(path: Path) -> list[Path]:
    """The files of a package's folder, in order, without what Python compiled; of a file itself."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in files if file.is_file() and ".pyc" not in file.suffixes]


class Registry(dict[str, str]):
    """The names that come with this package, and the group of entry points for those of others.

    ``members`` are attributes that an object from elsewhere must have, beyond which nothing is
    checked. A name that comes with this package cannot be taken by another."""

    def __init__(self, names: Mapping[str, str], group: str, *members: str) -> None:
        super().__init__(names)
        self.group, self.members = group, members

    def installed(self) -> dict[str, str]:
        """The names that installed packages add."""
        points = entry_points(self.group)
        return {point.name: point.value for point in points if point.name not in self}

    def knows(self, name: str) -> bool:
        """Whether ``find`` looks for something under this name."""
        return name in self or bool(re.fullmatch(PLACE, name)) or name in self.installed()

    def code_of(self, name: str) -> dict[str, Path]:
        """The folder or file of the package that a name comes from, by the package's name; {}
        for a name of this package, and where no package is found."""
        place = name if re.fullmatch(PLACE, name) else self.installed().get(name, "")
        return {} if name in self else package_code(place.partition(":")[0])

    def package_of(self, name: str) -> str | None:
        """The package of this repository that brings a name, whether installed or not."""
        for package, groups in PACKAGES.items():
            if name in groups.get(self.group, ()):
                return package
        return None

    def remedy(self) -> str:
        """What to install for further names, as the end of a message; nothing where all packages
        of this repository that bring some are installed."""
        installed = self.installed()
        absent = []
        for package, groups in PACKAGES.items():
            if not installed.keys() >= set(groups.get(self.group, ())):
                absent.append(package)
        remedies = [
            f"; more come with the package refract-{package}: pip install 'refract-eval[{package}]'"
            for package in absent
        ]
        return "".join(remedies)


def missing_package(what: str, package: str) -> MissingPackage:
    """The error for what a package of this repository brings that is not installed."""
    return MissingPackage(
        f"{what} comes with the package refract-{package}, which is not installed; run: "
        f"pip install 'refract-eval[{package}]'"
    )


def find(registry: Registry, name: object, where: str, others: Iterable[str] = ()) -> Any:
    """The object behind a name; ``where`` says in messages where the name stands
    (``models.my_model: adapter``), ``others`` are names that are known besides. Raises ParamsError
    for an unknown name, and for an object of another package that cannot be imported or is none of
    this kind; MissingPackage for a name that an absent package of this repository brings."""
    if isinstance(name, str) and name in registry:
        return pkgutil.resolve_name(registry[name])
    installed = registry.installed()
    package = registry.package_of(name) if isinstance(name, str) else None
    if package and name not in installed:
        raise missing_package(f"{where}: {name!r}", package)
    place = installed.get(name, name) if isinstance(name, str) else ""
    if not re.fullmatch(PLACE, place):
        known = [*others, *registry, *installed]
        raise ParamsError(
            f"{where} must be one of {', '.join(known)}, or package.module:Name of an installed "
            f"package (got {name!r}){nearest(name, known)}"
        )
    try:
        named = pkgutil.resolve_name(place)
    except Exception as error:  # whatever a module of somebody else's raises when it is imported
        raise ParamsError(
            f"{where}: {place} cannot be imported ({type(error).__name__}: {error}); it must be in a "
            "package that is installed beside refract-eval"
        ) from None
    absent = [member for member in registry.members if not hasattr(named, member)]
    if absent:
        raise ParamsError(
            f"{where}: {place} has no {absent[0]!r} and can be none of {registry.group}"
        )
    return named
