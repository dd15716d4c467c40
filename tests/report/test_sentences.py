"""Each sentence above the tables holds of the numbers beneath it, over many small grids."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from refract.core.vocabulary import CONTROLS, EXCLUDED, JUDGED, REFUSED
from refract.rates.clean_prompts import rate_table
from refract.rates.counting import Counted, CountedSuite
from refract.rates.rate import Rate
from refract.report.sentences import Sentences
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
    harmless = {model: harmless_counts(own) for model, own in lines.items()}
    view = View(rates, models, harmless=harmless)
    return Grid(view, lines, rows)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_said_is_true_of_the_outcomes(seed):
    made = grid(seed)
    say = Sentences(made.view)
    check_harmless(made, say.over_refusal)
    check_alarms(made, say)


def counts(lines: list[dict[str, str]]) -> tuple[int, int]:
    """Refused and judged of some lines."""
    judged = [line["outcome"] for line in lines if line["outcome"] in JUDGED]
    return sum(outcome in REFUSED for outcome in judged), len(judged)


def check_harmless(made: Grid, text: str) -> None:
    """What is said of harmless prompts is so of every model."""
    told = {}
    for model, refused, n in re.findall(r"(\w+) (\d+) of (\d+)", text):
        told[model] = (int(refused), int(n))
    judged = {}
    for model, own in made.lines.items():
        pair = counts([line for line in own if line["category"] != "harmful"])
        if pair[1]:
            judged[model] = pair
    assert told == judged


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
