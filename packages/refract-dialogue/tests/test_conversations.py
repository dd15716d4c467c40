"""Conversations that are played: each turn of the user's fixed, the model's answers its own."""

from __future__ import annotations

import contextlib
import json
import random
import re

import pytest

import refract
from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, write_rows
from refract.core.params import DecisionSettings
from refract.core.played import answered_prompts
from refract.core.tables import read_table
from refract.core.types import is_last
from refract.evaluate import Suite, evaluate
from refract.judges import judge_suite
from refract.judges.cases import Case, Judge, labelled
from refract.models import open_model
from refract.models.answering import answer_prompts
from refract.models.protocol import Answer, Model
from refract.models.store import ResponseStore
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import SuiteError
from stages import report, validate_judges
from tests.builders import NO, YES, Project, suite_rows
from tests.fault_server import FaultServer

# What is said in which turn: refusal, compliance; errors and filters stand in the user's text.
ANSWERS = {"r": NO, "c": YES}
DIRECTIVES = {"e": " [[bad]]", "f": " [[filter]]"}


def talk(plan: str, category: str = "harmful") -> dict:
    turns = [f"{plan}, turn {n}{DIRECTIVES.get(x, '')}" for n, x in enumerate(plan, 1)]
    messages = [{"role": "user", "content": text} for text in turns]
    return {"id": f"talk-{category}-{plan}", "category": category, "messages": messages}


def script(messages: list[dict]) -> str:
    """What the plan in the first message has for this turn; it shows what was said before."""
    users = [message["content"] for message in messages if message["role"] == "user"]
    plan = users[0].partition(",")[0].lower()
    return f"{ANSWERS.get(plan[len(users) - 1 :][:1], YES)} ({len(messages)} messages)"


