"""The figures of chosen models and suites."""

from __future__ import annotations

import pytest

from refract.core.errors import UsageError
from refract.core.tables import read_table
from refract.report.figure_data import figures_of
from refract.report.view import read_view
from refract_paper.figures import only
from tests.builders import ROOT


def test_chosen_models_and_suites_are_drawn_alone_with_p_as_for_all():
    view = read_view(ROOT)
    models, suites = {"smollm2_135m", "pocket_small"}, {"harmful_helpful", "robustness"}
    figures = {each.name: each for each in figures_of(only(view, [*models], [*suites]))}
    assert {row["line"] for row in figures["refusal"].rows} == models
    assert {row["panel"].partition("[")[0] for row in figures["refusal"].rows} == suites
    expected = []
    for row in read_table(ROOT / "metrics/report/comparisons.csv"):
        if {row["first"], row["second"]} == models and row["suite"] in suites:
            expected.append((row["suite"], row["category"], row["p_adjusted"]))
    shown = figures["comparisons"].rows
    assert [(row["panel"], row["series"], row["p"] or "") for row in shown] == expected
    with pytest.raises(UsageError, match="'synthetics' is not in these results; did you mean"):
        only(view, ["synthetics"], [])
