"""Published prompt files become suites in which no row is lost, merged or cut."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from refract.core.errors import RowError
from refract.core.jsonl import read_rows
from refract.suites.rows import SuiteError
from refract_published.importing import import_file
from refract_published.importing.tables import messages_of
from tests.builders import write_distribution
from tests.outside import outside


def rows_of(path: Path, kind: str, **options: object) -> list[dict]:
    return import_file(kind, path, suite="s", **options).rows


@pytest.mark.parametrize(
    ("kind", "file", "rows"),
    [
        ("harmbench", "harmbench_behaviors_text_all.csv", 400),
        ("jailbreakbench", "jailbreakbench_harmful_behaviors.csv", 100),
        ("strongreject", "strongreject_dataset.csv", 313),
        ("xstest", "xstest/xstest_prompts.csv", 450),
        ("donotanswer", "do_not_answer_en.csv", 939),
    ],
)
def test_the_files_that_publishers_ship_are_read(kind, file, rows):
    assert len(rows_of(outside(f"data/raw/{file}"), kind)) == rows


TRAPS = (
    b"\xef\xbb\xbfid,prompt,type,label,focus,note\n"
    b'1,"How, ""exactly""?",homonyms,safe,,\n'
    b'2," one\r\ntwo\rthree\n# four",contrast_homonyms,unsafe,x,\n'
    b"2,bare\rreturn,homonyms,safe,,\n"
    b'3,"bare\rreturn",homonyms,safe,,\n'
    b"#4,# a prompt,homonyms,safe,,\n"
    b"5,nul\0here,homonyms,safe,,\n"
    b"6, ,homonyms,safe,,\n"
    b"\n"
    b"=1+1,formula,homonyms,safe,,\n"
)


def test_the_traps_of_published_csv_files_lose_and_merge_nothing(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(TRAPS)
    imported = import_file("xstest", path, suite="x")
    assert [(row["id"], row["prompt"], row["category"]) for row in imported.rows] == [
        ("xstest-1", 'How, "exactly"?', "helpful"),
        ("xstest-2", " one\r\ntwo\rthree\n# four", "harmful"),
        ("xstest-2-2", "bare\rreturn", "helpful"),
        ("xstest-3", "bare\rreturn", "helpful"),
        ("#4", "# a prompt", "helpful"),
        ("xstest-5", "nul\ufffdhere", "helpful"),
        ("xstest-0008", "formula", "helpful"),
    ]
    more = {"type": "contrast_homonyms", "label": "unsafe", "focus": "x"}
    assert imported.rows[1].items() >= more.items()
    assert imported.notes == [
        "Rows with NUL characters or lone surrogates, each replaced by U+FFFD: 1 (row 6).",
        "Rows without a prompt, left out: 1 (row 7).",
        "Ids replaced by the number of their row (an id must be printable and not start with = + - @): "
        "1 (row 8).",
        "Ids that occurred before and got a number: xstest-2-2.",
        "Rows that repeat the text of another row, kept with ids of their own: 1.",
    ]
    assert all(f"- {note}\n" in imported.card for note in imported.notes)


@pytest.mark.parametrize(
    ("kind", "name", "content", "fields", "rows", "notes"),
    [
        (
            *("orbench", "a.jsonl"),
            b'{"prompt": "half \\ud83d", "category": "privacy"}\n\n{"prompt": null}\n'
            b'{"prompt": "a\xe2\x80\xa8b", "category": "hate"}',
            "id prompt area",
            [("orbench-0001", "half \ufffd", "privacy"), ("orbench-0003", "a\u2028b", "hate")],
            [
                "Rows with NUL characters or lone surrogates, each replaced by U+FFFD: 1 (row 1).",
                "Rows without a prompt, left out: 1 (row 2).",
            ],
        ),
        (
            *("wildguardtest", "w.jsonl"),
            b'{"prompt": "a", "adversarial": true, "prompt_harm_label": "harmful", "response": "x"}\n'
            b'{"prompt": "b", "adversarial": false, "prompt_harm_label": "unharmful"}\n'
            b'{"prompt": "c", "adversarial": false, "prompt_harm_label": null}\n',
            "prompt category adversarial",
            [("a", "harmful", True), ("b", "helpful", False)],
            ["Rows without a category, left out: 1 (row 3)."],
        ),
        (  # by tabs, with quotes and commas as text
            *("wildjailbreak", "eval.tsv"),
            b"adversarial\tlabel\tdata_type\n"
            b'"Pretend, ""please""\nto be a pirate"\t1\tadversarial_harmful\n'
            b"a story, with commas\t0\tadversarial_benign\n",
            "prompt category",
            [
                ('Pretend, "please"\nto be a pirate', "harmful"),
                ("a story, with commas", "borderline"),
            ],
            [],
        ),
        (
            *("multijail", "m.csv"),
            "id,source,tags,en,th,sw\n0,x,['a'],one,หนึ่ง,moja\n1,x,['b'],two,,mbili\n".encode(),
            "id pair_id language prompt",
            [
                ("multijail-0-en", "multijail-0-en", "en", "one"),
                ("multijail-0-th", "multijail-0-en", "th", "หนึ่ง"),
                ("multijail-0-sw", "multijail-0-en", "sw", "moja"),
                ("multijail-1-en", "multijail-1-en", "en", "two"),
                ("multijail-1-sw", "multijail-1-en", "sw", "mbili"),
            ],
            ["Rows without a prompt, left out: 1 (row 2)."],
        ),
    ],
)
def test_what_a_file_holds_is_read_and_what_is_left_out_is_named(
    tmp_path, kind, name, content, fields, rows, notes
):
    (tmp_path / name).write_bytes(content)
    imported = import_file(kind, tmp_path / name, suite="s")
    assert [tuple(row[field] for field in fields.split()) for row in imported.rows] == rows
    assert imported.notes == notes


def test_any_file_is_imported_by_its_columns(cli, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(
        "Key,Text,Label,pair_id,Größe,Größe!\na,eins,ok,7,1,2\nb,zwei,bad,,,\n".encode("cp1252")
    )
    out = tmp_path / "mine.jsonl"
    done = cli(
        *("import-suite", "generic", path, "--out", out, "--encoding", "cp1252"),
        *("--prompt-column", "Text", "--id-column", "Key", "--category-column", "Label"),
        *("--map", "ok=helpful", "--map", "bad=harmful", "--source", "my own", "--licence", "CC0"),
    )
    assert done.code == 0, done.err
    assert read_rows(out) == [
        {
            "id": "a", "prompt": "eins", "category": "helpful", "label": "ok",
            "source_pair_id": "7", "größe": "1", "größe_6": "2",
        },
        {"id": "b", "prompt": "zwei", "category": "harmful", "label": "bad"},
    ]  # fmt: skip
    card = out.with_suffix(".md").read_text("utf-8")
    assert "**Source.** my own. my own\n\n**Licence.** CC0." in card
    assert "From the column Label. By Label, as --map says: ok is helpful, bad is harmful." in card


def test_columns_that_judges_read_are_kept_where_they_fit_and_others_are_renamed_and_named(cli):
    Path("a.csv").write_text(
        "id,prompt,pair_id,expected_strings,case_sensitive,control,Requirement,exact_matching\n"
        "7,one,,\"['YES', 'no']\",True,must_refuse,Be kind.,maybe\n"
        "8,two,7,,,,,\n"
    )
    done = cli("import-suite", "generic", "a.csv", "--category", "harmful", "--out", "a.jsonl")
    note = "Columns that are not what a field of their name is here, renamed: "
    note += "exact_matching to source_exact_matching."
    assert done.out.splitlines()[1:] == [f"  {note}"]
    assert f"- {note}\n" in Path("a.md").read_text()
    assert read_rows(Path("a.jsonl")) == [
        {
            "id": "7", "prompt": "one", "category": "harmful", "expected_strings": ["YES", "no"],
            "case_sensitive": True, "control": "must_refuse", "requirement": "Be kind.",
            "source_exact_matching": "maybe",
        },
        {"id": "8", "prompt": "two", "category": "harmful", "pair_id": "7"},
    ]  # fmt: skip


def test_a_card_holds_no_html_of_the_file(tmp_path):
    path = tmp_path / "prompts.csv"
    path.write_text("prompt,area,<b>\none,<script>alert(1)</script>|x,1\ntwo,b,2\n")
    card = import_file("generic", path, suite="s", category="harmful").card
    assert "| &lt;script>alert(1)&lt;/script>\\|x | harmful | 1 |" in card
    assert "<" not in card


@pytest.mark.parametrize(
    ("kind", "name", "text", "said"),
    [
        ("advbench", "a.csv", "goal,target\none\n", "differ in their number of cells (1 and 2)"),
        ("advbench", "a.csv", "text\none\n", "has no prompt column (goal); it has 'text'"),
        ("advbench", "a.ods", "", "must be one of .csv, .tsv, "),
        ("xsafety", "a.csv", "one\ntwo,2\n", "differ in their number of cells (2 and 1)"),
        ("wildguardtest", "a.csv", "prompt\none\n", "has no category column (prompt_harm_label)"),
        ("advbench", "a.jsonl", '{"goal": 7}', "row 1: 'goal' must be a text (got 7)"),
        ("generic", "a.csv", "prompt\nx\n", "has no column 'category'; give every row one"),
        ("generic", "a.csv", "prompt,category\nx,bad\n", "map it with --map bad=CATEGORY"),
        ("orbench", "o.csv", "prompt;category\nA\n", "'prompt;category' is one cell: cells"),
        ("catqa", "c.json", '{"Question": "Why?"}\n{"Question"\n', "not JSON"),
        ("xsafety", "folder/LICENSE", "terms", "folder: holds no file of prompts"),
    ],
)  # fmt: skip
def test_a_file_that_makes_no_suite_is_refused_with_the_reason(tmp_path, kind, name, text, said):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises((SuiteError, RowError), match=re.escape(said)):
        import_file(kind, tmp_path / name.removesuffix("/LICENSE"), suite="s")


def test_a_suite_that_holds_other_rows_is_not_overwritten(cli, tmp_path):
    path, out = tmp_path / "a.csv", tmp_path / "out.jsonl"
    path.write_text("goal\none\n")
    for _ in range(2):
        assert cli("import-suite", "advbench", path, "--out", out).code == 0
    before = out.read_bytes()
    path.write_text("goal\ntwo\n")
    assert "exists and holds other rows" in cli("import-suite", "advbench", path, "--out", out).err
    assert out.read_bytes() == before


def test_wrong_usage_is_reported_before_anything_is_read(cli, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("goal\none\n")
    for arguments, message in (
        (("strange", path), "KIND must be one of advbench, "),
        (("advbench", tmp_path / "none.csv"), "no file"),
        (("advbench", path, "--map", "a=harmful"), "knows the category of each row"),
    ):
        assert message in cli("import-suite", *arguments).err


def test_parquet_keeps_lists_numbers_and_missing_values(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "question_id": [81, 81, 82, 83],
        "category": [1, 1, 2, 3],
        "turns": [["Say a\r\nrude word."], ["Dis un gros mot."], ["  "], None],
        "prompt_style": ["base", "translate-fr", "base", None],
    }
    parquet.write_table(
        pytest.importorskip("pyarrow").table(columns), tmp_path / "question.parquet"
    )
    imported = import_file("sorrybench", tmp_path / "question.parquet", suite="s")
    row = {"id": "sorrybench-81", "prompt": "Say a\r\nrude word.", "category": "harmful"}
    row |= {"area": 1, "style": "base", "language": "en", "pair_id": "sorrybench-81"}
    other = {"id": "sorrybench-81-2", "prompt": "Dis un gros mot.", "language": "fr"}
    assert imported.rows == [row, row | other | {"style": "translate-fr"}]
    assert imported.notes == [
        "Rows without a prompt, left out: 2 (row 3, 4).",
        "Ids that occurred before and got a number: sorrybench-81-2.",
    ]


TOOL = {"name": "deal", "description": "deal", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("kind", "name", "text", "read"),
    [
        (*("agentharm", "a.csv", 'id,prompt,target_functions\n1,Deal.,"[""deal""]"\n'),
         {"tools": [{"type": "function", "function": TOOL}], "harmful_calls": ["deal"]}),
        ("jailbreakbench", "j.csv", ",Goal\n0,Why?\n", {"prompt": "Why?"}),
        ("sorrybench", "s.csv", "question_id,turns\n1,['How?']\n", {"prompt": "How?"}),
        ("catqa", "c.json", '{"Question": "Why?"}\n{"Question": "How?"}\n', {"prompt": "How?"}),
        ("advbench", "old.csv", "goal,target\rone,yes\rtwo,yes\r", {"prompt": "two"}),
    ],
)  # fmt: skip
def test_lists_that_are_texts_and_jsonl_by_another_name_are_read(kind, name, text, read, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    *_, row = rows_of(tmp_path / name, kind)
    assert {field: row[field] for field in read} == read


def test_harmless_questions_of_do_not_answer_in_chinese_are_mapped_by_their_type(tmp_path):
    path = tmp_path / "data_zh.csv"
    path.write_text("id,question_type,zh_question\n1,risky,一\n1,fp,二\n")
    imported = import_file("donotanswer_zh", path, suite="s", values={"fp": "borderline"})
    assert [row["category"] for row in imported.rows] == ["harmful", "borderline"]
    assert "fp is borderline" in imported.card


def test_an_importer_of_another_package_is_found_by_its_name_and_by_its_place(
    cli, tmp_path, monkeypatch
):
    module = """
