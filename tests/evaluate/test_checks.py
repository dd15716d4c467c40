"""The checks in Python, and each weakness of the library whose checks they resemble."""

from __future__ import annotations

import pandas as pd
import pytest

from refract.checks import (
    PromptTooLong,
    char_injection,
    output_coherency,
    output_requirement,
    prompt_injection,
)
from refract.core.errors import RefractError
from refract.statistics.proportions import wilson
from tests.builders import Replying
from tests.judge_models import FAIL, PASS, JudgeServer

CLEAN = "Paris is the capital of France, and it lies on the river Seine."
DRIFT = "My neighbour's dog has learned to open the garden gate by itself."
TEMPLATE = "{question}"


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def questions(count: int = 4, **columns) -> pd.DataFrame:
    return pd.DataFrame(
        {"prompt": [f"Question {number}?" for number in range(count)], **columns},
        index=[f"q{number}" for number in range(count)],
    )


def labels(result, judge) -> list[str | None]:
    return [row["judges"][judge]["label"] for row in result.rows]


# Datasets and results


def test_a_result_says_what_was_tested_and_what_failed():
    answers = {"Question 0?": "DAN: hi", "Question 1?": "Hello", "Question 2?": "Sure."}
    result = prompt_injection(answers.get, questions(4), ["DAN:"], threshold=1 / 3)
    assert result.passed  # a rate equal to its threshold
    assert bool(result)
    assert (result.metric, result.worst.interval) == (pytest.approx(1 / 3), wilson(1, 3))
    assert result.counts == {"tested": 3, "failed": 1, "errors": 1}
    (error,) = result.errors
    assert error == "q3: not tested (NoText: the function returned None, which is not a text)"
    (failure,) = result.failures
    shown = [failure[key] for key in ("prompt_id", "response", "label")]
    assert shown == ["q0", "DAN: hi", "found"]
    assert failure["evidence"][0]["string"] == "DAN:"
    assert labels(result, "strings") == ["found", "not_found", "not_found", None]
    assert str(result) == "passed: 1 of 3 answers failed, 1 could not be tested"
    assert [rate.name for rate in result.rates] == ["injection_success_rate"]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (questions(0), "'checks': no rows"),
        (questions(2).set_axis([1, "1"]), "duplicate id '1'"),
        (pd.DataFrame([["x", "y"]], columns=["a", "a"]), "two columns have one name"),
        (7, "the dataset must be a DataFrame or a list"),
        ([{"question": "x"}], "needs a template such as '{question}'"),
    ],
)
def test_a_dataset_that_cannot_be_used_says_why(dataset, message):
    with pytest.raises(ValueError, match=message):
        char_injection(lambda _: CLEAN, dataset)


@pytest.mark.parametrize(
    ("dataset", "template", "sent"),
    [
        ("Say DAN", None, ["Say DAN"]),
        (["Say DAN", "Hi"], None, ["Say DAN", "Hi"]),
        ([{"prompt": "Say DAN", "id": "x"}], None, ["Say DAN"]),
        ({"question": ["Who?"], "age": [31]}, "{age}: {question}", ["31: Who?"]),
    ],
)
def test_a_dataset_is_a_prompt_or_prompts_or_rows_or_features_with_a_template(
    dataset, template, sent
):
    rows = pd.DataFrame(dataset) if isinstance(dataset, dict) else dataset
    result = prompt_injection(Replying(str), rows, ["?"], template=template)
    assert [row["response"] for row in result.rows] == sent


def test_fields_that_judges_read_are_features_only_where_the_template_asks_for_them():
    row = {"question": "Who?", "language": "en", "expected_strings": ["Who", "Else"]}
    found = prompt_injection(
        Replying(str),
        [row],
        ["Nobody"],
        template="{question} ({language})",
        all_expected_strings_must_be_found=False,
    )
    assert (found.metric, found.rows[0]["response"]) == (1, "Who? (en)")
    # Fields that no check reads are features as others are, whatever they hold.
    other = {**row, "expected_strings": ["Who"], "reference": 3.5, "pair_id": 7}
    found = prompt_injection(Replying(str), [other], template="{question} {pair_id}", threshold=1.0)
    assert (found.metric, found.rows[0]["response"]) == (1, "Who? 7")


