"""``python -m tools.pages``: what pages show of public names and numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import refract
from refract import checks
from refract.core.params import grid, load_params
from refract.report.first_table import first_table
from refract.report.judge_notes import people_table, plan_note
from refract.report.markdown import ShownTable
from refract.report.view import View
from refract.results.sources import read_tree
from refract.statistics.proportions import wilson
from refract.statistics.sample_sizes import drop_sample_size

ROOT = Path(__file__).parent.parent
# The suite whose results the README shows.
SUITE = "harmful_helpful"


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    first, *lines = [f"| {' | '.join(line)} |" for line in (header, *rows)]
    return "\n".join([first, "|" + "--:|" * len(header), *lines])


def interval_table() -> str:
    """Wilson's intervals by the number of prompts and the rate found."""
    rates = (0.02, 0.1, 0.5)
    rows = []
    for n in (50, 100, 200, 400, 800):
        limits = [wilson(rate * n, n) for rate in rates]
        shown = [f"[{low:.2f}, {high:.2f}]".replace("0.", ".") for low, high in limits]
        rows.append([str(n), *shown])
    return markdown(["prompts", *(f"{100 * rate:.0f} % refused" for rate in rates)], rows)


def prompts_table() -> str:
    """Prompts that show a difference, by the difference and the share that flips besides it."""
    flips = (0, 0.05, 0.1, 0.2, 0.3)
    rows = []
    for drop in (0.02, 0.05, 0.1, 0.2):
        needed = [drop_sample_size(drop, share, 0.8, 0.05) for share in flips]
        rows.append([f"{drop:.2f}".lstrip("0"), *(f"{n:,}" for n in needed)])
    header = ["difference", *(f"{100 * share:.0f} % flip besides" for share in flips)]
    return markdown(header, rows)


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """A page with its written parts as these are."""
    for name, part in parts.items():
        block = re.compile(rf"(<!-- {name}: written by `make readme` -->\n).*?(<!-- end -->)", re.S)
        assert len(block.findall(text)) == 1, f"the page must hold the mark of {name} once"
        text = block.sub(lambda match, part=part: f"{match[1]}\n{part}\n\n{match[2]}", text)
    return text


def statistics_page(text: str) -> str:
    """docs/statistics.md."""
    parts = {
        "intervals": interval_table(),
        "prompts": prompts_table(),
    }
    return with_parts(text, parts)


def benchmarks_page(text: str) -> str:
    """benchmarks/README.md, with what a GPU needs by count."""
    from benchmarks import on_paper  # with torch

    return with_parts(text, {"paper": markdown(on_paper.HEADER, on_paper.cost_table())})


def python_page(text: str) -> str:
    """docs/python.md, with each public name and the first sentence of its docstring."""
    lines = []
    for module, names in (("refract", refract.__all__), ("refract.checks", checks.__all__)):
        for name in names:
            offered = getattr(refract if module == "refract" else checks, name)
            docstring = " ".join((inspect.getdoc(offered) or "").split())
            meaning = re.split(r"(?<=\.) |: ", docstring)[0].rstrip(".")
            meaning = re.sub(r":\w+:`(.*?)`", r"`\1`", meaning).replace("``", "`")
            lines.append(f"- `{module}.{name}`: {meaning}")
    return with_parts(text, {"public names": "\n".join(lines)})


def readme(text: str) -> str:
    """README.md, with what people found and the results of one suite."""
    models = grid(load_params(ROOT / "params.yaml"), "models")
    results = read_tree(ROOT, models)
    rates = {}
    for model, result in results.items():
        rates[model] = [rate for rate in result.rates if rate.suite == SUITE]
    provenance = {model: result.provenance for model, result in results.items()}
    view = View(rates, provenance)
    text = with_parts(text, {"people": people_table(view)[1].markdown})
    suite, *header = (table := first_table(view)).header
    assert (suite, {row[0] for row in table.rows}) == ("suite", {SUITE})
    notes = [note for note in table.notes if note not in (view.interval_note, plan_note(view))]
    table = ShownTable(header, [row[1:] for row in table.rows], notes)
    assert [row[0] for row in table.rows] == models
    block = re.compile(r"(<!-- results[^>]*-->\n).*?(<!-- end of results -->)", re.S)
    return block.sub(lambda match: f"{match[1]}\n{table.markdown}\n\n{match[2]}", text)


PAGES: dict[str, Callable[[str], str]] = {
    "README.md": readme,
    "benchmarks/README.md": benchmarks_page,
    "docs/statistics.md": statistics_page,
    "docs/python.md": python_page,
}


def main() -> None:
    """Writes the pages."""
    for name, written in PAGES.items():
        path = ROOT / name
        path.write_text(written(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
