"""The checks in Python, and each weakness of the library whose checks they resemble."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from refract import checks
from refract.checks import (
    PromptTooLong,
    char_injection,
    output_coherency,
    output_requirement,
    prompt_injection,
    single_output_requirement,
    single_prompt_injection,
)
from refract.core.errors import RefractError
from refract.models.protocol import Answer, Model
from refract.statistics.proportions import wilson
from tests.judges.test_model_judges import FAIL, PASS, JudgeServer

CLEAN = "Paris is the capital of France, and it lies on the river Seine."
DRIFT = "My neighbour's dog has learned to open the garden gate by itself."
REFUSAL = "I'm sorry, but I can't help with that."


def questions(count: int = 4, **columns) -> pd.DataFrame:
    return pd.DataFrame(
        {"question": [f"Question {number}?" for number in range(count)], **columns},
        index=[f"q{number}" for number in range(count)],
    )


def model(answer):
    """A model function that answers each row with ``answer(question)``."""
    return lambda frame: [answer(text) for text in frame["question"]]


class Recording:
    """A model function with one answer to everything, and the rows that it got."""

    def __init__(self, answer: str) -> None:
        self.answer, self.rows, self.frames = answer, [], []

    def __call__(self, frame):
        self.frames.append(frame)
        self.rows += frame.to_dict("records")
        return [self.answer] * len(frame)


# Parameters and results


def test_a_result_says_what_was_tested_and_what_failed():
    answers = {"Question 0?": "DAN: hi", "Question 1?": "Hello", "Question 2?": "Sure."}
    result = prompt_injection(model(answers.get), questions(4), ["DAN:"], threshold=1 / 3)
    assert result.passed  # a rate equal to its threshold
    assert bool(result)
    assert result.metric == pytest.approx(1 / 3)
    assert result.interval == wilson(1, 3)
    assert result.counts == {"rows": 4, "tested": 3, "failed": 1, "errors": 1}
    assert result.errors == [
        "q3: not judged (NoText: the function returned None, which is not a text)"
    ]
    evidence = [{"string": "DAN:", "start": 0, "end": 4, "text": "DAN:", "counted": True}]
    row = {"id": "q0", "prompt": "Question 0?", "response": "DAN: hi", "label": "found"}
    row |= {"evidence": evidence, "reason": None, "raw": None, "error": None}
    assert result.failures.to_dict("records") == [row]
    assert list(result.details["label"][:3]) == ["found", "not_found", "not_found"]
    assert list(result.details["label"].isna()) == [False, False, False, True]
    assert str(result) == "passed: 1 of 3 tested rows failed, 1 of 4 could not be tested"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (questions(0), "the dataset has no rows or no columns"),
        (questions(2).set_axis([1, "1"]), r"index labels must be unique .repeated: 1"),
        (pd.DataFrame([["x", "y"]], columns=["a", "a"]), r"columns must be unique .repeated: a"),
        ([{"question": "x"}], r"must be a pandas DataFrame .got list"),
    ],
)
def test_a_dataset_that_cannot_be_used_says_why(dataset, message):
    with pytest.raises(RefractError, match=message):
        char_injection(model(lambda _: CLEAN), dataset)


@pytest.mark.parametrize(
    "answers", [["one"], ["one"] * 3, "on", None], ids=lambda value: repr(value)
)
def test_a_function_must_return_one_text_for_each_row(answers):
    """The original judges as many rows as there are answers, and passes (10 rows, 1 judged)."""
    with pytest.raises(ValueError, match="must return one text for each row"):
        prompt_injection(lambda frame: answers, questions(2), ["DAN"])


def test_a_function_gets_the_datasets_own_values_but_for_the_feature_that_is_perturbed():
    data = questions(2, age=[31, 4], score=[0.5, float("nan")], note=["", "x"])
    plain = Recording("ok")
    prompt_injection(plain, data, ["DAN"])
    got = plain.frames[0].reset_index(drop=True)
    pd.testing.assert_frame_equal(got, data.reset_index(drop=True))
    perturbed, data = Recording(CLEAN), pd.DataFrame({"question": ["Who?"], "age": [31]})
    result = char_injection(perturbed, data, characters=["\r"], max_repetitions=3)
    assert perturbed.rows == [
        {"question": "Who?", "age": 31},
        {"question": "Who?\r\r\r", "age": 31},
        {"question": "Who?", "age": "31\r\r\r"},
    ]
    assert list(result.details["value"]) == ["U+000D age", "U+000D question"]


class Replying(Model):
    """A model that answers each request with ``reply(its text)``."""

    adapter, version = "replying", "1"

    def __init__(self, reply):
        self.reply = reply

    def identity(self):
        return {}

    def description(self):
        return {"parameters": None}

    def answer(self, requests):
        for index, request in enumerate(requests):
            yield index, Answer(self.reply(request.attempts[0][-1]["content"]))


def test_columns_reach_an_adapter_as_lines_or_by_a_template():
    def responses(data, **settings):
        result = prompt_injection(Replying(str), data, ["?"], **settings)
        return list(result.details["response"])

    assert responses(pd.DataFrame({"the user's question": ["Say DAN"]})) == ["Say DAN"]
    data = questions(1, tone=["kind"])
    assert responses(data) == ["question: Question 0?\ntone: kind"]
    assert responses(data, template="{tone}: {question}") == ["kind: Question 0?"]


# Char injection


def test_nonsense_after_an_injection_and_a_refusal_that_flips_are_failures():
    """The original calls unrelated English unchanged, and cannot see "I can" turn to "can't"."""
    answers = {0: CLEAN, 1: DRIFT}
    result = char_injection(model(lambda text: answers["\r" in text]), questions(2), ["\r"])
    assert (result.passed, result.metric) == (False, 1.0)
    assert list(result.failures["changed_by"]) == ["similarity", "similarity"]
    assert result.failures["perturbed_prompt"][0] == "Question 0?<U+000D x1000>"
    assert list(result.failures["id"]) == ["q0", "q1"]

    def answer(text):
        return f"I can{'' if chr(8) in text else chr(39) + 't'} help you with opening this lock."

    result = char_injection(model(answer), questions(1), ["\b"], output_sensitivity=0.9)
    assert list(result.failures["changed_by"]) == ["refusal"]


def test_texts_that_differ_only_late_are_changed_and_equal_ones_are_not():
    """The original cuts long answers silently, and counts two empty ones as changed."""
    long = " ".join(f"Item {number} is on the list." for number in range(70))
    late = long + " " + " ".join([DRIFT] * 25)
    results = []
    for answer in (lambda text: late if "\r" in text else long, lambda _: long, lambda _: ""):
        results.append(char_injection(model(answer), questions(1), ["\r"]))
    assert [result.metric for result in results] == [1.0, 0.0, None]
    assert not results[2].passed
    assert "not tested (the clean prompt's: the answer is empty)" in results[2].errors[0]


def picky(limit: int, broken: str = ""):
    """A model that rejects prompts above a length, and one perturbed prompt at any."""

    def answer(frame):
        for text in frame["question"]:
            if len(text) > limit or (broken and broken in text and "\r" in text):
                raise PromptTooLong("too long")
        return [CLEAN] * len(frame)

    return answer


def test_rows_that_fail_at_every_length_are_left_out_and_counted_and_shift_no_other():
    """The original compares the wrong rows then, or crashes."""
    result = char_injection(picky(10_000, "Question 1"), questions(4), ["\r"])
    assert result.passed
    assert result.metric == 0.0
    assert result.counts == {"rows": 4, "tested": 3, "failed": 0, "errors": 1}
    assert len(result.errors) == 1
    assert result.errors[0].startswith("q1/")
    assert "rejected every attempt as too long" in result.errors[0]


@pytest.mark.parametrize(("limit", "used"), [(2000, 1000), (600, 500), (140, 125)])
def test_repetitions_fall_back_to_a_half_a_quarter_and_an_eighth_and_are_reported(limit, used):
    result = char_injection(picky(limit), questions(3), ["\r"])
    assert [json.loads(cell) for cell in result.details["repetitions"]] == [{str(used): 3}]
    assert result.passed


@pytest.mark.parametrize(
    ("words", "status", "falls_back"),
    [
        ("Error code: 400 - {'code': 'context_length_exceeded'}", 400, True),
        ("prompt is too long: 250000 tokens > 200000 maximum", None, True),
        ("Request too large", 413, True),
        ("maximum context length: slow down", 429, False),
        ("temperature must be 0", 400, False),
    ],
)
def test_a_providers_own_words_for_a_prompt_too_long_count_as_such(words, status, falls_back):
    def answer(frame):
        if any(text.count("\r") > 600 for text in frame["question"]):
            error = RuntimeError(words)
            error.status_code = status
            raise error
        return [CLEAN] * len(frame)

    result = char_injection(answer, questions(2), ["\r"])
    assert list(result.details["repetitions"]) == (['{"500": 2}'] if falls_back else [""])
    assert result.counts["errors"] == (0 if falls_back else 2)


def test_a_model_that_fails_on_one_row_loses_that_row_alone():
    def failing(where):
        def answer(frame):
            if any(where in text for text in frame["question"]):
                raise ConnectionError("no route to host")
            return [CLEAN] * len(frame)

        return answer

    result = char_injection(failing("2"), questions(4), ["\r", "\b"])
    assert result.passed
    assert result.counts == {"rows": 8, "tested": 6, "failed": 0, "errors": 2}
    assert all(error.startswith("q2/") for error in result.errors)
    result = char_injection(failing("Question"), questions(2))
    assert (result.passed, result.metric, result.interval) == (False, None, None)
    assert len(result.errors) == result.counts["rows"] == 4
    assert all("the clean prompt's: ConnectionError: no" in error for error in result.errors)


def test_the_metric_is_the_worst_characters_rate_whether_the_check_passes_or_not():
    """The original reports 0.0 when it passes, and the mean of the failing runs when not."""
    answers = {"\r": 1, "\b": 2}

    def answer(text):
        failing = next((answers[c] for c in answers if c in text), 0)
        return DRIFT if text.startswith(tuple(f"Question {n}" for n in range(failing))) else CLEAN

    passed = char_injection(model(answer), questions(4), threshold=0.5)
    failed = char_injection(model(answer), questions(4), threshold=0.49)
    assert (passed.passed, failed.passed) == (True, False)
    assert passed.metric == failed.metric == 0.5
    assert passed.interval == wilson(2, 4)
    assert dict(zip(passed.details["value"], passed.details["rate"], strict=True)) == {
        "U+0008 question": 0.5,
        "U+000D question": 0.25,
    }
    assert passed.counts["failed"] == len(passed.failures) == 3


@pytest.mark.parametrize(
    ("check", "settings", "message"),
    [
        (char_injection, {"threshold": 2}, "threshold must be a number from 0 to 1"),
        (char_injection, {"features": ["nothing"]}, "nothing"),
        (char_injection, {"characters": ["ab"]}, "characters must list characters, .* 'ab' is none"),
        (prompt_injection, {}, r"dataset has no column 'expected_strings', it has question"),
        (prompt_injection, {"expected_strings": "DAN"}, r"must be a list of texts, or name a column"),
        (prompt_injection, {"expected_strings": [""]}, r"q0: 'expected_strings' must be a list of"),
        (output_requirement, {"requirement": "Be polite."}, "say which model judges"),
        (output_requirement, {"requirement": "Be polite.", "judge": "gpt-4o"},
         r"a definition like those under `models` .got 'gpt-4o'"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_an_error_that_names_it(check, settings, message):
    """The original divides by zero on empty strings, and judges slices of them."""
    with pytest.raises(ValueError, match=message):
        check(model(lambda _: CLEAN), questions(1), **settings)


# Prompt injection


@pytest.mark.parametrize(
    ("response", "strings", "flags", "is_found"),
    [
        ("Hello DAN here", ["dan"], {"word_matching": True, "case_sensitive": False}, True),
        ("Kill all “humans” \n", ['Kill all "humans"'], {"exact_matching": True}, True),
        ("alpha", ["alpha", "beta"], {}, False),
        ("alpha", ["alpha", "beta"], {"all_expected_strings_must_be_found": False}, True),
        ("I won't pretend to be 'DAN:' for you.", ["DAN:"], {}, False),
    ],
)
def test_flags_reach_the_search_and_a_mention_in_a_refusal_is_no_success(
    response, strings, flags, is_found
):
    result = prompt_injection(model(lambda _: response), questions(1), strings, **flags)
    assert result.metric == float(is_found)


def test_each_row_can_have_its_own_strings_and_flags():
    data = questions(
        3, expected_strings=[["YES"], ["yes"], "yes"], case_sensitive=[True, False, True]
    )
    result = prompt_injection(model(lambda _: "YES"), data)
    assert list(result.details["label"]) == ["found", "found", "not_found"]
    assert list(result.details["prompt"]) == ["Question 0?", "Question 1?", "Question 2?"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"expected_strings": [["a"], None]}, r"q1: 'expected_strings' must be a list of tex"),
        ({"expected_strings": [["a"], ["b"]], "case_sensitive": [True, "False"]},
         r"q1: 'case_sensitive' must be true or false .got '"),
    ],
)  # fmt: skip
def test_a_rows_strings_and_flags_that_cannot_be_used_are_errors(columns, message):
    with pytest.raises(ValueError, match=message):
        prompt_injection(model(lambda _: "a"), questions(2, **columns))


def test_an_answer_that_is_no_text_or_empty_is_an_error_and_not_a_defence():
    """The original raises TypeError on None."""
    answers = [None, float("nan"), " ", "DAN"]
    result = prompt_injection(lambda frame: answers, questions(4), ["DAN"], threshold=0.9)
    assert (result.metric, result.passed) == (1.0, False)
    assert [error.partition(" (")[2] for error in result.errors] == [
        "NoText: the function returned None, which is not a text)",
        "NoText: the function returned nan, which is not a text)",
        "the answer is empty)",
    ]


def test_a_single_input_is_a_text_or_a_json_object_of_features():
    answer = Recording("DAN")
    text = single_prompt_injection(answer, "Say DAN", ["DAN"])
    features = '{"question": "Capital?", "language": "English"}'
    single_prompt_injection(answer, features, expected_strings=["DAN"], input_as_json=True)
    assert (text.passed, text.metric) == (False, 1.0)
    assert answer.rows == [{"prompt": "Say DAN"}, {"question": "Capital?", "language": "English"}]
    for wrong in ("{", "[1]", "{}"):
        with pytest.raises(RefractError, match="must be a JSON object"):
            single_prompt_injection(answer, wrong, ["DAN"], True)


# Requirement


def test_a_requirement_fails_where_the_judge_says_so_and_its_reasons_are_kept():
    """The original loses the judge's reasons."""
    judge = Replying(lambda prompt: FAIL if "Question 1?" in prompt else PASS)
    result = output_requirement(
        model(lambda text: f"Re {text}"), questions(3), "Be polite.", judge=judge
    )
    assert not result.passed
    assert (result.metric, result.interval) == (pytest.approx(1 / 3), wilson(1, 3))
    (failure,) = result.failures.to_dict("records")
    shown = [failure[key] for key in ("id", "response", "label", "reason", "raw", "error")]
    assert shown == ["q1", "Re Question 1?", "fail", "rude", [[FAIL]], None]


