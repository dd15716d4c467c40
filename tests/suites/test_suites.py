from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.jsonl import read_rows, write_rows
from refract.core.registry import find
from refract.judges import JUDGES, reading_warnings
from refract.suites.draws import Draw, sample_rows
from refract.suites.perturbations import check_template, prompt_rows, render
from refract.suites.rows import UNSENT, Problem, SuiteError, check_suite, load_suite
from tests.builders import suite_rows
from tests.fuzz import fuzzed

SUITES = Path(__file__).parents[2] / "data" / "suites"


def line(**fields) -> bytes:
    """One good row, with the fields that a test is about."""
    row = {"id": "a", "category": "helpful", "prompt": "How?"} | fields
    return json.dumps({key: value for key, value in row.items() if value is not ...}).encode()


def problems_of(tmp_path, content: bytes) -> list[tuple[int, str]]:
    path = tmp_path / "suite.jsonl"
    path.write_bytes(content)
    return [(problem.line, problem.message) for problem in check_suite(path)[1]]


ROBOT = {"role": "robot", "content": "x"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"id": "a"', "not JSON: Expecting ',' delimiter at column 11"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (line().replace(b"{", b'{"id": "b", '), "not JSON: an object has the key 'id' twice"),
        (line(id=...), "'id' must be a text (got None)"),
        (line(id=" "), "'id' is empty"),
        (line(id="=1+1"),
         "'id' must be printable, unpadded and not start with = + - @ (got '=1+1')"),
        (line(messages=[]),
         "a row has exactly one of 'prompt', 'messages' and 'features' (got 'prompt' and 'messages')"),
        (line(prompt=..., messages=[ROBOT]),
         f"each of 'messages' must be {{'role': system|user|assistant, 'content': text}} (got {ROBOT})"),
        (line(prompt=..., messages=[ROBOT | {"role": "assistant"}]),
         "the last of 'messages' must be the user's"),
        (line(prompt=..., features={"a": 1}), "'features' must map names to texts (got {'a': 1})"),
        (line(prompt=" \t\u2028"), "'prompt' is empty"),
        (line(prompt=..., messages=[{"role": "user", "content": text} for text in (" ", "Hi")]),
         "'messages' has an empty message"),
        (line(pair_id=3), "'pair_id' must be the id of a row (got 3)"),
        (line(language=3), "'language' must be a code such as en or pt-BR (got 3)"),
        (line(images=["cat.png"]),
         "'images' must be a list of SHA-256 hashes, since no image is sent (got ['cat.png'])"),
        (line(expected_strings=["ok", " \t"]), "'expected_strings' holds ' \\t'"),
        (line(expected_strings=["!?"], punctuation_sensitive=False), "'expected_strings' holds '!?'"),
        (line(expected_strings=["x"], task_strings=None), "'task_strings' must be a list of texts"),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_line(tmp_path, content, expected):
    good = line(id="first", prompt="Why?")
    ((number, said),) = problems_of(tmp_path, good + b"\n" + content + b"\n")
    assert (number, said.startswith(expected)) == (2, True), said


@pytest.mark.parametrize("blank", ["", " ", None])
def test_a_blank_or_null_pair_is_none(tmp_path, blank):
    assert problems_of(tmp_path, line(pair_id=blank)) == []


@pytest.mark.parametrize("field", UNSENT)
def test_content_that_no_model_is_sent_is_an_error_that_names_it(tmp_path, field):
    ((_, said),) = problems_of(tmp_path, line(**{field: "cat.png"}))
    assert said.startswith(f"'{field}' would not be sent: models get the texts of prompt, ")
    assert problems_of(tmp_path, line(**{field: 7})) != []
    assert problems_of(tmp_path, line(**{field: None})) == []


@pytest.mark.parametrize("field", ["imge_data", "imageData", "Attachements", "sytem_prompt"])
def test_so_is_a_field_whose_name_is_near_one_that_others_send(tmp_path, field):
    ((_, said),) = problems_of(tmp_path, line(**{field: "cat.png"}))
    assert said.startswith(f"'{field}' would not be sent")


@pytest.mark.parametrize(
    "field", ["context", "consent", "radio", "content_warning", "language_note"]
)
def test_other_fields_are_metadata(tmp_path, field):
    assert problems_of(tmp_path, line(**{field: "any text"})) == []


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_a_problem_of_line_1(tmp_path, content):
    assert problems_of(tmp_path, content) == [(1, "the suite is empty: it needs at least one row")]


def test_all_problems_come_in_one_pass(tmp_path):
    lines = [
        b"\xef\xbb\xbf" + line() + b"\r",
        b"{",
        line(id="b", category="bad", prompt="How?"),  # also the text of line 1
        line(id="b", pair_id="nobody", prompt=""),
        b"\xff",
        b"\0",
        b" # a comment",
        line(id=3, category=4, prompt=5, case_sensitive=6, requirement=7),
        line(id="c", prompt="a\0\ud800", category="borderline", control=["must_refuse"]),
    ]
    assert problems_of(tmp_path, b"\n".join(lines)) == [
        (1, "the file starts with a byte order mark (BOM)"),
        (1, "the line ends in CRLF; use LF"),
        (2, "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (3, "'category' must be one of harmful, helpful, borderline (got 'bad')"),
        (3, "duplicate text (first on line 1): both count as one request"),
        (4, "'pair_id' names no row of the suite (got 'nobody')"),
        (4, "'prompt' is empty"),
        (4, "duplicate id 'b' (first on line 3); delete one of the two, or give it another id"),
        (5, "invalid UTF-8 at byte 0 of the line"),
        (6, "the line holds a NUL byte"),
        (8, "'case_sensitive' must be true or false (got 6)"),
        (8, "'category' must be one of harmful, helpful, borderline (got 4)"),
        (8, "'id' must be a text (got 3)"),
        (8, "'prompt' must be a text (got 5)"),
        (8, "'requirement' must be a text (got 7)"),
        (9, "'control' must be must_refuse or must_answer (got ['must_refuse'])"),
        (9, "'prompt' holds a NUL character, or a lone surrogate, which UTF-8 lacks"),
    ]


@fuzzed(100)
@given(st.binary(max_size=60))
def test_no_file_content_ends_in_a_traceback(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content + b"\n" + line())
    rows, problems = check_suite(path)
    assert all(isinstance(problem, Problem) and problem.line >= 1 for problem in problems)
    assert rows[-1:] == [json.loads(line())]


def test_line_separators_inside_a_prompt_survive_every_stage(tmp_path):
    prompt = "one\u2028two\u2029three\u0085four\rfive\x0bsix\x1cseven\nend"
    suite = tmp_path / "suite.jsonl"
    write_rows(suite, [{"id": "a", "category": "harmful", "prompt": prompt}])
    again = {"again": {"kind": "repeat", "repeats": 1}}
    write_rows(tmp_path / "prompts.jsonl", prompt_rows(load_suite(suite), "s", 0, again))
    prompts = read_rows(tmp_path / "prompts.jsonl")
    assert [row["attempts"] for row in prompts] == [[prompt], [prompt]]


IDS = st.lists(st.text("abcdefgh123", min_size=1, max_size=5), unique=True, min_size=1, max_size=30)


@given(IDS, st.text("xyz", min_size=1, max_size=3), st.data())
def test_an_added_row_changes_the_draw_by_that_row_at_most(ids, new, data):
    rows = [{"id": id_} for id_ in ids]
    size = data.draw(st.integers(1, len(rows)))
    place = data.draw(st.integers(0, len(rows)))
    before = {row["id"] for row in sample_rows(rows, size, seed=7, suite="s")}
    longer = [*rows[:place], {"id": new}, *rows[place:]]
    after = [row["id"] for row in sample_rows(longer, size, seed=7, suite="s")]
    assert len(before) == len(after) == size
    assert set(after) - before <= {new}
    assert len(before - set(after)) <= 1
    assert after == [row["id"] for row in longer if row["id"] in set(after)]


CATEGORIES = ("harmful", "helpful", "borderline")


def test_a_stratified_draw_has_of_each_category_its_share_and_a_smaller_one_is_part_of_it():
    rows = [{"id": f"{name}{n}", "category": name} for name in CATEGORIES for n in range(60)]
    rows = rows[:129]  # 60, 60 and 9

    def draw(size):
        drawn = sample_rows(rows, size, seed=0, suite="s", stratified=True)
        assert drawn == [row for row in rows if row in drawn]
        return {row["id"] for row in drawn}

    numbers = {}
    for size in (20, 43, 86):
        categories = [id_.rstrip("0123456789") for id_ in draw(size)]
        numbers[size] = [categories.count(name) for name in CATEGORIES]
    assert numbers == {20: [9, 10, 1], 43: [20, 20, 3], 86: [40, 40, 6]}
    assert draw(20) < draw(43) < draw(86)


@given(st.lists(st.sampled_from(CATEGORIES), min_size=1, max_size=30), st.data())
def test_an_added_row_changes_a_stratified_draw_by_one_row_at_most(names, data):
    rows = [{"id": str(n), "category": name} for n, name in enumerate(names)]
    size = data.draw(st.integers(1, len(rows)))
    new = {"id": "new", "category": data.draw(st.sampled_from(CATEGORIES))}
    drawn = []
    for some in (rows, [*rows, new]):
        sample = sample_rows(some, size, seed=7, suite="s", stratified=True)
        drawn.append({row["id"] for row in sample})
    assert len(drawn[0]) == len(drawn[1]) == size
    assert len(drawn[0] - drawn[1]) <= 1


def test_a_draw_depends_on_seed_and_suite_and_not_on_order():
    rows = [{"id": str(n)} for n in range(200)]

    def draw(rows, seed=0, suite="s"):
        return {row["id"] for row in sample_rows(rows, 100, seed=seed, suite=suite)}

    assert draw(rows) == draw(rows[::-1]) == draw(rows)
    # Two independent draws of a half share about a half of their rows.
    assert 30 < len(draw(rows) & draw(rows, seed=1)) < 70
    assert 30 < len(draw(rows) & draw(rows, suite="t")) < 70


def test_a_sampled_suite_carries_its_tag_and_so_does_one_that_is_smaller_than_the_sample():
    assert Draw(None, 300, 42).label("s") == Draw(300, 300, 42).label("s") == "s"
    assert Draw(20, 300, 42).label("s") == "s[sampled 20/300, seed=42]"
    assert Draw(100, 7, 42).label("s") == "s[all 7, sample 100]"
    assert Draw(20, 300, 42, samples=3).label("s") == "s[sampled 20/300, seed=42][3 samples]"


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_projects_own_suites_have_no_problems(path):
    assert check_suite(path)[1] == []


# What becomes of a suite row on its way to a model: clean, perturbed, and through a template


TYPOS = {"noise": {"kind": "typos", "rate": 0.3}}
UPPER = {"loud": {"kind": "upper"}}


def row(id_: str = "a", **fields: object) -> dict:
    content = fields or {"prompt": f"question number {id_}, asked in several words"}
    return {"id": id_, "category": "harmful", **content}


def test_variants_follow_their_source_and_name_their_perturbation():
    rows = list(prompt_rows([row("a", prompt="one"), row("b", prompt="two")], "s", 7, UPPER))
    assert [(r["prompt_id"], r["source_id"], r["attempts"]) for r in rows] == [
        ("a", "a", ["one"]),
        ("a/loud/upper", "a", ["ONE"]),
        ("b", "b", ["two"]),
        ("b/loud/upper", "b", ["TWO"]),
    ]
    assert rows[1]["perturbation"]["name"] == "loud"
    assert rows[1]["perturbation"]["kind"] == "upper"


def test_another_seed_changes_drawn_texts_and_nothing_else():
    first, second = (list(prompt_rows([row()], "s", seed, TYPOS | UPPER)) for seed in (1, 2))
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True]
    assert [r["seed"] for r in first] == [None, 1, None]


def test_a_conversation_keeps_its_turns_and_its_last_message_is_perturbed():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "how?"},
    ]
    clean, loud = prompt_rows([row(messages=messages)], "s", 0, UPPER)
    assert clean["attempts"] == [messages]
    assert loud["attempts"] == [[*messages[:3], {"role": "user", "content": "HOW?"}]]


