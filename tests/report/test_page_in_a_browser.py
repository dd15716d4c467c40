"""The page in Chromium: no text of a model runs, the keyboard reaches all of it, axe has no finding.

``python -m tools.picture`` takes the picture that the docs show.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refract.report.figure_data import figures_of
from refract.report.page_data import Answered, page_data
from tests.hostile import TEXTS, hostile_answers
from tests.report.test_html_page import MADE, RATES, html_page, view_of

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
control.dispatchEvent(new Event(id === "search" ? "input" : "change", {bubbles: true}));
const wait = () => count.textContent === before ? setTimeout(wait, 1)
  : requestAnimationFrame(() => done([performance.now() - start, count.textContent]));
wait();
"""
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c"}


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
    path.write_bytes(html_page(RATES, page_data(hostile_answers()), figures, MADE))
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
    assert "U+001B[2JU+001B]0;ownedU+0007U+001B[31mredU+009B31mU+0008×2U+000D" in escapes
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
    assert browser.texts("#detail dl + .sides del") == [" is a list"]
    assert browser.texts("#detail dl + .sides ins") == ["U+0008×2U+200B is a lsit"]


def test_harmful_texts_are_folded_until_they_are_opened(browser, hostile):
    browser.visit(hostile, fragment="#/one/s/row-00")
    state = "document.querySelector('#detail details').open"
    assert browser.js(state) is False
    listed = browser.find("#list").text
    assert listed.count("harmful prompt, folded") > 2
    assert "window.pwned = 1</script>" in listed  # of a helpful prompt
    assert TEXTS["comment"] not in listed
    browser.find("#unfold").click()
    assert TEXTS["comment"] in browser.find("#list").text
    browser.opened("one/s/row-00")
    assert browser.js(state) is True


def test_the_keyboard_alone_finds_opens_and_leaves_an_answer(browser, hostile):
    browser.visit(hostile)
    browser.press("body", "Tab")
    assert browser.js("document.activeElement.textContent").startswith("Skip")
    browser.find("#list a:last-child").send_keys(KEYS["Enter"])
    browser.settle()
    assert browser.focused == "detail"
    last = f"row-{len(TEXTS) - 1:02d}/typos"
    assert browser.find("#detail-h").text == last
    browser.press("#detail", "Escape")
    assert browser.texts(":focus .id") == [last]
    assert browser.js("document.activeElement.ariaCurrent") == "true"


