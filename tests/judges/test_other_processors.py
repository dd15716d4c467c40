"""Judges with a model of their own give the same bytes whatever computes them, and statistics round
halves alike."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from math import comb

import pytest

from refract.rates.rate import rounded
from refract.statistics.clusters import clustered_mcnemar
from tests.builders import ROOT
from tests.judges.test_refusal_judge import answers

# Judges texts in batches of so many, and prints every verdict.
JUDGE = """
import json, sys
from refract.judges import open_judge
from tests.judge_models import judged
texts, size = json.load(sys.stdin)
parts = [texts[at : at + size] for at in range(0, len(texts), size)]
score = open_judge("s", {"kind": "similarity"}).score
pairs = list(zip(texts, texts[1:] + texts[:1]))
pairs = [pairs[at : at + size] for at in range(0, len(pairs), size)]
print([row for part in pairs for row in score(part)])
rows = [row for part in parts for row in judged({"kind": "refusal"}, *part)]
print(json.dumps(rows, sort_keys=True))
"""
LIMITS = """
import json
from tests.rates.test_judge_error import VARIED, alone, of
print(json.dumps([of(VARIED, alone(found / 24, n=24)) for found in range(25)]))
"""
# What makes OpenBLAS and NumPy take other kernels.
PLAIN = {
    "OPENBLAS_CORETYPE": "Prescott",
    # Of NumPy before 2.4 and since; it ignores those that it does not know.
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX X86_V3 X86_V4 AVX512_ICL",
}


def printed(size: int, **machine: str) -> bytes:
    """What a process prints of the verdicts, on a machine of such variables."""
    texts = [text[: random.Random(text).randint(1, 100)] for text in answers(6)]
    return run(JUDGE, json.dumps([texts, size]).encode(), machine)


def run(script: str, given: bytes, machine: Mapping[str, str]) -> bytes:
    """What a script prints in a process of its own."""
    env = {**os.environ, "REFRACT_CACHE": "off", "PYTHONWARNINGS": "ignore", **machine}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=given, capture_output=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_verdicts_are_the_same_bytes_on_every_processor():
    found = printed(4, OPENBLAS_NUM_THREADS="2", **PLAIN)
    assert b"0." in found
    assert found == printed(6, OPENBLAS_NUM_THREADS="1")


def test_limits_with_the_judges_error_have_the_digits_that_every_processor_gives():
    found = run(LIMITS, b"", PLAIN)
    assert found == run(LIMITS, b"", {})
    limits = [limit for interval in json.loads(found) for limit in interval]
    assert limits == [float(f"{limit:.9g}") for limit in limits]
    assert len({*limits}) > 40


@pytest.mark.parametrize("off", [-2e-17, 0.0, 7e-18, 3e-15])
def test_halves_are_rounded_alike_whatever_a_library_makes_of_their_last_digits(off):
    assert rounded(0.03125 + off) == rounded(0.03125)


def test_the_p_of_many_pairs_is_the_correctly_rounded_sum():
    first = [n % 7 < 4 for n in range(90)]
    second = [n % 5 < 2 for n in range(90)]
    up = sum(a and not b for a, b in zip(first, second, strict=True))
    down = sum(b and not a for a, b in zip(first, second, strict=True))
    flips = up + down
    tail = sum(comb(flips, k) for k in range(flips + 1) if abs(2 * k - flips) >= abs(up - down))
    assert clustered_mcnemar(first, second, range(90)) == float(Fraction(tail, 2**flips))
