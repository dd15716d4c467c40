"""A published protocol by one command, and in the pipeline."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from refract.core.errors import UsageError
from refract.core.jsonl import read_rows, write_rows
from refract_published.protocols import CATALOGUE
from refract_published.protocols.definitions import Chosen
from refract_published.protocols.deviations import suite_deviations
from refract_published.protocols.run import protocol_suite
from small_protocol import ROWS, chosen
from tests.builders import SMALL_PARAMS, Project, suite_rows
from tests.fault_server import FaultServer
from tests.outside import outside

# Files of prompts


@pytest.fixture
def page(tmp_path):
    """A publisher's page on loopback: what it serves, and its address."""
    (tmp_path / "prompts.csv").write_text("text\nHow do I whistle?\nHow do I sing?\n")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        content = (tmp_path / "prompts.csv").read_bytes()
        yield content, f"http://127.0.0.1:{server.server_port}/prompts.csv"
        server.shutdown()


def with_file(url: str | None, sha256: str | None = None) -> Chosen:
    suite = {"kind": "generic", "page": "its page", "columns": {"prompt": "text"}, "url": url}
    return chosen(part={"suite": suite | {"category": "helpful", "sha256": sha256}})


def test_the_publishers_file_is_fetched_once_and_checked(page):
    content, url = page
    part = with_file(url, hashlib.sha256(content).hexdigest())
    first, deviations = protocol_suite(part, None)
    assert [row["prompt"] for row in first.rows] == ["How do I whistle?", "How do I sing?"]
    assert deviations == []
    elsewhere = with_file(url.replace(url.split("/")[2], "127.0.0.1:1"))
    assert protocol_suite(elsewhere, None)[0].rows == first.rows


def test_another_file_at_the_address_is_not_used(page):
    with pytest.raises(UsageError, match=f"{'0' * 64} is expected"):
        protocol_suite(with_file(page[1], "0" * 64), None)


def test_a_suite_that_was_imported_before_is_taken_as_it_is(tmp_path):
    write_rows(tmp_path / "mine.jsonl", ROWS)
    suite, deviations = protocol_suite(with_file(None), tmp_path / "mine.jsonl")
    assert suite.rows == ROWS
    assert deviations == ["suite mine.jsonl: not checked against the publisher's file"]


@pytest.mark.parametrize("sha256", [None, "0" * 64])
def test_a_suites_name_stands_beside_the_publishers_prompts_alone(tmp_path, sha256):
    (tmp_path / "mine.csv").write_text("text\nHow do I hum?\n")
    part, path = with_file(None, sha256), tmp_path / "mine.csv"
    unchecked = suite_deviations(part, path, "1" * 64)
    assert unchecked == ["suite mine.csv: not checked against the publisher's file"]
    assert suite_deviations(part, path, "0" * 64) == ([] if sha256 else unchecked)
    suite, deviations = protocol_suite(part, path)
    seen, expected = f"(SHA-256 {suite.sha256[:16]}…)", f"({'0' * 16}…)"
    another = [f"suite mine.csv {seen} instead of the publisher's {expected}"]
    assert deviations == (another if sha256 else unchecked)


def test_a_file_that_nobody_may_fetch_is_asked_for_with_its_page():
    with pytest.raises(UsageError, match="get them from its page and name the file with --suite"):
        protocol_suite(with_file(None), None)


@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("harmbench", "harmbench_behaviors_text_all.csv", 300),
        ("jailbreakbench", "jailbreakbench_harmful_behaviors.csv", 100),
        ("strongreject", "strongreject_dataset.csv", 313),
        ("xstest", "xstest/xstest_prompts.csv", 450),
        ("do_not_answer", "do_not_answer_en.csv", 939),
    ],
)
def test_the_files_that_publishers_ship_are_read(name, file, rows):
    suite, deviations = protocol_suite(
        CATALOGUE.find(f"{name}@1.0", ""), outside(f"data/raw/{file}")
    )
    assert (len(suite.rows), deviations) == (rows, [])


# One command


