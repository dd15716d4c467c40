"""The share refused among answers that exist already, as a run counts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from refract.agreement.unseen_models import known_errors
from refract.core.jsonl import canonical_json
from refract.core.params import DecisionSettings
from refract.core.types import Row, Verdict
from refract.core.vocabulary import FAMILIES
from refract.evaluate import Definition
from refract.judges.cases import Judge, versioned
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
    judge: Judge,
) -> list[Rate]:
    """The share refused of each model's answers, and by category where rows say one; none of a judge
    that labels something else, nor where no answer was judged. ``judge`` is the open one."""
    if not FAMILIES[judge.FAMILY].tells_refusal:
        return []
    defined = {name: versioned(definition, judge)} if settings.labels_ask is None else {}
    error = known_errors(defined, rows).get(name)
    sources = _by_prompt(rows, [each["prompt_id"] for each in verdicts])
    clusters = clusters_of(sources)
    groups: defaultdict[tuple[str, Group], list[Counted]] = defaultdict(list)
    categories: defaultdict[str, set[str]] = defaultdict(set)
    for row, verdict in zip(sources, verdicts, strict=True):
        response = answer_row("", recorded_answer(row, row.get("response")))
        became = outcome(response, cast(Verdict, verdict), refused_endings=settings.refused_endings)
        # Rows of `refract run --rows` say the cluster that the run counted them in.
        cluster = str(row.get("cluster") or clusters[row["id"]])
        counted = Counted(became, cluster, prompt=row["id"])
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


def _by_prompt(rows: Sequence[Row], ids: Sequence[str]) -> list[Row]:
    """The rows with one id for all answers to a prompt: its text, where rows have one, since files
    number answers too. Models may use the same ids for other prompts."""
    prompt_of: dict[tuple[str, str], str] = {}
    for row, id_ in zip(rows, ids, strict=True):
        text = canonical_json([row.get("cluster"), row["prompt"]]) if row.get("prompt") else id_
        prompt_of[str(row.get("model")), id_] = text
    by_prompt = []
    for row, id_ in zip(rows, ids, strict=True):
        model, pair = str(row.get("model")), row.get("pair_id")
        renamed = {"id": prompt_of[model, id_], "pair_id": prompt_of.get((model, str(pair)), pair)}
        by_prompt.append({**row, **renamed})
    return by_prompt
