"""The published suites that can be imported. To add one: add its entry to ``KINDS``.

Licences are as their publishers stated them when the entry was written; the publisher's own terms
decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from refract.rows.jsonl import Row

HARMFUL_REQUESTS = "Every row is harmful: a request that a model should refuse."


class Kind(NamedTuple):
    """How a published file becomes a suite.

    ``prompt`` and ``id`` name columns, the first of several that the file has; ``id`` may be empty.
    ``kept`` maps further columns to fields of the suite; others are left out, and named in the card.
    ``category`` gives a row's category, ``rule`` says how in words. ``context`` names a column that
    stands before the prompt, as its publisher sends it.
    """

    title: str
    url: str
    licence: str
    prompt: tuple[str, ...]
    id: tuple[str, ...]
    kept: dict[str, str]
    category: Callable[[Row], str]
    rule: str
    context: str | None = None


def _harmful(row: Row) -> str:
    return "harmful"


def _xstest(row: Row) -> str:
    return "harmful" if row["type"].startswith("contrast_") else "helpful"


KINDS = {
    "advbench": Kind(
        "AdvBench, harmful behaviors (Zou et al. 2023, arXiv 2307.15043)",
        "https://github.com/llm-attacks/llm-attacks",
        "MIT",
        ("goal",),
        (),
        {"target": "target"},
        _harmful,
        HARMFUL_REQUESTS,
    ),
    "donotanswer": Kind(
        "Do-Not-Answer (Wang et al. 2023, arXiv 2308.13387)",
        "https://github.com/Libr-AI/do-not-answer",
        "CC BY-NC-SA 4.0 (data): not for commercial use; share alike",
        ("question",),
        ("id",),
        {"risk_area": "risk_area", "types_of_harm": "harm", "specific_harms": "specific_harm"},
        _harmful,
        HARMFUL_REQUESTS,
    ),
    "harmbench": Kind(
        "HarmBench, text behaviors (Mazeika et al. 2024, arXiv 2402.04249)",
        "https://github.com/centerforaisafety/HarmBench",
        "MIT",
        ("Behavior",),
        ("BehaviorID",),
        {
            "Behavior": "behavior",
            "ContextString": "context",
            "FunctionalCategory": "functional",
            "SemanticCategory": "semantic",
            "Tags": "tags",
        },
        _harmful,
        HARMFUL_REQUESTS,
        "ContextString",
    ),
    "jailbreakbench": Kind(
        "JailbreakBench, JBB-Behaviors (Chao et al. 2024, arXiv 2404.01318)",
        "https://github.com/JailbreakBench/jailbreakbench",
        "MIT",
        ("Goal",),
        ("Index", ""),
        {"Behavior": "behavior", "Category": "area", "Source": "origin", "Target": "target"},
        _harmful,
        HARMFUL_REQUESTS,
    ),
    "jailbreakbench_artifact": Kind(
        "JailbreakBench, attack artifact (Chao et al. 2024, arXiv 2404.01318)",
        "https://github.com/JailbreakBench/artifacts",
        "MIT",
        ("prompt",),
        ("index",),
        {"goal": "goal", "behavior": "behavior", "category": "area"},
        _harmful,
        "Every row is harmful: a request, in the words of an attack, that a model should refuse.",
    ),
    "orbench": Kind(
        "OR-Bench (Cui et al. 2024, arXiv 2405.20947)",
        "https://huggingface.co/datasets/bench-llm/or-bench",
        "CC BY 4.0",
        ("prompt",),
        (),
        {"category": "area"},
        lambda row: "borderline",
        "Every row is borderline: a safe request that looks unsafe. (Its toxic set: "
        "--category harmful.)",
    ),
    "simplesafetytests": Kind(
        "SimpleSafetyTests (Vidgen et al. 2023, arXiv 2311.08370)",
        "https://github.com/bertiev/SimpleSafetyTests",
        "CC BY-NC 4.0 in the publisher's repository, not for commercial use; copies elsewhere say CC BY",
        ("prompts_final", "prompt"),
        ("id",),
        {"harm_area": "area", "category": "form", "counter": "counter"},
        _harmful,
        HARMFUL_REQUESTS,
    ),
    "strongreject": Kind(
        "StrongREJECT (Souly et al. 2024, arXiv 2402.10260)",
        "https://github.com/alexandrasouly/strongreject",
        "MIT",
        ("forbidden_prompt",),
        (),
        {"category": "area", "source": "origin"},
        _harmful,
        HARMFUL_REQUESTS,
    ),
    "xstest": Kind(
        "XSTest (Röttger et al. 2023, arXiv 2308.01263)",
        "https://github.com/paul-rottger/xstest",
        "CC BY 4.0",
        ("prompt",),
        ("id",),
        {"type": "type", "label": "label", "focus": "focus", "note": "note"},
        _xstest,
        "Rows whose type starts with contrast_ are harmful (the publisher's label: unsafe), all "
        "others helpful (safe). The published completion files can be imported too: they hold the "
        "prompts as they were asked.",
    ),
}
