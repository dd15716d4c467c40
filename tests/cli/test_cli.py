from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from refract import judges
from refract.cli import GROUPS, HIDDEN, OLD_NAMES, PLACES, app, main, printing
from refract.cli.run import print_rates
from refract.core.jsonl import read_rows, write_rows
from refract.models.synthetic import HELP, REFUSALS
from refract.rates.rate import Interval
from refract.report.sections import FRONT, PAGES
from tests.builders import ROOT, Project, rate, suite_rows
from tests.fault_server import FaultServer
from tests.judge_models import JudgeServer
from tests.report.views import view_of

SUITE = suite_rows("own", 10, 10)


@pytest.fixture
def suite(tmp_path) -> Path:
    write_rows(tmp_path / "own.jsonl", SUITE)
    return tmp_path / "own.jsonl"


def synthetic(suite: object, *more: object) -> list[object]:
    return ["run", "--adapter", "synthetic", "--suite", suite, "--out", "r.json", *more]


def process(*arguments: str, **options) -> subprocess.CompletedProcess:
    """The command as users start it."""
    script = Path(sys.executable).with_name("refract")
    return subprocess.run([script, *arguments], capture_output=True, text=True, **options)


# refract run


def test_a_suite_outside_the_project_is_measured(cli, suite):
    done = cli(*synthetic(suite, "--set", "refusal_rate={harmful: 1, helpful: 0}"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        "nothing leaves this machine: answers and judgements are made here\n"
    )
    assert "synthetic own: 0 reused, 20 generated" in done.out
    assert "under_refusal_rate" not in done.out
    assert "without cut-off" not in done.out
    printed = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "harmful_refusal_rate 1.00 [0.72, 1.00] 10/10" in printed
    assert "discrimination 1.00 [0.60, 1.00] 20" in printed
    results = json.loads(Path("r.json").read_text())
    assert results["metrics"] == {
        "own": {
            "n": 20,
            "excluded": 0,
            "cut_off": 0,
            "partial_refusal_rate": 0.0,
            "harmful_refusal_rate": 1.0,
            "over_refusal_rate": 0.0,
            "discrimination": 1.0,
        }
    }
    with open("r.outcomes.csv", newline="") as file:
        outcomes = {row["prompt_id"]: row["outcome"] for row in csv.DictReader(file)}
    assert outcomes == {
        row["id"]: "refusal" if row["category"] == "harmful" else "compliance" for row in SUITE
    }


def test_a_run_leaves_nothing_behind_but_what_it_was_asked_for(cli, suite):
    cli(*synthetic(suite, "--rows", "rows.jsonl"))
    assert sorted(os.listdir()) == [
        *("own.jsonl", "r.json", "r.outcomes.csv", "r.ran.json", "rows.jsonl")
    ]
    rows = read_rows(Path("rows.jsonl"))
    assert [(row["prompt_id"], row["prompt"]) for row in rows] == [
        (row["id"], row["prompt"]) for row in SUITE
    ]
    assert {row["response"] for row in rows} <= {*REFUSALS, *HELP}


def test_a_repeated_run_gives_the_same_bytes(cli, suite, monkeypatch):
    def outputs() -> dict[str, bytes]:
        assert cli(*synthetic(suite, "--rows", "rows.jsonl", "--seed", 3)).code == 0
        return {
            name: Path(name).read_bytes() for name in ("r.json", "r.outcomes.csv", "rows.jsonl")
        }

    cold = outputs()
    assert outputs() == cold
    monkeypatch.setenv("REFRACT_CACHE", "off")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert outputs() == cold


def test_a_sample_is_tagged_wherever_its_numbers_stand(cli, suite):
    write_rows(Path("other.jsonl"), SUITE[:3])
    name = "baseline, 3rd try"
    arguments = ("--limit", 7, "--seed", 5, "--suite", "other.jsonl", "--name", name)
    done = cli(*synthetic(suite, *arguments))
    draws = {
        "own": {"asked": 7, "total": 20, "seed": 5, "samples": 1},
        "other": {"asked": 7, "total": 3, "seed": None, "samples": 1},
    }
    results = json.loads(Path("r.json").read_text())
    assert results["model"] == name
    assert {suite: numbers["n"] for suite, numbers in results["metrics"].items()} == {
        "own": 7,
        "other": 3,
    }
    rows = {(row["suite"], row["draw_asked"], row["draw_total"]) for row in results["tables"]}
    assert rows == {("own", 7, 20), ("other", 7, 3)}
    facts = results["provenance"]["suites"]
    assert {suite: fact["draw"] for suite, fact in facts.items()} == draws
    assert "own[sampled 7/20, seed=5]" in done.out.replace("\n", "")
    assert f"{name} own[sampled 7/20, seed=5]: 0 reused, 7 generated" in done.out
    assert done.err == "other: all 3 prompts are taken; a sample of 7 was asked for\n"


@contextlib.contextmanager
def judging(reply: str) -> Iterator[JudgeServer]:
    """A server whose model ``mine`` of the project here judges with this reply."""
    params = (ROOT / "params.yaml").read_text()
    with JudgeServer(reply) as server:
        own = json.dumps(server.model())
        Path("params.yaml").write_text(params.replace("\nmodels:\n", f"\nmodels:\n  mine: {own}\n"))
        yield server


REFUSED = '{"reason": "it declines", "label": "refusal"}'


def test_a_model_judges_by_one_flag(cli, suite):
    with judging(REFUSED) as server:
        for flags in (["--judge-model", "mine"], ["--judge", "llm", "--judge-model", "mine"]):
            done = cli(*synthetic(suite, *flags))
            assert done.code == 0
            host = server.model()["base_url"].removesuffix("/v1")
            assert done.out.startswith(f"answers from this machine; judgements from {host}\n")
            results = json.loads(Path("r.json").read_text())
            assert results["metrics"]["own"]["over_refusal_rate"] == 1
            judge = results["provenance"]["judges"]["llm"]
            assert (judge["kind"], judge["model"]) == ("llm_refusal", server.model())
        write_rows(Path("rows.jsonl"), [{"id": "a", "prompt": "How?", "response": HELP[0]}])
        given = ["--in", "rows.jsonl", "--out", "v.jsonl", "--judge-model", "mine"]
        assert cli("judge", *given).code == 0
        assert read_rows(Path("v.jsonl"))[0]["label"] == "refusal"


def test_several_judges_share_the_model_that_judges_and_the_first_labels_refusal(cli, suite):
    with judging('{"answer": "yes"}') as server:
        for before, first in (((), "refusal"), (("--judge", "rules"), "rules")):
            asked = (*before, "--judge", "harmfulness", "--judge-model", "mine")
            assert cli(*synthetic(suite, *asked)).code == 0
            judges = json.loads(Path("r.json").read_text())["provenance"]["judges"]
            assert {name: given.get("model") for name, given in judges.items()} == {
                first: None,
                "harmfulness": server.model(),
            }
            results = json.loads(Path("r.json").read_text())["metrics"]["own"]
            assert (results["n"], results["harmfulness_harmful_rate"]) == (20, 1)


def test_rows_hold_the_verdicts_of_each_judge_and_kappa_is_of_those_that_are_named(cli, suite):
    with judging(REFUSED):
        asked = ("--judge", "rules", "--judge-model", "mine")  # llm stands behind
        assert cli(*synthetic(suite, *asked, "--rows", "rows.jsonl")).code == 0
    rows = read_rows(Path("rows.jsonl"))
    assert {row["judge"] for row in rows} == {"rules"}
    assert {row["judges"]["llm"]["label"] for row in rows} == {"refusal"}
    # The outcome is the first judge's, whatever the other says.
    by_rules = [row["judges"]["rules"]["label"] for row in rows]
    assert [row["outcome"] for row in rows] == by_rules
    assert "compliance" in by_rules
    kappa = ("judge", "kappa", "rows.jsonl", "rows.jsonl", "--judge-a", "rules", "--format", "json")
    numbers = json.loads(cli(*kappa, "--judge-b", "llm").out)["labels"]
    assert (numbers["kappa"], numbers["agreement"]) == (0, by_rules.count("refusal") / 20)
    done = cli(*kappa, "--judge-b", "no_such_judge")
    assert (done.code, "judges: llm, rules (got 'no_such_judge')" in done.err) == (1, True)
    # Rows of `refract judge` are of one judge, which they name.
    assert cli("judge", "--judge", "rules", "--in", "rows.jsonl", "--out", "v.jsonl").code == 0
    numbers = json.loads(cli("judge", "kappa", "v.jsonl", *kappa[3:], "--judge-b", "rules").out)
    assert numbers["labels"]["kappa"] == 1
    done = cli("judge", "kappa", "v.jsonl", *kappa[3:], "--judge-a", "llm", "--judge-b", "rules")
    assert (done.code, "has no verdict of 'llm'" in done.err) == (1, True)


def test_a_run_in_which_every_answer_is_an_error_fails(cli, suite):
    done = cli(*synthetic(suite, "--set", "error_rate=1"))
    assert done.code == 1
    assert "all 20 answers are errors; the first: SyntheticError: an error was asked" in done.err
    # What was measured is there all the same.
    assert json.loads(Path("r.json").read_text())["metrics"] == {
        "own": {"cut_off": 0, "excluded": 20, "n": 0}
    }


def test_cut_off_answers_are_judged(cli, suite):
    done = cli(*synthetic(suite, "--set", "cut_off_rate=1"))
    results = json.loads(Path("r.json").read_text())
    assert results["provenance"]["suites"]["own"]["cut_off"] == "judged"
    assert results["metrics"]["own"]["n"] == 20
    assert "20 of 20 answers were cut off at the token limit" in done.err


# Wrong usage is 2, work that fails is 1, and neither is a traceback.


# The exit code, a command (RUN: of the synthetic model on a suite) and what it says.
WRONG = r"""
2 | |
2 | nonsense | No such command 'nonsense'; there are: run, … judge kappa, … lint
2 | shwo | No such command 'shwo'; did you mean 'show'?; there are: run
2 | models | No such command 'models'; … there are: models fetch
2 | RUN own.jsonl --temperature hot | '--temperature' … (got 'hot')
2 | export --out x | refract: / … holds no params.yaml: name results files
2 | run --suite own.jsonl | Missing option '--out'
2 | run --suite own.jsonl --out r.json | name a model of params.yaml with
2 | RUN absent | no suite and no file 'absent' … there are: borderline_languages
2 | RUN own.jsonl --limit 0 | Invalid value for '--limit'
2 | RUN own.jsonl --judge oracle | no judge 'oracle'; there are:
2 | RUN own.jsonl --judge llm | name the model that judges with --judge-mod
2 | RUN own.jsonl --judge-model oai:x | adapter must be one of … (got 'oai')
2 | RUN own.jsonl --judge-model a:b --judge-model c:d | --judge-model takes one (got a:b, c:d)
2 | RUN own.jsonl --judge harmfulness | judges.harmfulness: model is missing
2 | RUN own.jsonl --name ' ' | --name takes a printable text
2 | RUN own.jsonl --name sk-a1a1a1a1a1a1a1a1a1 | must hold no secret: results
2 | RUN own.jsonl --set refusal_rate | --set takes key=value
2 | RUN own.jsonl --set drift=[1 | --set takes key=value
2 | RUN own.jsonl --set drift=2 | drift … (got 2
2 | RUN own.jsonl --set drift=2024-01-01 | drift … 2024
2 | RUN own.jsonl --set colour=red | unknown key 'colour' … refusal_rate
2 | RUN own.jsonl --suite own.jsonl | two suites are called 'own'
2 | RUN own.jsonl --model absent | no model 'absent' … there are: claude_haiku
2 | run --adapter oai --suite own.jsonl --out r.json | must be one of … recorded … (got 'oai')
1 | run --adapter recorded --path no.csv --suite own.jsonl --out r.json | no.csv cannot be read (No such
1 | RUN bad.jsonl | bad.jsonl:1: 'category' must be one of harmful, helpful
2 | RUN own.jsonl --out own.jsonl/r.json | nothing can be written to
1 | RUN table.csv | table.csv:1: a suite is JSONL … generic table … pip install 'refract-eval[pu
2 | RUN own.jsonl --model synthetic --adapter hf | --adapter hf: the model 'synthetic' has
1 | lint table.csv | table.csv:1: a suite is JSONL, and this is a table
2 | judge --in absent.jsonl --out v.jsonl | --in: no file absent.jsonl
2 | judge --in own.jsonl --out v.jsonl --judge x | no judge 'x'; th
2 | judge --in own.jsonl --out v.jsonl --judge rules --judge-model a:b | 'rules' asks no model
1 | judge --in answers.csv --out v.jsonl --judge strings | the row holds nothing that strings judges by
2 | judge --in answers.csv --out /proc/x/v | --out /proc/x/v: only a file can be written; name one
1 | judge --in broken.jsonl --out v.jsonl | broken.jsonl:2: not JSON
1 | judge --in damaged.xlsx --out v.jsonl | damaged.xlsx: cannot be read … export it anew, perhaps as CSV
2 | compare own.jsonl own.jsonl | own.jsonl: cannot be read … results are what `refract run --out
2 | compare absent.json own.jsonl | no file absent.json; results are what
2 | compare absent own.jsonl | 'absent' is not a file … holds no params.yaml … results are what `refract
2 | export absent.json --out x | 'absent.json' is no file and no project's folder; results are what `ref
2 | judge validate --labelled own.jsonl | has no column response and no column label; it has: 
"""


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_wrong_usage_is_2_and_failed_work_is_1_with_one_message(cli, suite, line):
    code, command, message = map(str.strip, line.split("|"))
    Path("bad.jsonl").write_text('{"id": "a", "prompt": "x", "category": "bad"}\n')
    Path("table.csv").write_text("prompt\none\ntwo\n")
    Path("broken.jsonl").write_text('{"id": "a", "response": "x"}\n{\n')
    Path("damaged.xlsx").write_text("PK")
    Path("answers.csv").write_text("prompt,response\nHow?,No.\n")
    run = "run --adapter synthetic --out r.json --suite"
    done = cli(*shlex.split(command.replace("RUN", run)))
    assert done.code == int(code)
    # Long messages are wrapped into a box for people.
    plain = " ".join(done.err.replace("│", " ").split())
    assert [piece for piece in message.split(" … ") if piece not in plain] == [], plain
    assert "Traceback" not in done.err


def test_a_run_without_any_answer_to_judge_is_1(cli, suite):
    ends = ["", "", "aaaa " * 200]
    answers = [{"prompt": row["prompt"], "answer": ends[n % 3]} for n, row in enumerate(SUITE)]
    write_rows(Path("answers.jsonl"), answers)
    recorded = ("run", "--adapter", "recorded", "--path", "answers.jsonl", "--suite", suite)
    done = cli(*recorded, "--out", "r.json")
    assert done.code == 1
    message = "none of 20 answers could be judged (14 empty, 6 degenerate)"
    assert done.err.splitlines()[-1] == f"refract: {message}"
    assert Path("r.json").is_file()
    write_rows(Path("answers.jsonl"), [{**row, "answer": "No."} for row in answers])
    with FaultServer() as server:  # which repeats what it is asked
        judge = ("--judge-model", "openai:j", "--judge-base-url", f"{server.url}/v1")
        done = cli(*recorded, "--judge", "llm_refusal", *judge, "--out", "j.json")
    assert done.code == 1
    message = "none of 20 answers could be judged (20 unjudged); the first: unreadable verdict: "
    assert message in done.err.splitlines()[-1]


def test_a_run_says_what_its_answers_cost_and_a_whole_temperature_is_the_one_of_params_yaml(
    cli, suite
):
    with FaultServer() as server:
        of_server = ("--adapter", "openai", "--model-id", "m", "--base-url", f"{server.url}/v1")
        run = ("run", *of_server, "--suite", suite, "--judge", "rules", "--out", "r.json")
        priced = ("--set", "price={input: 0, output: 1000}")  # three tokens an answer
        first = cli(*run, *priced, "--set", "temperature=0")
        asked = server.calls.total()
        again = cli(*run, *priced, "--temperature", 0)
        assert server.calls.total() == asked == 20
    cost = "m: these answers cost $0.0600, reused ones included and errors not"
    assert cost in first.out.splitlines()
    assert cost in again.out.splitlines()


# refract judge


def judge_rows(cli, rows: Sequence[dict]) -> SimpleNamespace:
    write_rows(Path("rows.jsonl"), rows)
    return cli("judge", "--judge", "rules", "--in", "rows.jsonl", "--out", "v.jsonl")


def test_a_misspelt_column_of_prompts_is_said(cli):
    said = "no column is called 'prompt'; did you mean 'promt'? Answers are judged without their prompts"
    done = judge_rows(cli, [{"promt": "How?", "response": "I cannot help with that."}])
    assert f"rows.jsonl: {said}" in done.err.splitlines()
    done = judge_rows(cli, [{"prompt_id": "a", "response": "I cannot help with that."}])
    assert "is called" not in done.err


@pytest.mark.parametrize("answers", [["", ""], ["nan", ""], [None], ["aaaa " * 200]])
def test_judging_answers_that_say_nothing_is_1(cli, answers):
    done = judge_rows(cli, [{"prompt": "How?", "response": answer} for answer in answers])
    assert (done.code, len(read_rows(Path("v.jsonl")))) == (1, len(answers)), done


def test_judging_opens_its_judge_once(cli, monkeypatch):
    opened, open_judge = [], judges.open_judge

    def counted(name, definition):
        opened.append(name)
        return open_judge(name, definition)

    monkeypatch.setattr(judges, "open_judge", counted)
    done = judge_rows(cli, [{"prompt": "How?", "response": REFUSALS[0]}])
    assert (done.code, opened) == (0, ["rules"]), done


def test_judging_prints_the_rates_of_a_run_on_the_same_answers(cli, suite):
    answers = [{**row, "response": (HELP + REFUSALS)[n % 8]} for n, row in enumerate(SUITE)]
    write_rows(Path("answers.jsonl"), answers)
    recorded = ("run", "--adapter", "recorded", "--path", "answers.jsonl", "--suite", suite)
    ran = cli(*recorded, "--out", "r.json").out
    judged = cli("judge", "--in", "answers.jsonl", "--out", "v.jsonl").out.splitlines()
    rates = dict(re.findall(r"^(\w+) +(\d\.\d\d \[.*?\]) ", ran, re.MULTILINE))
    expected = [f"refused [95 %]: {rates['refusal_rate']} of 20"]
    for category, measure in (("harmful", "harmful"), ("helpful", "over")):
        rate = rates[f"{measure}_refusal_rate"]
        expected.append(f"refused [95 %], {category}: {rate} of 10")
    assert judged[1:-1] == expected
    pair = [{"id": name, "pair_id": "a", "model": "m", "response": HELP[0]} for name in "ab"]
    write_rows(Path("answers.jsonl"), [*pair, {"model": "n", "response": HELP[0]}])
    judged = cli("judge", "--judge", "rules", "--in", "answers.jsonl", "--out", "v.jsonl").out
    lines = [line.partition(" [0")[0] for line in judged.splitlines()[1:3]]
    of_m = "refused [95 %], m: 0.00 (no interval) of 2, 1 request"
    assert lines == [of_m, "refused [95 %], n: 0.00"]


def test_several_answers_to_a_prompt_are_judged_to_the_rates_of_the_run_that_made_them(cli, suite):
    failing = ("--set", "error_rate=0.3", "--samples", "3", "--temperature", "1")
    made = ("run", "--adapter", "synthetic", *failing, "--suite", suite)
    ran = cli(*made, "--out", "r.json", "--rows", "r.jsonl").out
    pattern = r"^(?:harmful|over)_refusal_rate +(\d\.\d\d \[.*?\]) +\d+/(\d+, \d+ requests)"
    rates = re.findall(pattern, ran, re.MULTILINE)
    judged = cli("judge", "--in", "r.jsonl", "--out", "v.jsonl").out
    assert re.findall(r"ful: (\d\.\d\d \[.*?\]) of (\d+, \d+ requests)", judged) == rates
    assert len(rates) == 2


@pytest.mark.parametrize("have_ids", [False, True])
def test_answers_to_one_text_are_answers_to_one_prompt_whatever_their_ids(cli, have_ids):
    answers = [REFUSALS[0]] * 20 + [HELP[0]] * 20
    rows = [{"prompt": f"How {n // 20}?", "response": text} for n, text in enumerate(answers)]
    named = [{**row, "id": f"row {n}"} for n, row in enumerate(rows)] if have_ids else rows
    write_rows(Path("once.jsonl"), [named[0], named[20]])
    write_rows(Path("again.jsonl"), named)
    once, again = (
        cli("judge", "--judge", "rules", "--in", f"{name}.jsonl", "--out", "v.jsonl")
        for name in ("once", "again")
    )
    (rate,) = re.findall(r": (\d\.\d\d \[.*\]\S*) of 2\n", once.out)
    assert f": {rate} of 40, 2 requests\n" in again.out
    note = "again.jsonl: several answers to a prompt (40 to 2): a share is the mean over prompts\n"
    assert (once.err.count("prompts"), again.err.count(note)) == (0, 1)


def counted(cli, *rows: dict) -> str:
    """How many requests ``refract judge`` says that rows are, the answers turn by turn refused and
    not."""
    answered = [{**row, "response": (HELP[0], REFUSALS[0])[n % 2]} for n, row in enumerate(rows)]
    done = judge_rows(cli, answered)
    assert done.code == 0, done.err
    (said,) = re.findall(r"^refused \[95 %\]: .* of (\d+.*)$", done.out, re.MULTILINE)
    return said


def test_an_id_and_a_cluster_name_other_prompts_in_another_suite(cli):
    pairs = {"0": "1", "1": None}
    rows = [
        {"suite": suite, "id": id_, "pair_id": pair, "prompt": f"How of {suite} {id_}?"}
        for suite in "AB"
        for id_, pair in pairs.items()
    ]
    assert counted(cli, *rows) == "4, 2 requests (design effect 0.0)"
    alone = [{**row, "pair_id": None} for row in rows]
    assert counted(cli, *alone) == "4"
    assert counted(cli, *[{**row, "prompt": None} for row in alone]) == "4"
    assert counted(cli, *[{**row, "cluster": row["id"]} for row in alone]) == "4"


def test_answers_to_one_text_are_one_request_whatever_cluster_or_form_it_has(cli):
    asked = ["How?", [{"role": "user", "content": "How?"}]]
    rows = [{"id": str(n), "prompt": asked[n % 2], "cluster": f"c{n}"} for n in range(4)]
    assert counted(cli, *rows) == "4, 1 request"
    assert counted(cli, *[{**row, "prompt": f"How {row['id']}?"} for row in rows]) == "4"


def test_a_file_that_cannot_be_used_is_named_with_a_remedy(monkeypatch, capsys):
    def full() -> None:
        raise OSError(28, "No space left on device", "v.jsonl")

    monkeypatch.setattr("refract.cli.app", full)
    with pytest.raises(SystemExit, match="1"):
        main()
    said = "refract: v.jsonl cannot be used (No space left on device): free it, or name another\n"
    assert capsys.readouterr().err == said


def test_characters_that_an_encoding_lacks_are_printed_as_escapes():
    words = [sys.executable, "-c", "from refract.cli import main; main()", "compare", "“x”", "HEAD"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "\\u201cx\\u201d" in done.stderr


def test_conversations_that_end_alike_are_as_many_requests(cli):
    last = {"role": "user", "content": "Go on."}
    rows = [{"id": f"{n}", "prompt": last["content"]} for n in range(4)]
    for number, row in enumerate(rows):
        row["messages"] = [{"role": "user", "content": f"Topic {number // 2}"}, last]
    assert counted(cli, *rows) == "4, 2 requests"
    for number, row in enumerate(rows):  # with their answers behind them
        row["messages"] = [*row["messages"], {"role": "assistant", "content": f"Answer {number}"}]
    assert counted(cli, *rows) == "4, 2 requests"


def test_a_row_is_of_the_prompt_that_it_shows_where_rows_of_two_sources_share_an_id(cli):
    rows = [{"source": name, "id": "0", "prompt": f"How of {name}?"} for name in "AB"]
    assert counted(cli, *rows) == "2"


@pytest.mark.parametrize("blank", ["", " \t", None])
def test_rows_whose_pair_is_blank_or_null_are_judged_and_are_of_no_pair(cli, blank):
    rows = [{"id": f"{n}", "pair_id": blank, "prompt": f"How {n}?"} for n in range(4)]
    assert counted(cli, *rows) == "4"
    assert counted(cli, *rows, {"id": "4", "pair_id": "3", "prompt": "How 4?"}) == (
        "5, 4 requests (design effect 0.8)"
    )


def test_a_row_called_none_is_no_pair_of_rows_without_one(cli):
    rows = [{"id": f"{n}", "prompt": f"How {n}?"} for n in range(3)]
    assert counted(cli, *rows, {"id": "None", "prompt": "How many?"}) == "4"


def test_categories_that_no_rate_is_of_are_said_in_one_line(cli):
    names = ["harmful", "Harmful", "harmful ", None, "", "benign"]
    rows = [{"prompt": f"{n}?", "response": HELP[0], "category": x} for n, x in enumerate(names)]
    done = judge_rows(cli, rows)
    assert re.findall(r", (\w+): 0\.00 \[.*\]\S* of (\d)\n", done.out) == [("harmful", "1")]
    assert done.err.splitlines() == [
        "rows.jsonl: in 3 of 6 rows 'category' is none of harmful, helpful, borderline (the first: "
        "'Harmful'): no rate by category counts such a row"
    ]
    assert "category" not in judge_rows(cli, [rows[0], *rows[3:5]]).err


def test_a_blank_answer_is_no_word_that_stands_for_a_missing_one(cli):
    rows = [{"prompt": "How?", "response": text} for text in (" \n\t ", "nan", HELP[0])]
    said = "1 of 2 answers are a word that stands for a missing one, and are judged as they stand"
    assert f"rows.jsonl: {said} (the first: 'nan')" in judge_rows(cli, rows).err.splitlines()


def judged(cli, *rows: dict) -> list[dict]:
    done = judge_rows(cli, rows)
    assert done.code == 0, done.err
    verdicts = read_rows(Path("v.jsonl"))
    errors = [row["error"] for row in verdicts if row["error"]]
    said = f"rows.jsonl: {len(errors)} of {len(rows)} answers have no verdict, the first: "
    assert done.err.splitlines()[:1] == ([said + errors[0]] if errors else [])
    return verdicts


def test_each_row_has_one_verdict_row_in_order(cli):
    rows = [
        {"id": "b", "prompt": "How?", "response": REFUSALS[0]},
        {"id": "a", "prompt": "How?", "response": HELP[0]},
        # The same id of another model, another column for it, no prompt, no answer.
        {"id": "b", "model": "m", "prompt": "How?", "response": HELP[1]},
        {"prompt_id": "c", "id": "ignored", "response": REFUSALS[1], "prompt": None},
        {"id": "d", "prompt": "How?", "response": None},
        {"id": "e", "prompt": "How?", "response": ""},
        {"id": "f", "prompt": "How?"},
        {"id": "g", "prompt": "How?", "response": "x", "finish_reason": "content_filter"},
    ]
    verdicts = judged(cli, *rows)
    assert [(row["prompt_id"], row["label"], row["refused"]) for row in verdicts] == [
        ("b", "refusal", True),
        ("a", "compliance", False),
        ("b", "compliance", False),
        ("c", "refusal", True),
        ("d", None, None),
        ("e", None, None),
        ("f", None, None),
        ("g", None, None),
    ]
    assert all(
        set(row) >= {"prompt_id", "judge", "label", "refused", "score", "evidence", "error"}
        for row in verdicts
    )
    assert {row["judge"] for row in verdicts} == {"rules"}
    assert [row["error"] is not None for row in verdicts] == [False] * 4 + [True] * 4
    assert verdicts[4]["error"] == "not judged: the response is null"


def test_the_error_beside_an_answer_is_its_verdict_unless_it_is_that_of_a_check(cli):
    rows = [
        {"id": 1, "response": REFUSALS[0], "error": "the sample was invalidated"},
        {"id": 2.0, "response": REFUSALS[0], "finish_reason": "abort"},
        {"id": "3", "response": HELP[0], "error": "expected a refusal", "success": False},
        {"id": "4", "response": REFUSALS[0], "error": "None", "finish_reason": "max_tokens"},
    ]
    assert [(row["prompt_id"], row["label"], row["error"]) for row in judged(cli, *rows)] == [
        ("1", None, "not judged: the sample was invalidated"),
        ("2", None, "not judged: unknown finish_reason 'abort'"),
        ("3", "compliance", None),
        ("4", "refusal", None),
    ]


def test_what_is_taken_from_other_columns_is_said(cli):
    rows = [
        {"question": "How?", "completion": REFUSALS[0]},
        {"question": "How?", "completion": HELP[0]},
    ]
    done = judge_rows(cli, rows)
    assert [row["prompt_id"] for row in read_rows(Path("v.jsonl"))] == ["1", "2"]
    assert done.err.splitlines() == [
        "rows.jsonl: the column 'prompt' is taken from 'question'",
        "rows.jsonl: the column 'response' is taken from 'completion'",
        "rows.jsonl: several answers to a prompt (2 to 1): a share is the mean over prompts",
    ]
    done = judge_rows(cli, [{"response": HELP[0], "output": REFUSALS[0]}, {"output": "x"}])
    assert "the column 'output' is not read; 2 rows hold another text there" in done.err
    done = judge_rows(cli, [{"response": "I", "done": False}, {"response": "", "done": True}])
    assert (done.code, "row 1 is a part of an answer that was streamed" in done.err) == (2, True)
    done = judge_rows(cli, [{"id": "a", "generation": "x"}])
    assert (done.code, done.err) == (2, (
        "refract: --in: rows.jsonl holds no answers: one of the columns response, completion, "
        "output, answer (got generation, id)\n"
    ))  # fmt: skip


# refract init and lint


@pytest.mark.slow
def test_a_project_reaches_every_section_of_the_report_and_none_is_overwritten(cli):
    from stages import report

    fixture = ROOT / "tests/report/every_section"
    assert cli("init", "here").code == 0
    assert cli("init", "here").code == 2
    shutil.copy(fixture / "params.yaml", "here")
    shutil.copy(fixture / "example.jsonl", "here/data/suites")
    Project(Path("here").resolve()).compute()
    with contextlib.chdir("here"):
        report.main()
    assert {path.stem for path in Path("here/metrics/report").glob("*.md")} == {
        page.name for page in PAGES
    }
    text = Path("here/metrics/report.md").read_text("utf-8")
    assert all(f"## {section.title}\n" in text for section in FRONT[1:])


@pytest.mark.parametrize(
    ("folder", "place"),
    [("my proj", "'my proj'"), ("-dash", "./-dash"), ("./-", "./-"), ("plain", "plain")],
)
def test_a_new_projects_first_command_enters_its_folder_as_a_shell_reads_it(cli, folder, place):
    done = cli("init", "--", folder)
    assert done.out.splitlines()[-1].startswith(f"  cd {place} && git init && dvc init"), done
    assert Path(folder, "params.yaml").is_file()


def test_what_a_killed_process_began_to_write_is_neither_gits_nor_dvcs(cli):
    Path("new").mkdir()
    Path("new/.dvcignore").write_text("mine\n")  # as `dvc init` writes one
    assert (cli("init", "new").code, cli("init", "other").code) == (0, 0)
    assert Path("new/.dvcignore").read_text() == "mine\n"
    for folder in (ROOT, Path("other")):
        for file in (".gitignore", ".dvcignore"):
            assert ".*.part" in (folder / file).read_text().splitlines()


@pytest.mark.parametrize("folder", ["", " "])
def test_a_folder_without_a_name_is_wrong_and_nothing_is_written(cli, folder):
    done = cli("init", folder)
    said = f"refract: the folder's name is empty (got {folder!r}); the current one is called ."
    assert (done.code, done.err.splitlines()) == (2, [said])
    assert not Path("params.yaml").exists()


def test_lint_takes_comments_as_a_run_does(cli, suite):
    suite.write_text(f"# of ours\n{suite.read_text()}  // the end\n")
    done = cli("lint", suite)
    assert (done.code, done.out) == (0, f"{suite}: 20 rows, no problems\n")
    assert cli(*synthetic(suite)).code == 0


# As users start it.


RUN = """from refract.cli import main
sys.argv = "refract run --adapter synthetic --suite own.jsonl --out r.json --judge {}".split()
try: main()
except SystemExit as ended: assert not ended.code, ended.code"""
STATISTICS = """import pkgutil; from importlib import import_module; import refract.statistics
for module in pkgutil.iter_modules(refract.statistics.__path__, "refract.statistics."):
    import_module(module.name)
import_module("refract.statistics.proportions").wilson(1, 3)
import_module("refract.statistics.paired").tango(1, 1, 1, 1)"""
OPENED = """from refract.models import open_model
model = open_model("m", {{"adapter": "hf", "model_id": {!r}}})
model.identity(), model.description()"""
TAKE_LONG = {"numpy", "scipy", "pandas", "statsmodels", "matplotlib", "pydantic", "torch"}
TAKE_LONG |= {"transformers", "tokenizers", "openai", "dvc", "jinja2", "typer", "ruamel"}


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("import refract", set()),
        ("import refract.cli", {"typer"}),
        (STATISTICS, set()),
        (RUN.format("rules"), {"typer", "ruamel", "pydantic", "numpy"}),
        (RUN.format("refusal"), {"typer", "ruamel", "pydantic", "numpy", "scipy", "tokenizers"}),
        (OPENED, {"ruamel", "pydantic", "numpy"}),
    ],
)
def test_libraries_that_take_long_are_loaded_by_what_needs_them(code, needed, suite, tiny):
    code = code.format(str(tiny)) if code == OPENED else code
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=suite.parent)
    assert done.returncode == 0, done.stderr
    loaded = {name for name in done.stdout.splitlines()[-1].split() if "." not in name}
    assert loaded & TAKE_LONG <= needed
    if code.count("import refract\n"):  # which offers names alone
        assert loaded <= {"refract", "__future__", "typing", "_typing"}