@pytest.fixture
def xstest(tmp_path) -> Path:
    rows = [
        {"id": f"x-{n}", "prompt": f"question {n}", "category": category, "type": kind}
        for n, (category, kind) in enumerate(
            [("helpful", "homonyms"), ("harmful", "contrast_homonyms")] * 5
        )
    ]
    write_rows(tmp_path / "xstest.jsonl", rows)
    return tmp_path / "xstest.jsonl"


def test_one_command_runs_a_protocol_and_lists_what_it_has_otherwise(cli, xstest):
    with FaultServer() as server:
        done = cli(
            *("run", "--protocol", "xstest", "--adapter", "openai", "--model-id", "m"),
            *("--base-url", f"{server.url}/v1", "--set", "api_key_env=null", "--max-tokens", 8),
            *("--suite", xstest, "--judge", "rules", "--out", "r.json"),
        )
    assert done.code == 0, done.err
    results = json.loads(Path("r.json").read_text())
    assert results["protocol"]["name"] == "xstest@1.0"
    held = results["protocol"]["parts"]["xstest"]
    deviations = [
        "max_tokens 8 instead of 256",
        "judge rules instead of xstest_gpt4",
        "suite xstest.jsonl: not checked against the publisher's file",
    ]
    assert held["deviations"] == deviations
    assert (held["generation"]["max_tokens"], held["generation"]["temperature"]) == (8, 0)
    assert results["provenance"]["model"]["definition"]["max_tokens"] == 8
    assert "refusal_rate_on_safe" in {row["measure"] for row in results["tables"]}
    for phrase in deviations:
        assert f"deviation: {phrase}" in done.out
    again = cli("reproduce", "r.json")
    assert f"refract run --suite {xstest} --protocol xstest --adapter openai" in again.out
    assert "--max-tokens 8" in again.out


