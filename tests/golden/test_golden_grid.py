"""Every number of a small grid is what it was; tests.golden says how the files are rewritten."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from refract.core.jsonl import write_json
from refract.results.recounted import recount_problems
from refract.results.sources import read_tree
from tests.golden.grid import FOLDER, REPORT, TABLES, computed, report_of, texts_in

KEPT, PAGES = texts_in(FOLDER, TABLES), texts_in(FOLDER, (*REPORT, "printed/*", "figures/*"))


def compute(folder: Path) -> None:
    """The grid, and the texts of its report, in a folder."""
    project = computed(folder / "project")
    tables = texts_in(project.folder / "metrics", TABLES)
    write_json(folder / "texts.json", [tables, report_of(project)])


@pytest.fixture(scope="module")
def made(shared) -> Path:
    return shared("golden", compute)


@pytest.fixture(scope="module")
def tables(made) -> dict[str, str]:
    return json.loads((made / "texts.json").read_text("utf-8"))[0]


@pytest.fixture(scope="module")
def pages(made) -> dict[str, str]:
    return json.loads((made / "texts.json").read_text("utf-8"))[1]


def test_the_grid_has_the_tables_that_are_kept(tables):
    assert KEPT
    assert tables.keys() == KEPT.keys()


def cells(text: str) -> list[list[object]]:
    """The cells of a table, numbers with the nine digits that other libraries compute alike too."""
    return [[_cell(cell) for cell in row] for row in csv.reader(text.splitlines())]


def _cell(text: str) -> object:
    if "." not in text:
        return text
    try:
        return f"{float(text):.9g}"
    except ValueError:
        return text


@pytest.mark.parametrize("name", KEPT)
def test_a_table_of_the_grid_is_as_it_was(tables, name):
    assert cells(tables[name]) == cells(KEPT[name])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_grids_report_is_as_it_was(pages, name):
    assert pages.keys() == PAGES.keys()
    if name.startswith("figures/"):
        assert words(pages[name]) == [pytest.approx(word, abs=0.11) for word in words(PAGES[name])]
    else:
        assert pages[name].splitlines() == PAGES[name].splitlines()


def words(text: str) -> list[object]:
    """The words of a text, those that are numbers as numbers."""
    return [float(word) if re.fullmatch(r"-?\d+\.\d", word) else word for word in text.split()]


@pytest.mark.parametrize("model", ["greedy", "sampling"])
def test_the_outcomes_of_the_grid_add_up_to_its_rates_and_decisions(made, model):
    result = read_tree(made / "project")[model]
    assert recount_problems(result.rates, result.outcomes, result.provenance) == []
