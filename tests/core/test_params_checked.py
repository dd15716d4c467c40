"""params.yaml is checked as a whole, used or not, before anything runs."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import write_rows
from refract.project import check_definitions, read_project
from refract.suites.perturbations import suite_prompts
from tests.builders import suite_rows
from tests.fuzz import fuzzed, places

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
        "asked": {"kind": "refusal", "model": {"adapter": "synthetic"}},
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
    "metadata": {"synthetic": {"family": "x"}},
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


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(
            (
                replaced((section,)),
                f"params.yaml has no section '{section}'; it needs grid, seed, su",
            )
            for section in ("grid", "seed", "suites", "judges", "models")
        ),
        (replaced(("suits",), {}), "unknown section 'suits'; did you mean 'suites'.; it has grid"),
        (replaced(("suites", "mine"), None), "suites.mine must map settings to values .got None"),
        (replaced(("suites", "mine", "file")), "suites.mine: file is missing"),
        (replaced(("suites", "mine", "file"), 5), "suites.mine: file must be .* .got 5"),
        (replaced(("judges", "rules"), {}), "judges.rules must be a mapping with its kind .got N"),
        (
            replaced(("judges", "rules", "kind"), "oracle"),
            "judges.rules: kind must be one of rules",
        ),
        (
            replaced(("judges", "asked", "model", "adapter"), "zz"),
            "judges.asked.model: adapter must",
        ),
        (replaced(("perturbations", "typos", "kind"), "magic"), "kind must be one of char_inj"),
        (replaced(("perturbations", "typos", "rate"), 2), "perturbations.typos: rate must be"),
        (replaced(("perturbations", "typos", "rat"), 1), "unknown key 'rat'; did you mean 'rate'"),
        (replaced(("metadata",), ["a"]), "metadata must be a mapping of names .got .'a'"),
        (replaced(("grid", "models"), ["sintetic"]), "grid names 'sintetic', which models does n"),
        (replaced(("suites", "mine", "judges"), ["rulez"]), "suites.mine names 'rulez', which j"),
        (replaced(("decisions", "margin"), "wide"), "decisions: margin must be"),
        (replaced(("suites", 5), {}), "suites has the key 5, which is no text; put it in quot"),
        (replaced(("models", "a-b"), {}), "models: a name is made of lower-case .* .got 'a-b'"),
        (replaced(("models", "served", "max_cost"), -1), "models.served: max_cost must be"),
    ],
)
def test_what_is_wrong_anywhere_is_found(tmp_path, params, message):
    YAML().dump(params, tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match=message):
        read_project(tmp_path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["rules", "synthetic", "hf", "typos", "similarity", "../x", "a.b", "10 ** 9"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
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


@fuzzed(150)
@given(wrong_params())
def test_any_params_are_usable_or_refused_in_one_message(tmp_path_factory, params):
    """What passes the check makes prompts, or says in a message why not."""
    folder = tmp_path_factory.mktemp("params")
    write_rows(folder / "data/suites/mine.jsonl", suite_rows("mine", 2, 2))
    YAML(typ="safe").dump(params, folder / "params.yaml")
    with suppress(RefractError):
        project = read_project(folder)
        for suite in project.params["grid"]["suites"]:
            suite_prompts(project.params, suite, folder)


COMMANDS = (
    ("run", "--model", "synthetic", "--suite", "mine", "--out", "out.json"),
    ("estimate",),
    ("gate",),
    ("show",),
    ("label", "--model", "synthetic", "--suite", "mine"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(replaced(("judges", "rules", "kind"), ["a"])),
        json.dumps(replaced(("suits",), {})),
    ],
)
def test_every_command_that_reads_params_refuses_them(tmp_path, monkeypatch, command, text):
    (tmp_path / "params.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFRACT_CACHE", "off")
    result = CliRunner().invoke(app, list(command))
    assert isinstance(result.exception, ParamsError), result.exception


def test_the_default_project_is_right():
    assert read_project(Path(__file__).parents[2]).params["seed"] == 20260
