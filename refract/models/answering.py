"""Requests, the answers that the store has, and those that a model still has to give.

Every stored answer is reused. The other requests go to the model together, each distinct one once, and
its answers are stored as they are made: a kill loses the answers of one commit at most.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, Queue
from types import MappingProxyType
from typing import Any, Self

from refract.core.environment import this_run, utc
from refract.core.jsonl import canonical_json, write_rows
from refract.core.params import engine, without_resources
from refract.core.progress import Progress, read_object
from refract.core.showing import say
from refract.core.types import (
    Message,
    PromptRow,
    ResponseRow,
    filled,
    prompt_of_sample,
    sample_prompts,
)
from refract.models import generation_settings, identity_of, open_model, samples_of, with_fixed
from refract.models.protocol import (
    LASTING_ERRORS,
    AdapterError,
    Answer,
    AnswerOrigin,
    Certificate,
    Model,
    Request,
)
from refract.models.store import (
    ResponseStore,
    StoreError,
    answer_row,
    kept_rows,
    known_answers,
    request_sha256,
    storable,
)
from refract.suites.rows import row_seed

# Answers that a project keeps in git, in a folder for each model, as response rows.
ANSWERS = Path("data/answers")
# Seconds between two looks at what another process is asking.
LOOK_SECONDS = 0.5
# The answer to a turn of a conversation that did not come to it.
NOT_ASKED = Answer.failed("NotAsked", "the model gave no answer to the turn before this one")
# Names of models that a server gives in one run and that are told apart.
MOST_SAID = 16


def generate(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str = ""
) -> tuple[dict[str, Answer], set[str]]:
    """The answers to requests by hash, and the hashes whose answers had to be generated.

    Where nothing is missing the model gets no request at all, so that it loads nothing. What another
    process is asking is waited for, and asked here where that process ends without an answer.
    Raises :class:`refract.models.protocol.AdapterError`, and :class:`StoreError`: before anything is
    requested where the store cannot be written. What was answered by then is in the store.
    """
    answers = _stored(store, requests)
    made: set[str] = set()
    waited = False
    while missing := {key: request for key, request in requests.items() if key not in answers}:
        claimed = store.claim(missing)
        try:
            # Another process may have stored them since.
            answers |= _stored(store, {key: missing[key] for key in missing if key in claimed})
            asked = {key: missing[key] for key in missing if key in claimed and key not in answers}
            if asked:
                answers |= _ask(model, asked, store, name)
                made |= asked.keys()
        finally:
            with contextlib.suppress(StoreError):  # a claim also ends by itself
                store.give_up_claims()
        if others := len(missing) - len(claimed):
            if not waited:
                text = (
                    f"{others} requests are being sent by another process; waiting for its answers"
                )
                say(f"{name or 'answers'}: {text}", file=sys.stderr)
            waited = True
            time.sleep(LOOK_SECONDS)
            answers |= _stored(store, missing)
    return answers, made


def _stored(store: ResponseStore, requests: Mapping[str, Request]) -> dict[str, Answer]:
    """The stored answers to requests, without those to a conversation that a request does not have."""
    answers = store.get(requests)
    return {
        k: answer for k, answer in answers.items() if answer.attempt < len(requests[k].attempts)
    }


def _ask(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str
) -> dict[str, Answer]:
    """The model's answers to requests, each stored as it is made."""
    keys = list(requests)
    answers: dict[str, Answer] = {}
    tokens = errors = 0
    runs: dict[str | None, dict[str, Any]] = {}  # by the model that a server says answered
    started_at = utc(time.time())
    answer_all = model.answer
    if model.opened is not None and model.in_actors and engine() == "ray":
        from refract.models.ray_engine import actors_of

        answer_all = actors_of(model).answer
    with _Writer(store, name) as writer, Progress(name or "answers", len(keys)) as progress:
        for index, answer in answer_all([requests[key] for key in keys]):
            # Before the first answer it is not known on which device the weights are.
            said = answer.said_model
            if said not in runs:
                said = said if len(runs) < MOST_SAID else next(iter(runs))
            if said not in runs and answer.error is None and answer.origin is None:
                runs[said] = {**this_run(model.runtime), "started_at": started_at}
                runs[said] |= {"said_model": said} if said else {}
            run = answer.origin or runs.get(said) or next(iter(runs.values()), None)
            again = keys[index] in answers
            answers[keys[index]] = answer = replace(answer, origin=run)
            writer.add(keys[index], answer, again)
            if again:
                continue
            tokens += answer.completion_tokens or 0
            errors += answer.error is not None
            cost = model.usage.get("cost")
            spent = f", ${cost:.4f}" if cost else ""
            progress.advance(1, f"{tokens} tokens, {errors} errors{spent}")
    # The store has those of what it stored: not of errors, and of nothing where it is turned off.
    store.learn(answers)
    unanswered = Answer.failed("NoAnswer", "the adapter returned nothing for this request")
    return {key: answers.get(key, unanswered) for key in keys}