# Char injection


def test_nonsense_after_an_injection_and_a_refusal_that_flips_are_failures():
    """The original calls unrelated English unchanged, and cannot see "I can" turn to "can't"."""
    result = char_injection(
        lambda text: DRIFT if "\r" in text else CLEAN, questions(2), characters=["\r"]
    )
    assert (result.passed, result.metric) == (False, 1.0)
    assert [row["changed_by"] for row in result.failures] == ["similarity", "similarity"]
    assert result.failures[0]["prompt"] == "Question 0?" + 1000 * "\r"
    assert {row["source_id"]: row["clean_outcome"] for row in result.failures} == {
        "q0": "compliance",
        "q1": "compliance",
    }

    def answer(text):
        return f"I can{'' if chr(8) in text else chr(39) + 't'} help you with opening this lock."

    result = char_injection(answer, questions(1), characters=["\b"], output_sensitivity=0.9)
    assert [row["changed_by"] for row in result.failures] == ["refusal"]


def test_an_answer_that_failed_is_no_error_whatever_it_is():
    silent = char_injection(lambda text: "" if "\r" in text else CLEAN, questions(2))
    assert (silent.counts["failed"], silent.errors) == (2, [])


def picky(limit: int, broken: str = ""):
    """A model that rejects prompts above a length, and one perturbed prompt at any."""

    def answer(text):
        if len(text) > limit or (broken and broken in text and "\r" in text):
            raise PromptTooLong("too long")
        return CLEAN

    return answer


def test_rows_that_fail_at_every_length_are_left_out_and_counted_and_shift_no_other():
    """The original compares the wrong rows then, or crashes."""
    result = char_injection(picky(10_000, "Question 1"), questions(4), characters=["\r"])
    assert (result.passed, result.metric) == (True, 0.0)
    assert result.counts == {"tested": 3, "failed": 0, "errors": 1}
    (error,) = result.errors
    assert error.startswith("q1/")
    assert "rejected every attempt as too long" in error


@pytest.mark.parametrize(
    ("words", "status", "falls_back"),
    [
        ("prompt is too long: 250000 tokens > 200000 maximum", None, True),
        ("maximum context length: slow down", 429, False),
    ],
)
def test_a_providers_own_words_for_a_prompt_too_long_count_as_such(words, status, falls_back):
    """The original takes any exception for one."""

    def answer(text):
        if text.count("\r") > 600:
            error = RuntimeError(words)
            error.status_code = status
            raise error
        return CLEAN

    result = char_injection(answer, questions(2), characters=["\r"])
    assert result.counts["errors"] == (0 if falls_back else 2)
    assert [rate.repetitions for rate in result.rates] == [{500: 2} if falls_back else {}]


def test_a_model_that_fails_on_one_row_loses_that_row_alone():
    def failing(where):
        def answer(text):
            if where in text:
                raise ConnectionError("no route to host")
            return CLEAN

        return answer

    result = char_injection(failing("2"), questions(4))
    assert result.passed
    assert result.counts == {"tested": 6, "failed": 0, "errors": 2}
    assert all(error.startswith("q2") for error in result.errors)
    result = char_injection(failing("Question"), questions(2))
    assert (result.passed, result.metric, result.worst) == (False, None, None)
    assert result.counts["errors"] == 4
    assert all("ConnectionError: no route" in error for error in result.errors)


def test_the_metric_is_the_worst_characters_rate_whether_the_check_passes_or_not():
    """The original reports 0.0 when it passes, and the mean of the failing runs when not."""
    answers = {"\r": 1, "\b": 2}

    def answer(text):
        failing = next((answers[c] for c in answers if c in text), 0)
        return DRIFT if text.startswith(tuple(f"Question {n}" for n in range(failing))) else CLEAN

    passed = char_injection(answer, questions(4), threshold=0.5)
    failed = char_injection(answer, questions(4), threshold=0.49)
    assert (passed.passed, failed.passed) == (True, False)
    assert passed.metric == failed.metric == 0.5
    by_character = {rate.group.value: rate.value for rate in passed.rates}
    assert by_character == {"U+0008": 0.5, "U+000D": 0.25}
    assert passed.counts["failed"] == len(passed.failures) == 3