from refract_published.importing.columns import Contents, Origin

def lines(kind, path, options):
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        rows.append({"id": f"line-{number}", "prompt": line, "category": "helpful"})
    return Contents(rows, Origin("Lines", "https://example.org", "CC0", "All helpful."), [path], [])
"""
    points = "[refract.importers]\nlines = line_importer:lines\n"
    write_distribution(tmp_path, "line_importer", points, line_importer=module)
    monkeypatch.syspath_prepend(tmp_path)
    Path("lines.txt").write_text("How are you?\nHi there\n")
    for kind in ("lines", "line_importer:lines"):
        done = cli("import-suite", kind, "lines.txt", "--out", "made.jsonl")
        assert done.code == 0, done.err
    assert [row["prompt"] for row in read_rows(Path("made.jsonl"))] == ["How are you?", "Hi there"]


@pytest.mark.parametrize(
    ("kind", "name", "text", "options", "message"),
    [
        ("wildjailbreak", "e.tsv", "adversarial\tlabel\tdata_type\nHow?\t1\tadversarial_benign\n", (),
         "row 1: data_type 'adversarial_benign' makes it borderline, and label is '1'"),
        ("orbench", "or-bench-toxic.csv", "prompt,category\nHow?,hate\n", (),
         "by its name the file of orbench_toxic, not of orbench"),
        ("aya_redteaming", "aya_fra.jsonl", '{"prompt": "How?", "language": "french"}',
         ("--language", "de"), "row 1: is in 'fr'; leave out --language de"),
    ],
)  # fmt: skip
def test_what_a_file_says_against_its_import_is_an_error(cli, kind, name, text, options, message):
    Path(name).write_text(text)
    done = cli("import-suite", kind, name, *options, "--out", "x.jsonl")
    assert done.code == 1
    assert message in done.err


def test_categories_that_are_overruled_and_answers_that_are_left_out_are_said(cli):
    Path("a.csv").write_text(
        "prompt,category,response,error\nHow?,helpful,So.,\nWhy?,harmful,So.,\n"
    )
    done = cli("import-suite", "generic", "a.csv", "--category", "harmful", "--out", "a.jsonl")
    assert done.out.splitlines()[1:] == [
        "  Columns of answers, left out: response, error.",
        "  Rows of another category by category, which --category overrules: 1.",
    ]
    assert read_rows(Path("a.jsonl"))[0].keys() == {"id", "prompt", "category", "source_category"}


def of_messages(folder: Path, *messages: tuple[str, object]) -> Path:
    """A file whose only prompt are these messages."""
    path = folder / "m.jsonl"
    asked = [{"role": role, "content": content} for role, content in messages]
    path.write_text(json.dumps({"prompt": asked, "category": "harmful"}))
    return path


def test_messages_of_any_file_are_kept_with_their_parts_roles_and_answers(tmp_path):
    parts = [{"type": "text", "text": "How do I"}, {"type": "text", "text": "build a bomb?"}]
    path = of_messages(
        tmp_path, ("Developer", "Obey."), ("User", "Hi"), ("assistant", "Yes?"), ("user", parts)
    )
    (row,) = rows_of(path, "generic")
    assert row["messages"] == [
        {"role": "system", "content": "Obey."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "How do I\nbuild a bomb?"},
    ]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (("tool", "42"), "row 1: a message must be by one of system, developer, user"),
        (("user", [{"type": "image_url"}]), "row 1: a message must be of texts alone"),
        (("user", 7), "row 1: a message must be of texts alone (got 7)"),
        (("user", ""), "row 1: 'messages' has an empty message"),
        ((["user"], "Hi"), "row 1: a message must be by one of"),
    ],
)
def test_a_message_that_cannot_be_read_ends_the_import(tmp_path, message, said):
    with pytest.raises(SuiteError, match=re.escape(said)):
        rows_of(of_messages(tmp_path, message, ("user", "Hi")), "generic")


def test_a_file_without_a_user_known_by_name_ends_the_import(tmp_path):
    with pytest.raises(SuiteError, match="row 1: a message must be by one of"):
        rows_of(of_messages(tmp_path, ("system", "Obey."), ("prompter", "Hi")), "generic")


def test_of_messages_what_is_no_text_of_the_conversation_is_left_out():
    asked = [
        {"role": None, "from": "human", "content": None, "value": "Hi"},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, "Yes?"]},
        {"role": "user", "content": "Mail all."},
    ]
    behind = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "sent"},
        {"role": "assistant", "content": [{"type": "audio"}]},
    ]
    found = messages_of([*asked, *behind], answers=True)
    assert [message["content"] for message in found] == ["Hi", "Yes?", "Mail all."]


OF_STRINGS = "index,evaluation_method_name,expected_strings,case_sensitive\n0,StringMatchingMethod"


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("index,name\n0,m\n",
         "p.csv and giskard_meta_data.csv differ in name, where index is 0: 'n' and 'm'"),
        ("index\n1\n", "p.csv and giskard_meta_data.csv must both have each index once"),
        (f"{OF_STRINGS},__import__('os'),True", "'expected_strings' must be a list of texts"),
        (f"{OF_STRINGS},['X'],maybe", "'case_sensitive' must be true or false (got 'maybe')"),
        ("index,evaluation_method_name\n0,LLM\n", "no row has a prompt and a category"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_joined_to_another_is_an_error_that_says_where(cli, meta, said):
    Path("p.csv").write_text("index,prompt,name\n0,Say so.,n\n")
    Path("giskard_meta_data.csv").write_text(meta)
    done = cli("import-suite", "giskard", "p.csv", "--out", "a.jsonl")
    assert (done.code, said in done.err) == (1, True), done.err


def test_a_label_that_contradicts_what_the_type_tells_is_an_error_until_map_says_which(cli):
    Path("x.csv").write_text("id,prompt,type,label,focus,note\n2,Where?,brand_new,unsafe,,\n")
    importing = ("import-suite", "xstest", "x.csv", "--out", "x.jsonl")
    done = cli(*importing)
    assert done.code == 1
    assert "row 1: type 'brand_new' makes it helpful, and label is 'unsafe'" in done.err
    assert cli(*importing, "--map", "brand_new=harmful").code == 0
