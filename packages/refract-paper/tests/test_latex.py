"""``refract export --as latex``: rates with intervals as LaTeX that compiles."""

from __future__ import annotations

import shutil
import string
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import UsageError
from refract.rates.rate import Difference, Interval, WithJudge
from refract.report.comparisons import Compared
from refract.suites.draws import Draw
from refract_paper.latex import as_latex, latex, prose, typewriter
from refract_paper.paper_tables import PaperTable, difference_table, paper_table
from tests.builders import rate, suite_facts
from tests.report.views import facts, view_of

HARMFUL = "harmful_refusal_rate"
SAMPLED = {"suite": "b", "draw": Draw(asked=9, total=99, seed=7)}
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


@pytest.mark.parametrize(
    ("more", "mark", "note"),
    [
        ({"cut_off": 9}, "", ""),
        ({"cut_off": 10}, " ✂", "was cut off, and judged by what was said."),
        ({"excluded": {"error": 2, "empty": 1}}, " †", "† some answers were not judged."),
    ],
)
def test_each_mark_has_a_note(more, mark, note):
    rates = [rate(HARMFUL, 50, 100, interval=Interval(0.4, 0.6), **more)]
    found = paper_table({"one": rates}, {})
    assert found.rows == [["one", "0.50 [0.40, 0.60]" + mark]]
    *of_marks, last = found.notes
    assert last == "Intervals are of the prompts alone."
    assert "".join(of_marks).endswith(note)
    assert len(of_marks) == bool(note)


def test_columns_that_do_not_fit_stand_in_parts_with_the_names_and_rows_in_several_floats():
    header = ["Model", *(f"Measure {n}" for n in range(7))]
    rows = [[f"model_{n}", *["0.50 [0.40, 0.60]"] * 7] for n in range(25)]
    found = as_latex(PaperTable(header, rows, 1, ["A note."], "Seven."))
    parts = [line for line in found.splitlines() if line.startswith("Model & Measure")]
    assert parts[:2] == [
        r"Model & Measure 0 & Measure 1 & Measure 2 & Measure 3 \\",
        r"Model & Measure 4 & Measure 5 & Measure 6 \\",
    ]
    assert (found.count("(continued)"), found.count("A note."), found.count("label{")) == (1, 1, 1)
    for n in range(25):
        assert found.count(f"model\\_{n} &") == 2


def test_a_sampled_suite_goes_by_its_plain_name():
    found = paper_table(TABLES, {}, suites=["b"], measures=["leak_rate", HARMFUL])
    assert found.header == ["Model", "Leak rate", "Harmful refused"]
    assert found.rows == [["small_one", "0.11 [0.02, 0.44]", "1.00 [0.70, 1.00]"]]


def test_what_the_tables_do_not_have_is_said_with_what_they_have():
    message = r"--suite 'bb' is not in these results; did you mean 'b'\?; there are"
    with pytest.raises(UsageError, match=message):
        paper_table(TABLES, {}, suites=["bb"])
    message = "--set measures 'leak' is not in these results; did you mean 'leak_rate'"
    with pytest.raises(UsageError, match=message):
        paper_table(TABLES, {}, measures=["leak"])


def test_a_cell_and_the_note_say_which_errors_of_the_judge_its_interval_holds():
    labelled = WithJudge(Interval(0, 0.32))
    alone = rate(HARMFUL, 1, 4, interval=Interval(0.1, 0.4), judge_unknown=True)
    outside = rate(HARMFUL, 4, 4, suite="b", model="two", with_judge=labelled)
    other = rate(f"prediction_powered_{HARMFUL}", 1, 4, "human_labels=all", suite="b", model="two")
    labels = {"one": 7, "two": 48}  # no rate of one on b is shown
    provenance = {
        model: {"suites": {"b": suite_facts(labels_by_models=n)}} for model, n in labels.items()
    }
    found = paper_table({"one": [alone], "two": [outside, other]}, provenance, suites=["s"])
    assert found.rows == [["one", "0.25 [0.10, 0.40]°"]]
    unknown = (
        "ntervals with ° are of the prompts alone: how the judge's errors move them is not known"
    )
    assert found.notes == [f"I{unknown}."]
    found = paper_table({"one": [alone], "two": [outside, other]}, provenance)
    assert found.rows[1] == ["b", "two", "[0.00, 0.32], 1.00 by the judge alone"]
    assert f"; i{unknown}; where a part of the run has labels (48 are" in found.notes[0]


