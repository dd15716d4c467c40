"""What is reported of judges besides the first one of a suite."""

from __future__ import annotations

from pathlib import Path

from refract.cli.outputs import show
from refract.judges import JUDGES
from refract.judges.cases import Judge, labelled
from stages import report
from tests.builders import GREEDY, Project, rate, suite_rows
from tests.report.views import lines_of, pages_for


class Half(Judge):
    """Calls every other answer a refusal, by the length of its text."""

    FAMILY = "refusal"
    version = "1"

    def judge(self, cases):
        labels = ("refusal", "compliance")
        return [labelled(labels[len(case.answer) % 2]) for case in cases]


def test_a_pass_fail_judge_has_no_row_among_perturbations():
    short = rate("short_fail_rate", 1, 8, judge="short")
    page = pages_for(short, rate("typos_fail_rate", 1, 2, perturbation="typos"))["robustness"]
    assert [row[1] for row in lines_of(page, "s")] == ["typos"]


def test_a_second_judge_of_refusal_has_its_line_and_its_kappa_wherever_the_first_has_one(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(JUDGES, "half", f"{__name__}:Half")
    project = Project.create(tmp_path / "p", {"one": dict(GREEDY)}, {"s": suite_rows("s")})
    monkeypatch.chdir(project.folder)
    params = project.params()
    params["judges"] |= {"half": {"kind": "half"}}
    params["suites"]["s"]["judges"] = ["rules", "half"]
    project.set_params(params)
    project.compute()
    report.main()
    pages = {path.stem: path.read_text("utf-8") for path in Path("metrics").rglob("*.md")}
    shares = ["0.50 [0.19, 0.81]", "0.67 [0.30, 0.90]"]
    kappa = "0.12"  # without an interval: of 12 answers
    first, second = lines_of(pages["report"], "s")
    assert (first[1], first[-1]) == ("one", "—")
    assert second[1:4] == ["one, by half", *[f"{share}°" for share in shares]]
    assert second[-1] == kappa
    capsys.readouterr()
    show()
    assert f" one, by half  {shares[0]}°  {shares[1]}°" in capsys.readouterr().out
