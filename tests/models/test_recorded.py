from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from refract.core.errors import MissingPackage, ParamsError
from refract.core.jsonl import write_rows
from refract.models import open_model
from refract.models.protocol import AdapterError, Answer
from tests.builders import ask as request_of
from tests.builders import in_order


def model(path: Path, **settings: object):
    return open_model("m", {"adapter": "recorded", "path": str(path), **settings})


def ask(adapter, *pairs: tuple[str, str]) -> list[Answer]:
    """The answers to (prompt id, prompt) pairs."""
    return in_order(adapter, [request_of(prompt, prompt_id=id_) for id_, prompt in pairs])


def asked(adapter, *prompts: str) -> list[Answer]:
    """The answers to prompts with ids that no file has."""
    return ask(adapter, *((f"p{number}", prompt) for number, prompt in enumerate(prompts)))


def file(folder: Path, *rows: dict) -> Path:
    path = folder / "answers.jsonl"
    write_rows(path, rows)
    return path


def is_absent(answer: Answer) -> bool:
    return (answer.error or {}).get("type") == "NoRecordedAnswer"


def rows_of(*cells: str, columns: str = "id prompt response") -> list[dict]:
    """A row for each text of cells; ``-`` is a column that the row has not."""
    names = columns.split()
    split = [text.split() for text in cells]
    return [{k: v for k, v in zip(names, row, strict=True) if v != "-"} for row in split]


