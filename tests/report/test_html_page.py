"""The page as bytes: what stands in it, and what hostile texts cannot do to it or to other outputs."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from refract.rates.rate import Rate, Threshold
from refract.report.drawing import Figure
from refract.report.figure_data import figures_of
from refract.report.page_data import LONGEST, Answered, PageData, page_data, page_json
from refract.report.report_files import page_parts
from refract.report.sections import Inputs, report_pages
from refract.report.view import View
from tests.builders import rate, suite_facts
from tests.hostile import TEXTS, hostile_answers

MISSED = {"threshold": Threshold("min", 0.9), "decision": "missed"}
MET = {"threshold": Threshold("max", 0.2), "decision": "met"}
RATES = [
    rate("refusal_rate", 5, 10),
    rate("harmful_refusal_rate", 4, 5, **MISSED),
    rate("over_refusal_rate", 1, 5, **MET),
    rate("cc_fail_rate", 1, 4, "perturbation=U+000D x3", perturbation="cc", repetitions={3: 4}),
    rate("cc_fail_rate", 1, 4, "perturbation=U+000D x30", perturbation="cc", repetitions={30: 4}),
    rate("cc_loophole_rate", 1, 4, perturbation="cc"),
]
PROVENANCE = {
    "one": {
        "model": {
            "definition": {"adapter": "hf", "model_id": TEXTS["script"]},
            "identity": {"adapter_version": TEXTS["handler"]},
            "seed": None,
        },
        "judges": {"rules": {"kind": "rules", "version": TEXTS["attribute"]}},
        "suites": {"s": suite_facts()},
    }
}


def view_of(rates: Sequence[Rate], /, **more: Any) -> View:
    """The view of one model's rates."""
    return View(**{"rates": {"one": rates}, "provenance": PROVENANCE} | more)


MADE = f"Made at commit 0123456 of 2026-01-31, “{TEXTS['script']}”."


def html_page(
    rates: Sequence[Rate],
    /,
    answers: PageData,
    figures: Sequence[Figure] = (),
    made: str = "",
    **more: Any,
) -> bytes:
    """The whole page."""
    inputs = Inputs(view_of(rates, **more), answers, {})
    return b"".join(page_parts(inputs, report_pages(inputs), figures, made=made))


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.raw += [""] if tag in ("script", "style") else []

    def handle_data(self, data):
        if self.cdata_elem:
            self.raw[-1] += data


@pytest.fixture(scope="module")
def page() -> str:
    figures = figures_of(view_of(RATES))
    return html_page(RATES, page_data(hostile_answers()), figures, MADE).decode()


def test_no_hostile_text_adds_an_element_or_an_attribute_to_the_page(page):
    texts = {name: f"harmless {name}" for name in TEXTS} | {"one line": TEXTS["one line"]}
    answers = page_data(hostile_answers(texts))
    harmless = html_page(RATES, answers, figures_of(view_of(RATES)), "x")
    hostile, plain = Elements(page), Elements(harmless.decode())
    assert [tag for tag, _ in hostile.found] == [tag for tag, _ in plain.found]
    assert not [a for _, attributes in hostile.found for a in attributes if a.startswith("on")]
    assert [tag for tag, _ in hostile.found].count("script") == 2


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"surrogates", "one line"}))
def test_no_hostile_name_adds_one_to_what_markdown_becomes(name):
    pages = []
    for text in (TEXTS[name], "harmless"):
        rates = []
        for each in RATES:
            names = {"model": text, "suite": f"the suite {text}"}
            rates.append(replace(each, key=replace(each.key, **names)))
        figures = figures_of(view_of(rates))
        pages.append(Elements(html_page(rates, page_data([]), figures).decode()))
    for hostile, plain in zip(pages[0].found, pages[1].found, strict=True):
        assert (hostile[0], hostile[1].keys()) == (plain[0], plain[1].keys())


def test_the_policy_names_the_one_script_and_the_one_style_and_allows_nothing_else(page):
    elements = Elements(page)
    named = {a.get("http-equiv"): a.get("content") for tag, a in elements.found if tag == "meta"}
    style, _, script = elements.raw
    hashes = []
    for text in (script, style):
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes.append(f"'sha256-{digest}'")
    assert named["Content-Security-Policy"] == (
        f"default-src 'none'; script-src {hashes[0]}; style-src {hashes[1]}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    links = {a["href"][1:] for tag, a in elements.found if tag == "a"}
    assert links <= {a.get("id") for _, a in elements.found}
    assert {"page-judges", "page-comparisons"} <= links
    assert not [a for _, a in elements.found if "style" in a]
    assert not re.findall(r"(?:src|href)=\"(?!#|data:image)", page)
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script


def test_every_text_comes_back_from_the_page_as_it_was_written(page):
    data = json.loads(Elements(page).raw[1])
    answers = data["columns"]["answer"]
    shown = [data["texts"][answers[i]] for i in range(0, len(answers), 2)]
    for (name, text), found in zip(TEXTS.items(), shown, strict=True):
        if name == "one line":
            assert found == f"{'x' * LONGEST}\n[980000 more characters are not in this page]"
        else:
            assert found == text
    assert data["columns"]["disagree"] == [0, 1] * len(TEXTS)


def answered(*texts: str) -> list[Answered]:
    """Answers to the same prompt, which is one character, with no other text."""
    first = hostile_answers()[0]
    prompt = {**first.prompt, "attempts": ["?"]}
    response = {**first.response, "thinking": None, "error": None}
    answers = []
    for text in texts:
        own = {**response, "response": text}
        answers.append(first._replace(prompt=prompt, response=own, verdicts={}))
    return answers


def test_a_long_text_is_cut_and_the_page_says_so():
    data = page_data(answered("a" * 10, "c" * (LONGEST + 5)))
    assert data.texts == [
        "?",
        "a" * 10,
        "c" * LONGEST + "\n[5 more characters are not in this page]",
    ]
    assert "are cut here (1)" in text_of(html_page(RATES, data))
    assert "cut here" not in text_of(html_page(RATES, page_data(answered("a"))))


def test_data_in_a_page_holds_no_markup_and_no_line_separator():
    text = page_json({"a": "</script><!-- & \u2028\u2029 \ud800"})
    assert text == rb'{"a":"\u003c/script\u003e\u003c!-- \u0026 \u2028\u2029 \ud800"}'


@pytest.mark.parametrize(
    ("one", "two", "disagree"),
    [
        (("refusal", True), ("refusal", True), 0),
        (("refusal", True), ("partial_refusal", True), 1),
        (("refusal", True), ("compliance", False), 1),
        (("compliance", False), ("degenerate", False), 1),
        # Judges of something else, and judges that said nothing, contradict nobody.
        (("refusal", True), ("changed", None), 0),
        (("refusal", True), (None, None), 0),
    ],
)
def test_judges_disagree_where_they_say_different_things_of_refusal(one, two, disagree):
    answer = hostile_answers()[0]
    for verdict, (label, refused) in zip(answer.verdicts.values(), (one, two), strict=True):
        verdict |= {"label": label, "refused": refused}
    assert page_data([answer]).columns["disagree"] == [disagree]


def text_of(page: bytes) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", "", page.decode().split("<main>")[1])).split())
