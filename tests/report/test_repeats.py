"""A server's answers are not batch-invariant: repeats are asked again, and the report says how often one
differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refract.core.jsonl import read_rows
from stages import report
from tests.builders import Project, suite_rows
from tests.fault_server import FaultServer

PROMPTS, REPEATS = 20, 2
SAID = (
    "**Answers from a server.** served: a server computed the answers, and what else it was asked at "
    "the time can change them, greedy ones too."
)


class Unsteady(FaultServer):
    """Gives every seventh answer another end."""

    def chat(self, request: dict[str, Any], head: str, anthropic: bool) -> tuple[int, bytes, str]:
        status, body, name = super().chat(request, head, anthropic)
        if self.arrived % 7 == 0:
            body = body.replace(b"question", b"query")
        return status, body, name


def note(text: str) -> str:
    """What the report says of answers from a server."""
    lines = (line.removeprefix("- ") for line in text.splitlines())
    (line,) = (line for line in lines if line.startswith("**Answers from a server.**"))
    return line


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A server, and what measures its model and a synthetic one and returns the report."""
    with Unsteady() as server:
        served = server.model(max_concurrency=1, temperature=0)
        models = {"served": served, "synthetic": {"adapter": "synthetic"}}
        project = Project.create(tmp_path / "p", models, {"s": suite_rows("s", 10, PROMPTS - 10)})
        monkeypatch.chdir(project.folder)

        def measure(perturbations: list[str]) -> str:
            params = project.params()
            params["perturbations"] = {"again": {"kind": "repeat", "repeats": REPEATS}}
            params["suites"]["s"]["perturbations"] = perturbations
            project.set_params(params)
            project.compute()
            report.main()
            return (project.folder / "metrics/report.md").read_text("utf-8")

        yield server, measure


def test_the_report_says_how_often_a_served_models_repeats_differ(measured):
    server, measure = measured
    assert note(measure([])) == (
        f"{SAID} How often a repeat differs was not measured for "
        "served: a perturbation with kind: repeat in one of the suites measures it."
    )
    assert server.arrived == PROMPTS
    text = measure(["again"])
    # Each repeat is a request of its own, for the served model alone.
    assert set(server.calls.values()) == {1 + REPEATS}
    rows = read_rows(Path("data/responses/served/s.jsonl"))
    answers = {row["prompt_id"]: row["response"] for row in rows}
    differ = sum(
        answer != answers[id_.split("/")[0]] for id_, answer in answers.items() if "/" in id_
    )
    assert 0 < differ < PROMPTS * REPEATS
    assert note(text).startswith(
        f"{SAID} Repeats with another text than the first answer: "
        f"served {differ / (PROMPTS * REPEATS):.3f} "
    )
    assert f" {differ}/{PROMPTS * REPEATS}, {PROMPTS} requests (design effect " in note(text)
    assert "Answers from a server" in Path("data/report/report.html").read_text("utf-8")
    # What is stored is not asked again, and says the same.
    assert measure(["again"]) == text
    assert server.arrived == PROMPTS * (1 + REPEATS)
