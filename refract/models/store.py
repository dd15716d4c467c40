"""The response store: every answer that was ever generated, by the hash of its whole
request.

One SQLite file in the user's cache folder; ``REFRACT_CACHE`` names another folder, or
``off``. Errors and filtered answers are never stored. Other tables hold the run that made
each answer and what speaks for it; no hash depends on them.

An answer is *certified* where exact arithmetic made or checked it on this machine, and
*stated* where it came in a file; of others nothing is known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from refract.core.environment import cache_folder
from refract.core.errors import RefractError
from refract.core.jsonl import canonical_json, has_form, parse_line, sha256_json
from refract.core.showing import say
from refract.core.types import ResponseRow, Row
from refract.models.protocol import Answer, AnswerOrigin, Certificate, Model, Request

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    request_sha256 TEXT PRIMARY KEY,
    answer         TEXT NOT NULL,
    sha256         TEXT NOT NULL,
    model          TEXT NOT NULL,
    stored_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    run    TEXT PRIMARY KEY,
    record TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    request_sha256 TEXT PRIMARY KEY,
    answer_sha256  TEXT NOT NULL,
    certificate    TEXT,
    stated         TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS origins (
    request_sha256 TEXT PRIMARY KEY,
    run            TEXT NOT NULL
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
    "tokens",  # which many answers lack, as they do those behind it
    "tool_calls",
    "stop_details",
)
LEAST_FIELDS = ANSWER_FIELDS.index("tokens")
STORED_REASONS = ("stop", "length", "loop", "refusal")
STOP_DETAILS = {"category": (str, type(None)), "explanation": (str, type(None))}
# How long a process waits for another one's transaction.
BUSY_SECONDS = 60
# The states of answers whose request is among some, unless other answers took their
# places.
STATES = """
SELECT * FROM (
    SELECT states.request_sha256, answer_sha256, certificate, stated
    FROM states LEFT JOIN answers USING (request_sha256)
    WHERE answers.sha256 IS NULL OR answers.sha256 = answer_sha256
)"""


# Bytes that a disk has to have free before anything is asked.
LEAST_FREE = 16_000_000


class StoreError(RefractError, RuntimeError):
    """The store's file cannot be used; the message says which and what to do."""


class AnswerState(NamedTuple):
    """What speaks for the answer with a checksum: a certificate that was found here, or
    nothing but the file in which it was ``stated`` ("": none)."""

    answer_sha256: str
    certificate: Certificate | None
    stated: str


def request_sha256(identity: str, request: Request, model: Model) -> str:
    """The hash of everything that determines an answer.

    ``identity``: canonical JSON of the model's identity. The seed counts for a model that samples
    alone, ``repeat`` for a server's that does not: others give a repeat the same answer, or it has
    another seed. Of the metadata counts what the adapter names in ``USES``."""
    seed = request.seed if model.samples else None
    metadata = {name: request.metadata[name] for name in model.USES if name in request.metadata}
    content: list[Any] = [request.attempts, seed, metadata]
    if request.repeat and not (model.samples or model.runs_here):
        content.append(request.repeat)
    if request.tools:
        content.append({"tools": request.tools})
    return _sha256(f"{identity}\n{canonical_json(content)}")


def storable(answer: Answer) -> bool:
    """Whether an answer may be reused: it comes from the model, not from an error or a
    filter, and its fields have their types."""
    counts = [answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.attempt]
    return (
        answer.error is None
        and answer.finish_reason in STORED_REASONS
        and isinstance(answer.response, str)
        and isinstance(answer.thinking, str | None)
        and isinstance(answer.tokens, str | None)
        and re.fullmatch(r"[\w+/]*=*", answer.tokens or "", re.ASCII) is not None
        and all(isinstance(count, int) and count >= 0 for count in counts)
        and has_form(answer.tool_calls or [], [{"name": str, "arguments": object}])
        and (answer.stop_details is None or has_form(answer.stop_details, STOP_DETAILS))
    )


def _record(key: str, answer: Answer) -> str:
    values = [getattr(answer, name) for name in ANSWER_FIELDS]
    # Without any of the last fields the checksum is the one from before there were such.
    while len(values) > LEAST_FIELDS and values[-1] is None:
        values.pop()
    return canonical_json([key, *values])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def answer_in(row: Mapping[str, Any]) -> Answer:
    """The answer in a response row, with the fields that it has."""
    fields: dict[str, Any] = {field: row.get(field) for field in ANSWER_FIELDS}
    return Answer(**fields)


def answer_sha256(key: str, answer: Answer) -> str:
    """Checksum that ties an answer to its request, in the store and in response rows."""
    return _sha256(_record(key, answer))


