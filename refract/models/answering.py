"""Requests, the answers that the store has, and those that a model still has to give.

Every stored answer is reused. The other requests go to the model together, each
distinct one once, and its answers are stored as they are made.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from refract.core.environment import this_run, utc
from refract.core.jsonl import canonical_json
from refract.core.played import played
from refract.core.progress import Progress, read_object
from refract.core.showing import say
from refract.core.types import (
    ErrorInfo,
    Message,
    PromptRow,
    ResponseRow,
    prompt_of_sample,
    sample_prompts,
)
from refract.models import identity_of, open_model, samples_of
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
    known_answers,
    request_sha256,
    storable,
)
from refract.suites.rows import row_seed

# Answers that a project keeps in git, in a folder for each model, as response rows.
ANSWERS = Path("data/answers")
# The answer to a turn of a conversation that did not come to it.
NOT_ASKED = Answer.failed("NotAsked", "the model gave no answer to the turn before this one")
# So many answers are stored together where they cost nothing to make again; others one by one.
TOGETHER = {"recorded": 1000, "synthetic": 1000}
# Prompts that failed and are named where a run ends early.
SHOWN = 3
# Names of models that a server gives in one run and that are told apart.
MOST_SAID = 16


def generate(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str = ""
) -> tuple[dict[str, Answer], set[str]]:
    """The answers to requests by hash, and the hashes whose answers had to be generated.

    Where nothing is missing the model gets no request, so that it loads nothing. Raises
    :class:`AdapterError`, and :class:`StoreError`, before any request where the store cannot be
    written. Answers until then are in the store."""
    answers = _stored(store, requests)
    missing = {key: request for key, request in requests.items() if key not in answers}
    if missing:
        store.check_writable()
        answers |= _ask(model, missing, store=store, name=name)
    return answers, set(missing)


def _stored(store: ResponseStore, requests: Mapping[str, Request]) -> dict[str, Answer]:
    """The stored answers to requests, without those to a conversation that a request
    does not have."""
    answers = {}
    for key, answer in store.get(requests).items():
        if answer.attempt < len(requests[key].attempts):
            answers[key] = answer
    return answers


def _ask(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str
) -> dict[str, Answer]:
    """The model's answers to requests, each stored as it is made, with the run of this
    process that it comes from: one for each model that a server names."""
    keys = list(requests)
    answers: dict[str, Answer] = {}
    tokens = errors = 0
    runs: dict[str | None, dict[str, Any]] = {}
    started_at = utc(time.time())
    together = TOGETHER.get(model.adapter, 1)
    waiting: list[tuple[str, Answer]] = []
    with Progress(name or "answers", len(keys)) as progress:
        try:
            for index, answer in model.answer(list(requests.values())):
                named = answer.said_model
                if named not in runs and len(runs) >= MOST_SAID:
                    named = next(iter(runs))
                # Before the first answer it is not known on which device the weights are.
                if named not in runs and answer.error is None:
                    runs[named] = {**this_run(model.runtime), "started_at": started_at}
                    if named:
                        runs[named]["said_model"] = named
                origin = runs.get(named) or next(iter(runs.values()), None)
                key = keys[index]
                again = key in answers
                answers[key] = answer = replace(answer, origin=origin)
                waiting.append((key, answer))
                if len(waiting) >= together:
                    store.put(waiting, name, corrected=[key] if again else [])
                    waiting = []
                if again:
                    continue
                tokens += answer.completion_tokens or 0
                errors += answer.error is not None
                cost = model.usage.get("cost")
                spent = f", ${cost:.4f}" if cost else ""
                progress.advance(1, f"{tokens} tokens, {errors} errors{spent}")
        except StoreError as error:
            for key, _ in waiting:
                answers.pop(key, None)
            raise StoreError(f"{error}{_so_far(requests, answers, stored=True)}") from error
        except (AdapterError, KeyboardInterrupt) as error:
            store.put(waiting, name)
            so_far = _so_far(requests, answers, stored=store.path is not None)
            if isinstance(error, AdapterError):
                raise AdapterError(f"{error}{so_far}") from error
            say(f"{name}: interrupted{so_far}; run again to go on", file=sys.stderr)
            raise
    store.put(waiting, name)
    # The store has those of what it stored: not of errors, and of nothing where it is
    # turned off.
    store.learn(answers)
    unanswered = Answer.failed("NoAnswer", "the adapter returned nothing for this request")
    return {key: answers.get(key, unanswered) for key in keys}


def check_models(model: Model, origins: Mapping[str, AnswerOrigin]) -> None:
    """Has a model warn where a server says that others gave some of these answers: now, or in a run
    before."""
    names = Counter(str(made["said_model"]) for made in origins.values() if made.get("said_model"))
    if names:
        model.check_models(names)


def _so_far(asked: Mapping[str, Request], answers: Mapping[str, Answer], stored: bool) -> str:
    """What a run that ends early has by then, as a sentence behind its error: how many prompts were
    answered, whether these answers are kept, and which failed first; "" before any answer."""
    if not answers:
        return ""
    failed = []
    for position, (key, request) in enumerate(asked.items(), 1):
        if key in answers and answers[key].error is not None:
            names = [request.metadata.get(name) for name in ("suite", "prompt_id")]
            failed.append("/".join(map(str, names)) if all(names) else f"number {position}")
    count = sum(map(storable, answers.values()))
    kept = "stored" if stored else "lost, since the store is off (--no-store or REFRACT_CACHE)"
    text = f". Of {len(asked)} prompts {count or 'none'} {'was' if count < 2 else 'were'} answered"
    text += f" and {'is' if count == 1 else 'are'} {kept}" if count else ""
    text += f"; {len(failed)} failed, first {', '.join(failed[:SHOWN])}" if failed else ""
    return text


@dataclass
class Count:
    """How many answers of a suite were reused (some of them ``from_store``), generated,
    ``read`` from a recorded model's file, and errors; of exact ones, how many are
    ``stated`` in files and not checked here."""

    reused: int = 0
    from_store: int = 0
    generated: int = 0
    errors: int = 0
    stated: int = 0
    read: int = 0

    @property
    def new(self) -> str:
        """How many answers were not there before."""
        return f"{self.read:,} read" if self.read else f"{self.generated:,} generated"

    def __str__(self) -> str:
        text = f"{self.reused} reused, {self.new}"
        text += f", {self.stated} stated and not checked" if self.stated else ""
        return f"{text}, {self.errors} errors" if self.errors else text


def request_of(row: PromptRow, seed: int | None) -> Request:
    """The request of a prompt row; an attempt that is a text is one user message.
    ``seed`` is the run's, None for a model that does not sample. The samples of a
    prompt differ in their seeds alone."""
    prompt_id = prompt_of_sample(row)
    attempts: list[tuple[Message, ...]] = []
    for attempt in row["attempts"]:
        text: Message = {"role": "user", "content": str(attempt)}
        attempts.append((text,) if isinstance(attempt, str) else tuple(attempt))
    if seed is not None:
        seed = row_seed(seed, row["suite"], prompt_id=prompt_id, sample=row.get("sample", 1))
    metadata: dict[str, Any] = {
        "category": row["category"],
        "perturbation": row["perturbation"],
        "prompt_id": prompt_id,
        "source_id": row["source_id"],
        "suite": row["suite"],
    }
    if "tool_results" in row:
        metadata["step"] = row["turn"]
    return Request(
        attempts=tuple(attempts),
        seed=seed or 0,
        metadata=metadata,
        repeat=(row["perturbation"] or {}).get("repeat", 0),
        tools=tuple(row.get("tools", ())),
    )


class Turns:
    """The requests of suites to a model, turn by turn: of these prompts, which have one turn each,
    all at once. Of conversations that are played refract-dialogue has such a class.

    ``requests`` are those that want an answer now, by hash, and ``keys`` the hash of each prompt's
    request by suite and prompt id, in prompt order, "" where there is none so far."""

    def __init__(self, suites: Mapping[str, Sequence[PromptRow]], model: Model, seed: int) -> None:
        self.model = model
        self._seed = seed if model.samples else None
        self._identity = canonical_json(identity_of(model))
        self.requests: dict[str, Request] = {}
        self.keys: dict[str, dict[str, str]] = {suite: {} for suite in suites}
        for suite, rows in suites.items():
            for row in rows:
                self.add(suite, row)

    def add(self, suite: str, row: PromptRow) -> None:
        """Adds the request of a prompt."""
        request = request_of(row, self._seed)
        key = request_sha256(self._identity, request, self.model)
        self.keys[suite][row["prompt_id"]] = key
        self.requests.setdefault(key, request)

    def go_on(self, answers: Mapping[str, Answer]) -> None:
        """Makes ``requests`` those of the next turns, now that there are ``answers``, by
        hash, to all so far."""
        self.requests = {}

    def note(self) -> str:
        """What is to be said of turns that could not follow."""
        return ""


def _requests_by_turn(
    suites: Mapping[str, Iterable[PromptRow]],
    model: Model,
    seed: int,
    samples: Mapping[str, int],
) -> Turns:
    """The requests of suites, by turn. ``samples``: answers to each prompt of a suite, where
    not one. Raises :class:`MissingPackage`."""
    rows = {}
    for suite, prompts in suites.items():
        rows[suite] = list(sample_prompts(prompts, samples.get(suite, 1)))
    has_turns = any("turn" in row for suite_rows in rows.values() for row in suite_rows)
    kind: type[Turns] = played("requests") if has_turns else Turns
    return kind(rows, model, seed)


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

    The response rows in ``folders`` go to the store first. ``samples`` are those of
    :func:`_requests_by_turn`. A turn that a conversation did not come to is an error (``NotAsked``).
    Raises what :func:`generate` raises."""
    answers: dict[str, Answer] = {}
    stored, generated = set[str](), set[str]()
    unread = list(folders)
    turns = _requests_by_turn(suites, model, seed=seed, samples=samples)
    while turns.requests:
        requests = turns.requests
        answers |= _stored(store, requests)
        stored |= answers.keys() & requests.keys()
        while unread and not answers.keys() >= requests.keys():
            if store.put(known_answers(unread.pop(0), besides=answers), name):
                answers |= _stored(store, requests)
        missing = {key: request for key, request in requests.items() if key not in answers}
        known = len(requests) - len(missing)
        if known and missing:
            text = f"{known:,} of {len(requests):,} answers found, {len(missing):,} to come"
            say(f"{name or 'answers'}: {text}", file=sys.stderr)
        new_answers, new_keys = generate(model, missing, store, name=name)
        answers |= new_answers
        generated |= new_keys
        turns.go_on(answers)
    if turns.note():
        say(f"{name or 'answers'}: {turns.note()}", file=sys.stderr)
    counts = {suite: Count() for suite in suites}
    is_exact = identity_of(model).get("arithmetic") == "exact"
    states = store.states(answers) if is_exact else {}
    responses: dict[str, list[ResponseRow]] = {suite: [] for suite in suites}
    for suite, suite_keys in turns.keys.items():
        count = counts[suite]
        for prompt_id, key in suite_keys.items():
            answer = answers[key] if key else NOT_ASKED
            if key in generated:
                # A request that two rows share is sent once: the second row reuses its
                # answer.
                if model.adapter == "recorded":
                    count.read += 1
                else:
                    count.generated += 1
                generated.discard(key)
            elif key:
                count.reused += 1
                count.from_store += key in stored
            count.errors += answer.error is not None
            count.stated += key in states and states[key].certificate is None
            responses[suite].append(answer_row(key, answer, prompt_id))
    return responses, counts


