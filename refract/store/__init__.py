"""The response store: every answer that was ever generated, by the hash of its whole request.

One SQLite file in the user's cache folder. ``REFRACT_CACHE`` names another folder, or turns the
store off (``REFRACT_CACHE=off``). DVC decides whether a stage runs; the store decides what a run
costs. Errors and answers that a provider's filter took away are never stored.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from refract.errors import RefractError
from refract.folders import cache_folder
from refract.models.protocol import Answer, Request
from refract.rows.jsonl import canonical_json

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    request_sha256 TEXT PRIMARY KEY,
    answer         TEXT NOT NULL,
    sha256         TEXT NOT NULL,
    model          TEXT NOT NULL,
    stored_at      INTEGER NOT NULL
) WITHOUT ROWID
"""
# An answer's own fields, in the order in which its checksum takes them.
ANSWER_FIELDS = (
    "response",
    "finish_reason",
    "attempt",
    "prompt_tokens",
    "completion_tokens",
    "thinking",
)
_values = attrgetter(*ANSWER_FIELDS)
_decode = json.JSONDecoder().decode
# SQLite allows 999 variables in a statement of the oldest builds still in use.
LOOKUP = 900
# How long a process waits for another one's transaction.
BUSY_SECONDS = 60


class StoreError(RefractError, RuntimeError):
    """The store's file cannot be used; the message says which and what to do."""


def request_sha256(identity: str, request: Request, uses: Sequence[str], samples: bool) -> str:
    """The hash of everything that determines an answer.

    ``identity`` is the canonical JSON of the adapter's identity. The row's seed counts only for a
    model that samples; of the row's metadata only what the adapter names in ``USES``.
    """
    content = canonical_json(
        [
            request.attempts,
            request.seed if samples else None,
            {name: request.metadata[name] for name in uses},
        ]
    )
    return _sha256(f"{identity}\n{content}".encode())


def storable(answer: Answer) -> bool:
    """Whether an answer may be reused: it comes from the model, not from an error or a filter."""
    return answer.error is None and answer.finish_reason in ("stop", "length", "refusal")


def _record(key: str, answer: Answer) -> tuple[str, str]:
    """The text of an answer together with its request's hash, and that text's SHA-256."""
    text = canonical_json([key, *_values(answer)])
    return text, _sha256(text.encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def answer_sha256(key: str, answer: Answer) -> str:
    """Checksum that ties an answer to its request, in the store and in response rows."""
    return _record(key, answer)[1]


def answer_from(fields: Mapping[str, Any]) -> Answer:
    """The answer that a response row or a stored record holds."""
    return Answer(**{field: fields[field] for field in ANSWER_FIELDS})


def open_store() -> ResponseStore:
    """The store that the environment names; without a file behind it where it is turned off."""
    folder = cache_folder()
    return ResponseStore(None if folder is None else folder / "responses.sqlite")


class ResponseStore:
    """Answers by request hash. Safe for several processes at a time; use as a context manager.

    ``path=None`` stores nothing: every lookup misses. Raises :class:`StoreError` when the file
    cannot be opened or is not a store.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The writer of refract.store.generating commits from a thread of its own, never while
            # another thread uses the connection.
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Texts come as bytes, so that a damaged one is found by its checksum and does not raise
            # an exception that loses its neighbours.
            self._db.text_factory = bytes
            # A killed process loses nothing that was committed; only a power cut may lose the last
            # commits, whose answers are then generated again.
            self._turn_on_wal(self._db)
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            if self._db is not None:
                self._db.close()
            raise self._unusable(error) from None

    @staticmethod
    def _turn_on_wal(db: sqlite3.Connection) -> None:
        # SQLite waits for other processes everywhere but here, when several open a new file at once.
        end = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The stored answers among ``keys``. A damaged record is a miss."""
        found: dict[str, Answer] = {}
        if self._db is None:
            return found
        known = dict.fromkeys(keys)
        wanted = list(known)
        for start in range(0, len(wanted), LOOKUP):
            for text, checksum in self._records(wanted[start : start + LOOKUP]):
                # The record is the checksum's own text, so that checking costs one hash.
                if not isinstance(text, bytes) or _sha256(text).encode() != checksum:
                    continue
                key, *values = _decode(text.decode("ascii"))
                # Another release may have stored other fields.
                if key in known and len(values) == len(ANSWER_FIELDS):
                    found[key] = Answer(**dict(zip(ANSWER_FIELDS, values, strict=True)))
        return found

    def _records(self, keys: Sequence[str]) -> list[tuple[Any, Any]]:
        """Answer and checksum of the records with these keys; where a page of the file is damaged,
        of those that can still be reached."""
        marks = ",".join("?" * len(keys))
        query = f"SELECT answer, sha256 FROM answers WHERE request_sha256 IN ({marks})"
        assert self._db is not None
        try:
            return self._db.execute(query, keys).fetchall()
        except sqlite3.DatabaseError:
            if len(keys) == 1:
                return []
            return [record for key in keys for record in self._records([key])]

    def put(self, answers: Iterable[tuple[str, Answer]], model: str = "") -> int:
        """Stores answers (those that may be stored) in one transaction; returns how many are new.

        An answer that is already stored intact stays as it is.
        """
        if self._db is None:
            return 0
        given = {key: answer for key, answer in answers if storable(answer)}
        known = self.get(given)
        now = int(time.time())
        records = [
            (key, *_record(key, answer), model, now)
            for key, answer in given.items()
            if key not in known
        ]
        if records:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?)", records)
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._unusable(error) from None
            finally:
                # Also after an interrupt: what was to be stored can be stored again.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        return len(records)

    def delete(self, before: int | None = None) -> int:
        """Deletes the answers stored before a time (Unix seconds), or all; returns how many."""
        if self._db is None:
            return 0
        where, values = ("", ()) if before is None else (" WHERE stored_at < ?", (before,))
        try:
            deleted = self._db.execute(f"DELETE FROM answers{where}", values).rowcount
            self._db.execute("VACUUM")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        return deleted

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"the response store {self.path} cannot be used ({error}); move the file away, set "
            "REFRACT_CACHE to another folder, or to 'off'"
        )

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """(request hash, model name, time stored) of every record, oldest first."""
        if self._db is not None:
            query = "SELECT request_sha256, model, stored_at FROM answers ORDER BY stored_at"
            for key, model, stored_at in self._db.execute(query):
                yield key.decode(), model.decode("utf-8", "replace"), stored_at