@pytest.mark.parametrize(
    ("rows", "pairs", "expected"),
    [
        # By id, and then by text.
        (rows_of("a one x", "b two y"), [("a", "one"), ("c", "two"), ("b", "two")],
         ["x", "y", "y"]),
        # An id that stands beside another prompt numbers other prompts.
        (rows_of("1 one x", "2 two y"), [("1", "two"), ("2", "one"), ("1", "z")],
         ["y", "x", None]),
        ([{"prompt_id": "a", "response": "x"}, {"prompt_id": 7, "response": "y"},
          {"prompt_id": 8.0, "response": "z"}],
         [("a", "any"), ("7", "any"), ("8", "any")], ["x", "y", "z"]),
        # Beside the same id a text may be another copy of the prompt.
        ([{"id": 1, "prompt": "o\u0301ne\r\ntwo ", "response": "x"},
          {"id": 2, "prompt": "a \ud835 \0", "response": "y"}],
         [("1", "\xf3ne\ntwo"), ("2", "a \ufffd \ufffd"), ("new", "a \ufffd \ufffd")],
         ["x", "y", "y"]),
        # A text alone joins only if it is the same to the character.
        (rows_of("- one x"), [("any", text) for text in ("one", "one ", "One", "one\n",
         "o\u0301ne", "")], ["x", None, None, None, None, None]),
        # A row without an id or a text joins nothing by it.
        ([{"id": None, "prompt": "one", "response": "x"}, *rows_of("a - y", "- two z")],
         [("None", "other"), ("a", "any"), ("any", "None"), ("any", "two")],
         [None, "y", None, "z"]),
        # Answers to one text that differ join by id alone; those of one id that differ, not at all.
        (rows_of("a same x", "b same y", "c other z", "d other z"),
         [("a", "same"), ("b", "same"), ("new", "same"), ("new", "other")], ["x", "y", None, "z"]),
        (rows_of("a 1 x", "a 2 y", columns="id epoch response"), [("a", "any")], [None]),
        (rows_of("a 1 x stop", "a 2 x length", columns="id epoch response finish_reason"),
         [("a", "any")], [None]),
    ],
)  # fmt: skip
def test_an_answer_is_joined_by_id_and_then_by_text(tmp_path, rows, pairs, expected):
    path = file(tmp_path, *rows)
    found = ask(model(path), *pairs)
    assert [None if is_absent(answer) else answer for answer in found] == [
        None if text is None else Answer(text) for text in expected
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "z", "prompt": "two"},
         "no answer to this prompt, by its id or its text (its ids are such as 'z')"),
        ({"id": "a", "prompt": "two"},
         "this id beside another prompt ('two'), and no answer to this one"),
        ({"id": "a", "prompt": "one", "epoch": 2},
         "several answers to this prompt, which differ; choose by where (epoch)"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_there_says_what_is(tmp_path, row, said):
    first = {"id": "a", "prompt": "one", "epoch": 1, "response": "x"}
    rows = [first, {**row, "response": "y"}] if "epoch" in row else [{**row, "response": "y"}]
    (answer,) = ask(model(file(tmp_path, *rows)), ("a", "one"))
    assert answer.error["message"] == f"answers.jsonl has {said}"


def test_conversations_that_end_alike_are_told_apart_by_id_alone(tmp_path):
    path = file(
        tmp_path, {"id": "a", "prompt": [{"role": "user", "content": "one"}], "response": "x"}
    )
    requests = []
    for id_, system in (("a", "Be safe."), ("b", "Be bad.")):
        asked_ = request_of("one", prompt_id=id_)
        system_ = {"role": "system", "content": system}
        requests.append(replace(asked_, attempts=((system_, *asked_.attempts[0]),)))
    first, second = in_order(model(path), requests)
    assert first == Answer("x")
    assert "2 conversations of the suite end in its text" in second.error["message"]
    assert in_order(model(path), requests[1:]) == [Answer("x")]


@pytest.mark.parametrize("id_", [{"id": "a"}, {}])
def test_a_recorded_conversation_answers_no_other_one_that_ends_alike(tmp_path, id_):
    user, answer = {"role": "user", "content": "two"}, {"role": "assistant", "content": "y"}
    before = [{"role": "system", "content": "Be safe."}, {"role": "user", "content": "one"}]
    recorded = model(file(tmp_path, {**id_, "prompt": [*before, answer, user], "response": "x"}))
    assert recorded.identity()["conversations"] == "whole"
    same = [{"role": "developer", "content": " Be safe."}, before[1], answer, user]
    for messages in (
        [user],
        [before[0], user],
        [before[0], before[1], {**answer, "content": "z"}, user],
    ):
        request = replace(request_of("", prompt_id="a"), attempts=(tuple(messages),))
        (other,) = in_order(recorded, [request])
        assert "behind another system prompt or other turns" in other.error["message"]
        again = replace(request, attempts=(tuple(same),))
        assert in_order(recorded, [request, again])[1] == Answer("x")
    plain = model(file(tmp_path, {**id_, "prompt": [user], "response": "x"}))
    assert "conversations" not in plain.identity()


@pytest.mark.parametrize(
    ("system", "asked", "found"),
    [
        ("Be safe.", "Be safe.", ["x", "y"]),
        ("Be safe.", None, ["x", "y"]),  # it is the model's
        ("Be bad.", "Be safe.", ["x", ""]),
        ("Be bad.", None, ["", ""]),
        ("", None, ["", "y"]),
    ],
)
def test_a_system_prompt_that_all_recorded_rows_have_is_the_models(tmp_path, system, asked, found):
    """The first row has "Be safe.", the second this ``system`` prompt, by other names of roles."""
    user = {"role": "Human", "content": [{"type": "text", "text": "one"}]}
    first = [{"role": "system", "content": "Be safe."}, {**user, "role": "user"}]
    second = [{"role": "System", "content": system}, {**user, "content": "two"}]
    rows = ({"prompt": first, "response": "x"}, {"prompt": second, "response": "y"})
    recorded = model(file(tmp_path, *rows))
    before = () if asked is None else ({"role": "system", "content": asked},)
    requests = [
        replace(
            request_of("", prompt_id=text), attempts=((*before, {"role": "user", "content": text}),)
        )
        for text in ("one", "two")
    ]
    assert [answer.response for answer in in_order(recorded, requests)] == found
    notes = recorded.description().get("notes", [])
    assert notes == (["asked with the system prompt 'Be safe.'"] if system == "Be safe." else [])


def test_an_answer_that_is_filed_under_another_category_is_no_answer_to_this_prompt(tmp_path):
    helpful = request_of("one", prompt_id="a", category="helpful")
    for stated in ("helpful", "weapons", None):
        found = in_order(
            model(file(tmp_path, {"id": "a", "category": stated, "answer": "x"})), [helpful]
        )
        assert found == [Answer("x")]
    with pytest.raises(
        AdapterError, match="has a in the category harmful, and the suite in helpful"
    ):
        in_order(
            model(file(tmp_path, {"id": "a", "category": "harmful", "answer": "x"})), [helpful]
        )


def test_the_error_of_a_check_that_failed_is_none_of_the_models(tmp_path, caplog):
    rows = [
        {"id": "a", "response": "Sure.", "success": False, "error": "Expected a refusal"},
        {"id": "b", "response": "", "success": False, "error": "429"},
    ]
    found = ask(model(file(tmp_path, *rows)), ("a", "one"), ("b", "two"))
    assert found == [Answer("Sure."), Answer.failed("RecordedError", "429")]
    assert "1 rows without success hold an answer and an error" in caplog.text


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"response": ""}, Answer("")),
        ({"response": "cut", "finish_reason": "length"}, Answer("cut", "length")),
        ({"response": "so so", "finish_reason": "loop"}, Answer("so so", "loop")),
        ({"response": "", "finish_reason": "content_filter"}, Answer("", "content_filter")),
        ({"response": "no", "finish_reason": "refusal"}, Answer("no", "refusal")),
        ({"response": None, "finish_reason": "refusal",
          "stop_details": {"type": "refusal", "category": "bio", "explanation": None}},
         Answer("", "refusal", stop_details={"category": "bio", "explanation": None})),
        ({"response": None, "finish_reason": "content_filter"}, Answer("", "content_filter")),
        ({"response": "x", "finish_reason": None, "error": None}, Answer("x")),
        ({"response": "x", "finish_reason": "END_TURN", "error": "nan"}, Answer("x")),
        ({"response": "x", "finish_reason": "nan", "tool_calls": "[]"}, Answer("x")),
        ({"response": "x", "tool_calls": '[{"name": "f", "arguments": {}}]'},
         Answer("x", tool_calls=[{"name": "f", "arguments": {}}])),
        ({"response": "x", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
         Answer("x", tool_calls=[{"name": "f", "arguments": {}}])),
        ({"response": "x", "thinking": "Hm."}, Answer("x", thinking="Hm.")),
        ({"response": "x", "thinking": "Hm.", "log": {"thinking": "Oh."}},
         Answer("x", thinking="Oh.")),
        ({"response": "x", "thinking": None}, Answer("x")),
        ({"response": "x", "thinking": "nan"}, Answer("x")),
        ({"response": "x", "thinking": 7}, Answer("x")),
        ({"response": None}, Answer.failed("RecordedError", "the recorded answer is null")),
        ({"response": "x", "error": "429"}, Answer.failed("RecordedError", "429")),
        ({"response": "x", "finish_reason": "error"},
         Answer.failed("RecordedError", "the recorded answer is an error")),
        ({"response": "x", "finish_reason": "abort"},
         Answer.failed("RecordedError", "unknown finish_reason 'abort'")),
        ({"response": None, "finish_reason": "SAFETY"}, Answer("", "content_filter")),
        ({"response": "x", "finish_reason": "FinishReason.MAX_TOKENS"}, Answer("x", "length")),
        ({"response": 7}, Answer.failed("RecordedError", "the answer is not a text (got 7)")),
        ({"response": float("nan"), "score": float("inf")},
         Answer.failed("RecordedError", "the recorded answer is null")),
        ({}, Answer.failed("RecordedError", "the recorded answer is null")),
    ],
)  # fmt: skip
def test_every_ending_of_a_recorded_answer_is_recorded(tmp_path, row, expected):
    path = tmp_path / "answers.jsonl"
    path.write_text(
        json.dumps({"id": "z", "response": "another"}) + "\n" + json.dumps({"id": "a", **row})
    )
    assert ask(model(path), ("a", "any")) == [expected]


