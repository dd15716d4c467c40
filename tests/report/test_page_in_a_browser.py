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
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
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
VALUE = "return document.getElementById(arguments[0]).value"


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
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
        yield driver


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(
        html_page(RATES, page_data(hostile_answers()), figures_of(view_of(RATES)), COMMIT)
    )
    return path


def visit(
    browser, path: Path, width: int = 1280, scheme: str = "light", fragment: str = ""
) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get("about:blank")
    browser.get(path.as_uri() + fragment)
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready")
    )


def show(browser, tmp_path: Path, *answers: Answered, width: int = 1280) -> None:
    """Opens a page of these answers."""
    path = tmp_path / "page.html"
    path.write_bytes(html_page(RATES, page_data(answers)))
    visit(browser, path, width)


def opened(browser, place: str) -> str:
    """The text of the answer at ``model/suite/id``, once it is opened."""
    return browser.execute_async_script(OPEN, f"#/{place}")


def texts(browser, selector: str) -> list[str]:
    """The texts of the elements that a selector finds."""
    found = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    return browser.execute_script(found, selector)


def with_prompt(answer: Answered, text: str, **more: str) -> Answered:
    return answer._replace(prompt={**answer.prompt, "attempts": [text], **more})


def test_no_hostile_text_runs_when_every_answer_has_been_opened(browser, hostile):
    visit(browser, hostile)
    browser.get_log("browser")
    for number, name in enumerate(TEXTS):
        for id_ in (f"row-{number:02d}", f"row-{number:02d}%2Ftypos"):
            assert opened(browser, f"one/s/{id_}").startswith(id_.replace("%2F", "/")), name
    assert browser.execute_script("return window.pwned") is None
    assert (
        browser.execute_script("return document.querySelectorAll('main script, img').length") == 0
    )
    # The security policy had nothing to stop either.
    assert browser.get_log("browser") == []


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser, hostile, tmp_path):
    page = hostile.read_text("utf-8")
    for added in ("<script>window.pwned = 1</script>", "<img src=x onerror='window.pwned = 1'>"):
        (tmp_path / "page.html").write_text(page.replace("<main>", f"<main>{added}"), "utf-8")
        visit(browser, tmp_path / "page.html")
        assert browser.execute_script("return window.pwned") is None
        assert "Content Security Policy" in str(browser.get_log("browser"))


def test_hidden_characters_are_drawn_and_evidence_and_differences_are_marked(browser, hostile):
    visit(browser, hostile)
    rows = {name: f"one/s/row-{number:02d}" for number, name in enumerate(TEXTS)}
    bidi = opened(browser, rows["bidi"])
    safe = "safe U+202Egnp.exeU+202C U+2066hiddenU+2069 U+200Bend"
    assert f"ErrorError: {safe}" in bidi
    assert f"Judge rulesrefusal, score 0.5, {safe}, error: {safe}" in bidi
    assert "ESC[2JESC]0;ownedBELESC[31mredU+009B31mBS×2CR" in opened(browser, rows["escapes"])
    alone = opened(browser, rows["surrogates"])
    assert "U+D800 alone, U+DFFF alone, \U0001f600 whole, reversed U+DC00U+D800" in alone
    opened(browser, f"{rows['link']}%2Ftypos")
    marked = [texts(browser, f"#detail {tag}") for tag in ("mark", "ins", "del")]
    assert marked == [["[x](ja"] * 2, [" link"], []]
    answers = ["Answer to the clean prompt", "Answer to the perturbed prompt"]
    assert texts(browser, "#detail h4") == ["Clean prompt", "Perturbed prompt", *answers]


def test_evidence_is_counted_in_characters_and_not_in_the_units_of_a_browser(browser, tmp_path):
    answer = hostile_answers()[2]
    answer.response["response"] = "\U0001f600\U0001f600 no more"
    answer.verdicts["rules"]["evidence"] = [
        {"rule": rule, "start": start, "end": end, "text": ""}
        for rule, start, end in [("r", 3, 5), ("beyond", 4, 99)]
    ]
    show(browser, tmp_path, answer)
    opened(browser, "one/s/row-01")
    assert texts(browser, "#detail mark") == ["no"]


