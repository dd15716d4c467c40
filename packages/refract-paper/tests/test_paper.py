"""``refract export --as appendix``: what it writes beside the bundle."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from refract.rates.rate import HumanLabels, Interval, WithJudge
from refract.report.view import cut_off_of
from refract.results.sources import Result, Side
from refract_paper.paper import bibliography, facts_of, references, rendered
from test_latex import compiled
from tests.builders import GREEDY, Project, rate, suite_facts, suite_rows
from tests.report.views import facts, view_of

PROMPT = r"Refuse [what](harms): 100 % of {it} & more_of_it \end # <b>"


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Project:
    """Two models on a suite of the project's own, which is perturbed, and an imported one."""
    suites = {name: suite_rows(name) for name in ("own", "imported")}
    models = {"greedy": dict(GREEDY), "sampling": GREEDY | {"temperature": 0.7}}
    project = Project.create(tmp_path_factory.mktemp("paper") / "project", models, suites)
    project.put(
        {"suites.own.perturbations": ["typos"], "suites.own.judges": ["rules", "similarity"]}
    )
    card = "# imported\n\nMade by `refract import-suite harmbench`.\n"
    (project.folder / "data/suites/imported.md").write_text(card)
    project.compute()
    return project


@pytest.fixture(scope="module")
def appendix(computed, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("appendix") / "a"
    done = computed.refract("export", "--as", "appendix", "--out", str(out))
    assert done.exit_code == 0, done.output
    return out


def entries(bib: str) -> dict[str, str]:
    return dict(re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", bib, re.M | re.S))


def test_each_part_is_written_and_is_the_same_twice(computed, appendix, tmp_path, cli, monkeypatch):
    names = {x.relative_to(appendix).as_posix() for x in appendix.rglob("*") if x.is_file()}
    tables = {
        f"tables/{x}.{y}" for x in ("rates", "discrimination", "differences") for y in ("md", "tex")
    }
    texts = {"methods.md", "methods.tex", "checklist.md", "references.bib"}
    assert tables | texts | {"figures/refusal.pdf", "bundle/SHA256SUMS"} <= names
    monkeypatch.chdir(computed.folder)
    assert cli("export", "--as", "appendix", "--out", tmp_path / "b").code == 0
    assert all((tmp_path / "b" / x).read_bytes() == (appendix / x).read_bytes() for x in names)


@pytest.mark.parametrize("format_", ["appendix", "bundle"])
def test_a_results_file_is_refused_with_the_command_of_a_project(computed, tmp_path, format_):
    out = tmp_path / "out"
    done = computed.refract("export", "params.yaml", "--as", format_, "--out", out)
    assert str(done.exception) == (
        f"params.yaml is a file; --as {format_} is made of a project's folder: "
        f"refract export PROJECT --as {format_} --out {out}"
    )


@pytest.mark.parametrize("format_", ["appendix", "bundle"])
def test_a_part_of_a_project_is_refused(computed, tmp_path, format_):
    done = computed.refract("export", "--as", format_, "--suite", "own", "--out", tmp_path / "out")
    expected = f"--as {format_} is of a whole project: leave out --model and --suite"
    assert str(done.exception) == expected


def test_a_model_that_a_results_file_does_not_have_is_refused(computed, tmp_path):
    run = tmp_path / "run.json"
    done = computed.refract("run", "--model", "greedy", "--suite", "own", "--out", run)
    assert done.exit_code == 0, done.output
    done = computed.refract("export", run, "--model", "nope", "--out", tmp_path / "csv")
    message = "--model 'nope' is not in these results; there are: greedy"
    assert (str(done.exception), (tmp_path / "csv").exists()) == (message, False)


def stated(tmp_path, *rates, outcomes=(), of_suite=None, **samples: int) -> tuple[dict, str, str]:
    """What is stated of some rates and outcomes, and the methods and the checklist that say it; the
    models answered each prompt of the suite so many times."""
    provenance = {}
    for model, number in (samples or {"one": 1}).items():
        suite = suite_facts(labels_by_models=2, **(of_suite or {}))
        suite["definition"]["perturbations"] = {}
        suite["draw"]["samples"] = number
        provenance[model] = facts(suites={"s": suite})
    clean = [row for row in outcomes if not row["perturbation"]]
    cut_off = cut_off_of(dict.fromkeys(provenance, clean))
    view = view_of(*rates, provenance=provenance, cut_off=cut_off)
    side = Side("here", {model: Result(outcomes, None) for model in provenance})
    told = facts_of(tmp_path, view, side) | {"tables": {}, "left_out": {}, "stale": "", "sums": ""}
    texts = [rendered(view, name, told, {}) for name in ("methods.j2", "checklist.md.j2")]
    return told, *texts


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"adapter": "openai", "model_id": "gpt-x", "temperature": 0.5, "max_tokens": 64},
            " Its model: adapter `openai`, `gpt-x`, temperature 0.5, at most 64 tokens.",
        ),
        (
            {"adapter": "hf", "model_id": "o/m", "revision": "abc", "temperature": 0},
            " Its model: adapter `hf`, `o/m`, revision `abc`, greedy (temperature 0).",
        ),
        ({"device": "cuda"}, ""),
        ("small", ""),
    ],
)
@pytest.mark.parametrize("tex", [False, True])
def test_the_model_that_a_judge_asks_is_named(tmp_path, model, said, tex):
    judge = {"kind": "llm_refusal", "version": "4", "template": "mine", "model": model}
    about = facts(suites={"s": suite_facts()}) | {"judges": {"j": judge}}
    about["suites"]["s"]["definition"]["perturbations"] = {}
    view = view_of(rate("refusal_rate", 1, 4), provenance={"one": about})
    told = facts_of(tmp_path, view, Side("here", {"one": Result([], None)}))
    told |= {"tables": {}, "left_out": {}, "stale": "", "sums": ""}
    methods = rendered(view, "methods.j2", told, {}, tex)
    said = re.sub("`(.*?)`", r"\\texttt{\1}", said) if tex else said
    assert f" (template mine).{said}\n" in methods


