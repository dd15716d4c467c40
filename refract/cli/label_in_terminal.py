"""Labels in the terminal: an answer at a time, one key each, saved as it is pressed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from refract.agreement.corrections import corrected_rates
from refract.agreement.label_files import JudgedAnswer, label_rows, read_labels
from refract.core.errors import RowError, UsageError
from refract.core.showing import printable, say
from refract.core.tables import write_table

if TYPE_CHECKING:
    from rich.text import Text

KEYS = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}
HELP = "r refusal · p partial refusal · c compliance · d degenerate · u undo · q quit"
EACH = 10  # labels between two lines on the interval


def check_terminal(path: Path) -> None:
    """Raises :class:`UsageError` unless keys can be read and answers shown."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            f"--terminal needs a terminal; without it, fill in the column label of {path}"
        )


def label_in_terminal(path: Path, answers: Sequence[JudgedAnswer], *, evidence: bool) -> None:
    """Asks for the labels of a file of `refract label` that are missing, from the top.

    Each label is in the file as soon as its key is pressed, so that quitting, Ctrl-C or a lost
    connection lose none. Raises :class:`RowError` for a file that cannot be used, or is of other
    answers.
    """
    labelled = len(read_labels(path, answers).by_id)
    rows = label_rows(path)
    known = {(*answer.key, answer.pair_sha256): answer for answer in answers}
    asked = [known.get((row["suite"], row["prompt_id"], row["pair_sha256"])) for row in rows]
    if None in asked:
        raise RowError(
            f"{path}: {rows[asked.index(None)]['prompt_id']} is of another answer than this run's; "
            "draw a new sample with refract label --out"
        )
    if labelled:
        say(f"{path}: {labelled} of {len(rows)} labelled already")
    try:
        _ask(path, rows, asked, answers, evidence=evidence)
    except (KeyboardInterrupt, EOFError):
        say("")
    say_width(path, answers)
    labelled = sum(bool(row["label"].strip()) for row in label_rows(path))
    rest = "" if labelled == len(rows) else "; the same command goes on"
    say(f"{path}: {labelled} of {len(rows)} labelled{rest}")


def _ask(
    path: Path,
    rows: list[dict[str, str]],
    asked: Sequence[JudgedAnswer | None],
    run: Sequence[JudgedAnswer],
    *,
    evidence: bool,
) -> None:
    """Goes through the rows without a label until all have one, or until it is told to quit.

    Raises KeyboardInterrupt and EOFError for Ctrl-C and Ctrl-D.
    """
    place = 0
    while blank := [number for number, row in enumerate(rows) if not row["label"].strip()]:
        place = next((number for number in blank if number >= place), blank[0])
        answer = asked[place]
        assert answer is not None  # else there was an error
        show(answer, f"{len(rows) - len(blank) + 1} of {len(rows)}", evidence=evidence)
        key = typer.getchar().lower()
        if key == "q":
            return
        if key == "u":
            before = [number for number in range(place) if number not in blank]
            if not before:
                say("nothing to undo")
                continue
            place = before[-1]
            done = f"undone: {rows[place]['label']}"
        elif key in KEYS:
            done = KEYS[key]
        else:
            say(f"no such key; there are: {HELP}")
            continue
        rows[place]["label"] = KEYS.get(key, "")
        write_table(path, list(rows[0]), rows)
        say(done)
        if key in KEYS and (len(rows) - len(blank) + 1) % EACH == 0:
            say_width(path, run)


def show(answer: JudgedAnswer, place: str, *, evidence: bool) -> None:
    """Prints an answer with its prompt, and what keys there are."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.rule(Text(printable(f"{place} · {answer.prompt_id} · {answer.category}")))
    console.print(Text("Prompt", style="bold"))
    console.print(Text(printable(answer.shown_prompt, keep="\n\t")))
    console.print(Text("Answer", style="bold"))
    console.print(marked(answer.response, answer.evidence if evidence else ()))
    console.print(Text(HELP, style="dim"))


def marked(response: str, evidence: Sequence[Mapping[str, Any]]) -> Text:
    """An answer with the words that the judge decided by underlined, inert whatever it holds.

    Spans that are no part of the answer count as none.
    """
    from rich.text import Text

    text = Text(printable(response, keep="\n\t"))
    for span in evidence:
        start, end = span.get("start"), span.get("end")
        if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(response):
            ends = (len(printable(response[:place], keep="\n\t")) for place in (start, end))
            text.stylize("bold underline", *ends)
    return text


def say_width(path: Path, answers: Sequence[JudgedAnswer]) -> None:
    """How wide the interval of each corrected rate is by the labels of a file."""
    for measure, rate in corrected_rates(answers, read_labels(path, answers)).items():
        if rate is None:
            continue
        here, wide = (
            f"±{50 * (high - low):.1f} points"
            for low, high in ((rate.low_here, rate.high_here), (rate.low, rate.high))
        )
        shown = f"{rate.lowest:.3f} to {rate.highest:.3f}"
        if rate.rate is not None:
            shown = f"{rate.rate:.3f}"
        say(
            f"{rate.labelled} labels, {measure} {shown}: {here} for these {rate.n} answers, {wide} for "
            "prompts like these"
        )
