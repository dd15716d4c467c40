"""What ``import refract`` offers: the commands as functions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import refract
from refract.agreement.judged_answers import answers_in
from refract.core.errors import RefractError
from refract.core.jsonl import read_rows, write_rows
from refract.core.params import NullAnswerSettings
from refract.core.types import Verdict
from refract.evaluate import Suite, evaluate
from refract.evaluate.judge_errors import check_pairs
from refract.judges.cases import Case, Judge, NoSettings, labelled
from refract.models import open_model
from refract.models.store import ResponseStore
from refract.project import source_name
from refract.rates.key import NULL_DIFFERENCE
from refract.results.table_rows import json_rows
from refract.suites.rows import load_suite
from tests.builders import NO, ROOT, YES, Replying, suite_rows
from tests.documents import blocks
from tests.fault_server import DECLINED, FaultServer

ROWS = suite_rows("harmful", 5, 0) + suite_rows("helpful", 0, 5)


DATED = pd.DataFrame(ROWS).assign(when=pd.Timestamp(0))


def scripted(refused: str) -> Replying:
    """A model of a user's own, which refuses what it is told to."""
    return Replying(lambda text: NO if refused in text else YES, refused=refused)


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def values(results: refract.Results) -> dict[str, float]:
    return dict(zip(results.metrics["measure"], results.metrics["value"], strict=True))


def test_rows_are_measured_with_a_model_of_ones_own_and_answers_are_reused():
    model = scripted("harmful")
    results = refract.measure(model, {"mine": ROWS})
    found = values(results)
    assert (found["harmful_refusal_rate"], found["over_refusal_rate"], found["n"]) == (1, 0, 10)
    assert list(results.rows["response"]) == [NO] * 5 + [YES] * 5
    assert set(results.rows["model"]) == {"replying"}
    refract.measure(model, {"mine": ROWS})
    assert len(model.asked) == 10


def test_a_prompt_that_a_suite_holds_four_times_is_one_request():
    rows = [{"id": f"r{n}", "prompt": f"Ask {n % 5}?", "category": "helpful"} for n in range(20)]
    once = rows[:5]
    for row in rows[15:]:  # as it is sent
        row["messages"] = [{"role": "user", "content": row.pop("prompt")}]
    model = scripted("Ask 0?")
    tables = [refract.measure(model, {"mine": part}).tables.iloc[0] for part in (once, rows)]
    shown = [(rate["rate"], rate["n"], rate["clusters"]) for rate in tables]
    assert shown == [(0.2, 5, 5), (0.2, 20, 5)]
    # Twenty rows say no more than the five: not the third of the width that twenty prompts have.
    widths = [rate["high"] - rate["low"] for rate in tables]
    assert widths[1] >= 0.95 * widths[0]


def test_names_definitions_and_files_are_measured_alike():
    by_name = refract.measure("synthetic", "harmful_helpful", limit=60)
    definition = by_name.provenance["synthetic"]["model"]["definition"]
    file = ROOT / "data/suites/harmful_helpful.jsonl"
    by_file = refract.measure(definition, file, {"kind": "rules"}, limit=60)
    # The project sets thresholds for the suite that is named, and none for a file.
    assert {**values(by_file), "passed": 0} == values(by_name)


