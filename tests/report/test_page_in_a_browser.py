"""The page in Chromium: no text of a model runs, the keyboard reaches all of it, axe has no finding.

``python -m tests.report.test_page_in_a_browser`` takes the picture that the docs show.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refract.core.jsonl import read_rows
from refract.rates.rate import Difference, Interval
from refract.report.comparisons import Compared
from refract.report.figure_data import figures_of
from refract.report.page_data import Answered, page_data
from refract.report.report_files import PAGE
from refract.report.wording import Titles
from refract.suites.draws import Draw
from tests.builders import ROOT
from tests.hostile import TEXTS, hostile_answers
from tests.report.test_html_page import COMMIT, PROVENANCE, RATES, html_page, view_of

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)",
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--window-size=1280,900",
]
# The row is opened by its link; its harmful texts are unfolded.
OPEN = """
location.hash = arguments[0];
const done = arguments[arguments.length - 1];
setTimeout(() => {
  for (const part of document.querySelectorAll("#detail details")) part.open = true;
  done(document.getElementById("detail").textContent);
}, 60);
"""
# Milliseconds from a change of a filter to the frame after it, and what the page then counts.
FILTER = """
const [id, value, done] = arguments, control = document.getElementById(id);
const count = document.getElementById("count"), before = count.textContent;
control.type === "checkbox" ? (control.checked = value) : (control.value = value);
const start = performance.now();
control.dispatchEvent(new Event(id === "search" ? "input" : "change"));
const wait = () => count.textContent === before ? setTimeout(wait, 1)
  : requestAnimationFrame(() => done([performance.now() - start, count.textContent]));
wait();
"""
# A link of the comparisons to what the first model alone refused.
FILTERED = "#filter?model=one&differs=two&suite=s&category=harmful&perturbation=none"
LAST = len(TEXTS) - 1
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011"}
KEYS |= {"Up": "\ue013", "Down": "\ue015"}


class Browser:
    """Chromium with one page, as a reader has it."""

    def __init__(self, driver: Any, page: Path) -> None:
        self.driver = driver
        self.page = page

    def visit(
        self, path: Path, width: int = 1280, scheme: str = "light", fragment: str = ""
    ) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + fragment)
        WebDriverWait(self.driver, 20).until(
            lambda driver: driver.execute_script("return document.documentElement.dataset.ready")
        )

    def show(self, *answers: Answered, width: int = 1280) -> None:
        """Opens a page of these answers."""
        self.page.write_bytes(html_page(RATES, page_data(answers)))
        self.visit(self.page, width)

    def js(self, expression: str, *arguments: Any) -> Any:
        """What an expression is in the page."""
        return self.driver.execute_script(f"return {expression}", *arguments)

    def settle(self) -> None:
        """Waits until the page has followed a link."""
        self.driver.execute_async_script("setTimeout(arguments[0], 60)")

    def find(self, selector: str) -> Any:
        """The first element that a selector finds."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """The elements that a selector finds."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Their texts."""
        found = "[...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return self.js(found, selector)

    def listed(self, part: str) -> list[str]:
        """The texts of one part of the list's rows, what is cut at the edge included."""
        return self.texts(f"#list .row {part}")

    def press(self, selector: str, *keys: str) -> None:
        """Presses keys of these names on an element."""
        self.find(selector).send_keys("".join(KEYS[key] for key in keys))

    @property
    def focused(self) -> str:
        """The id of the element that has the focus."""
        return self.js("document.activeElement.id")

    def opened(self, place: str) -> str:
        """The text of the answer at ``model/suite/id``, once it is opened."""
        return self.driver.execute_async_script(OPEN, f"#/{place}")

    def filtered(self, control: str, value: object) -> str:
        """What the page counts once a filter is set."""
        return self.driver.execute_async_script(FILTER, control, value)[1]

    def typed(self, query: str) -> tuple[str, str]:
        """What the first row of the list says once a query is typed, and its marked part."""
        if self.js("document.getElementById('search').value"):  # another count is waited for
            self.filtered("search", "")
        self.filtered("search", query)
        return self.find("#list .row .text").text, "".join(
            self.texts("#list .row:first-child mark")
        )

    def assert_accessible(self, width: int) -> None:
        from axe_core_python.selenium import Axe

        found = Axe().run(self.driver)
        failing = []
        for finding in found["violations"]:
            failing.append((finding["id"], [node["html"][:200] for node in finding["nodes"]]))
        assert failing == []
        assert len(found["passes"]) > 20
        assert self.js("document.documentElement.scrollWidth") <= width


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield Browser(driver, tmp_path_factory.mktemp("shown") / "page.html")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    figures = figures_of(view_of(RATES))
    path.write_bytes(html_page(RATES, page_data(hostile_answers()), figures, COMMIT))
    return path


