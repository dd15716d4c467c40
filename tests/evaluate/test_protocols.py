"""Published protocols: what they state, how their numbers are counted, one command, and the pipeline."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from refract.core.errors import ParamsError, UsageError
from refract.core.jsonl import read_rows, write_rows
from refract.core.types import given_response
from refract.evaluate.protocol_run import protocol_suite
from refract.judges.cases import labelled, unjudged
from refract.judges.published import names as published_judges
from refract.models import generation_settings, open_model, with_fixed
from refract.rates.counting import Counted
from refract.rates.protocol_rates import protocol_table
from refract.results.table_rows import rate_to_row
from refract.suites.importing import importer_names
from refract.suites.protocols.catalogue import (
    Chosen,
    Generation,
    Protocol,
    find_part,
    find_protocol,
    names,
    parts_of,
)
from refract.suites.protocols.deviations import (
    generation_deviations,
    judging_deviations,
    unknown_notes,
)
from tests.builders import Project, suite_rows
from tests.fault_server import FaultServer
from tests.outside import outside

POCKET = Path(__file__).parents[2] / "data/pocket/small"
STATED = {*Generation.model_fields, "suite", "judge", "clip", "empty", "partial", "measures"}
ALL = [part for name in names() for part in parts_of(*find_protocol(name))]


def protocol(**changes) -> Protocol:
    """A small protocol."""
    part = {
        "suite": {"kind": "generic", "page": "nowhere", "columns": {"prompt": "text"}},
        "judge": "wildguard",
        "empty": "judged",
        "partial": "refused",
        "measures": {"rate": {"counts": "complied", "over": "all"}},
    } | changes.pop("part", {})
    return Protocol.model_validate(
        {
            "version": "1.0",
            "of": "A test",
            "generation": {"max_tokens": 9, "temperature": 0},
            "parts": {"one": part},
            "sources": {},
        }
        | changes
    )


def chosen(**changes) -> Chosen:
    return Chosen("small", "one", protocol(**changes))


# What they state


@pytest.mark.parametrize("name", names())
def test_each_field_has_its_source_and_what_is_unknown_is_null(name):
    _, found = find_protocol(name)
    assert set(found.sources) == STATED
    for field in set(found.unknown) & set(Generation.model_fields):
        assert getattr(found.generation, field) is None
    for field in ("max_tokens", "temperature"):
        assert (getattr(found.generation, field) is None) == (field in found.unknown)


@pytest.mark.parametrize("part", ALL, ids=lambda part: part.label)
def test_judges_and_kinds_of_files_are_those_that_there_are(part):
    assert part.own.judge is None or part.own.judge in published_judges()
    assert part.own.suite.kind in importer_names()
    assert (part.own.judge is None) == ("judge" in part.protocol.unknown)


def test_parts_of_one_protocol_agree_on_each_judge():
    for name in names():
        own: dict[str, object] = {}
        for part in parts_of(*find_protocol(name)):
            if part.own.judge:
                assert own.setdefault(part.own.judge, part.judge()) == part.judge()


def test_another_version_is_not_taken_for_this_one():
    with pytest.raises(ParamsError, match=r"version 1.0 alone \(got '2.0'\); name harmbench@1.0"):
        find_protocol("harmbench@2.0")


def test_a_part_of_several_has_to_be_named():
    with pytest.raises(ParamsError, match=r"name one, such as olmo3_safety@1.0/harmbench"):
        find_part("olmo3_safety@1.0", "suites.x: protocol")
    assert find_part("olmo3_safety@1.0/xstest", "").label == "olmo3_safety@1.0/xstest"


# Generation


def test_a_protocol_goes_before_the_models_definition_and_the_user_before_both():
    own = {"adapter": "hf", "model_id": "m", "max_tokens": 64, "top_p": 0.9, "device": "cpu"}
    fixed = find_part("harmbench@1.0", "").fixed()
    assert with_fixed("m", own, fixed) == {
        "adapter": "hf",
        "model_id": "m",
        "max_tokens": 512,
        "temperature": 0,
        "chat_template": True,
        "device": "cpu",
    }


def test_what_the_protocol_leaves_unknown_is_the_models_own():
    part = find_part("sorry_bench@1.0", "")
    own = {"adapter": "hf", "model_id": "m", "max_tokens": 64}
    assert with_fixed("m", own, part.fixed())["max_tokens"] == 64
    assert unknown_notes(part, generation_settings("m", own)) == [
        "max_tokens: 64 was used",
        "temperature: 0.0 was used",
        "top_p: 1.0 was used",
        "system_prompt: none was used",
    ]


def test_each_part_may_have_its_own_generation():
    assert find_part("olmo3_safety@1.0/strongreject", "").fixed()["temperature"] == 0.7
    assert find_part("olmo3_safety@1.0/xstest", "").fixed()["temperature"] == 0.6


def test_a_system_prompt_by_reference_reaches_the_adapter_as_one():
    part = find_part("jailbreakbench_llama2@1.0", "")
    definition = with_fixed("m", {"adapter": "hf", "model_id": "m"}, part.fixed())
    model = open_model("m", definition)
    digest = "cda5d1f1710b2195c05075e118c2dc9499e5c5044a45c8cebbbac3d00632bfd4"
    assert model.settings.system_prompt.sha256 == digest
    assert generation_deviations(part, generation_settings("m", definition), "hf", 1) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"max_tokens": 256}, ["max_tokens 256 instead of 512"]),
        ({"temperature": 0.7}, ["temperature 0.7 instead of 0"]),
        ({"top_p": 0.5}, ["top_p 0.5 instead of none"]),
        ({"chat_template": False}, ["chat_template False instead of True"]),
        ({"system_prompt": "Be brief."}, ["system_prompt 'Be brief.' instead of none"]),
        ({"prefill": "Sure"}, ["prefill 'Sure' instead of none"]),
        ({"device": "cpu"}, []),
    ],
)
def test_what_a_run_changes_is_a_deviation(changed, says):
    part = find_part("harmbench@1.0", "")
    own = with_fixed("m", {"adapter": "hf", "model_id": "m"}, part.fixed()) | changed
    assert generation_deviations(part, generation_settings("m", own), "hf", 1) == says


def test_a_model_that_cannot_be_told_says_so():
    part = find_part("harmbench@1.0", "")
    held = generation_settings("m", {"adapter": "synthetic"})
    assert generation_deviations(part, held, "synthetic", 2) == [
        "max_tokens 512 not set: the adapter synthetic has no such setting",
        "samples 2 instead of 1",
    ]


@pytest.mark.parametrize(
    ("judge", "definition", "says"),
    [
        ("harmbench_llama2", {"kind": "published", "reading": "paper"}, []),
        ("x", {"kind": "published", "judge": "harmbench_llama2", "reading": "paper"}, []),
        (
            "harmbench_llama2",
            {"kind": "published"},
            ["the judge's reading strict instead of paper"],
        ),
        (
            "harmbench_llama2",
            {"kind": "published", "reading": "paper", "clip": 0, "judged_text": "protected"},
            [
                "the judge's clip 0 instead of 512",
                "the judge's judged_text protected instead of raw",
            ],
        ),
        ("rules", {"kind": "rules"}, ["judge rules instead of harmbench_llama2"]),
    ],
)
def test_another_judge_or_another_use_of_it_is_a_deviation(judge, definition, says):
    part = find_part("harmbench@1.0", "")
    assert judging_deviations(part, judge, definition, None) == says


# Counting

ROWS = [
    {"id": str(n), "prompt": "?", "category": category, "area": area}
    for n, (category, area) in enumerate(
        [("harmful", "a"), ("harmful", "a"), ("harmful", "b"), ("helpful", "b"), ("helpful", "b")]
    )
]


def counted(verdicts, part=None, answers=None, family="refusal", **measure):
    """The table of one measure over five answers."""
    given = measure.pop("measure", {"counts": "complied", "over": "judged"} | measure)
    own = chosen(part={"measures": {"rate": given}} | (part or {}))
    answers = answers or ["text"] * len(ROWS)
    responses = {
        row["id"]: given_response(row["id"], text) for row, text in zip(ROWS, answers, strict=True)
    }
    found = {row["id"]: {"j": v} for row, v in zip(ROWS, verdicts, strict=True)}
    outcomes = {
        row["id"]: Counted((v["label"] or "unjudged"), row["id"])
        for row, v in zip(ROWS, verdicts, strict=True)
    }
    rates = protocol_table(own, ROWS, responses, found, "j", family, outcomes)
    return [rate_to_row(rate) for rate in rates]


def rate(*arguments, **settings):
    first = counted(*arguments, **settings)[0]
    return first["rate"], first["successes"], first["n"]


YES, NO, HALF = labelled("compliance"), labelled("refusal"), labelled("partial_refusal")
LOST = unjudged("the judge failed")


def test_answers_without_a_verdict_are_out_of_the_denominator_or_count_nothing():
    verdicts = [YES, YES, NO, LOST, NO]
    assert rate(verdicts, over="judged") == (0.5, 2, 4)
    assert rate(verdicts, over="all") == (0.4, 2, 5)
    for over in ("judged", "all"):
        row = counted(verdicts, over=over)[0]
        assert (row["excluded_unjudged"], row["bound_low"], row["bound_high"]) == (1, 0.4, 0.6)


def test_a_partial_refusal_is_what_the_protocol_says():
    verdicts = [HALF, HALF, NO, YES, YES]
    found = {
        partial: rate(verdicts, {"partial": partial})
        for partial in ("refused", "complied", "neither")
    }
    assert found == {"refused": (0.4, 2, 5), "complied": (0.8, 4, 5), "neither": (0.4, 2, 5)}
    assert rate(verdicts, {"partial": "neither"}, counts="refused") == (0.2, 1, 5)
    assert rate(verdicts, counts="partial_refusal") == (0.4, 2, 5)
    assert rate(verdicts, counts="full_refusal") == (0.2, 1, 5)


def test_an_empty_answer_is_what_the_protocol_says():
    verdicts, answers = [YES, NO, unjudged(), NO, NO], ["text", "text", " ", "text", "text"]
    found = {
        empty: rate(verdicts, {"empty": empty}, answers)
        for empty in ("refused", "complied", "unjudged")
    }
    assert found == {"refused": (0.2, 1, 5), "complied": (0.4, 2, 5), "unjudged": (0.25, 1, 4)}


def test_harm_counts_like_compliance():
    verdicts = [labelled("harmful"), *[labelled("harmless")] * 4]
    assert rate(verdicts, family="harmful") == (0.2, 1, 5)


def test_right_is_refusing_harmful_prompts_and_helping_with_the_others():
    assert rate([NO, NO, YES, YES, NO], counts="right") == (0.6, 3, 5)


def test_ratings_have_a_mean_and_labels_of_other_judges_are_0_and_1():
    rated = [{**labelled("compliance"), "score": score} for score in (0.0, 0.25, 0.5, 1.0)]
    rated.append({**labelled("refusal"), "score": 0.0})
    assert rate(rated, counts="score", family="refusal_score")[0] == 0.35
    alone = [{**unjudged(), "score": score} for score in (0.0, 0.25, 0.5, 1.0, 0.0)]
    assert rate(alone, counts="score", family="score")[0] == 0.35
    assert rate(alone, counts="right", family="score") == (0.8, 4, 5)
    assert rate(rated, counts="score", family="refusal") == (0.8, 4, 5)


def test_groups_and_their_macro_average_have_rows():
    table = counted([YES, YES, YES, NO, NO], by="area", macro=True)
    assert [(row["measure"], row["field"], row["value"], row["rate"]) for row in table] == [
        ("rate", "", "", 0.6),
        ("rate_macro", "", "", 0.6667),
        ("rate", "area", "a", 1.0),
        ("rate", "area", "b", 0.3333),
    ]
    assert table[1]["low"] < 0.6667 < table[1]["high"]


def test_only_the_rows_that_belong_to_it_are_counted():
    where = {"category": ["harmful"]}
    assert rate([YES, NO, YES, YES, YES], where=where) == (0.6667, 2, 3)
    suite = {"kind": "generic", "page": "nowhere", "where": {"area": ["b"]}}
    assert rate([YES, NO, YES, YES, YES], {"suite": suite}, where=where) == (1.0, 1, 1)


# Files of prompts


@pytest.fixture
def page():
    """A publisher's page on loopback: what it serves, and its address."""
    content = b"text\nHow do I whistle?\nHow do I sing?\n"

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield content, f"http://127.0.0.1:{server.server_port}/prompts.csv"
    server.shutdown()
    thread.join()
    server.server_close()


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


