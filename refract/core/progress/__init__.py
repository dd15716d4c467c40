"""Progress of long work: a bar on a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from refract.core.showing import say

EVERY_SECONDS = 60.0


# Seconds between two looks at the time left, which may go through all rows.
LEFT_SECONDS = 2.0


class Progress:
    """Counts rows done; ``note`` is shown beside them (tokens, errors, cost).

    ``left`` estimates the seconds that the rest takes, for work whose rows are not alike; where there
    is none, or where it gives None, each row counts the same.
    """

    def __init__(
        self, label: str, total: int, left: Callable[[], float | None] | None = None
    ) -> None:
        self.label, self.total, self.done, self.left = label, total, 0, left
        self._start = self._last = time.monotonic()
        self._looked, self._left = 0.0, 0.0
        self._bar: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                TextColumn("{task.fields[left]}", markup=False),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, rate="", left="", note="")
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
            if now - self._looked >= LEFT_SECONDS:
                self._looked, self._left = now, self.seconds_left(now)
            left = f"{self._left:.0f} s left"
            self._bar.update(self._task, completed=self.done, rate=shown, left=left, note=note)
        elif now - self._last >= EVERY_SECONDS:
            self._last = now
            say(
                f"{self.label}: {self.done}/{self.total} rows, {shown}, "
                f"{self.seconds_left(now):.0f} s left{', ' + note if note else ''}",
                file=sys.stderr,
                flush=True,
            )

    def seconds_left(self, now: float) -> float:
        """About how long the rest takes."""
        estimated = self.left() if self.left is not None else None
        if estimated is not None:
            return estimated
        return (self.total - self.done) * (now - self._start) / max(self.done, 1)
