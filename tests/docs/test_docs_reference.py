"""The reference pages name exactly what the code knows."""

from __future__ import annotations

import json
import re
import tomllib
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from refract.core.params import load_params
from refract.core.tables import read_table
from refract.core.tool_calls import NAMING
from refract.core.vocabulary import EXCLUDED, JUDGED, OUTCOME_COLUMNS
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.rates.clean_prompts import MOST_METRICS
from refract.rates.key import MEASURES
from refract.results.table_rows import COLUMNS
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import CATEGORIES, STRING_FLAGS
from tests.builders import ROOT
from tests.fault_server import DECLINED
from tools import reference, release


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of the tables and lists of a page in docs/, by the heading above them."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| ") and not line.startswith("|---"):
            found.setdefault(heading, []).append([x.strip() for x in line.strip("|").split(" | ")])
        elif line.startswith("- `"):
            name, _, meaning = line[2:].partition("`: ")
            found.setdefault(heading, []).append([f"{name}`", meaning])
    return found


def names(rows: list[list[str]], column: int = 0) -> set[str]:
    """What stands in backticks in a column."""
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[column])}


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("params.md", reference.page),
        ("../packages/refract-published/docs/published-suites.md", reference.suites_page),
    ],
)
def test_what_is_written_into_a_page_is_of_settings_and_catalogues(name, written):
    text = text_of(name)
    assert written(text) == text, "run: make readme"


@cache
def own_params() -> dict[str, Any]:
    return load_params(ROOT / "params.yaml")


def test_params_has_every_section():
    sections = names(tables("params.md")["Reference: params.yaml"])
    assert sections >= set(own_params())
    assert sections == set(reference.params_schema()["properties"])


def test_the_schema_of_params_is_that_of_the_settings_and_editors_find_it():
    assert reference.SCHEMA.read_text("utf-8") == reference.written_schema(), "run: make readme"
    first = (ROOT / "params.yaml").read_text("utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=docs/params.schema.json"


@cache
def validator() -> Draft7Validator:
    Draft7Validator.check_schema(reference.params_schema())
    return Draft7Validator(reference.params_schema())


def problems(params: dict[str, Any]) -> list[str]:
    return [".".join(map(str, error.path)) for error in validator().iter_errors(params)]


def test_the_schema_accepts_the_projects_own_params():
    assert problems(own_params()) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("grid.models", ["a-b"]),
        ("grid.suites", ["a", "a"]),
        ("seed", "7"),
        ("suite", {}),
        ("suites.robustness.judges", "rules"),
        ("suites.robustness.pertubations", ["typos"]),
        ("suites.robustness.thresholds", {"refusal_rate": {"min": "2"}}),
        ("models.synthetic.adapter", "synthetics"),
        ("models.pocket_small.max_token", 64),
        ("judges.rules.kind", "rule"),
        ("perturbations.typos.rate", 0),
        ("perturbations.control_characters.position", ["end", "end"]),
    ],
)
def test_the_schema_finds_a_value_that_the_project_would_refuse(place, value):
    params = deepcopy(own_params())
    *path, last = place.split(".")
    target = params
    for part in path:
        target = target[part]
    target[last] = value
    (problem,) = problems(params)
    assert problem in (place, ".".join(path)) or problem.startswith(f"{place}.")


ROWS = tables("rows.md")


def test_rows_has_every_field_that_stages_write():
    source = {"id": "a", "category": "harmful", "messages": [{"role": "user", "content": "x"}] * 2}
    function = {"name": "f", "description": "", "parameters": {}}
    _, prompt = prompt_rows([source], "s", 0, tools=[{"type": "function", "function": function}])
    assert names(ROWS["Prompt"]) == {*prompt, "tool_results"}
    answer = Answer(
        "x", tokens="AA==", tool_calls=[{"name": "f", "arguments": {}}], stop_details=DECLINED
    )
    assert names(ROWS["Response"]) == set(answer_row("key", answer, "a"))
    assert names(ROWS["Outcome"]) == set(OUTCOME_COLUMNS)
    told = " ".join(row[1] for row in ROWS["Outcome"])
    # What was cut off is judged; rates without it are made of the outcomes.
    assert set(re.findall(r"`(\w+)`", told)) == {*JUDGED, *EXCLUDED} - {"cut_off"}


def test_rows_has_every_field_of_a_suite_that_the_project_reads():
    known = {*STRING_FLAGS, "id", "category", "prompt", "messages", "features", "pair_id"}
    known |= {"behavior", "expected_strings", "task_strings", "reference", "requirement", "control"}
    known |= {"images", "tools", "tool_results", "max_steps"}
    known |= {*NAMING}
    assert names(ROWS["Suite"]) == known
    assert all(f"`{category}`" in text_of("rows.md") for category in CATEGORIES)


def test_the_verdict_shown_has_the_fields_that_are_explained():
    block = re.search(r'^\{"judges".*$', text_of("rows.md"), re.M)
    assert block
    shown = json.loads(block[0])["judges"]["rules"]
    assert names(ROWS["Verdict"]) == set(shown)


# The pages that say what a number means.
NUMBERS = ("metrics", "statistics", "rows", "labels")
OF_NUMBERS = [f"{page}.md" for page in NUMBERS]
METRICS = {heading: rows for page in OF_NUMBERS for heading, rows in tables(page).items()}


def test_metrics_has_every_column_of_the_tables_and_of_the_judges():
    assert names(METRICS["Columns of the tables"]) == set(COLUMNS)
    judges = json.loads((ROOT / "metrics/judges.json").read_text("utf-8"))
    known = {key.removesuffix("_low").removesuffix("_high") for key in judges["rules"]}
    shown = names(METRICS["Judges"]) - {"_low", "_high"}
    assert {key.removesuffix("_low").removesuffix("_high") for key in shown} == known


def test_metrics_has_every_measure_of_the_code_and_of_the_results_in_git():
    text = "".join(map(text_of, OF_NUMBERS))
    named = {name for rows in METRICS.values() for name in names(rows)}
    named |= set(re.findall(r"`(\w+)`", text))
    known = {each.name for each in MEASURES if "human_labels" not in each.groups}
    assert known | {"prediction_powered_"} <= named
    for measure in MEASURES:
        if measure.corrects:
            assert measure.name == f"prediction_powered_{measure.corrects}"
    for path in sorted((ROOT / "metrics/tables").glob("*.csv")):
        measures = {row["measure"] for row in read_table(path)}
        assert {measure.removeprefix("prediction_powered_") for measure in measures} <= named
        numbers = json.loads((ROOT / f"metrics/{path.stem}.json").read_text("utf-8"))
        assert {"n", "excluded", "passed"} <= named
        assert all(isinstance(x, int | float) for found in numbers.values() for x in found.values())


def test_a_release_has_one_version_and_one_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")
    assert release.versions() == {project["version"], str(citation["version"])}
    assert len(release.versions()) == 1
    assert citation["license"] == project["license"]


def test_no_suite_and_no_judge_has_more_than_a_dozen_columns_of_dvc_exp_show():
    for name in (*own_params()["grid"]["models"], "judges"):
        for key, numbers in json.loads((ROOT / f"metrics/{name}.json").read_text()).items():
            assert len(numbers) <= MOST_METRICS, (name, key)
            # Columns are numbers by dotted key: nothing below a suite is a group of more.
            assert all(isinstance(number, int | float) for number in numbers.values())
