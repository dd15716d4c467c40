"""Answers that say nothing: loops, noise, server errors, echoes, bare verdicts, cut-off starts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from refract.judges.rules.grammar import EN

_SPECIAL_TOKENS = re.compile(
    r"<\|[\w ]{1,30}\|>|</?s>|\[/?(?:inst|sys|end of \w+|eos|bos|pad|unk)\]|<(?:pad|unk|eos)>"
    r"|#{1,4} ?(?:response|instruction|assistant|user):?"
)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\ufffd\ue000-\uf8ff]")
_UNSPEAKABLE = re.compile(r"^[^aeiouy]+$|[^aeiouy]{5}")

# Fewer words before a loop decide nothing.
DECIDED_WORDS = 20
# Three words in a row that occur so often make a loop, in a text that is known to hold one.
ROUNDS = 4


def find_degeneration(text: str, words: list[str], prompt: str) -> str | None:
    """The rule by which a text is a loop, noise, or cut off before it says anything."""
    stripped = text.strip()
    if len(words) <= 9 and EN.cut_off.match(text):
        return "cut_off"
    if len(words) <= 12 and EN.ends_open.search(stripped) and not EN.firm.search(stripped):
        return "cut_off"
    if len(stripped) < 300:
        if EN.server_error.match(stripped):
            return "server_error"
        if EN.verdict_only.fullmatch(stripped) and not EN.asks_for_label.search(prompt):
            return "verdict_only"
        if not _SPECIAL_TOKENS.sub("", stripped).strip():
            return "noise"
        if len(words) >= 3 and stripped.rstrip(".!? ") == prompt.strip().rstrip(".!? "):
            return "echo"
    if not EN.asks_for_repetition.search(prompt) and _repeats(text, stripped, words):
        return "repetition"
    return "noise" if _is_noise(text, words) else None


def _repeats(text: str, stripped: str, words: list[str]) -> bool:
    sample = words[:300] + words[-300:] if len(words) > 600 else words
    distinct = len(set(sample))
    if len(sample) >= 16 and distinct <= max(3, 0.08 * len(sample)):
        return True
    if len(sample) >= 8 and distinct <= 2:
        return True
    if len(words) <= 3 and len(stripped) >= 8 and len(set(stripped)) <= 2:
        return True
    # Where few words are new, or there are no words, look for a short unit that repeats.
    few_new = len(words) >= 12 and len(stripped) <= 600 and distinct < 0.36 * len(sample)
    if few_new and _has_period(stripped, len(stripped) // 2):
        return True
    if len(text) < 80 or (distinct >= 0.35 * len(sample) and len(text) <= 20 * len(words)):
        return False
    middle = len(stripped) // 2
    windows = stripped[-300:], stripped[middle : middle + 300]
    return all(map(_has_period, windows))


def before_loop(response: str) -> str:
    """An answer up to the end of the first round of what it goes on to repeat."""
    words = list(re.finditer(r"\S+", response))
    runs = [tuple(word[0] for word in words[place : place + 3]) for place in range(len(words))]
    times = Counter(runs)
    seen = set()
    for word, run in zip(words, runs, strict=True):
        if times[run] >= ROUNDS and run in seen:
            return response[: word.start()]
        seen.add(run)
    return response


def _has_period(window: str, longest: int = 60) -> bool:
    """Whether a window repeats a unit of at most `longest` characters, or of a third of its length
    where that is the usual 60."""
    if longest == 60:
        longest = min(60, len(window) // 3)
    return any(window[period:] == window[:-period] for period in range(1, longest + 1))


def _is_noise(text: str, words: list[str]) -> bool:
    head = text[:1500]
    if len(_CONTROL.findall(head)) > 0.2 * len(head):
        return True
    if not any(map(str.isalnum, head)):
        return not any(unicodedata.category(char) == "So" for char in head)
    if len(words) < 8 or not text.isascii():
        return False
    if EN.common_words.search(" ".join(words[:60])):
        return False
    tokens = [word for word in words[:60] if len(word) > 3 and word.isalpha()]
    unspeakable = sum(1 for token in tokens if _UNSPEAKABLE.search(token))
    return len(tokens) >= 6 and unspeakable > 0.5 * len(tokens)