class _Writer:
    """Commits answers from a thread as they arrive, those that came during a commit together, and
    renews the claims to those that are waited for. What the store does not take is kept in a file."""

    def __init__(self, store: ResponseStore, name: str) -> None:
        self._store, self._name = store, name
        self._arrived: Queue[tuple[str, Answer] | None] = Queue()
        self._failure: Exception | None = None
        self._taken: list[tuple[str, Answer]] = []  # of the last commit
        self._corrected: set[str] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Also when the model fails or the user interrupts: what was paid for is stored.
        self._arrived.put(None)
        self._thread.join()
        if self._failure is not None:
            unsaved = [*self._taken, *self._take(0)[0]]
            rows = {key: answer for key, answer in unsaved if storable(answer)}
            try:
                folder = Path(tempfile.mkdtemp(prefix="refract-answers-"))
                write_rows(folder / "answers.jsonl", kept_rows(rows))
                kept = f"are in {folder}: `refract cache import {folder}` takes them"
            except OSError as error:
                kept = f"are lost: no other folder can be written either ({error})"
            text = f"{self._failure}. The {len(rows)} answers that were not stored {kept}"
            raise StoreError(text) from None

    def add(self, key: str, answer: Answer, corrected: bool = False) -> None:
        if corrected:
            self._corrected.add(key)
        self._arrived.put((key, answer))
        if self._failure is not None:
            raise self._failure

    def _take(self, timeout: float) -> tuple[list[tuple[str, Answer]], bool]:
        """What has arrived, at the latest after a time, and whether it was the last."""
        arrived: list[tuple[str, Answer] | None] = []
        with contextlib.suppress(Empty):
            arrived.append(self._arrived.get(timeout=timeout))
            while True:
                arrived.append(self._arrived.get_nowait())
        return [pair for pair in arrived if pair is not None], None in arrived

    def _run(self) -> None:
        pause, renewed, ended = self._store.lease / 5, time.monotonic(), False
        while not ended:
            self._taken, ended = self._take(pause)
            try:
                self._store.put(self._taken, self._name, self._corrected)
                if time.monotonic() - renewed > pause:
                    self._store.renew_claims()
                    renewed = time.monotonic()
            except Exception as failure:  # raised in the generating thread, which can report it
                self._failure = failure
                return


@dataclass
class Count:
    """How many answers of one suite were reused, how many of these ``from_store``, generated, and
    errors."""

    reused: int = 0
    from_store: int = 0
    generated: int = 0
    errors: int = 0

    def __str__(self) -> str:
        text = f"{self.reused} reused, {self.generated} generated"
        return f"{text}, {self.errors} errors" if self.errors else text


def request_of(row: PromptRow, seed: int | None) -> Request:
    """The request of a prompt row; an attempt that is a text is one user message.

    ``seed`` is the run's, or None for a model that does not sample. The samples of a prompt differ
    in their seeds alone.
    """
    prompt_id = prompt_of_sample(row)
    conversations: list[Sequence[Message]] = [
        ({"role": "user", "content": attempt},) if isinstance(attempt, str) else attempt
        for attempt in row["attempts"]
    ]
    return Request(
        tuple(map(tuple, conversations)),
        0 if seed is None else row_seed(seed, row["suite"], prompt_id, row.get("sample", 1)),
        {
            "category": row["category"],
            "perturbation": row["perturbation"],
            "prompt_id": prompt_id,
            "source_id": row["source_id"],
            "suite": row["suite"],
        },
        (row["perturbation"] or {}).get("repeat", 0),
        tuple(row.get("tools", ())),
    )


