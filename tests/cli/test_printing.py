"""Tables in a terminal: no number is cut."""

from __future__ import annotations

import re

import pytest

from refract.cli import printing
from refract.report.markdown import ShownTable

NAMES = ("smollm2_135m", "harmful_helpful[", "—", "x", "模型一", "")
NUMBERS = ("0.16 [0.11, 0.23] †", "-0.752 [-0.836, -0.668]", "4e-25", "—", "12,345", "+0.1")
PROSE = "an odd sentence of more than thirty-two characters, wrapped where it has blanks"


@pytest.mark.parametrize("width", [40, 80, None])
def test_no_number_and_no_name_is_cut_and_prose_is_wrapped_in_a_terminal(
    capsys, monkeypatch, width
):
    if width:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    rows = [[name, number, PROSE] for name, number in zip(NAMES, NUMBERS, strict=True)]
    printing.print_table(["name", "number", "why"], rows)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    for name, number in zip(NAMES, NUMBERS, strict=True):
        assert re.search(rf"^{re.escape(name)} .*{re.escape(number)}  \S", shown, re.M)
    assert (PROSE in shown) == (width is None)
    assert shown.count("blanks") == len(rows)


def test_the_first_table_is_one_for_each_suite_with_the_measures_it_has(capsys):
    rows = [
        ["b", "first", "0.16 [0.11, 0.23] †", "—", "0.02 [-0.10, 0.14]"],
        ["b", "second", "0.92 [0.85, 0.95]", "—", "—"],
        ["h", "first", "0.29", "0.00 ‡", "—"],
    ]
    header = ["suite", "model", "harmful refused", "helpful refused", "discrimination"]
    printing.print_by_suite(ShownTable(header, rows, []))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "b        harmful              discrimination",
        " first   0.16 [0.11, 0.23] †  0.02 [-0.10, 0.14]",
        " second  0.92 [0.85, 0.95]    —",
        "h       harmful  helpful",
        " first  0.29     0.00 ‡",
    ]
