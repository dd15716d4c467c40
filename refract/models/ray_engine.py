"""Ray as the engine: actors answer a model's requests, on the nodes that a cluster has at the time.

Each actor holds the model once and streams its answers to this process, which alone writes the store.
An answer depends on its request alone, so that it makes no difference who answers what. Ray is asked
for actors and nothing more: its ActorPool, its retries of tasks and Ray Data would do a lost task over
as a whole, where here what arrived is kept and the rest goes to other actors.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from refract.core.environment import this_run, utc
from refract.core.jsonl import sha256_json
from refract.core.params import RESOURCES, CommonSettings
from refract.core.showing import say
from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError, Answer, AnswerOrigin, Model, Request

# Seconds between two looks at what nodes there are.
LOOK_SECONDS = 1.0
# Answers that come faster than this one after the other travel together.
TOGETHER_SECONDS = 0.05
# What an actor sends before it waits for it to be fetched.
MOST_UNFETCHED = 16
# Requests that are given to an actor at a time; fewer towards the end, so that all end together.
MOST_GIVEN, FEWEST_GIVEN = 2000, 8
# Actors that a request may lose, at last as the only one given, before it is taken to be the cause.
MOST_LOSSES = 6
# Seconds in which the cluster that RAY_ADDRESS names has to take a connection.
CONNECT_SECONDS = 10.0
TOKEN_HINT = "; one that `ray start` began asks for a token, which RAY_AUTH_MODE=token sends"

Numbers = list[int]
_open: list[Actors] = []


class Worker:
    """What an actor runs: the model of a definition. Its weights are loaded by its first request."""

    def __init__(self, folder: Path, opened: tuple[Any, ...], identity: str, began: str) -> None:
        with contextlib.suppress(OSError):  # a node without the folder has no use for it
            os.chdir(folder)
        self._opened, self._identity, self._began = opened, identity, began
        self._model: Model | None = None

    def answer(
        self, requests: Sequence[Request]
    ) -> Iterator[tuple[AnswerOrigin | None, list[tuple[int, Answer]]]]:
        """Answers as they are made, and on what. Raises :class:`AdapterError`."""
        if requests and self._model is None:
            self._model = open_model(*self._opened)
            if sha256_json(identity_of(self._model)) != self._identity:
                raise AdapterError(
                    f"{self._opened[0]}: the node {os.uname().nodename} has other files or another "
                    "version of this model; each node needs those of the machine that started this"
                )
        origin: AnswerOrigin | None = None
        made: list[tuple[int, Answer]] = []
        sent = 0.0
        try:
            for index, answer in self._model.answer(requests) if self._model else ():
                if origin is None and answer.error is None and self._model:
                    # Actors on equal nodes are one run; only their times of loading differ.
                    runtime = {**(self._model.runtime or {})}
                    runtime.pop("load_seconds", None)
                    origin = {**this_run(runtime), "started_at": self._began}
                made.append((index, answer))
                if time.monotonic() - sent > TOGETHER_SECONDS:
                    yield origin, made
                    made, sent = [], time.monotonic()
        except Exception:
            yield origin, made
            raise
        yield origin, made


class Actors:
    """A model's actors, as many as fit the cluster."""

    def __init__(self, model: Model) -> None:
        assert model.opened is not None
        self.model, self._ray = model, _connected()
        self._name, given, _ = model.opened
        common = CommonSettings(**{key: given[key] for key in RESOURCES if key in given})
        self._most = common.actors
        self._needs = {"CPU": common.cpus} | ({"GPU": common.gpus} if common.gpus else {})
        # A lost actor is not restarted but replaced, where there is place.
        remote = self._ray.remote(num_cpus=common.cpus, num_gpus=common.gpus or 0, max_restarts=0)
        self._kind, identity = remote(Worker), sha256_json(identity_of(model))
        self._start = (Path.cwd(), model.opened, identity, utc(time.time()))
        self._idle: list[Any] = []
        # By the stream of what it makes: an actor, the requests that it was given, those left of them.
        self._busy: dict[Any, tuple[Any, Numbers, set[int]]] = {}

    def close(self) -> None:
        """Ends all actors."""
        for actor in [*self._idle, *(actor for actor, *_ in self._busy.values())]:
            self._ray.kill(actor)
        self._idle, self._busy = [], {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """As :meth:`Model.answer`. What a lost actor had not answered goes to others, in smaller and
        smaller parts; a request that loses actor after actor is an error (``ActorLost``)."""
        try:
            yield from self._answer(requests)
        except BaseException:  # also where the user interrupts
            self.close()
            raise

    def _answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        errors = self._ray.exceptions
        queue, losses = deque(range(len(requests))), Counter[int]()
        runs: dict[str, AnswerOrigin] = {}
        looked, lost_in_a_row, most = float("-inf"), 0, 0
        # A stream is read to its end, since an answer may be followed by another in its place.
        while queue or any(numbers for _, numbers, _ in self._busy.values()):
            if time.monotonic() - looked > LOOK_SECONDS:
                left = len(queue) + sum(len(left) for *_, left in self._busy.values())
                self._add_actors(-(-left // FEWEST_GIVEN), first=looked < 0)
                looked = time.monotonic()
            most = max(most, len(self._idle) + len(self._busy))
            while self._idle and queue:
                share = min(max(FEWEST_GIVEN, len(queue) // (3 * most)), len(queue))
                share = max(1, min(share, MOST_GIVEN >> 2 * losses[queue[0]]))
                self._give(self._idle.pop(), [queue.popleft() for _ in range(share)], requests)
            if not self._busy:
                time.sleep(LOOK_SECONDS)
                continue
            for stream in self._ray.wait([*self._busy], timeout=LOOK_SECONDS)[0]:
                actor, numbers, unanswered = self._busy[stream]
                try:
                    origin, made = self._ray.get(next(stream))
                except StopIteration:
                    del self._busy[stream]
                    self._idle.append(actor)
                    continue
                except errors.RayTaskError as error:
                    raise error.cause from error  # what the model raised, and where in the actor
                except errors.RayError as error:
                    del self._busy[stream]
                    self._ray.kill(actor)
                    lost_in_a_row += 1
                    losses.update(unanswered)
                    first = min(unanswered, default=0)
                    if len(unanswered) == 1 and losses[first] >= MOST_LOSSES:
                        text = f"{losses[first]} actors were lost over it; the last: {error}"
                        yield first, Answer.failed("ActorLost", text)
                    elif lost_in_a_row > MOST_LOSSES + 2 * most:
                        raise AdapterError(
                            f"models.{self._name}: {lost_in_a_row} actors were lost one after the "
                            f"other without an answer; the last: {error}"
                        ) from None
                    else:
                        queue.extendleft(sorted(unanswered, reverse=True))
                    continue
                origin = origin and runs.setdefault(sha256_json(origin), origin)
                for place, answer in made:
                    lost_in_a_row = 0
                    unanswered.discard(numbers[place])
                    yield numbers[place], replace(answer, origin=origin)

    def _give(self, actor: Any, numbers: Numbers, requests: Sequence[Request]) -> None:
        """Has an actor answer the requests of these numbers."""
        method = actor.answer.options(
            num_returns="streaming", _generator_backpressure_num_objects=MOST_UNFETCHED
        )
        stream = method.remote([requests[number] for number in numbers])
        self._busy[stream] = (actor, numbers, set(numbers))

    def _add_actors(self, wanted: int, first: bool) -> None:
        """Starts as many actors as are wanted and fit the nodes there are: others may have joined.
        Raises :class:`AdapterError` where at ``first`` none fits."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        needs = self._needs.items()
        fit = sum(int(min(of.get(kind, 0) / need for kind, need in needs) + 1e-9) for of in nodes)
        if first and not fit and self._most is None:
            there = "; ".join(str({kind: of.get(kind, 0) for kind in self._needs}) for of in nodes)
            raise AdapterError(
                f"models.{self._name}: no node of the Ray cluster has what an actor takes, "
                f"{self._needs}; they have {there}. State other gpus and cpus, or, for a cluster that "
                "grows when asked, the number of actors"
            )
        if first and not fit:
            text = f"no node has {self._needs} yet; waiting for the cluster to grow"
            say(f"models.{self._name}: {text}", file=sys.stderr)
        # Where a number is stated, actors that have no place yet tell the cluster to grow.
        number = min(wanted, fit if self._most is None else self._most)
        for _ in range(number - len(self._idle) - len(self._busy)):
            self._give(self._kind.remote(*self._start), [], [])


def _connected() -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names, to that of this machine, or to one of this
    process's own. Raises :class:`AdapterError`."""
    try:
        import ray
    except ImportError:
        raise AdapterError(
            "engine: ray needs Ray: pip install 'refract-eval[ray]', or set engine: process"
        ) from None
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
        address = os.environ.get("RAY_ADDRESS", "")
        try:
            if address.startswith("ray://"):
                raise ValueError("Ray Client streams no answers; name the cluster, as HOST:6379")
            if named := re.fullmatch(r"([\w.-]+):(\d+)", address):
                # Ray itself looks for ten minutes and more.
                socket.create_connection((named[1], int(named[2])), CONNECT_SECONDS).close()
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # of many kinds: Exception itself where a node starts too slowly
            token = "" if "RAY_AUTH_MODE" in os.environ else TOKEN_HINT
            raise AdapterError(
                f"Ray cannot be used (RAY_ADDRESS={address or None}; `ray stop` clears what a cluster "
                f"that crashed left here{token}): {error}"
            ) from None
    return ray


def actors_of(model: Model) -> Actors:
    """The actors of a model, those that are open where it is asked again. Those of another model end,
    since both may need the same GPUs."""
    if not _open or _open[0].model is not model:
        for actors in _open:
            actors.close()
        _open[:] = [Actors(model)]
        say(f"{model.opened and model.opened[0]}: answered by actors of Ray", file=sys.stderr)
    return _open[0]
