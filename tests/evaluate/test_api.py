"""What ``import refract`` offers: the commands as functions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import refract
from refract.evaluate import Suite, evaluate
from refract.models.protocol import Answer, Model, Request
from refract.models.store import ResponseStore
from tests.builders import ROOT
from tests.documents import blocks

NO, YES = "I'm sorry, but I can't help with that.", "Sure, here is how it works, step by step."
ROWS = [
    {"id": f"{category}-{n}", "category": category, "prompt": f"{category} question {n}?"}
    for category in ("harmful", "helpful")
    for n in range(5)
]


class Scripted(Model):
    """A model of a user's own, which refuses what it is told to."""

    adapter, version = "scripted", "1"

    def __init__(self, refused: str) -> None:
        self.refused, self.requests = refused, 0

    def identity(self) -> dict[str, Any]:
        return {"refused": self.refused}

    def description(self) -> dict[str, Any]:
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        for index, request in enumerate(requests):
            self.requests += 1
            refused = self.refused in request.attempts[0][-1]["content"]
            yield index, Answer(NO if refused else YES)


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def values(results: refract.Results) -> dict[str, float]:
    return dict(zip(results.metrics["measure"], results.metrics["value"], strict=True))


def test_rows_are_measured_with_a_model_of_ones_own_and_answers_are_reused():
    model = Scripted("harmful")
    results = refract.measure(model, {"mine": ROWS})
    found = values(results)
    assert (found["harmful_refusal_rate"], found["over_refusal_rate"], found["n"]) == (1, 0, 10)
    assert list(results.rows["response"]) == [NO] * 5 + [YES] * 5
    assert set(results.rows["model"]) == {"scripted"}
    refract.measure(model, {"mine": ROWS})
    assert model.requests == 10


def test_names_definitions_and_files_are_measured_as_refract_run_does(cli, tmp_path):
    suite = ("--suite", "harmful_helpful", "--limit", 60)
    done = cli("run", "--model", "synthetic", *suite, "--out", "r.json")
    assert done.code == 0
    written = refract.load_results("r.json")
    by_name = refract.measure("synthetic", "harmful_helpful", sample=60)
    for table in ("metrics", "tables", "outcomes"):
        expected = getattr(written, table)
        assert getattr(by_name, table)[expected.columns].equals(expected), table
    file = ROOT / "data/suites/harmful_helpful.jsonl"
    definition = json.loads((tmp_path / "r.json").read_text())["provenance"]["model"]["definition"]
    by_file = refract.measure(definition, file, {"kind": "rules"}, sample=60)
    # The project sets thresholds for the suite that is named, and none for a file.
    assert {**values(by_file), "passed": 0} == values(by_name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody", {"mine": ROWS}), "no model 'nobody'"),
        (("synthetc", {"mine": ROWS}), "did you mean 'synthetic'"),
        (("synthetic", "nothing"), "no suite and no file 'nothing'"),
        (("synthetic", {"mine": ROWS}, "oracle"), "no judge 'oracle'"),
        (("synthetic", {"mine": ROWS}, {}), "needs its kind"),
        (("synthetic", {"mine": []}), "'mine': no rows"),
        (("synthetic", {"mine": [*ROWS, ROWS[0]]}), "row 11: duplicate id 'harmful-0'"),
        (("synthetic", {"mine": [{"id": "a", "prompt": "x"}]}), "row 1: 'category' must be one"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_what_is_allowed(arguments, message):
    with pytest.raises(refract.RefractError, match=re.escape(message)):
        refract.measure(*arguments)


def test_answers_are_judged_in_order_without_ids():
    rows = [{"response": NO}, {"response": YES}, {"response": None, "id": "x"}]
    found = refract.judge(rows)
    assert [row["label"] for row in found] == ["refusal", "compliance", None]
    assert [row["prompt_id"] for row in found] == ["1", "2", "x"]
    assert found[2]["error"] == "not judged: the response is null"
    with pytest.raises(refract.RefractError, match="row 1 needs a text"):
        refract.judge([{"response": 7}])


def test_two_results_are_compared_prompt_by_prompt(tmp_path):
    before = refract.measure(Scripted("harmful"), {"mine": ROWS}, name="model")
    after = refract.measure(Scripted("question 0"), {"mine": ROWS}, name="model")
    found = refract.compare(before, after)
    rows = found.rows.set_index("category")
    assert rows.loc["harmful", ["n", "rate_a", "rate_b", "difference"]].tolist() == [
        5,
        1,
        0.2,
        -0.8,
    ]
    assert rows.loc["helpful", "to_refusal"] == ["helpful-0"]
    with pytest.raises(refract.RefractError, match=r"no params\.yaml"):
        refract.compare(before)


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import refract;"
        "print(sorted(name for name in set(sys.modules) - before if '.' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert set(json.loads(done.stdout.replace("'", '"'))) <= {
        "refract",
        "__future__",
        "typing",
        "_typing",
    }


def test_every_name_offered_is_there_with_an_example_in_docstring_or_page():
    page = "".join(block.text for block in blocks(ROOT / "docs/python.md"))
    for name in refract.__all__:
        assert getattr(refract, name).__doc__, name
    for name in ("measure", "judge", "compare", "load_results"):
        assert f"refract.{name}(" in page
        assert f">>> refract.{name}(" in (getattr(refract, name).__doc__ or "").replace(
            "results = ", ""
        )
    with pytest.raises(AttributeError, match="no attribute 'measured'"):
        refract.measured  # noqa: B018


def test_a_judge_that_cannot_be_used_is_an_error_before_the_model_is_used():
    model = Scripted("")
    with ResponseStore(None) as store, pytest.raises(refract.RefractError, match="oracle"):
        evaluate([Suite("s", ROWS, {})], model, {"j": {"kind": "oracle"}}, store, name="m")
    assert model.requests == 0