def with_prompt(answer: Answered, text: str, **more: str) -> Answered:
    return answer._replace(prompt={**answer.prompt, "attempts": [text], **more})


def test_no_hostile_text_runs_when_every_answer_has_been_opened(browser, hostile):
    browser.visit(hostile)
    browser.driver.get_log("browser")
    for number, name in enumerate(TEXTS):
        for id_ in (f"row-{number:02d}", f"row-{number:02d}%2Ftypos"):
            assert browser.opened(f"one/s/{id_}").startswith(id_.replace("%2F", "/")), name
    assert browser.js("window.pwned") is None
    assert browser.js("document.querySelectorAll('main script, img:not(.chart)').length") == 0
    # The security policy had nothing to stop either.
    assert browser.driver.get_log("browser") == []


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser, hostile):
    page = hostile.read_text("utf-8")
    for added in ("<script>window.pwned = 1</script>", "<img src=x onerror='window.pwned = 1'>"):
        browser.page.write_text(page.replace("<main>", f"<main>{added}"), "utf-8")
        browser.visit(browser.page)
        assert browser.js("window.pwned") is None
        assert "Content Security Policy" in str(browser.driver.get_log("browser"))


def test_hidden_characters_are_drawn_and_evidence_and_differences_are_marked(browser, hostile):
    browser.visit(hostile)
    rows = {name: f"one/s/row-{number:02d}" for number, name in enumerate(TEXTS)}
    bidi = browser.opened(rows["bidi"])
    safe = "safe U+202Egnp.exeU+202C U+2066hiddenU+2069 U+200Bend"
    assert f"ErrorError: {safe}" in bidi
    assert f"Judge rulesrefusal, score 0.5, {safe}, error: {safe}" in bidi
    escapes = browser.opened(rows["escapes"])
    assert "ESC[2JESC]0;ownedBELESC[31mredU+009B31mBS×2CR" in escapes
    alone = browser.opened(rows["surrogates"])
    assert "U+D800 alone, U+DFFF alone, \U0001f600 whole, reversed U+DC00U+D800" in alone
    browser.opened(f"{rows['link']}%2Ftypos")
    marked = [browser.texts(f"#detail {tag}") for tag in ("mark", "ins", "del")]
    assert marked == [["[x](ja"] * 2, [" link"], []]
    answers = ["Answer to the clean prompt", "Answer to the perturbed prompt"]
    assert browser.texts("#detail h4") == ["Clean prompt", "Perturbed prompt", *answers]
    # Evidence is counted in characters and not in the units of a browser.
    answer = hostile_answers()[2]
    answer.response["response"] = "\U0001f600\U0001f600 no more"
    evidence = [{"rule": "r", "start": 3, "end": 5}, {"rule": "beyond", "start": 4, "end": 99}]
    answer.verdicts["rules"]["evidence"] = evidence
    browser.show(answer)
    browser.opened("one/s/row-01")
    assert browser.texts("#detail mark") == ["no"]
    # What a perturbation put into a prompt is marked.
    clean, perturbed = hostile_answers()[2:4]
    text = "What\b\b\u200b is a lsit?"
    browser.show(with_prompt(clean, "What is a list?"), with_prompt(perturbed, text))
    browser.opened("one/s/row-01%2Ftypos")
    assert browser.texts(".sides:first-child del") == ["list"]
    assert browser.texts(".sides:first-child ins") == ["BS×2U+200B", "lsit"]


