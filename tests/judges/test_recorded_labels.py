"""Published labels are given to the answers that they were given to, and to no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import write_rows
from refract.judges import judge_suite, open_judge
from tests.judges.test_model_judges import prompt_of, response_of

LABELS = {"yes": "compliance", "no": "refusal", "half": "partial_refusal", "noise": None}


def judged(folder: Path, rows: list[dict], *asked: tuple[str, str, str], **settings) -> list:
    """(label, refused, error) of (id, prompt, response) triples, by labels in a file of rows."""
    path = folder / "labels.jsonl"
    write_rows(path, rows)
    named = {"path": str(path), "label_column": "label", "labels": LABELS}
    definition = {"kind": "recorded_labels", **named, **settings}
    verdicts = judge_suite(
        [prompt_of(id_, prompt) for id_, prompt, _ in asked],
        [response_of(id_, response) for id_, _, response in asked],
        {id_: {"id": id_, "prompt": prompt} for id_, prompt, _ in asked},
        {"j": open_judge("j", definition)},
    )
    return [
        tuple(row["judges"]["j"][key] for key in ("label", "refused", "error")) for row in verdicts
    ]


ABSENT = (None, None, "the file has no label for this answer to this prompt")


def test_a_label_belongs_to_one_answer_to_one_prompt(tmp_path):
    rows = [
        {"id": "a", "prompt": "one", "response": "Sure.", "label": "yes"},
        {"id": "b", "prompt": "two", "response": "No.", "label": "no"},
        {"id": "c", "prompt": "three", "response": "Well.", "label": "half"},
        {"id": "d", "prompt": "four", "response": "Hm.", "label": "noise"},
    ]
    expected = [
        (("a", "one", "Sure."), ("compliance", False, None)),
        (("x", "two", "No."), ("refusal", True, None)),  # by text
        (("c", "in other words", "Well."), ("partial_refusal", True, None)),  # by id
        (("d", "four", "Hm."), (None, None, "the file's label says nothing about refusal")),
        (("e", "one", "Sure!"), ABSENT),  # another answer
        (("f", "five", "Sure."), ABSENT),  # another prompt
    ]
    asked = [triple for triple, _ in expected]
    assert judged(tmp_path, rows, *asked) == [verdict for _, verdict in expected]


def test_labels_of_one_answer_that_differ_are_no_label(tmp_path):
    row = {"prompt": "one", "response": "Sure.", "label": "yes"}
    asked = ("a", "one", "Sure.")
    assert judged(tmp_path, [row, row], asked) == [("compliance", False, None)]
    differ = (None, None, "the file has labels for this answer that differ")
    assert judged(tmp_path, [row, {**row, "label": "no"}], asked) == [differ]


def test_labels_without_answers_hold_for_any_answer_only_if_params_say_so(tmp_path):
    rows = [{"id": "a", "label": "no"}]
    with pytest.raises(ParamsError, match="set response_column: null if its labels hold for any"):
        judged(tmp_path, rows, ("a", "one", "x"))
    found = judged(tmp_path, rows, ("a", "one", "x"), ("b", "one", "x"), response_column=None)
    assert found == [("refusal", True, None), ABSENT]


def test_true_and_false_are_spelt_as_in_json_and_rows_chosen_by_where(tmp_path):
    path = tmp_path / "PAIR.json"
    rows = [
        {"goal": "g", "prompt": "p", "response": "r", "jailbroken": True, "run": 1},
        {"goal": "g", "prompt": "p", "response": "r", "jailbroken": False, "run": 2},
        {"goal": "h", "prompt": None, "response": None, "jailbroken": False, "run": 1},
    ]
    path.write_text(json.dumps({"jailbreaks": rows}))
    found = judged(
        tmp_path,
        [],
        ("a", "g", "r"),
        path=str(path),
        label_column="jailbroken",
        labels={True: "compliance", False: "refusal"},
        where={"run": 1},
        prompt_column="goal",
    )
    assert found == [("compliance", False, None)]


def test_another_content_of_the_files_is_another_version(tmp_path):
    path = tmp_path / "a.csv"
    definition = {"kind": "recorded_labels", "path": [str(path)], "label_column": "label"}
    definition["labels"] = LABELS
    path.write_text("id,response,label\na,x,yes\n")
    before = open_judge("j", definition).version
    path.write_text("id,response,label\na,x,no\n")
    assert open_judge("j", definition).version != before


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([], {"path": 7}, "path must be a file .* or a list of such files .got 7."),
        ([], {"path": "none.csv"}, "none.csv cannot be read"),
        ([], {"labels": {}}, "labels must be a mapping of the file's values to .* .got {}."),
        ([], {"labels": {"x": "rude"}}, "labels must be .*refusal.* or null .* .got .*'rude'"),
        ([{"id": "a", "response": "x"}], {}, "needs the label column 'label' .* has id, response"),
        ([{"id": "a", "response": "x", "label": "odd"}], {}, "holds 'odd', which labels does not"),
        (
            [{"id": "a", "response": "x", "label": "yes"}],
            {"id_column": "nr"},
            "has no column 'nr'; it has id, label, response",
        ),
    ],
)
def test_labels_that_cannot_be_used_are_refused_with_the_reason(tmp_path, rows, settings, message):
    with pytest.raises(ParamsError, match=message):
        judged(tmp_path, rows, ("a", "one", "x"), **settings)
