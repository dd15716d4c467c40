"""How the default judge and the rules read answers in other languages than English.

`floors/languages_apart.jsonl` has 20 or 24 refusals and as many helpful answers in each of nine
languages: short and apologising refusals, refusals with advice, of rules, of parts; help with words of
refusal, quoted refusals, letters that decline, sympathy. They were written before the phrases of the
rules, which were written without reading what is missed of them. `floors/languages.jsonl` has twelve
pairs in each language of the project's own suite, which were at hand. One language model wrote both, and
the phrases; no native speaker has read them. `python -m tests.judges.test_judged_languages` writes what
the judges make of them into `languages.csv` beside this file, and docs/judges.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from refract.core.jsonl import read_rows, write_bytes
from refract.core.tables import read_table, write_table
from refract.judges.rules.grammar import languages_of
from refract.judges.rules.text import plain
from refract.report.markdown import markdown_table
from refract.statistics.proportions import wilson
from tests.builders import ROOT
from tests.judge_models import judged

FLOORS = Path(__file__).with_name("floors")
MEASURED = Path(__file__).with_name("languages.csv")
PAGE = ROOT / "docs/judges.md"
START = "<!-- languages: written by `python -m tests.judges.test_judged_languages` -->\n\n"
END = "\n\n<!-- end of languages -->"
COLUMNS = ("kind", "set", "language", "refusals", "found", "answers", "taken")


def written_answers() -> dict[str, list[dict]]:
    """The rows of each set: language, prompt, response, and whether that refuses."""
    at_hand = []
    for row in read_rows(FLOORS / "languages.jsonl"):
        for column in ("refusal", "answer"):
            response = {"response": row[column], "refuses": column == "refusal"}
            at_hand.append({"language": row["language"], "prompt": row["prompt"], **response})
    return {"apart": list(read_rows(FLOORS / "languages_apart.jsonl")), "at hand": at_hand}


def measured() -> list[dict[str, str]]:
    """For each judge, set and language: refusals found, helpful answers taken for one."""
    lines = []
    for kind in ("refusal", "rules"):
        for name, rows in written_answers().items():
            verdicts = judged({"kind": kind}, *[(row["response"], row["prompt"]) for row in rows])
            for language in dict.fromkeys(row["language"] for row in rows):
                counts = {True: [0, 0], False: [0, 0]}
                for row, verdict in zip(rows, verdicts, strict=True):
                    if row["language"] == language:
                        counts[row["refuses"]][0] += 1
                        counts[row["refuses"]][1] += verdict["refused"] is True
                cells = (kind, name, language, *counts[True], *counts[False])
                lines.append(dict(zip(COLUMNS, map(str, cells), strict=True)))
    return lines


def shown(lines: list[dict[str, str]]) -> str:
    """The table of the docs: what the default judge makes of the answers written apart, by language."""
    rows = []
    for line in lines:
        if (line["kind"], line["set"]) == ("refusal", "apart"):
            cells = [line["language"]]
            for part, whole in (("found", "refusals"), ("taken", "answers")):
                count, total = int(line[part]), int(line[whole])
                low, high = wilson(count, total)
                cells.append(f"{count} of {total} [{low:.2f}, {high:.2f}]")
            rows.append(cells)
    header = ["language", "refusals found", "helpful answers taken for one"]
    return markdown_table(header, rows).strip()


@pytest.mark.usefixtures("refusals_alone")
def test_each_language_of_the_own_suite_is_measured_and_the_docs_show_it():
    lines = measured()
    assert list(read_table(MEASURED)) == lines
    text = PAGE.read_text("utf-8")
    assert text[text.index(START) + len(START) : text.index(END)] == shown(lines)
    suite = read_rows(ROOT / "data/suites/borderline_languages.jsonl")
    at_hand = {line["language"] for line in lines if line["set"] == "at hand"}
    assert at_hand == {row["language"] for row in suite}


def test_written_answers_are_known_to_be_in_their_language():
    wrong = []
    for row in (*written_answers()["apart"], *written_answers()["at hand"]):
        languages = [phrases.language for phrases in languages_of(plain(row["response"]))]
        known = not languages if row["language"] == "en" else row["language"] in languages
        if not known:
            wrong.append(row["response"])
    assert wrong == ["Canberra.", "Camberra."]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        # A Chinese character says as much as two letters; another script tells by most letters.
        ("abcde 我我我", ["zh"]),
        ("abcdef 我我我", []),
        ("abc даю", []),
        ("abc дают", ["ru", "uk"]),
        # Kana are a sixth of a text in Japanese, and in Chinese they are strays.
        ("の我我我我我", ["ja"]),
        ("の我我我我我我", ["zh"]),
        # Each word counts once, and English must have fewer.
        ("wir wir wir and not", []),
        ("wir müssen nicht and not", []),
        ("wir dürfen nicht oder kein and not", ["de"]),
        # Half of the likeliest's words are enough to be tried.
        ("não posso dizer isso quando puedo quiero", ["pt", "es"]),
        ("não posso dizer isso quando você puedo", ["pt"]),
        # The first 400 characters decide.
        ("and not " + "x" * 391 + " wir dürfen nicht oder kein", []),
        ("and not " + "x" * 370 + " wir dürfen nicht", []),
        ("wir nicht oder " + "x" * 400 + " and not the of", ["de"]),
    ],
)
def test_a_language_is_known_by_its_script_or_by_its_frequent_words(text, codes):
    assert [phrases.language for phrases in languages_of(text)] == codes


def test_the_encoder_has_no_say_in_another_language():
    helpful = "Canberra ist die Hauptstadt, nicht Sydney."
    answer, refusal = judged({"kind": "refusal"}, helpful, "Dabei kann ich dir nicht helfen.")
    assert (answer["label"], answer["score"]) == ("compliance", 0.0)
    assert answer["probabilities"] == {"refusal": 0.0, "partial_refusal": 0.0, "compliance": 1.0}
    assert (refusal["label"], refusal["score"]) == ("refusal", 1.0)
    assert [hit["rule"] for hit in refusal["evidence"]] == ["cannot_help_de"]


if __name__ == "__main__":
    table = measured()
    write_table(MEASURED, list(table[0]), table)
    page = PAGE.read_text("utf-8")
    before, after = page[: page.index(START) + len(START)], page[page.index(END) :]
    write_bytes(PAGE, [f"{before}{shown(table)}{after}".encode()])
