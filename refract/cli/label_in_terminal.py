"""Labels in the terminal: an answer at a time, one key each, saved as it is pressed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from refract.agreement.human_labels import corrected_rates
from refract.agreement.label_files import pair_sha256, read_labels, shown_prompt
from refract.core.errors import RowError, UsageError
from refract.core.showing import csv_cell, printable, say
from refract.core.tables import read_table, write_table
from refract.core.types import Row

if TYPE_CHECKING:
    from rich.text import Text

KEYS = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}
UNDO, QUIT = "u", "q"
HELP = "r refusal · p partial refusal · c compliance · d degenerate · u undo · q quit"
ENDS = ("\x03", "\x04")  # Ctrl-C and Ctrl-D
EACH = 10  # labels between two lines on the interval


@contextmanager
def keys_of(terminal: int) -> Iterator[Iterator[str]]:
    """The keys pressed in a terminal, one by one, which it does not show meanwhile.

    Ctrl-C comes as a key like the others, behind those that were pressed before it: as a signal it
    would throw them away.
    """
    import termios

    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    # At once, without dropping what was typed ahead.
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    try:
        yield _keys(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _keys(terminal: int) -> Iterator[str]:
    while data := os.read(terminal, 1024):
        if data.startswith(b"\x1b"):  # an arrow or a function key is one key
            yield "\x1b"
        else:
            yield from data.decode("utf-8", "replace")


def check_terminal(path: Path) -> None:
    """Raises :class:`UsageError` unless keys can be read and answers shown."""
    if os.name != "posix" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            f"--terminal needs a terminal; without it, fill in the column label of {path}"
        )


def label_in_terminal(path: Path, answers: Sequence[Row], *, evidence: bool) -> None:
    """Asks for the labels of a file of `refract label` that are missing, from the top.

    Each label is in the file as soon as its key is pressed, so that quitting, Ctrl-C or a lost
    connection lose none. Raises :class:`RowError` for a file that cannot be used, or is of other
    answers.
    """
    human = read_labels(path, answers)
    rows = read_table(path)
    known = {
        (csv_cell(answer["suite"]), csv_cell(answer["prompt_id"])): answer for answer in answers
    }
    drawn = [known.get((row["suite"], row["prompt_id"])) for row in rows]
    asked: list[Row] = []
    for row, answer in zip(rows, drawn, strict=True):
        if answer is None or pair_sha256(answer) != row["pair_sha256"]:
            raise RowError(
                f"{path}: {row['prompt_id']} is of another answer than this run's; draw a new sample "
                "with refract label --out"
            )
        asked.append(answer)
    if human.found:
        say(f"{path}: {len(human.found)} of {len(rows)} labelled already")
    try:
        with keys_of(sys.stdin.fileno()) as keys:
            _ask(path, rows, asked, answers, keys, evidence=evidence)
    except KeyboardInterrupt:
        say("")
    labelled = _labelled(rows)
    say_width(path, answers)
    say(
        f"{path}: {labelled} of {len(rows)} labelled"
        + ("" if labelled == len(rows) else "; the same command goes on")
    )


def _ask(
    path: Path,
    rows: list[dict[str, str]],
    asked: Sequence[Row],
    run: Sequence[Row],
    keys: Iterator[str],
    *,
    evidence: bool,
) -> None:
    """Goes through the rows without a label until all have one, or until it is told to quit."""
    place = _next(rows, 0)
    while place is not None:
        _show(asked[place], f"{_labelled(rows) + 1} of {len(rows)}", evidence=evidence)
        key = next(keys, QUIT).lower()
        if key in (QUIT, *ENDS):
            return
        if key == UNDO:
            before = [number for number in range(place) if rows[number]["label"].strip()]
            if not before:
                say("nothing to undo")
                continue
            place = before[-1]
            say(f"undone: {rows[place]['label']}")
            rows[place]["label"] = ""
            _save(path, rows)
        elif key in KEYS:
            rows[place]["label"] = KEYS[key]
            _save(path, rows)
            say(KEYS[key])
            if _labelled(rows) % EACH == 0:
                say_width(path, run)
            place = _next(rows, place)
        else:
            say(f"no such key; there are: {HELP}")


def _next(rows: Sequence[Mapping[str, str]], start: int) -> int | None:
    """The first row from ``start`` on that has no label, or else from the top."""
    places = [number for number, row in enumerate(rows) if not row["label"].strip()]
    return next((number for number in places if number >= start), places[0] if places else None)


def _labelled(rows: Sequence[Mapping[str, str]]) -> int:
    return sum(bool(row["label"].strip()) for row in rows)


def _save(path: Path, rows: Sequence[Row]) -> None:
    try:
        write_table(path, list(rows[0]), rows)
    except KeyboardInterrupt:  # the key was pressed before
        write_table(path, list(rows[0]), rows)
        raise


def _show(answer: Row, place: str, *, evidence: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.rule(Text(printable(f"{place} · {answer['prompt_id']} · {answer['category']}")))
    console.print(Text("Prompt", style="bold"))
    console.print(Text(printable(shown_prompt(answer["prompt"]), keep="\n\t")))
    console.print(Text("Answer", style="bold"))
    console.print(marked(answer["response"], answer.get("evidence") or [] if evidence else []))
    console.print(Text(HELP, style="dim"))


def marked(response: str, evidence: Sequence[Mapping[str, object]]) -> Text:
    """An answer with the words that the judge decided by underlined, inert whatever it holds."""
    from rich.text import Text

    shown = Text()
    for piece, hit in _pieces(response, evidence):
        shown.append(printable(piece, keep="\n\t"), style="bold underline" if hit else None)
    return shown


def _pieces(response: str, evidence: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, bool]]:
    """The answer in pieces, and whether each is evidence; spans that are no part of it count as none."""
    inside = [False] * len(response)
    for hit in evidence:
        start, end = hit.get("start"), hit.get("end")
        if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(response):
            inside[start:end] = [True] * (end - start)
    start = 0
    for place in range(1, len(response) + 1):
        if place == len(response) or inside[place] != inside[start]:
            yield response[start:place], inside[start]
            start = place


def say_width(path: Path, answers: Sequence[Row]) -> None:
    """How wide the interval of each corrected rate is by the labels of a file."""
    human = read_labels(path, answers)
    rates = corrected_rates(answers, human.found, human.blank, inclusion=human.inclusion)
    for measure, rate in rates.items():
        if rate is None or rate.low_here is None or rate.high_here is None:
            continue
        here, wide = (
            f"±{50 * (high - low):.1f} points"
            for low, high in ((rate.low_here, rate.high_here), (rate.low, rate.high))
        )
        shown = (
            f"{rate.rate:.3f}"
            if rate.rate is not None
            else f"{rate.lowest:.3f} to {rate.highest:.3f}"
        )
        say(
            f"{rate.labelled} labels, {measure} {shown}: {here} for these {rate.n} answers, {wide} for "
            "prompts like these"
        )