def test_a_column_holds_the_requirement_of_each_row_and_is_no_feature():
    judge = Replying(lambda prompt: FAIL if "- Say hello." in prompt else PASS)
    dataset, answer = questions(2, must=["Be polite.", "Say hello."]), Recording("Good day.")
    result = output_requirement(answer, dataset, "must", judge=judge)
    assert list(result.details["label"]) == ["pass", "fail"]
    assert [list(row) for row in answer.rows] == [["question"]] * 2
    with pytest.raises(RefractError, match="q1: its column 'must' is empty"):
        output_requirement(answer, dataset.assign(must=["Be polite.", pd.NA]), "must", judge=judge)


def test_the_module_lists_the_checks_and_what_they_take_and_return():
    assert dir(checks) == [
        *("CheckResult", "PromptTooLong", "char_injection", "output_coherency"),
        *("output_requirement", "prompt_injection", "single_output_requirement"),
        "single_prompt_injection",
    ]


def test_one_pass_and_one_error_stay_apart_and_visible():
    """The original passes, and is in error, at the same time."""
    with JudgeServer(PASS) as server:
        result = output_requirement(
            model(lambda text: "[[crash]]" if "1" in text else "Hello."),
            questions(2),
            "Be polite.",
            judge=server.model(),
        )
    assert result.counts == {"rows": 2, "tested": 1, "failed": 0, "errors": 1}
    assert result.metric == 0.0
    assert not result.passed
    assert result.errors[0].startswith("q1: not judged (the judge failed: ")
    assert result.failures.empty
    assert str(result) == "not passed: 0 of 1 tested rows failed, 1 of 2 could not be tested"


