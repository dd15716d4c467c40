"""Exact answers, their verdicts and numbers under other arithmetics of one machine, in a short form."""

from __future__ import annotations

import sys

import pytest

from refract.models.cpu import running_on
from refract.project import default_project
from tests.models.test_cpu import folder
from tools.machines import KINDS, Arithmetic, apart, computing, differing, drawn, measured

__all__ = ["folder"]

POCKET = default_project().params["models"]["pocket_small"]


@pytest.fixture(scope="module")
def asked(folder):
    """A pocket model, and one whose layers are large enough for oneDNN and for threads."""
    large = {"adapter": "hf", "model_id": str(folder), "device": "cpu"}
    models = {"pocket_small": POCKET | {"max_tokens": 16}, "large": large | {"max_tokens": 8}}
    return models, dict.fromkeys(models, 6), ["harmful_helpful"]


def here(arithmetic, threads, asked):
    with running_on(threads), computing(arithmetic):
        return measured(arithmetic.settings, *asked)


@pytest.fixture(scope="module")
def first(asked):
    return here(Arithmetic("1 thread"), 1, asked)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(
    ("arithmetic", "threads"),
    [
        (Arithmetic("MKL alone, rows one by one", rows=1, onednn=False), 2),
        (Arithmetic("bfloat16, 64 rows", settings={"dtype": "bfloat16"}, rows=64), 1),
        (Arithmetic("instructions of any x86",
         {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}), None),
    ],
    ids=lambda given: getattr(given, "name", None),
)  # fmt: skip
def test_exact_answers_verdicts_and_metrics_have_the_same_bytes(asked, first, arithmetic, threads):
    if arithmetic.variables:
        found = apart(arithmetic, sys.executable, *asked)
    else:
        found = here(arithmetic, threads, asked)
    assert differing(first["exact"], found["exact"]) == dict.fromkeys(KINDS, 0)
    assert len(first["exact"]["answers"]) == 12
    # what is compared does see another arithmetic
    if arithmetic.settings:
        assert differing(first["fast"], found["fast"])["answers"] > 0
    else:
        assert found["exact"]["error"] != first["exact"]["error"]


def test_prompts_are_drawn_from_all_over_the_suites_with_their_variants():
    prompts = {suite: [{"source_id": f"{suite}{n // 2}"} for n in range(20)] for suite in "ab"}
    expected = {suite: [*rows[:2], *rows[10:12]] for suite, rows in prompts.items()}
    assert drawn(prompts, 8) == expected
    assert drawn(prompts, 40) == prompts
    assert drawn(prompts, 1000) == prompts
