"""Which process asks for which answer, so that two with the same requests pay for one.

A process claims requests in the store's file before it sends them, and goes on claiming them while it
waits. A claim ends when its process gives it up or is found dead: on this machine by its number, on
another one when it was not renewed in time.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (
    request_sha256 TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    until          REAL NOT NULL
) WITHOUT ROWID
"""
# Seconds for which a claim holds that is not renewed.
LEASE = 60.0
# SQLite allows 999 variables in a statement of the oldest builds still in use.
LOOKUP = 900


def this_process() -> str:
    """This process as the owner of claims, told apart from an earlier one with the same number."""
    return json.dumps([socket.gethostname(), os.getpid(), _started(os.getpid())])


def is_dead(owner: str) -> bool:
    """Whether an owner is known to have ended; False for a process of another machine."""
    try:
        host, process, started = json.loads(owner)
        if host != socket.gethostname():
            return False
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, TypeError, OverflowError):
        return False
    return bool(_started(process) != started)


def _started(process: int) -> str | None:
    """When a process started, in the kernel's own unit; None where there is no /proc."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def take(db: sqlite3.Connection, keys: Sequence[str], owner: str) -> set[str]:
    """Claims those of the requests that nobody else holds, in the transaction under way.

    Returns them. Raises sqlite3.Error where the file cannot be written.
    """
    now = time.time()
    held = dict(_held(db, keys))
    dead = {other: is_dead(other) for other, _ in held.values() if other != owner}
    mine = [
        key
        for key in keys
        if key not in held or held[key][0] == owner or held[key][1] < now or dead[held[key][0]]
    ]
    db.executemany(
        "INSERT OR REPLACE INTO claims VALUES (?,?,?)", [(key, owner, now + LEASE) for key in mine]
    )
    return set(mine)


def _held(db: sqlite3.Connection, keys: Sequence[str]) -> Iterable[tuple[str, tuple[str, float]]]:
    for start in range(0, len(keys), LOOKUP):
        part = keys[start : start + LOOKUP]
        marks = ",".join("?" * len(part))
        query = f"SELECT request_sha256, owner, until FROM claims WHERE request_sha256 IN ({marks})"
        for key, owner, until in db.execute(query, part):
            yield _text(key), (_text(owner), until if isinstance(until, int | float) else 0.0)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def renew(db: sqlite3.Connection, owner: str) -> None:
    """Has an owner's claims hold from now on."""
    db.execute("UPDATE claims SET until = ? WHERE owner = ?", (time.time() + LEASE, owner))


def give_up(db: sqlite3.Connection, keys: Mapping[str, Any] | Iterable[str], owner: str) -> None:
    """Ends an owner's claims to some requests."""
    db.executemany(
        "DELETE FROM claims WHERE request_sha256 = ? AND owner = ?", [(key, owner) for key in keys]
    )