def test_a_model_without_a_name_is_called_by_its_checkpoint_or_its_adapter():
    assert source_name({"adapter": "hf", "model_id": "models/base/"}) == "base"
    assert source_name({"adapter": "synthetic"}) == "synthetic"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synthetc", {"mine": ROWS}), "did you mean 'synthetic'"),
        (("synthetic", "nothing"), "no suite and no file 'nothing'"),
        (("synthetic", {"mine": ROWS}, "oracle"), "no judge 'oracle'"),
        (("synthetic", {"mine": ROWS}, {}), "needs its kind"),
        (("synthetic", {"mine": []}), "'mine': no rows"),
        (("synthetic", []), "'prompts': no rows"),
        (("synthetic", {"mine": [{"id": "a", "prompt": "x"}]}), "row 1: 'category' must be one"),
        (("synthetic", {"mine": ["x"]}), "suite 'mine': row 1 must be a dictionary (got 'x')"),
        (("synthetic", {"mine": 7}), "must be a DataFrame or a list of dictionaries (got 7)"),
        (("synthetic", {"mine": ROWS}, []), "name a judge (got none)"),
        (("synthetic", ROWS, ["rules", {"kind": "rules"}]), "two judges are called 'rules'"),
        ((7, {"mine": ROWS}), "a model is a name, a definition, a function or an object"),
        (("synthetic", DATED), "suite 'prompts': a cell has no form in JSON"),
        (("synthetic", [ROWS[0] | {"pair_id": "b"}]), "row 1: 'pair_id' names no row of the suite"),
        (
            ("synthetic", None),
            "suites must be names, files, rows, or rows by the name of their suite",
        ),
        (("synthetic", 5), "of their suite (got 5)"),
        (("synthetic", {}), "of their suite (got {})"),
        (("synthetic", {1: ROWS}), "of their suite (got {1: "),
        (
            ("synthetic", ROWS, None),
            "a judge is a name, or a definition that needs its kind (got None)",
        ),
        (("synthetic", ROWS, 5), "a judge is a name, or a definition that needs its kind (got 5)"),
    ],
)
def test_what_cannot_be_measured_is_an_error_that_says_what_is_allowed(arguments, message):
    with pytest.raises(refract.RefractError, match=re.escape(message)):
        refract.measure(*arguments)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": "5"}, {"limit": True}, {"seed": 0.5}])
def test_a_limit_and_a_seed_are_whole_numbers(wrong):
    with pytest.raises(refract.RefractError, match="must be a whole number, a limit at least 1"):
        refract.measure("synthetic", ROWS, **wrong)


@pytest.mark.parametrize("name", [5, "", " "])
def test_a_name_is_a_text(name):
    with pytest.raises(refract.RefractError, match="name must be a text that is not empty"):
        refract.measure("synthetic", ROWS, name=name)


def refusing(prompt: str) -> str:
    if prompt == "harmful: question 4":
        raise RuntimeError("no connection")
    return NO if "harmful" in prompt else YES


def test_a_data_frame_is_measured_with_a_function_and_an_error_stays_with_its_row():
    frame = pd.DataFrame(ROWS).drop(columns="id").assign(area=["x", None] * 5)
    results = refract.measure(refusing, frame)
    found = values(results)
    assert (found["harmful_refusal_rate"], found["n"], found["excluded"]) == (1, 9, 1)
    assert set(results.rows["model"]) == {"refusing"}
    assert set(results.rows["suite"]) == {"prompts"}
    assert list(results.rows["prompt_id"]) == [str(number) for number in range(10)]
    assert list(results.rows["response"]) == [NO] * 4 + [""] + [YES] * 5
    assert results.rows["error"][4] == "RuntimeError: no connection"


def test_a_function_that_raises_on_every_prompt_warns():
    def broken(prompt: str) -> str:
        raise RuntimeError("no connection")

    message = "all 10 answers are errors; the first: RuntimeError: no connection"
    with pytest.warns(UserWarning, match=message):
        refract.measure(broken, ROWS)


def test_a_file_is_judged(tmp_path):
    path = tmp_path / "answers.csv"
    pd.DataFrame({"id": [3, 4], "response": [NO, YES]}).to_csv(path, index=False)
    verdicts = refract.judge(str(path), "rules")
    assert [(row["prompt_id"], row["refused"]) for row in verdicts] == [("3", True), ("4", False)]
    pd.DataFrame({"response": [NO, YES], "image": ["cat.png", ""]}).to_csv(path, index=False)
    with pytest.warns(UserWarning, match="1 of 2 prompts hold image that no judge saw"):
        refract.judge(path, "rules")


def test_a_function_is_not_asked_a_conversation():
    turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]
    rows = [*ROWS, {"id": "talk", "category": "helpful", "messages": turns}]
    errors = refract.measure(refusing, {"mine": rows}).rows.set_index("prompt_id")["error"]
    assert errors["talk"] == "NotOneText: a function takes one text, and this prompt has 2 messages"


