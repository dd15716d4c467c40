"""What cannot be counted is named, whatever counts it."""

from __future__ import annotations

from math import nan

import pytest

from refract.statistics.clusters import clustered_difference, clustered_mcnemar, clustered_mean
from refract.statistics.correction import Sample, prediction_powered
from refract.statistics.hypotheses import holm
from refract.statistics.paired import tango
from refract.statistics.proportions import any_of_k, normal_quantile, wilson
from refract.statistics.raters import cohen_kappa, confusion, kappa_of_table
from refract.statistics.sample_sizes import drop_sample_size
from refract.statistics.weighted import draw_size

DRAWN = [True, False], [0.5, 0.5], [0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clustered_mean([True], []), r"cluster.*\(got 1"),
        (lambda: clustered_difference([True], [True], []), r"cluster.*\(got 1"),
        (lambda: clustered_mcnemar([True], [True], []), r"cluster.*\(got 1"),
        (lambda: clustered_mean([0.5, 1.5], [0, 1]), r"between 0 and 1 \(got 1.5\)"),
        (lambda: clustered_mean([0.5, -0.5], [0, 1]), r"between 0 and 1 \(got -0.5\)"),
        (lambda: prediction_powered(Sample([True], [], [])), r"same length \(got 1 and 0\)"),
        (
            lambda: prediction_powered(Sample([True], [True], [True], ["a"], [])),
            "got 1 and 0 names for 1 and 1 rows",
        ),
        *(
            (lambda i=i: prediction_powered(Sample(*DRAWN, inclusion=i)), "probability of its draw")
            for i in ([0.5], [0.5, 0.0], [0.5, 1.2])
        ),
        *(
            (lambda p=p: holm([0.5, p]), r"a p-value must be between 0 and 1, or None \(got")
            for p in (-0.1, 1.1, nan)
        ),
        (lambda: tango(1, 1, -1, 1), r"second_only must be a count of 0 or more \(got -1\)"),
        (lambda: wilson(3, 2), r"successes must be at most n \(got 3 of 2\)"),
        (lambda: wilson(-1, 2), r"successes must be a count of 0 or more \(got -1\)"),
        (lambda: wilson(nan, 2), r"successes must be a count"),
        (lambda: wilson(1, 2, 95), r"confidence must be above 0 and below 1.*\(got 95\)"),
        *(
            (lambda c=c: normal_quantile(c), rf"confidence must be above 0 and .*\(got {c}\)")
            for c in (0, 1, 1.5)
        ),
        (lambda: any_of_k(1, 3, 0), r"from 1 to the number of samples, 3 \(got 0\)"),
        (lambda: any_of_k(1, 3, 4), r"from 1 to the number of samples, 3 \(got 4\)"),
        (lambda: cohen_kappa(["a"], []), r"of the same length \(got 1 and 0\)"),
        (lambda: confusion(["a"], ["b"], ["a"]), r"must be one of \['a'\] \(got 'b'\)"),
        (lambda: kappa_of_table([[1, 2]]), r"must be square \(got rows of length \[2\]\)"),
        (lambda: kappa_of_table([[1, -2], [0, 0]]), r"0 or more \(got -2\)"),
        (lambda: drop_sample_size(0), r"must be above 0 .*\(got 0\)"),
        (lambda: drop_sample_size(0.1, power=80), r"power must be .*\(got 80\)"),
        (lambda: drop_sample_size(0.1, alpha=0), r"alpha must be .*\(got 0\)"),
        (lambda: drop_sample_size(0.6, 0.7), r"drop \+ churn must be at most 1"),
        (lambda: draw_size(1.5), r"between 0 and 1 \(got 1.5\)"),
    ],
)
def test_what_cannot_be_counted_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
