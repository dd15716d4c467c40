"""What a definition may add to each request: ``extra_body`` and ``extra_headers``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

_PROMPTS = "prompts come from suites; system_prompt and prefill stand beside extra_body"
_WHOLE = "leave it out, since each answer is read whole from its call"
# Parts of a request's body that the run decides itself, and what to write instead. In extra_body they
# would take their place unseen: the run would measure something else than it says, and max_cost, which
# knows max_tokens alone, would not hold.
DECIDED: Mapping[str, str] = MappingProxyType(
    {
        "model": "set model_id",
        **dict.fromkeys(("messages", "input", "prompt"), _PROMPTS),
        **dict.fromkeys(("previous_response_id", "conversation"), _PROMPTS),
        **dict.fromkeys(("system", "instructions"), "set system_prompt"),
        "temperature": "set temperature beside extra_body",
        "top_p": "set top_p beside extra_body",
        "max_tokens": "set max_tokens beside extra_body",
        **dict.fromkeys(
            (
                "max_completion_tokens",
                "max_output_tokens",
                "max_new_tokens",
                "max_length",
                "max_tokens_to_sample",
                "n_predict",
                "num_predict",
            ),
            "set max_tokens",
        ),
        **dict.fromkeys(("seed", "random_seed"), "the run draws a seed for each row"),
        **dict.fromkeys(("n", "best_of"), "set samples, how often each prompt is answered"),
        **dict.fromkeys(("stream", "background"), _WHOLE),
    }
)
# How HTTP writes a header's name and its value.
NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
VALUE = re.compile(r"([!-~]+([ \t]+[!-~]+)*)?")
FRAMING = ("content-length", "transfer-encoding")  # which follow from the body


def refuse_decided(keys: Collection[str], decided: Mapping[str, str]) -> None:
    """Raises ValueError for a key of ``extra_body`` that the run decides itself, with what to write
    instead; ``decided``: these keys, as in :data:`DECIDED`."""
    for key in decided:
        if key in keys:
            raise ValueError(
                f"extra_body must not hold {key}, which a run decides itself: {decided[key]}"
            )


def refuse_illegal(headers: Mapping[str, str]) -> None:
    """Raises ValueError for a header that HTTP cannot send. Its value may be a key, and is not shown."""
    for name, value in headers.items():
        if not NAME.fullmatch(name):
            raise ValueError(
                f"extra_headers holds the name {name!r:.80}, and the name of a header has only ASCII "
                "letters, digits and marks such as -, without spaces"
            )
        if name.lower() in FRAMING:
            raise ValueError(f"extra_headers must not hold {name}, which follows from the body")
        if not VALUE.fullmatch(value):
            raise ValueError(
                f"extra_headers.{name} must be printable ASCII on one line, without spaces at its ends "
                "(what came is not shown)"
            )
