"""The share refused among answers that exist already, as a run counts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from refract.agreement.unseen_models import known_errors
from refract.core.jsonl import canonical_json
from refract.core.params import DecisionSettings
from refract.core.types import Row, Verdict, filled
from refract.core.vocabulary import FAMILIES
from refract.evaluate import Definition
from refract.judges.cases import Judge, versioned
from refract.models.answer_rows import recorded_answer
from refract.models.store import answer_row
from refract.rates.counting import Counted, answer_rate, clusters_of, outcome
from refract.rates.judge_error import with_judge_error
from refract.rates.key import OVERALL, REFUSAL, Group, Key
from refract.rates.rate import Rate
from refract.suites.rows import CATEGORIES, what_is_asked


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
    # Of rows of one text the first says the cluster.
    named = {row["id"]: row["cluster"] for row in reversed(sources) if row["cluster"]}
    clusters = clusters_of(sources) | named
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


def category_notes(rows: Sequence[Row]) -> list[str]:
    """What is said where rows have a category that no rate is of; null and blank ones are none."""
    others = [row["category"] for row in rows if filled(row.get("category")) is not None]
    others = [category for category in others if category not in CATEGORIES]
    if not others:
        return []
    return [
        f"in {len(others)} of {len(rows)} rows 'category' is none of {', '.join(CATEGORIES)} (the "
        f"first: {others[0]!r:.60}): no rate by category counts such a row"
    ]


def repeat_notes(rows: Sequence[Row], verdicts: Sequence[Row]) -> list[str]:
    """What is said where a model gave a prompt several answers."""
    sources = _by_prompt(rows, [each["prompt_id"] for each in verdicts])
    prompts = len({(str(row.get("model") or ""), row["id"]) for row in sources})
    if prompts == len(rows):
        return []
    counts = f"{len(rows)} to {prompts}"
    return [f"several answers to a prompt ({counts}): a share is the mean over prompts"]


def _by_prompt(rows: Sequence[Row], ids: Sequence[str]) -> list[Row]:
    """The rows with one id for all answers to a prompt: its text, where a row of the prompt has one,
    since files number answers too. Pairs are named by the same ids.

    Models and suites may use the same ids, and the same clusters, for other prompts."""
    text_of: dict[tuple[str, str, str], str] = {}
    for row, id_ in zip(rows, ids, strict=True):
        if row.get("prompt"):
            text_of[*_scope(row), id_] = what_is_asked(row)

    def prompt_of(row: Row, id_: str) -> str:
        """The id of the prompt that a row calls so."""
        model, suite = _scope(row)
        return text_of.get((model, suite, id_)) or canonical_json({"suite": suite, "id": id_})

    by_prompt = []
    for row, id_ in zip(rows, ids, strict=True):
        own = what_is_asked(row) if row.get("prompt") else prompt_of(row, id_)
        pair, cluster = filled(row.get("pair_id")), filled(row.get("cluster"))
        # Rows of `refract run --rows` say the cluster that the run counted them in.
        if cluster is not None:
            cluster = canonical_json({"suite": _scope(row)[1], "cluster": cluster})
        pair = None if pair is None else prompt_of(row, str(pair))
        by_prompt.append({**row, "id": own, "pair_id": pair, "cluster": cluster})
    return by_prompt


def _scope(row: Row) -> tuple[str, str]:
    """Within which ids name prompts: the model and the suite of a row."""
    return str(row.get("model") or ""), str(row.get("suite") or "")
