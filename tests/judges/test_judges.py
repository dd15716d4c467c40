"""The registry of judges: every kind is one, and what none of them would count is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.core.jsonl import write_rows
from refract.core.registry import find
from refract.core.settings import Settings, schema_of
from refract.core.vocabulary import FAMILIES
from refract.judges import JUDGES, check_counted, judge_suite, open_judge, open_judges
from refract.judges.cases import Judge, NoSettings, unjudged
from tests.builders import ROOT
from tests.judges.test_model_judges import judge_stage, prompt_of, response_of

# What a definition must say at least, of the kinds that do not open without settings.
NEEDED: dict[str, dict] = {
    "classifier": {"model": {"adapter": "hf", "model_id": "none"}, "labels": {"x": "refusal"}},
    "published": {"judge": "wildguard"},
}
for kind in ("coherency", "harmfulness", "refusal", "requirement"):
    NEEDED[kind] = {"model": {"adapter": "synthetic"}}


def definition(kind: str) -> dict:
    return {"kind": kind, **NEEDED.get(kind, {})}


@pytest.mark.parametrize("kind", JUDGES)
def test_every_kind_states_a_family_that_is_counted_and_describes_each_setting(kind):
    judge = open_judge("j", definition(kind))
    assert judge.FAMILY in FAMILIES
    assert judge.version
    assert issubclass(judge.Settings, Settings)
    for field in schema_of(judge.Settings).get("properties", {}).values():
        assert field["description"]
        assert field["allowed"]


@pytest.mark.parametrize("kind", JUDGES)
def test_opening_a_judge_imports_no_torch(kind):
    code = "import sys; from refract.judges import open_judge; open_judge('j', eval(sys.argv[1]))"
    code += "; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    given = [sys.executable, "-c", code, repr(definition(kind))]
    assert subprocess.run(given, check=False, cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("labels", "family"),
    [
        ({"A": "refusal", "B": "compliance"}, "refusal"),
        ({"A": "harmful", "B": "harmless"}, "harmful"),
        ({"A": "pass", "B": "fail"}, "pass_fail"),
    ],
)
def test_a_classifiers_family_is_that_of_the_labels_it_is_mapped_to(labels, family):
    assert family == open_judge("j", {**definition("classifier"), "labels": labels}).FAMILY


def opened(*kinds: str):
    return open_judges({kind: definition(kind) for kind in kinds})


@pytest.mark.parametrize("first", ["strings", "similarity", "harmfulness", "requirement"])
def test_a_first_judge_that_does_not_label_refusal_is_an_error(first):
    with pytest.raises(
        ParamsError, match=rf"suites\.s: judges: .*{first} gives .*\[rules, {first}\]"
    ):
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


def test_a_label_outside_the_family_is_an_error():
    prompts, responses = [prompt_of("a", "Hi?")], [response_of("a", "Hi.")]
    with pytest.raises(ParamsError, match=r"judges\.j: gives the label maybe; .* are pass, fail"):
        judge_suite(prompts, responses, {"a": {"id": "a"}}, {"j": Odd("j", NoSettings())})


@pytest.mark.parametrize("judges", [["odd"], ["rules", "odd"]])
def test_the_stage_ends_before_it_writes_where_nothing_would_count_a_judge(tmp_path, judges):
    write_rows(tmp_path / "data/suites/s.jsonl", [])
    kind = "strings" if judges == ["odd"] else "similarity"
    suites = {"s": {"file": "data/suites/s.jsonl", "judges": judges}}
    done = judge_stage(tmp_path, suites, {"rules": {"kind": "rules"}, "odd": {"kind": kind}})
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.startswith("judge: suites.s: judges: ")
    assert not (tmp_path / "data/verdicts").exists()


def contributed() -> tuple[str, str, str]:
    """What CONTRIBUTING says to write for a judge: its module's path, its text, the registry line."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    part = text[
        text.index("A judge takes cases") : text.index(
            "An adapter ", text.index("A judge takes cases")
        )
    ]
    path = re.search(r"write\s+`(refract/judges/\w+\.py)`", part)
    module = re.search(r"```python\n(.*?)```", part, re.S)
    line = re.search(r'^\+ +"(\w+)": "(.*)",$', part, re.M)
    assert path
    assert module
    assert line
    assert (ROOT / path[1]).with_suffix("").name == line[2].partition(":")[0].rpartition(".")[2]
    return module[1], line[1], line[2].partition(":")[2]


def test_the_judge_of_contributing_ends_in_a_number(tmp_path, monkeypatch):
    from refract.rates import aggregate_suite
    from refract.rates.clean_prompts import suite_metrics

    module, kind, name = contributed()
    Path(tmp_path / "contributed_judge.py").write_text(module, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(JUDGES, kind, f"contributed_judge:{name}")
    definitions = {"rules": {"kind": "rules"}, "short": {"kind": kind, "most": 3}}
    judges = open_judges(definitions)
    check_counted("s", judges, perturbed=False)
    sources = [{"id": id_, "category": "helpful", "prompt": "Hi?"} for id_ in "ab"]
    prompts = [{**row, **prompt_of(row["id"], "Hi?")} for row in sources]
    answers = {"a": "Hello to you.", "b": "Hello, good morning and welcome."}
    responses = [response_of(id_, text) for id_, text in answers.items()]
    verdicts = judge_suite(prompts, responses, {row["id"]: row for row in sources}, judges)
    families = {name: judge.FAMILY for name, judge in judges.items()}
    found = aggregate_suite(
        sources, prompts, responses, verdicts, {"judges": list(judges)}, definitions, families
    )
    assert suite_metrics(found.table)["short_fail_rate"] == 0.5
    assert set(find(JUDGES, kind, "kind").Settings.model_fields) == {"most"}
    with pytest.raises(ParamsError, match=r"judges\.short: most must be a whole number .*got 'x'"):
        open_judge("short", {"kind": kind, "most": "x"})
