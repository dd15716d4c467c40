"""What a value in a model's definition can be: the checks that adapters share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def is_number(value: Any) -> bool:
    """Whether it is a finite number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_text(value: Any) -> bool:
    """Whether it is a text that is not empty."""
    return isinstance(value, str) and value != ""


def is_texts(value: Any) -> bool:
    """Whether it is a list of such texts, and not an empty one."""
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(is_text, value))


def is_markers(value: Any) -> bool:
    """Whether it is two such texts: what thinking begins and ends with."""
    return is_texts(value) and len(value) == 2


def or_null(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A check that lets null pass too."""
    return lambda value: value is None or check(value)