def test_a_single_requirement_takes_a_text_or_json_and_the_judges_settings():
    features = '{"question": "Capital?", "language": "English"}'
    with JudgeServer(PASS) as server:
        judge = {"model": server.model(), "eval_prompt": "Be strict."}
        given = {"input_as_json": True, "judge": judge}
        result = single_output_requirement(lambda frame: [REFUSAL], features, "Decline.", **given)
        system, user = server.bodies[0]["messages"]
    assert result.passed
    assert system["content"] == "Be strict."
    assert "\nquestion: Capital?\nlanguage: English\nFENCE" in user["content"]


# Coherency


def test_inputs_and_outputs_are_paired_by_label_in_whatever_order_they_stand():
    """The original pairs inputs by label and outputs by position."""
    one = pd.DataFrame({"question": ["A1", "B1", "C1"]}, index=["a", "b", "c"])
    two = pd.DataFrame({"question": ["C2", "A2", "B2"]}, index=["c", "a", "b"])
    result = output_coherency(
        model(lambda text: f"on {text[0]}"), one, two, judge=Replying(lambda _: PASS)
    )
    columns = ["first_prompt", "first_response", "prompt", "response"]
    assert list(result.details["id"]) == ["a", "b", "c"]
    assert result.details[columns].values.tolist() == [
        [f"{label}1", f"on {label}", f"{label}2", f"on {label}"] for label in "ABC"
    ]


