"""The response store: every answer that was ever generated, by the hash of its whole request.

One SQLite file in the user's cache folder. ``REFRACT_CACHE`` names another folder, or turns the
store off (``REFRACT_CACHE=off``). DVC decides whether a stage runs; the store decides what a run
costs. Errors and answers that a provider's filter took away are never stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from refract.core.environment import cache_folder
from refract.core.errors import RefractError
from refract.core.jsonl import canonical_json
from refract.core.types import ResponseRow
from refract.models.protocol import Answer, Model, Origin, Request
from refract.models.store import claims, origins

# Of the tables below; a file of a later release has a higher one (0: from before it was written).
SCHEMA_VERSION = 1
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
COLUMNS = ["request_sha256", "answer", "sha256", "model", "stored_at"]
STORED_REASONS = ("stop", "length", "refusal")
_values = attrgetter(*ANSWER_FIELDS)
_decode = json.JSONDecoder().decode
# SQLite allows 999 variables in a statement of the oldest builds still in use.
LOOKUP = 900
# How long a process waits for another one's transaction.
BUSY_SECONDS = 60


class StoreError(RefractError, RuntimeError):
    """The store's file cannot be used; the message says which and what to do."""


def request_sha256(identity: str, request: Request, model: Model) -> str:
    """The hash of everything that determines an answer.

    ``identity`` is the canonical JSON of the model's identity. The row's seed counts only for a model
    that samples, and which repeat it is only for a server's that does not: the others give a repeat
    the same answer, or another seed. Of the row's metadata only what the adapter names in ``USES``
    counts.
    """
    content: list[Any] = [
        request.attempts,
        request.seed if model.samples else None,
        {name: request.metadata[name] for name in model.USES},
    ]
    if request.repeat and not (model.samples or model.runs_here):
        content.append(request.repeat)
    return _sha256(f"{identity}\n{canonical_json(content)}".encode())


def storable(answer: Answer) -> bool:
    """Whether an answer may be reused: it comes from the model, not from an error or a filter."""
    return answer.error is None and answer.finish_reason in STORED_REASONS


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
    """The answer that a response row or a stored record holds.

    Raises KeyError, TypeError and ValueError for fields that no answer has: another release may have
    written others.
    """
    answer = Answer(**{field: fields[field] for field in ANSWER_FIELDS})
    if not isinstance(answer.response, str) or not isinstance(answer.finish_reason, str):
        raise TypeError("response and finish_reason are texts")
    if not isinstance(answer.thinking, str | None):
        raise TypeError("thinking is a text or null")
    counts = (answer.attempt, answer.prompt_tokens or 0, answer.completion_tokens or 0)
    # The range first: infinity is no whole number, and Python does not say so but raises.
    if any(
        isinstance(count, bool) or not 0 <= count < 2**53 or count != int(count) for count in counts
    ):
        raise ValueError("attempt and tokens are counts")
    if not isinstance(answer.attempt, int):
        raise TypeError("attempt is a whole number")
    return answer