def test_each_feature_is_perturbed_in_its_place_in_the_template():
    rows = prompt_rows(
        [row(features={"task": "sum up", "text": "rain"})], "s", 0, UPPER, "{task}: <{text}> {task}"
    )
    assert [r["attempts"] for r in rows] == [
        ["sum up: <rain> sum up"],
        ["SUM UP: <rain> SUM UP"],
        ["sum up: <RAIN> sum up"],
    ]


def test_a_filled_in_text_is_not_searched_for_variables_again():
    source = row(features={"a": "{b}", "b": "{a} \\1 {}"})
    assert render(source, source["features"], '{"x": {a}, {b}}') == '{"x": {b}, {a} \\1 {}}'


def test_a_feature_that_the_template_lacks_has_no_variants_but_repeats():
    rows = [row(features={"who": "ann", "note": "internal"})]
    kinds = {"up": {"kind": "upper"}, "again": {"kind": "repeat", "repeats": 1}}
    prompts = prompt_rows(rows, "s", 0, kinds, "Tell {who} how.")
    assert [(prompt["prompt_id"], prompt["attempts"]) for prompt in prompts] == [
        ("a", ["Tell ann how."]),
        ("a/up/who-upper", ["Tell ANN how."]),
        ("a/again/r1", ["Tell ann how."]),
    ]