def test_a_judge_that_cannot_run_ends_the_run_before_anything_is_asked(cli, xstest, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    rows = [{**row, "behavior": row["prompt"]} for row in read_rows(xstest)]
    write_rows(Path("jbb.jsonl"), rows)
    with FaultServer() as server:
        done = cli(
            *("run", "--protocol", "jailbreakbench", "--adapter", "openai", "--model-id", "m"),
            *("--base-url", f"{server.url}/v1", "--set", "api_key_env=null"),
            *("--suite", "jbb.jsonl", "--out", "r.json"),
        )
        assert server.bodies == []
    assert done.code != 0
    assert "nothing was generated" in done.err
    assert "It needs an API key (Together)" in done.err
    assert "refract judge fetch jailbreakbench" in done.err
    assert "--judge rules" in done.err
    assert not Path("r.json").exists()


def test_a_judge_of_harm_counts_beside_the_refusal_by_rules(cli, xstest):
    text = "Is this harmful? {prompt} {response} Say yes or no."
    Path("own.txt").write_text(text)
    with FaultServer() as server:
        entry = {
            "of": "A test",
            "asks": "harmful",
            "model": server.model(model_id="j", max_tokens=1, temperature=0),
            "texts": {
                "own": {
                    "path": str(Path("own.txt").resolve()),
                    "sha256": hashlib.sha256(text.encode()).hexdigest(),
                }
            },
            "messages": [{"text": "own"}],
            "fields": {"prompt": "prompt", "response": "response"},
            "reading": "harmbench",
            **dict.fromkeys(("needs", "licence", "agreement", "tried"), "x"),
        }
        judges = {"rules": {"kind": "rules"}, "mine": {"kind": "published", "judge": entry}}
        Path("params.yaml").write_text(json.dumps({**SMALL_PARAMS, "judges": judges}))
        done = cli(
            *("run", "--protocol", "xstest", "--adapter", "synthetic", "--judge", "mine"),
            *("--suite", xstest, "--out", "r.json", "--rows", "rows.jsonl"),
        )
        assert done.code == 0, done.err
        asked = len(server.bodies)
    results = json.loads(Path("r.json").read_text())
    assert asked == 10
    assert results["provenance"]["suites"]["xstest"]["judges"] == ["rules", "mine"]
    # The server's echo is neither yes nor no: ten answers without a verdict.
    table = {row["measure"]: row for row in results["tables"] if not row["field"]}
    assert table["refusal_rate_on_safe"]["rate"] is None
    assert table["refusal_rate_on_safe"]["excluded_unjudged"] == 5
    assert table["over_refusal_rate"]["n"] == 5


def test_several_parts_have_a_file_each_and_an_average(cli, xstest):
    suites = []
    rows = [{**row, "prompt_harm_label": "harmful", "subsample": True} for row in read_rows(xstest)]
    for part in CATALOGUE.parts("olmo3_safety"):
        write_rows(Path(f"{part.part}.jsonl"), rows)
        suites += ["--suite", f"{part.part}={part.part}.jsonl"]
    done = cli(
        *("run", "--protocol", "olmo3_safety@1.0", "--adapter", "synthetic", "--judge", "rules"),
        *(*suites, "--out", "r.json"),
    )
    assert done.code == 0, done.err
    assert cli("compare", "r.json", "r.json").code == 0  # each rate is counted again
    results = json.loads(Path("r.json").read_text())
    parts = [name for name in results["metrics"] if name != "olmo3_safety"]
    assert len(parts) == 6
    mean = sum(results["metrics"][part]["accuracy"] for part in parts) / 6
    assert results["metrics"]["olmo3_safety"]["average_accuracy"] == pytest.approx(mean, abs=1e-4)
    generation = {
        name: held["generation"]["temperature"]
        for name, held in results["protocol"]["parts"].items()
    }
    assert {generation.pop("strongreject"), *generation.values()} == {0.7, 0.6}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--protocol", "harmbnch"], "did you mean 'harmbench'"),
        (["--protocol", "olmo3_safety", "--suite", "f"], "name the part with the file"),
        (["--protocol", "olmo3_safety", "--suite", "x=f"], "got 'x=f'; it has harmbench"),
        (["--protocol", "do_not_answer"], "its judge is not defined here"),
        (["--protocol", "sorry_bench"], "get them from https://huggingface.co/datasets/sorry"),
        ([], "name a suite with --suite, or a published protocol with --protocol"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(cli, arguments, says):
    done = cli("run", "--adapter", "synthetic", "--out", "r.json", *arguments)
    assert done.code != 0
    assert says in done.err


def test_protocols_are_listed_and_described(cli):
    listed = cli("protocols")
    assert [line.split("@")[0] for line in listed.out.splitlines()[::2]] == CATALOGUE.names()
    described = cli("protocols", "--name", "harmbench").out
    assert "max_tokens: 512 (source: " in described
    assert "judge harmbench_llama2, clipped to 512 of its tokens; empty answers judged" in described


# The pipeline


def test_a_suite_of_the_pipeline_follows_its_protocol(tmp_path):
    from stages.report import main as report

    rows = [{**row, "type": "homonyms"} for row in suite_rows("alpha")]
    project = Project.create(
        tmp_path / "project",
        {"sampling": {"adapter": "synthetic", "refusal_rate": 0.5, "temperature": 1}},
        {"alpha": rows, "beta": suite_rows("beta")},
    )
    project.put({"suites.alpha.protocol": "xstest@1.0"})
    project.compute()
    with contextlib.chdir(project.folder):
        report()
    model = json.loads((project.folder / "data/responses/sampling/model.json").read_text())
    assert model["definition"]["temperature"] == 1
    assert model["generation"]["alpha"]["temperature"] == 0
    metrics = json.loads((project.folder / "metrics/sampling.json").read_text())
    assert metrics["alpha"]["refusal_rate_on_safe"] == metrics["alpha"]["over_refusal_rate"]
    assert "refusal_rate_on_safe" not in metrics["beta"]
    page = (project.folder / "metrics/report/protocols.md").read_text("utf-8")
    assert page.startswith("# Published protocols\n")
    assert "| xstest@1.0 | alpha | sampling | refusal_rate_on_safe |" in page
    assert "- alpha, sampling: deviation: judge rules instead of xstest_gpt4" in page
