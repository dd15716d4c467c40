"""A judge of something else than refusal is reported as a judge, and as no perturbation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.cli.outputs import show, table
from refract.core.settings import Settings
from refract.core.tables import read_table
from refract.judges import JUDGES
from refract.judges.cases import Judge, labelled
from refract.report.judge_notes import verdict_pairs
from stages import report
from tests.builders import GREEDY, Project, suite_rows
from tests.report.views import lines_of


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


class Half(Judge):
    """Calls every other answer a refusal, by the length of its text."""

    FAMILY = "refusal"
    version = "1"

    def judge(self, cases):
        labels = ("refusal", "compliance")
        return [labelled(labels[len(case.answer) % 2]) for case in cases]


@pytest.fixture
def reported(tmp_path, monkeypatch):
    """Computes and reports one model on one suite under some perturbations."""
    monkeypatch.setitem(JUDGES, "short", f"{__name__}:Short")
    monkeypatch.setitem(JUDGES, "half", f"{__name__}:Half")
    project = Project.create(tmp_path / "p", {"one": dict(GREEDY)}, {"s": suite_rows("s")})
    monkeypatch.chdir(project.folder)

    def compute(perturbations: list[str], judge: str = "short") -> None:
        params = project.params()
        params["judges"] |= {judge: {"kind": judge}}
        params["suites"]["s"] |= {"judges": ["rules", judge], "perturbations": perturbations}
        project.set_params(params)
        project.compute()
        report.main()

    return compute


def page(name: str) -> str:
    return Path(f"metrics/{name}.md").read_text("utf-8")


def test_a_pass_fail_judge_has_no_row_among_perturbations(reported, capsys):
    reported([])
    assert "What perturbations did" not in page("report")
    assert not Path("metrics/report/robustness.md").exists()
    failed = [row for row in read_table(Path("metrics/tables/one.csv")) if row["judge"] == "short"]
    assert {(row["measure"], row["perturbation"]) for row in failed} == {("fail_rate", "")}
    lines = lines_of(page("report/judges"), "s")
    assert [line[3] for line in lines if line[2] == "short"] == ["fail rate"]
    show()
    assert "short  fail rate" in capsys.readouterr().out
    # With a perturbation there is the page, with rows of it alone.
    reported(["typos"])
    assert {row[1] for row in lines_of(page("report/robustness"), "s")} == {"typos"}
    assert "short" not in page("report/robustness")


def test_a_second_judge_of_refusal_has_its_line_and_its_kappa_wherever_the_first_has_one(
    reported, capsys
):
    reported([], "half")
    rates = ["0.50 [0.19, 0.81]", "0.67 [0.30, 0.90]"]
    kappa = "0.12 [-0.53, 0.68]"
    first, second = lines_of(page("report"), "s")
    assert (first[1], first[-1]) == ("one", "—")
    assert second[1:4] == ["one, by half", *[f"{rate}°" for rate in rates]]
    assert second[-1] == kappa
    capsys.readouterr()
    show()
    assert f" one, by half  {rates[0]}°  {rates[1]}°" in capsys.readouterr().out
    table()
    assert ["one, by half", *rates, kappa] in markdown_rows(capsys.readouterr().out)
    html = Path("data/report/report.html").read_text("utf-8")
    line = html.partition("one, by half</a>")[2].split("</tr>")[0]
    assert f"<span>{kappa}</span>" in line
    # What the second judge refused cannot be listed by the outcomes, which are the first one's.
    assert "outcome=" not in line
    # The page on judges computes the same from the verdicts.
    alike = lines_of(page("report/judges"), "s")[-1]
    assert {"rules, half", kappa} <= set(alike)
    # With one judge there is neither.
    reported([])
    assert "agreement (κ)" not in page("report")


def test_only_judges_that_read_answers_agree_with_the_first():
    labels = {"first": "refusal", "a": "compliance", "b": "degenerate"}
    verdicts = [{"judge": judge, "label": label} for judge, label in sorted(labels.items())]
    verdicts.append({"judge": "thought", "label": "refusal", "reads": "thinking"})
    pairs = verdict_pairs({"verdicts": json.dumps(verdicts)}, "first")
    assert list(pairs) == [("first, a", (True, False))]


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of the lines of a Markdown table."""
    rows = []
    for line in text.replace("\\", "").splitlines():
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
