"""aggregate: verdict rows in; outcomes, rates with their intervals, and metrics out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.errors import ParamsError
from refract.rates.attacks import attack_table
from refract.rates.rates import (
    DEFAULT_THRESHOLDS,
    apply_thresholds,
    outcome,
    pair_table,
    rate_table,
    share_table,
)
from refract.rates.robustness import (
    DEFAULT_SENSITIVITY,
    comparisons,
    failing_rows,
    injection_table,
    robustness_table,
)
from refract.rates.verdicts import judge_table
from refract.rows.jsonl import Row, RowError, sha256_json


class Aggregate(NamedTuple):
    """What one suite's verdicts add up to.

    ``outcomes`` by prompt id; ``table`` of rates; ``compared``, one row for each perturbed prompt
    with what the perturbation did; ``failures``, the changed answers for reading.
    """

    outcomes: dict[str, str]
    table: list[Row]
    compared: list[Row]
    failures: list[Row]


def aggregate_suite(
    sources: Sequence[Row],
    prompts: Sequence[Row],
    responses: Sequence[Row],
    verdicts: Sequence[Row],
    definition: Mapping[str, Any],
    judges: Mapping[str, Mapping[str, Any]],
) -> Aggregate:
    """Outcomes and rates of one suite.

    ``definition`` is the suite's: its first judge decides the outcomes, its ``fields`` are
    tabulated, its ``thresholds`` are applied. ``judges`` maps the names of its judges to their
    definitions; one of kind similarity compares perturbed answers, one of kind strings looks for
    attacks' strings. Raises :class:`RowError` when the rows do not belong together,
    :class:`ParamsError` for fields and thresholds that the suite does not have.
    """
    prompt_of = {row["prompt_id"]: row for row in prompts}
    response_of = {row["prompt_id"]: row for row in responses}
    verdict_of = {row["prompt_id"]: row["judges"] for row in verdicts}
    unmatched = [id_ for id_ in prompt_of if id_ not in response_of or id_ not in verdict_of]
    if unmatched:
        raise RowError(
            f"{len(unmatched)} prompts have no response or no verdict, such as {unmatched[0]!r}; "
            "run: dvc repro"
        )
    by_kind = {judges[name]["kind"]: name for name in reversed(definition["judges"])}
    count_cut_off = bool(definition.get("count_cut_off", False))
    headline = definition["judges"][0]
    outcomes = {
        id_: outcome(response_of[id_], verdict_of[id_].get(headline), count_cut_off=count_cut_off)
        for id_ in prompt_of
    }
    asked = [row for row in sources if row["id"] in outcomes]
    fields = definition.get("fields") or []
    table = rate_table(sources, outcomes, fields) + share_table(sources, outcomes)
    table += pair_table(sources, outcomes, fields)
    table += attack_table(sources, prompts, outcomes, fields)
    if "strings" in by_kind:
        found = {id_: verdict[by_kind["strings"]] for id_, verdict in verdict_of.items()}
        table += injection_table(asked, found, outcomes)
    others = {name: judges[name] for name in definition["judges"][1:]}
    table += judge_table(verdicts, outcomes, others)
    thresholds = dict(definition.get("thresholds") or {})
    similarity = by_kind.get("similarity")
    compared = comparisons(
        prompts,
        response_of,
        None if similarity is None else {i: v[similarity]["score"] for i, v in verdict_of.items()},
        outcomes,
        judges[similarity].get("output_sensitivity", DEFAULT_SENSITIVITY)
        if similarity
        else DEFAULT_SENSITIVITY,
    )
    limits = {}
    for name in {row["name"] for row in compared}:
        limit = thresholds.pop(f"{name}_fail_rate", None)
        if limit is not None:
            if "max" not in limit:
                raise ParamsError(f"the threshold of {name}_fail_rate must be {{max: x}}")
            limits[name] = limit["max"]
    measured = {row["measure"] for row in table}
    defaults = {name: limit for name, limit in DEFAULT_THRESHOLDS.items() if name in measured}
    apply_thresholds(table, defaults | thresholds)
    table += robustness_table(compared, limits)
    return Aggregate(outcomes, table, compared, failing_rows(compared, prompt_of, response_of))


def outcome_lines(suite: str, prompts: Sequence[Row], found: Aggregate) -> list[Row]:
    """One line for each prompt variant, without its text.

    ``prompt_sha256`` is the start of the hash of what was asked, so that two results can be compared
    prompt by prompt; ``changed`` is 1 or 0 where a perturbation was tested.
    """
    changed = {row["prompt_id"]: row["changed"] for row in found.compared}
    return [
        {
            "suite": suite,
            "prompt_id": prompt["prompt_id"],
            "source_id": prompt["source_id"],
            "category": prompt["category"],
            "perturbation": (prompt["perturbation"] or {}).get("name", ""),
            "prompt_sha256": sha256_json(prompt["attempts"])[:16],
            "outcome": found.outcomes[prompt["prompt_id"]],
            "changed": None
            if changed.get(prompt["prompt_id"]) is None
            else int(changed[prompt["prompt_id"]]),
        }
        for prompt in prompts
    ]


def usage(responses: Sequence[Row], price: Mapping[str, float] | None) -> Row:
    """Tokens that the answers to some prompts took, reused ones included, and what they cost.

    ``price`` is in USD per million tokens; the cost is None without one, a count where an answer
    does not say its own.
    """
    counts = {}
    for kind in ("prompt_tokens", "completion_tokens"):
        known = [row[kind] for row in responses if row["error"] is None]
        counts[kind] = None if None in known else sum(known)
    cost = None
    if price and None not in counts.values():
        dollars = counts["prompt_tokens"] * price["input"]
        dollars += counts["completion_tokens"] * price["output"]
        cost = round(dollars / 1e6, 4)
    return {**counts, "cost_usd": cost}
