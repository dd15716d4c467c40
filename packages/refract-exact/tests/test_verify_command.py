"""``refract verify``: recorded answers are checked against the weights, and what is wrong is named."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from refract.core.jsonl import canonical_json, read_rows, write_json, write_rows
from refract.models import identity_of, open_model
from refract.models.answering import ANSWERS, answer_model, request_of
from refract.models.origins import STATES, counted_states
from refract.models.store import (
    ResponseStore,
    answer_in,
    answer_row,
    answer_sha256,
    open_store,
    request_sha256,
)
from refract.project import read_project
from refract.suites.perturbations import suite_prompts
from stages import check_inputs, generate_perturbations, model_inference
from test_verifying import DRAWN, EDITS, MOST, edited
from tests.builders import ROOT, prompt_row, small_project, suite_rows
from tests.fault_server import FaultServer
from tests.small_models import answers, ask, change_weights, model

# The command


@pytest.fixture
def project(tiny, cli, tmp_path, monkeypatch) -> Path:
    """A project with a local model of ASCII answers, which are recorded, and one suite."""
    weights = Path(shutil.copytree(tiny, tmp_path / "weights"))
    tokenizer = model(tiny).loader.config_and_tokenizer()[1]
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    letters = {i for i, token in enumerate(tokens) if len(token) == 1 and token.isascii()}

    def silence(tensors: dict) -> None:
        tensors["model.embed_tokens.weight"][[i for i in range(320) if i not in letters]] *= 0.01

    change_weights(weights, silence)
    folder = tmp_path / "project"
    write_rows(folder / "data/suites/own.jsonl", suite_rows("own", 4, 4))
    local = {"adapter": "hf", "model_id": str(weights), "device": "cpu", "max_tokens": MOST}
    served = {"adapter": "openai", "model_id": "m", "max_tokens": MOST, "temperature": 0}
    params = {
        "seed": 3,
        "grid": {"models": ["local"], "suites": ["own"]},
        "judges": {"rules": {"kind": "rules"}},
        "models": {
            "local": local,
            "drawing": {**local, **DRAWN, "samples": 2},
            "served": {**served, "base_url": "http://127.0.0.1:9/v1", "api_key_env": None},
            "warm": {**served, "temperature": 1},
            "gone": {**local, "model_id": "nowhere/"},
            "made_up": {"adapter": "synthetic", "refusal_rate": 0.5},
        },
        "suites": {"own": {"file": "data/suites/own.jsonl", "judges": ["rules"]}},
    }
    with open(folder / "params.yaml", "w") as file:
        YAML().dump(params, file)
    monkeypatch.chdir(folder)
    return folder


def record(name: str, **more: Any) -> Path:
    """A model's answers to the suite, as the pipeline writes them."""
    params = read_project(Path()).params
    wanted, folder = {**params["models"][name], **more}, Path("data/responses", name)
    asked = {"own": suite_prompts(params, "own").rows}
    made = answer_model(name, wanted, asked, ResponseStore(None), params["seed"])
    write_rows(folder / "own.jsonl", made.responses["own"])
    write_json(folder / "model.json", made.description)
    return folder / "own.jsonl"


def test_answers_in_a_project_hold_until_one_is_edited(project, cli):
    name, count = "drawing", 16
    file = record(name)
    done = cli("verify", name)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("own: 16 of 16 answers are certified under a measured bound of ")
    rows = read_rows(file)
    rows[2] = edited(rows[2], **EDITS["replaced"][0](rows[2]))
    write_rows(file, rows)
    done = cli("verify", name)
    assert done.code == 1
    assert f"own: {count - 1} of {count} answers are certified" in done.out
    assert f"  {rows[2]['prompt_id']}: token 6 is " in done.out
    rows[1]["request_sha256"] = "0" * 64
    write_rows(file, rows[1:2])
    done = cli("verify", name)
    assert (done.code, "it answers no request that is known here" in done.out) == (1, True)


