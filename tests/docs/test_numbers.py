"""The numbers in docs/how-many-prompts.md, docs/scaling.md and docs/exact-answers.md are those of the
statistics, of the metrics in git, of the pocket models and of a count of bytes and operations.

``python -m tests.docs.test_numbers`` writes them in; it asks the pocket models, for two minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from refract.core.params import load_params
from refract.core.tables import read_table
from refract.core.vocabulary import JUDGED, REFUSED
from refract.models import open_model
from refract.statistics.proportions import wilson
from refract.statistics.sample_sizes import drop_sample_size
from tests.builders import ROOT

if TYPE_CHECKING:
    import pandas as pd

PROMPTS = ROOT / "docs/how-many-prompts.md"
SCALING = ROOT / "docs/scaling.md"
EXACT = ROOT / "docs/exact-answers.md"
SUITE = "harmful_helpful"
POCKET_MODELS = ("pocket_small", "pocket_medium", "pocket_large")
RATES = {
    "harmful refused": "harmful_refusal_rate",
    "helpful refused": "over_refusal_rate",
    "borderline refused": "borderline_refusal_rate",
}
# Two models of the grid, whose harmful prompts show how many flip between two models.
PAIR = ("smollm2_135m", "pocket_small")


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


def flips_sentence() -> str:
    """How far two models of the grid differ on harmful prompts, and how many flip besides."""
    refused = []
    for model in PAIR:
        outcomes = {
            row["prompt_id"]: row["outcome"] in REFUSED
            for row in read_table(ROOT / f"metrics/outcomes/{model}.csv")
            if row["suite"] == SUITE and row["category"] == "harmful" and row["outcome"] in JUDGED
        }
        refused.append(outcomes)
    first, second = refused
    pairs = [(first[name], second[name]) for name in first if name in second]
    gained = sum(not before and after for before, after in pairs)
    lost = sum(before and not after for before, after in pairs)
    difference, besides = abs(gained - lost) / len(pairs), 2 * min(gained, lost) / len(pairs)
    shown = f"{difference:.2f}".lstrip("0")
    return (
        f"`{PAIR[0]}` and `{PAIR[1]}` differ by {shown} on {len(pairs)} harmful prompts of\n"
        f"`{SUITE}`, and another {100 * besides:.0f} % of them flip besides."
    )


def size_row(model: str, tables: pd.DataFrame) -> list[str]:
    """A model's size and rates, each with the interval of prompts and judge."""
    definition = load_params(ROOT / "params.yaml")["models"][model]
    cells = [model, f"{open_model(model, definition).description()['parameters']:,}"]
    for measure in RATES.values():
        wanted = (tables["measure"] == measure) & (tables["field"] == "")
        (rate,) = tables[wanted & (tables["suite"] == SUITE)].to_dict("records")
        low, high = rate["judge_low"], rate["judge_high"]
        cells.append(f"{rate['rate']:.2f} [{low:.2f}, {high:.2f}]")
    return cells


def sizes_table(tables: Mapping[str, pd.DataFrame]) -> str:
    header = ["model", "parameters", *RATES]
    return markdown(header, [size_row(model, rates) for model, rates in tables.items()])


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """A page with its written parts as these are."""
    for name, part in parts.items():
        block = re.compile(rf"(<!-- {name}: written by `make readme` -->\n).*?(<!-- end -->)", re.S)
        assert len(block.findall(text)) == 1, f"the page must hold the mark of {name} once"
        text = block.sub(lambda match, part=part: f"{match[1]}\n{part}\n\n{match[2]}", text)
    return text


def exact_page(text: str) -> str:
    from benchmarks.on_paper import HEADER, cost_table

    return with_parts(text, {"paper": markdown(HEADER, cost_table())})


def prompts_page(text: str) -> str:
    parts = {
        "intervals": interval_table(),
        "prompts": prompts_table(),
        "flips": flips_sentence(),
    }
    return with_parts(text, parts)


def test_the_numbers_of_prompts_are_those_of_the_statistics_and_of_the_metrics():
    text = PROMPTS.read_text("utf-8")
    assert prompts_page(text) == text, "run: make readme"


def test_the_cost_of_exact_answers_on_paper_is_that_of_the_counts():
    text = EXACT.read_text("utf-8")
    assert exact_page(text) == text, "run: make readme"


def test_the_sizes_begin_with_the_model_that_is_in_the_grid():
    """The others are not asked here, since that takes minutes."""
    import pandas as pd

    shown = re.findall(r"^\| pocket_small \|.*$", SCALING.read_text("utf-8"), re.M)
    metrics = pd.read_csv(ROOT / "metrics/tables/pocket_small.csv", keep_default_na=False)
    numbers = ["rate", "judge_low", "judge_high"]
    metrics[numbers] = metrics[numbers].apply(pd.to_numeric)
    assert shown == [f"| {' | '.join(size_row('pocket_small', metrics))} |"]


def main() -> None:
    import refract

    PROMPTS.write_text(prompts_page(PROMPTS.read_text("utf-8")), "utf-8")
    EXACT.write_text(exact_page(EXACT.read_text("utf-8")), "utf-8")
    tables = {}
    for model in POCKET_MODELS:
        tables[model] = refract.measure(model, SUITE).tables.fillna({"field": ""})
    page = with_parts(SCALING.read_text("utf-8"), {"sizes": sizes_table(tables)})
    SCALING.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
