"""Each sentence above the tables holds of the numbers beneath it, over many small grids."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from scipy.stats import binomtest

from refract.core.vocabulary import CONTROLS, EXCLUDED, JUDGED, REFUSED
from refract.rates.clean_prompts import rate_table
from refract.rates.comparison import DEFAULTS
from refract.rates.counting import Counted, CountedSuite
from refract.rates.rate import Rate
from refract.report.comparisons import compare_nearest
from refract.report.first_table import first_table
from refract.report.sentences import sentences_of
from refract.report.view import View, harmless_counts
from tests.builders import outcome_line
from tests.report.views import facts

AREAS = ("locks", "mail", "tax")
Lines = dict[str, list[dict[str, str]]]


@dataclass
class Grid:
    """Random outcomes of a few models on two suites, and the view of their numbers."""

    view: View
    lines: Lines
    rows: dict[str, dict[str, Any]]


def suite_rows(rng: random.Random, suite: str) -> list[dict[str, Any]]:
    rows = []
    for number in range(rng.randint(4, 24)):
        category = rng.choice(("harmful", "helpful", "borderline"))
        row = {"id": f"{suite}{number}", "category": category, "area": rng.choice(AREAS)}
        if category != "borderline" and rng.random() < 0.4:
            row["control"] = "must_refuse" if category == "harmful" else "must_answer"
        rows.append(row)
    return rows


def grid(seed: int) -> Grid:
    rng = random.Random(seed)
    models = {}
    for name in ("ann", "ben", "cas")[: rng.randint(1, 3)]:
        models[name] = facts(rng.choice(("hf", "hf", "synthetic")), dtype=name)
    rates: dict[str, list[Rate]] = {model: [] for model in models}
    lines: Lines = {model: [] for model in models}
    rows = {}
    for suite in ("s", "t")[: rng.randint(1, 2)]:
        sources = suite_rows(rng, suite)
        rows |= {row["id"]: row for row in sources}
        for model in models:
            refuses = {category: rng.choice((0, 0, 0.1, 0.6, 1)) for category in ("h", "o")}
            lost = rng.choice((0, 0, 0.1, 1))
            outcomes = {}
            for row in sources:
                chance = refuses["h" if row["category"] == "harmful" else "o"]
                outcome = rng.choice(REFUSED) if rng.random() < chance else "compliance"
                if rng.random() < lost:
                    outcome = rng.choice(EXCLUDED)
                outcomes[row["id"]] = Counted(outcome, row["id"])
                line = outcome_line(row["id"], outcome, row["category"], suite=suite)
                lines[model].append(line)
            for rate in rate_table(CountedSuite(sources, outcomes, fields=["area"])):
                rates[model].append(rate.keyed(suite=suite, model=model))
    reference = next(iter(models))
    nearest = compare_nearest(lines, DEFAULTS, reference, models)
    harmless = {model: harmless_counts(own) for model, own in lines.items()}
    view = View(rates, models, reference=reference, nearest=nearest, harmless=harmless)
    return Grid(view, lines, rows)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_said_is_true_of_the_outcomes(seed):
    made = grid(seed)
    say = sentences_of(made.view)
    check_harmless(made, say.over_refusal)
    check_alarms(made, say)
    check_compared(made, say.compared)


def counts(lines: list[dict[str, str]]) -> tuple[int, int]:
    """Refused and judged of some lines."""
    judged = [line["outcome"] for line in lines if line["outcome"] in JUDGED]
    return sum(outcome in REFUSED for outcome in judged), len(judged)


def check_harmless(made: Grid, text: str) -> None:
    """What is said of harmless prompts is so of every model in the table."""
    judged = {}
    for model, own in made.lines.items():
        pair = counts([line for line in own if line["category"] != "harmful"])
        if pair[1]:
            judged[model] = pair
    definitions = {
        name: known["model"]["definition"] for name, known in made.view.provenance.items()
    }
    live = {x: judged[x] for x in judged if definitions[x]["adapter"] != "synthetic"} or judged
    if not judged:
        assert text == ""
        return
    if text.lower().endswith("no model refused a helpful or borderline prompt."):
        assert {refused for refused, _ in live.values()} == {0}
        shown = [model for model, (refused, _) in judged.items() if refused]
        assert all(f"{model} {judged[model][0]} of" in text for model in shown)
        # And so the cells beneath: of a model that is not named each is 0.
        table = first_table(made.view)
        for row in table.rows:
            cells = dict(zip(table.header, row, strict=True))
            for column in ("helpful refused", "borderline refused"):
                if row[1] not in shown and column in cells:
                    assert cells[column].startswith(("0.00", "—")), (text, cells)
        return
    model, refused, n = re.search(
        r"(\w+) refused (?:the most|as many)?.*?(\d+) of (\d+) answers to helpful", text
    ).groups()
    assert (int(refused), int(n)) == live[model]
    shares = {name: refused / n for name, (refused, n) in live.items()}
    assert shares[model] == max(shares.values())
    alone = len(live) > 1 and list(shares.values()).count(shares[model]) == 1
    assert ("the most harmless" in text) == alone
    for name, (refused, n) in judged.items():
        assert f"{name} {refused} of {n}" in text or name == model
    for category, area, refused, n in re.findall(
        r"(\w+) prompts of area (\w+) \((\d+) of (\d+)", text
    ):
        by_suite: Lines = {"s": [], "t": []}
        for line in made.lines[model]:
            if line["category"] == category and made.rows[line["source_id"]]["area"] == area:
                by_suite[line["suite"]].append(line)
        assert (int(refused), int(n)) in map(counts, by_suite.values())


def check_alarms(made: Grid, say: Any) -> None:
    """Alarms and controls name what the outcomes say."""
    wrong: dict[str, Counter[str]] = {kind: Counter() for kind in CONTROLS}
    judged: dict[str, Counter[str]] = {kind: Counter() for kind in CONTROLS}
    lost, errors, total = Counter(), Counter(), Counter()
    for model, lines in made.lines.items():
        for line in lines:
            place = f"{line['suite']}, {model}"
            total[place] += 1
            lost[place] += line["outcome"] in EXCLUDED
            errors[place] += line["outcome"] == "error"
            kind = made.rows[line["source_id"]].get("control")
            if kind and line["outcome"] in JUDGED:
                judged[kind][place] += 1
                wrong[kind][place] += line["outcome"] not in CONTROLS[kind]
    for kind, text in (("must_answer", say.controls), ("must_refuse", say.must_refuse)):
        told = set()
        for part in filter(None, text.split("; ")):
            suite, models = part.split(": ")
            told |= {f"{suite}, {model}" for model in models.split(", ")}
        number = judged[kind]
        assert told == {f"{x} {n} of {number[x]}" for x, n in wrong[kind].items() if n}
    hardly = {f"{x} ({lost[x]} of {n})" for x, n in total.items() if lost[x] >= 0.9 * n}
    assert set(filter(None, say.unjudged.split("; "))) == hardly
    failed = {f"{place} ({n})" for place, n in errors.items() if n}
    assert set(filter(None, say.errors.split("; "))) == failed


def check_compared(made: Grid, text: str) -> None:
    """What is said of two models is what their common prompts say."""
    if not text:
        return
    reference, suite, model = re.match(r"Against (\w+) on (\w+), (\w+)", text).groups()
    outcome_of = {}
    for name in (reference, model):
        for line in made.lines[name]:
            outcome_of[name, line["source_id"]] = line["outcome"]
    parts = re.findall(
        r"(-?\d\.\d\d)(?: \[(-?\S+), (-?\S+)\])? (more|fewer) of the (\w+) prompts([^;]*)", text
    )
    assert parts or "discrimination" in text
    for size, low, high, word, category, behind in parts:
        change = []
        for row in made.rows.values():
            pair = [outcome_of[name, row["id"]] for name in (reference, model)]
            own = row["category"] == category and row["id"].startswith(suite)
            if own and set(pair) <= set(JUDGED):
                change.append((pair[1] in REFUSED) - (pair[0] in REFUSED))
        difference = sum(change) / len(change)
        assert float(size) == pytest.approx(abs(difference), abs=0.0051)
        assert (word == "more") == (difference >= 0)
        crosses = low and float(low) <= 0 <= float(high)
        if "may be chance:" in behind:
            assert not crosses
        elif "may be chance" in behind:
            assert crosses or not low
        else:
            # McNemar's exact test, which correction only makes larger.
            changes = [place for place in change if place]
            assert binomtest(changes.count(1), len(changes)).pvalue <= 0.05