def test_a_data_frame_of_answers_is_judged_by_several_judges_with_its_index():
    frame = pd.DataFrame({"response": [NO, YES, np.nan], "n": [1, 2, 3]}, index=[7, 8, 9])
    found = refract.judge(frame, ["refusal", "rules"])
    assert list(found.index) == [7, 8, 9] * 2
    assert list(found["judge"]) == ["refusal"] * 3 + ["rules"] * 3
    assert list(found["prompt_id"]) == ["7", "8", "9"] * 2
    assert list(found["label"].fillna("")) == ["refusal", "compliance", ""] * 2
    # Whole numbers are floats beside a missing one.
    floats = refract.judge(frame.assign(id=[3.0, 4.0, np.nan]), "rules")
    assert list(floats["prompt_id"]) == ["3", "4", "9"]
    with pytest.raises(refract.RefractError, match="rows must be a DataFrame or a list"):
        refract.judge(7)
    with pytest.raises(refract.RefractError, match=r"answers\.jsonl: cannot be read"):
        refract.judge("answers.jsonl")


def test_answers_are_judged_in_order_without_ids():
    rows = [{"response": NO}, {"response": YES}, {"response": None, "id": "x"}]
    found = refract.judge(rows)
    assert [row["label"] for row in found] == ["refusal", "compliance", None]
    assert [row["prompt_id"] for row in found] == ["1", "2", "x"]
    assert found[2]["error"] == "not judged: the response is null"
    with pytest.raises(refract.RefractError, match="row 1 needs a text"):
        refract.judge([{"response": 7}])


def test_two_results_are_compared_prompt_by_prompt(tmp_path):
    before = refract.measure(scripted("harmful"), {"mine": ROWS}, name="model")
    after = refract.measure(scripted("question 0"), {"mine": ROWS}, name="model")
    found = refract.compare(before, after)
    rows = found.rows.set_index("category")
    numbers = rows.loc["harmful", ["n", "rate_a", "rate_b", "difference"]]
    assert numbers.tolist() == [5, 1, 0.2, -0.8]
    assert rows.loc["helpful", "to_refusal"] == ["helpful-00"]
    with pytest.raises(refract.RefractError, match=r"no params\.yaml"):
        refract.compare(before)


def test_results_in_memory_are_compared_as_their_files_are(cli):
    suite = ("--suite", "harmful_helpful", "--limit", 30, "--name", "model", "--judge", "rules")
    for model in ("synthetic", "synthetic_fragile"):
        assert cli("run", "--model", model, *suite, "--out", f"{model}.json").code == 0
    files = refract.compare("synthetic.json", "synthetic_fragile.json")
    sides = []
    for model in ("synthetic", "synthetic_fragile"):
        sides.append(refract.measure(model, "harmful_helpful", "rules", limit=30, name="model"))
    memory = refract.compare(*sides)
    assert memory.rows.equals(files.rows)
    assert memory.notes == files.notes
    assert not any("no provenance" in note for note in memory.notes)
    assert refract.compare(refract.load_results("synthetic.json"), sides[1]).rows.equals(files.rows)
    with pytest.raises(refract.RefractError, match=r"each side is a Results, .* .got 7"):
        refract.compare(sides[0], 7)


def test_results_print_their_main_rates():
    frame = pd.DataFrame(ROWS)
    results = refract.measure(refusing, {"<mine>": frame}, name="m")
    lines = str(results).splitlines()
    assert lines[0].startswith("Results, with the tables (rows) metrics (")
    assert [line.split()[:5] for line in lines[2:]] == [
        ["m", "<mine>", "harmful_refusal_rate", "4", "1.00"],
        ["m", "<mine>", "over_refusal_rate", "5", "0.00"],
        ["m", "<mine>", "discrimination", "9", "1.00"],
    ]


def test_every_name_offered_is_there_with_an_example_in_docstring_or_page():
    page = "".join(block.text for block in blocks(ROOT / "docs/python.md"))
    for name in refract.__all__:
        assert getattr(refract, name).__doc__, name
    for name in ("measure", "judge", "compare", "load_results"):
        assert f"refract.{name}(" in page
        assert f"refract.{name}(" in (getattr(refract, name).__doc__ or "").partition(">>>")[2]
    with pytest.raises(AttributeError, match="no attribute 'measured'"):
        refract.measured  # noqa: B018


def test_a_judge_that_cannot_be_used_is_an_error_before_the_model_is_used():
    model = scripted("")
    with ResponseStore(None) as store, pytest.raises(refract.RefractError, match="oracle"):
        evaluate([Suite("s", ROWS, {})], model, {"j": {"kind": "oracle"}}, store, name="m")
    assert model.asked == []


