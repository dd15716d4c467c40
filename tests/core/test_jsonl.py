from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import RowError
from refract.core.jsonl import (
    RowsById,
    canonical_json,
    dump_row,
    iter_rows,
    parse_line,
    read_rows,
    sha256_file,
    sha256_json,
    stored_rows,
    write_bytes,
    write_json,
    write_rows,
)
from refract.core.tables import parse_table, read_table, shared, write_table

# What splits lines for str.splitlines, and other characters that files tend to lose.
AWKWARD = "a\u2028b\u2029c\u0085d\re\x0bf\x0cg\x1ch\ti\u00a0j\ufeffk\u202el\x00m\U0001f600"
TEXTS = st.text(st.sampled_from(AWKWARD + "\\\"'/\néé中\ud83d"), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(TEXTS, PLAIN, max_size=3)
ROWS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=4)


def test_a_full_disk_is_said_with_the_file(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    path = tmp_path / "rows.jsonl"
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        write_rows(path, [{"id": "a"}])
    assert list(tmp_path.iterdir()) == []


@given(ROWS)
def test_rows_come_back_as_they_were_written(rows):
    lines = [dump_row(row) for row in rows]
    assert [parse_line(line) for line in lines] == rows
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)


def test_only_a_line_feed_ends_a_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_rows(path, [{"prompt": AWKWARD}, {"prompt": "two"}])
    assert read_rows(path) == [{"prompt": AWKWARD}, {"prompt": "two"}]
    # Characters above U+001F stand in the file as themselves, not as escapes.
    assert "\u2028b\u2029c\u0085d\\re".encode() in path.read_bytes()


