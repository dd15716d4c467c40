"""Published prompt files become suites in which no row is lost, merged or cut."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import RefractError
from refract.core.jsonl import read_rows
from refract.suites.importing import import_file
from refract.suites.rows import SuiteError, check_suite
from tests.outside import outside

LOCALES = "ailuminate/airr_official_1.0_demo_{}_prompt_set_release.csv"
ARTIFACT = "jailbreakbench_artifacts/JBC_vicuna-13b-v1.5.json"
XSTEST = {"helpful": 250, "harmful": 200}
# The importer, the file, its rows by category, its different texts.
PUBLISHED = [
    ("ailuminate", LOCALES.format("en_us"), {"harmful": 1200}, 1200),
    ("ailuminate", LOCALES.format("fr_fr"), {"harmful": 1200}, 1200),
    ("coconot", "coconot/coconot_eval.jsonl", {"harmful": 1001}, 1001),
    ("coconot_contrast", "coconot/coconot_contrast_eval.jsonl", {"borderline": 379}, 379),
    ("multijail", "multijail/MultiJail.csv", {"harmful": 3150}, 3148),
    ("advbench", "advbench_harmful_behaviors.csv", {"harmful": 520}, 520),
    ("donotanswer", "do_not_answer_en.csv", {"harmful": 939}, 938),
    ("giskard", "prompt_injections.csv", {"harmful": 35}, 35),
    ("harmbench", "harmbench_behaviors_text_all.csv", {"harmful": 400}, 400),
    ("jailbreakbench", "jailbreakbench_harmful_behaviors.csv", {"harmful": 100}, 100),
    ("jailbreakbench_artifact", ARTIFACT, {"harmful": 100}, 100),
    ("orbench", "orbench_hard1k_ko_instructtrans_raw.jsonl", {"borderline": 1319}, 1319),
    ("simplesafetytests", "simple_safety_tests.csv", {"harmful": 100}, 100),
    ("strongreject", "strongreject_dataset.csv", {"harmful": 313}, 313),
    ("xstest", "xstest/xstest_prompts.csv", XSTEST, 450),
    ("xstest", "xstest/model_completions/xstest_v2_completions_gpt4.csv", XSTEST, 450),
]


def refract(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("kind", "name", "counts", "texts"), PUBLISHED)
def test_each_published_file_becomes_a_usable_suite_of_all_its_rows(
    tmp_path, kind, name, counts, texts
):
    published = outside(f"data/raw/{name}")
    out = tmp_path / f"{kind}.jsonl"
    done = refract("import-suite", kind, published, "--out", out)
    assert done.exit_code == 0, done.output
    rows, problems = check_suite(out)
    assert Counter(row["category"] for row in rows) == counts
    assert all(problem.harmless for problem in problems)
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({row["prompt"] for row in rows}) == texts
    card = out.with_suffix(".md").read_text("utf-8")
    assert hashlib.sha256(published.read_bytes()).hexdigest() in card
    assert f"{len(rows)} prompts" in card


TRAPS = (
    b"\xef\xbb\xbf# made by hand\n"
    b"# twice\n"
    b"id,prompt,type,label,focus,note\n"
    b'1,"How, ""exactly""?",homonyms,safe,,\n'
    b'2," one\r\ntwo\rthree\n# four",contrast_homonyms,unsafe,x,\n'
    b"2,bare\rreturn,homonyms,safe,,\n"
    b"# a remark, between rows\n"
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
        "The file starts with a byte order mark, which is not part of its text.",
        "Comment lines, skipped: 3 (ending on line 1, 2, 9).",
        "Rows with carriage returns, kept as they are: 3 (ending on line 7, 8, 10).",
        "Rows with NUL characters or lone surrogates, each replaced by U+FFFD: 1 (ending on line 12).",
        "Rows without a prompt, left out: 1 (line 13).",
        "Ids that occurred before and got a number: xstest-2-2.",
        "Rows that repeat the text of another row, kept with ids of their own: 1.",
    ]
    assert all(f"- {note}\n" in imported.card for note in imported.notes)


@pytest.mark.parametrize(
    ("kind", "name", "content", "prompts"),
    [
        ("advbench", "old.csv", "goal,target\rone,yes\rtwo,yes\r", ["one", "two"]),
        ("jailbreakbench_artifact", "PAIR.json",
         '{"parameters": {}, "jailbreaks": [{"index": 0, "prompt": "p"}, {"prompt": null}]}', ["p"]),
    ],
)  # fmt: skip
def test_returns_alone_end_rows_and_an_attack_without_a_prompt_is_named(
    tmp_path, kind, name, content, prompts
):
    (tmp_path / name).write_bytes(content.encode())
    imported = import_file(kind, tmp_path / name, suite="a")
    assert [row["prompt"] for row in imported.rows] == prompts
    left_out = "Rows without a prompt, left out: 1 (line 2)." in imported.notes
    assert left_out == (prompts == ["p"])


def test_jsonl_takes_comments_surrogates_and_null_prompts_for_what_they_are(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'# a remark\n{"prompt": "half \\ud83d", "category": "privacy"}\n\n{"prompt": null}\n'
        b'{"prompt": "a\xe2\x80\xa8b", "category": "hate"}'
    )
    imported = import_file("orbench", path, suite="o")
    read = [(row["id"], row["prompt"], row["area"]) for row in imported.rows]
    assert read == [
        ("orbench-0001", "half \ufffd", "privacy"),
        ("orbench-0003", "a\u2028b", "hate"),
    ]
    assert imported.notes == [
        "Comment lines, skipped: 1 (ending on line 1).",
        "Rows with NUL characters or lone surrogates, each replaced by U+FFFD: 1 (ending on line 2).",
        "Rows without a prompt, left out: 1 (line 4).",
    ]


def test_any_file_is_imported_by_its_columns(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(
        "Key,Text,Label,pair_id,Größe,Größe!\na,eins,ok,7,1,2\nb,zwei,bad,,,\n".encode("cp1252")
    )
    out = tmp_path / "mine.jsonl"
    done = refract(
        *("import-suite", "generic", path, "--out", out, "--encoding", "cp1252"),
        *("--prompt-column", "Text", "--id-column", "Key", "--category-column", "Label"),
        *("--map", "ok=helpful", "--map", "bad=harmful", "--source", "my own", "--licence", "CC0"),
    )
    assert done.exit_code == 0, done.output
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


def test_a_card_holds_no_html_of_the_file(tmp_path):
    path = tmp_path / "prompts.csv"
    path.write_text("prompt,area,<b>\none,<script>alert(1)</script>|x,1\ntwo,b,2\n")
    card = import_file("generic", path, suite="s", category="harmful").card
    assert "| &lt;script>alert(1)&lt;/script>\\|x | harmful | 1 |" in card
    assert "<" not in card


@pytest.mark.parametrize(
    ("kind", "name", "content", "options", "message"),
    [
        ("advbench", "a.csv", b"goal,target\none\n", {}, "line 2 has more or fewer fields"),
        ("advbench", "a.csv", b"text\none\n", {}, "no prompt column .goal.; it has 'text'"),
        ("advbench", "a.csv", b"goal\n\xff\n", {}, "cannot be read as .utf-8. .* with --enc"),
        ("advbench", "a.ods", b"", {}, "must be one of .csv, .tsv, .* .got '.ods'."),
        ("advbench", "a.xlsx", b"PK", {}, "a.xlsx: not XLSX"),
        ("xsafety", "a.csv", b"one\ntwo,2\n", {}, "more or fewer fields than the first .2, not 1"),
        (
            "wildguardtest",
            "a.csv",
            b"prompt\none\n",
            {},
            "has no category column .prompt_harm_label.",
        ),
        ("advbench", "a.json", b"{}", {}, "expected a list of objects"),
        ("advbench", "a.jsonl", b'{"goal": 7}', {}, "line 1: 'goal' must be a text .got 7."),
        ("generic", "a.csv", b"prompt\nx\n", {}, "has no column 'category'; give every row one"),
        ("generic", "a.csv", b"prompt,category\nx,bad\n", {}, "map it with --map bad=CATEGORY"),
    ],
)
def test_a_file_that_makes_no_suite_is_refused_with_the_reason(
    tmp_path, kind, name, content, options, message
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SuiteError, match=message):
        import_file(kind, tmp_path / name, suite="s", **options)


def test_a_suite_that_holds_other_rows_is_not_overwritten(tmp_path):
    path, out = tmp_path / "a.csv", tmp_path / "out.jsonl"
    path.write_text("goal\none\n")
    assert refract("import-suite", "advbench", path, "--out", out).exit_code == 0
    before = out.read_bytes()
    assert refract("import-suite", "advbench", path, "--out", out).exit_code == 0
    path.write_text("goal\ntwo\n")
    done = refract("import-suite", "advbench", path, "--out", out)
    assert "exists and holds other rows" in str(done.exception)
    assert out.read_bytes() == before


def test_wrong_usage_is_reported_before_anything_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("goal\none\n")
    for arguments, message in (
        (("strange", path), "KIND must be one of advbench, "),
        (("advbench", tmp_path / "none.csv"), "no file"),
        (("advbench", path, "--map", "a=harmful"), "knows the category of each row"),
        (("advbench", path, "--no-header"), "are for the kind generic"),
    ):
        done = refract("import-suite", *arguments)
        assert isinstance(done.exception, RefractError)
        assert message in str(done.exception)
