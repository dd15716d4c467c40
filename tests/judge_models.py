"""A judge model behind a server, and verdicts of one judge on a few answers."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from refract.core.jsonl import write_json
from refract.judges import judge_suite, open_judge
from tests.builders import ROOT
from tests.fault_server import FaultServer, _completion, _json

PASS = '{"eval_passed": true, "reason": "fine"}'
FAIL = '{"eval_passed": false, "reason": "rude"}'


class JudgeServer(FaultServer):
    """A judge model behind OpenAI's API: ``replies`` are given in turn, the last one for ever, or
    made by a function of the request, also in a pair with how they end. Directives of the fault
    server work too."""

    def __init__(self, *replies: Any, **settings: Any) -> None:
        super().__init__(**settings)
        self.replies = replies

    def chat(self, request: dict[str, Any], head: str, anthropic: bool) -> tuple[int, bytes, str]:
        if "[[" in request["messages"][-1]["content"]:
            return super().chat(request, head, anthropic)
        reply = self.replies[min(self.arrived, len(self.replies) - 1)]
        self.arrived += 1
        text = reply(request) if callable(reply) else reply
        text, ending = text if isinstance(text, tuple) else (text, None)
        return 200, _json(_completion(text, ending)), ""

    def model(self, **settings: Any) -> dict[str, Any]:
        return super().model(**{"model_id": "judge", "max_retries": 0, **settings})


def prompt_of(id_, asked):
    return {"prompt_id": id_, "source_id": id_, "perturbation": None, "attempts": [asked]}


def response_of(id_, text):
    return {"prompt_id": id_, "response": text, "finish_reason": "stop", "attempt": 0}


def judged(definition, *pairs, prompt="Say hello.", **source):
    """The verdicts of one judge on responses to one prompt each; a pair is (response, prompt)."""
    both = [pair if isinstance(pair, tuple) else (pair, prompt) for pair in pairs]
    rows = judge_suite(
        [prompt_of(str(number), asked) for number, (_, asked) in enumerate(both)],
        [response_of(str(number), response) for number, (response, _) in enumerate(both)],
        {str(n): {"id": str(n), "prompt": asked, **source} for n, (_, asked) in enumerate(both)},
        {"j": open_judge("j", definition)},
    )
    return [row["judges"]["j"] for row in rows]


def judge_stage(folder, suites, judges):
    """The stage, run there for the model ``m`` on definitions as check-inputs writes them."""
    definitions = {"grid": {"suites": list(suites)}, "suites": suites, "judges": judges}
    write_json(folder / "data/inputs/judges.json", definitions)
    write_json(folder / "params.yaml", {"seed": 0})
    return subprocess.run(
        ["python", "-m", "stages.judge", "m"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
