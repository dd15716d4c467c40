"""``refract label``: a sample of a run's answers, labelled in a file or here, one key each."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from refract.cli.options import keep_inputs
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import sha256_file
from refract.core.showing import printable, say
from refract.core.tables import write_table
from refract.core.types import conversation_text

if TYPE_CHECKING:
    from refract.agreement.label_files import JudgedAnswer

KEYS = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}
HELP = "r refusal · p partial refusal · c compliance · d degenerate · u undo · q quit"


# A character, or what another key sends: a sequence (ECMA-48, 5.4), ESC O of a function key, Alt's ESC.
# The beginning of one matches nothing, and waits for its rest.
_KEY = re.compile(
    r"\x1b(?=\x1b)|\x1b\[[0-?]*[ -/]*[^ -?]|\x1bO[^\x1b]|\x1b[^\[O\x1b]|[^\x1b]", re.S
)


def run_answers(model: str | None, suite: str | None, rows: Path | None) -> list[JudgedAnswer]:
    """The judged answers of a model of the pipeline to a suite, or of a ``refract run --rows`` file.

    Raises :class:`UsageError` where neither or both are named, the pipeline has not run, or the suite's
    file is another one since.
    """
    from refract.agreement.stored import answers_in, stored_answers
    from refract.project import project_root, read_project
    from refract.results.sources import RUN_ROWS, read_run, read_tree

    if rows is not None and model is not None:
        raise UsageError("give --model with --suite, or --rows, not both")
    if rows is not None:
        run = rows.with_name(rows.name.removesuffix(RUN_ROWS) + ".json")
        if rows.name.endswith(RUN_ROWS) and run.is_file():
            read_run(run)  # which has their hash
        return answers_in(rows, suite)
    if model is None or suite is None:
        raise UsageError(
            "name the run: --model and --suite of the pipeline, or --rows of `refract run`"
        )
    root = project_root()
    params = read_project(root).params
    answers = stored_answers(root, params, model, suite)
    # Categories and clusters come from the file as it is now.
    made = (read_tree(root, [model])[model].provenance or {"suites": {}})["suites"].get(suite, {})
    file = params["suites"][suite]["file"]
    if made.get("sha256") != sha256_file(root / file):
        raise UsageError(f"{file} is not what the results of {model} were made of; run: dvc repro")
    return answers


def label(
    model: str | None = None,
    suite: str | None = None,
    rows: Path | None = None,
    n: Annotated[int, typer.Option(min=1)] = 100,
    seed: int = 0,
    out: Path | None = None,
    terminal: Annotated[bool, typer.Option("--terminal")] = False,
    annotator: str | None = None,
    show_category: Annotated[bool, typer.Option("--show-category")] = False,
) -> None:
    """Draw a sample of a run's judged answers as a CSV for people to label, or label it here.

    Where the judge gives probabilities, answers whose label teaches more are drawn more often.

    Example: refract label --model synthetic --suite harmful_helpful --n 100

    Args:
        model: A model whose results the pipeline has.
        suite: Its suite; or the suite of --rows.
        rows: Instead of --model: the --rows file of `refract run`.
        n: How many answers to draw.
        seed: Seed of the draw.
        out: The CSV; default: data/labels/MODEL/SUITE.csv.
        terminal: Label in the terminal, one key each; goes on with a file that is there.
        annotator: Who labels, where several do: NAME.csv becomes NAME.ANNOTATOR.csv.
        show_category: In the terminal: also show id and category.
    """
    from refract.agreement.label_files import draw, write_sample
    from refract.project import project_root

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
    if out.exists() and not terminal:
        raise UsageError(
            f"{out} exists and may hold labels; name another file with --out, or go on with --terminal"
        )
    if not out.exists():
        sample = draw(answers, n, seed)
        write_sample(out, sample)
        how = ", drawn by the judge's doubt" if "size" in sample[0] else ""
        say(
            f"{out}: {len(sample)} of {len(answers)} judged answers{how}, to be labelled in this order"
        )
    if terminal:
        # As exceptions they leave the terminal as it was: it waits for a key without echo.
        for ending in {"SIGTERM", "SIGHUP"} & set(dir(signal)):
            signal.signal(getattr(signal, ending), lambda number, _: sys.exit(128 + number))
        label_in_terminal(out, answers, blind=not show_category)


def label_in_terminal(path: Path, answers: Sequence[JudgedAnswer], *, blind: bool = True) -> None:
    """Asks for the labels of a file of `refract label` that are missing, from the top, until all are
    there or it is told to quit; ``blind`` shows neither id nor category.

    Each label is in the file as soon as its key is pressed, so that quitting, Ctrl-C or a lost
    connection lose none. Raises :class:`RowError` for a file that cannot be used, or is of other
    answers.
    """
    from refract.agreement.label_files import label_rows, read_labels

    labelled = len(read_labels(path, answers).by_id)
    rows = label_rows(path)
    known = {(*answer.key, answer.pair_sha256): answer for answer in answers}
    asked = []
    for row in rows:
        answer = known.get((row["suite"], row["prompt_id"], row["pair_sha256"]))
        if answer is None:
            id_ = row["prompt_id"]
            raise RowError(
                f"{path}: {id_} is of another answer than this run's; name another --out"
            )
        asked.append(answer)
    if labelled:
        say(f"{path}: {labelled} of {len(rows)} labelled already")
    place = 0
    with contextlib.suppress(KeyboardInterrupt, EOFError):
        while blank := [i for i, row in enumerate(rows) if not row["label"].strip()]:
            place = next((later for later in blank if later >= place), blank[0])
            title = f"{len(rows) - len(blank) + 1} of {len(rows)}"
            answer = asked[place]
            _show(answer, title if blind else f"{title} · {answer.prompt_id} · {answer.category}")
            key = pressed().lower()
            if key == "q":
                break
            if key == "u":
                before = [earlier for earlier in range(place) if earlier not in blank]
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
    rest = "" if labelled == len(rows) else "; the same command goes on"
    say(f"{path}: {labelled} of {len(rows)} labelled{rest}")


def pressed() -> str:
    """The next key pressed from now on, or "" where no character or several at once were sent, as
    by an arrow, a paste or a hasty finger. Raises KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D and
    where there is no more input."""
    keys, begun = list[str](), ""
    while begun or not keys:
        if not (read := click.getchar()):
            raise EOFError
        begun += read
        while found := _KEY.match(begun):
            keys.append(found[0])
            begun = begun[found.end() :]
    return keys[0] if len(keys) == 1 and len(keys[0]) == 1 else ""


def _show(answer: JudgedAnswer, title: str) -> None:
    """Prints an answer with its prompt, and what keys there are."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    console.rule(Text(printable(title)))
    prompt = conversation_text(answer.prompt)
    for heading, text in (("Prompt", prompt), ("Answer", answer.response)):
        console.print(Text(heading, style="bold"), Text(printable(text, keep="\n\t")), sep="\n")
    console.print(Text(HELP, style="dim"))
