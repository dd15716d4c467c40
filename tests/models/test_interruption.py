"""A run that is killed at any moment loses what is not in the store yet, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from ruamel.yaml import YAML

from refract.core.jsonl import read_rows, write_rows
from refract.models.store import ResponseStore
from tests.builders import ROOT, SMALL_PARAMS, prompt_row
from tests.fault_server import FaultServer

PROMPTS, CONCURRENCY = 60, 4


def test_kills_change_no_byte_and_repeat_only_what_was_not_stored(tmp_path):
    rows = [prompt_row(str(number)) for number in range(PROMPTS)]
    draw = random.Random(1)
    outputs = []
    with FaultServer(latency=0.02) as server:
        model = server.model(max_concurrency=CONCURRENCY)
        params = {**SMALL_PARAMS, "models": {"m": model}}
        for name, kills in (("undisturbed", 0), ("killed", 1)):
            folder = tmp_path / name
            write_rows(folder / "data/prompts/s.jsonl", rows)
            YAML().dump(params, folder / "params.yaml")
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            environment["REFRACT_CACHE"] = str(tmp_path / f"{name}-store")
            # How often prompts were sent whose answer is stored.
            asked: dict[str, int] = {}
            for kill in range(kills + 1):
                stage = [sys.executable, "-m", "stages.model_inference", "m"]
                started = subprocess.Popen(stage, cwd=folder, env=environment, stdout=-3)
                if kill < kills:
                    wanted = server.calls.total() + draw.randrange(1, PROMPTS // 2)
                    while started.poll() is None and server.calls.total() < wanted:
                        time.sleep(0.002)
                    started.send_signal(signal.SIGKILL)
                started.wait()
                with ResponseStore(tmp_path / f"{name}-store/responses.sqlite") as store:
                    records = store._db.execute("SELECT answer FROM answers").fetchall()
                for (record,) in records:
                    prompt = json.loads(record)[1].removeprefix("echo: ")
                    calls = server.calls[prompt]
                    assert 0 < asked.setdefault(prompt, calls) == calls
            assert started.returncode == 0
            assert len(asked) == PROMPTS
            outputs.append((folder / "data/responses/m/s.jsonl").read_bytes())
    assert outputs[0] == outputs[1]
    assert len(read_rows(tmp_path / "killed/data/responses/m/s.jsonl")) == PROMPTS


# The calls under way are answered after the first Ctrl-C, or never: then a second one ends them.
@pytest.mark.parametrize(
    ("number", "answers", "more"),
    [
        (signal.SIGINT, True, CONCURRENCY),
        (signal.SIGTERM, True, CONCURRENCY),
        (signal.SIGINT, False, 0),
    ],
)
def test_an_interrupted_run_keeps_what_calls_under_way_bring_and_says_what_is_stored(
    tmp_path, number, answers, more
):
    answered = PROMPTS // 2
    rows = [prompt_row(str(place)) for place in range(answered)]
    rows += [prompt_row(str(place), f"[[held]] {place}") for place in range(answered, PROMPTS)]
    released = threading.Event()
    with FaultServer(released=released.is_set) as server:
        params = {**SMALL_PARAMS, "models": {"m": server.model(max_concurrency=CONCURRENCY)}}
        write_rows(tmp_path / "data/prompts/s.jsonl", rows)
        YAML().dump(params, tmp_path / "params.yaml")
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "REFRACT_CACHE": str(tmp_path / "store"),
        }
        stage = [sys.executable, "-m", "stages.model_inference", "m"]
        started = subprocess.Popen(
            stage,
            cwd=tmp_path,
            env=environment,
            stdout=-3,
            stderr=-1,
            text=True,
            # Shells start what runs in the background without this signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        path = tmp_path / "store/responses.sqlite"
        ResponseStore(path).__exit__()  # makes the file
        with contextlib.closing(sqlite3.connect(path)) as store:
            count = "SELECT count(*) FROM answers"
            while started.poll() is None and store.execute(count).fetchone()[0] < answered:
                time.sleep(0.01)
        while started.poll() is None and server.calls.total() < answered + CONCURRENCY:
            time.sleep(0.01)
        started.send_signal(number)
        assert any("Ctrl-C again" in line for line in started.stderr)
        if answers:
            released.set()
        else:
            started.send_signal(number)
        _, said = started.communicate()
        calls = server.calls.total()
    kept = answered + more
    assert (
        f"m: interrupted. Of {PROMPTS} prompts {kept} were answered and are stored; run again"
        in said
    )
    assert calls == answered + CONCURRENCY
