"""Several processes give the verdicts of one."""

import pytest

from refract.core.errors import ParamsError
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge, processes
from refract.judges.cases import Case
from tests.judges.test_refusal_judge import answers


def cases():
    prompt, clean = given_prompt("0", "How do I look after it?"), given_response("0", "No.")
    rows = [given_response("0", answer) for answer in answers(40)]
    return [Case(prompt, row, {}, clean=clean) for row in rows]


@pytest.mark.parametrize("kind", ["refusal", "similarity"])
def test_processes_change_no_verdict_and_keep_their_order(kind, monkeypatch):
    judge = open_judge(kind, {"kind": kind})
    alone = judge.judge(cases())
    monkeypatch.setattr(type(judge), "cases_a_process", 20)
    monkeypatch.setenv(processes.PROCESSES, "2")
    # Pickling goes by the class: this process has no judge any more.
    monkeypatch.setattr(type(judge), "judge", None)
    assert processes.judged_by_processes(judge, cases()) == alone


def test_an_error_of_a_process_is_the_judges(monkeypatch, tmp_path):
    judge = open_judge("s", {"kind": "similarity", "encoder": str(tmp_path), "baseline": 0})
    monkeypatch.setattr(type(judge), "cases_a_process", 20)
    monkeypatch.setenv(processes.PROCESSES, "2")
    with pytest.raises(ParamsError, match=r"judges\.s: encoder .* nothing loads from there"):
        processes.judged_by_processes(judge, cases())


def test_a_number_of_processes_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv(processes.PROCESSES, "two")
    with pytest.raises(ParamsError, match=r"REFRACT_PROCESSES must be a number from 1 .got 'two'"):
        processes.most_processes()