def test_what_a_perturbation_put_into_a_prompt_is_marked(browser, tmp_path):
    clean, perturbed = hostile_answers()[2:4]
    text = "What\b\b\u200b is a lsit?"
    show(browser, tmp_path, with_prompt(clean, "What is a list?"), with_prompt(perturbed, text))
    opened(browser, "one/s/row-01%2Ftypos")
    assert texts(browser, ".sides:first-child del") == ["list"]
    assert texts(browser, ".sides:first-child ins") == ["BS×2U+200B", "lsit"]


def test_harmful_texts_are_folded_until_they_are_opened(browser, hostile):
    visit(browser, hostile, fragment="#/one/s/row-00")
    state = "return document.querySelector('#detail details').open"
    assert browser.execute_script(state) is False
    listed = browser.find_element("css selector", "#list").text
    assert listed.count("harmful prompt, folded") > 2
    assert "window.pwned = 1</script>" in listed  # of a helpful prompt
    assert TEXTS["comment"] not in listed
    browser.find_element("id", "unfold").click()
    assert browser.execute_script(state) is True
    assert TEXTS["comment"] in browser.find_element("css selector", "#list").text


def test_the_keyboard_alone_finds_opens_and_leaves_an_answer(browser, hostile):
    from selenium.webdriver.common.keys import Keys

    visit(browser, hostile)
    focused = "return document.activeElement.id"
    body = browser.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.textContent").startswith("Skip")
    for _ in range(60):
        if browser.execute_script(focused) == "list":
            break
        browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.execute_script(focused) == "list"
    listing = browser.find_element("id", "list")
    listing.send_keys(Keys.END, Keys.ARROW_UP, Keys.ENTER)
    assert browser.execute_script(focused) == "detail"
    last = len(TEXTS) - 1
    assert browser.find_element("id", "detail-h").text == f"row-{last:02d}"
    assert browser.execute_script("return location.hash") == f"#/one/s/row-{last:02d}"
    browser.find_element("id", "detail").send_keys(Keys.ESCAPE)
    assert browser.execute_script(focused) == "list"
    chosen = browser.execute_script(
        "return document.getElementById(arguments[0].getAttribute('aria-activedescendant'))"
        ".getAttribute('aria-posinset')",
        listing,
    )
    assert chosen == str(2 * len(TEXTS) - 1)


def test_filters_and_search_narrow_the_list(browser, hostile):
    visit(browser, hostile)
    total = 2 * len(TEXTS)

    def counted(control: str, value: object) -> str:
        return browser.execute_async_script(FILTER, control, value)[1]

    assert counted("f-disagree", True) == f"{total // 2} of {total} answers"
    assert counted("f-disagree", False) == f"{total} of {total} answers"
    assert counted("f-flipped", True) == f"{total // 2} of {total} answers"
    assert counted("f-category", "1") == f"{len(TEXTS) // 2} of {total} answers"
    assert counted("f-category", "") == f"{total // 2} of {total} answers"
    assert counted("search", "HYPERLINK(") == f"1 of {total} answers"
    assert counted("search", "nowhere at all") == f"0 of {total} answers"
    # A link to a row shows it whatever is filtered.
    assert opened(browser, "one/s/row-03").startswith("row-03")
    assert browser.find_element("id", "count").text == f"{total} of {total} answers"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browser, hostile, tmp_path, width, scheme
):
    from axe_core_python.selenium import Axe

    visit(browser, hostile, width, scheme)
    opened(browser, "one/s/row-05%2Ftypos")
    browser.execute_script("document.querySelector('.why').open = true")
    assert_accessible(Axe().run(browser))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # Two models compared, and their answers side by side.
    visit(browser, two_models(tmp_path, ("I am sorry", "Sure", "refusal")), width, scheme, FILTERED)
    opened(browser, "one/s/r0")
    assert texts(browser, "#detail .sides h4") == ["one", "two"]
    assert_accessible(Axe().run(browser))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def assert_accessible(found: dict[str, Any]) -> None:
    failing = [
        (one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]
    ]
    assert failing == []
    assert len(found["passes"]) > 20


def typed(browser, query: str) -> tuple[str, str]:
    """What the first row of the list says once a query is typed, and its marked part."""
    if browser.execute_script(VALUE, "search"):  # FILTER waits for another count
        browser.execute_async_script(FILTER, "search", "")
    browser.execute_async_script(FILTER, "search", query)
    (row, *_) = browser.find_elements("css selector", "#list .row .text")
    return row.text, "".join(part.text for part in row.find_elements("tag name", "mark"))


