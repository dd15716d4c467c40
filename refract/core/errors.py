"""The base of every error that Refract raises on purpose.

``RefractError``
├── ``ParamsError``      params.yaml, or a definition in it, cannot be used        (exit code 2)
├── ``UsageError``       an argument of the command line cannot be used            (exit code 2)
├── ``MissingPackage``   a package of the extra ``local`` is not installed         (exit code 2)
├── ``AdapterError``     a model as a whole cannot be used         (refract.models.protocol)
├── ``RowError``         a file of rows cannot be read
├── ``SuiteError``       a suite cannot be used                    (refract.suites.rows)
├── ``StoreError``       the response store cannot be used         (refract.models.store)
└── ``ResultsError``     results cannot be found or used           (refract.results.sources)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class RefractError(Exception):
    """Something a user can mend: the message says what is wrong, which value came, what is allowed
    and what to run. ``exit_code`` is what a command that ends with it returns."""

    exit_code: ClassVar[int] = 1


class ParamsError(RefractError, ValueError):
    """params.yaml lacks something, or holds a value that is not allowed."""

    exit_code = 2


class UsageError(RefractError, ValueError):
    """An argument of the command line cannot be used."""

    exit_code = 2


class MissingPackage(RefractError):
    """A package that this package's extra ``local`` brings is not installed."""

    exit_code = 2


class RowError(RefractError, ValueError):
    """A file of rows cannot be read: the message names the file, the line and what is wrong."""


def nearest(name: object, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known name is close to this one, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""