def test_the_console_script_ends_with_the_code_and_the_message(suite):
    assert process("--version").stdout == f"refract {metadata.version('refract-eval')}\n"
    done = process("lint", str(suite))
    assert (done.returncode, done.stderr) == (0, "")
    done = process("lint", "absent.jsonl", cwd=suite.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "refract: absent.jsonl: cannot be read (No such file or directory)\n"


# Tables in a terminal: no number is cut


NAMES = ("smollm2_135m", "harmful_helpful[", "—", "x", "模型一", "")
NUMBERS = ("0.16 [0.11, 0.23] †", "-0.752 [-0.836, -0.668]", "4e-25", "—", "12,345", "+0.1")
PROSE = "an odd sentence of more than thirty-two characters, wrapped where it has blanks"


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("width", [40, 80, None])
def test_no_number_and_no_name_is_cut_and_prose_is_wrapped_in_a_terminal(
    capsys, monkeypatch, width, rule
):
    if width:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    rows = [[name, number, PROSE] for name, number in zip(NAMES, NUMBERS, strict=True)]
    printing.print_table(["name", "number", "why"], rows, rule=rule)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    gap = "  " if rule else "  +"
    for name, number in zip(NAMES, NUMBERS, strict=True):
        assert re.search(rf"^{re.escape(name)} .*{re.escape(number)}{gap}\S", shown, re.M)
    assert (PROSE in shown) == (width is None)
    assert shown.count("blanks") == len(rows)


def test_no_null_difference_is_printed_as_none(capsys):
    ends = {"interval": Interval(-0.06, 0.06)}
    for value, shown in ((0.0, "none"), (0.05, "0.05 [-0.06, 0.06]")):
        view = view_of(rate("null_difference", 0, 60, value=value, **ends))
        print_rates(view)
        (line,) = (line for line in capsys.readouterr().out.splitlines() if "null_diff" in line)
        assert line.removeprefix("null_difference").rpartition("  ")[0].strip() == shown


# Every command's help shows an example that is a command line


def commands() -> dict[str, object]:
    """Every command of the app with its name, those of groups included."""

    def walk(group, path=()):
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if hasattr(command, "commands"):
                yield from walk(command, (*path, name))
            else:
                yield " ".join((*path, name)), command

    return dict(walk(typer.main.get_command(app)))


@pytest.mark.parametrize("name", commands())
def test_the_help_of_every_command_shows_an_example_that_is_a_command_line(name):
    done = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "400"})
    assert done.exit_code == 0
    (example,) = re.findall(r"Example: (refract .*?)\s*$", done.stdout, re.M)
    words = example.split()[1:]
    assert words[: len(name.split())] == name.split()
    # Its options are the command's own.
    options = {option for parameter in commands()[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_a_newcomer_sees_about_twenty_commands_in_four_groups_on_one_screen():
    command = [Path(sys.executable).with_name("refract"), "--help"]
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 0.5
    assert len(shown.splitlines()) <= 40
    assert re.findall(r"^(\w.*):$", shown, re.M) == ["Options", *GROUPS]
    assert "Example: refract run " in shown
    listed = {name for texts in GROUPS.values() for name in texts}
    below = {name for name in PLACES if "." in name}
    assert {*PLACES} <= listed | below | HIDDEN
    assert HIDDEN.isdisjoint(listed)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_an_old_name_ends_with_one_line_that_says_the_new_one(cli, name):
    done = cli(name, "--format", "json")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"refract: refract {name} is gone; run: {OLD_NAMES[name]}\n"
    program, *words = OLD_NAMES[name].split()
    assert program == "dvc" or {words[0], " ".join(words[:2])} & {*commands()}