def test_a_hit_is_shown_with_what_stands_around_it_and_a_folded_one_is_said_to_be(
    browser, tmp_path
):
    harmful, _, helpful, _ = hostile_answers()[:4]
    around = "x" * 300 + " the needle in it " + "y" * 300
    helpful.response["response"] = around.replace("needle", "Pin")
    answers = with_prompt(harmful, around), with_prompt(helpful, "A question")
    show(browser, tmp_path, *answers)
    assert typed(browser, "needle")[0] == "hit in the folded prompt (unfold to read)"
    text, marked = typed(browser, "pin in")
    assert text.startswith("answer: …")
    assert marked == "Pin in"
    browser.find_element("id", "unfold").click()
    text, marked = typed(browser, "needle")
    assert (text.startswith("prompt: …"), marked) == (True, "needle")


def test_an_answer_that_is_filtered_out_is_closed(browser, hostile):
    visit(browser, hostile, fragment="#/one/s/row-03")
    heading = "return document.getElementById('detail-h').textContent"
    assert browser.execute_script(heading) == "row-03"
    browser.execute_async_script(FILTER, "f-category", "1")
    assert browser.execute_script(heading) == "row-03"  # a helpful one stays
    browser.execute_async_script(FILTER, "search", "nowhere at all")
    assert browser.execute_script(heading) == "No answer opened"
    assert browser.execute_script("return location.hash") == "#answers"
    assert browser.find_element("id", "list").text.startswith("No answer matches.")


def test_how_an_answer_ended_is_said_where_it_is_known_alone(browser, tmp_path):
    known, *_ = hostile_answers()
    recorded = known._replace(model="two", ended=None)
    show(browser, tmp_path, known, recorded, known._replace(model="three", ended="length"))
    assert "Answer endedby itself" in opened(browser, "one/s/row-00")
    assert "Answer ended" not in opened(browser, "two/s/row-00")
    assert "Answer endedcut off at the token limit" in opened(browser, "three/s/row-00")
    assert browser.execute_async_script(FILTER, "f-cut", True)[1] == "1 of 3 answers"


def listed(browser, part: str) -> list[str]:
    """The texts of one part of the list's rows, what is cut at the edge included."""
    return texts(browser, f"#list .row {part}")