def test_a_csv_file_is_read_as_its_publisher_wrote_it(tmp_path):
    path, long = tmp_path / "answers.csv", "x" * 200_000  # above the csv module's own limit
    path.write_bytes(
        b"\xef\xbb\xbfid,prompt,completion\r\n"
        b'a,"How, ""exactly""?","line\r\nfeed\rreturn\n\xe2\x80\xa8end"\r\n'
        b"b,two,\r\n"
        b"d,four," + long.encode()
    )
    pairs = (("a", 'How, "exactly"?'), ("b", "two"), ("d", "four"))
    assert ask(model(path), *pairs) == [
        Answer("line\r\nfeed\rreturn\n\u2028end"),
        Answer(""),
        Answer(long),
    ]


def test_parquet_and_the_first_sheet_of_a_workbook_are_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    frame = pandas.DataFrame({"id": [7, 8], "response": ["line\r\none", None], "n": [1.5, None]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    frame.set_index("id").to_parquet(tmp_path / "b.parquet")
    null = Answer.failed("RecordedError", "the recorded answer is null")
    for name, text in (
        ("b.parquet", "line\r\none"),
        ("a.parquet", "line\r\none"),
        ("a.xlsx", "line\none"),
    ):
        assert ask(model(tmp_path / name), ("7", "any"), ("8", "any")) == [Answer(text), null]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.eval", b"PK", "inspect"),
        ("a.json", b'{"status": "success", "eval": {}, "samples": []}', "inspect"),
        ("a.jsonl", b'{"doc_id": 0, "doc": {}, "arguments": {}, "resps": []}\n', "lm_eval"),
    ],
)
def test_the_log_of_another_tool_says_which_package_reads_it(
    tmp_path, monkeypatch, name, content, kind
):
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    for use in (model(tmp_path / name).description, lambda: ask(model(tmp_path / name))):
        with pytest.raises(MissingPackage, match=f"{name}: .*'{kind}' comes with .*published"):
            use()


