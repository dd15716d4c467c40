"""Files that are no results, or were: every command that reads them ends in a message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from refract.core.jsonl import sha256_json, write_bytes, write_rows
from tests.builders import SMALL_PARAMS

DEEP = "[" * 100_000
RUN = ("run", "--suite", "s.jsonl", "--out", "r")
COMMANDS = [
    ("compare", "{}", "ok.json"),
    ("compare", "ok.json", "{}"),
    ("reproduce", "{}"),
    ("export", "{}", "--out", "exported"),
    ("export", "{}", "--as", "latex", "--out", "latex"),
]


def changed(value: object, depth: int = 4) -> Iterator[object]:
    """The value with one part of it, down to a depth, replaced or left out."""
    yield from ([], {}, None, "x", 7)
    if depth and isinstance(value, dict):
        for key, inner in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: odd} for odd in changed(inner, depth - 1))
    elif depth and isinstance(value, list) and value:
        yield from ([odd, *value[1:]] for odd in changed(value[0], depth - 1))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:3]))
def test_results_that_were_changed_are_used_or_refused_in_a_message(cli, run_results, command):
    assert cli(*(part.format("ok.json") for part in command)).code == 0
    shutil.copyfile("ok.outcomes.csv", "odd.outcomes.csv")
    run_results["tables"] = run_results["tables"][:2]
    for case in (cases := list(changed(run_results))):
        if isinstance(case, dict) and case.pop("sha256", None):  # as if a run had written it
            case["sha256"] = sha256_json(case)
    # One in some; each command has others.
    step = len(cases) // 10
    chosen = cases[COMMANDS.index(command) * step // len(COMMANDS) :: step]
    for text in (DEEP, "", "7", *map(json.dumps, chosen)):
        Path("odd.json").write_text(text)
        done = cli(*(part.format("odd.json") for part in command))
        assert done.code in (0, 1, 2), done.err


@pytest.mark.parametrize("facts", ["{}", "[]", DEEP, '{"model": {}, "suites": {"s": 1}}'])
@pytest.mark.parametrize(
    "command",
    [
        *(("compare", ".", "ok.json"), ("export", ".", "--out", "exported")),
        *(("show",), ("gate",), ("verify", ".")),
    ],
)
def test_provenance_that_is_none_is_refused_in_a_message(cli, run_results, command, facts):
    Path("params.yaml").write_text(json.dumps(SMALL_PARAMS))
    outcomes = Path("ok.outcomes.csv").read_text()
    for path, text in (("m.json", "{}"), ("outcomes/m.csv", outcomes), ("tables/m.csv", "")):
        write_bytes(Path("metrics", path), [text.encode()])
    write_bytes(Path("metrics/provenance/m.json"), [facts.encode()])
    done = cli(*command)
    goes_on = command == ("verify", ".")  # with the next model
    assert done.code == (1 if goes_on else 2), done.err
    told = done.out if goes_on else done.err
    assert "not as dvc repro writes them (metrics/provenance/m.json: " in told


@pytest.mark.parametrize(
    "command",
    [
        (*RUN, "--adapter", "synthetic", "--set", f"seed={'[' * 2000}"),
        (*RUN, "--adapter", "recorded", "--path", "deep.json"),
        (*RUN, "--adapter", "hf", "--model-id", "./deep"),
    ],
    ids=lambda command: " ".join(command[-4:])[:40],
)
def test_what_is_too_deep_or_too_large_ends_in_a_message(cli, command):
    write_rows(Path("s.jsonl"), [{"id": "a", "prompt": "hello there", "category": "helpful"}])
    Path("deep.json").write_text(DEEP)
    Path("deep").mkdir()
    Path("deep/config.json").write_text(DEEP)
    Path("deep/model.safetensors").write_bytes(b"")
    done = cli(*command)
    assert (done.code in (1, 2)) == (command[0] == "run"), done.err
