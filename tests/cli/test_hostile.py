"""Texts that a model, a suite or a stranger's file could hold pass through every reader and output.

A reader uses what it is given or refuses it in a message; nothing that is printed or written for people
does anything. The page in a browser: tests/report/test_page_in_a_browser.py."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.api import judge_rows
from refract.cli import printing
from refract.core.errors import RefractError
from refract.core.file_formats import read_row_file
from refract.core.jsonl import write_rows
from refract.core.showing import csv_cell, json_text, printable
from refract.core.tables import read_table
from refract.judges import judge_suite, open_judges
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import CATEGORIES, STRING_FLAGS, check_suite
from stages.report import main as report
from tests.builders import NO, ROOT, YES, Project, outcome_line, write_outcomes
from tests.fuzz import JSON, TEXT, fuzzed
from tests.hostile import TEXTS

# What is read: used, or refused in a message

STRINGS = st.lists(TEXT, max_size=2)
SUITE_ROW = st.fixed_dictionaries(
    {"id": st.uuids().map(str), "category": st.sampled_from(CATEGORIES),
     "prompt": st.text(min_size=1, max_size=9)},
    optional={"expected_strings": JSON | STRINGS, "task_strings": JSON | STRINGS, "behavior": JSON,
              "requirement": JSON, **dict.fromkeys(STRING_FLAGS, st.booleans() | JSON)},
)  # fmt: skip
ANSWERED_ROW = st.fixed_dictionaries(
    {"id": st.text(max_size=3) | JSON, "response": TEXT | JSON},
    optional={"prompt": JSON, "finish_reason": JSON, "expected_strings": JSON | STRINGS,
              "task_strings": JSON, "model": JSON, **dict.fromkeys(STRING_FLAGS, JSON)},
)  # fmt: skip


def as_csv(rows: list[list[str]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue().encode("utf-8", "surrogatepass")


FILES = (
    st.binary(max_size=120)
    | st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=4).map(as_csv)
    | st.lists(JSON.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
    | JSON.map(json.dumps).map(str.encode)
    | st.lists(st.dictionaries(TEXT | st.just("prompt"), JSON, max_size=3), max_size=3)
    .map(json.dumps)
    .map(str.encode)
)
SUFFIXES = st.sampled_from([".csv", ".json", ".jsonl", ".tsv", ".parquet", ".xlsx"])
ENCODINGS = ("utf-8", "cp1252", "utf-16", "utf-7", "punycode", "idna", "hex", "rot13", "undefined",
             "unicode_escape", "zip", "", "\0", "no-such")  # fmt: skip


def lint_and_judge(folder: Path, draw) -> None:
    """What lint accepts can be judged."""
    rows = draw(st.lists(SUITE_ROW, min_size=1, max_size=2, unique_by=lambda row: row["id"]))
    (folder / "s.jsonl").write_bytes(b"\n".join(json.dumps(row).encode() for row in rows))
    good, problems = check_suite(folder / "s.jsonl")
    if all(problem.harmless for problem in problems):
        prompts = list(prompt_rows(good, "s", 1))
        answer = Answer(draw(TEXT) or "x")
        responses = [answer_row("key", answer, row["prompt_id"]) for row in prompts]
        judges = open_judges({kind: {"kind": kind} for kind in ("rules", "strings")})
        try:
            verdicts = judge_suite(prompts, responses, {row["id"]: row for row in good}, judges)
        except RefractError as error:
            raise AssertionError("lint accepted it") from error
        assert len(verdicts) == len(good)


def judge_any_rows(folder: Path, draw) -> None:
    rows = draw(st.lists(ANSWERED_ROW, max_size=3))
    kind = draw(st.sampled_from(["rules", "strings"]))
    assert len(judge_rows(rows, kind, {"kind": kind})) == len(rows)


def read_any_file(folder: Path, draw) -> None:
    path = folder / f"file{draw(SUFFIXES)}"
    path.write_bytes(draw(FILES))
    encoding = draw(st.sampled_from(ENCODINGS) | st.just("utf-8"))
    for row in read_row_file(path, encoding, header=draw(st.booleans())):
        assert isinstance(row, dict)
        json.dumps(row)


@pytest.mark.parametrize("reader", [lint_and_judge, judge_any_rows, read_any_file])
@fuzzed(60)
@given(data=st.data())
def test_whatever_a_reader_gets_is_used_or_refused_in_a_message(tmp_path_factory, reader, data):
    with suppress(RefractError):
        reader(tmp_path_factory.mktemp("any"), data.draw)


# What is shown: inert

IDS = [f"row-{number:02d}" for number in range(len(TEXTS))]
# A number, and one with its interval.
NUMBER = re.compile(r"[-+]?[0-9.]+(?:e-?[0-9]+)?(?: \[-?[0-9.]+, -?[0-9.]+\])?\Z")


def usable(text: str) -> str:
    """A text that a suite takes: NUL and lone surrogates are refused."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode()[:5000]


