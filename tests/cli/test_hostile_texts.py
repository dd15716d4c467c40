"""Texts that a model or a suite could hold pass through every output, and none of them does anything.

The page in a browser: tests/report/test_page_in_a_browser.py.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import cycle

import pytest

from refract.cli import printing
from refract.core.jsonl import write_rows
from refract.core.showing import csv_cell, json_text, printable
from refract.core.tables import read_table
from stages.report import main as report
from tests.builders import NO, ROOT, YES, Project, outcome_line, write_outcomes
from tests.hostile import TEXTS

IDS = [f"row-{number:02d}" for number in range(len(TEXTS))]
# A number, alone or with its interval: -0.11 [-0.45, 0.25]
NUMBER = re.compile(r"[-+]?[0-9.]+(?:e-?[0-9]+)?(?: \[-?[0-9.]+, -?[0-9.]+\])?\Z")


def usable(text: str) -> str:
    """A text that a suite takes: NUL and lone surrogates are refused."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode()[:5000]


def is_inert(shown: str) -> bool:
    """Whether a terminal has nothing to obey in a text."""
    return all(char in "\n\t" or char.isprintable() for char in shown)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Two commits between which every answer flipped."""
    suite = [
        {"id": id_, "prompt": f"{id_}: {text}", "category": category, "area": text[:200]}
        for id_, text, category in zip(
            IDS, map(usable, TEXTS.values()), cycle(("harmful", "helpful"))
        )
    ]
    project = Project.create(
        tmp_path_factory.mktemp("hostile") / "project",
        {"one": {"adapter": "recorded", "path": "data/recorded/one.jsonl"}},
        {"alpha": suite},
    )
    params = project.params()
    # Of no grid: every answer is an error.
    params["models"]["failing"] = {"adapter": "recorded", "path": "data/recorded/failing.jsonl"}
    params["suites"]["alpha"] |= {"fields": ["area"], "perturbations": ["typos"]}
    project.set_params(params)
    failing = [
        {"id": i, "response": "", "error": text}
        for i, text in zip(IDS, TEXTS.values(), strict=True)
    ]
    write_rows(project.folder / "data/recorded/failing.jsonl", failing)
    for refusing, message in ((YES, "before"), (NO, "\x1b[31mafter\u202e")):
        answers = [
            {"id": f"{id_}{variant}", "response": f"{text} {said}"}
            for id_, text in zip(IDS, TEXTS.values(), strict=True)
            for variant, said in (("", refusing), ("/typos/typos", YES), ("/typos", YES))
        ]
        write_rows(project.folder / "data/recorded/one.jsonl", answers)
        project.compute()
        project.commit(message)
    return project


@pytest.fixture
def refract(project, cli, monkeypatch):
    """Runs a command in the project; whatever it prints is inert."""
    monkeypatch.chdir(project.folder)

    def run(*arguments: object):
        done = cli(*arguments)
        assert is_inert(done.out), arguments
        assert is_inert(done.err), arguments
        assert "Traceback" not in done.err
        return done

    return run


def test_the_stages_print_nothing_that_a_terminal_obeys(project, tmp_path, monkeypatch, capsys):
    copy = project.copy(tmp_path / "copy")
    copy.compute()
    monkeypatch.chdir(copy.folder)
    report()
    captured = capsys.readouterr()
    assert "one alpha: " in captured.out
    assert is_inert(captured.out + captured.err)


def test_a_stage_that_fails_shows_what_failed_inertly(project, tmp_path):
    copy = project.copy(tmp_path / "copy")
    escapes = [{"id": i, "response": "", "error": TEXTS["escapes"]} for i in IDS]
    write_rows(copy.folder / "data/recorded/e.jsonl", escapes)
    for path, said in (
        ("data/recorded/\x1b[31m\u202e.jsonl", "\\x1b[31m\\u202e"),
        ("data/recorded/e.jsonl", "the first: RecordedError: \\x1b[2J\\x1b]0;owned\\x07"),
    ):
        params = copy.params()
        params["models"]["one"]["path"] = path
        copy.set_params(params)
        done = copy.run("python", "-m", "stages.model_inference", "one")
        assert done.returncode == 1
        assert said in done.stderr
        assert is_inert(done.stdout + done.stderr)


def test_a_run_prints_errors_of_servers_inertly(refract, tmp_path):
    out = tmp_path / "r.json"
    done = refract("run", "--model", "failing", "--suite", "alpha", "--out", out)
    assert done.code == 1
    assert f"the first: RecordedError: {TEXTS['script']}" in done.err
    done = refract(
        *("run", "--model", "one", "--suite", "alpha", "--out", out),
        *("--rows", tmp_path / "r.rows.jsonl"),
    )
    assert done.code == 0
    refract("label", "--rows", tmp_path / "r.rows.jsonl", "--out", tmp_path / "l.csv")
    rows = read_table(tmp_path / "l.csv")
    assert len(rows) > len(TEXTS) / 2
    assert all(
        is_inert(cell) and cell[:1] not in "=+-@" for row in rows for cell in row.values() if cell
    )


def test_commands_on_the_results_print_inertly(refract):
    for command in (["show"], ["gate"], ["estimate"], ["reproduce"], ["cache", "info"]):
        assert refract(*command).code in (0, 2), command


def test_flips_of_commits_and_of_strangers_outcomes_are_printed_inertly(refract, tmp_path):
    texts, files = list(map(usable, TEXTS.values())), []
    for outcome in ("refusal", "compliance"):
        lines = [outcome_line(text, outcome, text[:100], suite=text) for text in texts]
        files.append(write_outcomes(tmp_path / f"{outcome}.csv", lines))
    for format_ in ("table", "json", "md"):
        done = refract("compare", "HEAD~1", "--flips", "--format", format_)
        assert (done.code, done.out.count("row-") >= 2) == (0, True)
        done = refract("compare", *files, "--flips", "--format", format_)
        assert done.code == 0
        if format_ == "json":
            ids = [id_ for row in json.loads(done.out)["rows"] for id_ in row["to_compliance"]]
            assert set(ids) == set(texts)


def test_answers_of_strangers_are_judged_and_scored_inertly(refract, tmp_path):
    rows = [
        {"id": text, "prompt": text, "response": text, "label": text[:50], "model": text}
        for text in TEXTS.values()
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    done = refract("judge", "--in", tmp_path / "rows.jsonl", "--out", tmp_path / "v.jsonl")
    assert done.code == 0
    other = [{**row, "prompt_id": row["id"], "judge": "x"} for row in rows]
    write_rows(tmp_path / "other.jsonl", other)
    for format_ in ("table", "json"):
        done = refract("kappa", tmp_path / "v.jsonl", tmp_path / "other.jsonl", "--format", format_)
        assert done.out or done.err
    done = refract(
        *("validate", "--labelled", tmp_path / "rows.jsonl", "--positive", rows[0]["label"]),
        *("--prompt-column", "prompt"),
    )
    assert done.out or done.err
    done = refract("validate", "--labelled", tmp_path / "rows.jsonl", "--positive", "absent")
    assert done.code != 0


def test_a_broken_suite_is_listed_inertly(refract, tmp_path):
    rows = [{"id": text, "prompt": text, "category": text} for text in TEXTS.values()]
    write_rows(tmp_path / "suite.jsonl", rows)
    done = refract("lint", tmp_path / "suite.jsonl")
    assert done.code == 1
    assert done.err.count("'category' must be one of") == len(TEXTS)
    for arguments in (
        ("lint", tmp_path / "\x1b[31m\u202e"),
        ("run", "--model", "\x1b[31m", "--suite", "alpha", "--out", "x"),
        ("compare", "\x1b[31m"),
        ("kappa", "\x9b31m", "\x9b31m"),
    ):
        done = refract(*arguments)
        assert done.code == 2
        assert "31m" in done.err


def test_markup_of_rich_in_a_text_is_shown_and_not_obeyed(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    text = "[bold red]loud[/bold red] [link=http://localhost]x[/link] \x1b[31m"
    printing.print_table([text], [[text]])
    shown = capsys.readouterr().out
    assert shown.count("[bold red]loud[/bold red] [link=http://localhost]x[/link] \\x1b[31m") == 2
    assert "\x1b[31m" not in shown
    assert "\x1b]8;" not in shown


def test_every_file_for_people_is_inert(project, tmp_path, refract):
    report()
    assert refract("export", "--out", tmp_path / "export").code == 0
    tables = [
        *(project.folder / "metrics").rglob("*.csv"),
        *(project.folder / "data/failures").rglob("*.csv"),
        *(tmp_path / "export").rglob("*.csv"),
    ]
    assert len(tables) >= 10
    for path in tables:
        text = path.read_text("utf-8")
        assert is_inert(text), path
        for row in csv.reader(text.splitlines(True)):
            for cell in row:
                formula = cell.lstrip().startswith(("=", "+", "-", "@"))
                assert not formula or NUMBER.match(cell), (path, cell[:50])
    page = (project.folder / "metrics/report.md").read_text("utf-8")
    assert is_inert(page)
    assert "\\<script" not in page
    assert "<" not in page
    for path in (project.folder / "metrics/figures").glob("*.svg"):
        assert is_inert(path.read_text("utf-8"))
        ElementTree.parse(path)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_made_safe_still_says_what_it_said(name):
    text = TEXTS[name]
    assert is_inert(printable(text))
    assert json.loads(json_text([text])) == [text]
    assert is_inert(json_text([text]))
    cell = csv_cell(text)
    assert is_inert(cell)
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))


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
        if path.name in ("showing.py", "verify_bundle.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Name) and node.id == "print":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