def test_another_file_of_the_users_is_a_deviation(tmp_path):
    (tmp_path / "mine.csv").write_text("text\nHow do I hum?\n")
    suite, deviations = protocol_suite(with_file(None, "0" * 64), tmp_path / "mine.csv")
    assert deviations == [
        f"suite mine.csv (SHA-256 {suite.sha256[:16]}…) instead of the publisher's "
        "(0000000000000000…)"
    ]


def test_a_suite_that_was_imported_before_is_taken_as_it_is(tmp_path):
    write_rows(tmp_path / "mine.jsonl", ROWS)
    suite, deviations = protocol_suite(with_file(None), tmp_path / "mine.jsonl")
    assert suite.rows == ROWS
    assert deviations == ["suite mine.jsonl: not checked against the publisher's file"]


def test_a_file_that_nobody_may_fetch_is_asked_for_with_its_page():
    with pytest.raises(UsageError, match="get them from its page and name the file with --suite"):
        protocol_suite(with_file(None), None)


def test_the_files_that_publishers_ship_are_read():
    for name, file in (
        ("harmbench", "harmbench_behaviors_text_all.csv"),
        ("jailbreakbench", "jailbreakbench_harmful_behaviors.csv"),
        ("strongreject", "strongreject_dataset.csv"),
        ("xstest", "xstest/xstest_prompts.csv"),
        ("do_not_answer", "do_not_answer_en.csv"),
    ):
        suite, deviations = protocol_suite(
            find_part(f"{name}@1.0", ""), outside(f"data/raw/{file}")
        )
        assert deviations == []
        assert (
            len(suite.rows)
            == {
                "harmbench": 300,
                "jailbreakbench": 100,
                "strongreject": 313,
                "xstest": 450,
                "do_not_answer": 939,
            }[name]
        )


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
    done = cli(
        *("run", "--protocol", "xstest", "--adapter", "hf", "--model-id", POCKET),
        *("--suite", xstest, "--judge", "rules", "--max-tokens", 8, "--out", "r.json"),
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
    assert "refract run --protocol xstest@1.0 --adapter hf" in again.out
    assert "--set max_tokens=8" in again.out
    assert cli("reproduce", "r.json", "--exec").out.strip().endswith("byte-identical")


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
    assert "refract judges fetch jailbreakbench" in done.err
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
        judges = {"mine": {"kind": "published", "judge": entry}}
        project = {
            "seed": 0,
            "grid": {"models": ["m"], "suites": ["s"]},
            "models": {"m": {"adapter": "synthetic"}},
            "suites": {"s": {"file": "s.jsonl", "judges": ["mine"]}},
        }
        Path("params.yaml").write_text(json.dumps(project | {"judges": judges}))
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
    for part in parts_of(*find_protocol("olmo3_safety")):
        write_rows(
            Path(f"{part.part}.jsonl"),
            [
                {**row, "prompt_harm_label": "harmful", "subsample": True}
                for row in read_rows(xstest)
            ],
        )
        suites += ["--suite", f"{part.part}={part.part}.jsonl"]
    done = cli(
        *("run", "--protocol", "olmo3_safety@1.0", "--adapter", "synthetic", "--judge", "rules"),
        *(*suites, "--out", "r.json"),
    )
    assert done.code == 0, done.err
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
        (["--protocol", "olmo3_safety", "--suite", "x=f"], "has no part 'x'"),
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
    assert [line.split("@")[0] for line in listed.out.splitlines()[::2]] == names()
    described = cli("protocols", "--name", "harmbench").out
    assert "max_tokens: 512 (source: " in described
    assert "judge harmbench_llama2, clipped to 512 of its tokens; empty answers judged" in described


# The pipeline


def test_a_suite_of_the_pipeline_follows_its_protocol(tmp_path):
    rows = [{**row, "type": "homonyms"} for row in suite_rows("alpha")]
    project = Project.create(
        tmp_path / "project",
        {"sampling": {"adapter": "synthetic", "refusal_rate": 0.5, "temperature": 1}},
        {"alpha": rows, "beta": suite_rows("beta")},
    )
    params = project.params()
    params["suites"]["alpha"]["protocol"] = "xstest@1.0"
    project.set_params(params)
    project.repro()
    model = json.loads((project.folder / "data/responses/sampling/model.json").read_text())
    assert model["definition"]["temperature"] == 1
    assert model["generation"]["alpha"]["temperature"] == 0
    metrics = json.loads((project.folder / "metrics/sampling.json").read_text())
    assert metrics["alpha"]["refusal_rate_on_safe"] == metrics["alpha"]["over_refusal_rate"]
    assert "refusal_rate_on_safe" not in metrics["beta"]
    report = (project.folder / "metrics/report/protocols.md").read_text("utf-8")
    assert report.startswith("# Published protocols\n")
    assert "| xstest@1.0 | alpha | sampling | refusal_rate_on_safe |" in report
    assert "- alpha, sampling: deviation: judge rules instead of xstest_gpt4" in report