def is_inert(shown: str) -> bool:
    """Whether a terminal has nothing to obey in a text."""
    return all(char in "\n\t" or char.isprintable() for char in shown)


def assert_cells_are_inert(path: Path) -> None:
    text = path.read_text("utf-8")
    assert is_inert(text), path
    for row in csv.reader(text.splitlines(True)):
        for cell in row:
            formula = cell.lstrip().startswith(("=", "+", "-", "@"))
            assert not formula or NUMBER.match(cell), (path, cell[:50])


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Two commits between which every answer flipped; those of ``failing`` are errors."""
    texts = dict(zip(IDS, TEXTS.values(), strict=True))
    suite = [
        {"id": id_, "prompt": f"{id_}: {usable(text)}", "category": category, "area": usable(text)[:200]}
        for (id_, text), category in zip(texts.items(), cycle(("harmful", "helpful")))
    ]  # fmt: skip
    models = {
        name: {"adapter": "recorded", "path": f"data/recorded/{name}.jsonl"}
        for name in ("one", "failing")
    }
    folder = tmp_path_factory.mktemp("hostile") / "project"
    project = Project.create(folder, {"one": models["one"]}, {"alpha": suite})
    project.put(
        {"models": models, "suites.alpha.fields": ["area"], "suites.alpha.perturbations": ["typos"]}
    )
    failing = [{"id": id_, "response": "", "error": text} for id_, text in texts.items()]
    write_rows(folder / "data/recorded/failing.jsonl", failing)
    for clean, message in ((YES, "before"), (NO, "\x1b[31mafter\u202e")):
        answers = []
        for id_, text in texts.items():
            for variant, answer in (("", clean), ("/typos/typos", YES), ("/typos", YES)):
                answers.append({"id": f"{id_}{variant}", "response": f"{text} {answer}"})
        write_rows(folder / "data/recorded/one.jsonl", answers)
        project.compute()
        project.commit(message)
    return project


# In this order: a command, the exit codes that it may have, and what it prints.
COMMANDS = [
    ("run --model failing --suite alpha --out F/r.json", {1},
     f"the first: RecordedError: {TEXTS['script']}"),
    ("run --model one --suite alpha --out F/r.json --rows F/r.jsonl", {0}, ""),
    ("label --rows F/r.jsonl --out F/l.csv", {0}, ""),
    ("show", {0, 2}, ""),
    ("gate", {0, 2}, ""),
    ("reproduce", {0, 2}, ""),
    *[(f"compare HEAD~1 --flips --format {form}", {0}, "row-") for form in ("table", "json", "md")],
    *[(f"compare F/refusal.csv F/compliance.csv --flips --format {form}", {0}, "loud")
      for form in ("table", "json", "md")],
    ("judge --in F/rows.jsonl --out F/v.jsonl", {0}, ""),
    *[(f"judge kappa F/v.jsonl F/other.jsonl --format {form}", {0, 1, 2}, " ")
      for form in ("table", "json")],
    ("judge validate --labelled F/rows.jsonl --positive P", {0, 1, 2}, " "),
    ("judge validate --labelled F/rows.jsonl --positive absent", {1, 2}, " "),
    ("lint F/suite.jsonl", {1}, "'category' must be one of"),
    *[(command, {2}, "31m") for command in ("lint F/\x1b[31m\u202e", "compare \x1b[31m",
       "run --model \x1b[31m --suite alpha --out x", "judge kappa \x9b31m \x9b31m")],
]  # fmt: skip


def test_no_command_prints_what_a_terminal_obeys(project, cli, tmp_path, monkeypatch):
    texts = list(TEXTS.values())
    rows = [
        {"id": text, "prompt": text, "response": text, "label": text[:50], "model": text}
        for text in texts
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    other = [{**row, "prompt_id": row["id"], "judge": "x"} for row in rows]
    write_rows(tmp_path / "other.jsonl", other)
    broken = [{"id": text, "prompt": text, "category": text} for text in texts]
    write_rows(tmp_path / "suite.jsonl", broken)
    for outcome in ("refusal", "compliance"):
        lines = [outcome_line(x, outcome, x[:100], suite=x) for x in map(usable, texts)]
        write_outcomes(tmp_path / f"{outcome}.csv", lines)
    monkeypatch.chdir(project.folder)
    printed = {}
    for command, codes, message in COMMANDS:
        words = [word.replace("F/", f"{tmp_path}/") for word in command.split(" ")]
        words = [rows[0]["label"] if word == "P" else word for word in words]
        done = cli(*words)
        printed[command] = shown = done.out + done.err
        assert is_inert(shown), command
        assert "Traceback" not in done.err
        where = shown if 0 in codes else done.err
        assert (done.code in codes, message in where) == (True, True), (command, done)
    assert all(printed[command].count("row-") >= 2 for command in printed if "HEAD~1" in command)
    assert printed["lint F/suite.jsonl"].count("'category' must be one of") == len(TEXTS)
    (flips,) = (text for command, text in printed.items() if re.match("compare F.*json", command))
    flipped = [id_ for row in json.loads(flips)["rows"] for id_ in row["to_compliance"]]
    assert set(flipped) == set(map(usable, texts))
    assert len(read_table(tmp_path / "l.csv")) > len(TEXTS) / 2
    cells = [cell for row in read_table(tmp_path / "l.csv") for cell in row.values() if cell]
    assert all(is_inert(cell) and cell[0] not in "=+-@" for cell in cells)


def test_markup_of_rich_in_a_text_is_shown_and_not_obeyed(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    text = "[bold red]loud[/bold red] [link=http://localhost]x[/link] \x1b[31m"
    printing.print_table([text], [[text]])
    shown = capsys.readouterr().out
    assert shown.count("[bold red]loud[/bold red] [link=http://localhost]x[/link] \\x1b[31m") == 2
    assert not re.search("\x1b\\[31m|\x1b]8;", shown)


def test_every_file_for_people_is_inert(project, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(project.folder)
    report()
    assert cli("export", "--out", tmp_path / "export").code == 0
    folders = (Path("metrics"), tmp_path / "export")
    tables = [path for folder in folders for path in folder.rglob("*.csv")]
    assert len(tables) == 8
    for path in tables:
        assert_cells_are_inert(path)
    page = Path("metrics/report.md").read_text("utf-8")
    assert is_inert(page)
    assert "<" not in page
    for path in Path("metrics/figures").glob("*.svg"):
        assert is_inert(path.read_text("utf-8"))
        ElementTree.parse(path)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_made_safe_still_says_what_it_said(text):
    assert json.loads(json_text([text])) == [text]
    assert all(map(is_inert, (printable(text), json_text([text]), csv_cell(text))))
    assert not csv_cell(text).lstrip().startswith(("=", "+", "-", "@"))


@fuzzed(50)
@given(TEXT | st.text("=+-@1|%'\"\t\r\n \u00a0\u3000\u200b\ufeff\0＝＋－＠﹦﹢⁺", max_size=5))
def test_no_cell_starts_like_a_formula_in_any_width(text):
    begins = str(csv_cell(text)).strip(" \t\r\n\u00a0\u3000\u200b\ufeff\0")[:1]
    assert begins not in tuple("=+-@＝＋－＠﹦﹢﹣﹫")


def test_a_character_that_does_not_show_is_written_out():
    text = "a\x1b[31m\r\n\u202e\ud800\U0001f600\x9bé\u2028"
    assert printable(text) == "a\\x1b[31m\\r\\n\\u202e\\ud800\U0001f600\\x9bé\\u2028"
    assert printable(text, keep="\n").split("\n")[0] == "a\\x1b[31m\\r"
    assert json_text(text) == '"a\\u001b[31m\\r\\n\\u202e\\ud800\U0001f600\\u009bé\\u2028"'
    assert csv_cell(text).startswith("a<U+001B>[31m<U+000D>\n<U+202E><U+D800>\U0001f600<U+009B>é")
    assert [csv_cell(value) for value in (" =1", -1, 0.5, None)] == ['" =1"', -1, 0.5, None]


def test_nothing_is_printed_but_through_what_makes_it_safe():
    """``print`` alone would hand a terminal whatever a text holds."""
    found = []
    for path in sorted((ROOT / "refract").rglob("*.py")):
        # The second runs without this package, and does the same itself.
        if path.name != "showing.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Name) and node.id == "print":
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