TALKS = [talk("rrr"), talk("rrc"), talk("crr"), talk("rer"), talk("frr"), talk("rc")]
TALKS += [talk("ccr", "helpful"), talk("ccc", "helpful")]
GIVEN = [
    {"role": "user", "content": "c, turn 1"},
    {"role": "assistant", "content": "A given answer."},
    {"role": "user", "content": "c, turn 2"},
]
OTHERS = [*suite_rows("plain", 2, 1), {"id": "given", "category": "helpful", "messages": GIVEN}]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A project with a server and a synthetic model, all stages run; and the server."""
    folder = tmp_path_factory.mktemp("played") / "project"
    with FaultServer(script=script) as server, pytest.MonkeyPatch.context() as patch:
        models = {"served": server.model(max_concurrency=4), "made_up": {"adapter": "synthetic"}}
        project = Project.create(folder, models, {"talks": [*OTHERS[:2], *TALKS, *OTHERS[2:]]})
        params = project.params()
        params["perturbations"] = {"loud": {"kind": "upper"}}
        params["suites"]["talks"]["perturbations"] = ["loud"]
        project.set_params(params)
        patch.setenv("REFRACT_CACHE", str(project.cache))
        project.compute()
        yield project, server


def rows(project: Project, folder: str) -> dict[str, dict]:
    path = project.folder / f"data/{folder}/talks.jsonl"
    return {row["prompt_id"]: row for row in read_rows(path)}


def test_each_turn_is_sent_with_the_models_own_answers_and_asked_once(played):
    _, server = played
    sent = [[m["content"] for m in body["messages"]] for body in server.bodies]
    first, second, third = (f"rrc, turn {n}" for n in (1, 2, 3))
    said = [f"{NO} (1 messages)", f"{NO} (3 messages)"]
    for expected in ([first], [first, said[0], second], [first, said[0], second, said[1], third]):
        assert sent.count(expected) == 1
    # A change of the last turn plays no turn again.
    assert [first, said[0], second, said[1], third.upper()] in sent
    assert sent.count([message["content"] for message in GIVEN]) == 1
    assert len(sent) == len({json.dumps(texts) for texts in sent})


def test_rows_say_which_turn_they_are_and_what_was_not_asked(played):
    project, _ = played
    prompts, responses = rows(project, "prompts"), rows(project, "responses/served")
    assert list(prompts) == list(responses)
    turns = [prompts[f"talk-harmful-rer{end}"] for end in ("/1", "/2", "")]
    after = (None, "talk-harmful-rer/1", "talk-harmful-rer/2")
    expected = [(n, 3, turn) for n, turn in enumerate(after, 1)]
    assert [(x["turn"], x["turns"], x.get("after")) for x in turns] == expected
    sent = [message["content"] for message in turns[1]["attempts"][0]]
    assert sent == ["rer, turn 1", None, "rer, turn 2 [[bad]]"]
    assert not {"turn", "turns", "after"} & prompts["given"].keys()
    assert prompts["given"]["attempts"] == [GIVEN]
    assert "talk-harmful-rc/loud/upper/1" not in prompts
    errors = {id_: row["error"] and row["error"]["type"] for id_, row in responses.items()}
    assert errors["talk-harmful-rer"] == "NotAsked"
    assert errors["talk-harmful-rer/1"] is None
    filtered = [responses[f"talk-harmful-frr{end}"]["finish_reason"] for end in ("/1", "/2", "")]
    assert filtered == ["content_filter"] * 3


@pytest.mark.parametrize(
    ("end", "reason"), [("declined", "refusal"), ("content_filter", "content_filter")]
)
def test_an_end_by_the_provider_without_a_text_is_that_of_all_further_turns(end, reason):
    turns = ["First.", f"Second. [[{end}]]", "Third."]
    row = {"id": "t", "category": "harmful"}
    row["messages"] = [{"role": "user", "content": text} for text in turns]
    with FaultServer() as server:
        model = open_model("m", server.model(adapter="anthropic"))
        suite = Suite("s", [row], {"judges": ["rules"]})
        judges = {"rules": {"kind": "rules"}}
        refused = DecisionSettings(content_filters="refused")
        store = ResponseStore(None)
        found = evaluate([suite], model, judges, store, settings=refused, name="m")
        assert len(server.bodies) == 2
    made = found.suites["s"].responses
    assert [x["finish_reason"] for x in made] == ["stop", reason, reason]
    assert made[1] == {**made[2], "prompt_id": "t/2"}
    counts = {}
    for rate in found.rates:
        if rate.name == "harmful_refusal_rate" and not rate.group:
            counts = {"refused": rate.counts.successes, "provider": rate.counts.by_provider}
    assert counts == {"refused": 1, "provider": 1}


def test_outcomes_are_per_turn_and_headlines_of_the_last(played):
    project, _ = played
    lines = read_table(project.folder / "metrics/outcomes/served.csv")
    became = {
        row["source_id"].rpartition("-")[2] + row["turn"]: row["outcome"]
        for row in lines
        if not row["perturbation"] and row["turn"]
    }
    words = {"r": "refusal", "c": "compliance", "e": "error", "f": "content_filter"}
    for plan in ("rrr", "rrc", "crr", "rc", "ccr"):
        assert [became[f"{plan}{n}"] for n in range(1, len(plan) + 1)] == [words[x] for x in plan]
    assert [became[f"rer{n}"] for n in (1, 2, 3)] == ["refusal", "error", "error"]
    assert {row["cluster"] for row in lines if "rrc" in row["prompt_id"]} == {"talk-harmful-rrc"}
    metrics = json.loads((project.folder / "metrics/served.json").read_text())["talks"]
    # Two plain ones are answered; of the talks rrr and crr are refused at the end, rrc and rc not.
    assert metrics["harmful_refusal_rate"] == round(2 / 6, 4)
    assert metrics["excluded"] == 2
    assert metrics["refused_until_end_rate"] == 0.25


def test_report_page_and_failures_show_the_conversation(played):
    project, _ = played
    with contextlib.chdir(project.folder):
        validate_judges.main()
        report.main()
    folder = project.folder / "metrics/report"
    turns = (folder / "conversations.md").read_text("utf-8")
    assert "of harmful conversations refused at every turn 0.25 \\[" in turns
    pages = "".join(x.read_text("utf-8") for x in folder.glob("*.md"))
    assert "earlier turn" not in pages
    page = (project.folder / "data/report/report.html").read_text("utf-8")
    shown = f"[user]\\nrrc, turn 1\\n\\n[assistant]\\n{NO} (1 messages)\\n\\n[user]\\nrrc, turn 2"
    assert json.dumps(shown)[1:-1].replace("\\\\n", "\\n").replace("'", "'") in page


def test_judges_get_the_last_turn_its_answer_and_the_conversation_before(played):
    project, _ = played
    prompts = read_rows(project.folder / "data/prompts/talks.jsonl")
    responses = read_rows(project.folder / "data/responses/served/talks.jsonl")
    cases: list[Case] = []

    class Listening(Judge):
        FAMILY, version = "refusal", "1"

        def decided_by(self):
            return None

        def judge(self, asked):
            cases.extend(asked)
            return [labelled("refusal") for _ in asked]

    filled = answered_prompts(prompts, responses)
    sources = {row["id"]: row for row in [*TALKS, *OTHERS]}
    judge_suite(filled, responses, sources, {"listening": Listening("listening", None)})
    (case,) = (case for case in cases if case.prompt["prompt_id"] == "talk-harmful-rrc")
    assert (case.prompt_text, case.answer) == ("rrc, turn 3", f"{YES} (5 messages)")
    said = [message["content"] for message in json.loads(case.conversation)]
    assert said[1::2] == [f"{NO} (1 messages)", f"{NO} (3 messages)"]
    # Variants are compared with the clean answer to the same turn.
    clean = {case.prompt["prompt_id"]: case.clean for case in cases}
    assert clean["talk-harmful-rrc/loud/upper"]["prompt_id"] == "talk-harmful-rrc"


@pytest.mark.parametrize("fields", [["turn"], ["turns"], []])
def test_fields_of_a_suite_that_are_called_turn_stay_what_they_are(fields):
    """Rates by turn are those of conversations, so that no suite is grouped by its own field."""
    rows = [row | {"turn": str(n % 2), "turns": "9"} for n, row in enumerate(OTHERS)]
    suite = Suite("s", rows, {"fields": fields})
    synthetic = open_model("m", {"adapter": "synthetic"})
    grouped = pytest.raises(ParamsError, match="'turn' is what tables call groups")
    with ResponseStore(None) as store, grouped if fields == ["turn"] else contextlib.nullcontext():
        made = evaluate([suite], synthetic, {"rules": {"kind": "rules"}}, store, name="m")
        assert all(map(is_last, made.outcomes()))
        assert not [rate for rate in made.rates if rate.group.field == "turn"]


def ask_all(source: list[dict], model, store: ResponseStore, samples: int = 1) -> dict[str, dict]:
    prompts = list(prompt_rows(source, "s", 0, {"loud": {"kind": "upper"}}))
    made, _ = answer_prompts({"s": prompts}, model, store, 0, samples={"s": samples})
    return {row["prompt_id"]: row for row in made["s"]}


@pytest.mark.parametrize(("seed", "samples"), [(0, 1), (1, 3)])
def test_the_order_of_conversations_makes_no_difference(tmp_path, seed, samples):
    draw = random.Random(seed)
    plans = ["".join(draw.choices("rc", k=draw.randint(1, 4))) for _ in range(12)]
    source = [talk(plan) | {"id": f"t{n}"} for n, plan in enumerate(plans)]
    definition = {"adapter": "synthetic", "temperature": 1, "error_rate": 0.2, "empty_rate": 0.1}
    definition |= {"too_long_rate": 0.2, "seed": seed}
    found = []
    for order in (source, draw.sample(source, len(source))):
        with ResponseStore(None) as store:
            found.append(ask_all(order, open_model("m", definition), store, samples))
    assert found[0] == found[1]
    assert any((row["error"] or {}).get("type") == "NotAsked" for row in found[0].values())


def test_run_and_python_play_conversations_too(played, tmp_path):
    _, server = played
    results = refract.measure(server.model(), {"own": TALKS}, "rules")
    numbers = dict(zip(results.metrics.measure, results.metrics.value, strict=True))
    assert numbers["refused_until_end_rate"] == 0.25
    lines = results.rows.set_index("prompt_id")
    assert json.loads(lines.prompt["talk-harmful-rc"])[1]["content"] == f"{NO} (1 messages)"
    assert list(results.outcomes.turn[:3]) == ["1", "2", "3"]
    again = refract.compare(results, results).rows
    assert set(again.n) == {4, 2} or again.n.max() == 6


USER, ASSISTANT, SYSTEM = ({"role": x, "content": x} for x in ("user", "assistant", "system"))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([ASSISTANT, USER], "message 1 of 'messages' is the assistant's and the first"),
        ([USER, ASSISTANT, ASSISTANT, USER],
         "message 3 .* the assistant's and behind the assistant's"),
        ([SYSTEM, ASSISTANT, USER], "message 2 .* the assistant's and behind the system's"),
        ([USER, SYSTEM, USER],
         "message 2 .* the system's and behind the user's; a system's must be the"),
        ([SYSTEM, SYSTEM, USER], "message 2 .* the system's and behind the system's"),
        ([USER, USER, ASSISTANT], "the last of 'messages' must be the user's"),
        ([SYSTEM, USER, USER, ASSISTANT, USER, USER], ""),
    ],
)  # fmt: skip
def test_lint_says_which_message_is_out_of_place(cli, tmp_path, messages, problem):
    row = {"id": "a", "category": "harmful", "messages": messages}
    write_rows(tmp_path / "own.jsonl", [row])
    linted = cli("lint", "own.jsonl")
    assert linted.code == int(bool(problem))
    assert re.search(
        rf"^own.jsonl:1: {problem}" if problem else "1 rows, no problems", linted.err + linted.out
    )


def test_a_perturbation_changes_the_last_turn_and_no_other():
    roles = ["user", "user", "assistant", "user", "user"]
    texts = zip(roles, ["a", "b", "given", "c", "d"], strict=True)
    messages = [{"role": role, "content": text} for role, text in texts]
    source = [{"id": "x", "category": "helpful", "messages": messages}]
    made = list(prompt_rows(source, "s", 0, {"loud": {"kind": "upper"}}))
    (changed,) = [row for row in made if row["perturbation"]]
    whole = [message["content"] for message in changed["attempts"][0]]
    assert [text for text in whole if text is not None] == ["a", "b", "given", "c", "D"]
    # The model answers a, c and d.
    assert changed["turn"] == 4


def test_a_row_cannot_have_the_id_of_a_turn():
    with pytest.raises(SuiteError, match="the id 'talk-harmful-rc/1' is that of a turn of 'talk"):
        list(prompt_rows([talk("rc"), OTHERS[0] | {"id": "talk-harmful-rc/1"}], "s", 0))


class Short(Model):
    """Takes conversations of so many characters at most, and calls a tool."""

    adapter, version = "short", "1"

    def identity(self):
        return {}

    def answer(self, requests):
        for index, request in enumerate(requests):
            for attempt, messages in enumerate(request.attempts):
                if sum(len(message["content"]) for message in messages) <= 100:
                    calls = [{"name": "look", "arguments": {}}]
                    yield index, Answer("", attempt=attempt, tool_calls=calls)
                    break
            else:
                yield index, Answer.failed("PromptTooLong", "too long", attempt)


def test_what_a_step_was_answered_to_is_what_the_conversation_goes_on_with():
    tools = [{"type": "function", "function": {"name": "look"}}]
    results = [{"name": "look", "result": "y" * 60}]
    row = {"id": "t", "category": "helpful", "prompt": "Look.", "tools": tools}
    injection = {"kind": "char_injection", "characters": ["U+000D"], "max_repetitions": 120}
    source = [row | {"tool_results": results}]
    prompts = list(prompt_rows(source, "s", 0, {"injected": injection}))
    with ResponseStore(None) as store:
        made, _ = answer_prompts({"s": prompts}, Short(), store, 0)
    first, last = made["s"][-2:]
    assert (first["attempt"], first["error"]) == (1, None)
    # The second step is too long with what the first was answered to, and no shorter one was played.
    assert (last["error"]["type"], last["attempt"]) == ("PromptTooLong", 1)
    seen = answered_prompts(prompts, made["s"])[-1]["attempts"][1]
    assert seen[0]["content"].count("\r") == 60
