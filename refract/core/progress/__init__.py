"""Progress of long work: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from refract.core.showing import say

EVERY_SECONDS = 60.0


class Progress:
    """Counts rows done; ``note`` is shown beside them (tokens, errors, cost)."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self._start = self._last = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, rate="", note="")
        return self

    def __exit__(
        self,
        type_: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, rows: int = 1, note: str = "") -> None:
        """Counts ``rows`` more as done."""
        self.done += rows
        now = time.monotonic()
        rate = self.done / max(now - self._start, 1e-9)
        shown = f"{rate:.1f} rows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, rate=shown, note=note)
        elif now - self._last >= EVERY_SECONDS:
            self._last = now
            say(
                f"{self.label}: {self.done}/{self.total} rows, {shown}{', ' + note if note else ''}",
                file=sys.stderr,
                flush=True,
            )