def samples_by_suite(
    name: str,
    model: Model,
    wanted: Mapping[str, Any],
    suites: Iterable[str],
    samples: Mapping[str, int],
) -> dict[str, int]:
    """How often a model answers the prompts of each suite; the arguments are those of
    :func:`answer_model`. Says where it answers once what is to be answered several times."""
    times = {suite: samples_of(model, wanted, samples.get(suite)) for suite in suites}
    for suite, count in times.items():
        if samples.get(suite, 1) > count:
            text = "the model does not sample, and answers each prompt once"
            say(f"{name}: {suite}: samples: {samples[suite]}: {text}", file=sys.stderr)
    return times


@dataclass
class ModelRun:
    """What :func:`answer_model` made: rows and counts by suite; origins and certificates by
    request; what ``model.json`` says of the model; what all of it used."""

    responses: dict[str, list[ResponseRow]]
    counts: dict[str, Count]
    origins: dict[str, AnswerOrigin]
    certificates: dict[str, Certificate]
    description: dict[str, Any]
    usage: dict[str, Any]


def answer_model(
    name: str,
    wanted: Mapping[str, Any],
    prompts: Mapping[str, Iterable[PromptRow]],
    store: ResponseStore,
    seed: int,
    *,
    model: Model | None = None,
    folders: Sequence[Path] = (),
    samples: Mapping[str, int] = MappingProxyType({}),
) -> ModelRun:
    """Answers every suite's prompts with the model of the definition ``wanted``, or with ``model``,
    opened already.

    ``samples``: answers to each of a suite's prompts, where not the definition's number.
    ``folders``: of response rows of former runs. Raises :class:`ParamsError` and what
    :func:`generate` raises."""
    model = model or open_model(name, dict(wanted))
    times = samples_by_suite(name, model, wanted, prompts, samples)
    responses, counts = answer_prompts(
        prompts, model, store, seed=seed, name=name, folders=folders, samples=times
    )
    rows = list(chain.from_iterable(responses.values()))
    keys = [row["request_sha256"] for row in rows]
    origins = store.origins(keys)
    failed = {row["request_sha256"] for row in rows if row["error"]}
    check_models(model, {key: made for key, made in origins.items() if key not in failed})
    description = {
        "definition": dict(wanted),
        "identity": identity_of(model),
        "seed": seed if model.samples else None,
        **model.description(),
    }
    if set(times.values()) - {1}:
        description["samples"] = times
    return ModelRun(
        responses,
        counts,
        origins=origins,
        certificates=store.certificates(keys),
        description=description,
        usage=dict(model.usage),
    )