def answer_row(key: str, answer: Answer, prompt_id: str = "") -> ResponseRow:
    """An answer as a response row; its checksum ties it to its request."""
    row: Row = {"prompt_id": prompt_id, "request_sha256": key, "error": answer.error}
    for field in ANSWER_FIELDS:
        value = getattr(answer, field)
        if value is not None or field in ANSWER_FIELDS[:LEAST_FIELDS]:
            row[field] = value
    row["answer_sha256"] = answer_sha256(key, answer)
    return cast(ResponseRow, row)


def known_answers(
    *places: Path, besides: Container[str] = frozenset()
) -> Iterator[tuple[str, Answer]]:
    """The answers of response rows in files, and in the JSONL files of folders, by request hash.
    They are ``stated``.

    Rows whose checksum does not hold are skipped, and those whose hash is in ``besides``. In one
    file a later row corrects an earlier one. Where two files differ, the first by name counts,
    which is said."""
    seen: dict[str, tuple[str, Path]] = {}
    differing: dict[tuple[Path, Path], int] = {}
    for place in places:
        for path in [place] if place.is_file() else sorted(place.glob("*.jsonl")):
            for key, answer in _rows_of(path, besides).items():
                new = (answer_sha256(key, answer), path)
                checksum, first = seen.setdefault(key, new)
                if first == path:
                    yield key, answer
                elif checksum != new[0]:
                    differing[first, path] = differing.get((first, path), 0) + 1
    for (first, path), count in differing.items():
        text = f"{count} requests have other answers in {path} than in {first}, whose answers count"
        say(text, file=sys.stderr)


def _rows_of(path: Path, besides: Container[str]) -> dict[str, Answer]:
    """The answers of one file's intact rows."""
    answers: dict[str, Answer] = {}
    source = str(path.resolve())
    with open(path, "rb") as file:
        for line in file:
            try:
                row = parse_line(line)
                key = row["request_sha256"]
                if key in besides:
                    continue
                answer = replace(answer_in(row), stated=source)
                if row["answer_sha256"] == answer_sha256(key, answer) and storable(answer):
                    answers[key] = answer
            except (KeyError, TypeError, ValueError):
                continue
    return answers


def store_file() -> Path | None:
    """The file of the store that the environment names; None where it is turned off."""
    folder = cache_folder()
    return None if folder is None else folder / "responses.sqlite"


def open_store() -> ResponseStore:
    """The store that the environment names; without a file behind it where it is turned off."""
    return ResponseStore(store_file())


