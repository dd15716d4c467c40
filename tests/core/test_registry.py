"""An installed package adds adapters, judges, perturbations and protocols."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.core.errors import MissingPackage, ParamsError
from refract.core.jsonl import read_rows, write_rows
from refract.core.registry import find
from refract.models import ADAPTERS, open_model
from refract.suites.protocols import CATALOGUES, followed

MODULE = """
from refract.core.settings import Settings
from refract.judges.cases import Judge, labelled
from refract.models.protocol import Answer, Model
from refract.suites.perturbations.noise import FeatureSettings, in_each_feature
from refract.suites.perturbations.variants import Perturbation


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


class Fixed:
    samples = 1

    def fixed(self):
        return {"max_tokens": 9}

    def possible_keys(self):
        return []

    def rates(self, suite):
        return []

    def notes(self, suite, definition, **about):
        return {"name": definition["protocol"], "deviations": [], "measures": []}


class Greetings:
    def names(self):
        return ["greetings"]

    def find(self, label, where):
        return Fixed()

    def run(self, label, *arguments, **options):
        raise NotImplementedError


PROTOCOLS = Greetings()
"""
POINTS = """
[refract.adapters]
echoes = greeting_parts:Parrot
openai = greeting_parts:Parrot
[refract.judges]
brevity = greeting_parts:Length
[refract.perturbations]
louder = greeting_parts:SHOUTED
[refract.protocols]
greetings = greeting_parts:PROTOCOLS
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
    protocol: greetings@1.0
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
    install("greeting_parts", POINTS, MODULE)
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
    generation = json.loads(Path("data/prompts/generation.json").read_text())
    assert generation == {"greetings": {"max_tokens": 9}}
    found = json.loads(Path("metrics/parrot.json").read_text())
    assert found["greetings"]["short_fail_rate"] == 1.0


def test_the_parts_of_a_package_are_named_on_the_command_line(installed, cli):
    write_rows(Path("data/suites/lines.jsonl"), SUITE)
    done = cli(
        *("run", "--adapter", "greeting_parts:Parrot", "--suite", "data/suites/lines.jsonl"),
        *("--judge", "greeting_parts:Refused", "--out", "results.json"),
    )
    assert done.code == 0, done.err
    results = json.loads(Path("results.json").read_text())
    assert next(iter(results["metrics"].values()))["over_refusal_rate"] == 1.0


def test_a_protocol_of_no_package_says_which_there_are_or_what_to_install(installed, monkeypatch):
    assert followed({"protocol": "greetings@1.0"}, "here").fixed() == {"max_tokens": 9}
    assert CATALOGUES.code_of("greetings@1.0").keys() == {"greeting_parts"}
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    with pytest.raises(MissingPackage, match=r"here: the protocol 'xstest@1.0' comes with"):
        followed({"protocol": "xstest@1.0"}, "here")


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


def test_a_name_of_an_earlier_release_is_an_error_that_says_what_to_do_instead():
    with pytest.raises(ParamsError, match=r"^models.m: adapter: 'vllm' is gone; .*adapter: openai"):
        open_model("m", {"adapter": "vllm", "model_id": "owner/name"})
