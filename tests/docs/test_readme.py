"""The README's results are those of the metrics in git.

``python -m tests.docs.test_readme`` writes them in.
"""

from __future__ import annotations

import re

from refract.core.params import grid, load_params
from refract.report.first_table import first_table
from refract.report.markdown import ShownTable
from refract.report.view import View
from refract.results.sources import read_tree
from tests.builders import ROOT

# The results that open the README are of one suite.
SHOWN = "harmful_helpful"
BLOCK = re.compile(r"(<!-- results[^>]*-->\n).*?(<!-- end of results -->)", re.S)


def readme_with_results() -> str:
    models = grid(load_params(ROOT / "params.yaml"), "models")
    results = read_tree(ROOT, models)
    rates = {model: result.rates for model, result in results.items()}
    provenance = {model: result.provenance for model, result in results.items()}
    view = View(rates, provenance).only([], [SHOWN])
    suite, *header = (table := first_table(view)).header
    assert (suite, {row[0] for row in table.rows}) == ("suite", {SHOWN})
    notes = [note for note in table.notes if note != view.interval_note]
    table = ShownTable(header, [row[1:] for row in table.rows], notes)
    assert [row[0] for row in table.rows] == models
    # What the report says of the two models that are nearest to each other.
    report = (ROOT / "metrics/report.md").read_text("utf-8")
    said = "".join(re.findall(r"^- \*\*Compared\.\*\* (.*?\.)(?: \[.*)?$", report, re.M))
    shown = "\n\n".join(filter(None, (table.markdown, said)))
    text = (ROOT / "README.md").read_text("utf-8")
    return BLOCK.sub(lambda match: f"{match[1]}\n{shown}\n\n{match[2]}", text)


def test_the_readme_shows_the_numbers_of_the_metrics():
    assert (ROOT / "README.md").read_text("utf-8") == readme_with_results()


def test_the_speed_that_is_claimed_is_what_the_benchmarks_measured():
    text = (ROOT / "docs/how-it-works.md").read_text("utf-8")
    claimed = re.search(
        r"no longer for exact answers than\nplain batches, servers (\d\.\d+) of a bare client", text
    )
    measured = (ROOT / "benchmarks/README.md").read_text("utf-8")
    rows: dict[str, list[str]] = {}
    for line in measured.splitlines():
        rows.setdefault(line.split(" | ")[0], line.split(" | "))  # whole commands come first
    models = ("| SmolLM2-135M", "| 25M, 256", "| 10M, the", "| 260K, the")
    of_bound = [next(rows[key][2] for key in rows if key.startswith(model)) for model in models]
    served = rows["| 1,000 prompts, 40 ms, 32 connections"][4]
    assert max(float(share) for share in of_bound) <= 1
    assert claimed.groups() == (served,)


if __name__ == "__main__":
    (ROOT / "README.md").write_text(readme_with_results(), "utf-8")
