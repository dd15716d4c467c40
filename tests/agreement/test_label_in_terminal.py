"""Labelling in a terminal: through a pseudo-terminal, key by key, as a person would."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from refract.core.jsonl import write_rows
from refract.core.tables import read_table
from tests.agreement.answers import answers_with_doubt, as_rows, fill_in
from tests.builders import ROOT

SECONDS = 60  # for one screen, on a slow machine

ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Session:
    """A command in a terminal of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            for ending in ENDINGS:  # which may be ignored where the tests run in the background
                signal.signal(ending, signal.SIG_DFL)
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
            environment.pop("NO_COLOR", None)
            code = "from refract.cli import main; main()"
            os.execve(sys.executable, [sys.executable, "-c", code, *arguments], environment)

    def until(self, pattern: str) -> str:
        """What appears up to a pattern, which is taken off what is still to be read."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            try:
                data = os.read(self.terminal, 65536) if ready else b""
            except OSError:
                data = b""  # the command is over
            assert data, f"{pattern!r} did not appear in {self.seen!r}"
            self.seen += data.decode("utf-8", "replace")
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def press(self, key: str) -> None:
        """Presses a key, which counts once the keys are shown below an answer."""
        self.asked()
        os.write(self.terminal, key.encode())

    def asked(self) -> None:
        """Waits for a key to be asked for."""
        end = time.monotonic() + SECONDS
        while termios.tcgetattr(self.terminal)[3] & termios.ICANON:
            assert time.monotonic() < end, f"no key is asked for after {self.seen!r}"
            time.sleep(0.005)

    def code(self) -> int:
        """The exit code, once the command is over."""
        try:
            while data := os.read(self.terminal, 65536):
                self.seen += data.decode("utf-8", "replace")
        except OSError:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


def answers(count: int) -> list[dict]:
    """Rows of a run: half of them refusals, the judge sure of all but a few."""
    texts = ("I can't help.", "Step 1.")
    answers = [
        answer._replace(category="harmful", response=texts[number % 2])
        for number, answer in enumerate(answers_with_doubt(count))
    ]
    return as_rows(answers)


@pytest.fixture
def folder(tmp_path) -> Path:
    write_rows(tmp_path / "rows.jsonl", answers(40))
    return tmp_path


COMMAND = ("label", "--rows", "rows.jsonl", "--out", "l.csv", "--n", "25", "--terminal")


def labels(folder: Path, name: str = "l.csv") -> list[str]:
    return [row["label"] for row in read_table(folder / name)]


def test_labels_are_given_undone_interrupted_and_resumed_and_none_is_lost(folder):
    session = Session(folder, *COMMAND)
    for number, key in enumerate("rRcPd", 1):
        assert f"{number} of 25" in session.until(r"q quit")
        session.press(key)
    session.until(r"6 of 25[^$]*q quit")
    given = ["refusal", "refusal", "compliance", "partial_refusal", "degenerate"]
    assert labels(folder)[:6] == [*given, ""]
    session.press("x")
    session.until("no such key; there are: r refusal")
    session.until(r"\d of 25[^$]*q quit")
    session.press("u")
    session.until("undone: degenerate")
    session.until(r"5 of 25[^$]*q quit")
    assert labels(folder)[4] == ""
    session.press("c")
    session.until(r"6 of 25[^$]*q quit")
    session.press("\x03")  # Ctrl-C
    session.until(r"5 of 25 labelled; the same command goes on")
    assert session.code() == 0
    before = labels(folder)
    assert [label for label in before if label] == before[:5]
    session = Session(folder, *COMMAND)
    session.until(r"5 of 25 labelled already")
    session.until(r"6 of 25[^$]*q quit")
    session.press("u")  # of the session before
    session.until("undone: compliance")
    session.until(r"5 of 25[^$]*q quit")
    session.press("\x1b[A")  # an arrow
    session.until("no such key")
    session.until(r"\d of 25[^$]*q quit")
    session.press("q")
    session.until("4 of 25 labelled; the same command goes on")
    assert session.code() == 0


def test_two_people_have_a_file_each_and_settle_where_they_differ(folder, cli):
    draw = ("label", "--rows", "rows.jsonl", "--out", "l.csv", "--n", "11")
    r, c = "refusal", "compliance"
    given = {"ada": [*[r] * 5, *[c] * 5, ""], "ben": [*[r] * 4, *[c] * 5, "Refusal", r]}
    for name, of_name in given.items():
        assert cli(*draw, "--annotator", name).code == 0
        fill_in(folder / f"l.{name}.csv", of_name)
    ids = [row["prompt_id"] for row in read_table(folder / "l.ada.csv")]
    command = ("judge", "kappa", "l.ada.csv", "l.ben.csv", "--out", "settled.csv")
    said = json.loads(cli(*command, "--format", "json").out)
    # 8 of 10 alike, and half of each are refusals: (.8 - .5) / (1 - .5)
    assert (said["joined"], said["refusal"]["kappa"]) == (10, 0.6)
    assert said["disagreements"] == [["s", ids[4], r, c], ["s", ids[9], c, r]]
    shown = cli(*command)
    assert re.search(rf"To be settled:[^$]*{ids[4]}[^$]*{ids[9]}", shown.out)
    assert "only in B: 1" in shown.err
    assert labels(folder, "settled.csv") == [r, r, r, r, "", c, c, c, c, "", ""]
    session = Session(folder, *draw[:3], "--out", "settled.csv", "--terminal")
    for number in (9, 10, 11):
        session.until(rf"{number} of 11[^$]*q quit")
        session.press("d")
    session.until("11 of 11 labelled")
    assert session.code() == 0
    assert cli("correct", "settled.csv", "--rows", "rows.jsonl").code == 0


def test_without_a_terminal_the_way_out_is_said(folder, cli):
    done = cli("label", "--rows", "rows.jsonl", "--out", "l.csv", "--terminal")
    assert done.code == 2
    assert "--terminal needs a terminal; without it, fill in the column label of l.csv" in done.err
    assert not (folder / "l.csv").exists()
