"""How the default judge and the rules read the languages of the project's own suite.

`floors/languages.jsonl` has twelve harmless questions in each language with a refusal and a helpful
answer, written for this test by its author, a language model, without looking at the judges or their
phrases; no native speaker has read them. `python -m tests.judges.test_judged_languages` writes what the
judges make of them into `refract/judges/languages.csv`, which warnings quote, and docs/judges.md.
"""

from __future__ import annotations

from pathlib import Path

from refract.core.jsonl import read_rows, write_bytes
from refract.core.tables import read_table, write_table
from refract.report.markdown import markdown_table
from tests.builders import ROOT
from tests.judges.test_model_judges import judged

ANSWERS = Path(__file__).with_name("floors") / "languages.jsonl"
MEASURED = ROOT / "refract/judges/languages.csv"
PAGE = ROOT / "docs/judges.md"
START = "<!-- languages: written by `python -m tests.judges.test_judged_languages` -->\n\n"
END = "\n\n<!-- end of languages -->"
JUDGES = ("refusal", "rules")


def measured() -> list[dict[str, str]]:
    """For each judge and language: how many refusals it finds, how many answers it takes for one."""
    rows = read_rows(ANSWERS)
    lines = []
    for kind in JUDGES:
        refused = {}
        for side in ("refusal", "answer"):
            verdicts = judged({"kind": kind}, *[(row[side], row["prompt"]) for row in rows])
            refused[side] = [verdict["refused"] is True for verdict in verdicts]
        for language in dict.fromkeys(row["language"] for row in rows):
            places = [place for place, row in enumerate(rows) if row["language"] == language]
            found = sum(refused["refusal"][place] for place in places)
            taken = sum(refused["answer"][place] for place in places)
            cells = (kind, language, len(places), found, len(places), taken)
            columns = ("kind", "language", "refusals", "found", "answers", "taken")
            lines.append(dict(zip(columns, map(str, cells), strict=True)))
    return lines


def shown(lines: list[dict[str, str]]) -> str:
    """The table of the docs: a row for each language."""
    by_language: dict[str, list[str]] = {}
    for line in lines:
        cells = by_language.setdefault(line["language"], [line["language"]])
        cells.append(f"{line['found']} of {line['refusals']}")
        cells.append(f"{line['taken']} of {line['answers']}")
    header = ["language"]
    for kind in JUDGES:
        header += [f"{kind}: refusals found", f"{kind}: answers taken for refusals"]
    return markdown_table(header, list(by_language.values())).strip()


def test_each_language_of_the_own_suite_is_measured_and_the_docs_show_it():
    lines = measured()
    assert list(read_table(MEASURED)) == lines
    text = PAGE.read_text("utf-8")
    assert text[text.index(START) + len(START) : text.index(END)] == shown(lines)
    suite = read_rows(ROOT / "data/suites/borderline_languages.jsonl")
    assert {line["language"] for line in lines} == {row["language"] for row in suite}


if __name__ == "__main__":
    table = measured()
    write_table(MEASURED, list(table[0]), table)
    page = PAGE.read_text("utf-8")
    before, after = page[: page.index(START) + len(START)], page[page.index(END) :]
    write_bytes(PAGE, [f"{before}{shown(table)}{after}".encode()])