# Requests that a provider refuses, from its reply to the printed rate


DIRECTIVES = ["[[declined]]"] * 7 + ["[[content_filter]]"] * 2 + [""] * 3
DECISIONS = {
    "": ("0.70 [0.40, 0.89]°, of these 0.70 by the provider", (7, 10, 7), (0, 3, None)),
    "provider_refusals: excluded": ("0.00 [0.00, 0.56]", (0, 3, None), None),
    "content_filters: refused": (
     "0.75 [0.47, 0.91]°, of these 0.75 by the provider", (9, 12, 9), (0, 3, None)),
}  # fmt: skip


def suite(folder: Path) -> Path:
    """Twelve harmful prompts, of which the server refuses seven and filters two."""
    rows = []
    for number, directive in enumerate(DIRECTIVES):
        text = f"{directive} Sure, here is how, step by step: {number}".strip()
        rows.append({"id": f"p{number:02}", "prompt": text, "category": "harmful"})
    path = folder / "s.jsonl"
    write_rows(path, rows)
    return path


@pytest.mark.parametrize("decisions", DECISIONS)
@pytest.mark.parametrize("adapter", ["anthropic", "openai"])
def test_what_the_provider_refuses_is_refused_unless_settings_say_otherwise(
    cli, tmp_path, adapter, decisions
):
    if decisions:
        params = (ROOT / "params.yaml").read_text()
        name = decisions.partition(":")[0]
        Path("params.yaml").write_text(re.sub(rf"(?m)^  {name}: .*", f"  {decisions}", params))
    with FaultServer(script=lambda messages: "Turn it twice.") as server:
        url = server.url if adapter == "anthropic" else f"{server.url}/v1"
        asked = ["--adapter", adapter, "--model-id", "m", "--base-url", url]
        asked += ["--set", "api_key_env=null", "--judge", "rules"]
        asked += ["--suite", str(suite(tmp_path)), "--out", "o.json", "--rows", "rows.jsonl"]
        done = cli("run", *asked)
    assert done.code == 0, done.err
    shown, counts, without = DECISIONS[decisions]
    assert f"harmful_refusal_rate {shown}" in " ".join(done.out.split())
    found = {}
    for row in json.loads(Path("o.json").read_text())["tables"]:
        if row["measure"] == "harmful_refusal_rate":
            numbers = (row["successes"], row["n"], row.get("by_provider"))
            found[row["field"]] = numbers
    assert found.get("") == counts
    assert found.get("provider_refusals") == without
    first = read_rows(Path("rows.jsonl"))[0]
    kept = DECLINED if adapter == "anthropic" else None
    assert (first["finish_reason"], first.get("stop_details")) == ("refusal", kept)


# Null answers. That every door gives the same: test_one_door.py


KINDS = ("shuffled", "echo", "constant")
MODEL = {"adapter": "synthetic", "refusal_rate": {"harmful": 0.9, "helpful": 0.1}}
# Harmful prompts of suite_rows are those of smaller numbers.
HARMFUL = 12


class ReadsPrompts(Judge):
    """Calls every answer to a harmful prompt refused."""

    Settings = NoSettings
    FAMILY = "refusal"
    version = "1"

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        verdicts = []
        for case in cases:
            number = int(case.prompt_text.rpartition(" ")[2])
            verdicts.append(labelled("refusal" if number < HARMFUL else "compliance"))
        return verdicts


def evaluated(judges: dict, **settings: int):
    suite = Suite("s", suite_rows("s", HARMFUL, 12), {})
    return evaluate(
        [suite],
        open_model("m", MODEL),
        judges,
        ResponseStore(None),
        name="m",
        null_answers=NullAnswerSettings.model_construct(**settings),
    )


