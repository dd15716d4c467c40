"""An installed package adds adapters, judges, perturbations, measures, pages, exporters and
commands."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, write_rows
from refract.core.registry import find
from refract.evaluate import Suite, evaluate
from refract.export import EXPORTERS
from refract.models import ADAPTERS, open_model
from refract.models.store import ResponseStore
from refract.project import check_definitions
from refract.rates.key import INSTALLED, MEASURES, installed_measures, measure_called
from refract.results.table_rows import rate_from_row, rate_to_row
from refract.statistics.clusters import clustered_mean
from tests.builders import ROOT, SMALL_PARAMS, rate, suite_rows
from tests.documents import blocks
from tests.report.views import pages_for

# The adapter, the judge and the perturbation that the docs show.
SHOWN = {block.file: block.text for block in blocks(ROOT / "docs/extending.md")}
ADDED = re.findall(r"^\+(.*)", SHOWN["refract/suites/perturbations/noise.py"], re.M)
MODULE = "\n".join([SHOWN["refract/models/parrot.py"], SHOWN["refract/judges/length.py"]])
MODULE += """
import random

import typer

from refract.rates.counting import mean_rate
from refract.rates.key import Group, Key, Measure
from refract.suites.perturbations.noise import FeatureSettings, Noisy, in_each_feature
from refract.suites.perturbations.variants import Perturbation

"""
MODULE += "\n".join(ADDED)
MODULE += """
Parrot.adapter = "theirs.parrot"


class Refused(Length):
    FAMILY = "refusal"

    def judge(self, cases):
        return [labelled("refusal") for _ in cases]


WORDS = Measure("prompt_words", "none", "words asked", high=20.0, count="theirs:words")


def words(suite):
    # How long the prompts are, over all and by category.
    for category in (None, "harmful", "helpful"):
        rows = [row for row in suite.requested if category in (None, row["category"])]
        lengths = []
        for row in rows:
            for prompt_id in suite.ids(row["id"]):
                lengths.append(float(len(suite.prompts[prompt_id]["attempts"][0].split())))
        group = Group("category", category) if category else Group()
        yield mean_rate(Key(WORDS, group=group), lengths, suite.answers(rows), suite.confidence)


class Page:
    title = "How long answers are"

    def __init__(self, text):
        self.text = text

    def markdown(self, inputs):
        return self.text


lengths = Page("They are short.")
silent = Page("")
group = typer.Typer()


@group.command()
def first(name: str) -> None:
    print("the first")


@group.command()
def second() -> None:
    print("the second")
"""
POINTS = """
[refract.adapters]
echoes = theirs:Parrot
openai = theirs:Parrot
[refract.judges]
brevity = theirs:Length
[refract.perturbations]
louder = theirs:SHOUTED
[refract.measures]
prompt_words = theirs:WORDS
[refract.sections]
lengths = theirs:lengths
silent = theirs:silent
judges = theirs:lengths
[refract.exporters]
lines = theirs:lengths
[refract.commands]
numbers = theirs:group
lint = theirs:group
broken = theirs.nowhere:command
"""
SUITE = [
    {"id": f"line-{number}", "prompt": text, "category": "helpful"}
    for number, text in enumerate(["How are you?", "Hi there"])
]
PARAMS = """
grid: {models: [parrot], suites: [greetings]}
seed: 1
suites:
  greetings:
    file: data/suites/greetings.jsonl
    perturbations: [louder]
    judges: [rules, short]
judges:
  rules: {kind: rules}
  short: {kind: brevity, most: 3}
perturbations:
  louder: {kind: louder}
models:
  parrot: {adapter: echoes, prefix: "You said: "}
