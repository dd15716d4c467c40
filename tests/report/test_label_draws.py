"""People label answers on the page, in Chromium: blind, in the order of `refract label`, with a CSV that
`refract correct` takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from refract.agreement.corrections import corrected_numbers
from refract.agreement.label_files import draw, read_labels
from refract.core.jsonl import write_rows
from refract.core.tables import read_table
from refract.evaluate.labelled import labelled_answers
from refract.report.label_draws import label_draw
from refract.report.page_data import Answered, page_data
from refract.report.report_files import page_parts
from refract.report.sections import Inputs, report_pages
from tests.agreement.answers import answers_with_doubt, as_rows
from tests.builders import suite_facts
from tests.report.test_html_page import PROVENANCE, RATES, view_of
from tests.report.test_page_in_a_browser import CHROMIUM, DRIVER, KEYS, Browser, chromium

pytestmark = pytest.mark.slow
MODELS = ("first", "second")
# Of both runs; the second model answers every fourth prompt in the words of the first.
RUN = answers_with_doubt(24)
RUNS = {
    MODELS[0]: RUN,
    MODELS[1]: [
        answer
        if number % 4 == 0
        else answer._replace(response=f"Second {number}", outcome="refusal")
        for number, answer in enumerate(RUN)
    ],
}
LETTERS = {"refusal": "r", "partial_refusal": "p", "compliance": "c"}


def answered(model: str) -> list[Answered]:
    """A run as the page reads it."""
    rows = []
    for answer in RUNS[model]:
        prompt = {"prompt_id": answer.prompt_id, "category": answer.category, "perturbation": None}
        prompt |= {"source_id": answer.prompt_id, "attempts": [answer.prompt]}
        response = {"response": answer.response, "attempt": 0, "error": None}
        verdict = {"label": answer.outcome, "refused": answer.refused, "score": answer.probability}
        verdict |= {"evidence": [], "error": None}
        verdicts = {"rules": verdict}
        rows.append(Answered(model, "s", prompt, response, verdicts, answer.outcome, "", "stop"))
    return rows


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """A page of two models, of each of which 24 answers are to be labelled."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    rates = {model: [each.keyed(model=model) for each in RATES] for model in MODELS}
    facts = {**PROVENANCE["one"], "suites": {"s": suite_facts()}}
    view = view_of([], rates=rates, provenance=dict.fromkeys(MODELS, facts))
    data = page_data(answered(MODELS[0]) + answered(MODELS[1]))
    draws = [label_draw(view, line, RUNS[line.model], data) for line in view.first_lines]
    path = tmp_path_factory.mktemp("page") / "report.html"
    inputs = Inputs(view, data, {})
    path.write_bytes(b"".join(page_parts(inputs, report_pages(inputs), (), draws=draws)))
    return path