def answer_row(key: str, answer: Answer, prompt_id: str = "") -> ResponseRow:
    """An answer as a response row; its checksum ties it to its request."""
    return {
        "prompt_id": prompt_id,
        "request_sha256": key,
        "response": answer.response,
        "finish_reason": answer.finish_reason,
        "attempt": answer.attempt,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "thinking": answer.thinking,
        "error": answer.error,
        "answer_sha256": answer_sha256(key, answer),
    }


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
        self._origins: dict[str, Origin] = {}  # where there is no file
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # The writer of refract.models.store.generating commits from a thread of its own, never while
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
            self._check_schema(self._db)
            self._db.execute(SCHEMA)
            self._db.execute(claims.SCHEMA)
            origins.create(self._db)
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

    def _check_schema(self, db: sqlite3.Connection) -> None:
        """Raises sqlite3.DatabaseError for a file with other tables than this release has."""
        ((version,),) = db.execute("PRAGMA user_version")
        if version > SCHEMA_VERSION:
            raise sqlite3.DatabaseError(
                f"it is of schema {version}, written by a later release of Refract; this one reads "
                f"schema {SCHEMA_VERSION}"
            )
        found = [row[1].decode() for row in db.execute("PRAGMA table_info(answers)")]
        kinds = [
            row[0] for row in db.execute("SELECT type FROM sqlite_master WHERE name='answers'")
        ]
        if found and (found != COLUMNS or kinds != [b"table"]):
            raise sqlite3.DatabaseError(
                f"its answers have the columns {', '.join(found)}; this release has "
                f"{', '.join(COLUMNS)}"
            )
        if version < SCHEMA_VERSION:
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def answers(self, requests: Mapping[str, Request]) -> dict[str, Answer]:
        """The stored answers to requests by hash.

        A record that names an attempt which its request does not have is a miss.
        """
        found = self.get(requests)
        for key, answer in list(found.items()):
            if answer.attempt >= len(requests[key].attempts):
                del found[key]
                assert self._db is not None
                # Otherwise the answer that takes its place would not be stored.
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("DELETE FROM answers WHERE request_sha256 = ?", (key,))
        return found

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The stored answers among ``keys``. A record that is damaged or not valid is a miss."""
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
                with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
                    key, *values = _decode(text.decode("ascii"))
                    answer = answer_from(dict(zip(ANSWER_FIELDS, values, strict=True)))
                    if key in known and storable(answer):
                        found[key] = answer
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
            with self._writing() as db:
                db.executemany("INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?)", records)
                made = ((record[0], given[record[0]].origin) for record in records)
                origins.write(db, made, replace=True)
        return len(records)

    def origins(self, keys: Iterable[str]) -> dict[str, Origin]:
        """How the answers to some requests were made, as far as it is known."""
        if self._db is None:
            return {key: self._origins[key] for key in keys if key in self._origins}
        with contextlib.suppress(sqlite3.Error):  # no answer depends on it
            return dict(origins.read(self._db, list(dict.fromkeys(keys))))
        return {}

    def learn_origins(self, found: Mapping[str, Origin]) -> None:
        """Keeps how answers were made that came from elsewhere, where that is not known yet."""
        if self._db is None:
            self._origins = {**found, **self._origins}
        elif found:
            with self._writing() as db:
                origins.write(db, found.items(), replace=False)

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Those of the requests that this process is to ask: the ones that no other process has
        claimed. Raises :class:`StoreError` where an answer could not be stored."""
        wanted = list(keys)
        if self._db is None:
            return set(wanted)
        with self._writing() as db:
            # What an answer needs to be stored is found out before it is paid for.
            db.execute("SAVEPOINT trial")
            key = f"trial {claims.this_process()}"
            record = (key, *_record(key, Answer("")), "", int(time.time()))
            db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?)", record)
            db.execute("ROLLBACK TO trial")
            db.execute("RELEASE trial")
            return claims.take(db, wanted, claims.this_process())

    def renew_claims(self) -> None:
        """Has this process's claims hold for another while."""
        if self._db is not None:
            with self._writing() as db:
                claims.renew(db, claims.this_process())

    def give_up_claims(self, keys: Iterable[str]) -> None:
        """Ends this process's claims to some requests."""
        if self._db is not None:
            with self._writing() as db:
                claims.give_up(db, keys, claims.this_process())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is committed at the end. Raises :class:`StoreError`."""
        assert self._db is not None
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        finally:
            # Also after an interrupt: what was to be stored can be stored again.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def delete(self, before: int | None = None) -> int:
        """Deletes the answers stored before a time (Unix seconds), or all; returns how many."""
        if self._db is None:
            return 0
        where, values = ("", ()) if before is None else (" WHERE stored_at < ?", (before,))
        try:
            deleted = self._db.execute(f"DELETE FROM answers{where}", values).rowcount
            origins.forget(self._db)
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
