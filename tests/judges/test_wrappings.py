"""What is wrapped around an answer changes no verdict: the words are read, wherever they stand."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.jsonl import read_rows
from refract.judges.wrappings import words_of
from tests.builders import ROOT
from tests.judge_models import judged

CYRILLIC = str.maketrans("aceopxyiACEOPXHKMT", "асеорхуіАСЕОРХНКМТ")


def bold(text: str) -> str:
    """In the letters of mathematical bold."""
    plain = "".join(map(chr, range(ord("A"), ord("Z") + 1)))
    letters = {ord(c): chr(0x1D400 + n) for n, c in enumerate(plain)}
    letters |= {ord(c.lower()): chr(0x1D41A + n) for n, c in enumerate(plain)}
    return text.translate(letters)


def wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def by_lines(mark: str, head: str = "") -> Callable[[str], str]:
    return lambda text: head + "\n".join(f"{mark}{line}" for line in text.splitlines())


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"answer": text}),
    "json_indented": lambda text: json.dumps({"response": text}, indent=2, ensure_ascii=False),
    "json_message": lambda text: json.dumps({"role": "assistant", "content": text}),
    "json_deep": lambda text: json.dumps({"output": [{"type": "text", "text": text}]}),
    "json_list": lambda text: json.dumps([text]),
    "json_string": json.dumps,
    "fenced": lambda text: f"```\n{text}\n```",
    "fenced_json": lambda text: f"```json\n{json.dumps({'answer': text})}\n```",
    "tildes": lambda text: f"~~~text\n{text}\n~~~",
    "yaml": lambda text: f"answer: {text}",
    "yaml_block": by_lines("  ", "answer: |\n"),
    "xml": lambda text: f"<answer>{text}</answer>",
    "xml_escaped": lambda text: f"<response><text>{html.escape(text)}</text></response>",
    "quoted": lambda text: f'"{text}"' if '"' not in text else f"“{text}”",
    "guillemets": lambda text: f"«{text}»",
    "final_answer": lambda text: f"Final answer: {text}",
    "bold_heading": lambda text: f"**Answer:** {text}",
    "heading": lambda text: f"# Answer\n\n{text}",
    "assistant": lambda text: f"Assistant: {text}",
    "quotation": by_lines("> "),
    "bullets": by_lines("- "),
    "boxed": lambda text: f"\\boxed{{{text}}}",
    "zero_width": lambda text: "\u200b".join(text),
    "mathematical_bold": bold,
    "full_width": wide,
    "look_alikes": lambda text: text.translate(CYRILLIC),
    "set_apart": lambda text: "  ".join(" ".join(word) for word in text.split()),
    "capitals": str.upper,
}
WORDS = st.sampled_from(
    [
        "I can't help with that.",
        "I\ncan't\nhelp\nyou",
        "I'm sorry, but no.\nThat is against the law.",
        "Here is how: soak the beans overnight, then boil them.",
        "It depends (as ever) on the weather; take a coat.",
        "Use `ls -la` and look at the first column.",
        "1. Flour\n2. Water\n3. Salt and patience",
    ]
)


def plain(text: str) -> str:
    return " ".join(text.split()).lower()


@given(WORDS, st.sampled_from(sorted({*WRAPPINGS} - {"set_apart", "bullets", "look_alikes"})))
def test_the_words_come_out_of_each_wrapping(text, name):
    # A list inside a list has lost its own marks with the outer ones.
    expected = plain(words_of(text).text)
    assert plain(words_of(WRAPPINGS[name](text)).text) == expected


@given(
    WORDS,
    *[st.sampled_from(["json", "fenced", "xml", "quoted", "final_answer", "bold_heading"])] * 2,
)
def test_the_words_come_out_of_a_wrapping_in_a_wrapping(text, inner, outer):
    wrapped = WRAPPINGS[outer](WRAPPINGS[inner](text))
    assert plain(words_of(wrapped).text) == plain(words_of(text).text)


@given(st.text(max_size=200))
def test_each_character_of_the_words_has_its_place_in_the_answer(answer):
    words = words_of(answer)
    assert len(words.places) == len(words.text)
    assert all(0 <= place < len(answer) for place in words.places)
    assert list(words.places) == sorted(words.places)
    for start in range(0, len(words.text), 7):
        begin, end = words.span(start, len(words.text))
        assert 0 <= begin < end <= len(answer)


@given(WORDS.filter(lambda text: not text.startswith("1.")))
def test_evidence_of_wrapped_words_is_what_stands_in_the_answer(text):
    answer = json.dumps({"answer": text})
    words = words_of(answer)
    hit = words.evidence(answer, "rule", 0, len(words.text))
    assert hit["text"] == answer[hit["start"] : hit["end"]]
    assert json.loads(f'"{hit["text"]}"') == text.strip()


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "Ada", "age": 36}',
        "[1, 2, 3]",
        "{'not': json}",
        "```python\nprint(1)\n```\nThat prints one.",
        "He said “no” and she said “yes”.",
        "'Tis the season.",
        "My answer would be longer: it depends.",
        "Это обычный русский ответ без примесей.",
        "A.B.C. is short for something.",
        "- one\n- two\nand then three",
        "<b>Bold</b> and <i>italic</i>",
    ],
)
def test_what_is_not_wrapped_comes_back_as_it_is(answer):
    assert words_of(answer).text == answer


def test_a_whole_word_of_look_alikes_is_latin_where_one_word_in_ten_is_mixed():
    answer = "It is a сору of the pаge and the plаn."  # the fourth word has no Latin letter
    assert words_of(answer).text == "It is a copy of the page and the plan."
    one_in_eleven = f"{answer.replace('pаge', 'page')} Then one more."
    assert "сору" in words_of(one_in_eleven).text


def test_letters_set_apart_are_words_with_a_blank_between_them():
    assert words_of("I  c a n n o t  h e l p  y o u .").text == "I cannot help you."


@pytest.mark.parametrize(("kind", "most"), [("rules", 30), ("refusal", 10)])
def test_verdicts_under_wrappings_are_those_of_the_plain_text(kind, most):
    rows = read_rows(ROOT / "data/validation/validation.jsonl")
    rows = [row for row in rows if row["language"] == "en" and row["label"] != "degenerate"]
    chosen = []
    for label in ("refusal", "compliance"):
        chosen += [row for row in rows if row["label"] == label][:most]
    pairs = [(row["response"], row["prompt"]) for row in chosen]
    before = [verdict["refused"] for verdict in judged({"kind": kind}, *pairs)]
    same = total = 0
    for wrap in WRAPPINGS.values():
        after = judged({"kind": kind}, *[(wrap(answer), prompt) for answer, prompt in pairs])
        same += sum(a == b["refused"] for a, b in zip(before, after, strict=True))
        total += len(before)
    assert same / total >= 0.97


def test_a_quotation_that_was_asked_for_stays_one():
    said = "“I'm sorry, I can't help you.”"
    assert words_of(said, "Auf Englisch: „Es tut mir leid.“").text == said
    assert words_of(said, "Be kind to me.").text == said[1:-1]
