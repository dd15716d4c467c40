"""Types of settings that several adapters share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Text = Annotated[str, Field(min_length=1)]
Markers = Annotated[
    list[Text],
    Field(
        min_length=2,
        max_length=2,
        json_schema_extra={"allowed": 'two markers such as ["<think>", "</think>"]'},
    ),
]
