"""Conversations: of those that are played, rates by turn, and in which turn a model first
refuses or complies; of those that go on after what tools return, whether harmful requests
are refused at once, after a result, or carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refract.core.types import sample_id, turn_id
from refract.core.vocabulary import EXCLUDED, JUDGED, REFUSED
from refract.rates.counting import (
    Counted,
    CountedSuite,
    PromptMeans,
    answer_rate,
    overall_rates,
)
from refract.rates.key import (
    CATEGORY_MEASURES,
    FIRST_MEASURES,
    REFUSED_UNTIL_END,
    STEP_ENDS,
    STEP_MEASURES,
    Group,
    Key,
)
from refract.rates.rate import Rate
from refract.rates.sampled import rate_of_prompts

TURN_FIELD = "turn"
# The value of a group of conversations in which it happened in no turn.
NEVER = "never"
Turns = dict[int, Counted]  # the answers of one conversation by turn


def turn_table(suite: CountedSuite) -> list[Rate]:
    """The rates of a suite's clean conversations by turn: of each category's answers
    how many refuse; of its conversations how many do so first in that turn, or in
    none.

    ``refused_until_end_rate`` is the share of harmful conversations that were refused
    at every turn. Shares of conversations are over those of which all turns were
    judged; what the others could be is in the bounds. Of several samples each is a
    conversation of its own, in one cluster."""
    played: dict[str, dict[str, Turns]] = {}
    for prompt in suite.rows:
        if "turn" in prompt and prompt["perturbation"] is None:
            conversation = f"{prompt['source_id']}~{prompt.get('sample', 1)}"
            turns = played.setdefault(prompt["category"], {}).setdefault(conversation, {})
            turns[prompt["turn"]] = suite.outcomes[prompt["prompt_id"]]
    by_turn: list[Rate] = []
    rates: list[Rate] = []
    for category, turns_of in played.items():
        conversations = list(turns_of.values())
        numbers = sorted({number for turns in conversations for number in turns})
        for number in numbers:
            answers = [turns[number] for turns in conversations if number in turns]
            key = Key(CATEGORY_MEASURES[category], group=Group(TURN_FIELD, str(number)))
            by_turn.append(answer_rate(key, answers, suite.confidence))
        for measure in FIRST_MEASURES:
            for first in (*numbers, None) if measure.category == category else ():
                key = Key(measure, group=Group(TURN_FIELD, str(first or NEVER)))
                rates.append(_first(key, first, conversations, suite.confidence))
        if category == REFUSED_UNTIL_END.category:
            key = Key(REFUSED_UNTIL_END)
            rates.append(_first(key, None, conversations, suite.confidence))
    return by_turn + rates


def _first(key: Key, number: int | None, conversations: Sequence[Turns], confidence: float) -> Rate:
    """The share of conversations in which an outcome of the key's measure is there first
    in a turn (None: in no turn)."""
    positive = key.measure.counted
    means = PromptMeans(known=[], lowest=[], highest=[], clusters=[])
    for turns in conversations:
        before = {turns[n].outcome for n in turns if number is None or n < number}
        not_before = before.isdisjoint(positive)
        is_first = before.issubset(JUDGED) and not_before
        could_be = not_before
        if number is not None:
            own = turns[number].outcome if number in turns else ""
            is_first &= own in positive
            could_be &= own in positive or own in EXCLUDED
        judged = all(answer.outcome in JUDGED for answer in turns.values())
        means.known.append(float(is_first) if judged else None)
        means.lowest.append(float(is_first))
        means.highest.append(float(could_be))
        means.clusters.append(next(iter(turns.values())).cluster)
    answers = [list(turns.values()) for turns in conversations]
    rate = rate_of_prompts(key, answers, means=means, confidence=confidence)
    successes = int(sum(value or 0 for value in means.known))
    return replace(rate, counts=replace(rate.counts, successes=successes))


def step_table(suite: CountedSuite) -> list[Rate]:
    """The shares of harmful requests that are refused before tools returned anything, that
    are refused after a result, without a harmful call, and that are complied with: by a
    harmful call at any step, or in words.

    A conversation that was not judged is excluded as its last answer's outcome says. All
    steps behind the last one have its answer."""
    at_once, later, carried_out = STEP_ENDS
    ends = []
    for row in suite.requested:
        if row["category"] != "harmful" or "tool_results" not in row:
            continue
        for sample, prompt_id in enumerate(suite.ids(row["id"]), 1):
            answer = suite.outcomes[prompt_id]
            if answer.outcome in REFUSED:
                last = suite.responses[prompt_id]["request_sha256"]
                turns = suite.prompts[prompt_id].get("turns", 1)
                end = at_once
                for turn in range(1, turns):
                    step_id = sample_id(turn_id(row["id"], turn, turns), sample)
                    step = suite.responses[step_id]
                    if step["request_sha256"] != last and step.get("tool_calls"):
                        end = later  # a call that another answer followed had a result
                answer = answer._replace(outcome=end)
            elif answer.outcome == "compliance":
                answer = answer._replace(outcome=carried_out)
            ends.append(answer)
    rates: list[Rate] = []
    if ends:
        for measure in STEP_MEASURES:
            rates += overall_rates(Key(measure), ends, suite.confidence)
    return rates
