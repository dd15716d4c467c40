"""Ctrl-C and SIGTERM while calls are under way, whose answers may be paid for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What a process does that nobody told otherwise.
USUAL: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


class Interrupted(Exception):
    """Ctrl-C or SIGTERM ends the run."""


@contextmanager
def first_interrupt(act: Callable[[], object]) -> Iterator[threading.Event]:
    """Has the first Ctrl-C or SIGTERM do this, and set what comes of ``with``. Only the main thread
    is told of them."""
    interrupted = threading.Event()

    def in_main_thread() -> bool:
        return threading.current_thread() is threading.main_thread()

    taken = [each for each in USUAL if in_main_thread() and signal.getsignal(each) is USUAL[each]]

    def give_back() -> None:
        for each in taken if in_main_thread() else ():
            signal.signal(each, USUAL[each])

    def first(*_: object) -> None:
        give_back()
        interrupted.set()
        act()

    for each in taken:
        signal.signal(each, first)
    try:
        yield interrupted
    finally:
        give_back()