def requests_by_turn(
    suites: Mapping[str, Iterable[PromptRow]],
    model: Model,
    seed: int,
    samples: Mapping[str, int],
    answers: Mapping[str, Answer],
    identity: str = "",
    keys: dict[str, dict[str, str]] | None = None,
) -> Iterator[dict[str, Request]]:
    """The requests of suites by hash: first all that no answer is part of, then, as long as there are
    any, the next turns of conversations, which hold the model's own answers before them.

    ``answers``, by hash, must have got those to one yield before the next; turns after one that has
    none there, or one without text, are not asked. ``samples`` says how often the prompts of a suite are
    answered where that is not once; ``identity`` is the model's, as JSON, where it is not the one that
    it states. ``keys`` gets the hash of each prompt's request by suite and prompt id, in prompt order,
    "" where there is none so far."""
    keys = {} if keys is None else keys
    identity = identity or canonical_json(identity_of(model))
    said: dict[tuple[str, str], list[str]] = {}
    waiting: list[tuple[str, PromptRow]] = []
    requests: dict[str, Request] = {}

    def add(suite: str, row: PromptRow) -> None:
        request = request_of(row, seed if model.samples else None)
        key = request_sha256(identity, request, model)
        keys[suite][row["prompt_id"]] = key
        requests.setdefault(key, request)

    for suite, rows in suites.items():
        keys[suite] = {}
        for row in sample_prompts(rows, samples.get(suite, 1)):
            if "after" in row:
                keys[suite][row["prompt_id"]] = ""
                waiting.append((suite, row))
            else:
                add(suite, row)
    yield requests
    while waiting:
        rest, requests = [], {}
        for suite, row in waiting:
            before = answers.get(keys[suite][row["after"]])
            if before is None or not speaks(before):
                rest.append((suite, row))
                continue
            texts = [*said.get((suite, row["after"]), []), before.response]
            said[suite, row["prompt_id"]] = texts
            attempts = [filled(attempt, texts) for attempt in row["attempts"]]
            if len({canonical_json(attempt[:-1]) for attempt in attempts}) > 1:
                # The change is in an earlier turn, so that what was answered there is what goes on.
                attempts = attempts[: before.attempt + 1]
            add(suite, {**row, "attempts": attempts})
        if not requests:
            return
        waiting = rest
        yield requests


def speaks(answer: Answer) -> bool:
    """Whether a conversation can go on after an answer: the model said something."""
    return answer.finish_reason not in ("content_filter", "error") and bool(answer.response.strip())


def answer_prompts(
    suites: Mapping[str, Iterable[PromptRow]],
    model: Model,
    store: ResponseStore,
    seed: int,
    *,
    name: str = "",
    folders: Iterable[Path] = (),
    samples: Mapping[str, int] = MappingProxyType({}),
) -> tuple[dict[str, list[ResponseRow]], dict[str, Count]]:
    """Response rows for the prompt rows of each suite, in prompt order, and counts by suite.

    The response rows in ``folders`` are added to the store first. ``samples`` are those of
    :func:`requests_by_turn`. A turn whose conversation did not come to it has an error of the class
    ``NotAsked``. Raises what :func:`generate` and :func:`known_answers` raise.
    """
    answers: dict[str, Answer] = {}
    stored, generated = set[str](), set[str]()
    folders, keys = list(folders), dict[str, dict[str, str]]()
    for requests in requests_by_turn(suites, model, seed, samples, answers, keys=keys):
        answers |= _stored(store, requests)
        stored |= answers.keys() & requests.keys()
        while folders and not answers.keys() >= requests.keys():
            if store.put(known_answers(folders.pop(0), besides=answers), name):
                answers |= _stored(store, requests)
        missing = {key: request for key, request in requests.items() if key not in answers}
        made, new = generate(model, missing, store, name)
        answers |= made
        generated |= new
    counts = {suite: Count() for suite in suites}
    responses: dict[str, list[ResponseRow]] = {suite: [] for suite in suites}
    for suite, of_suite in keys.items():
        count = counts[suite]
        for prompt_id, key in of_suite.items():
            answer = answers[key] if key else NOT_ASKED
            if key in generated:
                # A request that two rows share is sent once: the second row reuses its answer.
                count.generated += 1
                generated.discard(key)
            elif key:
                count.reused += 1
                count.from_store += key in stored
            count.errors += answer.error is not None
            responses[suite].append(answer_row(key, answer, prompt_id))
    return responses, counts