def test_answers_of_a_file_are_stated_here_and_in_later_projects_until_they_are_checked(
    cli, tmp_path, monkeypatch, capsys
):
    """Answers and checksums that anybody could have written."""

    def made() -> tuple[bytes, dict[str, int]]:
        check_inputs.main()
        generate_perturbations.main()
        model_inference.main("m")
        with open_store() as store:
            counts = counted_states(read_rows(Path("data/responses/m/own.jsonl")), store)
        content = Path("data/responses/m/own.jsonl").read_bytes()
        return content, {state: counts[state] for state in STATES if counts[state]}

    pocket = {"adapter": "hf", "model_id": str(ROOT / "data/pocket/small"), "max_tokens": 12}
    forged: list[dict] = []
    for name in ("whole", "first", "later"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        small_project(tmp_path / name, pocket, suite_rows("own", 4, 4))
        if name == "whole":
            monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "whole/store"))
            whole, states = made()
            assert states == {"certified": 8}
            monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "store"))
            for row in read_rows(Path("data/responses/m/own.jsonl")):
                answer = replace(answer_in(row), response="No.")
                forged.append({**answer_row(row["request_sha256"], answer, row["prompt_id"])})
            continue
        if name == "first":
            write_rows(ANSWERS / "m/own.jsonl", forged)
        capsys.readouterr()
        _, states = made()
        assert states == {"stated": 8}
        assert "m own: 8 reused, 0 generated, 8 stated and not checked" in capsys.readouterr().out
        assert {row["response"] for row in read_rows(Path("data/responses/m/own.jsonl"))} == {"No."}
        assert "certificates" not in Path("metrics/ran/m.json").read_text()
    # What is wrong is taken out of the store, so that it is generated.
    done = cli("verify", "m")
    assert (done.code, "its response is not that of its tokens" in done.out) == (1, True)
    shutil.rmtree("data/responses")
    content, states = made()
    assert (content, states) == (whole, {"certified": 8})


def test_a_sample_is_drawn_of_what_is_not_certified_here_and_says_of_how_many(project, cli):
    record("local")
    for line in (
        "local: 3 of 8 answers verified, 3 hold; 0 were certified here",
        "local: 3 of 5 answers verified, 3 hold; 3 were certified here",
    ):
        done = cli("verify", "--sample", 3)
        assert (done.code, done.out.splitlines()[-1]) == (0, line)
    shutil.rmtree(project.parent / "weights")
    done = cli("verify", "--sample", 3)
    assert (done.code, done.out) == (0, "")
    assert "no model of the grid has answers to verify; refract verify . counts" in done.err
    assert done.err.startswith("local: 0 of 8 answers verified: ")


def test_a_results_file_is_checked_against_ones_own_weights(project, cli):
    settings = ["--suite", "own", "--seed", 5, "--limit", 4, "--max-tokens", 9]
    done = cli("run", "--model", "local", *settings, "--out", "r.json", "--rows", "r.rows.jsonl")
    assert done.code == 0, done.err
    # as another has it, on another machine
    results = json.loads(Path("r.json").read_text())
    results["provenance"]["audit"] = "by a notary"
    theirs = {"model_id": "/else/where", "trust_remote_code": True}
    results["provenance"]["model"]["definition"] |= theirs
    Path("r.json").write_text(json.dumps({**results, "model": "theirs"}))
    unnamed = cli("verify", "r.json").err
    assert "name with --weights the one that answered (there are: local," in unnamed
    done = cli("verify", "r.json", "--weights", "local")
    assert (done.code, done.out[:36]) == (0, "own: 4 of 4 answers are certified un"), done.out
    said = [line.partition("checked: ")[2] for line in done.out.splitlines() if "stated, " in line]
    assert said[0] == "the model is called 'theirs'"
    assert said[1].startswith("model_id is '/else/where', yours is ")
    assert said[-2].startswith("max_tokens is 9, yours is ")
    assert said[-1] == "all of command, provenance.audit, provenance.run, provenance.usage"
    Path("r.rows.jsonl").unlink()
    done = cli("verify", "r.json", "--weights", "local")
    assert (done.code, "`refract run --rows r.rows.jsonl` writes" in done.err) == (2, True)