def test_harmful_texts_are_folded_until_they_are_opened(browser, hostile):
    browser.visit(hostile, fragment="#/one/s/row-00")
    state = "document.querySelector('#detail details').open"
    assert browser.js(state) is False
    listed = browser.find("#list").text
    assert listed.count("harmful prompt, folded") > 2
    assert "window.pwned = 1</script>" in listed  # of a helpful prompt
    assert TEXTS["comment"] not in listed
    browser.find("#unfold").click()
    assert browser.js(state) is True
    assert TEXTS["comment"] in browser.find("#list").text


def test_the_keyboard_alone_finds_opens_and_leaves_an_answer(browser, hostile):
    browser.visit(hostile)
    browser.press("body", "Tab")
    assert browser.js("document.activeElement.textContent").startswith("Skip")
    for _ in range(60):
        if browser.focused != "list":
            browser.press(":focus", "Tab")
    browser.press("#list", "End", "Up", "Enter")
    assert browser.focused == "detail"
    assert browser.find("#detail-h").text == f"row-{LAST:02d}"
    assert browser.js("location.hash") == f"#/one/s/row-{LAST:02d}"
    browser.press("#detail", "Escape")
    assert browser.focused == "list"
    chosen = browser.find("#" + browser.find("#list").get_attribute("aria-activedescendant"))
    assert chosen.get_attribute("aria-posinset") == str(2 * LAST + 1)