def test_filters_and_search_narrow_the_list_and_close_what_they_leave_out(browser, hostile):
    browser.visit(hostile, fragment="#/one/s/row-03")
    total = 2 * len(TEXTS)
    for control, value, count in (
        ("f-only", "disagree", total // 2),
        ("f-only", "", total),
        ("f-only", "flipped", total // 2),
        ("f-category", "1", len(TEXTS) // 2),
        ("f-category", "", total // 2),
        ("search", "HYPERLINK(", 1),
        ("f-only", "", 2),
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
    # Several outcomes at once, as the rates count them.
    assert browser.filtered("f-outcome", "refused") == f"{len(TEXTS)} of {total} answers"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(browser, hostile, width, scheme):
    browser.visit(hostile, width, scheme)
    browser.opened("one/s/row-05%2Ftypos")
    browser.assert_accessible(width)
    browser.driver.execute_script(
        "for (const part of document.querySelectorAll('details')) part.open = true"
    )
    browser.assert_accessible(width)


def test_a_long_list_shows_more_on_demand_and_a_link_leads_to_its_page(browser):
    clean = hostile_answers()[1]
    browser.show(*(with_prompt(clean, "x", prompt_id=f"r{number}") for number in range(450)))
    assert len(browser.texts("#list .row")) == 200
    browser.find("#list button").click()
    assert browser.texts(":focus .id") == ["r200"]
    assert browser.opened("one/s/r449").startswith("r449")
    assert not browser.find("#page-judges").is_displayed()
    browser.find("#page-report a[href='#page-judges']").click()
    browser.settle()
    assert browser.find("#page-judges").is_displayed()


def two_models(path: Path, *answers: tuple[str, str, str]) -> Path:
    """A page of two models with one harmful prompt for each pair of answers; the third text is
    the outcome of the first model's, that of the second is compliance."""
    pairs = []
    for number, (one, two, outcome) in enumerate(answers):
        clean = with_prompt(hostile_answers()[0], "x", prompt_id=f"r{number}")
        for model, text, result in (("one", one, outcome), ("two", two, "compliance")):
            response = {**clean.response, "response": text, "thinking": None, "error": None}
            rules = {**clean.verdicts["rules"], "label": result, "error": None, "reason": None}
            rules["evidence"] = [{"rule": "r", "start": 2, "end": 8}]
            verdicts = {"rules": rules}
            pairs.append(
                clean._replace(model=model, response=response, outcome=result, verdicts=verdicts)
            )
    path.write_bytes(html_page(RATES, page_data(pairs)))
    return path


def test_answers_of_two_models_to_the_prompts_on_which_they_differ_stand_side_by_side(browser):
    said = ("a shared start, but one ends thus", "a shared start, but two ends thus")
    same = ("alike", "alike", "refusal")
    outcomes = ("refusal", "compliance", "error")
    page = two_models(browser.page, *((*said, outcome) for outcome in outcomes), same)
    browser.visit(page)
    assert browser.filtered("f-differs", "1") == "2 of 8 answers"
    assert browser.listed(".id") == ["r0", "r3"]
    browser.opened("one/s/r0")
    assert browser.texts("#detail .sides h4") == ["one", "two"]
    assert browser.texts("#detail .sides dd:nth-of-type(1)") == ["refusal", "compliance"]
    assert browser.texts("#detail u") == ["one", "two"]
    assert browser.texts("#detail .sides div:first-child mark") == ["shared"]
    browser.assert_accessible(1280)
    assert "The two answers are the same." in browser.opened("one/s/r3")


def test_an_opened_answer_says_how_it_ended_and_shows_thinking_that_was_judged(browser):
    plain = with_prompt(hostile_answers()[2], "p")
    plain.response.update(response="Take the pick.", thinking="No, refuse this.")
    hit = {"rule": "refuse", "start": 4, "end": 10}
    judged = {"label": "refusal", "refused": True, "score": None, "evidence": [hit], "error": None}
    rules = {**judged, "label": "compliance", "refused": False, "evidence": []}
    both = plain._replace(verdicts={"rules": rules, "thought": {**judged, "reads": "thinking"}})
    unknown = plain._replace(model="two", ended=None, verdicts={"rules": rules})
    browser.show(both, unknown, unknown._replace(model="three", ended="length"))
    thinking = "[...document.querySelectorAll('#detail details')].map((part) => part.open)"
    browser.visit(browser.page, fragment="#/one/s/row-01")
    assert browser.js(thinking) == [True]
    text = browser.opened("one/s/row-01")
    assert "Answer endedby itself" in text
    assert "Judge rulescompliance" in text
    assert "Judge thought of the thinkingrefusal" in text
    assert browser.texts("#detail mark") == ["refuse"]
    # What one judge says of the thinking contradicts none that reads the answer.
    assert page_data([both]).columns["disagree"] == [0]
    browser.visit(browser.page, fragment="#/two/s/row-01")
    assert browser.js(thinking) == [False]
    assert "Answer ended" not in browser.opened("two/s/row-01")
    assert "Answer endedcut off at the token limit" in browser.opened("three/s/row-01")
    assert browser.filtered("f-only", "cut") == "1 of 3 answers"


def take_picture(driver: Any, page: Path) -> bytes:
    """The first screen of a page, 1280 by 900 pixels, as PNG."""
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    Browser(driver, page).visit(page)
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return base64.b64decode(taken["data"])