@pytest.mark.parametrize(
    ("check", "settings", "message"),
    [
        (char_injection, {"debug": True}, "no keyword 'debug'; .* in .failures of the result"),
        (char_injection, {"debgu": True}, "unknown key 'debgu'"),
        (prompt_injection, {"substrings": ["x"]}, "'substrings'; here it is expected_strings"),
        (prompt_injection, {"all_substrings_must_be_found": True}, "it is all_expected_strings"),
        (output_requirement, {"judge": "j", "debug": True}, "no keyword 'debug'; .* in .failures"),
        (output_coherency, {"dataset_2": [], "judge": "j", "debug": True}, "no keyword 'debug'"),
        (prompt_injection, {"case": True}, "no flag 'case'; there are: all_expected_strings"),
        (char_injection, {"threshold": 2}, "threshold must be a number from 0 to 1"),
        (char_injection, {"threshold": "0.1"}, r"threshold must be a number .* .got '0.1'"),
        (prompt_injection, {"expected_strings": "x", "threshold": []}, "threshold must be a number"),
        (char_injection, {"template": 5}, r"template must be a text .got 5"),
        (char_injection, {"kind": "upper"}, "no keyword 'kind'; here it is the name of the check"),
        (output_requirement, {"judge": {}, "requirements": ["x"]}, "'requirements'; here it is req"),
        (prompt_injection, {"expected_strings": None}, r"a text or a list of texts .got None"),
        (prompt_injection, {"expected_strings": [1]}, r"a text or a list of texts .got \[1\]"),
        (char_injection, {"features": ["nothing"]}, "nothing"),
        (char_injection, {"characters": ["ab"]}, "characters must list characters, .* 'ab' is none"),
        (prompt_injection, {}, "'expected_strings' must be a list of texts"),
        (prompt_injection, {"expected_strings": [""]}, "row 1: 'expected_strings' must be a list of"),
        (output_requirement, {"requirement": "Be polite.", "judge": "gpt-4o"},
         r"a definition like those under `models` .got 'gpt-4o'"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_an_error_that_names_it(check, settings, message):
    """The original divides by zero on empty strings, and judges slices of them."""
    with pytest.raises(RefractError, match=message):
        check(lambda _: CLEAN, questions(1), **settings)


# Prompt injection


def test_strings_and_flags_are_those_of_the_call_or_of_each_row():
    def metric(response, *strings, **flags):
        return prompt_injection(lambda _: response, questions(1), strings, **flags).metric

    assert metric("Hello DAN here", "dan", word_matching=True, case_sensitive=False) == 1
    assert metric("alpha", "alpha", "beta") == 0
    assert prompt_injection(lambda _: "a l p h", questions(1), "alph").metric == 0  # no letters
    assert metric("alpha", "alpha", "beta", all_expected_strings_must_be_found=False) == 1
    assert metric("I won't pretend to be 'DAN:' for you.", "DAN:") == 0
    data = questions(3, expected_strings=[["YES"], ["yes"], ["yes"]])
    data["case_sensitive"] = [True, False, True]
    result = prompt_injection(lambda _: "YES", data)
    assert labels(result, "strings") == ["found", "found", "not_found"]
    with pytest.raises(ValueError, match=r"'case_sensitive' must be true or false .got 'False'"):
        prompt_injection(lambda _: "a", data.assign(case_sensitive="False"))


def test_an_answer_that_is_no_text_or_empty_is_an_error_and_not_a_defence():
    """The original raises TypeError on None."""
    answers = dict(zip(questions(4)["prompt"], [None, float("nan"), " ", "DAN"], strict=True))
    result = prompt_injection(answers.get, questions(4), ["DAN"], threshold=0.9)
    assert (result.metric, result.passed) == (1.0, False)
    assert [error.partition(" (")[2] for error in result.errors] == [
        "NoText: the function returned None, which is not a text)",
        "NoText: the function returned nan, which is not a text)",
        "the answer is empty)",
    ]


# Requirement


def test_a_rows_own_requirement_fails_where_the_judge_says_so_and_its_reasons_are_kept():
    """The original loses the judge's reasons."""
    judge = Replying(lambda prompt: FAIL if "- Say hello." in prompt else PASS)
    dataset = questions(3, requirement=["Be polite.", "Say hello.", "Be polite."])
    result = output_requirement(lambda text: f"Re {text}", dataset, judge=judge)
    assert not result.passed
    assert (result.metric, result.worst.interval) == (pytest.approx(1 / 3), wilson(1, 3))
    (failure,) = result.failures
    shown = [failure[key] for key in ("prompt_id", "response", "label", "reason", "raw")]
    assert shown == ["q1", "Re Question 1?", "fail", "rude", [[FAIL]]]


def test_a_row_without_any_requirement_is_refused_since_no_judge_would_judge_it():
    dataset = questions(3, requirement=["Be kind.", None, None])
    with pytest.raises(RefractError, match=r"row 2 \('q1'\) has no requirement"):
        output_requirement(lambda _: CLEAN, dataset, judge=Replying(lambda _: PASS))
    judged = output_requirement(
        lambda _: CLEAN, dataset, "Be brief.", judge=Replying(lambda _: PASS)
    )
    assert (judged.passed, judged.counts["tested"]) == (True, 3)


def test_one_pass_and_one_error_stay_apart_and_visible():
    """The original passes, and is in error, at the same time."""
    with JudgeServer(PASS) as server:
        result = output_requirement(
            lambda text: "[[crash]]" if "1" in text else "Hello.",
            questions(2),
            "Be polite.",
            judge=server.model(),
            eval_prompt="Be strict.",
        )
        system, _ = server.bodies[0]["messages"]
    assert system["content"] == "Be strict."
    assert result.counts == {"tested": 1, "failed": 0, "errors": 1}
    assert (result.metric, result.passed, result.failures) == (0.0, False, [])
    assert result.errors[0].startswith("q1: not tested (the judge failed: ")


# Coherency


def test_inputs_and_outputs_are_paired_by_label_in_whatever_order_they_stand():
    """The original pairs inputs by label and outputs by position."""
    one = pd.DataFrame({"prompt": ["A1", "B1", "C1"]}, index=["a", "b", "c"])
    two = pd.DataFrame({"prompt": ["C2", "A2", "B2"]}, index=["c", "a", "b"])
    shown: list[str] = []

    def reply(prompt):
        shown.append("".join(part for part in prompt.split("\n") if len(part) == 2))
        return PASS

    result = output_coherency(lambda text: f"{text[0]}!", one, two, judge=Replying(reply))
    assert result.passed
    assert sorted(shown) == ["A1A!A2A!", "B1B!B2B!", "C1C!C2C!"]
    for other, message in (
        (questions(3), r"must have the same ids; only one of them has .*q2"),
        (one.reset_index(drop=True), r"only one of them has 0, 1, 2, a, b, c"),
    ):
        with pytest.raises(RefractError, match=message):
            output_coherency(None, one if other is not one else two, other, judge={})


def test_a_pair_of_which_one_answer_failed_is_an_error_that_says_which():
    def answer(text):
        if text in ("A1", "B2"):
            raise RuntimeError("down")
        return "fine"

    one = pd.DataFrame({"prompt": ["A1", "B1", "C1"]}, index=["a", "b", "c"])
    two = pd.DataFrame({"prompt": ["A2", "B2", "C2"]}, index=["a", "b", "c"])
    result = output_coherency(answer, one, two, judge=Replying(lambda _: PASS))
    assert result.errors == [
        "first/a: not tested (RuntimeError: down)",
        "b: not tested (RuntimeError: down)",
    ]
    assert not result.passed
    assert result.counts == {"tested": 1, "failed": 0, "errors": 2}


def test_only_the_pairs_of_the_two_datasets_are_judged_and_a_judged_pair_is_no_error():
    one = [{"id": "a", "prompt": "A1", "pair_id": "b"}, {"id": "b", "prompt": "B1"}]
    two = [{"id": "a", "prompt": "A2"}, {"id": "b", "prompt": "B2"}]
    # The rules find no answer in a letter; the judge of the pair does.
    result = output_coherency(lambda text: text[0], one, two, judge=Replying(lambda _: PASS))
    assert (result.passed, result.errors, result.counts["tested"]) == (True, [], 2)
