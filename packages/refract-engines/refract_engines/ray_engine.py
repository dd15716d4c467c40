"""Ray as the engine: actors answer a model's requests, on the nodes that a cluster has
at the time.

Each actor holds the model once and streams its answers to this process, which alone
writes the store. Ray's own retries repeat a lost task as a whole; here the answers that
arrived are kept, and only the unanswered requests go to other actors.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refract.core.environment import this_run, utc
from refract.core.jsonl import sha256_json
from refract.core.params import RESOURCES, CommonSettings
from refract.core.showing import say
from refract.models import identity_of, open_model
from refract.models.protocol import (
    AdapterError,
    Answer,
    AnswerOrigin,
    Model,
    Opened,
    Request,
)

# Seconds between two looks at what nodes there are.
LOOK_SECONDS = 1.0
# Answers that follow each other faster than this travel together.
TOGETHER_SECONDS = 0.05
# Messages that an actor sends before it waits for them to be fetched.
MOST_UNFETCHED = 16
# Requests given to an actor at a time; fewer towards the end, so that all actors end
# together.
MOST_GIVEN, FEWEST_GIVEN = 2000, 8
# A request is taken to be the cause after so many lost actors, of which the last had it
# alone.
MOST_LOSSES = 6
# Seconds in which the cluster that RAY_ADDRESS names has to take a connection.
CONNECT_SECONDS = 10.0
TOKEN_HINT = "; one that `ray start` began asks for a token, which RAY_AUTH_MODE=token sends"

Numbers = list[int]
_open: list[Actors] = []


class Worker:
    """What an actor runs: the model of a definition, loaded by its first request."""

    def __init__(self, folder: Path, opened: Opened, identity: str, began: str) -> None:
        with contextlib.suppress(OSError):  # a node without the folder has no use for it
            os.chdir(folder)
        self._opened = opened
        self._identity = identity
        self._began = began
        self._model: Model | None = None

    def _open_model(self) -> Model:
        model = open_model(*self._opened)
        if sha256_json(identity_of(model)) != self._identity:
            raise AdapterError(
                f"{self._opened.name}: the node {os.uname().nodename} has other files or another "
                "version of this model; each node needs those of the machine that started this"
            )
        return model

    def _origin(self, model: Model) -> AnswerOrigin:
        # Actors on equal nodes are one run; only their times of loading differ.
        runtime = dict(model.runtime or {})
        runtime.pop("load_seconds", None)
        return {**this_run(runtime), "started_at": self._began}

    def answer(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[AnswerOrigin | None, list[tuple[int, Answer]]]]:
        """Answers as they are made, and on what. Raises :class:`AdapterError`."""
        origin: AnswerOrigin | None = None
        answers: list[tuple[int, Answer]] = []
        if not requests:
            yield origin, answers
            return
        if self._model is None:
            self._model = self._open_model()
        sent = 0.0
        try:
            for index, answer in self._model.answer(requests):
                if origin is None and answer.error is None:
                    origin = self._origin(self._model)
                answers.append((index, answer))
                if time.monotonic() - sent > TOGETHER_SECONDS:
                    yield origin, answers
                    answers, sent = [], time.monotonic()
        except Exception:
            yield origin, answers
            raise
        yield origin, answers


@dataclass
class Task:
    """An actor, the numbers of its requests, and those without an answer."""

    actor: Any
    numbers: Numbers
    unanswered: set[int]


class Actors:
    """A model's actors, as many as fit the cluster."""

    def __init__(self, model: Model) -> None:
        assert model.opened is not None
        self.model = model
        self._ray = connected()
        self.name = model.opened.name
        definition = model.opened.definition
        common = CommonSettings(**{key: definition[key] for key in RESOURCES if key in definition})
        self._most = common.actors
        self._needs = {"CPU": common.cpus}
        if common.gpus:
            self._needs["GPU"] = common.gpus
        # A lost actor is replaced, where there is place, and never restarted.
        remote = self._ray.remote(num_cpus=common.cpus, num_gpus=common.gpus or 0, max_restarts=0)
        self._kind = remote(Worker)
        identity = sha256_json(identity_of(model))
        self._start = (Path.cwd(), model.opened, identity, utc(time.time()))
        self._idle: list[Any] = []
        self._busy: dict[Any, Task] = {}  # by the stream of their answers

    def close(self) -> None:
        """Ends all actors."""
        busy = [task.actor for task in self._busy.values()]
        for actor in self._idle + busy:
            self._ray.kill(actor)
        self._idle, self._busy = [], {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """As :meth:`Model.answer`. Requests of a lost actor go to others, in smaller and smaller
        parts; one that loses actor after actor is an error (``ActorLost``)."""
        try:
            yield from self._answer(requests)
        except BaseException:  # also where the user interrupts
            self.close()
            raise

    def _answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        errors = self._ray.exceptions
        queue = deque(range(len(requests)))
        losses = Counter[int]()
        runs: dict[str, AnswerOrigin] = {}
        looked, lost_in_a_row, most = float("-inf"), 0, 0
        # A stream is read to its end, since an answer may be followed by another in its
        # place.
        while queue or any(task.numbers for task in self._busy.values()):
            if time.monotonic() - looked > LOOK_SECONDS:
                left = len(queue) + sum(len(task.unanswered) for task in self._busy.values())
                self._add_actors(-(-left // FEWEST_GIVEN), first=looked < 0)
                looked = time.monotonic()
            most = max(most, len(self._idle) + len(self._busy))
            while self._idle and queue:
                share = min(max(FEWEST_GIVEN, len(queue) // (3 * most)), len(queue))
                share = max(1, min(share, MOST_GIVEN >> 2 * losses[queue[0]]))
                numbers = [queue.popleft() for _ in range(share)]
                self._give(self._idle.pop(), numbers, requests)
            if not self._busy:
                time.sleep(LOOK_SECONDS)
                continue
            for stream in self._ray.wait([*self._busy], timeout=LOOK_SECONDS)[0]:
                task = self._busy[stream]
                try:
                    origin, answers = self._ray.get(next(stream))
                except StopIteration:
                    del self._busy[stream]
                    self._idle.append(task.actor)
                    continue
                except errors.RayTaskError as error:
                    raise error.cause from error  # what the model raised, and where in the actor
                except errors.RayError as error:
                    del self._busy[stream]
                    self._ray.kill(task.actor)
                    lost_in_a_row += 1
                    losses.update(task.unanswered)
                    first = min(task.unanswered, default=0)
                    if len(task.unanswered) == 1 and losses[first] >= MOST_LOSSES:
                        text = f"{losses[first]} actors were lost over it; the last: {error}"
                        yield first, Answer.failed("ActorLost", text)
                    elif lost_in_a_row > MOST_LOSSES + 2 * most:
                        raise AdapterError(
                            f"models.{self.name}: {lost_in_a_row} actors were lost one after the "
                            f"other without an answer; the last: {error}"
                        ) from None
                    else:
                        queue.extendleft(sorted(task.unanswered, reverse=True))
                    continue
                if origin is not None:
                    origin = runs.setdefault(sha256_json(origin), origin)
                for place, answer in answers:
                    number = task.numbers[place]
                    lost_in_a_row = 0
                    task.unanswered.discard(number)
                    yield number, replace(answer, origin=origin)

    def _give(self, actor: Any, numbers: Numbers, requests: Sequence[Request]) -> None:
        """Has an actor answer the requests of these numbers."""
        method = actor.answer.options(
            num_returns="streaming", _generator_backpressure_num_objects=MOST_UNFETCHED
        )
        stream = method.remote([requests[number] for number in numbers])
        self._busy[stream] = Task(actor, numbers, set(numbers))

    def _add_actors(self, wanted: int, first: bool) -> None:
        """Starts as many actors as are wanted and fit the nodes there are now. Raises
        :class:`AdapterError` where at ``first`` none fits."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        fit = 0
        for node in nodes:
            places = min(node.get(kind, 0) / need for kind, need in self._needs.items())
            fit += int(places + 1e-9)
        where = f"models.{self.name}"
        if first and not fit and self._most is None:
            present = [str({kind: node.get(kind, 0) for kind in self._needs}) for node in nodes]
            raise AdapterError(
                f"{where}: no node of the Ray cluster has what an actor takes, {self._needs}; they "
                f"have {'; '.join(present)}. State other gpus and cpus, or, for a cluster that grows "
                "when asked, the number of actors"
            )
        if first and not fit:
            say(
                f"{where}: no node has {self._needs} yet; waiting for the cluster to grow",
                file=sys.stderr,
            )
        # Where a number is stated, actors that have no place yet tell the cluster to
        # grow.
        number = min(wanted, fit if self._most is None else self._most)
        for _ in range(number - len(self._idle) - len(self._busy)):
            self._give(self._kind.remote(*self._start), [], [])


def connected() -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names, to that of this machine, or
    to one of this process's own. Raises :class:`AdapterError`."""
    try:
        import ray
    except ImportError:
        raise AdapterError(
            "engine: ray needs Ray: pip install 'refract-eval[ray]', or set engine: process"
        ) from None
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        if address.startswith("ray://"):
            raise ValueError("Ray Client streams no answers; name the cluster, as HOST:6379")
        server = re.fullmatch(r"([\w.-]+):(\d+)", address)
        if server:
            # Ray itself looks for ten minutes and more.
            place = (server[1], int(server[2]))
            socket.create_connection(place, CONNECT_SECONDS).close()
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many kinds: Exception itself where a node starts too slowly
        token = "" if "RAY_AUTH_MODE" in os.environ else TOKEN_HINT
        raise AdapterError(
            f"Ray cannot be used (RAY_ADDRESS={address or None}; `ray stop` clears what a cluster "
            f"that crashed left here{token}): {error}"
        ) from None
    return ray


def actors_of(model: Model) -> Actors:
    """The model's actors, which stay open for its next requests. Those of another model
    end, since both may need the same GPUs."""
    if not _open or _open[0].model is not model:
        for actors in _open:
            actors.close()
        _open[:] = [Actors(model)]
        say(f"{_open[0].name}: answered by actors of Ray", file=sys.stderr)
    return _open[0]


def answer(model: Model, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
    """An :class:`refract.models.protocol.Engine`."""
    return actors_of(model).answer(requests)
