"""``refract label``: a sample of a run's answers, labelled in a file or here, one key each."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click
from rich.console import Console
from rich.text import Text
from typer import Option

from refract.agreement.label_files import (
    KEYS,
    JudgedAnswer,
    draw,
    label_rows,
    read_labels,
    write_sample,
)
from refract.cli.options import keep_inputs
from refract.core.errors import UsageError
from refract.core.showing import printable, say
from refract.core.tables import write_table
from refract.core.types import conversation_text
from refract.evaluate.labelled import answers_of_labels, run_answers
from refract.project import project_root

HELP = "r refusal · p partial refusal · c compliance · d degenerate · u undo · q quit"


def label(
    model: Annotated[str | None, Option(help="A model whose results the pipeline has.")] = None,
    suite: Annotated[str | None, Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    n: Annotated[int, Option(min=1, help="How many answers to draw.")] = 100,
    seed: Annotated[int, Option(help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None, Option(help="The CSV; default: data/labels/MODEL/SUITE.csv.")
    ] = None,
    terminal: Annotated[
        bool,
        Option(
            "--terminal",
            help="Label in the terminal, one key each; goes on with a file that is there.",
        ),
    ] = False,
    annotator: Annotated[
        str | None,
        Option(help="Who labels, where several do: NAME.csv becomes NAME.ANNOTATOR.csv."),
    ] = None,
) -> None:
    """Draw a sample of a run's judged answers as a CSV for people to label, or label it here.

    Where the judge gives probabilities, answers whose label teaches more are drawn more often.

    Example: refract label --model synthetic --suite harmful_helpful --n 100
    """
    keep_inputs({"--out": out}, [rows])
    if annotator is not None and not re.fullmatch(r"[\w-]+", annotator):
        raise UsageError(
            f"--annotator takes letters, digits, - and _, since a file has it (got {annotator!r})"
        )
    answers = run_answers(model, suite, rows)
    if not answers:
        raise UsageError("the run has no judged answer to label")
    if out is None:
        if model is None:
            raise UsageError("--rows needs --out")
        out = project_root() / f"data/labels/{model}/{suite}.csv"
    if annotator:
        out = out.with_name(f"{out.stem}.{annotator}{out.suffix}")
    if terminal and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            f"--terminal needs a terminal; without it, fill in the column label of {out}"
        )
    if not out.exists():
        sample = draw(answers, n, seed)
        write_sample(out, sample)
        doubt = ", drawn by the judge's doubt" if "size" in sample[0] else ""
        count = f"{len(sample)} of {len(answers)} judged answers{doubt}"
        say(f"{out}: {count}, to be labelled in this order")
    elif not terminal:
        raise UsageError(
            f"{out} exists and may hold labels; name another file with --out, or go on with --terminal"
        )
    if terminal:
        label_in_terminal(out, answers)


def label_in_terminal(path: Path, answers: Sequence[JudgedAnswer]) -> None:
    """Asks for the missing labels of a file of `refract label`, from the top, until all are there or
    it is told to quit; neither ids nor categories are shown.

    Each label is in the file as soon as its key is pressed, so that quitting, Ctrl-C or a lost
    connection lose none. Raises :class:`refract.core.errors.RowError` for a file that cannot be used,
    or is of other answers.
    """
    # As exceptions they leave the terminal as it was: it waits for a key without echo.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    labelled = len(read_labels(path, answers).by_id)
    rows = label_rows(path)
    asked = answers_of_labels(path, rows, answers)
    if labelled:
        say(f"{path}: {labelled} of {len(rows)} labelled already")
    place = 0
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        while True:
            blank = [index for index, row in enumerate(rows) if not row["label"].strip()]
            if not blank:
                break
            place = next((index for index in blank if index >= place), blank[0])
            answer = asked[place]
            _show(answer, f"{len(rows) - len(blank) + 1} of {len(rows)}")
            key = pressed().lower()
            if key == "q":
                break
            if key == "u":
                before = [index for index in range(place) if index not in blank]
                if not before:
                    say("nothing to undo")
                    continue
                place = before[-1]
                say(f"undone: {rows[place]['label']}")
            elif key in KEYS:
                say(KEYS[key])
            else:
                say(f"no such key; there are: {HELP}")
                continue
            rows[place]["label"] = KEYS.get(key, "")
            write_table(path, list(rows[0]), rows)
    labelled = sum(bool(row["label"].strip()) for row in rows)
    remark = "" if labelled == len(rows) else "; the same command goes on"
    say(f"{path}: {labelled} of {len(rows)} labelled{remark}")


def pressed() -> str:
    """The next key; "" where several characters come at once, as of an arrow or a paste.

    Raises KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D and where there is no more input.
    """
    characters = click.getchar()
    if not characters:
        raise EOFError
    return characters if len(characters) == 1 else ""


def _show(answer: JudgedAnswer, title: str) -> None:
    """Prints an answer with its prompt, and what keys there are."""
    console = Console(highlight=False)
    console.rule(Text(printable(title)))
    prompt = conversation_text(answer.prompt)
    for heading, text in (("Prompt", prompt), ("Answer", answer.response)):
        console.print(Text(heading, style="bold"), Text(printable(text, keep="\n\t")), sep="\n")
    console.print(Text(HELP, style="dim"))
