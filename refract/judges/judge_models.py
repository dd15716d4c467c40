"""The models that judges send requests to: loaded once, their replies stored like every answer."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from refract.core.jsonl import canonical_json
from refract.core.showing import say
from refract.core.types import Message
from refract.models import identity_of
from refract.models.protocol import Answer, Model, Request
from refract.models.store import ResponseStore, request_sha256
from refract.models.store.generating import generate

Place = TypeVar("Place", bound=Hashable)
# A conversation, and the seed of a judge that samples.
Question = tuple[tuple[Message, ...], int]

_LOADED: dict[str, Model] = {}
MOST_LOADED = 2


def loaded_once(definition: Mapping[str, Any], model: Model) -> Model:
    """The model, or the one of an equal definition before it, so that weights are loaded once for
    all suites. At most two stay in memory."""
    key = canonical_json([definition, identity_of(model)])
    if key not in _LOADED:
        while len(_LOADED) >= MOST_LOADED:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = model
    return _LOADED[key]


def replies_of(
    model: Model, questions: Mapping[Place, Question], store: ResponseStore
) -> dict[Place, Answer]:
    """The model's reply to each question; those it gave before come from the store."""
    if not questions:
        return {}
    identity = canonical_json(identity_of(model))
    keys, requests = {}, {}
    for place, (conversation, seed) in questions.items():
        request = Request((conversation,), seed, dict.fromkeys(model.USES))
        keys[place] = request_sha256(identity, request, model)
        requests[keys[place]] = request
    answers, made = generate(model, requests, store, "judge")
    say(
        f"judge: {len(requests) - len(made)} replies reused, {len(made)} generated", file=sys.stderr
    )
    return {place: answers[key] for place, key in keys.items()}