def ways_of_answering(
    name: str,
    wanted: Mapping[str, Any],
    suites: Iterable[str],
    fixed: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, int],
    model: Model | None = None,
) -> Iterator[tuple[Model, dict[str, int]]]:
    """A model for each way in which suites are to be answered, and how often it answers the prompts of
    each of these suites; the arguments are those of :func:`answer_model`."""
    groups: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
    for suite in suites:
        definition = with_fixed(name, wanted, fixed[suite]) if suite in fixed else wanted
        groups.setdefault(canonical_json(definition), (definition, []))[1].append(suite)
    for definition, group in groups.values():
        given = model if definition == wanted else None
        opened = given or open_model(name, definition)
        yield opened, {suite: samples_of(opened, definition, samples.get(suite)) for suite in group}


@dataclass
class ModelRun:
    """What :func:`answer_model` made: response rows and counts by suite, how the answers were made
    and what speaks for them, what ``model.json`` says of the model, and what all of it used."""

    responses: dict[str, list[ResponseRow]] = field(default_factory=dict)
    counts: dict[str, Count] = field(default_factory=dict)
    origins: dict[str, AnswerOrigin] = field(default_factory=dict)
    certificates: dict[str, Certificate] = field(default_factory=dict)
    description: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)


def answer_model(
    name: str,
    wanted: Mapping[str, Any],
    prompts: Mapping[str, Iterable[PromptRow]],
    store: ResponseStore,
    seed: int,
    *,
    model: Model | None = None,
    folders: Sequence[Path] = (),
    fixed: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    samples: Mapping[str, int] = MappingProxyType({}),
) -> ModelRun:
    """Answers every suite's prompts with the model that the definition ``wanted`` describes, or with
    ``model``, opened already.

    ``fixed`` are generation settings that a suite's protocol asks for instead of the definition's,
    ``samples`` how often a suite's prompts are answered where that is not the definition's number.
    ``folders`` hold response rows of former runs, for the store. Raises :class:`ParamsError` and
    what :func:`generate` raises.
    """
    model = model or open_model(name, dict(wanted))
    made, times = ModelRun(), dict[str, int]()
    for opened, of_group in ways_of_answering(name, wanted, prompts, fixed, samples, model):
        times |= of_group
        group = {suite: prompts[suite] for suite in of_group}
        responses, counts = answer_prompts(
            group, opened, store, seed, name=name, folders=folders, samples=of_group
        )
        made.responses |= responses
        made.counts |= counts
        for key, used in opened.usage.items():
            # None is a cost without a price, which all of them have in common.
            made.usage[key] = used if made.usage.get(key) is None else made.usage[key] + used
    keys = [row["request_sha256"] for rows in made.responses.values() for row in rows]
    made.origins, made.certificates = store.origins(keys), store.certificates(keys)
    made.description = {
        "definition": without_resources(wanted),
        "identity": identity_of(model),
        "seed": seed if model.samples else None,
        **model.description(),
    }
    if set(times.values()) - {1}:
        made.description["samples"] = times
    if fixed:
        made.description["generation"] = {
            suite: generation_settings(name, with_fixed(name, wanted, fixed[suite]))
            for suite in sorted(fixed)
        }
    return made


def with_description(described: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is known of a model, and where its weights are not here, what ``model.json`` in a folder of
    its answers says of the same model."""
    noted = read_object(folder / "model.json")
    if noted.get("identity") != described["identity"]:
        return described
    return {key: noted.get(key) if value is None else value for key, value in described.items()}


def error_warning(suite: str, rows: Sequence[ResponseRow]) -> str:
    """How many answers of a suite are errors, and the first of them; "" where none is."""
    errors = [row["error"] for row in rows if row["error"]]
    if not errors:
        return ""
    passing = sum(error["type"] not in LASTING_ERRORS for error in errors)
    again = f"; `dvc repro` asks {passing} of them again" if passing else ""
    return (
        f"{suite}: {len(errors)} of {len(rows)} answers are errors{again}; the first: "
        f"{errors[0]['type']}: {errors[0]['message']}"
    )


def refuse_only_errors(name: str, responses: Mapping[str, Sequence[ResponseRow]]) -> None:
    """Raises :class:`AdapterError` where not one request of a model was answered."""
    errors = [row["error"] for rows in responses.values() for row in rows]
    first = next(filter(None, errors), None)
    if first is not None and all(errors):
        raise AdapterError(
            f"{name}: all {len(errors)} answers are errors; the first: {first['type']}: "
            f"{first['message']}"
        )
