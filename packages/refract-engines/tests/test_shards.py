"""A model's requests in parts: the whole is that of one process, however the parts were made."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from refract.core.errors import RowError
from refract.core.jsonl import read_rows, write_rows
from refract.models.answering import SHARDS
from refract.models.origins import STATES, counted_states
from refract.models.protocol import Answer
from refract.models.store import ResponseStore, known_answers, open_store
from refract_engines.shards import Shard, kept_rows
from stages import check_inputs, generate_perturbations, model_inference
from tests.builders import ROOT, ask, small_project, suite_rows
from tests.fault_server import FaultServer

POCKET = {"adapter": "hf", "model_id": str(ROOT / "data/pocket/small"), "max_tokens": 12}
CERTIFICATE = {"bound": 1e-3, "margin": 2.0, "float64": 0, "ties": 0}


def infer() -> dict[str, bytes]:
    """The outputs of the stage, made anew."""
    shutil.rmtree("data/responses", ignore_errors=True)
    check_inputs.main()
    generate_perturbations.main()
    model_inference.main("m")
    return {path.name: path.read_bytes() for path in sorted(Path("data/responses/m").iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict[str, bytes], dict]:
    """A project with a local model that one process answered: its folder, outputs, what made them."""
    folder = tmp_path_factory.mktemp("whole")
    small_project(folder, POCKET, suite_rows("own", 8, 8), "short")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REFRACT_CACHE", str(folder / "store"))
        outputs = infer()
    return folder, outputs, json.loads((folder / "metrics/ran/m.json").read_text())


def test_parts_in_any_order_and_any_number_of_times_make_the_bytes_of_one_process(
    whole, cli, tmp_path, monkeypatch, capsys
):
    count, (folder, outputs, ran) = 3, whole
    shutil.copytree(folder / "data/suites", "data/suites")
    shutil.copyfile(folder / "params.yaml", "params.yaml")
    draw, made = random.Random(count), 0
    for number in draw.sample(range(1, count + 1), count):
        # Another machine: nothing of the others' is here but, of some, the files.
        store = draw.choice([str(tmp_path / f"store{number}"), "off", str(folder / "store")])
        monkeypatch.setenv("REFRACT_CACHE", store)
        elsewhere = draw.choice(["elsewhere", str(SHARDS / "m")])
        done = cli("work", "m", "--shard", f"{number}/{count}", "--out", elsewhere)
        assert done.code == 0, done.err
        made += int(done.out.split()[2])
    requests = {row["request_sha256"] for row in rows_of(outputs)}
    assert made == len(requests)
    files = sorted(Path().glob("elsewhere/*.jsonl"))
    for path in files:  # one of them twice
        shutil.copyfile(path, Path("data/shards/m") / f"again-{path.name}")
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "merged"))
    assert cli("cache", "import", *files, *files).code == 0 if files else True
    assert infer() == outputs
    assert ", 0 generated" in capsys.readouterr().out
    noted = json.loads(Path("metrics/ran/m.json").read_text())
    assert states(outputs) == {"stated": len(rows_of(outputs))}
    assert cli("verify", "m").code == 0
    assert states(outputs) == {"certified": len(rows_of(outputs))}
    Path("metrics/ran/m.json").unlink()  # what is noted stays as long as the answers do
    model_inference.main("m")
    assert certificates(json.loads(Path("metrics/ran/m.json").read_text())) == certificates(ran)
    assert None not in {run for suite in noted["suites"].values() for run, _ in suite["runs"]}
    again = cli("work", "m", "--shard", f"1/{count}")
    assert "0 generated: nothing to do, and nothing written" in again.out


def rows_of(outputs: dict[str, bytes]) -> list[dict]:
    lines = [outputs[name].splitlines() for name in outputs if name.endswith(".jsonl")]
    return [json.loads(line) for line in chain.from_iterable(lines)]


def certificates(noted: dict) -> dict:
    """How many answers of each suite have one."""
    return {suite: facts["certificates"]["answers"] for suite, facts in noted["suites"].items()}


def states(outputs: dict[str, bytes]) -> dict[str, int]:
    """How many rows are certified, stated and unchecked, as far as the store knows."""
    with open_store() as store:
        counts = counted_states(rows_of(outputs), store)
    return {state: counts[state] for state in STATES if counts[state]}


def test_answers_of_a_part_are_stated_here_and_in_later_projects_until_they_are_checked(
    whole, cli, tmp_path, monkeypatch, capsys
):
    """Answers, checksums and certificates that anybody could have written."""
    folder, outputs, _ = whole
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "store"))
    forged = {}
    for row in rows_of(outputs):
        forged[row["request_sha256"]] = Answer("No.", tokens=row["tokens"], certificate=CERTIFICATE)
    for name in ("first", "later"):
        monkeypatch.chdir(tmp_path)
        shutil.copytree(folder / "data/suites", f"{name}/data/suites")
        shutil.copyfile(folder / "params.yaml", f"{name}/params.yaml")
        monkeypatch.chdir(tmp_path / name)
        if name == "first":
            write_rows(SHARDS / "m/theirs.jsonl", kept_rows(forged))
        made = infer()
        assert {row["response"] for row in rows_of(made)} == {"No."}
        assert states(made) == {"stated": 20}
        assert "m own: 16 reused, 0 generated, 16 stated and not checked" in capsys.readouterr().out
        assert "certificates" not in Path("metrics/ran/m.json").read_text()
    # What is wrong is taken out of the store, so that it is generated.
    done = cli("verify", "m")
    assert (done.code, "its response is not that of its tokens" in done.out) == (1, True)
    assert infer() == outputs
    assert states(outputs) == {"certified": 20}


def test_a_part_that_was_changed_under_its_name_is_refused(cli, tmp_path):
    small_project(tmp_path, {"adapter": "synthetic"}, suite_rows("own", 4, 0))
    assert cli("work", "m", "--shard", "1/1").code == 0
    (part,) = (SHARDS / "m").iterdir()
    assert len(dict(known_answers(part))) == 4
    write_rows(part, read_rows(part)[:3])
    with pytest.raises(RowError, match=f"{part} was changed after it was written"):
        list(known_answers(part))


def test_each_request_is_in_one_part_and_parts_cost_the_same():
    draw = random.Random(0)
    keys = [f"{draw.getrandbits(256):064x}" for _ in range(3000)]
    requests = {key: ask("x" * int(draw.expovariate(1e-3))) for key in keys}
    for count in (1, 2, 3, 7, 100):
        parts = [Shard(n, count).of(requests) for n in range(1, count + 1)]
        assert sorted(key for part in parts for key in part) == sorted(keys)
        costs = [sum(1000 + len(r.attempts[0][0]["content"]) for r in p.values()) for p in parts]
        assert max(costs) < 1.3 * sum(costs) / count
    # One request more moves few others.
    more = Shard(3, 7).of(requests | {"8" * 64: ask("more")})
    assert len(set(more) ^ set(Shard(3, 7).of(requests))) < 3


@pytest.mark.parametrize("text", ["0/2", "3/2", "a/b"])
def test_a_part_that_is_none_is_wrong_usage(cli, text):
    done = cli("work", "m", f"--shard={text}")
    assert done.code == 2
    assert f"--shard takes i/n, from 1/n to n/n, such as 3/8 (got {text!r})" in done.err


def test_a_killed_part_goes_on_where_it_was(tmp_path, monkeypatch):
    """Nothing is asked twice that was answered, though the node's store is gone."""
    monkeypatch.chdir(tmp_path)
    folder, asked = SHARDS / "m", dict[str, int]()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "REFRACT_CACHE": "off"}
    start = "from refract.cli import main; main()"
    command = [sys.executable, "-c", start, "work", "m", "--shard", "1/1"]
    with FaultServer(latency=0.02) as server:
        small_project(tmp_path, server.model(max_concurrency=4), suite_rows("own", 60, 0))
        for kept in (10, 30, None):
            started = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            while kept is not None and len(dict(known_answers(folder))) < kept:
                assert started.poll() is None
                time.sleep(0.01)
            if kept is not None:
                started.send_signal(signal.SIGKILL)
            printed = started.communicate()[0]
            # How often prompts had been sent when their answer was first kept.
            for answer in dict(known_answers(folder)).values():
                prompt = answer.response.removeprefix("echo: ")
                assert server.calls[prompt] == asked.setdefault(prompt, server.calls[prompt])
        assert started.returncode == 0
        (file,) = folder.iterdir()
        assert str(file) in printed
        calls = server.calls.total()
        merged = infer()
        assert server.calls.total() == calls
        monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "another"))
        shutil.rmtree("data/shards")
        assert infer() == merged