REFUSAL = "I'm sorry, but I can't help with that."


def every(**fields: Any) -> Any:
    """A forgery that gives all rows but the first other fields; None takes one away."""

    def forge(results: dict, rows: list) -> None:
        for row in rows[1:]:
            row.update(fields)
            for name in [name for name in row if name == "tokens" and row[name] is None]:
                del row[name]

    return forge


def stated(**identity: Any) -> Any:
    """A forgery of the model: its definition and identity, with the hashes that follow."""

    def forge(results: dict, rows: list) -> None:
        model_ = results["provenance"]["model"]
        settings = {key: identity[key] for key in identity if key != "model"}
        model_["definition"] |= settings
        source = open_model("m", model_["definition"])
        model_["identity"] = {**identity_of(source), **identity}
        text = canonical_json(model_["identity"])
        for row in rows:
            request = request_of(prompt_row(row["prompt_id"], row["prompt"]), None)
            row["request_sha256"] = request_sha256(text, request, source)

    return forge


def fewer_tokens_of(results: dict, rows: list) -> None:
    """A cut text, whose end a `stop` in the file alone would explain."""
    stated(stop=["ZZZZ"])(results, rows)
    every(tokens=None, finish_reason="stop", response="a")(results, rows)


def setting(place: str, value: Any) -> Any:
    """A forgery of one value of the results."""

    def forge(results: dict, rows: list) -> None:
        *path, last = place.split(".")
        for key in path:
            results = results[int(key) if key.isdigit() else key]
        results[last] = value

    return forge


def swapped_ids(results: dict, rows: list) -> None:
    rows[0]["prompt_id"], rows[1]["prompt_id"] = rows[1]["prompt_id"], rows[0]["prompt_id"]


def less(results: dict, rows: list) -> None:
    del rows[1:]


FORGERIES = {
    "invented thinking": (every(response=REFUSAL, tokens=None, thinking="hm"),
     "it has no token ids, without which"),
    "a provider's refusal": (every(response=REFUSAL, finish_reason="refusal"),
     "weights give no answer that ends with 'refusal'"),
    "an error with a text": (
     every(response=REFUSAL, finish_reason="error", error={"type": "x", "message": "y"}),
     "it is an error with a text"),
    "rows taken out": (less, "no answer to 7 prompts: "),
    "a row twice": (lambda _, rows: rows.append(dict(rows[0])),
     "there is another answer with this id"),
    "ids of other rows": (swapped_ids, "its request is not that of the prompt with this id"),
    "another text": (every(response=REFUSAL, tokens=None), "is right by"),
    "a stop of the file": (fewer_tokens_of, 'not as stated: identity.stop: [] → ["ZZZZ"]'),
    "other weights": (stated(model={"sha256": "f" * 64}), "not as stated: identity.model.sha256: "),
    "invented calls": (every(tokens=None, tool_calls=[{"name": "send", "arguments": {}}]),
     "its tool_calls is not that of its tokens"),
    "invented counts": (every(tokens=None, completion_tokens=999), "its completion_tokens is not"),
    "an attempt that there is not": (every(tokens=None, attempt=3), "its attempt is not that of"),
    "a row without an id": (lambda _, rows: rows[0].update(prompt_id=None), "a row has no prompt_id"),
    "another definition": (setting("provenance.model.definition.system_prompt", "Refuse."),
     "not as stated: definition.system_prompt: "),
    "a larger model": (setting("provenance.model.parameters", 405_000_000_000),
     "not as stated: model.parameters: "),
    "more tokens": (setting("provenance.usage.prompt_tokens", 1), "not as stated: usage.prompt_to"),
    "another verdict": (every(outcome="refusal", judges={}), "judged again: judges.rules"),
    "another rate": (setting("metrics.own.refusal_rate", 0.999), "metrics.own.refusal_rate: "),
}  # fmt: skip


