"""What ``make mutants`` changes: one line each, the same with the same seed, and no text."""

from __future__ import annotations

import tomllib

from tests.builders import ROOT
from tools import mutants


def test_each_mutant_that_is_listed_as_equivalent_is_of_a_line_that_is_there():
    for entry in tomllib.loads(mutants.EQUIVALENT.read_text("utf-8"))["mutant"]:
        lines = map(str.strip, (ROOT / entry["file"]).read_text("utf-8").splitlines())
        assert entry["before"] in lines, entry


def test_what_decides_is_changed_and_texts_annotations_and_errors_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text('''def f(x: "a < b", y=2) -> 1:
    """1 < 2"""
    if not x < y and x != f"{1 + 1}":
        raise ValueError(1 + 1)
    return max(x + y, y)
''')
    after = set()
    for mutant in mutants.mutants("a.py"):
        after.add(mutant.source().decode().splitlines()[mutant.line - 1].strip())
    assert after == {
        'def f(x: "a < b", y=3) -> 1:',
        'def f(x: "a < b", y=(1)) -> 1:',
        'if x < y and x != f"{1 + 1}":',
        'if not x <= y and x != f"{1 + 1}":',
        'if not x >= y and x != f"{1 + 1}":',
        'if not x < y or x != f"{1 + 1}":',
        'if not x < y and x == f"{1 + 1}":',
        "return None",
        "return min(x + y, y)",
        "return max(x - y, y)",
    }