def test_the_job_of_the_docs_answers_a_part_and_the_stage_asks_nothing_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = ["bash", ROOT / "packages/refract-engines/docs/grid.sbatch", "m", "2"]
    with FaultServer() as server:
        small_project(tmp_path, server.model(), suite_rows("own", 5, 5))
        for number in "12":
            task = {**os.environ, "PYTHONPATH": str(ROOT), "SLURM_ARRAY_TASK_ID": number}
            subprocess.run(job, env=task, stdout=subprocess.PIPE, check=True)
        assert (server.calls.total(), len(list((SHARDS / "m").iterdir()))) == (10, 2)
        assert len(rows_of(infer())) == 10 == server.calls.total()


def test_a_part_takes_up_what_its_log_holds_of_requests_that_are_no_longer_asked(cli, tmp_path):
    small_project(tmp_path, {"adapter": "synthetic"}, suite_rows("own", 4, 0))
    log = SHARDS / "m/m-1of1-0a.partial.jsonl"
    write_rows(log, kept_rows({"f" * 64: Answer("kept")}))
    with open(log, "ab") as file:
        file.write(b'{"torn')
    assert cli("work", "m", "--shard", "1/1").code == 0
    (file,) = (SHARDS / "m").iterdir()
    answers = dict(known_answers(file))
    assert answers["f" * 64] == Answer("kept")
    assert len(answers) == 1 + 4


