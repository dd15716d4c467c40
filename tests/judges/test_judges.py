"""The registry of judges: every kind is one, and what none of them would count is an error."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import RowsById, stored_rows, write_rows
from refract.core.settings import Settings, schema_of
from refract.core.vocabulary import FAMILIES
from refract.judges import (
    JUDGES,
    check_counted,
    judge_rows,
    judge_suite,
    noting_errors,
    open_judge,
    open_judges,
)
from refract.judges.cases import AnsweredSuite, Judge, NoSettings, unjudged
from tests.builders import ROOT
from tests.judge_models import judge_stage, prompt_of, response_of

# What a definition must say at least, of the kinds that do not open without settings.
NEEDED: dict[str, dict] = {}
for kind in (
    "coherency",
    "harmfulness",
    "llm_refusal",
    "refusal_cause",
    "requirement",
):
    NEEDED[kind] = {"model": {"adapter": "synthetic"}}


def definition(kind: str) -> dict:
    return {"kind": kind, **NEEDED.get(kind, {})}


@pytest.mark.parametrize("kind", [*JUDGES, *NEEDED])
def test_every_kind_states_a_family_that_is_counted_and_describes_each_setting(kind):
    judge = open_judge("j", definition(kind))
    assert judge.FAMILY in FAMILIES
    assert judge.version
    assert issubclass(judge.Settings, Settings)
    for field in schema_of(judge.Settings).get("properties", {}).values():
        assert field["description"]
        assert field["allowed"]


def test_opening_a_judge_imports_no_torch():
    code = "import sys; from refract.judges import open_judges; open_judges(eval(sys.argv[1]))"
    code += "; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    given = ["python", "-c", code, repr({kind: definition(kind) for kind in [*JUDGES, *NEEDED]})]
    assert subprocess.run(given, check=False, cwd=ROOT).returncode == 0


def opened(*kinds: str):
    return open_judges({kind: definition(kind) for kind in kinds})


@pytest.mark.parametrize("first", ["strings", "similarity", "harmfulness", "requirement"])
def test_a_first_judge_that_does_not_label_refusal_is_an_error(first):
    with pytest.raises(ParamsError, match=rf"s: judges: .*{first} gives .*\[rules, {first}\]"):
        check_counted("s", opened(first, "rules"), perturbed=True)
    check_counted("s", opened("rules", first), perturbed=True)


class Odd(Judge):
    FAMILY = "pass_fail"
    version = "1"

    def judge(self, cases):
        return [{**unjudged(), "label": "maybe"} for _ in cases]


def test_a_judge_of_an_unknown_family_is_an_error(monkeypatch):
    monkeypatch.setitem(JUDGES, "odd", f"{__name__}:Odd")
    monkeypatch.setattr(Odd, "FAMILY", "colour")
    with pytest.raises(ParamsError, match=r"judges\.j: .*'colour'.* must be one of refusal, pass_"):
        open_judge("j", {"kind": "odd"})
    monkeypatch.delattr(Odd, "FAMILY")
    with pytest.raises(
        ParamsError, match=r"judges\.j: .* family ''; FAMILY must be one of refusal"
    ):
        open_judge("j", {"kind": "odd"})


def test_a_label_outside_the_family_is_an_error():
    prompts, responses = [prompt_of("a", "Hi?")], [response_of("a", "Hi.")]
    with pytest.raises(ParamsError, match=r"judges\.j: gives the label maybe; .* are pass, fail"):
        judge_suite(prompts, responses, {"a": {"id": "a"}}, {"j": Odd("j", NoSettings())})


class Seen(Judge):
    """Says what it was given beside the answer, and with how many others."""

    Settings, FAMILY, version = NoSettings, "refusal", "1"

    def decided_by(self):
        return None  # what it says depends on the others

    def judge(self, cases):
        beside = [(x.source["id"], x.clean and x.clean["prompt_id"], x.pair) for x in cases]
        pairs = [(*of, pair and pair.response["response"]) for *of, pair in beside]
        return [{**unjudged(), "reason": str(of), "size": len(cases)} for of in pairs]


@pytest.mark.parametrize("samples", [1, 2])
def test_answers_in_files_are_judged_some_at_a_time_with_clean_ones_and_pairs_of_all(
    tmp_path, monkeypatch, samples
):
    sources = [{"id": x, "pair_id": y} for x, y in ("ad", "ba", "cc", "db")]
    prompts = [
        {
            **prompt_of(x + end, "Hi?"),
            "source_id": x,
            "perturbation": {"name": "p"} if end else None,
        }
        for x in "abcd"
        for end in ("", "/p")
    ]
    ids = [row["prompt_id"] + end for row in prompts for end in ("", "~2")[:samples]]
    rows = [response_of(id_, f"Hi, {id_}.") for id_ in ids]
    for name, of in (("s", sources), ("p", prompts), ("r", rows)):
        write_rows(tmp_path / f"{name}.jsonl", of)
    judges, by_id = {"j": Seen("j", NoSettings())}, {row["id"]: row for row in sources}
    stored = stored_rows(tmp_path / "p.jsonl", tmp_path / "r.jsonl")
    whole = judge_suite(list(stored.prompts.values()), rows, by_id, judges)
    assert {row["judges"]["j"].pop("size") for row in whole} == {8 * samples}
    assert [row["judges"]["j"]["reason"] for row in whole][:1] == ["('a', None, 'Hi, d.')"]
    monkeypatch.setattr("refract.judges.AT_ONCE", 3)
    kept = RowsById(tmp_path / "s.jsonl", {x: n for n, x in enumerate("abcd")}, key="id")
    pieces = list(judge_rows(AnsweredSuite(stored.prompts, stored.responses, kept), judges))
    assert {row["judges"]["j"].pop("size") for row in pieces} <= {1, 2, 3}
    assert pieces == whole


@pytest.mark.parametrize("judges", [["odd"], ["rules", "odd"]])
def test_the_stage_ends_before_it_writes_where_nothing_would_count_a_judge(tmp_path, judges):
    write_rows(tmp_path / "data/suites/s.jsonl", [])
    kind = "strings" if judges == ["odd"] else "similarity"
    suites = {"s": {"file": "data/suites/s.jsonl", "judges": judges}}
    done = judge_stage(tmp_path, suites, {"rules": {"kind": "rules"}, "odd": {"kind": kind}})
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.startswith("judge: suites.s: judges: ")
    assert not (tmp_path / "data/verdicts").exists()


def test_a_judge_of_texts_leaves_calls_behind_calls_unjudged():
    call = {"id": "1", "name": "search", "arguments": "{}"}
    called: list[dict] = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Nothing.", "tool_call_id": "1"},
    ]
    responses = [{**response_of("a", ""), "finish_reason": "tool_calls"}]
    (row,) = judge_suite([prompt_of("a", called)], responses, {"a": {"id": "a"}}, opened("rules"))
    assert row["judges"] == {"rules": unjudged()}


def test_messages_of_errors_are_counted_by_judge():
    verdicts = {"first": unjudged("busy"), "second": unjudged()}
    rows = [{"prompt_id": id_, "judges": verdicts} for id_ in ("a", "b")]
    errors = {"first": Counter(), "second": Counter()}
    assert list(noting_errors(rows, errors)) == rows
    assert errors == {"first": {"busy": 2}, "second": {}}
