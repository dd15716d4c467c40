"""By which run each stored answer was made: on what machine, when, how fast.

Kept beside the answers, in tables of their own: no answer, hash or output depends on them, and a
release that does not know them reads the same file.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from refract.core.jsonl import canonical_json, sha256_json
from refract.models.protocol import Origin

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run    TEXT PRIMARY KEY,
    record TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS origins (
    request_sha256 TEXT PRIMARY KEY,
    run            TEXT NOT NULL,
    at             REAL,
    seconds        REAL
) WITHOUT ROWID
"""
# SQLite allows 999 variables in a statement of the oldest builds still in use.
LOOKUP = 900


def create(db: sqlite3.Connection) -> None:
    """Makes the tables where they are not there yet."""
    for statement in SCHEMA.split(";"):
        db.execute(statement)


def write(
    db: sqlite3.Connection, found: Iterable[tuple[str, Origin | None]], replace: bool
) -> None:
    """Writes origins by request, in the transaction under way; ``replace``: over what is there."""
    verb = "REPLACE" if replace else "IGNORE"
    names: dict[int, str] = {}
    for key, origin in found:
        if origin is None:
            continue
        if id(origin.run) not in names:
            names[id(origin.run)] = sha256_json(origin.run)
            record = (names[id(origin.run)], canonical_json(origin.run))
            db.execute("INSERT OR IGNORE INTO runs VALUES (?,?)", record)
        row = (key, names[id(origin.run)], origin.at, origin.seconds)
        db.execute(f"INSERT OR {verb} INTO origins VALUES (?,?,?,?)", row)


def read(db: sqlite3.Connection, keys: Sequence[str]) -> Iterator[tuple[str, Origin]]:
    """The origins of some requests; a record that is damaged is passed over."""
    runs: dict[bytes, Any] = {}
    for start in range(0, len(keys), LOOKUP):
        part = keys[start : start + LOOKUP]
        marks = ",".join("?" * len(part))
        query = f"SELECT request_sha256, run, at, seconds FROM origins WHERE request_sha256 IN ({marks})"
        for key, run, at, seconds in db.execute(query, part).fetchall():
            if run not in runs:
                runs[run] = _record(db, run)
            if isinstance(runs[run], dict):
                yield (
                    key.decode("utf-8", "replace"),
                    Origin(runs[run], _number(at), _number(seconds)),
                )


def _record(db: sqlite3.Connection, run: bytes) -> Any:
    for (record,) in db.execute("SELECT record FROM runs WHERE run = CAST(? AS TEXT)", (run,)):
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            return json.loads(record)
    return None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def forget(db: sqlite3.Connection) -> None:
    """Removes the origins of answers that are gone, and the runs that made none of the others."""
    db.execute(
        "DELETE FROM origins WHERE request_sha256 NOT IN (SELECT request_sha256 FROM answers)"
    )
    db.execute("DELETE FROM runs WHERE run NOT IN (SELECT run FROM origins)")
