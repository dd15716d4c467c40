"""What results were made of: ``metrics/provenance/MODEL.json``, and the same of `refract run`.

``provenance.schema.json`` describes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refract.core.types import Row


def suite_provenance(definition: Mapping[str, Any], samples: int, **origin: str) -> Row:
    """What the numbers of one suite were made of.

    ``definition`` is the suite's as in params.yaml, with its judges; ``samples`` how often each prompt
    was answered; ``origin`` what it is called and the hashes of its rows.
    """
    held: Row = {
        **origin,
        "judges": definition["judges"],
        "cut_off": definition.get("cut_off") or "judged",
        "cluster": definition.get("cluster"),
    }
    return held if samples == 1 else {**held, "samples": samples}