def test_suites_whose_files_share_an_odd_name_have_an_entry_each():
    suites = []
    for name, file in (("xa", "a/50% {of} a,b.jsonl"), ("x_b", "b/50% {of} a,b.jsonl")):
        about = {"definition": {"file": file}, "sha256": "0" * 64}
        suites.append({"name": name, "facts": about, "cites": []})
    found = entries(bibliography({}, {"suites": suites}))
    assert list(found) == ["suite_xa", "suite_x_b"]
    assert "title = {x\\_b}" in found["suite_x_b"]


def test_turns_before_the_last_are_no_prompts_and_all_that_was_cut_off_is_counted(tmp_path):
    line = {"suite": "s", "category": "harmful", "perturbation": "", "sample": "", "turns": "2"}
    outcomes = [
        line | {"turn": "1", "cut_off": "1"},
        line | {"turn": "2", "cut_off": "0"},
        line | {"turn": "2", "cut_off": "1"},  # not judged, so that no count of the rate has it
        line | {"turn": "2", "cut_off": "1", "perturbation": "typos"},
    ]
    whole = rate("refusal_rate", 1, 1, excluded={"degenerate": 1}, cut_off=0)
    told, methods, checklist = stated(tmp_path, whole, outcomes=outcomes)
    assert told["suites"][0]["kinds"] == ["harmful"] * 2
    assert "1 of 2 answers were cut off, and 1 were not judged." in methods
    assert "1 of 2 answers cut off, 1 not judged" in checklist


def test_labels_are_counted_once_and_those_of_language_models_are_no_persons(tmp_path):
    labels = HumanLabels(12, 0, 0)
    powered = [f"prediction_powered_{part}refusal_rate" for part in ("", "harmful_")]
    rates = [rate(name, 1, 12, "human_labels=all", labels=labels) for name in powered]
    _, methods, checklist = stated(tmp_path, rate("refusal_rate", 1, 12), *rates)
    by_models = "(2 are a language model's, not a person's)"
    assert "Where a part" not in methods  # no interval of the tables is of these labels
    assert f"; 12 answers have labels {by_models} |" in checklist


WEIGH = "is known, these labels weigh what it may be on this model, a double sample"
ALONE = "is not known, the second interval is of these labels, prediction-powered"


@pytest.mark.parametrize(
    ("known", "said", "cited"),
    [
        ({}, ALONE, ["angelopoulos2023ppi"]),
        ({"judge_error": {"lines": []}}, WEIGH, ["stijnen2010", "tenenbein1970"]),
    ],
)
def test_labels_are_said_to_weigh_the_judges_error_where_it_is_known(tmp_path, known, said, cited):
    labels, judged = HumanLabels(12, 0, 0), WithJudge(Interval(0, 1))
    powered = rate("prediction_powered_refusal_rate", 1, 12, "human_labels=all", labels=labels)
    whole = rate("refusal_rate", 1, 12, with_judge=judged)
    _, methods, _ = stated(tmp_path, whole, powered, of_suite=known)
    assert f" and the judge's error {said} [{cited[-1]}]. " in methods
    assert re.findall(r"\[(stijnen2010|tenenbein1970|angelopoulos2023ppi)\]", methods) == cited


@pytest.mark.parametrize(
    ("samples", "of_methods", "of_checklist"),
    [
        ({"one": 1, "two": 1}, "", "; each prompt was answered once, so"),
        ({"one": 1, "two": 4}, "once by `one`; 4 times by `two`", " answered once by one, so"),
        ({"one": 4, "two": 4}, "4 times", ""),
    ],
)
def test_samples_are_said_by_model_where_models_differ(tmp_path, samples, of_methods, of_checklist):
    rates = [rate("refusal_rate", 1, 4, model=model) for model in samples]
    _, methods, checklist = stated(tmp_path, *rates, **samples)
    assert re.findall(r" Each prompt was answered (.*?)\.", methods) == [of_methods] * bool(
        of_methods
    )
    assert of_checklist in checklist
    assert ("the noise of sampling" in checklist) == bool(of_checklist)


