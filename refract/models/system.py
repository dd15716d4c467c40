"""System prompts: a text of one's own, or another's by reference."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from refract.core.published_text.fetching import fetch, read_text
from refract.core.published_text.sources import Source, SourceError
from refract.models.fields import Text
from refract.models.protocol import AdapterError

SystemPrompt = Annotated[
    Text | Source | None,
    Field(
        description="put before conversations that have no system message",
        json_schema_extra={
            "allowed": "a text, null, or where a published one stands: {package or repository, path, "
            "at, sha256}"
        },
    ),
]


def system_text(where: str, given: str | Source | None) -> str | None:
    """The text itself; a published one is fetched at its first use. Raises :class:`AdapterError`."""
    if not isinstance(given, Source):
        return given
    try:
        fetch([given])
        return read_text(given)
    except SourceError as error:
        raise AdapterError(f"{where}: system_prompt: {error}") from None


def system_identity(given: str | Source | None) -> Any:
    """What an identity holds of it: a published text by its SHA-256, wherever it stands."""
    return {"sha256": given.sha256} if isinstance(given, Source) else given