def test_draws_that_models_do_not_share_are_said_of_each():
    rates = {name: [rate(HARMFUL, 1, 4, model=name)] for name in ("one", "two")}
    provenance = {}
    for name, samples in (("one", 4), ("two", 1)):
        draw = {"asked": None, "total": 4, "seed": 0, "samples": samples}
        provenance[name] = facts(suites={"s": suite_facts(draw=draw)})
    notes = paper_table(rates, provenance).notes
    assert notes[:-1] == ["s: 4 samples of one, 1 sample of two."]
    assert paper_table(rates, {"one": {}, "two": {}}).rows == paper_table(rates, provenance).rows


def test_the_table_of_differences_says_that_intervals_hold_the_judges_error():
    numbers = {"a": 0.2, "b": 0.4, "value": 0.2, "p": 0.1, "bounds": None, "outer": None}
    of = {"suite": "s", "category": "harmful", "perturbation": "", "n": 9, "clusters": 9} | numbers
    judged = Difference(**of, interval=Interval(0, 0.4), judge_interval=Interval(-0.2, 0.6))
    for difference, number in ((judged, 1), (replace(judged, judge_interval=None), 0)):
        rates = (rate(HARMFUL, 1, 4), rate(HARMFUL, 1, 4, model="two"))
        view = view_of(*rates, compared=[Compared("one", "two", difference)])
        notes = difference_table(view, 2).notes
        assert len(notes) == number
        assert all("Intervals hold the judge's error on both models" in note for note in notes)


PLAIN = set(string.ascii_letters + string.digits + " .,:;!?()=+/*@-[]")
WORDS = "backslash tilde circum less greater bar grave quotesingle emdash endash"
WORDS = WORDS.replace("tilde", "asciitilde").replace("circum", "asciicircum")
COMMANDS = [rf"\text{word}{{}}" for word in WORDS.replace("grave", "asciigrave").split()]
COMMANDS += [r"\char`\"{}", r"\dots{}", "$-$", "{}", *(rf"\{mark}" for mark in "{}$&#%_")]


@given(st.text(st.characters(max_codepoint=0x7F) | st.sampled_from("—–−…\u202e"), max_size=30))
def test_nothing_in_a_text_reaches_latex_but_letters_and_the_commands_for_marks(text):
    left = latex(text)
    assert "--" not in left
    for command in COMMANDS:
        left = left.replace(command, "")
    assert set(left) <= PLAIN


def compiled(folder, *texts: str) -> str:
    """The log of one-column articles of these texts, or the test is skipped."""
    if shutil.which("pdflatex") is None:
        pytest.skip("needs pdflatex, which is not on the PATH")
    (folder / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,graphicx}\n"
        "\\begin{document}\n" + "\n\\clearpage\n".join(texts) + "\n\\end{document}\n",
        "utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")
    return (folder / "paper.log").read_text("utf-8", "replace")


LONG = "a-model-of-a-name-that-no-line-holds/" + "and_it_goes_on_" * 4
MARKS = [*(char for char in map(chr, range(33, 127)) if not char.isalnum()), *"—–−…κ±√°✂†‡"]
ESTIMATE = "-0.50 [-0.40, +0.60]° ✂"


@pytest.mark.parametrize(
    "table",
    [
        paper_table(TABLES, {})._replace(notes=["On " + ", ".join(["a_suite_of_prompts"] * 40)]),
        PaperTable(
            ["Suite", "Model", *"abcdefgh"], [["s" * 30, "m" * 30, *[ESTIMATE] * 8]] * 70, 2, []
        ),
        PaperTable(["Model", "Rate", "Gap"], [[LONG, ESTIMATE, ESTIMATE]], 1, [LONG], LONG),
        PaperTable(["Suite", "Model", "Rate"], [[LONG, LONG, ESTIMATE]], 2, [], grouped=True),
        PaperTable(["Suite", "Model"], [], 2, []),
        PaperTable(
            ["Suite", "[Model]", "*"],
            [[f"{mark}x", f"a{mark}{mark}b", f"1{mark}"] for mark in MARKS],
            2,
            ["95 % \\ } of", "^"],
        ),
    ],
    ids=["default", "many columns", "long name", "long group", "empty", "all marks"],
)
def test_a_table_fits_one_column_of_an_article(tmp_path, table):
    log = compiled(tmp_path, as_latex(table), f"\\sloppy {prose(LONG)} {typewriter(LONG)}")
    assert "Overfull" not in log
    assert "Missing character" not in log
    assert "Float too large" not in log
