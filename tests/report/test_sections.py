"""``metrics/report.md`` and the pages behind it: what they say, and what hostile names cannot do."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from refract.cli.outputs import page as print_page
from refract.core.environment import git, is_public, pinned_libraries
from refract.core.errors import ParamsError
from refract.core.jsonl import write_json, write_rows
from refract.core.showing import csv_cell
from refract.core.tables import write_table
from refract.core.types import OWN_ANSWER
from refract.core.vocabulary import outcome_columns
from refract.rates.rate import Counts, Interval, Rate, Statistics, Threshold
from refract.report.figure_data import figures_of
from refract.report.first_table import first_table
from refract.report.markdown import cell
from refract.report.page_data import page_data
from refract.report.report_files import PAGE
from refract.report.sections import Inputs, report_pages
from refract.report.view import read_view
from refract.report.wording import CATEGORY_OF
from refract.results.sources import ResultsError
from refract.results.table_rows import write_rates
from refract.suites.draws import Draw
from stages.report import main
from tests.builders import GREEDY, ROOT, ROUND_TRIP, SMALL_PARAMS, outcome_lines, rate, suite_facts
from tests.report.views import (
    HOSTILE,
    answered,
    cells_of,
    facts,
    lines_of,
    pages_for,
    pages_of,
    view_of,
)

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no bytes
DRAW = Draw(asked=8, total=9, seed=1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain_name-1.5", "plain_name-1.5"),
        ("what __init__ and _x_ do, a_", r"what \_\_init\_\_ and \_x\_ do, a\_"),
        ("a|b", "a\\|b"),
        # A backslash of the text's own must not undo the escape of what follows it.
        ("a\\|b", "a\\\\\\|b"),
        ("\\[x](y)", "\\\\\\[x\\](y)"),
        ("<b>&lt;", "&lt;b>&amp;lt;"),
        ("`code` *bold* ~~gone~~ $x$", "\\`code\\` \\*bold\\* \\~\\~gone\\~\\~ \\$x\\$"),
        ("two\nlines\r\n\ttab\u2028\x1b[31m\u202e", "two lines   tab  \\[31m "),
        (0.5, "0.5"),
    ],
)
def test_a_cell_holds_no_markup(text, shown):
    assert cell(text) == shown


def rates_of(model: str) -> list[Rate]:
    """The rates of a small suite with a field, an error, a pair and a threshold; of a second model
    nothing was judged."""
    limit = {"threshold": Threshold("min", 0.9), "decision": "inconclusive"}
    named = {"model": model, "draw": DRAW}
    alone = {"clusters": 1, "interval": None, **named}
    if model == "two":
        nothing = {"value": None, "interval": None, "bounds": Interval(0, 1)}
        empty = replace(rate("refusal_rate", 0, 1, **named), **nothing)
        harmful = replace(rate("harmful_refusal_rate", 0, 1, **limit, **named), **nothing)
        counts = [Counts(0, 0, excluded={"empty": number}) for number in (8, 4)]
        return [replace(empty, counts=counts[0]), replace(harmful, counts=counts[1])]
    bounded = {"excluded": {"error": 2}, "bounds": Interval(0.5, 1)}
    return [
        rate("refusal_rate", 4, 6, excluded={"error": 2}, **named),
        rate("harmful_refusal_rate", 2, 2, **bounded, **limit, **alone),
        rate("over_refusal_rate", 0, 2, **alone),
        rate("borderline_refusal_rate", 2, 2, partial=2, **alone),
        rate("harmful_refusal_rate", 2, 2, f"area={HOSTILE}", **named),
        rate("refusal_difference_to_pair", 0, 2, **named),
    ]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("grid: {models: [one, two], suites: [s]}\n")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.1\ntorch==2.13.0\nzstd==1.0\n")
    suite = suite_facts(draw={"asked": 8, "total": 9, "seed": 1, "samples": 1})
    suite |= {f"{kind}_sha256": EMPTY for kind in ("prompts", "responses", "verdicts")}
    for model, parameters in (("one", None), ("two", 1234567)):
        write_rates(tmp_path / f"metrics/tables/{model}.csv", rates_of(model))
        write_outcomes(tmp_path, **{model: "r"})
        write_json(tmp_path / f"metrics/{model}.json", {})
        about = facts(suites={"s": suite}, model_id=HOSTILE)
        about["judges"] = {"rules": {"kind": "rules", "version": "3"}}
        about["model"] |= {"parameters": parameters, "seed": None if parameters else 7}
        write_json(tmp_path / f"metrics/provenance/{model}.json", about)
        for kind in ("prompts", f"responses/{model}", f"verdicts/{model}"):
            write_rows(tmp_path / f"data/{kind}/s.jsonl", [])
    return tmp_path


def write_outcomes(project: Path, **outcomes: str) -> None:
    """Outcomes of harmful prompts by model, a letter a prompt; each prompt has a hostile style."""
    for model, letters in outcomes.items():
        rows = outcome_lines(letters, style=csv_cell(HOSTILE))
        write_table(project / f"metrics/outcomes/{model}.csv", outcome_columns(rows), rows)


def test_the_report_in_git_is_what_its_numbers_give(tmp_path):
    """All pages but the one of over-refused prompts, and the tables behind the figures."""
    view = read_view(ROOT)
    # Such that there is that page.
    answers = page_data([answered("a", "helpful", "refusal", model=view.models[0])])
    pages = report_pages(Inputs(view, answers, pinned_libraries(ROOT / "constraints.txt")))
    texts = {"report": (ROOT / "metrics/report.md").read_text("utf-8")}
    for path in (ROOT / "metrics/report").glob("*.md"):
        texts[path.stem] = path.read_text("utf-8")
    assert pages.keys() == texts.keys()
    words = " ".join(texts.values()).split()
    assert sum(bool(re.search(r"\w", word)) for word in words) < 6000
    for name in texts.keys() - {"over_refusal"}:
        assert pages[name] == texts[name], name
    figures = figures_of(view)
    assert len([*(ROOT / "metrics/figures").glob("*.csv")]) == len(figures)
    for figure in figures:
        write_table(tmp_path / "figure.csv", list(figure.rows[0]), figure.rows)
        held = (ROOT / f"metrics/figures/{figure.name}.csv").read_bytes()
        assert (tmp_path / "figure.csv").read_bytes() == held, figure.name


@pytest.mark.parametrize(("adapters", "tests"), [("hf hf recorded", 2), ("synthetic recorded", 2)])
def test_p_values_of_pairs_name_their_family_of_live_models(adapters, tests):
    provenance = {f"m{n}": facts(adapter) for n, adapter in enumerate(adapters.split())}
    measured = {"statistics": Statistics(p=0.04)}
    pairs = [rate("refusal_difference_to_pair", 1, 9, model=m, **measured) for m in provenance]
    page = pages_for(*pairs, provenance=provenance)["pairs"]
    assert f"| p | p (Holm, {tests}) |" in page
    shown = [line[-2:] for line in lines_of(page, "s")]
    assert shown == [*[["0.0400", "0.0800"]] * 2, ["0.0400", "—"]][: len(provenance)]


def test_a_pass_fail_judge_has_no_row_among_perturbations():
    short = rate("short_fail_rate", 1, 8, judge="short")
    page = pages_for(short, rate("typos_fail_rate", 1, 2, perturbation="typos"))["robustness"]
    assert [row[1] for row in lines_of(page, "s")] == ["typos"]


@pytest.mark.parametrize("arithmetic", ["exact", "fast", None])
def test_provenance_says_what_answers_are_of(arithmetic):
    about = facts(model_id="base")
    about["model"]["identity"] |= {"model": {"sha256": "a" * 64}}
    about["model"]["identity"] |= {"arithmetic": arithmetic} if arithmetic else {}
    pages = pages_for(provenance={"one": about})
    (header,) = lines_of(pages["provenance"], "model")
    (line,) = lines_of(pages["provenance"], "one")
    shown = dict(zip(header, line, strict=True))
    assert (shown["decoding"], shown.get("arithmetic")) == ("greedy", arithmetic)
    assert (shown["source"], shown["revision or content"]) == ("base", "a" * 16)
    said = "answers of one that `refract show` counts as certified are the same on every machine"
    assert (said in pages["report"]) == (arithmetic == "exact")


@pytest.mark.parametrize(
    ("adapter", "identity", "seed", "shown"),
    [
        ("hf", {}, 7, "seed 7"),
        ("hf", {}, None, "greedy"),
        ("synthetic", {"seed": 0}, 7, "seed 7"),
        ("openai", {"seed": True, "temperature": 1}, 7, "seed 7"),
        ("openai", {"seed": True, "temperature": None}, 7, "sampled, no seed sent"),
        ("openai", {"seed": False, "temperature": 1}, 7, "sampled, no seed sent"),
        ("anthropic", {}, 7, "sampled, no seed sent"),
    ],
)
def test_a_seed_is_named_where_answers_are_drawn_by_it(adapter, identity, seed, shown):
    about = facts(adapter)
    about["model"]["identity"] |= identity
    about["model"]["seed"] = seed
    page = pages_for(provenance={"one": about})["provenance"]
    (header,), (line,) = lines_of(page, "model"), lines_of(page, "one")
    assert line[header.index("decoding")] == shown


def test_over_refused_prompts_are_shown_those_of_most_models_first_without_harmful_ones():
    answers = (
        answered("a", "harmful", "refusal"),
        answered("b", "helpful", "refusal"),
        answered("c", "borderline", "partial_refusal"),
        answered("d", "helpful", "compliance"),
        answered("b/typos/1", "helpful", "refusal", {"name": "typos", "kind": "typos"}),
        answered("b", "helpful", "error", model="two"),
        answered("c", "borderline", "refusal", model="two"),
        # A prompt that another suite has as well is shown once.
        answered("c", "borderline", "refusal", suite="t"),
        answered("d", "helpful", "refusal", model="synthetic"),
    )
    provenance = {"one": facts(), "two": facts(), "synthetic": facts("synthetic")}
    more = {"answers": answers, "provenance": provenance}
    rates = [rate("refusal_rate", 1, 2, model=model) for model in provenance]
    shown = [cells_of(cell(f"prompt {id_} {HOSTILE}").join(("| ", " |")))[0] for id_ in "cb"]
    page = pages_for(*rates, **more)["over_refusal"]
    lines = [cells_of(line) for line in page.splitlines() if line.startswith("| prompt ")][1:]
    assert lines == [
        [shown[0], "borderline", "2 of 2", "one, two"],
        [shown[1], "helpful", "1 of 1", "one"],
    ]
    # An answer of a model that does not sample is what the first suite's judge found.
    again = (answered("d", "helpful", "refusal", suite="t"),)
    page = pages_for(*rates, **more | {"answers": answers + again})["over_refusal"]
    assert "prompt d" not in page
    provenance["one"]["model"]["seed"] = 7
    page = pages_for(*rates, **more | {"answers": answers + again})["over_refusal"]
    assert "prompt d" in page
    # DVC and not git holds this suite: its texts are not in a file for git.
    page = pages_for(*rates, **more, private={"s"})["over_refusal"]
    assert "prompt b" not in page
    assert lines_of(page, "b") == [["b", "helpful", "1 of 1", "one"]]
    assert "over_refusal" not in pages_for(answers=(answers[0],))


def test_an_over_refused_conversation_is_one_prompt_of_all_models_without_their_answers():
    asked = [{"role": "user", "content": "How?"}, OWN_ANSWER, {"role": "user", "content": "And?"}]
    answers = []
    for model, outcome in (("one", "refusal"), ("two", "compliance")):
        answer = answered("c", "helpful", outcome, model=model)
        said = [{**turn, "content": turn["content"] or f"said by {model}"} for turn in asked]
        played = {**answer.prompt, "attempts": [said], "script": [asked]}
        answers.append(answer._replace(prompt=played))
    rates = [rate("refusal_rate", 1, 2, model=model) for model in ("one", "two")]
    provenance = {"one": facts(), "two": facts()}
    page = pages_for(*rates, answers=tuple(answers), provenance=provenance)["over_refusal"]
    (line,) = (cells_of(line) for line in page.splitlines() if "How?" in line)
    assert line == ["[user] How?  [user] And?", "helpful", "1 of 2", "one"]


def test_a_page_of_numbers_that_params_do_not_ask_for_says_so(project, capsys):
    models = dict.fromkeys(("one", "two"), GREEDY)
    grid = {"models": [*models], "suites": ["s"]}
    ROUND_TRIP.dump({**SMALL_PARAMS, "grid": grid, "models": models}, Path("params.yaml"))
    print_page()
    _, note = capsys.readouterr().out.splitlines()
    assert note.startswith("note: these numbers are not what params.yaml asks for: one, two: ")
    assert note.partition(";")[0] in html.unescape((project / PAGE).read_text("utf-8"))


def test_a_suite_that_git_ignores_is_private_and_what_was_not_judged_may_be_cut_off(project):
    rows = [{**row, "cut_off": "1"} for row in outcome_lines("re")]
    rows.append({**rows[0], "prompt_id": "x", "perturbation": "typos"})
    write_table(project / "metrics/outcomes/one.csv", outcome_columns(rows), rows)
    view = read_view(project)
    assert (view.private, view.cut_off) == ([], {("one", "s"): 2})
    (line,) = lines_of(pages_of(view)["report"], "one")[-1:]
    assert line[2] == "2"
    write_rows(project / "data/suites/s.jsonl", [])
    assert git(project, "init") is not None
    assert read_view(project).private == []
    (project / ".gitignore").write_text("s.jsonl\n")
    assert read_view(project).private == ["s"]


def test_confidence_and_draws_are_those_of_the_results():
    draws = [{"asked": 9, "total": 18, "seed": 0, "samples": samples} for samples in (4, 1)]
    provenance = {}
    for model, draw in zip(("one", "two"), draws, strict=True):
        about = facts(suites={"s": suite_facts(draw=draw)})
        provenance[model] = {**about, "decisions": {"confidence": 0.8}}
    whole = rate("refusal_rate", 1, 2)
    view = view_of(whole, provenance=provenance)
    assert view.confidence == 0.8
    assert view.label("s") == "s[sampled 9/18, seed=0][samples differ]"
    notes = ("sampled 9/18, seed=0", "4 samples of one, 1 sample of two")
    assert view.draws["s"].notes == notes
    table = first_table(view_of(whole, provenance={"two": provenance["two"]}))
    assert "s: sampled 9/18, seed=0" in table.notes


def test_pages_of_a_large_grid_are_short():
    rates = []
    for model in (f"m{n}" for n in range(30)):
        for measure in ("refusal_rate", *CATEGORY_OF, "refusal_difference_to_pair"):
            rates.append(rate(measure, 60, 120, model=model))
    pages = pages_for(*rates)
    for name in pages.keys() - {"report"}:
        assert len(pages[name].splitlines()) < 115, name
    assert "The first 45 of 90 rows; all: [../tables](../tables)." in pages["details"]


def test_what_the_report_needs_of_a_project_is_said_where_it_is_not_there(project):
    params = project / "params.yaml"
    base = params.read_text()
    params.write_text(base + "decisions: {reference: two}\n")
    assert " two with every other model" in pages_of(read_view(project))["comparisons"]
    params.write_text(base + "decisions: {reference: three}\n")
    with pytest.raises(ParamsError, match=r"a model of the grid: one, two \(got 'three'\)"):
        read_view(project)
    params.write_text(base)
    (project / "metrics/provenance/two.json").unlink()
    with pytest.raises(ResultsError, match=r"no provenance of two in .*; run: dvc repro"):
        read_view(project)


def test_a_report_that_fails_leaves_the_last_one_and_pages_without_numbers_go(project):
    main()
    first = outputs(project)
    (project / "metrics/report/old.md").write_text("of another grid")
    outcomes = project / "metrics/outcomes/two.csv"
    outcomes.rename(project / "elsewhere.csv")
    with pytest.raises(ResultsError, match="no results of two; run: dvc repro"):
        main()
    assert outputs(project) == first
    (project / "elsewhere.csv").rename(outcomes)
    main()
    assert not (project / "metrics/report/old.md").exists()
    assert (project / "metrics/report/comparisons.md").is_file()


def test_hostile_names_are_inert_everywhere_in_the_report(project):
    write_outcomes(project, one="r" * 12, two="c" * 12)
    pages = pages_of(read_view(project))
    for page in pages.values():
        assert "<" not in page
        assert all(line.isprintable() for line in page.split("\n"))
        # Links that are not escaped: only the report's own.
        links = re.findall(r"(?<!\\)\]\(([^)]*)\)", page)
        assert all(re.fullmatch(r"[\w./]+", link) for link in links)
        header = None
        for line in page.split("\n"):
            if not line.startswith("|"):
                header = None
            elif header is None:
                header = len(cells_of(line))
            elif not line.startswith(("|:--", "|--:")):
                assert len(cells_of(line)) == header


def outputs(folder: Path) -> dict[str, bytes]:
    names = ("metrics/report.md", "metrics/figures/refusal.svg", "metrics/report/judges.md")
    return {name: (folder / name).read_bytes() for name in (*names, "data/report/report.html")}


def test_where_git_cannot_read_a_repository_no_file_counts_as_public(tmp_path):
    alone, broken = tmp_path / "alone", tmp_path / "broken"
    for folder in (alone, broken):
        folder.mkdir()
    (broken / ".git").write_text("gitdir: nowhere")
    assert is_public(alone, "s.jsonl", outside=True)
    assert not is_public(broken, "s.jsonl", outside=True)