def test_a_rate_leads_to_the_answers_that_it_counts_by_mouse_and_by_keyboard(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    clean, perturbed = hostile_answers()[:2]
    outcomes = ("refusal", "partial_refusal", "compliance", "refusal", "error")
    answers = [
        with_prompt(
            clean, "x", prompt_id=f"r{n}", category="helpful" if n == 3 else "harmful"
        )._replace(outcome=outcome)
        for n, outcome in enumerate(outcomes)
    ]
    answers += [clean, perturbed._replace(outcome="refusal"), clean._replace(model="two")]
    path = tmp_path / "page.html"
    draw = Draw(asked=5, total=9, seed=1)
    answers = [answer._replace(suite=draw.label("s")) for answer in answers]
    overall, first, *rates = (rate.keyed(draw=draw) for rate in RATES)
    first = replace(first, counts=replace(first.counts, excluded={"error": 1}))
    rates = [overall, first, *rates]
    path.write_bytes(html_page(rates, page_data(answers), titles=Titles(draws={"s": draw})))
    for width in (1280, 390):
        visit(browser, path, width)
        browser.execute_script(
            "for (const part of document.querySelectorAll('.why')) part.open = true"
        )
        links = browser.find_elements("css selector", "#results td a")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", links[0])
        links[0].click()
        browser.execute_async_script("setTimeout(arguments[0], 60)")
        assert listed(browser, ".id") == ["r0", "r1", "row-00"]
        assert set(listed(browser, ".model")) == {"one"}
        assert browser.find_element("id", "count").text == "3 of 8 answers"
        assert browser.execute_script("return document.activeElement.id") == "list"
        top = "return document.getElementById('answers').getBoundingClientRect().top"
        assert abs(browser.execute_script(top)) < 450
        for link, found in (
            (links[-1], ["r3"]),
            (links[1], ["r4"]),
            (links[0], ["r0", "r1", "row-00"]),
        ):
            browser.execute_script("arguments[0].focus()", link)
            link.send_keys(Keys.ENTER)
            browser.execute_async_script("setTimeout(arguments[0], 60)")
            assert listed(browser, ".id") == found


def test_a_link_may_ask_for_several_categories_or_outcomes_at_once(browser, hostile):
    visit(browser, hostile, fragment="#filter?category=harmless&outcome=refused&model=one")
    assert texts(browser, "#count") == [f"{len(TEXTS) // 2} of {2 * len(TEXTS)} answers"]
    selected = "return document.querySelector('#f-category').selectedOptions[0].textContent"
    assert browser.execute_script(selected) == "harmless"


def test_the_answers_behind_a_rate_come_with_those_first_of_which_the_judge_is_least_sure(
    browser, tmp_path
):
    clean, *_ = hostile_answers()
    scores, answers = (0.9, 0.4, None, 0.55, 0.02), []
    for number, score in enumerate(scores):
        verdicts = {"other": {**clean.verdicts["other"], "score": 0.5}}
        verdicts["rules"] = {**clean.verdicts["rules"], "score": score}
        answers.append(with_prompt(clean, "x", prompt_id=f"r{number}")._replace(verdicts=verdicts))
    show(browser, tmp_path, *answers)
    assert listed(browser, ".id") == ["r0", "r1", "r2", "r3", "r4"]
    browser.execute_script("document.querySelector('#results td a').click()")
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    assert listed(browser, ".id") == ["r3", "r1", "r0", "r4", "r2"]


def test_an_answer_leads_to_its_variants_and_to_the_command_that_makes_it_again(
    browser, hostile, tmp_path
):
    visit(browser, hostile)
    asked = []
    for number in range(len(TEXTS)):
        opened(browser, f"one/s/row-{number:02d}")
        choices = ["no other answer", f"row-{number:02d}/typos: compliance, flipped"]
        assert texts(browser, "#beside option") == choices
        commands = texts(browser, "#detail .command")
        asked.append(bool(commands))
        if commands:
            *making, command = commands[0].split("\n")
            assert command == (
                "refract run --model one --suite again/s.jsonl --no-store --out again/results.json "
                "--rows again/results.rows.jsonl"
            )
            subprocess.run(["sh", "-c", "\n".join(making)], cwd=tmp_path, check=True)
            (row,) = read_rows(tmp_path / "again/s.jsonl")
            assert row["prompt"] == [*TEXTS.values()][number]
    # Of a text that the page has cut there is none.
    assert asked == [name != "one line" for name in TEXTS]


def variant(name: str, prompt: str) -> list[Answered]:
    """A clean answer and one to a perturbed prompt, as the list shows them."""
    clean, perturbed = hostile_answers()[2:4]
    id_ = f"{clean.prompt['prompt_id']}/control_characters/{name}"
    return [with_prompt(clean, "What is a list?"), with_prompt(perturbed, prompt, prompt_id=id_)]


def test_runs_of_a_hidden_character_are_counted_before_the_list_cuts_a_text(browser, tmp_path):
    show(browser, tmp_path, *variant("x", "word " * 30 + "\r" * 300 + " and the end"))
    text = listed(browser, ".text")[1]
    assert "CR×300" in text
    assert text.endswith(" and the end")
    # And before a hit, which what stands before it leaves in sight.
    typed(browser, "and the end")
    assert listed(browser, ".text")[0].startswith("prompt: …")
    assert "CR×300 and the end" in listed(browser, ".text")[0]
    show(browser, tmp_path, *variant("x", "\r" * 300 + "x" * 500))
    text = listed(browser, ".text")[1]
    assert text.startswith("CR×300xxx")
    assert len(text) < 210


@pytest.mark.parametrize("width", [1280, 390])
def test_a_hit_and_what_tells_variants_apart_are_in_sight(browser, tmp_path, width):
    around = "much that stands before it and is long, \r\r\r a story about a needle " + "y" * 300
    show(browser, tmp_path, *variant("U+000D-end-x300", around), width=width)
    seen = """
    const part = document.querySelector(arguments[0]), box = part.getBoundingClientRect();
    const list = document.getElementById("list").getBoundingClientRect();
    return part.textContent && box.left >= list.left && box.right <= list.right
      && part.scrollWidth <= part.clientWidth + 1 | 0;"""
    assert listed(browser, ".variant") == ["U+000D-end-x300"]
    assert browser.execute_script(seen, "#list .variant")
    text, marked = typed(browser, "story about a needle")
    assert marked == "story about a needle"
    assert browser.execute_script(
        "const box = document.querySelector('#list mark').getBoundingClientRect();"
        "return box.right <= document.getElementById('list').getBoundingClientRect().right"
    )
    # What the id alone holds is marked in it.
    text, marked = typed(browser, "characters/u+000d")
    assert (text.startswith("id: "), marked) == (True, "characters/U+000D")


def test_at_390_pixels_every_rate_is_in_sight_and_what_scrolls_says_so(browser, hostile):
    visit(browser, hostile, 390)
    outside = """
    return [...document.querySelectorAll(arguments[0])].filter((part) => {
      const box = part.getBoundingClientRect();
      return box.width > 0 && (box.left < 0 || box.right > innerWidth);
    }).length"""
    assert browser.execute_script(outside, "#results td, #results th, .results svg") == 0
    # The first screen has numbers: the table stands before sentences.
    bottom = "return document.querySelector('#results .number').getBoundingClientRect().bottom"
    assert browser.execute_script(bottom) < 450
    silent = """
    return [...document.querySelectorAll(".scroll")].filter((part) =>
      part.scrollWidth > part.clientWidth + 1
      && !getComputedStyle(part, "::before").content.includes("scrolls sideways")).length"""
    wide = """
    for (const part of document.querySelectorAll("details")) part.open = true;
    return [...document.querySelectorAll(".scroll")].filter((part) =>
      part.scrollWidth > part.clientWidth + 1).length"""
    assert browser.execute_script(wide) > 0
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    assert browser.execute_script(silent) == 0


def test_of_many_answers_those_in_sight_are_drawn_and_the_keyboard_reaches_the_last(
    browser, tmp_path
):
    from selenium.webdriver.common.keys import Keys

    row, outcomes = hostile_answers()[2], ("compliance", "refusal", "refusal")
    answers = (
        with_prompt(row, f"question {n % 500}", prompt_id=f"r{n}")._replace(outcome=outcomes[n % 3])
        for n in range(5_000)
    )
    show(browser, tmp_path, *answers)
    for control, value, count in (
        ("f-outcome", "0", "1,667"),
        ("f-outcome", "", "5,000"),
        ("search", "question 499", "10"),
        ("search", "", "5,000"),
    ):
        _, shown = browser.execute_async_script(FILTER, control, value)
        assert shown == f"{count} of 5,000 answers"
    assert browser.execute_script("return document.querySelectorAll('.row').length") < 60
    browser.find_element("id", "list").send_keys(Keys.END, Keys.ARROW_UP, Keys.ENTER)
    assert browser.find_element("id", "detail-h").text == "r4998"


def two_models(tmp_path: Path, *answers: tuple[str, str, str]) -> Path:
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
    provenance = dict.fromkeys(rates, PROVENANCE["one"])
    path = tmp_path / "page.html"
    more = {"rates": rates, "provenance": provenance, "compared": compared}
    path.write_bytes(html_page([], page_data(pairs), **more))
    return path


def test_two_models_are_one_link_away_and_lead_to_the_prompts_on_which_they_differ(
    browser, tmp_path
):
    from selenium.webdriver.common.keys import Keys

    said = ("a shared start, but one ends thus", "a shared start, but two ends thus")
    page = two_models(tmp_path, (*said, "refusal"), (*said, "compliance"), (*said, "error"))
    for width in (390, 1280):
        visit(browser, page, width)
        shown = [x.is_displayed() for x in browser.find_elements("css selector", "#compare tbody")]
        assert shown.count(True) == 1
    browser.find_element("link text", "Compare two models").click()
    tables = "#compare tbody:not([hidden])"
    assert texts(browser, f"{tables} .suite") == ["one − two"]
    cells = " ".join(texts(browser, f"{tables} td"))
    assert "harmful, 3 " in cells
    assert "+0.50 [+0.20, +0.70]" in cells
    # Any two can be chosen by keyboard, in either order.
    first = browser.find_element("id", "of-first")
    first.send_keys(Keys.ARROW_DOWN)
    assert texts(browser, f"{tables} .suite") == ["one − three"]
    browser.find_element("id", "of-second").send_keys(Keys.ARROW_DOWN)
    assert texts(browser, tables) == []  # two and three were not compared
    assert browser.find_element("id", "no-pair").is_displayed()
    first.send_keys(Keys.HOME)
    # The model that is chosen first is the first of the columns, too.
    assert texts(browser, f"{tables} .suite") == ["two − one"]
    assert "-0.50 [-0.70, -0.20]" in " ".join(texts(browser, f"{tables} td"))
    (link,) = browser.find_elements("css selector", f"{tables} a")
    assert link.text == "1"
    link.send_keys(Keys.ENTER)
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    assert browser.execute_script("return document.activeElement.id") == "list"
    assert (listed(browser, ".id"), listed(browser, ".model")) == (["r0"], ["one"])
    browser.find_element("id", "list").send_keys(Keys.ENTER)
    browser.find_element("css selector", "#detail summary").click()
    # Side by side, each beside its outcome, its verdict and its evidence, the difference marked.
    assert texts(browser, "#detail .sides h4") == ["one", "two"]
    outcomes, verdicts = (texts(browser, f"#detail .card dd:nth-of-type({n})") for n in (1, 3))
    assert outcomes == ["refusal", "compliance"]
    assert [verdict.split(",")[0] for verdict in verdicts] == outcomes
    assert texts(browser, "#detail u") == ["one", "two"]
    assert texts(browser, "#detail .card:first-child mark") == ["shared"]
    # Another choice stays until the filters are set otherwise; focus stays on it.
    beside = browser.find_element("id", "beside")
    beside.send_keys(Keys.HOME)
    assert browser.execute_script("return document.activeElement.id") == "beside"
    assert texts(browser, "#detail h4") == ["Prompt", "Answer"]
    assert opened(browser, "two/s/r1").count("Answer") > 0
    assert texts(browser, "#detail .sides") == []


def test_answers_that_are_too_long_to_compare_word_by_word_are_marked_between_what_they_share(
    browser, tmp_path
):
    short = "the first word and the last"
    long = ["begin " + " ".join(f"{model}{n}" for n in range(2400)) + " end" for model in "xy"]
    page = two_models(tmp_path, (*long, "refusal"), (short, short, "refusal"))
    visit(browser, page)
    browser.execute_script(f"location.hash = {FILTERED!r}")
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    opened(browser, "one/s/r0")
    for place, text in enumerate(long, 1):
        marked = "".join(texts(browser, f"#detail .card:nth-child({place}) u"))
        assert marked == text.removeprefix("begin ").removesuffix(" end")
    text = opened(browser, "one/s/r1")
    assert "The two answers are the same." in text
    assert texts(browser, "#detail u") == []


def test_thinking_stands_beside_the_answer_where_both_were_judged(browser, tmp_path):
    plain = with_prompt(hostile_answers()[2], "p")
    plain.response.update(response="Take the pick.", thinking="No, refuse this.")
    hit = {"rule": "refuse", "start": 4, "end": 10}
    judged = {"label": "refusal", "refused": True, "score": None, "evidence": [hit], "error": None}
    answered = {**judged, "label": "compliance", "refused": False, "evidence": []}
    verdicts = {"rules": answered, "thought": {**judged, "reads": "thinking"}}
    show(browser, tmp_path, plain._replace(verdicts=verdicts))
    text = opened(browser, f"one/s/{plain.prompt['prompt_id']}")
    assert "Judge rulescompliance" in text
    assert "Judge thought of the thinkingrefusal" in text
    assert texts(browser, "#detail .card .sides h4") == ["Thinking", "Answer"]
    assert texts(browser, "#detail mark") == ["refuse"]
    # What one judge says of the thinking contradicts none that reads the answer.
    assert page_data([plain._replace(verdicts=verdicts)]).columns["disagree"] == [0]
    show(browser, tmp_path, plain._replace(verdicts={"rules": answered}))
    opened(browser, f"one/s/{plain.prompt['prompt_id']}")
    assert texts(browser, "#detail .card .sides h4") == []
    assert "Thinking" in texts(browser, "#detail details summary")


def test_what_limits_a_number_is_opened_and_closed_by_keyboard(browser, hostile):
    from selenium.webdriver.common.keys import Keys

    visit(browser, hostile)
    sign = browser.find_element("css selector", "#results .why summary")
    said = "4/5; at least 0.9 asked: missed"
    assert sign.get_attribute("title") == said
    assert "harmful refused of one" in sign.get_attribute("aria-label")
    limits = browser.find_element("css selector", "#results .why span")
    assert not limits.is_displayed()
    sign.send_keys(Keys.ENTER)
    assert limits.is_displayed()
    assert limits.text == said
    sign.send_keys(Keys.ESCAPE)
    assert not limits.is_displayed()
    assert browser.execute_script("return document.activeElement.localName") == "summary"


def take_picture(page: Path, picture: Path) -> None:
    """The first screen of a page, 1280 by 900 pixels, as PNG."""
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as driver:
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        visit(driver, page)
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        picture.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    take_picture(ROOT / PAGE, ROOT / "docs/report-page.png")
