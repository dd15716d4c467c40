from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from refract.core.errors import ParamsError
from refract.core.params import (
    Metadata,
    check_sections,
    definition,
    grid,
    load_params,
    read_yaml,
    run_seed,
)
from refract.core.settings import read_settings

ROOT = Path(__file__).parents[2]


def load(tmp_path: Path, text: str) -> dict:
    (tmp_path / "params.yaml").write_text(text, "utf-8")
    return read_yaml(tmp_path / "params.yaml")


def test_values_mean_what_they_mean_to_dvc(tmp_path):
    """YAML 1.2: ``no`` is a text, ``1e-4`` a number, ``010`` is ten."""
    assert load(tmp_path, "a: no\nb: 1e-4\nc: 010\nd: {x: on}\n") == {
        "a": "no",
        "b": 0.0001,
        "c": 10,
        "d": {"x": "on"},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML"),
        ("a: 1\na: 2\n", "is not YAML"),
        ("- a\n", "must hold a mapping .got list"),
        ("a: 2024-01-01\n", "holds a value that JSON cannot express .*; put it in quotes"),
        ("a: {1: x, b: y}\n", "a has the key 1, which is no text; put it in quotes"),
        ("a: " + "[" * 1200 + "]" * 1200, "is nested too deeply"),
        ("a: &a\n  b: *a\n", "is nested too deeply, or an alias in it holds itself"),
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


SUITE = {"file": "s.jsonl", "judges": ["rules"]}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"file": None}, "file must be a text .got None"),
        (
            {"judges": "rules"},
            "judges must be a list of at least one entry, each a text .got 'rules",
        ),
        ({"sample": 0}, "sample must be a whole number of at least 1, or null .got 0"),
        ({"fields": [1]}, "fields must be a list, each a text, or null"),
        ({"thresholds": {"refusal_rate": {"min": -2}}}, "thresholds must be .* from -1 to 1"),
        (
            {"thresholds": {"refusal_rate": {"min": 0, "max": 1}}},
            "thresholds.refusal_rate must be {min: x} or {max: x}",
        ),
        ({"cut_off": "yes"}, "cut_off must be .*judged.*excluded.*yes"),
        (
            {"pertubations": []},
            "unknown key 'pertubations'; did you mean 'perturbations'.; it has file, sample, p",
        ),
    ],
)
def test_a_suites_definition_that_would_be_misread_is_refused(more, message):
    with pytest.raises(ParamsError, match=f"suites.s: {message}"):
        check_sections({"suites": {"s": {**SUITE, **more}}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parameter": 1}, "unknown key 'parameter'; did you mean 'parameters'"),
        ({"parameters": 0}, "parameters must be a number above 0, or null .got 0"),
        ({"parameters": float("inf")}, "parameters must be a number above 0"),
        ({"family": 3}, "family must be a text, or null .got 3"),
    ],
)
def test_facts_that_no_size_can_have_are_refused(given, message):
    with pytest.raises(ParamsError, match=f"metadata.m: {message}"):
        read_settings(Metadata, "metadata.m", given)


def test_the_models_of_providers_are_known_to_their_packages_and_not_retired():
    from anthropic.resources.messages.messages import DEPRECATED_MODELS
    from anthropic.types.model import Model
    from openai.types.shared.chat_model import ChatModel

    known = {"anthropic": set(get_args(get_args(Model)[0])) - {*DEPRECATED_MODELS}}
    known["openai"] = set(get_args(ChatModel))
    models = load_params(ROOT / "params.yaml")["models"]
    named = {
        name: (given["adapter"], given["model_id"])
        for name, given in models.items()
        if given["adapter"] in known and "base_url" not in given
    }
    assert {adapter for adapter, _ in named.values()} == {*known}
    assert [name for name, (adapter, id_) in named.items() if id_ not in known[adapter]] == []
