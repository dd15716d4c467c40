"""Every number of a small grid is what it was; tests.golden says how the files are rewritten."""

from __future__ import annotations

import csv

import pytest

from tests.golden.grid import FOLDER, computed, tables_of

KEPT = tables_of(FOLDER)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, str]:
    project = computed(tmp_path_factory.mktemp("golden") / "project")
    return tables_of(project.folder / "metrics")


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
