"""A server's answers are not batch-invariant: repeats are asked again, and the report says how often one
differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.core.decimals import decimals
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
    lines = [line.removeprefix("- ") for line in text.splitlines()]
    (line,) = [line for line in lines if line.startswith("**Answers from a server.**")]
    return line


def test_the_report_says_how_often_a_served_models_repeats_differ(tmp_path, monkeypatch):
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
            return Path("metrics/report.md").read_text("utf-8")

        assert note(measure([])) == (f"{SAID} A perturbation with kind: repeat measures how often.")
        assert server.arrived == PROMPTS
        text = measure(["again"])
        # Each repeat is a request of its own, for the served model alone.
        assert set(server.calls.values()) == {1 + REPEATS}
        # What is stored is not asked again, and says the same.
        assert measure(["again"]) == text
        assert server.arrived == PROMPTS * (1 + REPEATS)
    answers = {}
    for row in read_rows(Path("data/responses/served/s.jsonl")):
        answers[row["prompt_id"]] = row["response"]
    differ = sum(answers[id_] != answers[id_.split("/")[0]] for id_ in answers)
    assert 0 < differ < PROMPTS * REPEATS
    share = decimals(differ / (PROMPTS * REPEATS), places=2)
    shown = note(text)
    assert shown.startswith(
        f"{SAID} Repeats with another text than the first answer: served {share} "
    )
    assert f"] of {PROMPTS * REPEATS}, {PROMPTS} requests (design effect " in shown
    assert "Answers from a server" in Path("data/report/report.html").read_text("utf-8")