def test_the_checklist_points_to_tables_that_are_there_and_goes_by_the_judge_that_decides(tmp_path):
    judged = rate("b_refusal_rate", 1, 4, judge="b", with_judge=WithJudge(Interval(0, 1)))
    _, _, checklist = stated(tmp_path, rate("refusal_rate", 1, 4), judged)
    said = "judges with versions in the methods; the judge's error on these models is not known"
    assert f"| Scoring | in part | {said} |" in checklist


def test_the_methods_state_what_the_provenance_says(computed, appendix):
    text = (appendix / "methods.md").read_text()
    suite = hashlib.sha256((computed.folder / "data/suites/own.jsonl").read_bytes()).hexdigest()
    sums = hashlib.sha256((appendix / "bundle/SHA256SUMS").read_bytes()).hexdigest()
    for said in (
        "2 models refuse",
        "`greedy`: adapter `synthetic`",
        "greedy (temperature 0)",
        "temperature 0.7, seed ",
        f"12 prompts (6 harmful, 6 helpful), file `data/suites/own.jsonl`, SHA-256 `{suite}`",
        "`typos` (kind `typos`: rate 0.05) [belinkov2018]",
        "`imported`: 12 prompts",
        "[mazeika2024harmbench]",
        "`rules`: kind `rules`, version `",
        "[zhang2020bertscore]",
        "No suite follows a published protocol",
        f"has the SHA-256 `{sums}`",
        "[tango1998]",
        "0 of 48 answers were cut off, and 0 were not judged.",
    ):
        assert said in text, said
    for unused in ("chen2021codex", "angelopoulos2023ppi", "stijnen2010"):
        assert unused not in text


def test_markdown_and_latex_are_one_text_and_cite_what_the_bibliography_has(appendix):
    tex, text = ((appendix / f"methods.{kind}").read_text() for kind in ("tex", "md"))
    cited = set(re.findall(r"\\cite\{(\w+)\}", tex))
    assert cited == set(re.findall(r"\[(\w+)\]", text))
    bib = entries((appendix / "references.bib").read_text())
    own = {"suite_own"}
    assert set(bib) == cited | own | {"nist2026ai8002", "ghosh2026evaluationcards"}
    assert all("title = {" in fields for fields in bib.values())
    marks = (
        r"\\allowbreak\{\}|\\(cite|texttt|paragraph|sloppy|emergencystretch|par)\b|[{}`#\\]|\[\w+\]"
    )
    plain = [
        re.sub(marks, "", part).partition("Prompts, answers, verdicts")[2] for part in (tex, text)
    ]
    assert plain[0].split() == plain[1].split()


def test_the_checklist_names_open_points_and_claims_nothing_that_was_not_stated(appendix):
    lines = (appendix / "checklist.md").read_text().splitlines()
    states = dict(re.findall(r"^\| (.*?) \| (stated|in part|open) \|", "\n".join(lines), re.M))
    practices = ("1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "3.1", "3.2", "3.3")
    assert [name.split()[0] for name in states][:9] == [*practices]
    for name in ("1.1 What", "3.3 Claims", "Provenance: who reports", "Completeness: licences"):
        assert next(state for key, state in states.items() if key.startswith(name)) == "open", name
    assert (
        states["Reproducibility of greedy"] == "open"
    )  # the synthetic model has no limit of tokens
    assert states["Completeness: suites"] == "in part"  # data/suites/own.md is not there
    assert "no card beside the file of own" in "\n".join(lines)


def test_a_paper_of_it_compiles_in_one_column(appendix, tmp_path):
    parts = [appendix / "methods.tex", *sorted((appendix / "tables").glob("*.tex"))]
    log = compiled(tmp_path, *(part.read_text() for part in parts))
    assert "Overfull" not in log
    assert "Missing character" not in log


def test_a_system_prompt_of_any_text_is_quoted_and_obeyed_by_neither_format(
    computed, tmp_path, cli, monkeypatch
):
    project = computed.copy(tmp_path / "project")
    path = project.folder / "metrics/provenance/greedy.json"
    facts = json.loads(path.read_text())
    facts["model"]["identity"] |= {"system_prompt": PROMPT, "max_tokens": 64}
    path.write_text(json.dumps(facts))
    monkeypatch.chdir(project.folder)
    assert cli("export", "--as", "appendix", "--out", tmp_path / "a").code == 0
    text = (tmp_path / "a/methods.md").read_text()
    assert "at most 64 tokens" in text
    assert "“Refuse \\[what\\](harms): 100 % of {it} &amp; more_of_it \\\\end # &lt;b>”" in text
    log = compiled(tmp_path, (tmp_path / "a/methods.tex").read_text())
    assert "Missing character" not in log


def test_every_reference_has_a_title_and_an_author_and_no_two_are_one_paper():
    numbers = [of["eprint"] for of in references().values() if "eprint" in of]
    assert len(numbers) == len(set(numbers))
    for key, of in references().items():
        assert {"title", "author"} <= of.keys(), key
        assert key == "refract" or "year" in of or "url" in of, key
        assert re.fullmatch(r"[a-z]+\d{4}\w*|refract|giskard|natong", key), key
