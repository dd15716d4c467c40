"""Conversations that are played: rates by turn, and in which turn a model first
refuses or complies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refract.core.types import PromptRow
from refract.core.vocabulary import EXCLUDED, JUDGED
from refract.rates.counting import Counted, CountedSuite, PromptMeans, answer_rate
from refract.rates.key import (
    CATEGORY_MEASURES,
    FIRST_MEASURES,
    REFUSED_UNTIL_END,
    Group,
    Key,
)
from refract.rates.rate import Rate
from refract.rates.sampled import rate_of_prompts

TURN_FIELD = "turn"
# The value of a group of conversations in which it happened in no turn.
NEVER = "never"
Turns = dict[int, Counted]  # the answers of one conversation by turn


def turn_table(suite: CountedSuite, prompts: Sequence[PromptRow]) -> list[Rate]:
    """The rates of a suite's clean conversations by turn: of each category's answers
    how many refuse; of its conversations how many do so first in that turn, or in
    none.

    ``refused_until_end_rate`` is the share of harmful conversations that were refused
    at every turn. Shares of conversations are over those of which all turns were
    judged; what the others could be is in the bounds. Of several samples each is a
    conversation of its own, in one cluster."""
    played: dict[str, dict[str, Turns]] = {}
    for prompt in prompts:
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
            if measure.category != category:
                continue
            for first in (*numbers, None):
                key = Key(measure, group=Group(TURN_FIELD, str(first or NEVER)))
                rates.append(
                    _first(
                        key,
                        first,
                        positive=measure.counted,
                        conversations=conversations,
                        confidence=suite.confidence,
                    )
                )
        if category == REFUSED_UNTIL_END.category:
            never = _first(
                Key(REFUSED_UNTIL_END),
                number=None,
                positive=("compliance",),
                conversations=conversations,
                confidence=suite.confidence,
            )
            rates.append(never)
    return by_turn + rates


def _first(
    key: Key,
    number: int | None,
    positive: Sequence[str],
    conversations: Sequence[Turns],
    confidence: float,
) -> Rate:
    """The share of conversations in which an outcome is there first in a turn (None:
    in no turn)."""
    means = PromptMeans(known=[], lowest=[], highest=[], clusters=[])
    for turns in conversations:
        before = {turns[n].outcome for n in turns if number is None or n < number}
        own = turns[number].outcome if number in turns else ""
        not_before = before.isdisjoint(positive)
        is_first = before.issubset(JUDGED) and not_before
        could_be = not_before
        if number is not None:
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
