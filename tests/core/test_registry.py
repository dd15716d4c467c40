"""An installed package adds adapters, judges, perturbations, importers and protocols."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows
from refract.core.registry import find
from refract.models import ADAPTERS
from tests.builders import write_distribution

MODULE = """
from refract.core.settings import Settings
from refract.judges.cases import Judge, labelled
from refract.models.protocol import Answer, Model
from refract.suites.importing.columns import Contents, Origin
from refract.suites.perturbations.noise import FeatureSettings, in_each_feature
from refract.suites.perturbations.variants import Perturbation
from tests.builders import write_distribution


class ParrotSettings(Settings):
    prefix: str = ""


class Parrot(Model):
    adapter = "greeting_parts.parrot"
    version = "1"
    Settings = ParrotSettings

    def __init__(self, name, settings):
        self.settings = settings

    def identity(self):
        return self.settings.model_dump()

    def description(self):
        return {"parameters": None}

    def answer(self, requests):
        for index, request in enumerate(requests):
            yield index, Answer(self.settings.prefix + request.attempts[0][-1]["content"])


class LengthSettings(Settings):
    most: int = 3


class Length(Judge):
    Settings = LengthSettings
    FAMILY = "pass_fail"
    version = "1"

    def judge(self, cases):
        most = self.settings.most
        return [labelled("pass" if len(case.answer.split()) <= most else "fail") for case in cases]


class Refused(Length):
    FAMILY = "refusal"

    def judge(self, cases):
        return [labelled("refusal") for _ in cases]


def shouted(text, generator, settings):
    return text.replace("?", "?!"), text.count("?")


SHOUTED = Perturbation(FeatureSettings, in_each_feature("shouted", shouted))


def lines(kind, path, options):
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        rows.append({"id": f"line-{number}", "prompt": line, "category": "helpful"})
    return Contents(rows, Origin("Lines", "https://example.org", "CC0", "All helpful."), [path], [])


MEASURES = {"rate": {"counts": "refused", "over": "all"}}
PART = {"judge": None, "empty": "refused", "partial": "refused", "measures": MEASURES}
PAGE = {"kind": "lines", "page": "https://example.org"}
PROTOCOL = {
    "version": "1.0",
    "of": "Greetings",
    "generation": {"max_tokens": 9, "temperature": 0},
    "parts": {"greetings": {"suite": PAGE, **PART}},
    "sources": {},
}
"""
POINTS = """
[refract.adapters]
echoes = greeting_parts:Parrot
openai = greeting_parts:Parrot
[refract.judges]
brevity = greeting_parts:Length
[refract.perturbations]
louder = greeting_parts:SHOUTED
[refract.importers]
lines = greeting_parts:lines
[refract.protocols]
greetings = greeting_parts:PROTOCOL
harmbench = greeting_parts:PROTOCOL
"""
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the package lies as pip installs it."""
    folder = tmp_path_factory.mktemp("site")
    write_distribution(folder, "greeting_parts", POINTS, greeting_parts=MODULE)
    return folder


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")


def test_the_parts_of_a_package_reach_a_number_through_the_pipeline(installed, cli):
    from stages.aggregate import main as aggregate
    from stages.check_inputs import main as check_inputs
    from stages.generate_perturbations import main as generate
    from stages.judge import main as judge
    from stages.model_inference import main as infer

    Path("params.yaml").write_text(PARAMS)
    Path("lines.txt").write_text("How are you?\nHi there\n")
    done = cli("import-suite", "lines", "lines.txt", "--out", "data/suites/greetings.jsonl")
    assert done.code == 0, done.err
    check_inputs()
    generate()
    infer("parrot")
    judge("parrot")
    aggregate("parrot")
    answers = [row["response"] for row in read_rows(Path("data/responses/parrot/greetings.jsonl"))]
    assert answers == ["You said: How are you?", "You said: How are you?!", "You said: Hi there"]
    found = json.loads(Path("metrics/parrot.json").read_text())
    assert found["greetings"]["short_fail_rate"] == 1.0


def test_the_parts_of_a_package_are_named_on_the_command_line(installed, cli):
    Path("lines.txt").write_text("How are you?\nHi there\n")
    assert cli("import-suite", "greeting_parts:lines", "lines.txt").code == 0
    done = cli(
        *("run", "--adapter", "greeting_parts:Parrot", "--suite", "data/suites/lines.jsonl"),
        *("--judge", "greeting_parts:Refused", "--out", "results.json"),
    )
    assert done.code == 0, done.err
    results = json.loads(Path("results.json").read_text())
    assert next(iter(results["metrics"].values()))["over_refusal_rate"] == 1.0


def test_a_protocol_of_a_package_is_found_by_its_name(installed):
    from refract.suites.protocols import find_part, find_protocol, names

    assert find_part("greetings@1.0", "--protocol").fixed() == {
        "max_tokens": 9, "temperature": 0, "top_p": None, "system_prompt": None,
        "chat_template": True,
    }  # fmt: skip
    assert sorted(names()).count("harmbench") == 1
    assert "greetings" in names()
    assert find_protocol("harmbench")[1].of.startswith("HarmBench")


def test_no_package_takes_a_name_that_comes_with_refract(installed):
    assert find(ADAPTERS, "openai", "adapter").__module__ == "refract.models.openai"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("echos", "m: adapter must be one of .* echoes, .*or package.module:Name of an .*'echoes'"),
        (["echoes"], r"m: adapter must be one of .* \(got \['echoes'\]\)"),
        ("nowhere:Parrot", "m: adapter: nowhere:Parrot cannot be imported .ModuleNotFoundError"),
        ("greeting_parts:Parot", "greeting_parts:Parot cannot be imported .AttributeError"),
        ("greeting_parts:shouted", "greeting_parts:shouted has no 'Settings' and can be none of"),
    ],
)
def test_what_is_no_adapter_is_an_error_that_says_so(installed, name, message):
    with pytest.raises(ParamsError, match=message):
        find(ADAPTERS, name, "m: adapter")
