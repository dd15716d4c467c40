"""Published texts by reference: where they stand, and their SHA-256."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from refract.core.errors import RefractError
from refract.core.registry import Registry, find, missing_package
from refract.core.settings import Settings

PACKAGE = r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.]+"
# What fetches them: a function of a Source that gives its text.
TEXTS = Registry({}, "refract.texts", "__call__")


class SourceError(RefractError, RuntimeError):
    """A published text cannot be fetched, or is another one than expected."""


Line = Annotated[str, Field(min_length=1)]


class Source(Settings):
    """A published text: its file, its place there, its SHA-256 as UTF-8."""

    package: Annotated[str, Field(pattern=f"^{PACKAGE}$")] | None = Field(
        None, description="a package of the index, as name==version"
    )
    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+@[0-9a-f]{40}$")] | None = Field(
        None, description="a repository of github.com at a commit, as owner/name@commit"
    )
    path: Line = Field(description="the file in the package or repository, or a file of your own")
    at: Line | None = Field(
        None,
        description="what people find it by in a file of Python, YAML or JSON (the "
        "SHA-256 decides which text it is); null: the whole file",
    )
    style: Literal["format", "jinja", "template", "verbatim"] = Field(
        "format", description="how the text names its fields: {name}, {{ name }}, $name, or none"
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="of the text as UTF-8"
    )

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        if self.package and self.repository:
            raise ValueError("a text stands in a package or in a repository, not in both")
        return self

    def __str__(self) -> str:
        where = self.package or self.repository
        return " ".join(part for part in (where, self.path, self.at) if part)


def fetched_text(source: Source, where: str) -> str:
    """A text, fetched at its first use; ``where`` says in messages what names it. Raises SourceError
    and MissingPackage."""
    if "published" not in TEXTS.installed():
        raise missing_package(f"{where}: what fetches published texts", "published")
    text: str = find(TEXTS, "published", where)(source)
    return text
