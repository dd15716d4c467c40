"""Published protocols: what they state, and what a run has otherwise."""

from __future__ import annotations

import pytest

from refract.core.errors import ParamsError
from refract.models import generation_settings, open_model, with_fixed
from refract.rates.names import name_problems
from refract_published.catalogues import SUITES, names_in
from refract_published.importing import IMPORTERS
from refract_published.judges import names as published_judges
from refract_published.protocols import CATALOGUE
from refract_published.protocols.definitions import Generation
from refract_published.protocols.deviations import (
    generation_deviations,
    judging_deviations,
    unknown_notes,
)

STATED = {*Generation.model_fields, "suite", "judge", "clip", "empty", "partial", "measures"}
HARMBENCH = CATALOGUE.find("harmbench@1.0", "")
ALL = [part for name in CATALOGUE.names() for part in CATALOGUE.parts(name)]


@pytest.mark.parametrize("name", CATALOGUE.names())
def test_each_field_has_its_source_and_what_is_unknown_is_null(name):
    _, found = CATALOGUE.protocol(name)
    assert set(found.sources) == STATED
    for field in set(found.unknown) & set(Generation.model_fields):
        assert getattr(found.generation, field) is None
    for field in ("max_tokens", "temperature"):
        assert (getattr(found.generation, field) is None) == (field in found.unknown)


@pytest.mark.parametrize("part", ALL, ids=lambda part: part.label)
def test_judges_and_kinds_of_files_are_those_that_there_are(part):
    assert part.own.judge is None or part.own.judge in published_judges()
    assert part.own.suite.kind in [*names_in(SUITES), *IMPORTERS]
    assert (part.own.judge is None) == ("judge" in part.protocol.unknown)


@pytest.mark.parametrize("part", ALL, ids=lambda part: part.label)
def test_no_number_of_a_protocol_has_a_name_that_others_have(part):
    definition = {"judges": ["j"], "protocol": part.label}
    assert name_problems(definition, {"j": "refusal"}) == []


def test_another_version_is_not_taken_for_this_one():
    with pytest.raises(ParamsError, match=r"version 1.0 alone \(got '2.0'\); name harmbench@1.0"):
        CATALOGUE.protocol("harmbench@2.0")


def test_a_part_of_several_has_to_be_named():
    with pytest.raises(ParamsError, match=r"name one, such as olmo3_safety@1.0/harmbench"):
        CATALOGUE.find("olmo3_safety@1.0", "suites.x: protocol")
    assert CATALOGUE.find("olmo3_safety@1.0/xstest", "").label == "olmo3_safety@1.0/xstest"


# Generation


def test_a_protocol_goes_before_the_models_definition_and_the_user_before_both():
    own = {"adapter": "hf", "model_id": "m", "max_tokens": 64, "top_p": 0.9, "device": "cpu"}
    assert with_fixed("m", own, HARMBENCH.fixed()) == {
        "adapter": "hf", "model_id": "m", "max_tokens": 512, "temperature": 0,
        "chat_template": True, "device": "cpu",
    }  # fmt: skip


def test_what_the_protocol_leaves_unknown_is_the_models_own():
    part = CATALOGUE.find("sorry_bench@1.0", "")
    own = {"adapter": "hf", "model_id": "m", "max_tokens": 64}
    assert with_fixed("m", own, part.fixed())["max_tokens"] == 64
    assert unknown_notes(part, generation_settings("m", own)) == [
        "max_tokens: 64 was used",
        "temperature: 0.0 was used",
        "top_p: 1.0 was used",
        "system_prompt: none was used",
    ]


def test_a_system_prompt_by_reference_reaches_the_adapter_as_one():
    part = CATALOGUE.find("jailbreakbench_llama2@1.0", "")
    definition = with_fixed("m", {"adapter": "hf", "model_id": "m"}, part.fixed())
    model = open_model("m", definition)
    digest = "cda5d1f1710b2195c05075e118c2dc9499e5c5044a45c8cebbbac3d00632bfd4"
    assert model.settings.system_prompt.sha256 == digest
    assert generation_deviations(part, generation_settings("m", definition), "hf", 1) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"max_tokens": 256}, ["max_tokens 256 instead of 512"]),
        ({"top_p": 0.5}, ["top_p 0.5 instead of none"]),
        ({"system_prompt": "Be brief."}, ["system_prompt 'Be brief.' instead of none"]),
        ({"device": "cpu"}, []),
    ],
)
def test_what_a_run_changes_is_a_deviation(changed, says):
    own = with_fixed("m", {"adapter": "hf", "model_id": "m"}, HARMBENCH.fixed()) | changed
    assert generation_deviations(HARMBENCH, generation_settings("m", own), "hf", 1) == says


def test_a_model_that_cannot_be_told_says_so():
    held = generation_settings("m", {"adapter": "synthetic"})
    assert generation_deviations(HARMBENCH, held, "synthetic", 2) == [
        "max_tokens 512 not set: the adapter synthetic has no such setting",
        "samples 2 instead of 1",
    ]


@pytest.mark.parametrize(
    ("judge", "definition", "says"),
    [
        ("harmbench_llama2", {}, []),
        ("x", {"judge": "harmbench_llama2"}, []),
        ("harmbench_llama2", {"clip": 0},
         ["the judge's clip 0 instead of 512"]),
        ("rules", {"kind": "rules"}, ["judge rules instead of harmbench_llama2"]),
    ],
)  # fmt: skip
def test_another_judge_or_another_use_of_it_is_a_deviation(judge, definition, says):
    definition = {"kind": "published", "reading": "paper", **definition}
    assert judging_deviations(HARMBENCH, judge, definition) == says
