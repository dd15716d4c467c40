"""The reference pages name exactly what the code knows."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from ruamel.yaml import YAML

from refract.inference import response_row
from refract.judges import classifier, similarity
from refract.judges.kinds import KINDS
from refract.models import anthropic, hf, http, openai, recorded, synthetic
from refract.models.protocol import Answer
from refract.params import SUITE_KEYS, load_params
from refract.perturbations import prompt_rows
from refract.perturbations.kinds import DEFAULT_REPEATS, OPTIONS
from refract.perturbations.noise import DEFAULT_RATES
from refract.rates.rates import MEASURES, PAIR_MEASURE, SHARES
from refract.report.scaling import FACTS
from refract.rows.columns import FAILURE_COLUMNS, OUTCOME_COLUMNS, TABLE_COLUMNS
from refract.rows.labels import EXCLUDED, JUDGED
from refract.rows.suites import CATEGORIES, STRING_FLAGS
from refract.rows.tables import read_table
from tests.pipeline import ROOT


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of the tables of a page in docs/, by the heading above them."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| ") and not line.startswith("|---"):
            found.setdefault(heading, []).append([x.strip() for x in line.strip("|").split(" | ")])
    return found


def names(rows: list[list[str]], column: int = 0) -> set[str]:
    """What stands in backticks in a column."""
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[column])}


def defaults(rows: list[list[str]]) -> dict[str, Any]:
    """The defaults of a table whose second column is one, as YAML; without those told in words."""
    yaml = YAML(typ="safe", pure=True)
    return {
        name: yaml.load(row[1]) for row in rows if len(row) > 2 for name in names([row]) if row[1]
    }


PARAMS = tables("params.md")


def test_params_has_every_section_and_every_key_of_a_suite():
    assert names(PARAMS["Reference: params.yaml"]) >= set(load_params(ROOT / "params.yaml"))
    assert names(PARAMS["suites"]) == set(SUITE_KEYS)


@pytest.mark.parametrize("kind", KINDS)
def test_params_has_every_setting_of_a_judge(kind):
    headings = re.findall(r"^### (.*)$", text_of("params.md"), re.M)
    (heading,) = (heading for heading in headings if kind in heading.split(", "))
    assert names(PARAMS.get(heading, [])) == set(KINDS[kind].settings)


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def test_params_has_every_kind_of_perturbation_with_its_settings_and_rates():
    rows = {name: row for row in PARAMS["perturbations"][1:] for name in names([row])}
    assert set(rows) == set(OPTIONS)
    for kind, row in rows.items():
        named = set(re.findall(r"`(\w+)` ?(?=\(|,|$|or)", row[2]))
        assert named == set(OPTIONS[kind]), kind
        if kind in DEFAULT_RATES:
            assert f"`rate` ({DEFAULT_RATES[kind]}" in row[2]
    assert f"`repeats` ({DEFAULT_REPEATS})" in rows["repeat"][2]


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("hf", hf._DEFAULTS),
        ("openai, anthropic", http.SETTINGS),
        ("recorded", recorded.DEFAULTS),
        ("synthetic", synthetic.DEFAULTS),
    ],
)
def test_params_has_every_key_of_an_adapter_with_its_default(heading, known):
    rows = PARAMS[heading]
    told = {"base_url", "api_key_env", "model_id", "path"}
    if heading == "openai, anthropic":
        alone = [row for row in rows if names([row]) & set(openai.OpenAI.DEFAULTS)]
        rows = [row for row in rows if row not in alone or names([row]) & told]
        own = {key: x for key, x in openai.OpenAI.DEFAULTS.items() if key not in told}
        assert {key: x for key, x in defaults(alone).items() if key not in told} == own
        assert set(anthropic.Anthropic.DEFAULTS) <= told
    assert names(rows) == set(known)
    shown = {key: value for key, value in defaults(rows[1:]).items() if key not in told}
    assert shown == {key: value for key, value in known.items() if key not in told}


def test_params_has_the_defaults_of_the_similarity_judge_and_the_classifier():
    shown = defaults(PARAMS["similarity"][1:])
    for key, value in similarity.DEFAULTS.items():
        assert key == "baseline" or shown[key] == value
    row = next(row for row in PARAMS["classifier"] if "`model`" in row[0])
    assert set(classifier.DEFAULTS) <= names([row], 2)


def test_params_has_every_fact():
    assert names(PARAMS["facts"]) == set(FACTS)


ROWS = tables("rows.md")


def test_rows_has_every_field_that_stages_write():
    source = {"id": "a", "category": "harmful", "prompt": "x"}
    (prompt,) = prompt_rows([source], "s", 0)
    assert names(ROWS["Prompt"]) == set(prompt)
    assert names(ROWS["Response"]) == set(response_row("a", "key", Answer("x")))
    assert names(ROWS["Outcome"][1:]) == set(OUTCOME_COLUMNS)
    assert names(ROWS["Failure"][1:]) == set(FAILURE_COLUMNS)
    told = " ".join(row[1] for row in ROWS["Outcome"])
    assert set(re.findall(r"`(\w+)`", told)) == {*JUDGED, *EXCLUDED}


def test_rows_has_every_field_of_a_suite_that_the_project_reads():
    known = {*STRING_FLAGS, "id", "category", "prompt", "messages", "features", "pair_id"}
    known |= {"expected_strings", "task_strings", "requirement"}
    assert names(ROWS["Suite"][1:]) == known
    assert all(f"`{category}`" in text_of("rows.md") for category in CATEGORIES)


def test_the_verdict_shown_has_the_fields_that_are_explained():
    block = re.search(r'^\{"judges".*$', text_of("rows.md"), re.M)
    assert block
    shown = json.loads(block[0])["judges"]["rules"]
    assert names(ROWS["Verdict"][1:]) == set(shown)


METRICS = tables("metrics.md")


def test_metrics_has_every_column_of_the_tables_and_of_the_judges():
    assert names(METRICS["Columns of the tables"][1:]) == set(TABLE_COLUMNS)
    judges = json.loads((ROOT / "metrics/judges.json").read_text("utf-8"))
    known = {key.removesuffix("_low").removesuffix("_high") for key in judges["rules"]}
    shown = names(METRICS["Judges"][1:]) - {"_low", "_high"}
    assert {key.removesuffix("_low").removesuffix("_high") for key in shown} == known
    header = (ROOT / "metrics/judges.csv").read_text("utf-8").splitlines()[0].split(",")
    tail = text_of("metrics.md").split("`metrics/judges.csv` has")[1].split("##")[0]
    assert re.findall(r"`(\w+)`", tail) == header


def test_metrics_has_every_measure_of_the_code_and_of_the_results_in_git():
    text = text_of("metrics.md")
    named = {name for rows in METRICS.values() for name in names(rows)}
    named |= set(re.findall(r"`(\w+)`", text))
    fixed = {name for name, *_ in (*MEASURES, *SHARES)} | {PAIR_MEASURE}
    assert fixed <= named
    ends = [name.removeprefix("NAME") for name in named if name.startswith("NAME_")]
    perturbations = load_params(ROOT / "params.yaml")["perturbations"]
    for path in sorted((ROOT / "metrics/tables").glob("*.csv")):
        for measure in {row["measure"] for row in read_table(path)}:
            of = next((name for name in perturbations if measure.startswith(name)), None)
            assert measure in named or (of and measure.removeprefix(of) in ends), measure
        numbers = json.loads((ROOT / f"metrics/{path.stem}.json").read_text("utf-8"))
        assert {"n", "excluded", "passed"} <= named
        assert all(isinstance(x, int | float) for found in numbers.values() for x in found.values())


def test_the_citation_is_of_this_version():
    citation = YAML(typ="safe", pure=True).load(ROOT / "CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (str(citation["version"]), citation["license"]) == (
        project["version"],
        project["license"],
    )