class ResponseStore(contextlib.AbstractContextManager["ResponseStore"]):
    """Answers by request hash. Safe for several processes at a time; use as a context
    manager. ``path=None`` stores no answers. Each method raises :class:`StoreError`
    when the file cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        # What must hold before anything is asked; each raises a RefractError.
        self.before_asking: list[Callable[[], None]] = []
        with self._errors():
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path or ":memory:",
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
            # SQLite waits for other processes everywhere but here: several may open a
            # new file.
            end = time.monotonic() + BUSY_SECONDS
            while True:
                try:
                    self._db.execute("PRAGMA journal_mode=WAL")
                    break
                except sqlite3.OperationalError as error:
                    busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                    if not busy or time.monotonic() > end:
                        raise
                    time.sleep(0.01)
            # A killed process loses nothing that was committed; only a power cut may
            # lose the last commits, whose answers are then generated again.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(SCHEMA)

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"the response store {self.path} cannot be used ({error}); free room on a full disk, "
                "move a broken file away, or set REFRACT_CACHE to another folder, or to 'off'"
            ) from None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which is committed at the end."""
        with self._errors():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            finally:
                # Also after an interrupt: what was to be stored can be stored again.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def check_writable(self) -> None:
        """Raises :class:`StoreError` where the file cannot be written, or its disk is nearly full, and
        what is to hold ``before_asking``."""
        for check in self.before_asking:
            check()
        if self.path is not None:
            with self._errors():
                free = shutil.disk_usage(self.path.parent).free
                if free < LEAST_FREE:
                    raise OSError(f"{free:,} bytes are free on its disk, {LEAST_FREE:,} are needed")
        with self._writing():
            pass

    def _select(self, query: str, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """The rows of a query that are of these keys."""
        chosen = f"{query} WHERE request_sha256 IN (SELECT value FROM json_each(?))"
        with self._errors():
            yield from self._db.execute(chosen, (json.dumps(list(keys)),))

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The stored answers among ``keys``. A record with a wrong checksum, other
        fields or other types is a miss."""
        answers: dict[str, Answer] = {}
        query = "SELECT request_sha256, answer, sha256 FROM answers"
        for key, text, checksum in self._select(query, keys):
            # The record is the checksum's own text, so that checking costs one hash.
            if isinstance(text, str) and _sha256(text) == checksum:
                with contextlib.suppress(TypeError, ValueError):  # a record of another version
                    stored_key, *values = json.loads(text)
                    known = len(values) in range(LEAST_FIELDS, len(ANSWER_FIELDS) + 1)
                    answer = Answer(**dict(zip(ANSWER_FIELDS, values, strict=False)))
                    if known and stored_key == key and storable(answer):
                        answers[key] = answer
        return answers

    def put(
        self,
        answers: Iterable[tuple[str, Answer]],
        model: str = "",
        corrected: Container[str] = (),
    ) -> int:
        """Stores answers (those that may be stored) in one transaction; returns how many are new.
        One that is already stored intact stays as it is, unless it is one of ``corrected``."""
        if self.path is None:
            return 0
        good = {key: answer for key, answer in answers if storable(answer)}
        known = self.get(good)
        wanted = {key: good[key] for key in good if key not in known or key in corrected}
        if not wanted:
            return 0
        now = int(time.time())
        records = []
        with self._writing() as db:
            # Looked at again: another process may have stored some of them meanwhile.
            known = self.get(wanted)
            new = {key: wanted[key] for key in wanted if key not in known or key in corrected}
            for key, answer in new.items():
                text = _record(key, answer)
                records.append((key, text, _sha256(text), model, now))
            columns = "request_sha256, answer, sha256, model, stored_at"
            db.executemany(
                f"INSERT OR REPLACE INTO answers ({columns}) VALUES (?,?,?,?,?)",
                records,
            )
            _write_origins(db, new, replace=True)
        return len(records)

    def origins(self, keys: Iterable[str]) -> dict[str, AnswerOrigin]:
        """How the answers to some requests were made, where that is known."""
        query = "SELECT request_sha256, record FROM origins JOIN runs USING (run)"
        runs: dict[str, AnswerOrigin | None] = {}
        origins = {}
        for key, record in self._select(query, keys):
            if record not in runs:
                runs[record] = _kept(record)
            origin = runs[record]
            if origin is not None:
                origins[key] = origin
        return origins

    def states(self, keys: Iterable[str]) -> dict[str, AnswerState]:
        """What speaks for the answers to some requests, where that is known."""
        states = {}
        for key, checksum, text, stated in self._select(STATES, keys):
            states[key] = AnswerState(checksum, _kept(text), stated)
        return states

    def certificates(self, keys: Iterable[str]) -> dict[str, Certificate]:
        """The certificates of answers that were certified here."""
        states = self.states(keys)
        return {key: state.certificate for key, state in states.items() if state.certificate}

    def learn(self, answers: Mapping[str, Answer]) -> None:
        """Keeps how answers were made, where that is not known yet, and what speaks for
        them; the answers themselves may be stored nowhere."""
        with self._writing() as db:
            _write_origins(db, answers, replace=False)

    def forget(self, answers: Mapping[str, Answer]) -> None:
        """Deletes these very answers; other answers to their requests stay."""
        with self._writing() as db:
            rows = [(key, answer_sha256(key, answer)) for key, answer in answers.items()]
            db.executemany("DELETE FROM answers WHERE request_sha256 = ? AND sha256 = ?", rows)


def _kept(text: object) -> Any:
    """The JSON object in a cell; None where it is empty or damaged."""
    with contextlib.suppress(TypeError, ValueError):
        value = json.loads(cast(str, text))
        return value if isinstance(value, dict) else None
    return None


def _write_origins(db: sqlite3.Connection, answers: Mapping[str, Answer], *, replace: bool) -> None:
    """Writes origins of answers and what speaks for them, in the transaction under way;
    ``replace``: over origins that are there."""
    states, origins, runs = [], [], []
    names: dict[int, str] = {}  # by the run's place in memory: answers share few runs
    for key, answer in answers.items():
        run = answer.origin
        if answer.certificate or answer.stated:
            certificate = canonical_json(answer.certificate) if answer.certificate else None
            states.append((key, answer_sha256(key, answer), certificate, answer.stated))
        if run is None:
            continue
        if id(run) not in names:
            names[id(run)] = sha256_json(run)
            runs.append((names[id(run)], canonical_json(run)))
        origins.append((key, names[id(run)]))
    verb = "REPLACE" if replace else "IGNORE"
    columns = "request_sha256, answer_sha256, certificate, stated"
    db.executemany(f"INSERT OR REPLACE INTO states ({columns}) VALUES (?,?,?,?)", states)
    db.executemany("INSERT OR IGNORE INTO runs (run, record) VALUES (?,?)", runs)
    db.executemany(f"INSERT OR {verb} INTO origins (request_sha256, run) VALUES (?,?)", origins)