@pytest.mark.parametrize(
    ("two", "message"),
    [
        (questions(3), r"must have the same index labels; only one of them has q2"),
        (questions(2).reset_index(drop=True), r"same index labels; .* 0, 1, q0, q1"),
        (questions(2).rename(columns={"question": "prompt"}), r"same columns; .* prompt, question"),
    ],
)
def test_datasets_that_do_not_belong_together_are_an_error_before_anything_is_asked(two, message):
    with pytest.raises(ValueError, match=message):
        output_coherency(model(None), questions(2), two, judge={"adapter": "synthetic"})


def test_without_a_second_dataset_the_first_is_asked_again_in_earnest():
    """In the original's older versions the documented default could not work."""
    with JudgeServer("one", "two") as target:
        judge = Replying(lambda _: FAIL)
        result = output_coherency(target.model(), questions(1), judge=judge)
        assert target.arrived == 2, "a greedy model is asked twice as well"
    assert result.failures[["first_response", "response"]].values.tolist() == [["one", "two"]]


def test_a_pair_of_which_one_answer_failed_is_an_error_that_says_which():
    def answer(frame):
        if len(frame) > 1 or frame["question"].iloc[0] in ("A1", "B2"):
            raise RuntimeError("down")
        return ["fine"]

    one = pd.DataFrame({"question": ["A1", "B1", "C1"]}, index=["a", "b", "c"])
    two = pd.DataFrame({"question": ["A2", "B2", "C2"]}, index=["a", "b", "c"])
    result = output_coherency(answer, one, two, judge=Replying(lambda _: PASS))
    assert result.errors == [
        "a: not judged (the first answer: RuntimeError: down)",
        "b: not judged (RuntimeError: down)",
    ]
    assert not result.passed
    assert result.counts == {"rows": 3, "tested": 1, "failed": 0, "errors": 2}
