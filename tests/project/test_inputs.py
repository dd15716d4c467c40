"""Whatever params.yaml names reaches DVC, and nothing is hashed that did not change."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import write_rows
from refract.core.params import INPUTS
from refract.core.registry import package_code
from refract.project import inputs as named_files
from refract.project.inputs import STATE, Hashes
from stages.check_inputs import main
from tests.builders import SMALL_PARAMS, Project, cells, suite_rows


def write_params(**changes) -> None:
    models = {"m": {"adapter": "recorded", "path": "other/answers.jsonl"}}
    YAML().dump({**SMALL_PARAMS, "models": models, **changes}, Path("params.yaml"))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project whose model is a file of answers, and a model's folder beside it."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "s.jsonl", suite_rows("s", 2, 2))
    write_rows(tmp_path / "other/answers.jsonl", [{"id": "s-00", "response": "Sure."}])
    checkpoint = tmp_path / "other/model"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}", "utf-8")
    (checkpoint / "model.safetensors").write_bytes(b"x" * 100)
    (checkpoint / "README.md").write_text("Nothing.", "utf-8")
    write_params()
    return tmp_path


def inputs() -> dict[str, object]:
    return {
        str(path.relative_to(INPUTS)): json.loads(path.read_text("utf-8"))
        for path in sorted(INPUTS.rglob("*.json"))
    }


def hf(**more) -> dict:
    return {"m": {"adapter": "hf", "model_id": "other/model", **more}}


def test_what_did_not_change_is_not_hashed_again(project, monkeypatch):
    main()
    first = inputs()
    stages = {"prompts.json", "judges.json", "suites.json", "validated.json", "report.json"}
    assert set(first) == {"models/m.json", "verdicts/m.json", *stages}
    monkeypatch.setattr(named_files, "sha256_file", lambda path: pytest.fail(str(path)))
    write_params(seed=2)
    main()
    assert inputs() == first


def test_a_key_that_dvc_would_miss_behind_costly_stages_is_said_before_them(project):
    params = ["seed", "null_answers", "decisions.interval", "models.${item.model}"]
    YAML().dump({"stages": {"judge": {"params": params}}}, Path("dvc.yaml"))
    write_params(null_answers={"sample": 2})
    with pytest.raises(ParamsError, match=r"no 'decisions.interval', which the stage judge of"):
        main()
    write_params(null_answers={"sample": 2}, decisions={"interval": "prompts"})
    main()


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (
            {"params": ["metadata"]},
            r"no 'metadata', which the stage report of .* reads: take it out",
        ),
        (
            {"outs": [{"data/failures/m.csv": {"cache": False}}]},
            "data/failures is gone: take it out",
        ),
    ],
)
def test_what_dvc_yaml_names_and_is_gone_is_said_before_anything_is_computed(project, stage, said):
    YAML().dump({"stages": {"report": stage}}, Path("dvc.yaml"))
    write_params()
    with pytest.raises(ParamsError, match=said):
        main()


WEIGHTS = Path("other/model/model.safetensors")


def rewrite(path: str, text: str) -> Callable[[], object]:
    return lambda: Path(path).write_text(text, "utf-8")


def another_folder() -> None:
    shutil.move("other/model", "other/old")
    WEIGHTS.parent.mkdir()
    (WEIGHTS.parent / "config.json").write_text("{}", "utf-8")
    WEIGHTS.write_bytes(b"z" * 100)


def same_size_and_time() -> None:
    stat = WEIGHTS.stat()
    WEIGHTS.write_bytes(b"y" * 100)
    os.utime(WEIGHTS, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def elsewhere() -> None:
    shutil.copytree("other/model", "elsewhere")
    write_params(models=hf(model_id="elsewhere/."))


def not_on_this_machine() -> None:
    shutil.rmtree("other/model")
    main()
    STATE.unlink()


# What happens to the weights, and whether they are others then.
CHANGES = {
    "weights": (lambda: WEIGHTS.write_bytes(b"y" * 100), True),
    "config": (rewrite("other/model/config.json", '{"a": 1}'), True),
    "added template": (rewrite("other/model/chat_template.jinja", "x"), True),
    "added adapter": (rewrite("other/model/adapter_config.json", "{}"), True),
    "another folder": (another_folder, True),
    "the same size and time": (same_size_and_time, True),
    "a file that determines no answer": (rewrite("other/model/README.md", "Else."), False),
    "another time": (lambda: os.utime(WEIGHTS), False),
    "the same in another folder": (elsewhere, False),
    "not on this machine": (not_on_this_machine, False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_in_place_change_their_models_file_and_nothing_else(project, change):
    write_params(models=hf())
    main()
    before = inputs()
    change_weights, others = CHANGES[change]
    change_weights()
    main()
    after = inputs()
    assert (after["models/m.json"] != before["models/m.json"]) == others
    assert {**after, "models/m.json": 0} == {**before, "models/m.json": 0}


def test_files_that_judges_and_suites_name_are_watched_too(project):
    (project / "template.txt").write_text("one", "utf-8")
    judge = {"kind": "llm_refusal", "model": {"adapter": "hf", "model_id": "other/model"}}
    write_params(
        judges={"rules": {"kind": "rules"}, "asked": {**judge, "template": "template.txt"}},
        suites={"s": {"file": "s.jsonl", "judges": ["rules", "asked"]}},
    )
    main()
    before = inputs()
    (project / "template.txt").write_text("two", "utf-8")
    main()
    middle = inputs()
    files = middle["judges.json"]["files"]
    of_asked = {"asked.template", "asked.model.model_id"}
    assert files.keys() == of_asked | {"refract_exact", "refract_published"}
    assert middle["judges.json"] != before["judges.json"]
    noted = [{**row, "notes": "more"} for row in suite_rows("s", 2, 2)]
    write_rows(project / "s.jsonl", noted)
    main()
    assert inputs()["suites.json"] != middle["suites.json"]
    assert inputs()["judges.json"] == middle["judges.json"]
    write_rows(project / "s.jsonl", [{**row, "requirement": "Be kind."} for row in noted])
    main()
    assert inputs()["judges.json"] != middle["judges.json"]


def test_code_that_a_definition_implies_counts_where_it_is_used(project):
    hashes = Hashes({})
    local = {"adapter": "hf", "model_id": "other/model"}
    for definition in (local, {**local, "arithmetic": "exact"}, {"kind": "x", "model": local}):
        assert hashes.of_code(definition).keys() == {"refract_exact"}
    for definition in ({**local, "arithmetic": "fast"}, {"adapter": "synthetic"}):
        assert hashes.of_code(definition) == {}


def test_a_word_that_is_also_a_folders_name_is_no_path(project):
    (project / "words").mkdir()
    definition = {"system_prompt": "words", "where": {"a": "other/model"}, "stop": ["data/.."]}
    assert list(Hashes({}).of_definition(definition, {})) == ["where.a"]


SUITE = {"file": "s.jsonl", "judges": ["rules"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "now"}, "seed must be an integer"),
        ({"suites": {"s": {**SUITE, "file": "t.jsonl"}}},
         r"suites.s: file: no file or folder 't.jsonl' \(seen from .*\); correct it"),
        ({"suites": {"s": {**SUITE, "fields": ["area"]}}}, "fields: no row of s.jsonl has 'area'"),
        ({"suites": {"s": {**SUITE, "cluster": "behaviuor"}}}, "cluster: no row of .* has 'behaviuor'"),
        ({"suites": {"s": {**SUITE, "cluster": "blank"}}}, "cluster: no row of .* has 'blank'"),
        ({"suites": {"s": SUITE}, "judges": {"rules": {"kind": "strings"}}},
         "suites.s: judges: the first decides refusal, and rules gives found, not_found"),
        ({"suites": {"s": {**SUITE, "judges": ["rules", "harmful"]}},
          "judges": {"rules": {"kind": "rules"}, "harmful": {"kind": "rules"}}},
         r"suites\.s: 'harmful_refusal_rate' would be two numbers"),
        ({"suites": {"s": {**SUITE, "thresholds": {"harmful_refusals_rate": {"min": 0.5}}}}},
         "'harmful_refusals_rate', of which it has no number; did you mean 'harmful_refusal_rate'"),
        ({"suites": {"s": {**SUITE, "thresholds": {"borderline_refusal_rate": {"max": 0.5}}}}},
         "thresholds name 'borderline_refusal_rate', and no row of the suite is borderline"),
        ({"models": {"m": {"adapter": "hf", "model_id": "path/to/folder"}}},
         "models.m: model_id: no file or folder 'path/to/folder' .* take m out of grid.models"),
        ({"models": {"m": {"adapter": "recorded", "path": "absent.csv"}}}, "no file .*'absent.csv'"),
        ({"models": {"m": {"adapter": "recorded", "path": "other/answers.jsonl",
                           "response_column": "said"}}}, "has no column 'said'; it has id, resp"),
    ],
)  # fmt: skip
def test_what_a_later_stage_would_end_at_ends_the_pipeline_first(project, changes, message):
    rows = [{**row, "blank": "\t"} for row in suite_rows("s", 2, 2)]
    write_rows(project / "s.jsonl", rows)
    write_params(**changes)
    with pytest.raises(RefractError, match=message):
        main()
    assert not INPUTS.exists()


def test_a_suite_that_dvc_tracks_and_was_not_pulled_is_named_with_the_command(project):
    (project / "t.jsonl.dvc").touch()
    write_params(suites={"s": {**SUITE, "file": "t.jsonl"}})
    with pytest.raises(RefractError, match=r"'t\.jsonl' .*; run: dvc pull t\.jsonl$"):
        main()


def test_answers_of_parts_that_are_no_longer_read_end_the_pipeline(project):
    write_rows(project / "data/shards/m/m-1of2-0a.jsonl", [])
    with pytest.raises(
        RefractError, match=r"m: answers of parts, in data/shards/m, .* to data/answers/m"
    ):
        main()


def test_a_judge_without_a_key_ends_a_run_before_the_model_is_asked(project, cli, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("refract.models.recorded.Recorded.answer", lambda *_: pytest.fail("asked"))
    judge = ("--judge", "llm", "--judge-model", "openai:gpt-4o")
    done = cli("run", "--model", "m", "--suite", "s", *judge, "--out", "r.json")
    assert done.code == 1
    assert "llm: the environment variable OPENAI_API_KEY is not set" in done.err


def test_a_state_that_cannot_be_read_is_no_state(project):
    main()
    before = STATE.read_text("utf-8")
    for text in ("", "{", "[]", '{"version": 99}'):
        STATE.write_text(text, "utf-8")
        main()
        assert STATE.read_text("utf-8") == before


# In the pipeline


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Project:
    recorded = {"adapter": "recorded", "path": "../answers.jsonl"}
    project = Project.create(
        tmp_path_factory.mktemp("inputs") / "project",
        {"rec": recorded, "other": {"adapter": "synthetic"}},
        {"alpha": suite_rows("alpha")},
        report=False,
    )
    write_answers(project, "Sure, take the blue one and turn it twice to the left.")
    project.compute_for_dvc()
    return project


def write_answers(project: Project, text: str) -> None:
    rows = [{"id": row["id"], "response": text} for row in suite_rows("alpha")]
    write_rows(project.folder.parent / "answers.jsonl", rows)


def test_a_file_outside_the_project_that_changes_in_place_runs_its_model_alone(computed):
    before = (computed.folder / "metrics/rec.json").read_text("utf-8")
    write_answers(computed, "I'm sorry, but I can't help with that.")
    done = computed.repro()
    assert done.ran == cells("rec")
    assert done.generated == {("rec", "alpha"): 12}
    assert (computed.folder / "metrics/rec.json").read_text("utf-8") != before


@pytest.mark.parametrize(
    ("definition", "packages"),
    [
        ({"adapter": "recorded", "path": "other/answers.jsonl"}, set()),
        ({"gguf_file": "x.gguf"}, {"refract_gguf"}),
        ({"kind": "calls"}, {"refract_dialogue"}),
        ({"kind": "published", "judge": "wildguard"}, {"refract_published"}),
        ({"adapter": "recorded", "path": "log.json"}, {"refract_published"}),
    ],
)
def test_the_code_of_a_package_is_hashed_where_a_definition_needs_it(project, definition, packages):
    (project / "log.json").write_text('{"status": "success", "eval": {}}')
    assert Hashes({}).of_code({"a": {"b": definition}}).keys() == packages


def test_the_code_of_a_namespaces_part_is_the_part(tmp_path, monkeypatch):
    part = tmp_path / "their_group/parts"
    part.mkdir(parents=True)
    for name in ("__init__", "deep"):
        (part / f"{name}.py").touch()
    (tmp_path / "their_group/alone.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert package_code("their_group.parts.deep") == {"their_group.parts": part}
    alone = tmp_path / "their_group/alone.py"
    assert package_code("their_group.alone") == {"their_group.alone": alone}
    assert package_code("their_group.absent") == package_code("their_group") == {}
