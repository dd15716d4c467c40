"""One grid has one set of numbers, whichever way it is computed: every field of every rate."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from jsonschema import validate

import refract
from refract.core.decimals import estimate_text
from refract.core.params import DecisionSettings, decision_settings
from refract.core.tables import read_table
from refract.evaluate import Suite, evaluate, read_suites
from refract.models import open_model
from refract.models.store import ResponseStore, open_store
from refract.project import read_project
from refract.rates.key import HARMFUL_REFUSAL, NULL_DIFFERENCE, REFUSAL
from refract.rates.rate import Rate
from refract.results.table_rows import rate_from_row, rate_to_row, rates_from_rows
from tests.builders import ROOT, Project

SCHEMA = json.loads((ROOT / "refract/results/provenance.schema.json").read_text("utf-8"))
MODEL = {"adapter": "synthetic", "refusal_rate": {"harmful": 0.7, "helpful": 0.2}}
JUDGES = {"refusal": {"kind": "refusal"}, "second": {"kind": "rules"}}
SUITE = {
    "sample": 14,
    "stratified": True,
    "samples": 2,
    "fields": ["style"],
    "cluster": "topic",
    "thresholds": {
        "harmful_refusal_rate": {"min": 0.5},
        "second_over_refusal_rate": {"max": 0.4},
        "any_compliance_rate": {"max": 0.9},
    },
}
DECISIONS = {
    "other": {"confidence": 0.8, "interval": "prompts"},
    "default": {},
}


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{category}-{number}",
            "prompt": f"{category}: question {number}",
            "category": category,
            "style": "plain" if number % 2 else "play",
            "topic": f"topic {number % 5}",
        }
        for category in ("harmful", "helpful")
        for number in range(10)
    ]


@pytest.fixture(scope="module", params=DECISIONS)
def project(request, tmp_path_factory) -> Project:
    """The grid, as its stages compute it: a suite with settings of its own."""
    project = Project.create(
        tmp_path_factory.mktemp("doors") / "project",
        {"m": {**MODEL, "temperature": 1, "seed": 5}},
        {"s": rows()},
        report=False,
    )
    params = project.params()
    params["judges"] = JUDGES
    params["suites"]["s"] |= {**SUITE, "judges": [*JUDGES]}
    params["decisions"] |= DECISIONS[request.param]
    project.set_params(params)
    project.compute()
    return project


def settings_of(project: Project) -> DecisionSettings:
    return decision_settings(project.folder)


def by_stages(project: Project, model: str, suite: str) -> list[Rate]:
    table = read_table(project.folder / f"metrics/tables/{model}.csv")
    return [rate for rate in rates_from_rows(table, model) if rate.suite == suite]


def as_read(rates: list[Rate]) -> list[Rate]:
    """Rates as files hold them: with 12 digits."""
    return [rate_from_row(rate_to_row(rate), rate.model) for rate in rates]


def records(frame) -> list[dict[str, Any]]:
    """The cells of a table that hold something, row by row."""
    kept = []
    for row in frame.to_dict("records"):
        kept.append({name: cell for name, cell in row.items() if cell == cell and cell != ""})
    return [{name: cell for name, cell in row.items() if cell is not None} for row in kept]


def test_the_stages_and_evaluate_give_the_same_rates(project):
    own = read_project(project.folder)
    seed = own.params["seed"]
    with contextlib.chdir(project.folder), open_store() as store:
        evaluation = evaluate(
            read_suites(["s"], own),
            open_model("m", own.params["models"]["m"]),
            JUDGES,
            store,
            name="m",
            definition=own.params["models"]["m"],
            seed=seed,
            sample=SUITE["sample"],
            settings=settings_of(project),
        )
    expected = by_stages(project, "m", "s")
    assert as_read(evaluation.rates) == expected
    headline = next(rate for rate in expected if rate.measure == REFUSAL)
    draw = headline.key.draw
    assert (draw.asked, draw.total, draw.seed, draw.samples) == (14, 20, seed, 2)
    assert (headline.counts.n, headline.clustered_by) == (28, "topic")
    assert {rate.key.judge for rate in expected} == {"", "second"}
    assert any(rate.measure == NULL_DIFFERENCE for rate in expected)
    assert {rate.name for rate in expected if rate.decision} == SUITE["thresholds"].keys()
    allows_for_judge = settings_of(project).interval == "prompts_and_judge"
    assert any(rate.with_judge for rate in expected) == allows_for_judge
    written = json.loads((project.folder / "metrics/m.json").read_text("utf-8"))
    assert evaluation.results()["metrics"]["s"] == written["s"]
    facts = json.loads((project.folder / "metrics/provenance/m.json").read_text("utf-8"))
    for provenance in (evaluation.provenance, facts):
        validate(provenance, SCHEMA)
    assert evaluation.provenance.keys() - {"run"} == facts.keys() - {"files"}
    assert evaluation.provenance["decisions"] == facts["decisions"]
    assert evaluation.provenance["judges"] == facts["judges"]
    of_run, of_stages = evaluation.provenance["suites"]["s"], facts["suites"]["s"]
    # The run names the file by its whole path, and draws by an option.
    assert of_run["argument"] == "s"
    same = of_stages.keys() - {"definition", "labels_sha256"}
    assert {name: of_run[name] for name in same} == {name: of_stages[name] for name in same}


def test_python_gives_the_same_rates(project):
    own = read_project(project.folder)
    with contextlib.chdir(project.folder):
        results = refract.measure(
            "m", "s", ["refusal", "second"], limit=SUITE["sample"], seed=own.params["seed"]
        )
        expected = refract.load_results(project.folder, ["m"])
    mine = expected.tables[expected.tables["suite"] == "s"]
    assert records(results.tables) == records(mine)
    metrics = expected.metrics[expected.metrics["suite"] == "s"]
    assert records(results.metrics) == records(metrics)


def test_refract_run_gives_the_same_rates(project, tmp_path):
    own = read_project(project.folder)
    done = project.refract(
        *("run", "--model", "m", "--suite", "s", "--judge", "refusal", "--judge", "second"),
        *("--limit", SUITE["sample"], "--seed", own.params["seed"], "--out", tmp_path / "r.json"),
    )
    assert done.exit_code == 0, (done.output, done.exception)
    tables = json.loads((tmp_path / "r.json").read_text("utf-8"))["tables"]
    assert rates_from_rows(tables, "m") == by_stages(project, "m", "s")
    # What people read has the same confidence and ends.
    show = project.refract("show")
    assert show.exit_code == 0, (show.output, show.exception)
    settings = settings_of(project)
    percent = f"{settings.confidence:.0%}".replace("%", " %")
    for text in (done.stdout, show.stdout):
        assert percent in text
    headline = next(
        rate for rate in by_stages(project, "m", "s") if rate.measure == HARMFUL_REFUSAL
    )
    ends = estimate_text(headline.value, headline.shown, places=2)
    assert ends in " ".join(done.stdout.split())
    assert ends in " ".join(show.stdout.split())


def test_a_run_leaves_out_thresholds_that_its_judges_and_its_sample_have_no_number_for():
    limits = {
        "injection_success_rate": {"max": 0.5},
        "attack_success_rate": {"max": 0.5},
        "typos_fail_rate": {"max": 0.5},
        "refusal_rate": {"max": 1},
    }
    suite = Suite("s", rows(), {"thresholds": limits})
    model = open_model("m", MODEL)
    found = evaluate([suite], model, {"second": JUDGES["second"]}, ResponseStore(None), name="m")
    assert [rate.name for rate in found.rates if rate.decision] == ["refusal_rate"]
