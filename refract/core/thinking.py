"""Where the answer begins in a text that thinks first."""

from __future__ import annotations

import re

_THINK_NAME = (
    r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think)"
)
_THINK_OPEN = re.compile(
    rf"<\|?{_THINK_NAME}\|?>|\[think(?:ing)?\]|◁think▷|<\|begin_of_thought\|>|<start_of_thought>"
    r"|<\|channel\|>\s{0,4}(?:analysis|commentary)",
    re.IGNORECASE,
)
_THINK_CLOSE = re.compile(
    rf"<\|?/{_THINK_NAME}\|?>|\[/think(?:ing)?\]|◁/think▷|<\|end_of_thought\|>|<end_of_thought>"
    r"|<\|channel\|>\s{0,4}final(?:<\|message\|>)?|assistantfinal",
    re.IGNORECASE,
)


def answer_start(text: str) -> tuple[int, bool]:
    """Where the answer starts after any thinking text, and whether the thinking
    never ends.
    """
    start = 0
    for close in _THINK_CLOSE.finditer(text):
        start = close.end()
    still_open = _THINK_OPEN.search(text, start)
    # Later in an answer a tag is more likely text about tags than thinking.
    if still_open and not text[start : still_open.start()].strip():
        return len(text), True
    return start, False
