from __future__ import annotations

import copy
import json
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import write_rows
from refract.core.params import definition, grid, load_params, read_yaml, run_seed
from refract.project import check_definitions, read_project
from refract.project.inputs import write_inputs
from refract.suites.perturbations import suite_prompts
from tests.builders import ROOT, suite_rows
from tests.fuzz import fuzzed, places


def load(tmp_path: Path, text: str) -> dict:
    (tmp_path / "params.yaml").write_text(text, "utf-8")
    return read_yaml(tmp_path / "params.yaml")


def test_values_mean_what_they_mean_to_dvc(tmp_path):
    """YAML 1.2: ``no`` is a text, ``1e-4`` a number, ``010`` is ten."""
    text = "a: no\nb: 1e-4\nc: 010\nd: {x: on}\n"
    assert load(tmp_path, text) == {"a": "no", "b": 0.0001, "c": 10, "d": {"x": "on"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML: line 1: "),
        ("a: 1\na: 2\n", 'is not YAML: line 2: found duplicate key "a" with value "2"'),
        ("- a\n", "must hold a mapping .got list"),
        ("a: {b: 2024-01-01}\n", "yaml: a: b is 2024-01-01, which JSON .*; put it in quotes"),
        ("a: {b: .nan}\n", "yaml: a: b is nan, which JSON cannot express; write a finite number"),
        ("a: {b: [1, -.inf]}\n", "yaml: a: b is -inf, which JSON cannot express; write a finite"),
        (f"a: 0x{'f' * 5000}\n", r"holds a value that JSON cannot express \(Exceeds"),
        ("a: {1: x, b: y}\n", "a has the key 1, which must be a text; put it in quotes"),
        ("a: " + "[" * 700 + "]" * 700, "is nested too deeply"),
        ("a: &a\n  b: *a\n", "is nested too deeply, or an alias in it holds itself"),
        (
            "a0: &a0 [1]\n"
            + "".join(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 9}]\n" for n in range(9)),
            "holds more than 1,000,000 values: an alias in it stands for aliases",
        ),
        ("a: 1\0", "is not YAML"),
        ("a: !!python/object/apply:os.system [x]", "is not YAML"),
        ("a: !!int x", "is not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, text, message):
    with pytest.raises(ParamsError, match=message):
        load(tmp_path, text)


def test_a_file_that_is_not_there_says_where_to_run(tmp_path):
    with pytest.raises(ParamsError, match=r"No such file or directory\); run from the project's r"):
        load_params(tmp_path / "params.yaml")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, "must be a list of unique names.* .got None"),
        ([], r"must be a list of unique names.* .got \[\]"),
        ("a", "must be a list of unique names.* .got 'a'"),
        (["a", "b", "a"], "holds 'a' twice .got .'a', 'b', 'a'."),
        # Names that DVC would misread, two of the three without a word.
        (["a.b"], "lower-case letters, digits and underscores, starting with a letter .got 'a.b'"),
        ([*"abcdefghijklmnopqrst", 7], "got 7 in it"),
        (["a\n"], r"got 'a\\n'"),
    ],
)
def test_names_of_a_grid_that_dvc_would_misread_are_refused(names, message):
    with pytest.raises(ParamsError, match=f"grid: models .*{message}"):
        grid({"grid": {"models": names}}, "models")


def test_a_seed_is_an_integer():
    assert run_seed({"seed": 7}) == 7
    for params in ({}, {"seed": "7"}, {"seed": 7.0}, {"seed": True}):
        with pytest.raises(ParamsError, match="seed must be an integer"):
            run_seed(params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"models": None}, "models must be a mapping of names .got None"),
        ({"models": {"b": {}, "a": {}}}, "models has no 'm'; it defines: a, b"),
        ({"models": {"mm": {}}}, "models has no 'm'; did you mean 'mm'.; it defines: mm"),
    ],
)
def test_a_definition_that_is_not_there_is_named_with_those_that_are(params, message):
    with pytest.raises(ParamsError, match=message):
        definition(params, "models", "m")


def test_the_models_of_providers_are_known_to_their_packages_and_not_retired():
    from anthropic.resources.messages.messages import DEPRECATED_MODELS
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    known = {"anthropic": set(get_args(get_args(Model)[0])) - {*DEPRECATED_MODELS}}
    known["openai"] = set(get_args(ChatModel))
    checked = set()
    for name, model in load_params(ROOT / "params.yaml")["models"].items():
        adapter = model["adapter"]
        if adapter in known and "base_url" not in model:
            assert model["model_id"] in known[adapter], name
            checked.add(adapter)
    assert checked == {*known}


# params.yaml as a whole, used or not, before anything runs.

PARAMS: dict[str, Any] = {
    "grid": {"models": ["synthetic"], "suites": ["mine"]},
    "seed": 7,
    "suites": {
        "mine": {
            "file": "data/suites/mine.jsonl",
            "sample": None,
            "perturbations": ["typos", "control", "again"],
            "judges": ["rules", "close"],
            "fields": [],
            "thresholds": {"harmful_refusal_rate": {"min": 0.1}},
        }
    },
    "judges": {
        "rules": {"kind": "rules", "validate": True},
        "close": {"kind": "similarity", "output_sensitivity": 0.2},
        "asked": {"kind": "llm_refusal", "model": {"adapter": "synthetic"}},
        "labels": {"kind": "classifier", "labels": {"a": "pass"}, "model": {"model_id": "a/b"}},
    },
    "perturbations": {
        "typos": {"kind": "typos", "rate": 0.05},
        "control": {"kind": "char_injection", "characters": ["\r"], "repetitions": [3]},
        "again": {"kind": "repeat", "repeats": 2},
    },
    "models": {
        "synthetic": {"adapter": "synthetic", "refusal_rate": {"harmful": 0.9}},
        "local": {"adapter": "hf", "model_id": "a/b", "max_tokens": 5},
        "served": {"adapter": "openai", "model_id": "m", "price": {"input": 1, "output": 2}},
        "recorded": {"adapter": "recorded", "path": "answers.jsonl"},
    },
    "decisions": {"margin": 0.05},
}