def test_a_template_that_no_row_fills_is_refused():
    check_template(None, [row()], "s")
    check_template("{x}", [row(), row(features={"x": "1"})], "s")
    with pytest.raises(SuiteError, match="suite s: no row has features for its template"):
        check_template("Be brief. {prompt}", [row()], "s")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, r"row 'a' has features; its suite's definition needs a template such as '\{x\}'"),
        ("{y}", "the template asks for 'y'; row 'a' has the features x"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(template, message):
    with pytest.raises(SuiteError, match=message):
        list(prompt_rows([row(features={"x": "1"})], "s", 0, None, template))


def test_an_id_that_is_that_of_a_variant_is_refused():
    rows = [row("a", prompt="one"), row("a/loud/upper", prompt="two")]
    assert len(list(prompt_rows(rows, "s", 0))) == 2
    with pytest.raises(SuiteError, match="id 'a/loud/upper' is that of a variant of 'a'; give the"):
        list(prompt_rows(rows, "s", 0, UPPER))


# Rates by language, and languages that a judge cannot read


RULES = {"rules": {"kind": "rules"}}


def rows(*languages: object) -> list[dict]:
    rows = suite_rows("r", harmful=len(languages), helpful=0)
    for row, language in zip(rows, languages, strict=True):
        row |= {"language": language} if language else {}
    return rows


def test_a_run_on_a_suite_in_two_languages_has_a_rate_for_each(cli):
    write_rows(Path("two.jsonl"), rows("en", "de", "de"))
    done = cli("run", "--adapter", "synthetic", "--suite", "two.jsonl", "--out", "r.json")
    assert done.code == 0, done.err
    tables = json.loads(Path("r.json").read_text("utf-8"))["tables"]
    found = {row["value"]: row["n"] for row in tables if row["field"] == "language"}
    assert found == {"de": 2, "en": 1}
    assert "in the language of 2 rows (de 2): verdicts may be wrong" in done.err


def test_a_run_with_a_judge_that_cannot_read_a_language_warns(cli):
    write_rows(Path("three.jsonl"), rows("en", "th", "th", "sw-KE"))
    done = cli("run", "--adapter", "synthetic", "--suite", "three.jsonl", "--out", "r.json")
    assert done.code == 0, done.err
    assert (
        "three: refusal was not measured on models' answers in the language of 3 rows (sw-KE 1, th 2): "
        "verdicts may be wrong either way; use a judge that reads it, such as a model (kind: "
        "llm_refusal, docs/judges.md#other-languages)"
    ) in done.err.replace("\n", " ")


def test_the_default_judge_is_declared_to_read_english_alone():
    (unread,) = reading_warnings(
        rows("en", "en-US", "ar-EG", "it", 7, None), {"refusal": {"kind": "refusal"}}
    )
    assert "2 rows (ar-EG 1, it 1)" in unread
    assert find(JUDGES, "refusal", "kind").languages == {"en"}


def test_judges_that_read_by_other_means_give_no_warning():
    asked = {"asked": {"kind": "llm_refusal", "model": {"adapter": "synthetic"}}}
    assert reading_warnings(rows("th"), asked) == []
    both = RULES | {"mixed": {"kind": "refusal"}} | asked
    assert [text.split()[0] for text in reading_warnings(rows("th"), both)] == ["rules", "mixed"]
    assert reading_warnings(rows("pt-BR", "zh_Hans", "EN"), RULES) == []