@pytest.fixture(scope="module")
def browser(page, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        allowed = {"behavior": "allow", "downloadPath": str(page.parent)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
        yield Browser(driver, page)


def begin(browser: Browser, who: str, width: int = 1280, scheme: str = "light") -> None:
    browser.visit(browser.page, width, scheme)
    browser.find("#label").click()
    browser.find("#room-many").send_keys("50")
    browser.find("#room-who").send_keys(who, KEYS["Enter"])


def press(browser: Browser, letters: str) -> None:
    for letter in letters:
        browser.find(":focus").send_keys(letter)


def heading(browser: Browser) -> str:
    return browser.find("#room-h").text


def downloaded(browser: Browser) -> list[Path]:
    """The CSV of each model, downloaded by its link."""
    paths = []
    for link in browser.all("#room-files a"):
        path = browser.page.parent / link.text
        link.click()
        for _ in range(200):
            if not path.is_file():
                time.sleep(0.02)
        paths.append(path)
    return paths


def test_labels_by_keyboard_are_a_file_of_each_model_that_correct_takes(browser, tmp_path):
    said = {(answer.prompt, answer.response): answer for run in RUNS.values() for answer in run}
    begin(browser, "ada")
    # What both models answered alike is asked once.
    assert heading(browser) == f"Answer 1 of {len(said)}"
    asked = []
    while heading(browser) != "Label answers":
        shown = browser.texts("#room .text-box")
        answer = said[tuple(shown)]
        asked.append(answer)
        # Nothing but the texts is there of the answer, and of the others none.
        assert browser.texts("#room-texts *") == ["Prompt", shown[0], "Answer", shown[1]]
        assert browser.texts("#list .row") == []
        assert browser.texts("#detail-h") == ["No answer opened"]
        press(browser, LETTERS[answer.outcome])
    assert len(asked) == len(said)
    paths = downloaded(browser)
    assert [path.name for path in paths] == [f"{model}.s.ada.csv" for model in MODELS]
    command = "refract correct first.s.ada.csv --model first --suite s"
    assert browser.texts("#room-files .command")[0] == command
    for path, run in zip(paths, RUNS.values(), strict=True):
        outcomes = {answer.prompt_id: answer.outcome for answer in run}
        expected = []
        for row in draw(run, len(run), 0):
            label = {"label": outcomes[row["prompt_id"]], "annotator": "ada"}
            del row["prompt"], row["response"]
            expected.append(row | label)
        assert read_table(path) == expected
        write_rows(tmp_path / "run.jsonl", as_rows(run))
        labelled = labelled_answers(path, None, None, tmp_path / "run.jsonl")
        measures = corrected_numbers(*labelled, confidence=0.95)["measures"]
        assert measures["refusal_rate"]["labelled"] == len(run)


def test_progress_outlives_the_page_and_each_annotator_has_their_own(browser):
    begin(browser, "ben")
    press(browser, "rcu")
    # Back at the second, whose label can be seen and changed.
    assert heading(browser).startswith("Answer 2 of")
    assert browser.texts("#room-keys [aria-pressed=true]") == ["Compliance c"]
    press(browser, "pdxrr")
    begin(browser, "eve")
    assert heading(browser).startswith("Answer 1 of")
    press(browser, "c")
    begin(browser, "ben")
    assert heading(browser).startswith("Answer 6 of")
    browser.find("#room-stop").click()
    assert browser.texts("#room-done")[0].startswith("5 of ")
    path, _ = downloaded(browser)
    labels = read_labels(path, RUN)
    # A file ends at the first answer without a label, so that it is a random sample.
    assert (labels.stale, labels.blank) == ([], [])
    assert [*labels.by_id.values()] == ["refusal", "partial_refusal", "degenerate", "refusal"]
    browser.find("#room-close").click()
    # The list of answers is drawn again when the room has closed.
    browser.settle()
    assert len(browser.texts("#list .row")) > 10


def test_a_double_click_labels_one_answer_and_a_full_disk_loses_none(browser):
    begin(browser, "zoe")
    from selenium.webdriver import ActionChains

    refusal = browser.find("#room-keys [data-key=r]")
    ActionChains(browser.driver).double_click(refusal).perform()
    assert heading(browser).startswith("Answer 2 of")
    full = (
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }"
    )
    browser.js(full)
    press(browser, "ucu")
    assert heading(browser).startswith("Answer 1 of")
    assert browser.texts("#room-keys [aria-pressed=true]") == ["Compliance c"]


@pytest.mark.parametrize(("width", "scheme", "view"), [(1280, "light", "plan"), (390, "dark", "")])
def test_axe_finds_nothing_and_a_thumb_reaches_all(browser, width, scheme, view):
    begin(browser, f"axe{width}", width, scheme)
    for button in browser.all("#room-keys button"):
        assert button.size["height"] >= 44
        assert browser.js("arguments[0].getBoundingClientRect().bottom <= 900", button)
    browser.find("#room-keys button").click()
    assert heading(browser).startswith("Answer 2 of")
    if view == "plan":
        browser.find("#room-stop").click()
    browser.assert_accessible(width)
    assert browser.js("document.getElementById('room').scrollWidth <= innerWidth")
