"""Several processes give the verdicts of one."""

import os

import pytest

from refract.core.errors import ParamsError, RefractError
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge, processes
from refract.judges.cases import Case, Judge, labelled
from tests.judges.test_refusal_judge import answers


def cases():
    prompt, clean = given_prompt("0", "How do I look after it?"), given_response("0", "No.")
    rows = [given_response("0", answer[:200]) for answer in answers(20)]
    return [Case(prompt, row, {}, clean=clean) for row in rows]


@pytest.mark.parametrize("kind", ["refusal", "similarity"])
def test_processes_change_no_verdict_and_keep_their_order(kind, monkeypatch):
    judge = open_judge(kind, {"kind": kind})
    alone = judge.judge(cases())
    monkeypatch.setattr(type(judge), "cases_a_process", 10)
    monkeypatch.setenv(processes.PROCESSES, "2")
    # Pickling goes by the class: this process has no judge any more.
    monkeypatch.setattr(type(judge), "judge", None)
    parts = []
    divided = processes.divided
    monkeypatch.setattr(
        processes, "divided", lambda *asked: parts.append(asked[1]) or divided(*asked)
    )
    loaded = set[str]()
    monkeypatch.setattr(processes, "loaded_by_processes", loaded)
    assert processes.judged_by_processes(judge, cases()) == alone
    assert loaded >= {"numpy", "tokenizers"}
    assert parts == [2 * processes.SHARES_A_PROCESS]


@pytest.mark.parametrize(
    ("cases", "parts", "sizes"), [(5, 8, [5]), (100, 4, [32, 32, 32, 4]), (700, 2, [256, 256, 188])]
)
def test_shares_are_multiples_of_sixteen_cases_and_not_too_large(cases, parts, sizes):
    shares = processes.divided(range(cases), parts)
    assert [len(share) for share in shares] == sizes
    assert [case for share in shares for case in share] == list(range(cases))


class OfProcess(Judge):
    """Gives the number of the process as the score."""

    FAMILY = "refusal"
    cases_a_process = 10

    def judge(self, cases):
        if not self.settings:
            os._exit(3)
        if self.settings == "wrong":
            raise ParamsError("judges.of_process: no weights")
        return [labelled("refusal", os.getpid()) for _ in cases]


def processes_used(judge):
    return {verdict["score"] for verdict in processes.judged_by_processes(judge, cases())}


def test_processes_stay_for_further_cases_while_they_are_wanted(monkeypatch):
    monkeypatch.setenv(processes.PROCESSES, "2")
    judge = OfProcess("of_process", "settings")
    with processes.processes_stay():
        used = processes_used(judge)
        assert os.getpid() not in used
        assert processes_used(judge) <= used
        # They are there, so that few cases are worth a process, too.
        judge.cases_a_process = 1000
        assert processes_used(judge) <= used
    assert processes_used(judge) == {os.getpid()}


def test_an_error_of_a_process_is_the_judges_and_one_that_ends_too_early_says_so(monkeypatch):
    monkeypatch.setenv(processes.PROCESSES, "2")
    for settings, error, says in (
        (None, RefractError, "of_process: a process that judged ended with code 3"),
        ("wrong", ParamsError, r"judges\.of_process: no weights"),
    ):
        with pytest.raises(error, match=says):
            processes_used(OfProcess("of_process", settings))
    assert processes_used(OfProcess("of_process", "settings"))


def test_as_many_processes_judge_as_there_are_cores_to_use(monkeypatch):
    monkeypatch.delenv(processes.PROCESSES)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 6}, raising=False)
    assert processes.most_processes() == 3


def test_a_number_of_processes_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv(processes.PROCESSES, "two")
    with pytest.raises(ParamsError, match=r"REFRACT_PROCESSES must be a number from 1 .got 'two'"):
        processes.most_processes()
