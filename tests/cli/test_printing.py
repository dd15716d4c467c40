"""Tables in a terminal: folded, and never cut."""

from __future__ import annotations

import random
import re

import pytest
from rich.cells import cell_len

from refract.cli import printing
from refract.report.markdown import ShownTable

WIDTHS = (40, 80, 120)
NAMES = ("smollm2_135m", "harmful_helpful[sampled 60/309, seed=0]", "—", "x", "模型一", "")
NUMBERS = ("0.16 [0.11, 0.23] †", "-0.752 [-0.836, -0.668]", "4e-25", "—", "12,345", "+0.1")
PROSE = ("an odd sentence of more than thirty-two characters, wrapped where it has blanks", "none")


@pytest.fixture
def printed(capsys, monkeypatch):
    """What a table looks like in a terminal of some width; None: in a pipe."""

    def show(header, rows, width: int | None) -> list[str]:
        for name, value in {"FORCE_COLOR": "1", "COLUMNS": str(width)}.items():
            monkeypatch.setenv(name, value) if width else monkeypatch.delenv(name, raising=False)
        capsys.readouterr()
        printing.print_table(header, rows)
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()

    return show


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(4))
def test_no_number_and_no_name_is_cut_or_broken_and_no_line_is_wider_than_the_terminal(
    printed, width, seed
):
    draw = random.Random(seed)
    kinds = (
        [NAMES] * draw.randrange(4) + [NUMBERS] * draw.randrange(12) + [PROSE] * draw.randrange(3)
    )
    kinds = kinds or [NAMES]
    header = [f"column {n}" if n % 2 else f"c{n}" for n in range(len(kinds))]
    rows = [[draw.choice(kind) for kind in kinds] for _ in range(draw.randrange(1, 6))]
    lines = printed(header, rows, width)
    for row in rows:
        for value in row:
            pieces = value.split() if cell_len(value) > printing.NAME else [value]
            for piece in pieces:
                assert any(piece in line for line in lines), (piece, lines)
    assert "…" not in "".join(lines)
    longest = max(
        cell_len(name) + 2 + cell_len(x)
        for row in rows
        for name, x in zip(header, row, strict=True)
    )
    assert max(cell_len(line.rstrip()) for line in lines) <= max(width, longest)
    # A row's numbers stand as often as the table has them, not more.
    whole = printed(header, rows, None)
    assert len(whole) == len(rows) + 2
    assert all(value in line for row, line in zip(rows, whole[2:], strict=True) for value in row)


def test_a_wide_table_becomes_several_with_the_text_columns_in_each(printed):
    header = ["suite", "model", "harmful refused", "helpful refused", "discrimination"]
    rows = [
        ["harmful_helpful", "smollm2_135m", "0.16 [0.11, 0.23]", "0.00 [0.00, 0.04]"],
        ["harmful_helpful", "synthetic", "0.92 [0.85, 0.95]", "—"],
    ]
    rows[0].append("0.16 [0.09, 0.23]")
    rows[1].append("0.84 [0.76, 0.90]")
    assert [line.rstrip() for line in printed(header, rows, 60)] == [
        "suite            model           harmful refused",
        "────────────────────────────────────────────────",
        "harmful_helpful  smollm2_135m  0.16 [0.11, 0.23]",
        "harmful_helpful  synthetic     0.92 [0.85, 0.95]",
        "",
        "suite            model           helpful refused",
        "────────────────────────────────────────────────",
        "harmful_helpful  smollm2_135m  0.00 [0.00, 0.04]",
        "",
        "suite            model            discrimination",
        "────────────────────────────────────────────────",
        "harmful_helpful  smollm2_135m  0.16 [0.09, 0.23]",
        "harmful_helpful  synthetic     0.84 [0.76, 0.90]",
    ]
    # Where not one column fits beside them, each row is a list.
    assert printed(header, rows, 40)[:6] == [
        "suite: harmful_helpful",
        "model: smollm2_135m",
        "harmful refused: 0.16 [0.11, 0.23]",
        "helpful refused: 0.00 [0.00, 0.04]",
        "discrimination: 0.16 [0.09, 0.23]",
        "",
    ]


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


def test_a_long_line_is_broken_at_blanks_and_in_no_interval(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "24")
    printing.print_text("  refused 0.88 [0.82, -0.97] of 129 harmful")
    assert capsys.readouterr().out.splitlines() == [
        *("  refused", "    0.88 [0.82, -0.97]", "    of 129 harmful")
    ]