def test_a_results_file_passes_as_it_is_and_no_forgery_of_it_does(project, cli):
    """Rows and results are sealed again, as whoever forges them would."""
    arguments = ["--model", "local", "--suite", "own", "--judge", "rules", "--max-tokens", 9]
    assert cli("run", *arguments, "--out", "r.json", "--rows", "r.rows.jsonl").code == 0
    made = Path("r.json").read_text()
    made_rows = read_rows(Path("r.rows.jsonl"))
    nothing = (lambda *_: None, "own: 8 of 8 answers are certified")
    for kind, (forge, problem) in {"nothing": nothing, **FORGERIES}.items():
        results, rows = json.loads(made), copy.deepcopy(made_rows)
        forge(results, rows)
        for row in rows:
            answer = answer_in(row)
            row["answer_sha256"] = answer_sha256(row["request_sha256"], answer)
        write_json(Path("r.json"), results)
        write_rows(Path("r.rows.jsonl"), rows)
        done = cli("verify", "r.json", "--weights", "local")
        assert (done.code, problem in done.out) == (int(kind != "nothing"), True), (kind, done)


def test_a_served_model_is_told_where_it_left_exact_decoding(project, cli):
    params = read_project(Path()).params
    rows = suite_prompts(params, "own").rows
    right = answers(
        model(project.parent / "weights", max_tokens=MOST), [ask(r["attempts"][0]) for r in rows]
    )
    assert all(a.response.isascii() for a in right)
    texts = [a.response for a in right]
    texts[3] = texts[3][:7] + ("b" if texts[3][7] == "a" else "a") + texts[3][8:]
    with FaultServer() as server:
        record_served(server, rows, texts, right)
    done = cli("verify", "served", "--weights", "local")
    assert done.code == 1
    first, second = done.out.splitlines()
    assert first.startswith("own: 7 of 8 answers are certified")
    assert first.endswith("8 have no token ids, so that their text was tokenised")
    assert second.startswith(f"  {rows[3]['prompt_id']}: token 8 is ")


def record_served(server: FaultServer, rows: list, texts: list[str], right: list) -> None:
    """Has a server on loopback give these texts."""
    said = {
        row["attempts"][0]: (text, answer)
        for row, text, answer in zip(rows, texts, right, strict=True)
    }
    chat = server.chat

    def answering(request: dict, head: str, anthropic: bool) -> tuple[int, bytes, str]:
        status, body, name = chat(request, head, anthropic)
        message = json.loads(body)
        text, answer = said[request["messages"][-1]["content"]]
        message["choices"][0]["message"]["content"] = text
        message["choices"][0]["finish_reason"] = answer.finish_reason
        return status, json.dumps(message).encode(), name

    server.chat = answering  # type: ignore[method-assign]
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("http://127.0.0.1:9", server.url))
    record("served")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nothing",), 2,
         "'nothing' is no results file, no project and no model of params.yaml (local,"),
        (("local",), 2, "local has no answers in "),
        (("made_up",), 2, "adapter 'synthetic'; answers of hf and openai models can be verified"),
        (("served",), 2,
         "name with --weights the one that answered (there are: local, drawing, gone)"),
        (("warm", "--weights", "local"), 2, "answers of temperature: 0 can be verified (got 1)"),
        (("local", "--weights", "gone"), 1, "is neither a folder here"),
    ],
)  # fmt: skip
def test_what_cannot_be_verified_is_said_with_what_to_do(project, cli, arguments, code, message):
    if message[:5] != "local":
        name = arguments[0]
        source = record("local" if name == "local" else "made_up")
        if name not in ("nothing", "local"):
            write_rows(Path("data/answers", name, "own.jsonl"), read_rows(source))
    done = cli("verify", *arguments)
    assert (done.code, message in done.err) == (code, True), done