PLACES = [place for place in places(PARAMS) if place]
REMOVED: Any = object()


def replaced(place: tuple, value: Any = REMOVED, *, key: Any = None) -> Any:
    """The params with another value in a place, without it, or with its key renamed."""
    params = copy.deepcopy(PARAMS)
    target: Any = params
    for part in place[:-1]:
        target = target[part]
    if key is not None:
        if isinstance(target, dict):
            target[key] = target.pop(place[-1])
    elif value is REMOVED:
        del target[place[-1]]
    else:
        target[place[-1]] = value
    return params


def test_the_params_of_these_tests_are_right():
    check_definitions(PARAMS)


MINE, TYPOS = ("suites", "mine"), ("perturbations", "typos")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        *(((name,), REMOVED, f"params.yaml has no section '{name}'; it needs grid, seed, su")
          for name in ("grid", "seed", "suites", "judges", "models")),
        (("suits",), {}, "unknown section 'suits'; did you mean 'suites'.; it has grid"),
        (MINE, None, "suites.mine must map settings to values .got None"),
        ((*MINE, "file"), REMOVED, "suites.mine: file is missing"),
        (("judges", "rules"), {}, "judges.rules must be a mapping with its kind .got N"),
        (("judges", "rules", "kind"), "oracle", "judges.rules: kind must be one of refusal"),
        (("judges", "asked", "model", "adapter"), "zz", "judges.asked.model: adapter must"),
        ((*TYPOS, "kind"), "magic", "kind must be one of char_inj"),
        ((*TYPOS, "rate"), 2, "perturbations.typos: rate must be"),
        ((*TYPOS, "rat"), 1, "unknown key 'rat'; did you mean 'rate'"),
        *((("perturbations",), value,
           "suites.mine names 'typos', which perturbations does not define; .* nothing")
          for value in (REMOVED, None)),
        (("metadata",), {}, "unknown section 'metadata'; it has grid"),
        (("grid", "models"), ["sintetic"], "grid names 'sintetic', which models does n"),
        ((*MINE, "judges"), ["rulez"], "suites.mine names 'rulez', which j"),
        (("suites", 5), {}, "suites has the key 5, which must be a text; put it in quot"),
        (("models", "a-b"), {}, "models: a name is made of lower-case .* .got 'a-b'"),
        (("models", "judges"), {}, "models: the name 'judges' is taken"),
        ((*MINE, "sample"), 0, "sample must be a whole number of at least 1, or n"),
        ((*MINE, "fields"), [1], "fields must be a list, each a text, or null"),
        ((*MINE, "cut_off"), "excluded", "suites.mine: unknown key 'cut_off'"),
        ((*MINE, "pertubations"), [], "did you mean 'perturbations'.; it has file"),
        ((*MINE, "thresholds", "x"), {"min": "2"}, "thresholds must be .* in the measure's range"),
        ((*MINE, "thresholds", "x"), {"min": 0, "max": 1}, "thresholds.x must be {min: x} or {max"),
    ],
)  # fmt: skip
def test_what_is_wrong_anywhere_is_found(tmp_path, place, value, message):
    YAML().dump(replaced(place, value), tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match=message):
        read_project(tmp_path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["rules", "synthetic", "hf", "typos", "similarity", "../x", "a.b"]),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.text(max_size=6) | st.integers() | st.booleans() | st.none()


@st.composite
def wrong_params(draw: st.DrawFn) -> Any:
    """The params with something removed, replaced or renamed."""
    place = draw(st.sampled_from(PLACES))
    how = draw(st.sampled_from(["remove", "replace", "rename"]))
    if how == "remove":
        return replaced(place)
    if how == "replace":
        return replaced(place, draw(VALUES))
    return replaced(place, None, key=draw(KEYS))


@fuzzed(50)
@given(wrong_params())
def test_any_params_are_usable_or_refused_in_one_message(tmp_path_factory, params):
    """What passes the check makes inputs and prompts, or says in a message why not."""
    folder = tmp_path_factory.mktemp("params")
    write_rows(folder / "data/suites/mine.jsonl", suite_rows("mine", 2, 2))
    YAML(typ="safe").dump(params, folder / "params.yaml")
    with suppress(RefractError):
        project = read_project(folder)
        with chdir(folder), suppress(RefractError):
            write_inputs(project.params)
        for suite in project.params["grid"]["suites"]:
            suite_prompts(project.params, suite, folder)


COMMANDS = (
    ("run", "--model", "synthetic", "--suite", "mine", "--out", "out.json"),
    ("gate",), ("show",),
    ("label", "--model", "synthetic", "--suite", "mine"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("place", "value"), [(("judges", "rules", "kind"), ["a"]), (("suits",), {})]
)
def test_every_command_that_reads_params_refuses_them(tmp_path, monkeypatch, command, place, value):
    (tmp_path / "params.yaml").write_text(json.dumps(replaced(place, value)), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFRACT_CACHE", "off")
    result = CliRunner().invoke(app, list(command))
    assert isinstance(result.exception, ParamsError), result.exception


def test_the_default_project_is_right():
    assert read_project(Path(__file__).parents[2]).params["seed"] == 20260