def with_description(described: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is known of a model, completed by what ``model.json`` in a folder of its
    answers says of the same one."""
    noted = read_object(folder / "model.json")
    if noted.get("identity") != described["identity"]:
        return described
    return {key: noted.get(key) if value is None else value for key, value in described.items()}


def error_warning(suite: str, rows: Sequence[ResponseRow]) -> str:
    """How many answers of a suite are errors, and the first of them; "" where none is."""
    errors = _errors(rows)
    if not errors:
        return ""
    passing = sum(error["type"] not in LASTING_ERRORS for error in errors)
    again = f"; `dvc repro` asks {passing} of them again" if passing else ""
    return f"{suite}: {len(errors)} of {len(rows)} answers are errors{again}; {_first(errors)}"


def refuse_only_errors(name: str, responses: Mapping[str, Sequence[ResponseRow]]) -> None:
    """Raises :class:`AdapterError` where not one request of a model was answered."""
    rows = list(chain.from_iterable(responses.values()))
    errors = _errors(rows)
    if errors and len(errors) == len(rows):
        raise AdapterError(f"{name}: all {len(errors)} answers are errors; {_first(errors)}")


def _errors(rows: Sequence[ResponseRow]) -> list[ErrorInfo]:
    return [row["error"] for row in rows if row["error"]]


def _first(errors: Sequence[ErrorInfo]) -> str:
    return f"the first: {errors[0]['type']}: {errors[0]['message']}"
