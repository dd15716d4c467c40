"""A model for actors, in a module of its own, so that their processes load no more than it needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refract.core.settings import Settings
from refract.models.protocol import AdapterError, Answer, Model, Request

PATIENCE = 300.0


class GateSettings(Settings):
    """Where notes are left, how many nodes a "wait" is for, whether each process is another model."""

    folder: str
    nodes: int = 0
    moody: bool = False


class Gate(Model):
    """Echoes; some prompts wait for a node to join, end the process, or fail the model."""

    adapter = "tests.gate:Gate"
    version = "1"
    Settings = GateSettings

    def __init__(self, name: str, settings: GateSettings) -> None:
        self.settings, self.folder = settings, Path(settings.folder)

    def identity(self) -> dict[str, Any]:
        return {"process": os.getpid()} if self.settings.moody else {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        import ray

        where = "here"
        if ray.is_initialized() and (context := ray.get_runtime_context()).get_actor_id():
            where = context.get_node_id()
        with open(self.folder / where, "a") as file:
            file.write(f"{os.getpid()}\n")
        end = time.monotonic() + PATIENCE
        for index, request in enumerate(requests):
            text = request.attempts[0][-1]["content"]
            if "die" in text:
                os._exit(1)
            if "fail" in text:
                raise AdapterError("the model is broken")
            while "wait" in text and len(list(self.folder.iterdir())) < self.settings.nodes:
                assert time.monotonic() < end, "no node joined"
                time.sleep(0.05)
            yield index, Answer(f"echo: {text}")