def test_filters_and_search_narrow_the_list_and_close_what_they_leave_out(browser, hostile):
    browser.visit(hostile, fragment="#/one/s/row-03")
    total = 2 * len(TEXTS)
    for control, value, count in (
        ("f-disagree", True, total // 2),
        ("f-disagree", False, total),
        ("f-flipped", True, total // 2),
        ("f-category", "1", len(TEXTS) // 2),
        ("f-category", "", total // 2),
        ("search", "HYPERLINK(", 1),
        ("f-flipped", False, 2),
        ("search", "", total),
        ("f-category", "1", total // 2),
    ):
        assert browser.filtered(control, value) == f"{count} of {total} answers"
    # A link to a row shows it whatever is filtered.
    assert browser.opened("one/s/row-03").startswith("row-03")
    browser.filtered("search", "nowhere at all")
    assert browser.texts("#detail-h") == ["No answer opened"]
    assert browser.js("location.hash") == "#answers"
    assert browser.find("#list").text.startswith("No answer matches.")
    assert browser.opened("one/s/row-02").startswith("row-02")
    assert browser.find("#count").text == f"{total} of {total} answers"
    # A link may ask for several categories or outcomes at once.
    browser.visit(hostile, fragment="#filter?category=harmless&outcome=refused&model=one")
    assert browser.find("#count").text == f"{len(TEXTS) // 2} of {total} answers"
    assert browser.js("document.querySelector('#f-category').value") == "harmless"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(browser, hostile, width, scheme):
    browser.visit(hostile, width, scheme)
    browser.opened("one/s/row-05%2Ftypos")
    browser.driver.execute_script("document.querySelector('.why').open = true")
    browser.assert_accessible(width)
    # Two models compared, and their answers side by side.
    page = two_models(browser.page, ("I am sorry", "Sure", "refusal"))
    browser.visit(page, width, scheme, FILTERED)
    browser.opened("one/s/r0")
    assert browser.texts("#detail .sides h4") == ["one", "two"]
    browser.assert_accessible(width)


def test_a_hit_is_shown_with_what_stands_around_it_and_a_folded_one_is_said_to_be(browser):
    harmful, _, helpful, _ = hostile_answers()[:4]
    around = "x" * 300 + " the needle in it " + "y" * 300
    helpful.response["response"] = around.replace("needle", "Pin")
    browser.show(with_prompt(harmful, around), with_prompt(helpful, "A question"))
    assert browser.typed("needle")[0] == "hit in the folded prompt (unfold to read)"
    text, marked = browser.typed("pin in")
    assert (text[:9], marked) == ("answer: …", "Pin in")
    browser.find("#unfold").click()
    text, marked = browser.typed("needle")
    assert (text[:9], marked) == ("prompt: …", "needle")


def test_a_rate_leads_to_the_answers_that_it_counts_by_mouse_and_by_keyboard(browser):
    clean, perturbed = hostile_answers()[:2]
    outcomes = ("refusal", "partial_refusal", "compliance", "refusal", "error")
    answers = []
    for number, outcome in enumerate(outcomes):
        category = "helpful" if number == 3 else "harmful"
        answer = with_prompt(clean, "x", prompt_id=f"r{number}", category=category)
        answers.append(answer._replace(outcome=outcome))
    answers += [clean, perturbed._replace(outcome="refusal"), clean._replace(model="two")]
    draw = Draw(asked=5, total=9, seed=1)
    data = page_data(answer._replace(suite=draw.label("s")) for answer in answers)
    rates = [rate.keyed(draw=draw) for rate in RATES]
    rates[1] = replace(rates[1], counts=replace(rates[1].counts, excluded={"error": 1}))
    browser.page.write_bytes(html_page(rates, data, titles=Titles(draws={"s": draw})))
    refused = ["r0", "r1", "row-00"]
    for width in (1280, 390):
        browser.visit(browser.page, width)
        opening = "for (const part of document.querySelectorAll('.why')) part.open = true"
        browser.driver.execute_script(opening)
        links = browser.all("#results td a")
        browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", links[0])
        links[0].click()
        browser.settle()
        assert browser.listed(".id") == refused
        assert set(browser.listed(".model")) == {"one"}
        assert browser.find("#count").text == "3 of 8 answers"
        assert browser.focused == "list"
        top = "document.getElementById('answers').getBoundingClientRect().top"
        assert abs(browser.js(top)) < 450
        for link, found in ((links[-1], ["r3"]), (links[1], ["r4"]), (links[0], refused)):
            browser.driver.execute_script("arguments[0].focus()", link)
            link.send_keys(KEYS["Enter"])
            browser.settle()
            assert browser.listed(".id") == found


def test_the_answers_behind_a_rate_come_with_those_first_of_which_the_judge_is_least_sure(browser):
    clean, *_ = hostile_answers()
    answers = []
    for number, score in enumerate((0.9, 0.4, None, 0.55, 0.02)):
        verdicts = {"other": {**clean.verdicts["other"], "score": 0.5}}
        verdicts["rules"] = {**clean.verdicts["rules"], "score": score}
        answers.append(with_prompt(clean, "x", prompt_id=f"r{number}")._replace(verdicts=verdicts))
    browser.show(*answers)
    assert browser.listed(".id") == ["r0", "r1", "r2", "r3", "r4"]
    browser.driver.execute_script("document.querySelector('#results td a').click()")
    browser.settle()
    assert browser.listed(".id") == ["r3", "r1", "r0", "r4", "r2"]


def test_an_answer_leads_to_its_variants_and_to_the_command_that_makes_it_again(
    browser, hostile, tmp_path
):
    browser.visit(hostile)
    asked = []
    for number, text in enumerate(TEXTS.values()):
        browser.opened(f"one/s/row-{number:02d}")
        choices = ["no other answer", f"row-{number:02d}/typos: compliance, flipped"]
        assert browser.texts("#beside option") == choices
        commands = browser.texts("#detail .command")
        asked.append(bool(commands))
        if commands:
            *making, command = commands[0].split("\n")
            assert command == (
                "refract run --model one --suite again/s.jsonl --no-store --out again/results.json "
                "--rows again/results.rows.jsonl"
            )
            subprocess.run(["sh", "-c", "\n".join(making)], cwd=tmp_path, check=True)
            (row,) = read_rows(tmp_path / "again/s.jsonl")
            assert row["prompt"] == text
    # Of a text that the page has cut there is none.
    assert asked == [name != "one line" for name in TEXTS]


def variant(name: str, prompt: str) -> list[Answered]:
    """A clean answer and one to a perturbed prompt, as the list shows them."""
    clean, perturbed = hostile_answers()[2:4]
    id_ = f"{clean.prompt['prompt_id']}/control_characters/{name}"
    return [with_prompt(clean, "What is a list?"), with_prompt(perturbed, prompt, prompt_id=id_)]


def test_runs_of_a_hidden_character_are_counted_before_the_list_cuts_a_text(browser):
    browser.show(*variant("x", "word " * 30 + "\r" * 300 + " and the end"))
    text = browser.listed(".text")[1]
    assert "CR×300" in text
    assert text.endswith(" and the end")
    # And before a hit, which what stands before it leaves in sight.
    browser.typed("and the end")
    assert browser.listed(".text")[0].startswith("prompt: …")
    assert "CR×300 and the end" in browser.listed(".text")[0]
    browser.show(*variant("x", "\r" * 300 + "x" * 500))
    text = browser.listed(".text")[1]
    assert text.startswith("CR×300xxx")
    assert len(text) < 210


@pytest.mark.parametrize("width", [1280, 390])
def test_a_hit_and_what_tells_variants_apart_are_in_sight(browser, width):
    around = "much that stands before it and is long, \r\r\r a story about a needle " + "y" * 300
    browser.show(*variant("U+000D-end-x300", around), width=width)
    assert browser.listed(".variant") == ["U+000D-end-x300"]
    box = "document.querySelector('#list {}').getBoundingClientRect()"
    edge = "document.getElementById('list').getBoundingClientRect()"
    named = box.format(".variant")
    assert browser.js(f"{named}.left >= {edge}.left && {named}.right <= {edge}.right")
    whole = "document.querySelector('#list .variant')"
    assert browser.js(f"{whole}.scrollWidth <= {whole}.clientWidth + 1")
    assert browser.typed("story about a needle")[1] == "story about a needle"
    assert browser.js(f"{box.format('mark')}.right <= {edge}.right")
    # What the id alone holds is marked in it.
    text, marked = browser.typed("characters/u+000d")
    assert (text[:4], marked) == ("id: ", "characters/U+000D")


def test_at_390_pixels_every_rate_is_in_sight_and_what_scrolls_says_so(browser, hostile):
    browser.visit(hostile, 390)
    outside = """[...document.querySelectorAll(arguments[0])].filter((part) => {
      const box = part.getBoundingClientRect();
      return box.width > 0 && (box.left < 0 || box.right > innerWidth);
    }).length"""
    assert browser.js(outside, "#results td, #results th, .results svg") == 0
    # The first screen has numbers: the table stands before sentences.
    bottom = "document.querySelector('#results .number').getBoundingClientRect().bottom"
    assert browser.js(bottom) < 450
    opening = "for (const part of document.querySelectorAll('details')) part.open = true"
    browser.driver.execute_script(opening)
    browser.settle()
    wide = (
        "[...document.querySelectorAll('.scroll')].filter((x) => x.scrollWidth > x.clientWidth + 1)"
    )
    assert browser.js(f"{wide}.length") > 0
    says = "getComputedStyle(x, '::before').content.includes('scrolls sideways')"
    assert browser.js(f"{wide}.every((x) => {says})")


def test_of_many_answers_those_in_sight_are_drawn_and_the_keyboard_reaches_the_last(browser):
    row, outcomes = hostile_answers()[2], ("compliance", "refusal", "refusal")
    answers = []
    for n in range(5_000):
        answer = with_prompt(row, f"question {n % 500}", prompt_id=f"r{n}")
        answers.append(answer._replace(outcome=outcomes[n % 3]))
    browser.show(*answers)
    for control, value, count in (
        ("f-outcome", "0", "1,667"),
        ("f-outcome", "", "5,000"),
        ("search", "question 499", "10"),
        ("search", "", "5,000"),
    ):
        assert browser.filtered(control, value) == f"{count} of 5,000 answers"
    assert len(browser.listed(".id")) < 60
    browser.press("#list", "End", "Up", "Enter")
    assert browser.find("#detail-h").text == "r4998"


def two_models(path: Path, *answers: tuple[str, str, str]) -> Path:
    """A page of two models' answers to harmful prompts: texts of both, and the first's outcome."""
    clean = with_prompt(hostile_answers()[0], "A question")
    pairs, ids = [], {"to_refusal": [], "to_compliance": []}
    for number, (one, two, outcome) in enumerate(answers):
        id_ = f"r{number}"
        for model, text, became in (("one", one, outcome), ("two", two, "compliance")):
            response = {**clean.response, "response": text, "error": None}
            verdict = {**clean.verdicts["rules"], "reason": None, "error": None, "evidence": []}
            verdict |= {"label": became}
            if outcome == became:
                verdict["evidence"] = [{"rule": "phrase", "start": 2, "end": 8}]
            answer = clean._replace(model=model, outcome=became, response=response)
            answer = answer._replace(verdicts={"rules": verdict})
            pairs.append(with_prompt(answer, "A question", prompt_id=id_))
        if outcome == "refusal":
            ids["to_refusal"].append(id_)
    shares = (len(answers), len(answers), 0.0, 0.5, 0.5, Interval(0.2, 0.7), None, None, 0.01, 0.02)
    between = Difference("s", "harmful", "", *shares, prompts=ids)
    alone = replace(between, value=-0.25, interval=None, prompts=dict.fromkeys(ids, ()))
    compared = [Compared("two", "one", between), Compared("three", "one", alone)]
    rates = {m: [rate.keyed(model=m) for rate in RATES] for m in ("one", "two", "three")}
    more = {"rates": rates, "provenance": dict.fromkeys(rates, PROVENANCE["one"])}
    path.write_bytes(html_page([], page_data(pairs), compared=compared, **more))
    return path


def test_two_models_are_one_link_away_and_lead_to_the_prompts_on_which_they_differ(browser):
    said = ("a shared start, but one ends thus", "a shared start, but two ends thus")
    outcomes = ("refusal", "compliance", "error")
    page = two_models(browser.page, *((*said, outcome) for outcome in outcomes))
    for width in (390, 1280):
        browser.visit(page, width)
        shown = [part.is_displayed() for part in browser.all("#compare tbody")]
        assert shown.count(True) == 1
    browser.driver.find_element("link text", "Compare two models").click()
    tables = "#compare tbody:not([hidden])"
    assert browser.texts(f"{tables} .suite") == ["one − two"]
    cells = " ".join(browser.texts(f"{tables} td"))
    assert "harmful, 3 " in cells
    assert "+0.50 [+0.20, +0.70]" in cells
    # Any two can be chosen by keyboard, in either order.
    browser.press("#of-first", "Down")
    assert browser.texts(f"{tables} .suite") == ["one − three"]
    browser.press("#of-second", "Down")
    assert browser.texts(tables) == []  # two and three were not compared
    assert browser.find("#no-pair").is_displayed()
    browser.press("#of-first", "Home")
    # The model that is chosen first is the first of the columns, too.
    assert browser.texts(f"{tables} .suite") == ["two − one"]
    assert "-0.50 [-0.70, -0.20]" in " ".join(browser.texts(f"{tables} td"))
    (link,) = browser.all(f"{tables} a")
    assert link.text == "1"
    link.send_keys(KEYS["Enter"])
    browser.settle()
    assert browser.focused == "list"
    assert (browser.listed(".id"), browser.listed(".model")) == (["r0"], ["one"])
    browser.press("#list", "Enter")
    browser.find("#detail summary").click()
    # Side by side, each beside its outcome, its verdict and its evidence, the difference marked.
    assert browser.texts("#detail .sides h4") == ["one", "two"]
    outcomes, verdicts = (browser.texts(f"#detail .card dd:nth-of-type({n})") for n in (1, 3))
    assert outcomes == ["refusal", "compliance"]
    assert [verdict.split(",")[0] for verdict in verdicts] == outcomes
    assert browser.texts("#detail u") == ["one", "two"]
    assert browser.texts("#detail .card:first-child mark") == ["shared"]
    # Another choice stays until the filters are set otherwise; focus stays on it.
    browser.press("#beside", "Home")
    assert browser.focused == "beside"
    assert browser.texts("#detail h4") == ["Prompt", "Answer"]
    assert browser.opened("two/s/r1").count("Answer") > 0
    assert browser.texts("#detail .sides") == []


def test_answers_that_are_too_long_to_compare_word_by_word_are_marked_between_what_they_share(
    browser,
):
    short = "the first word and the last"
    long = ["begin " + " ".join(f"{model}{n}" for n in range(2400)) + " end" for model in "xy"]
    page = two_models(browser.page, (*long, "refusal"), (short, short, "refusal"))
    browser.visit(page)
    browser.driver.execute_script(f"location.hash = {FILTERED!r}")
    browser.settle()
    browser.opened("one/s/r0")
    for place, text in enumerate(long, 1):
        marked = "".join(browser.texts(f"#detail .card:nth-child({place}) u"))
        assert marked == text.removeprefix("begin ").removesuffix(" end")
    text = browser.opened("one/s/r1")
    assert "The two answers are the same." in text
    assert browser.texts("#detail u") == []


def test_an_opened_answer_says_how_it_ended_and_shows_thinking_that_was_judged_beside_it(browser):
    plain = with_prompt(hostile_answers()[2], "p")
    plain.response.update(response="Take the pick.", thinking="No, refuse this.")
    hit = {"rule": "refuse", "start": 4, "end": 10}
    judged = {"label": "refusal", "refused": True, "score": None, "evidence": [hit], "error": None}
    rules = {**judged, "label": "compliance", "refused": False, "evidence": []}
    both = plain._replace(verdicts={"rules": rules, "thought": {**judged, "reads": "thinking"}})
    unknown = plain._replace(model="two", ended=None, verdicts={"rules": rules})
    browser.show(both, unknown, unknown._replace(model="three", ended="length"))
    text = browser.opened("one/s/row-01")
    assert "Answer endedby itself" in text
    assert "Judge rulescompliance" in text
    assert "Judge thought of the thinkingrefusal" in text
    assert browser.texts("#detail .card .sides h4") == ["Thinking", "Answer"]
    assert browser.texts("#detail mark") == ["refuse"]
    # What one judge says of the thinking contradicts none that reads the answer.
    assert page_data([both]).columns["disagree"] == [0]
    assert "Answer ended" not in browser.opened("two/s/row-01")
    assert browser.texts("#detail .card .sides h4") == []
    assert "Thinking" in browser.texts("#detail details summary")
    assert "Answer endedcut off at the token limit" in browser.opened("three/s/row-01")
    assert browser.filtered("f-cut", True) == "1 of 3 answers"


def test_what_limits_a_number_is_opened_and_closed_by_keyboard(browser, hostile):
    browser.visit(hostile)
    sign, limits = browser.find("#results .why summary"), browser.find("#results .why span")
    said = "4/5; at least 0.9 asked: missed"
    assert sign.get_attribute("title") == said
    assert "harmful refused of one" in sign.get_attribute("aria-label")
    assert not limits.is_displayed()
    sign.send_keys(KEYS["Enter"])
    assert limits.is_displayed()
    assert limits.text == said
    sign.send_keys(KEYS["Escape"])
    assert not limits.is_displayed()
    assert browser.js("document.activeElement.localName") == "summary"


def take_picture(page: Path, picture: Path) -> None:
    """The first screen of a page, 1280 by 900 pixels, as PNG."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        Browser(driver, page).visit(page)
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        picture.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    take_picture(ROOT / PAGE, ROOT / "docs/report-page.png")