def test_a_judge_of_prompts_alone_has_a_null_difference_of_1_and_one_of_answers_alone_of_0():
    reader = {"kind": f"{__name__}:ReadsPrompts"}
    found = evaluated({"reader": reader, "rules": {"kind": "rules"}})
    values = {}
    for rate in found.rates:
        if rate.measure == NULL_DIFFERENCE:
            kind = rate.group.value or "shuffled"
            values[rate.key.judge or "reader", kind] = (rate.value, rate.counts.n)
    expected = {}
    for kind in KINDS:
        expected["reader", kind] = (1, 12)
        if kind != "echo":  # which the rules call degenerate
            expected["rules", kind] = (0, 12)
    assert values == expected
    assert found.provenance["null_answers"] == {"sample": 60, "llm_sample": 12, "seed": 0}


def test_other_rates_are_the_same_without_null_answers():
    judges = {"rules": {"kind": "rules"}}
    few, none = evaluated(judges, sample=5), evaluated(judges, sample=0)
    assert {r.counts.n for r in few.rates if r.measure == NULL_DIFFERENCE} == {5}
    rest_of_few = [rate for rate in few.rates if rate.measure != NULL_DIFFERENCE]
    assert json_rows(rest_of_few) == json_rows(none.rates)
    assert few.results()["metrics"] == none.results()["metrics"]


# Two rows of one id: an error that names the id and both rows, wherever rows are read


ROW = {"category": "harmful", "prompt": "How?", "response": "No.", "label": "refusal"}
TWICE = [{"id": "a", **ROW}, {"id": "b", **ROW}, {"id": "a", **ROW, "response": "Yes."}]


def file(suffix: str = "jsonl") -> Path:
    path = Path(f"twice.{suffix}")
    if suffix == "csv":
        pd.DataFrame(TWICE).to_csv(path, index=False)
    else:
        write_rows(path, TWICE)
    return path


def recorded(path: Path) -> dict:
    return {"adapter": "recorded", "path": str(path)}


def answers_twice() -> object:
    judged = {"suite": "s", "judges": {"rules": {}}, "judge": "rules", "outcome": "refusal"}
    rows = [{"prompt_id": row["id"], **row, **judged} for row in TWICE]
    write_rows(Path("r.rows.jsonl"), rows)
    return answers_in(Path("r.rows.jsonl"))


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: load_suite(file()), "twice.jsonl:3: duplicate id 'a' (first on line 1); delete one"),
        (lambda: refract.measure("synthetic", TWICE), "row 3: duplicate id 'a' (first in row 1)"),
        (lambda: refract.measure("synthetic", pd.DataFrame(TWICE)), "row 3: duplicate id 'a' (first"),
        (lambda: refract.measure(recorded(file()), TWICE[:2]), "row 3 has the id 'a', as row 1 does"),
        (lambda: refract.measure(recorded(file("csv")), TWICE[:2]), "row 3 has the id 'a', as row 1"),
        (lambda: refract.judge(TWICE, "rules"), "row 3 has the id 'a', as row 1 does: delete one"),
        (lambda: refract.judge(pd.DataFrame(TWICE), "rules"), "row 3 has the id 'a', as row 1 does"),
        (lambda: refract.judge(file("csv"), "rules"), "row 3 has the id 'a', as row 1 does"),
        (lambda: check_pairs(TWICE, "own.jsonl"), "own.jsonl: row 3 has the id 'a', as row 1 does"),
        (answers_twice, "r.rows.jsonl: row 3 has the id 'a', as row 1 does"),
        (lambda: refract.judge(pd.concat([pd.DataFrame([ROW])] * 2), "rules"),
         "the index has '0' twice, and without a column id its labels are the ids; reset_index("),
    ],
)  # fmt: skip
def test_two_rows_of_one_id_are_an_error(read, said):
    with pytest.raises(RefractError) as raised:
        read()
    assert said in str(raised.value)


@pytest.mark.parametrize("column", ["model", "suite", "epoch", "sample", "trial"])
def test_a_column_tells_answers_to_one_prompt_apart(column):
    rows = [{**row, column: number} for number, row in enumerate(TWICE)]
    assert len(refract.judge(rows, "rules")) == 3


def test_commands_say_so_in_a_sentence(cli):
    for command in (
        ("judge", "--in", file(), "--out", "v.jsonl", "--judge", "rules"),
        ("judge", "validate", "--labelled", file(), "--judge", "rules"),
        ("lint", file()),
    ):
        done = cli(*command)
        assert (done.code, "'a'" in done.err + done.out) == (1, True), done
    assert not Path("v.jsonl").exists()
