"""Sample sizes and detectable differences: published examples, exact power, inverses."""

from __future__ import annotations

import pytest

from refract.statistics.sample_sizes import sample_size_paired


def test_paired_sample_size_is_the_published_one():
    # Shares .05 and .45, power .8: 22.01 by Connor's formula (22 in the tests of R package MESS)
    assert sample_size_paired(0.05, 0.45) == 23


@pytest.mark.parametrize(("b", "c"), [(0.15, 0.05), (0.3, 0.2), (0.06, 0.01)])
def test_the_paired_sample_size_has_its_power(b, c):
    import numpy as np

    n = sample_size_paired(b, c)
    drawn = np.random.default_rng(53).multinomial(n, (b, c, 1 - b - c), size=2000)
    discordant, times = np.unique(drawn[:, :2], axis=0, return_counts=True)
    found = sum(
        repeats
        for pair, repeats in zip(discordant.tolist(), times.tolist(), strict=True)
        if pair != [0, 0] and (pair[0] - pair[1]) ** 2 / sum(pair) >= 1.96**2  # McNemar's χ²
    )
    assert 0.77 < found / 2000 < 0.86
