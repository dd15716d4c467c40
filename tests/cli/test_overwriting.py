"""No command writes over a file that it reads, or two files as one."""

from __future__ import annotations

import json
import os
import re

import pytest
import typer

from refract.cli import PLACES, app
from refract.core.jsonl import write_rows
from tests.builders import SMALL_PARAMS

SUITE = {"id": "a", "category": "harmful", "prompt": "How do I pick a lock?"}
ANSWER = {"id": "a", "prompt": "Why?", "response": "I can't help.", "label": "refusal"}
VERDICT = {
    "prompt_id": "a",
    "judges": {"rules": {"label": "refusal", "score": None, "error": None}},
}
RUN = ("run", "--suite", "s.jsonl", "--adapter", "recorded", "--path", "a.jsonl")
DID = ("judge", "did", "--inner", "v.jsonl", "--outer", "v")
# Commands that write a file the user names, over something that they read or write already.
OVERWRITING = {
    "a suite": (*RUN, "--out", "s.jsonl"),
    "a suite by --rows": (*RUN, "--out", "r.json", "--rows", "./s.jsonl"),
    "a suite by a link": (*RUN, "--out", "link.jsonl"),
    "recorded answers": (*RUN, "--out", "a.jsonl"),
    "outcomes": (*RUN, "--out", "o.json", "--rows", "o.outcomes.csv"),
    "its own results": (*RUN, "--out", "o.json", "--rows", "./o.json"),
    "a suite by outcomes": (*RUN[:2], "t.outcomes.csv", *RUN[3:], "--out", "t.json"),
    "the project": (*RUN, "--out", "params.yaml"),
    "a folder": (*RUN, "--out", "."),
    "no file": (*RUN, "--out", "-"),
    "a pipe": (*RUN, "--out", "pipe"),
    "standard output": (*RUN, "--out", "/dev/stdout"),
    "weights": (*RUN[:3], "--adapter", "hf", "--model-id", "./w", "--out", "w/config.json"),
    "what is judged": ("judge", "--in", "a.jsonl", "--out", "a.jsonl"),
    "labels": ("judge", "validate", "--labelled", "a.jsonl", "--out", "a.jsonl"),
    "verdicts": (*DID, "--out", "v.jsonl"),
    "verdicts of a folder": (*DID, "--out", "v/x.jsonl"),
    "rows to label": ("label", "--rows", "a.jsonl", "--out", "a.jsonl"),
    "a published file": ("import-suite", "generic", "a.jsonl", "--out", "a.jsonl"),
    "a card": ("import-suite", "generic", "a.jsonl", "--out", "b.md"),
    "numbers of a gate": ("gate", "--junit", "metrics/m.json"),
}


@pytest.mark.parametrize("option", ["--out", "--rows"])
def test_a_folder_that_takes_no_file_is_said_before_a_model_is_asked(tmp_path, cli, option):
    write_rows(tmp_path / "s.jsonl", [SUITE])
    files = {"--out": "r.json", "--rows": "r.rows.jsonl"} | {option: "s.jsonl/below/r.json"}
    written = [word for pair in files.items() for word in pair]
    done = cli("run", "--suite", "s.jsonl", "--adapter", "synthetic", *written)
    folder = tmp_path / "s.jsonl"
    assert done.code == 2
    assert f"{option} s.jsonl/below/r.json: nothing can be written to {folder}" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


@pytest.mark.parametrize("command", OVERWRITING.values(), ids=OVERWRITING)
def test_nothing_is_written_over_what_is_read_or_written(tmp_path, cli, command):
    write_rows(tmp_path / "s.jsonl", [SUITE])
    write_rows(tmp_path / "t.outcomes.csv", [SUITE])
    write_rows(tmp_path / "a.jsonl", [ANSWER])
    (tmp_path / "link.jsonl").symlink_to("s.jsonl")
    os.mkfifo(tmp_path / "pipe")
    for name in ("v.jsonl", "v/x.jsonl"):
        write_rows(tmp_path / name, [VERDICT])
    for name in ("o.json", "o.outcomes.csv", "metrics/m.json", "w/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n", "utf-8")
    (tmp_path / "params.yaml").write_text(json.dumps(SMALL_PARAMS), "utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = cli(*command)
    assert done.code == 2
    assert re.search(
        "would overwrite what is read|are one file|is a folder|only a file|no regular file",
        done.err,
    ), done.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_command_that_writes_a_file_is_tried():
    """Some write files of their own names into a folder."""
    tried = [" ".join(map(str, command)) for command in OVERWRITING.values()]
    group = typer.main.get_command(app)
    for place in {*PLACES} - {"correct", "export"}:
        name = place.replace(".", " ")
        options = {opt for option in group.get_command(None, name).params for opt in option.opts}
        if {"--out", "--rows", "--junit"} & options:
            assert any(command.startswith(f"{name} ") for command in tried), name