"""


@pytest.fixture
def installed(install, monkeypatch, tmp_path):
    install("theirs", POINTS, MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=":")


def test_the_parts_of_a_package_reach_a_number_through_the_pipeline(installed, cli):
    from stages.aggregate import main as aggregate
    from stages.check_inputs import main as check_inputs
    from stages.generate_perturbations import main as generate
    from stages.judge import main as judge
    from stages.model_inference import main as infer

    Path("params.yaml").write_text(PARAMS)
    write_rows(Path("data/suites/greetings.jsonl"), SUITE)
    check_inputs()
    generate()
    infer("parrot")
    judge("parrot")
    aggregate("parrot")
    answers = [row["response"] for row in read_rows(Path("data/responses/parrot/greetings.jsonl"))]
    said = ["You said: How are you?", "You said: How are you?!", "You said: Hi there"]
    assert answers == said
    found = json.loads(Path("metrics/parrot.json").read_text())
    assert found["greetings"]["short_fail_rate"] == 1.0


def test_the_parts_of_a_package_are_named_on_the_command_line(installed, cli):
    write_rows(Path("data/suites/lines.jsonl"), SUITE)
    done = cli(
        *("run", "--adapter", "theirs:Parrot", "--suite", "data/suites/lines.jsonl"),
        *("--judge", "theirs:Refused", "--out", "results.json"),
    )
    assert done.code == 0, done.err
    results = json.loads(Path("results.json").read_text())
    assert next(iter(results["metrics"].values()))["over_refusal_rate"] == 1.0


def test_no_package_takes_a_name_that_comes_with_refract(installed):
    assert find(ADAPTERS, "openai", "adapter").__module__ == "refract.models.openai"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("echos", "m: adapter must be one of .* echoes, .*or package.module:Name of an .*'echoes'"),
        (["echoes"], r"m: adapter must be one of .* \(got \['echoes'\]\)"),
        ("nowhere:Parrot", "m: adapter: nowhere:Parrot cannot be imported .ModuleNotFoundError"),
        ("theirs:Parot", "theirs:Parot cannot be imported .AttributeError"),
        ("theirs:shouted", "theirs:shouted has no 'Settings' and can be none of"),
    ],
)
def test_what_is_no_adapter_is_an_error_that_says_so(installed, name, message):
    with pytest.raises(ParamsError, match=message):
        find(ADAPTERS, name, "m: adapter")


# Measures


def rows():
    """Prompts of two to thirteen words."""
    found = []
    for number, row in enumerate(suite_rows("s")):
        found.append({**row, "prompt": " ".join(["word"] * (number + 2))})
    return found


def evaluated(suite_rows_, **definition):
    model = open_model("m", {"adapter": "synthetic", "refusal_rate": 0.5})
    suite = Suite("s", suite_rows_, definition)
    judges = {"rules": {"kind": "rules"}}
    return evaluate([suite], model, judges, ResponseStore(None), name="m")


def test_a_measure_of_a_package_is_counted_with_its_interval_and_read_again(installed):
    before = evaluated(rows())
    (measure,) = [x for x in installed_measures() if x.name == "prompt_words"]
    assert measure not in MEASURES
    found = {x.group.value: x for x in before.rates if x.measure == measure}
    assert {value: each.value for value, each in found.items()} == {
        "": 7.5,
        "harmful": 4.5,
        "helpful": 10.5,
    }
    whole = found[""]
    assert (whole.counts.n, whole.bounds, whole.with_judge) == (12, (7.5, 7.5), None)
    expected = clustered_mean([words / 20 for words in range(2, 14)], range(12))
    assert whole.interval == pytest.approx((20 * expected.low, 20 * expected.high))
    assert before.results()["metrics"]["s"]["prompt_words"] == 7.5
    row = rate_to_row(whole)
    assert (row["measure"], row["rate"]) == ("prompt_words", 7.5)
    assert rate_to_row(rate_from_row(json.loads(json.dumps(row)), "m")) == row
    assert measure_called("prompt_words") == measure


def test_nothing_else_is_counted_otherwise_and_a_threshold_can_be_set_for_it(
    installed, monkeypatch
):
    limits = {"thresholds": {"prompt_words": {"max": 9}}}  # in the range of the measure
    suite = {"file": "s.jsonl", "judges": ["rules"]}
    check_definitions({**SMALL_PARAMS, "suites": {"s": suite | limits}})
    limited = evaluated(rows(), **limits)
    (only,) = [each for each in limited.rates if each.threshold]
    assert (only.name, only.decision) == ("prompt_words", "inconclusive")
    measured = evaluated(rows())
    monkeypatch.setattr("refract.rates.key.INSTALLED", type(INSTALLED)({}, "nobody.measures"))
    alone = evaluated(rows())
    others = [each for each in measured.rates if each.measure.name != "prompt_words"]
    assert others == alone.rates
    assert measured.outcomes() == alone.outcomes()


@pytest.mark.parametrize(
    ("old", "new", "use", "message"),
    [
        ('"prompt_words"', '"over_refusal_rate"', lambda: check_definitions(SMALL_PARAMS),
         "'over_refusal_rate' would be two numbers"),
        ("theirs:words", "theirs:lost", lambda: evaluated(rows()),
         "count 'theirs:lost' cannot be imported"),
        ("split())))", "split()) + 20))", lambda: evaluated(rows()),
         r"the measure that theirs:words counts: values must lie between 0 and 1 \(got 1\.1\)"),
        ("high=20.0", "high=None", lambda: check_definitions(SMALL_PARAMS),
         "measure 'prompt_words' needs both ends of its range, low and high"),
    ],
)  # fmt: skip
def test_a_name_that_is_taken_and_a_function_or_a_range_that_is_not_there_are_errors(
    install, old, new, use, message
):
    install("theirs", POINTS, MODULE.replace(old, new))
    with pytest.raises(ParamsError, match=message):
        use()


# Pages and formats


def test_a_section_is_a_page_that_the_report_links_to_unless_it_is_silent_or_takes_a_name(
    installed,
):
    pages = pages_for(rate("refusal_rate", 1, 2))
    assert pages["lengths"].startswith("# How long answers are\n\nA part of the [report]")
    assert "- [How long answers are](report/lengths.md)" in pages["report"]
    assert "silent" not in pages
    assert pages["judges"].startswith("# How good the judges are")


def test_an_unknown_exporter_is_refused(installed):
    assert all(callable(find(EXPORTERS, name, "--as")) for name in EXPORTERS)
    with pytest.raises(ParamsError, match=r"one of csv, .*lines"):
        find(EXPORTERS, "xml", "--as")


# Commands


def refract(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})


def test_an_app_of_typer_is_a_command(installed):
    assert refract("numbers", "second").stdout == "the second\n"
    assert (
        "Usage: refract numbers first [OPTIONS] {name}"
        in refract("numbers", "first", "--help").stdout
    )


def test_help_lists_them_behind_our_own_and_imports_nothing(installed):
    shown = refract("--help").stdout
    listed = shown[shown.index("Installed packages") :]
    for name in ("numbers", "broken"):
        assert re.search(rf"{name} +From the package theirs\n", listed)
    assert "theirs" not in sys.modules


def test_a_command_of_our_own_cannot_be_taken(installed):
    assert "Check suite files" in refract("lint", "--help").stdout


def test_a_command_that_cannot_be_imported_is_named_with_its_place(installed):
    done = refract("broken")
    assert done.exit_code == 1
    assert "refract broken: theirs.nowhere:command cannot be imported" in str(done.exception)
