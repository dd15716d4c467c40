"""params.yaml as DVC reads it: YAML 1.2 (ruamel), where ``no`` is a text and ``1e-4`` a number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError

# Nobody writes more by hand; beyond it aliases of aliases would fill the memory.
MOST_VALUES = 100_000
DEEPEST = 50


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping, as plain dicts and lists. Raises :class:`ParamsError`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import YAMLError

    class Bounded(SafeConstructor):
        def construct_document(self, node: Any) -> Any:
            _check_size(path, node)
            return super().construct_document(node)

    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = Bounded
    try:
        with open(path, encoding="utf-8") as file:
            found = yaml.load(file)
    except OSError as error:
        raise ParamsError(
            f"{path} cannot be read ({error.strerror}); run from the project's root"
        ) from None
    except RecursionError:
        raise _too_deep(path) from None
    except ParamsError:
        raise
    except (YAMLError, ValueError, TypeError, OverflowError) as error:
        raise ParamsError(f"{path} is not YAML: {error}") from None
    if not isinstance(found, dict):
        raise ParamsError(f"{path} must hold a mapping (got {type(found).__name__})")
    _check_keys(path, found, "")
    try:
        # What hashes and results are made of: dates, and infinities have no place there.
        json.dumps(found, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParamsError(
            f"{path} holds a value that JSON cannot express ({error}); put it in quotes"
        ) from None
    return found


def _check_keys(path: Path, value: Any, where: str) -> None:
    """Raises :class:`ParamsError` for a key that is no text, which DVC would misread."""
    for key, held in value.items() if isinstance(value, dict) else ():
        if not isinstance(key, str):
            place = f"{path}: {where}" if where else str(path)
            raise ParamsError(f"{place} has the key {key!r}, which is no text; put it in quotes")
        _check_keys(path, held, f"{where}.{key}" if where else key)
    for held in value if isinstance(value, list) else ():
        _check_keys(path, held, where)


def _check_size(path: Path, document: Any) -> None:
    """Raises :class:`ParamsError` for a document that would be too large with its aliases in place,
    before anything is made of it."""
    sizes: dict[int, tuple[int, int]] = {}  # by node: values in it, levels in it

    def measure(node: Any, depth: int) -> tuple[int, int]:
        if id(node) in sizes:
            return sizes[id(node)]
        if depth > DEEPEST:
            raise _too_deep(path)
        values, levels = 1, 0
        if isinstance(node.value, list):
            for entry in node.value:
                for child in entry if isinstance(entry, tuple) else (entry,):
                    inside, below = measure(child, depth + 1)
                    values, levels = values + inside, max(levels, below + 1)
        sizes[id(node)] = values, levels
        return values, levels

    values, levels = measure(document, 0)
    if levels > DEEPEST:
        raise _too_deep(path)
    if values > MOST_VALUES:
        raise ParamsError(
            f"{path} holds {values:.3g} values with its aliases (*name) in place; at most "
            f"{MOST_VALUES} are allowed"
        )


def _too_deep(path: Path) -> ParamsError:
    return ParamsError(
        f"{path} is nested deeper than {DEEPEST} levels, or an alias in it holds itself"
    )
