"""``refract table``: rates with intervals as Markdown and as LaTeX that compiles."""

from __future__ import annotations

import shutil
import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import UsageError
from refract.export.latex import PaperTable, as_latex, as_markdown, latex, paper_table
from refract.rates.rate import Interval
from tests.builders import rate

HARMFUL = "harmful_refusal_rate"
SAMPLED = {"suite": "b[sampled 9/99, seed=7]"}
TABLES = {
    "small_one": [
        rate(HARMFUL, 3, 4, interval=Interval(0.3006, 0.9544)),
        rate(
            *("over_refusal_rate", 0, 3),
            interval=Interval(0, 0.5614),
            bounds=Interval(0, 0.25),
            excluded={"error": 1},
            cut_off=1,
        ),
        rate(HARMFUL, 9, 9, interval=Interval(0.7008, 1), **SAMPLED),
        rate("leak_rate", 1, 9, interval=Interval(0.0199, 0.4350), **SAMPLED),
        rate("refusal_rate", 2, 2, "area=R&D_50%", interval=Interval(0.3424, 1)),
    ],
    "large": [rate(HARMFUL, 4, 4, interval=Interval(0.5101, 1))],
}


def test_cells_say_all_that_limits_a_rate():
    assert as_markdown(paper_table(TABLES)) == (
        "| Suite | Model | Harmful refused | Helpful refused (over-refusal) |\n"
        "|:--|--:|--:|--:|\n"
        "| s | small_one | 0.750 \\[0.301, 0.954\\] 3/4 | 0.000 \\[0.000, 0.561\\] 0/3; "
        "33 % CUT OFF; with 1 not judged 0.000 to 0.250 |\n"
        "| s | large | 1.000 \\[0.510, 1.000\\] 4/4 | — |\n"
        "| b\\[sampled 9/99, seed=7\\] | small_one | 1.000 \\[0.701, 1.000\\] 9/9 | — |\n\n"
        "- Rates with 95 % intervals and counts.\n"
    )


def test_short_cells_leave_what_limits_a_rate_to_the_notes():
    found = paper_table(TABLES, suites=["s"], short=True)
    assert found == PaperTable(
        ["Model", "Harmful refused", "Helpful refused (over-refusal)"],
        [
            ["small_one", "0.750 [0.301, 0.954]", "0.000 [0.000, 0.561]"],
            ["large", "1.000 [0.510, 1.000]", "—"],
        ],
        1,
        [
            "Rates with 95 % intervals. Suite: s.",
            "s, small_one: over_refusal_rate, not judged: 1 error; 1 of 3 cut off",
        ],
    )


def test_latex_has_the_rules_of_booktabs_and_names_each_suite_once():
    assert as_latex(paper_table(TABLES, short=True, measures=["harmful_refusal_rate"])) == (
        "% \\usepackage{booktabs}; Rates with 95 % intervals.\n"
        "\\begin{tabular}{llr}\n"
        "\\toprule\n"
        "Suite & Model & Harmful refused \\\\\n"
        "\\midrule\n"
        "s & small\\_one & 0.750 [0.301, 0.954] \\\\\n"
        " & large & 1.000 [0.510, 1.000] \\\\\n"
        "\\midrule\n"
        "b[sampled 9/99, seed=7] & small\\_one & 1.000 [0.701, 1.000] \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )


def test_a_sampled_suite_goes_by_its_plain_name_and_a_field_has_a_row_for_each_value():
    found = paper_table(TABLES, suites=["b"], measures=["leak_rate", "harmful_refusal_rate"])
    assert found.header == ["Model", "leak rate", "Harmful refused"]
    assert found.rows == [
        ["small_one", "0.111 [0.020, 0.435] 1/9", "1.000 [0.701, 1.000] 9/9"],
    ]
    found = paper_table(TABLES, by="area", measures=["refusal_rate"])
    assert (found.header, found.rows) == (
        ["Model", "area", "refusal rate"],
        [["small_one", "R&D_50%", "1.000 [0.342, 1.000] 2/2"]],
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"suites": ["bb"]},
            "--suite 'bb' is not in these results; did you mean 'b'?; there are: b, "
            "b[sampled 9/99, seed=7], s",
        ),
        ({"by": "type"}, "--by 'type' is not in these results; there are: area"),
        (
            {"measures": ["leak"], "suites": ["b"]},
            "--measure 'leak' is not in these results; did you mean 'leak_rate'?; there are: "
            "harmful_refusal_rate, leak_rate",
        ),
        ({"by": "area"}, "name measures with --measure; there are: refusal_rate"),
    ],
)
def test_what_the_tables_do_not_have_is_said_with_what_they_have(asked, message):
    with pytest.raises(UsageError) as raised:
        paper_table(TABLES, **asked)
    assert str(raised.value) == message


PLAIN = set(string.ascii_letters + string.digits + " .,:;!?()=+/*@-[]")
COMMANDS = [
    *(r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textless{}"),
    *(r"\textgreater{}", r"\textbar{}", r"\textasciigrave{}", r"\textquotesingle{}"),
    *(r"\textemdash{}", r"\textendash{}", r"\char`\"{}", r"\dots{}", "$-$", "{}"),
    *(rf"\{mark}" for mark in "{}$&#%_"),
]


@given(st.text(st.characters(max_codepoint=0x7F) | st.sampled_from("—–−…\u202e"), max_size=30))
def test_nothing_in_a_text_reaches_latex_but_letters_and_the_commands_for_marks(text):
    left = latex(text)
    assert "--" not in left
    for command in COMMANDS:
        left = left.replace(command, "")
    assert set(left) <= PLAIN


def test_latex_compiles_and_shows_every_character(tmp_path):
    """With a LaTeX that is installed: all of ASCII in each column, first in a row and last."""
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex, which is not on the PATH")
    marks = [char for char in map(chr, range(33, 127)) if not char.isalnum()]
    rows = [[f"{mark}x", f"a{mark}{mark}b", f"1{mark}"] for mark in [*marks, *"—–−…"]]
    text = as_latex(PaperTable(["Suite", "[Model]", "*"], rows, 2, ["95 % \\ } of", "^"]))
    (tmp_path / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{lmodern,booktabs}\\usepackage[paperheight=90cm]{geometry}"
        "\\begin{document}\n\\noindent "
        f"{text}\n\\clearpage\n{as_latex(paper_table(TABLES))}\\end{{document}}\n",
        "utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "paper.log").read_text("utf-8", "replace")
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
