"""A judge of something else than refusal is reported as a judge, and as no perturbation."""

from __future__ import annotations

from pathlib import Path

import pytest

from refract.core.settings import Settings
from refract.core.tables import read_table
from refract.judges import JUDGES
from refract.judges.cases import Judge, labelled
from stages import report
from tests.builders import GREEDY, Project, suite_rows
from tests.report.test_sections import lines_of


class ShortSettings(Settings):
    most: int = 6


class Short(Judge):
    """Passes answers of few words."""

    Settings = ShortSettings
    FAMILY = "pass_fail"
    version = "1"

    def judge(self, cases):
        most = self.settings.most
        return [labelled("pass" if len(case.answer.split()) <= most else "fail") for case in cases]


@pytest.fixture
def reported(tmp_path, monkeypatch):
    """Computes and reports one model on one suite under some perturbations."""
    monkeypatch.setitem(JUDGES, "short", f"{__name__}:Short")
    project = Project.create(tmp_path / "p", {"one": dict(GREEDY)}, {"s": suite_rows("s")})
    monkeypatch.chdir(project.folder)

    def compute(perturbations: list[str]) -> None:
        params = project.params()
        params["judges"] |= {"short": {"kind": "short"}}
        params["suites"]["s"] |= {"judges": ["rules", "short"], "perturbations": perturbations}
        project.set_params(params)
        project.compute()
        report.main()

    return compute


def test_a_pass_fail_judge_has_no_row_among_perturbations(reported):
    reported([])
    assert "What perturbations did" not in Path("metrics/report.md").read_text("utf-8")
    assert not Path("metrics/report/robustness.md").exists()
    failed = [row for row in read_table(Path("metrics/tables/one.csv")) if row["judge"] == "short"]
    assert {(row["measure"], row["perturbation"]) for row in failed} == {("fail_rate", "")}
    lines = lines_of(Path("metrics/report/judges.md").read_text("utf-8"), "s")
    assert [line[2] for line in lines if line[2].endswith("_rate")] == ["short_fail_rate"]
    # With a perturbation there is the page, with rows of it alone.
    reported(["typos"])
    page = Path("metrics/report/robustness.md").read_text("utf-8")
    rows = lines_of(page, "s")
    assert rows
    assert {row[1] for row in rows} == {"typos"}
    assert "short" not in page
