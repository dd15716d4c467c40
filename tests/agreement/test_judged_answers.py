"""Which answers of a run were judged: of a project's files, and of a file of rows."""

from __future__ import annotations

import pytest

from refract.agreement.judged_answers import answers_in, stored_answers
from refract.agreement.label_files import JudgedAnswer
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import write_rows
from refract.core.types import given_response
from refract.judges.cases import labelled, unjudged
from tests.agreement.answers import as_rows, judged_answers

PROMPTS = {
    "a": {"id": "a", "prompt": "Ask a?", "category": "harmful", "topic": "law"},
    "b": {"id": "b", "prompt": "Ask b?", "category": "helpful", "topic": "law"},
    "c": {"id": "c", "prompt": "Ask c?", "category": "helpful"},
}
PARAMS = {"suites": {"s": {"file": "suite.jsonl", "judges": ["j", "k"], "cluster": "topic"}}}


@pytest.fixture
def project(tmp_path):
    """A project whose model m answered prompts of suite s, and whose judge j disagrees with k."""
    verdicts = {
        "a": labelled("partial_refusal") | {"probabilities": {"compliance": 0.25}},
        "b": labelled("compliance"),
        "c": labelled("refusal"),
        "a+": labelled("refusal"),
        "b+": labelled("degenerate"),
        "c+": unjudged("lost"),
    }
    prompts, responses, judged = [], [], []
    for id_, verdict in verdicts.items():
        row = PROMPTS[id_[0]]
        prompts.append(
            {
                "prompt_id": id_,
                "source_id": row["id"],
                "category": row["category"],
                "perturbation": {"name": "noise"} if id_ == "a+" else None,
                "attempts": ["Before?", row["prompt"]],
            }
        )
        reason = "length" if id_ == "b" else "stop"
        responses.append({**given_response(id_, f"Say {id_}.", reason), "attempt": 1})
        judged.append({"prompt_id": id_, "judges": {"j": verdict, "k": labelled("compliance")}})
    write_rows(tmp_path / "suite.jsonl", PROMPTS.values())
    write_rows(tmp_path / "data/prompts/s.jsonl", prompts)
    write_rows(tmp_path / "data/responses/m/s.jsonl", responses)
    write_rows(tmp_path / "data/verdicts/m/s.jsonl", judged)
    return tmp_path


def test_the_judged_answers_of_a_project_are_the_clean_ones_that_the_first_judge_labelled(project):
    # Neither a perturbed prompt, nor a degenerate answer, nor one without a verdict.
    found = stored_answers(project, PARAMS, "m", "s")
    assert found == [
        JudgedAnswer("s", "a", "harmful", "Ask a?", "Say a.", "partial_refusal", "law", 0.75),
        JudgedAnswer("s", "b", "helpful", "Ask b?", "Say b.", "compliance", "law"),
        JudgedAnswer("s", "c", "helpful", "Ask c?", "Say c.", "refusal", "c"),
    ]
    assert found[0].prompt_key == ("s", "a")
    assert found[0]._replace(prompt_id="a~3", sample=3).prompt_key == ("s", "a")
    assert found[0]._replace(prompt_id="a~1").prompt_key == ("s", "a~1")


def test_answers_to_one_text_are_of_one_cluster_though_texts_are_not_kept(project):
    again = {**PROMPTS["c"], "prompt": "Ask a?"}
    write_rows(project / "suite.jsonl", [PROMPTS["a"], PROMPTS["b"], again])
    params = {"suites": {"s": {"file": "suite.jsonl", "judges": ["j"]}}}
    clusters = [answer.cluster for answer in stored_answers(project, params, "m", "s")]
    assert clusters == ["a", "b", "a"]


@pytest.mark.parametrize("folder", ["prompts", "responses/m", "verdicts/m"])
def test_a_project_whose_pipeline_has_not_run_is_told_so(project, folder):
    file = project / f"data/{folder}/s.jsonl"
    file.unlink()
    with pytest.raises(UsageError, match=f"no {file}; run: dvc repro"):
        stored_answers(project, PARAMS, "m", "s")


def test_of_a_file_of_two_suites_one_must_be_named(tmp_path):
    run = judged_answers(4)
    other = [answer._replace(suite="t") for answer in run]
    write_rows(tmp_path / "rows.jsonl", as_rows([*run, *other]))
    with pytest.raises(UsageError, match="holds several suites; name one with --suite: s, t"):
        answers_in(tmp_path / "rows.jsonl")
    assert answers_in(tmp_path / "rows.jsonl", "s") == run
    assert answers_in(tmp_path / "rows.jsonl", "t") == other
    assert answers_in(tmp_path / "rows.jsonl", "u") == []


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda row: row.pop("response"), "row 2 is none of `refract run --rows`"),
        (lambda row: row.update(prompt=3), "row 2 is none of `refract run --rows`"),
        (lambda row: row.update(category=None), "row 2 is none of `refract run --rows`"),
        (
            lambda row: row.update(outcome="refusal", judges={"first": {"label": "compliance"}}),
            "row 2 contradicts itself: outcome 'refusal', and the label of first is 'compliance'",
        ),
    ],
)
def test_a_row_of_another_form_is_named_by_its_number(tmp_path, spoil, message):
    rows = as_rows(judged_answers(3))
    spoil(rows[1])
    write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(RowError, match=message):
        answers_in(tmp_path / "rows.jsonl")


def test_an_answer_that_the_rates_leave_out_is_none_of_those_judged(tmp_path):
    rows = as_rows(judged_answers(4))
    rows[2] |= {"outcome": "unjudged", "judges": {"first": {"label": "refusal"}}}
    rows[3] |= {"judges": {"first": {"probabilities": {"compliance": 0.4}}}, "cluster": ""}
    write_rows(tmp_path / "rows.jsonl", rows)
    *others, found = answers_in(tmp_path / "rows.jsonl")
    assert [answer.prompt_id for answer in others] == ["p00", "p01"]
    assert (found.prompt_id, found.outcome) == ("p03", "refusal")
    assert (found.probability, found.cluster) == (0.6, "p03")
