"""Tables in a terminal: no number is cut."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from refract.cli import printing
from refract.cli.run_text import print_rates
from refract.rates.rate import Interval
from tests.builders import rate
from tests.report.views import view_of

NAMES = ("smollm2_135m", "harmful_helpful[", "—", "x", "模型一", "")
NUMBERS = ("0.16 [0.11, 0.23] †", "-0.752 [-0.836, -0.668]", "4e-25", "—", "12,345", "+0.1")
PROSE = "an odd sentence of more than thirty-two characters, wrapped where it has blanks"


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("width", [40, 80, None])
def test_no_number_and_no_name_is_cut_and_prose_is_wrapped_in_a_terminal(
    capsys, monkeypatch, width, rule
):
    if width:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    rows = [[name, number, PROSE] for name, number in zip(NAMES, NUMBERS, strict=True)]
    printing.print_table(["name", "number", "why"], rows, rule=rule)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    gap = "  " if rule else "  +"
    for name, number in zip(NAMES, NUMBERS, strict=True):
        assert re.search(rf"^{re.escape(name)} .*{re.escape(number)}{gap}\S", shown, re.M)
    assert (PROSE in shown) == (width is None)
    assert shown.count("blanks") == len(rows)


def test_no_null_difference_is_printed_as_none(capsys):
    ends = {"interval": Interval(-0.06, 0.06)}
    for value, shown in ((0.0, "none"), (0.05, "0.05 [-0.06, 0.06]")):
        view = view_of(rate("null_difference", 0, 60, value=value, **ends))
        print_rates(SimpleNamespace(suites={"s": None}), view)
        (line,) = (line for line in capsys.readouterr().out.splitlines() if "null_diff" in line)
        assert line.removeprefix("null_difference").rpartition("  ")[0].strip() == shown
