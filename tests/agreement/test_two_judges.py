"""Two judges on the same answers: their agreement, and what they stop as layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.agreement.two_judges import defense, join_verdicts, read_filed_verdicts
from refract.core.errors import RowError
from refract.core.jsonl import read_rows, write_rows
from refract.core.showing import csv_cell
from refract.core.tables import write_table

R, C = "refusal", "compliance"


def verdicts(path: Path, labels: list, **more) -> Path:
    refused = {"refusal": True, "partial_refusal": True, "compliance": False}
    rows = [{"label": label, "refused": refused.get(label), **more} for label in labels]
    write_rows(path, [{"prompt_id": f"p{n:02}", **row} for n, row in enumerate(rows)])
    return path


# Layers

# inner stops, outer stops: 2 both, 2 inner only, 3 outer only, 3 neither
PAIRS = [(True, True)] * 2 + [(True, False)] * 2 + [(False, True)] * 3 + [(False, False)] * 3


def test_layers_alone_together_and_the_gain_are_those_worked_out_by_hand():
    numbers = defense(*zip(*PAIRS, strict=True))
    assert numbers["pairs"] == {"both": 2, "inner_only": 2, "outer_only": 3, "neither": 3}
    layers = ("inner", "outer", "system", "both")
    assert [numbers[layer]["stopped"] for layer in layers] == [4, 5, 7, 2]
    # Wilson: 7/10 (.39678, .89221); the gain is the 3 of 10 stopped by the outer alone (.10779, .60322)
    assert numbers["system"] == {"stopped": 7, "rate": 0.7, "low": 0.3968, "high": 0.8922}
    assert numbers["gain"] == {"stopped": 3, "rate": 0.3, "low": 0.1078, "high": 0.6032}


@pytest.fixture
def layers(tmp_path):
    labels = {True: R, False: C, None: None}
    inner, outer = map(list, zip(*PAIRS, strict=True))
    verdicts(tmp_path / "inner.jsonl", [labels[stop] for stop in [*inner, None, True, None, True]])
    verdicts(tmp_path / "outer.jsonl", [labels[stop] for stop in [*outer, True, None, None]])


ARGUMENTS = ("judge", "did", "--inner", "inner.jsonl", "--outer", "outer.jsonl")


def test_unjudged_answers_are_left_out_and_counted(cli, layers):
    done = cli(*ARGUMENTS, "--format", "json", "--out", "o.json")
    found = json.loads(done.out)
    assert done.err == "only in A: 1 (p13)\n"
    assert found["n"] == 10
    assert found["unjudged"] == {"inner": 1, "outer": 1, "both": 1}
    assert found["only_a"] == [["p13"]]
    with open("o.json") as file:
        assert json.load(file) == found


def test_answers_to_one_prompt_are_taken_together(cli, tmp_path):
    once = [(True, True)] * 4 + [(False, True)] * 4 + [(False, False)] * 4
    thrice = [pair for pair in once for _ in range(3)]
    plain = defense(*zip(*once, strict=True))
    prompts = [number // 3 for number in range(36)]
    numbers = defense(*zip(*thrice, strict=True), prompts=prompts)
    for layer in ("inner", "outer", "system", "both", "gain"):
        assert numbers[layer]["rate"] == plain[layer]["rate"]
        assert numbers[layer]["low"] <= plain[layer]["low"]
        assert numbers[layer]["high"] >= plain[layer]["high"]
    ids = [f"p{number // 3}{('', '~2', '~3')[number % 3]}" for number in range(36)]
    for name, side in zip("ab", zip(*thrice, strict=True), strict=True):
        rows = [{"prompt_id": id_, "refused": stops} for id_, stops in zip(ids, side, strict=True)]
        write_rows(tmp_path / f"{name}.jsonl", rows)
    did = ("judge", "did", "--inner", "a.jsonl", "--outer", "b.jsonl")
    found = json.loads(cli(*did, "--format", "json").out)
    assert {layer: found[layer] for layer in numbers} == numbers
    assert "36 answers to 12 prompts, of which each is a cluster" in cli(*did).out.splitlines()
    said = (
        "36 answers to 12 prompts, each taken as an item of its own: where answers to one prompt are "
        "alike, the intervals are too short"
    )
    assert said in cli("judge", "kappa", "a.jsonl", "b.jsonl").out.splitlines()


# Agreement


def test_kappa_of_two_files_is_that_of_their_table(cli, tmp_path):
    a = verdicts(tmp_path / "a.jsonl", [R] * 25 + [C] * 25)
    b = verdicts(tmp_path / "b.jsonl", [R] * 20 + [C] * 5 + [R] * 10 + [C] * 15)
    done = cli("judge", "kappa", a, b, "--format", "json", "--strict")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["refusal"]["kappa"], found["refusal"]["n"], found["joined"]) == (0.4, 50, 50)
    assert found["refusal"]["low"] < 0.4 < found["refusal"]["high"]
    assert found["undecided"] == {"a": 0, "b": 0}
    assert found["labels"]["confusion"] == {C: {C: 15, R: 10}, R: {C: 5, R: 20}}
    assert "0.400" in cli("judge", "kappa", a, b).out


def test_labels_are_compared_in_one_spelling(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"prompt_id": "1", "label": "Partial refusal"}])
    (found,) = read_filed_verdicts(tmp_path / "a.jsonl")
    assert (found.label, found.refused) == ("partial_refusal", True)


def test_what_did_not_join_is_counted_and_named_and_strict_fails(cli, tmp_path):
    a = verdicts(tmp_path / "a.jsonl", [R, C, R, None])
    b = verdicts(tmp_path / "b.jsonl", [R, C])
    done = cli("judge", "kappa", a, b)
    assert (done.code, done.err) == (0, "only in A: 2 (p02, p03)\n")
    assert cli("judge", "kappa", b, a, "--strict").code == 1
    assert cli("judge", "kappa", b, a).err == "only in B: 2 (p02, p03)\n"


def test_answers_are_told_apart_by_model_and_suite_where_both_files_say(tmp_path):
    first = verdicts(tmp_path / "a.jsonl", [R, C], model="m", suite="s")
    rows = read_rows(first)
    write_rows(first, [*rows, *({**row, "model": "n"} for row in rows)])
    second = verdicts(tmp_path / "b.jsonl", [R, C], model="n", suite="s")
    joined = join_verdicts(read_filed_verdicts(first), read_filed_verdicts(second))
    assert joined.by == ("model", "suite", "prompt_id")
    assert [(a.model, a.prompt_id) for a, _ in joined.pairs] == [("n", "p00"), ("n", "p01")]
    assert joined.only_first == [("m", "s", "p00"), ("m", "s", "p01")]
    # The other file does not say whose answers it judged: two of the first would fit each.
    plain = verdicts(tmp_path / "c.jsonl", [R, C])
    with pytest.raises(RowError, match="A has two verdicts for p00"):
        join_verdicts(read_filed_verdicts(first), read_filed_verdicts(plain))


def test_verdicts_on_other_answers_in_the_same_order_are_an_error(cli, tmp_path):
    """Whoever judged them: ``refract judge``, the pipeline, a run, or people in a spreadsheet."""
    texts = ["=I can't\r\nhelp.", "Sure.", ""]
    answers = [{"response": text} for text in texts]
    write_rows(tmp_path / "own.jsonl", answers)
    write_rows(tmp_path / "other.jsonl", [{"response": f"No. {text}"} for text in texts])
    for name in ("own", "other"):
        cli("judge", "--judge", "rules", "--in", f"{name}.jsonl", "--out", f"{name}.v.jsonl")
    ids = [{"prompt_id": str(n), "label": label} for n, label in enumerate([R, C, C], 1)]
    write_rows(tmp_path / "data/verdicts/m/s.jsonl", [
        {"prompt_id": row["prompt_id"], "judges": {"x": {"label": C}}} for row in ids
    ])  # fmt: skip
    rows = [{**row, **answer} for row, answer in zip(ids, answers, strict=True)]
    write_rows(tmp_path / "data/responses/m/s.jsonl", rows)
    write_rows(tmp_path / "run.jsonl", rows)
    cells = [{**row, "suite": "s", "pair_sha256": "", "response": csv_cell(row["response"])}
             for row in rows]  # fmt: skip
    write_table(tmp_path / "l.csv", list(cells[0]), cells)
    crlf = (tmp_path / "l.csv").read_bytes().replace(b"<U+000D>\n", b"\r\n")
    (tmp_path / "l.csv").write_bytes(crlf)
    (tmp_path / "big.CSV").write_bytes(crlf)
    for mine in ("own.v.jsonl", "data/verdicts/m/s.jsonl", "run.jsonl", "l.csv", "big.CSV"):
        assert cli("judge", "kappa", mine, "own.v.jsonl").code == 0, mine
        done = cli("judge", "did", "--inner", mine, "--outer", "other.v.jsonl")
        of = (
            "2 of 3" if mine in ("l.csv", "big.CSV") else "3 of 3"
        )  # a cell without a text says nothing
        message = (
            f"A and B hold verdicts on other answers under the same prompt_id: {of}, the first 1"
        )
        assert (done.code, message in done.err) == (1, True), (mine, done.err)


def test_verdicts_of_the_pipeline_are_read_by_judge_model_and_suite(cli, tmp_path):
    def row(n: int, first: str, second: str) -> dict:
        judges = {"rules": {"label": first, "refused": first == R}}
        judges["llm"] = {"label": second, "refused": second == R}
        return {"prompt_id": str(n), "judges": judges}

    folder = tmp_path / "data/verdicts"
    for model in ("m", "n"):
        write_rows(folder / f"{model}/s.jsonl", [row(0, R, R), row(1, C, R), row(2, C, C)])
    found = read_filed_verdicts(folder, "llm")
    assert [(v.model, v.suite, v.prompt_id, v.refused) for v in found] == [
        (model, "s", str(n), n < 2) for model in ("m", "n") for n in range(3)
    ]
    assert read_filed_verdicts(folder / "m/s.jsonl", "llm") == found[:3]
    both = ("--judge-a", "rules", "--judge-b", "llm")
    numbers = json.loads(cli("judge", "kappa", folder, folder, *both, "--format", "json").out)
    assert numbers["joined_by"] == ["model", "suite", "prompt_id"]
    assert numbers["refusal"]["n"] == 6
    assert "name one of its judges: llm, rules" in cli("judge", "kappa", folder, folder).err
    assert "(got 'x')" in cli("judge", "kappa", folder, folder, "--judge-a", "x").err
    # Verdicts on two models' answers are not on the same answers.
    done = cli("judge", "kappa", folder / "m/s.jsonl", folder / "n/s.jsonl", *both)
    assert done.code == 2
    assert "A has m s 0; B has n s 0" in done.err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt_id": 3, "label": "refusal"}, "needs a text as 'prompt_id' or 'id'"),
        ({"prompt_id": "1", "response": "x"}, "is not a verdict: it needs 'label'"),
        ({"prompt_id": "1", "label": 3}, "is not a verdict: it needs 'label'"),
        ({"prompt_id": "1", "judges": ["rules"]}, "is not a verdict: it needs 'label'"),
        ({"prompt_id": "1", "judges": {"rules": 3}}, "is not a verdict: it needs 'label'"),
        ({"prompt_id": "1", "judges": {}}, "name one of its judges"),
        ({"prompt_id": "1", "label": "refusal", "refused": False},
         "row 1 contradicts itself: label 'refusal', refused False"),
    ],
)  # fmt: skip
def test_a_row_that_is_no_verdict_is_named(cli, tmp_path, row, message):
    write_rows(tmp_path / "a.jsonl", [row])
    done = cli("judge", "kappa", "a.jsonl", "a.jsonl")
    assert done.code == 1
    assert message in done.err