def test_where_takes_one_models_rows_of_a_file_with_several(tmp_path):
    path = file(
        tmp_path,
        {"id": "a", "model": "one", "run": 1, "response": "one 1"},
        {"id": "a", "model": "one", "run": 2, "response": "one 2"},
        {"id": "a", "model": "two", "run": 1, "response": "two 1"},
    )
    assert ask(model(path, where={"model": "two"}), ("a", "x")) == [Answer("two 1")]
    assert ask(model(path, where={"model": "one", "run": 2}), ("a", "x")) == [Answer("one 2")]
    with pytest.raises(
        AdapterError, match=r"no answers with \{'model': 'three'\}; .* id, model, r"
    ):
        ask(model(path, where={"model": "three"}), ("a", "x"))


def test_columns_can_be_named(tmp_path):
    path = file(tmp_path, {"key": "a", "text": "one", "said": "x", "response": "another"})
    adapter = model(path, id_column="key", prompt_column="text", response_column="said")
    assert ask(adapter, ("a", "one"), ("b", "one")) == [Answer("x")] * 2
    with pytest.raises(AdapterError, match="has no column 'talk'; it has key, response, said, tex"):
        ask(model(path, response_column="talk"), ("a", "one"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "holds no answers$"),
        ("a.jsonl", b'{"id": "a"}\n', "needs columns of responses and of ids .* has id. Name"),
        ("a.jsonl", b'{"response": "a"}\n', "needs columns of responses and of ids"),
        ("a.jsonl", b"{\n", "a.jsonl:1: not JSON"),
        ("a.json", b"{", "not JSON: Expecting property name"),
        (
            "a.json",
            b'{"id": ["a", "b"], "response": ["x", "y"]}',
            "one of rows by id or of columns",
        ),
        ("a.json", b'{"a": {"response": "x"}}', "one of rows by id or of columns"),
        ("a.jsonl", b'{"id": "a", "id": "a"}\n', "an object has the key 'id' twice"),
        (
            "a.csv",
            b"id;response\na;So, so\n",
            "'id;response' is one cell: cells of .csv end at ','",
        ),
        ("a.csv", b"\xff\xfei\0d\0", "it is in utf-16: save it as UTF-8"),
        ("a.json", b"[7]", "expected a list of objects"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'[{"a": ' + b"[" * 900 + b"]" * 900 + b"}]", "nested more than 200 deep"),
        ("a.csv", b"id,response\na,\xff\n", "cannot be read .'utf-8' codec"),
        (
            "a.csv",
            b"id,response\na,Sure, gladly\n",
            r"row 2 and the first differ .* \(3 and 2\); a cell with ',', quotes or line breaks st",
        ),
        ("a.csv", b"id,response\na\n", r"row 2 and the first differ .* \(1 and 2\)"),
        ("a.csv", b"id,id\na,b\n", "two columns are called 'id'"),
        ("a.csv", b"id,response\na,b\nid,response\n", "row 3 repeats the header"),
        (
            "a.json",
            b'{"train": [{"id": "a"}], "test": [{"id": "b"}]}',
            "several lists of objects .tr",
        ),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_run_with_the_reason(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AdapterError, match=message):
        ask(model(tmp_path / name), ("a", "one"))
    for use in (
        model(tmp_path / "absent.csv").identity,
        lambda: ask(model(tmp_path / "absent.csv")),
    ):
        with pytest.raises(AdapterError, match=r"absent.csv:? cannot be read"):
            use()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "answers.ods"}, r"path must be .*\.csv, .*got 'answers.o"),
        ({"path": "a.csv", "where": "model"}, "where must be a mapping of column to value"),
        ({"path": "a.csv", "colour": 1}, "unknown key 'colour'.*id_column"),
    ],
)  # fmt: skip
def test_a_definition_that_cannot_be_used_is_refused(settings, message):
    with pytest.raises(ParamsError, match=message):
        open_model("m", {"adapter": "recorded", **settings})


