"""The share refused among answers that exist already, as a run counts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from refract.agreement.unseen_models import known_errors
from refract.core.params import DecisionSettings
from refract.core.types import Row, Verdict
from refract.core.vocabulary import FAMILIES
from refract.evaluate import Definition
from refract.judges import open_judges
from refract.judges.cases import versioned
from refract.models.answer_rows import recorded_answer
from refract.models.store import answer_row
from refract.rates.counting import Counted, answer_rate, clusters_of, outcome
from refract.rates.judge_error import with_judge_error
from refract.rates.key import OVERALL, REFUSAL, Group, Key
from refract.rates.rate import Rate
from refract.suites.rows import CATEGORIES


def refused_rates(
    rows: Sequence[Row],
    verdicts: Sequence[Row],
    name: str,
    definition: Definition,
    settings: DecisionSettings,
) -> list[Rate]:
    """The share refused of each model's answers, and by category where rows say one; none of a judge
    that labels something else, nor where no answer was judged."""
    judge = open_judges({name: definition})[name]
    if not FAMILIES[judge.FAMILY].tells_refusal:
        return []
    defined = {name: versioned(definition, judge)} if settings.labels_ask is None else {}
    error = known_errors(defined, rows).get(name)
    sources = [{**row, "id": each["prompt_id"]} for row, each in zip(rows, verdicts, strict=True)]
    clusters = clusters_of(sources)
    groups: defaultdict[tuple[str, Group], list[Counted]] = defaultdict(list)
    categories: defaultdict[str, set[str]] = defaultdict(set)
    for row, verdict in zip(sources, verdicts, strict=True):
        response = answer_row("", recorded_answer(row, row.get("response")))
        became = outcome(response, cast(Verdict, verdict), refused_endings=settings.refused_endings)
        counted = Counted(became, clusters[row["id"]], prompt=row["id"])
        model = str(row.get("model") or "")
        category = row["category"] if row.get("category") in CATEGORIES else ""
        categories[model].add(category)
        groups[model, OVERALL].append(counted)
        if category:
            groups[model, Group("category", category)].append(counted)
    rates = []
    for (model, group), answers in groups.items():
        rate = answer_rate(Key(REFUSAL, group=group), answers, settings.confidence)
        if settings.interval == "prompts_and_judge":
            rate = with_judge_error(rate, error, settings.confidence, categories[model])
        if rate.value is not None:
            rates.append(rate.keyed(model=model))
    return rates