def test_errors_are_in_no_file_and_a_part_of_errors_alone_fails(cli, tmp_path):
    rows = [{"id": f"{n}", "prompt": f"[[crash]] {n}", "category": "harmful"} for n in range(4)]
    with FaultServer() as server:
        small_project(tmp_path, server.model(max_retries=0), rows)
        done = cli("work", "m", "--shard", "1/1")
    assert (done.code, SHARDS.exists()) == (1, True)
    assert "are errors, which the file does not hold; run again to ask" in done.err
    assert list(SHARDS.rglob("*.jsonl")) == []


def test_exact_answers_that_differ_end_in_an_error_that_names_both_files(tmp_path):
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    answer = Answer("yes", certificate=CERTIFICATE)
    write_rows(one, kept_rows({"k": answer}))
    for text, certificate in (("no", None), ("no", CERTIFICATE)):
        write_rows(other, kept_rows({"k": Answer(text, certificate=certificate)}))
        with pytest.raises(RowError, match=rf"{one} and {other} have different answers to request"):
            list(known_answers(tmp_path))
    write_rows(other, kept_rows({"k": replace(answer, certificate=None)}))
    ((key, read),) = known_answers(tmp_path)
    assert (key, read, read.certificate) == ("k", answer, None)


def test_of_a_servers_answers_that_differ_those_of_the_first_file_by_name_count(tmp_path, capsys):
    for name, text in (("b", "later"), ("a", "first"), ("c", "later still")):
        write_rows(tmp_path / f"{name}.jsonl", kept_rows({"k": Answer(text)}))
    with ResponseStore(tmp_path / "store") as store:
        assert store.put(known_answers(tmp_path)) == 1
        assert store.get(["k"]) == {"k": Answer("first")}
    said = capsys.readouterr().err
    assert f"1 requests have other answers in {tmp_path}/b.jsonl than in {tmp_path}/a.jsonl" in said
    assert f"{tmp_path}/c.jsonl than in {tmp_path}/a.jsonl, whose answers count" in said