def test_the_hash_of_a_value_does_not_depend_on_the_order_of_its_keys():
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,null]}'
    assert sha256_json({"b": 1, "a": 2}) == sha256_json({"a": 2, "b": 1})
    # printf '{"a":1}' | sha256sum
    assert sha256_json({"a": 1}) == (
        "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    )


def test_a_byte_order_mark_and_blank_lines_are_skipped(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}')
    assert read_rows(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": \n', r"rows.jsonl:2: not JSON \(Expecting value at column 7\)"),
        (b'{"a": 1}\n[1]\n', "rows.jsonl:2: expected an object, got list"),
        (b'{"a": "\xff"}\n', r"rows.jsonl:1: not UTF-8 \(invalid start byte\)"),
        (b'\n{"a": NaN}\n', r"rows.jsonl:2: not JSON \(NaN is not JSON\)"),
        (b'{"a": -Infinity}\n', r"rows.jsonl:1: not JSON \(-Infinity is not JSON\)"),
        (b"[" * 100_000 + b"\n", r"rows.jsonl:1: not JSON \(nested too deeply\)"),
        (b'{"a": ' + b"9" * 5000 + b"}\n", "rows.jsonl:1: not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(RowError, match=message):
        read_rows(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(RowError, match=r"absent.jsonl: cannot be read \(No such file"):
        read_rows(tmp_path / "absent.jsonl")
    with pytest.raises(RowError, match="cannot be read"):
        read_rows(tmp_path)


def test_rows_before_a_bad_line_are_given_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    rows = iter_rows(path)
    assert [next(rows), next(rows)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(RowError, match=":3:"):
        next(rows)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "folder" / "rows.jsonl"
    write_bytes(path, [b"before\n"])

    def chunks():
        yield b"half of"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_bytes(path, chunks())
    assert path.read_bytes() == b"before\n"
    assert os.listdir(path.parent) == ["rows.jsonl"]


def test_json_files_are_sorted_indented_and_end_in_a_line_feed(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": "ü"})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "a": "ü",\n  "b": 1\n}\n'
    assert sha256_file(tmp_path / "a.json") == sha256_file(tmp_path / "a.json")


def test_a_table_comes_back_cell_by_cell(tmp_path):
    path = tmp_path / "table.csv"
    cells = [AWKWARD, 'comma, "quote"', "line\nfeed", "carriage\rreturn", "crlf\r\n", " pad ", ""]
    write_table(path, ("text", "n"), [{"text": text, "n": 1} for text in cells])
    assert read_table(path) == [{"text": text, "n": "1"} for text in cells]


def test_two_columns_of_one_name_are_an_error_that_names_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('label,n,"label"\nrefusal,1,compliance\n', "utf-8")
    with pytest.raises(RowError, match=r"table\.csv: 2 columns are called 'label'"):
        read_table(path)
    path.write_text("label,,\nrefusal,,\n", "utf-8")  # columns that a spreadsheet left empty
    assert read_table(path)[0]["label"] == "refusal"


def test_a_table_is_written_in_lines_ended_by_lf(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, ("a", "b", "c"), [{"a": 1, "b": None}, {"a": 0.5, "c": "x"}])
    assert path.read_bytes() == b"a,b,c\n1,,\n0.5,,x\n"


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(RowError, match=r"absent.csv: cannot be read"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "bad.csv").write_bytes(b"a,b\n\xff,1\n")
    with pytest.raises(RowError, match=r"bad.csv: not a CSV table in UTF-8"):
        read_table(tmp_path / "bad.csv")


def test_rows_by_id_are_read_from_their_file_when_they_are_asked_for(tmp_path):
    rows = [{"id": AWKWARD, "n": 0}, {"id": "b", "n": 1}]
    path = tmp_path / "rows.jsonl"
    between = b"\n \n # a comment\n//{}\n"
    path.write_bytes(b"\xef\xbb\xbf# another\n" + between.join(map(dump_row, rows)))
    assert read_rows(path) == rows
    numbers = {row["id"]: row["n"] for row in rows}
    by_id = RowsById(path, numbers, key="id")
    assert (list(by_id.values()), len(by_id)) == (rows, 2)
    assert RowsById(path, numbers, key="id", field="n")["b"] == 1
    with pytest.raises(KeyError):
        RowsById(path, {**numbers, "c": 2}, key="id")["c"]
    with pytest.raises(RowError, match=r"row 1: is that of .*, expected 'b'; run: dvc repro"):
        RowsById(path, {"b": 0}, key="id")["b"]


@pytest.mark.parametrize("samples", [1, 3])
def test_stored_rows_have_as_many_samples_of_a_prompt_as_there_are_responses(tmp_path, samples):
    prompts = [{"prompt_id": x, "source_id": x} for x in "ab"]
    ids = [id_ for x in "ab" for id_ in (x, *(f"{x}~{n}" for n in range(2, samples + 1)))]
    write_rows(tmp_path / "p.jsonl", prompts)
    write_rows(tmp_path / "r.jsonl", [{"prompt_id": x} for x in ids])
    write_rows(tmp_path / "v.jsonl", [{"prompt_id": x, "judges": {"j": x}} for x in ids])
    stored = stored_rows(*(tmp_path / f"{name}.jsonl" for name in "prv"))
    assert [list(of) for of in stored] == [ids] * 3
    assert [row.get("sample", 1) for row in stored.prompts.values()] == [*range(1, samples + 1)] * 2
    assert {x: said["j"] for x, said in stored.verdicts.items()} == {x: x for x in ids}


def test_a_parsed_table_is_the_table_with_cells_that_repeat_held_once(tmp_path, monkeypatch):
    monkeypatch.setattr("refract.core.tables.SHARED", 2)
    rows = [{"a": f"x{n}", "b": f"x{n}", "c": AWKWARD, "d": ""} for n in range(5)]
    write_table(tmp_path / "t.csv", list("abcd"), iter(rows))
    lines = parse_table((tmp_path / "t.csv").read_bytes())
    assert lines == read_table(tmp_path / "t.csv") == rows
    assert len({id(line["c"]) for line in lines}) == 1
    assert all(line["a"] is line["b"] for line in lines[3:])
    with pytest.raises(ValueError, match="zip"):
        parse_table(b"a,b\n1,2,3\n")
    # Equal texts of values of different types are not one value.
    assert list(shared([[("a", None)], [("a", "None")]])) == [{"a": None}, {"a": "None"}]
