"""``refract export --as eee``: records of Every Eval Ever."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from refract.core.jsonl import write_rows
from refract.statistics.proportions import settled, wilson
from tests.builders import Project, suite_rows
from tests.results.test_results import computed_project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return computed_project(tmp_path_factory.mktemp("export") / "project")


@pytest.fixture(scope="module")
def validated(request):
    """Whether the validator of Every Eval Ever's package, downloaded once, finds neither an error nor a
    warning in the records of a folder."""
    texts = pytest.importorskip("refract_published.texts")
    folder = Path(request.config.cache.mkdir("every_eval_ever")).absolute()
    try:
        wheel = next(folder.glob("*.whl"), None) or texts.download("every-eval-ever==0.3.0", folder)
    except texts.SourceError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(wheel))
        validator = pytest.importorskip("every_eval_ever.validator.validate")

        def clean(folder):
            files = [str(path) for path in sorted(folder.absolute().rglob("*.json*"))]
            return validator.main([*files, "--format", "github"]) == 0

        yield clean


@pytest.fixture(scope="module")
def records(project, tmp_path_factory):
    """What was said, and the records by model."""
    folder = tmp_path_factory.mktemp("records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1767225600")
        values = ("--set", "organization=Example Lab", "--set", "model_ids={two: example/two-1b}")
        done = project.refract("export", "--out", folder, "--as", "eee", *values)
    assert done.exit_code == 0, done.exception
    found = {}
    for path in folder.glob("data/alpha/*/*/*.json"):
        assert uuid.UUID(path.stem).version == 4
        record = json.loads(path.read_text("utf-8"))
        found[record["model_info"]["id"]] = record
    return done.output, found, folder


def test_records_of_every_eval_ever_pass_its_own_validator_which_finds_a_changed_one(
    records, validated
):
    assert validated(records[2])
    path = next(records[2].rglob("*.json"))
    text = path.read_text("utf-8")
    path.write_text(text.replace('"evaluation_id"', '"id"'), "utf-8")
    assert not validated(records[2])
    path.write_text(text, "utf-8")


def test_a_record_says_what_was_measured(records):
    said, found, _ = records
    assert set(found) == {"local/one", "example/two-1b"}
    record = found["local/one"]
    results = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    rate = results["harmful_refusal_rate"]
    score, limits = rate["score_details"]["score"], wilson(1, 3)
    assert score == settled(1 / 3)
    interval = rate["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == tuple(map(settled, limits))
    assert rate["metric_config"]["lower_is_better"] is False
    assert record["evaluation_id"] == "alpha/local/one/1767225600"
    assert rate["score_details"]["details"]["n"] == "3"
    assert "one as local/one; --set model_ids names them otherwise" in said


OWN = ("--model", "synthetic", "--suite", "alpha.jsonl")
PROTOCOL = ("--protocol", "xstest", "--suite", "xstest.jsonl", "--judge", "rules")
RUNS: dict[str, tuple[str, ...]] = {
    "two suites": (*OWN, "--suite", "beta.jsonl"),
    "a sample": (*OWN, "--limit", "5"),
    "nothing judged": (*OWN, "--set", "empty_rate=1.0"),
    "a protocol": ("--adapter", "synthetic", *PROTOCOL),
}


@pytest.mark.parametrize("kind", RUNS)
def test_every_results_file_of_a_run_becomes_records(cli, validated, kind):
    for name in ("alpha", "beta", "xstest"):
        rows = [{**row, "type": "homonyms"} for row in suite_rows(name)]
        write_rows(Path(f"{name}.jsonl"), rows)
    done = cli("run", *RUNS[kind], "--out", "r.json")
    assert done.code == (kind == "nothing judged")
    done = cli(
        *("export", "r.json", "--as", "eee", "--set", "organization=Lab"), *("--out", "records")
    )
    assert done.code == 0, done.err
    results = json.loads(Path("r.json").read_text("utf-8"))
    records = [json.loads(path.read_text("utf-8")) for path in Path("records").rglob("*.json")]
    rated = {row["suite"] for row in results["tables"] if row["rate"] is not None}
    assert {r["evaluation_results"][0]["evaluation_name"] for r in records} == rated
    for record in records:
        about = record["eval_library"]["additional_details"]
        facts = results["provenance"]["suites"][record["evaluation_results"][0]["evaluation_name"]]
        assert (about["judge"], about["suite_sha256"]) == (facts["judges"][0], facts["sha256"])
    assert not records or validated(Path("records"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "organization is missing"),
        (("organization=x", "model_ids={one: flat}"), "takes {NAME: DEVELOPER/MODEL}"),
    ],
)
def test_who_ran_an_evaluation_is_asked_for(project, tmp_path, values, message):
    given = [word for value in values for word in ("--set", value)]
    done = project.refract("export", "--out", tmp_path, "--as", "eee", *given)
    assert message in str(done.exception)
