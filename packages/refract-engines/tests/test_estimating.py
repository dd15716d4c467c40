"""``refract estimate``: what the next run would send, less what is stored."""

from __future__ import annotations

import re

import pytest

from refract.models import open_model
from refract.models.answering import answer_model
from refract.models.store import open_store
from refract.project import read_project
from refract_engines.estimating import estimate_model, grid_prompts
from tests.builders import ROUND_TRIP, small_project, suite_rows

API = {"adapter": "openai", "model_id": "m", "temperature": 1, "max_tokens": 64}


def test_it_counts_what_the_store_lacks(cli, tmp_path):
    def requests_and_stored() -> list[str]:
        return cli("estimate").out.splitlines()[2].split()[1:3]

    model = {"adapter": "synthetic"}
    small_project(tmp_path, model, suite_rows("own", 4, 4))
    assert requests_and_stored() == ["8", "0"]
    with open_store() as store:
        prompts = {"own": grid_prompts(read_project(tmp_path))["own"].rows}
        answer_model("m", model, prompts, store=store, seed=1, model=open_model("m", model))
    assert requests_and_stored() == ["0", "8"]
    small_project(tmp_path, {**model, "seed": 5}, suite_rows("own", 4, 4))
    assert requests_and_stored() == ["8", "0"]


def test_it_asks_each_suite_as_often_as_its_samples_say(cli, tmp_path):
    """Eight prompts three times, and four once."""
    model = {**API, "system_prompt": "Be kind.", "price": {"input": 1000, "output": 100}}
    small_project(tmp_path, model, suite_rows("own", 4, 4), "short")
    params = ROUND_TRIP.load(tmp_path / "params.yaml")
    params["suites"]["own"]["samples"] = 3
    ROUND_TRIP.dump(params, tmp_path / "params.yaml")
    characters = len("own: question 0")
    sent, most = 28 * (characters + len("Be kind.")) // 4, 28 * 64
    dollars = (sent * 1000 + most * 100) / 1e6
    cells = re.split("  +", cli("estimate", "m").out.splitlines()[2].strip())
    assert cells == ["m", "28", "0", f"{sent}", f"{most:,}", f"at most about ${dollars:.2f}"]


def test_it_counts_as_many_steps_and_turns_as_there_can_be(cli, tmp_path):
    """Three steps of a row with two results, of which a row that may take two has the first; two
    turns of a conversation."""
    pytest.importorskip("refract_dialogue")
    function = {"name": "search", "description": "", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    row = {"id": "a", "category": "harmful", "prompt": "Find it.", "tools": tools}
    row["tool_results"] = [{"name": "search", "result": "one"}, {"name": "search", "result": "two"}]
    messages = [{"role": "user", "content": text} for text in ("First.", "Second.")]
    rows = [row, {**row, "id": "b", "max_steps": 2}]
    rows.append({"id": "c", "category": "harmful", "messages": messages})
    small_project(tmp_path, {**API, "temperature": 0, "max_tokens": 10}, rows)
    project = read_project(tmp_path)
    with open_store() as store:
        sent = estimate_model("m", project, grid_prompts(project), store)
    assert (sent.requests, sent.stored, sent.answer_tokens) == (5, 0, 50)