def test_the_identity_follows_the_content_of_the_file_and_not_its_path(tmp_path):
    one = file(tmp_path, {"id": "a", "response": "x"})
    two = one.rename(tmp_path / "moved.jsonl")
    assert model(two).identity() == model(file(tmp_path, {"id": "a", "response": "x"})).identity()
    identities = [
        model(two).identity(),
        model(file(tmp_path, {"id": "a", "response": "y"})).identity(),
        model(two, where={"id": "a"}).identity(),
        model(two, response_column="response").identity(),
    ]
    assert all(a != b for i, a in enumerate(identities) for b in identities[:i])


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        (rows_of("a - x", "b - y"), {}, "2 answers are joined by id alone, prompts not compared"),
        (rows_of("a 1 one x", "a 2 one z", "b 1 two y", columns="id epoch prompt response"), {},
         "1 prompts have answers that differ, and are er"),
        (rows_of("a one x", "b two y"), {}, None),
        (rows_of("a one x", "b two y", columns="id prompt answer"), {},
         "answers are read from the column 'answer'; response_column names another"),
        (rows_of("a one x", "b two NaN", columns="ID Prompt Response"), {},
         "1 of 2 answers are a word that stands for a missing one, and are judged as they stand"),
        (rows_of("a one \u00e2\u20acx", "b two y"), {}, "1 of 2 answers hold characters of another enc"),
        (rows_of("a one one,x", "b two y"), {}, "1 of 2 answers begin with their prompt"),
        ([{"id": "a", "prompt": "one", "response": "x" * 32_767}, *rows_of("b two y")], {},
         "1 of 2 answers end where a cell of Excel does"),
        (rows_of("a one x z", "b two y y", columns="id prompt response output"), {},
         "the column 'output' is not read; 1 rows hold another text there"),
        (rows_of("a one x<|im_end|>", "b two y"), {}, "1 of 2 answers hold markers of a chat templ"),
        (rows_of("a one content='No.'", "b two b'No.'"), {}, "2 of 2 answers are objects as Python p"),
        (rows_of("a one x m", "b two y n", columns="id prompt response model"), {},
         "answers of several models (m, n); choose one by where: {model: m}"),
        (rows_of("a one x m", "b two y n", columns="id prompt response model"),
         {"where": {"model": "m"}}, None),
    ],
)  # fmt: skip
def test_what_was_not_compared_is_said(tmp_path, caplog, rows, settings, said):
    recorded = model(file(tmp_path, *rows), **settings)
    ask(recorded, ("a", "one"), ("b", "two"))
    assert said in caplog.text if said else not caplog.text
    alone = {"prompts": "not compared: answers are joined by id alone"}
    expected = {} if {"prompt", "Prompt"} & rows[0].keys() else alone
    assert recorded.description() == {"parameters": None, **expected}
