"""Keys of a terminal, one at a time: what an arrow, a paste or a hasty finger sends is no key."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
from collections.abc import Iterator

# A character, or what another key sends: a sequence (ECMA-48, 5.4), ESC O of a function key, Alt's ESC.
# The beginning of one matches nothing, and waits for its rest.
_KEY = re.compile(
    r"\x1b(?=\x1b)|\x1b\[[0-?]*[ -/]*[^ -?]|\x1bO[^\x1b]|\x1b[^\[O\x1b]|[^\x1b]", re.S
)
INTERRUPT, END = "\x03", "\x04"  # Ctrl-C and Ctrl-D


class Keyboard:
    """Reads keys from standard input, whose bytes are all taken in order, so that the rest of a sequence
    is never taken for a key."""

    def __init__(self) -> None:
        self._begun = ""

    def forget(self) -> None:
        """Drops what was pressed before now."""
        while select.select([sys.stdin], [], [], 0)[0]:
            self._read()

    def pressed(self) -> str:
        """The next key, or "" where no character or several at once were sent. Raises KeyboardInterrupt
        at Ctrl-C, EOFError at Ctrl-D and where there is no more input."""
        while not (keys := self._read()):
            pass
        return keys[0] if len(keys) == 1 and len(keys[0]) == 1 else ""

    def _read(self) -> list[str]:
        data = os.read(sys.stdin.fileno(), 4096).decode("latin-1")
        if INTERRUPT in data:
            raise KeyboardInterrupt
        if not data or END in data:
            raise EOFError
        text, keys = self._begun + data, []
        while found := _KEY.match(text):
            keys.append(found[0])
            text = text[found.end() :]
        self._begun = text
        return keys


@contextlib.contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The keyboard, without echo and line by line no more, until the end of the block."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    keys = [*before]
    keys[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(terminal, termios.TCSADRAIN, keys)
    try:
        yield Keyboard()
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
