"""What tests of the report are made of: views, answers, and the tables of a page as they are read."""

from __future__ import annotations

import re
from typing import Any

from refract.rates.rate import Rate
from refract.report.page_data import Answered, page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View

HOSTILE = (
    "<script>alert(1)</script> | [x](javascript:y) `z` **b** \\| \\[ a\nb\u202e\x1b[31m &amp; $1$"
)


def facts(adapter: str = "hf", suites: Any = None, **definition: object) -> dict[str, Any]:
    """The provenance of a model."""
    about = {"identity": {"adapter_version": "1", "of": definition}, "seed": None}
    about |= {"definition": {"adapter": adapter, **definition}, "parameters": None}
    return {"model": about, "judges": {}, "suites": suites or {}}


def view_of(*rates: Rate, **more: Any) -> View:
    """A view of some rates, by model."""
    by_model: dict[str, list[Rate]] = {}
    for rate in rates:
        by_model.setdefault(rate.model, []).append(rate)
    return View(**{"rates": by_model or {"one": []}, "provenance": {}} | more)


def pages_of(view: View, *answers: Answered) -> dict[str, str]:
    """Every page in Markdown, the report itself under the name report."""
    return report_pages(Inputs(view, page_data(answers), {}))


def pages_for(*rates: Rate, answers: tuple[Answered, ...] = (), **more: Any) -> dict[str, str]:
    """The pages of some rates."""
    return pages_of(view_of(*rates, **more), *answers)


def answered(
    id_: str,
    category: str,
    outcome: str,
    perturbation: dict[str, str] | None = None,
    model: str = "one",
    suite: str = "s",
    **labels: str | None,
) -> Answered:
    """An answer to a hostile prompt, with the labels of judges."""
    response = {"attempt": 0, "response": "x", "error": None, "finish_reason": "stop"}
    prompt = {"prompt_id": id_, "source_id": id_[0], "category": category}
    prompt |= {"perturbation": perturbation, "attempts": [f"prompt {id_} {HOSTILE}"]}
    empty = {"score": None, "evidence": [], "error": None, "refused": None}
    verdicts = {judge: {"label": label, **empty} for judge, label in labels.items()}
    return Answered(model, suite, prompt, response, verdicts, outcome, "", "stop")


def cells_of(line: str) -> list[str]:
    """The cells of a Markdown table's row as a reader of the page gets them (GFM, 4.10 and 6.1)."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    inside = line[2:-2]
    parts = re.split(r"((?:\\[!-/:-@\[-`{-~]|[^\\|])*) \| ", inside)
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", part) for part in parts if part]


def lines_of(page: str, start: str) -> list[list[str]]:
    """The cells of the lines of a page's tables whose first cell is ``start``."""
    return [cells_of(line) for line in page.split("\n") if line.startswith(f"| {start} |")]


def sentence(report: str, name: str) -> str:
    """The line of the report that begins with a name."""
    (line,) = (line for line in report.splitlines() if line.startswith(f"- **{name}.**"))
    return line.replace("\\", "")
