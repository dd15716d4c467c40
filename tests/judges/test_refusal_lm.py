"""The trial of a language model as a judge: what it may be trained on, and what is measured."""

from __future__ import annotations

import numpy as np
import pytest

from refract.statistics.raters import cohen_kappa
from tools.refusal_encoder.data import SOURCES, Example, may_shape_weights

pytest.importorskip("torch")
pytest.importorskip("gguf")

import torch

from tools.refusal_lm.__main__ import kappa, split
from tools.refusal_lm.training import Kept

NOTHING = torch.zeros(0)


@pytest.mark.parametrize("left_out", [(), ("xstest", "xstest_extension"), ("wildguard",)])
def test_nothing_is_trained_on_that_is_read_or_may_only_be_measured(
    left_out: tuple[str, ...],
) -> None:
    names = [*dict.fromkeys(name for name, *_ in SOURCES.values()), "cases"]
    rows = [Kept(Example(n, "", "", n, (0,), True), NOTHING, NOTHING, NOTHING) for n in names]
    train, test = ({row.example.source for row in part} for part in split(rows, left_out))
    assert not train & test
    assert not train & {*left_out}
    assert all(may_shape_weights(source) for source in train - {"cases"})
    # On the extension of XSTest coefficients are fitted: it is read without XSTest alone.
    assert test == {*left_out} or (not left_out and test == {"orfuzz", "do_not_answer", "own"})


def test_kappa_of_weighted_rows_is_that_of_rows_that_occur_so_often() -> None:
    says, truth = np.array([True, True, False, False]), np.array([True, False, False, True])
    times = np.array([5, 1, 4, 2])
    many = cohen_kappa(np.repeat(says, times).tolist(), np.repeat(truth, times).tolist())
    assert kappa(says, truth, times / 7) == pytest.approx(many.kappa)
