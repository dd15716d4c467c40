"""``metrics/report.md`` and the pages behind it: what they say, and what hostile names cannot do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from refract.core.environment import pinned_libraries
from refract.core.errors import ParamsError
from refract.core.jsonl import write_json, write_rows
from refract.core.showing import csv_cell
from refract.core.tables import write_table
from refract.core.vocabulary import outcome_columns
from refract.rates.rate import (
    Counts,
    HumanLabels,
    Interval,
    Rate,
    Statistics,
    Threshold,
)
from refract.report.figure_data import figures_of
from refract.report.markdown import cell, markdown_table
from refract.report.page_data import Answered, page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View, read_view
from refract.report.wording import CATEGORY_OF
from refract.results.sources import ResultsError
from refract.results.table_rows import write_rates
from refract.suites.draws import Draw
from stages.report import main
from tests.builders import ROOT, outcome_lines, rate, suite_facts

HOSTILE = (
    "<script>alert(1)</script> | [x](javascript:y) `z` **b** \\| \\[ a\nb\u202e\x1b[31m &amp; $1$"
)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no bytes


def cells_of(line: str) -> list[str]:
    """The cells of a Markdown table's row as a reader of the page gets them (GFM, 4.10 and 6.1)."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    inside = line[2:-2]
    parts = re.split(r"((?:\\[!-/:-@\[-`{-~]|[^\\|])*) \| ", inside)
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", part) for part in parts if part]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain_name-1.5", "plain_name-1.5"),
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


def test_no_cell_or_header_breaks_its_table():
    table = markdown_table([HOSTILE, "b"], [[HOSTILE, HOSTILE], ["\\", "|"]])
    lines = table.split("\n")
    assert len(lines) == 4
    flat = re.sub(r"[\n\u202e\x1b]", " ", HOSTILE).replace("&", "&amp;").replace("<", "&lt;")
    assert [cells_of(line) for line in lines[:1] + lines[2:]] == [
        [flat, "b"],
        [flat, flat],
        ["\\", "|"],
    ]
    assert "<" not in table
    assert not re.search(r"(?<!\\)(\\\\)*[\[`]", table)


DRAW = Draw(asked=8, total=9, seed=1)
LIMIT = {"threshold": Threshold("min", 0.9)}


def rates_of(model: str, *, judged: bool = True) -> list[Rate]:
    """The rates of a small suite with a field, an error, a pair and a threshold."""
    named = {"model": model, "draw": DRAW}
    if not judged:
        nothing = {"value": None, "interval": None, "bounds": Interval(0, 1)}
        everything = rate("refusal_rate", 0, 1, **named)
        harmful = rate("harmful_refusal_rate", 0, 1, decision="inconclusive", **LIMIT, **named)
        return [
            replace(everything, counts=Counts(0, 0, excluded={"empty": 8}), **nothing),
            replace(harmful, counts=Counts(0, 0, excluded={"empty": 4}), **nothing),
        ]
    alone = {"clusters": 1, "interval": None, **named}
    bounded = {"excluded": {"error": 2}, "bounds": Interval(0.5, 1), "decision": "inconclusive"}
    return [
        rate("refusal_rate", 4, 6, excluded={"error": 2}, **named),
        rate("harmful_refusal_rate", 2, 2, **bounded, **LIMIT, **alone),
        rate("over_refusal_rate", 0, 2, **alone),
        rate("borderline_refusal_rate", 2, 2, partial=2, **alone),
        rate("harmful_refusal_rate", 2, 2, f"area={HOSTILE}", **named),
        rate("refusal_difference_to_pair", 0, 2, **named),
    ]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("grid: {models: [one, two], suites: [s]}\nmetadata: {}\n")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.1\ntorch==2.13.0\nzstd==1.0\n")
    suite = suite_facts(draw={"asked": 8, "total": 9, "seed": 1, "samples": 1})
    suite |= {f"{kind}_sha256": EMPTY for kind in ("prompts", "responses", "verdicts")}
    for model, parameters in (("one", None), ("two", 1234567)):
        write_rates(
            tmp_path / f"metrics/tables/{model}.csv", rates_of(model, judged=model == "one")
        )
        write_outcomes(tmp_path, **{model: "r"})
        write_json(tmp_path / f"metrics/{model}.json", {})
        weights = {"sha256": "ab" * 32} if parameters else {"commit": "cd" * 20}
        facts = {
            "definition": {"adapter": "hf", "model_id": HOSTILE},
            "identity": {"adapter_version": "1", "model": weights},
            "seed": None if parameters else 7,
            "parameters": parameters,
        }
        judges = {"rules": {"kind": "rules", "version": "3"}}
        provenance = {"model": facts, "judges": judges, "suites": {"s": suite}}
        write_json(tmp_path / f"metrics/provenance/{model}.json", provenance)
        for kind in ("prompts", f"responses/{model}", f"verdicts/{model}"):
            write_rows(tmp_path / f"data/{kind}/s.jsonl", [])
    return tmp_path


def test_provenance_names_a_models_adapter_beside_its_base():
    identity = {"adapter_version": "3", "model": {"sha256": "a" * 64}, "peft": {"sha256": "b" * 64}}
    definition = {"adapter": "hf", "model_id": "base", "adapter_path": "tuned"}
    facts = {"model": {"identity": identity, "definition": definition, "seed": None}}
    provenance = {"one": facts | {"judges": {}, "suites": {}}}
    (line,) = lines_of(pages_for(provenance=provenance)["provenance"], "one")
    assert line[3:5] == ["base + tuned", f"{'a' * 16} + {'b' * 16}"]


def pages_of(project: Path) -> dict[str, str]:
    """Every page in Markdown, the report itself under the name report."""
    return report_pages(Inputs(read_view(project), page_data([]), {"torch": "2.13.0"}))


def pages_for(*rates: Rate, answers: tuple[Answered, ...] = (), **more: object) -> dict[str, str]:
    """The pages of some rates."""
    by_model: dict[str, list[Rate]] = {}
    for added in rates:
        by_model.setdefault(added.model, []).append(added)
    view = View(**{"rates": by_model or {"one": []}, "provenance": {}} | more)
    return report_pages(Inputs(view, page_data(answers), {}))


def answered(
    id_: str,
    category: str,
    outcome: str,
    perturbation: dict[str, str] | None = None,
    model: str = "one",
    suite: str = "s",
    **labels: str,
) -> Answered:
    """An answer to a hostile prompt, with the labels of judges."""
    response = {"attempt": 0, "response": "x", "error": None, "finish_reason": "stop"}
    prompt = {"prompt_id": id_, "source_id": id_[0], "category": category}
    prompt |= {"perturbation": perturbation, "attempts": [f"prompt {id_} {HOSTILE}"]}
    empty = {"score": None, "evidence": [], "error": None, "refused": None}
    verdicts = {judge: {"label": label, **empty} for judge, label in labels.items()}
    return Answered(model, suite, prompt, response, verdicts, outcome, "", "stop")


def lines_of(page: str, start: str) -> list[list[str]]:
    """The cells of the lines of a page's tables whose first cell is ``start``."""
    return [cells_of(line) for line in page.split("\n") if line.startswith(f"| {start} |")]


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
    assert pages.pop("report") == (ROOT / "metrics/report.md").read_text("utf-8")
    names = [path.stem for path in sorted((ROOT / "metrics/report").glob("*.md"))]
    assert sorted(pages) == names
    every = [path.read_text("utf-8") for path in (ROOT / "metrics").glob("report*/*.md")]
    every.append((ROOT / "metrics/report.md").read_text("utf-8"))
    assert sum(bool(re.search(r"\w", word)) for text in every for word in text.split()) < 6000
    for name in set(names) - {"over_refusal"}:
        assert pages[name] == (ROOT / f"metrics/report/{name}.md").read_text("utf-8"), name
    figures = figures_of(view)
    assert len([*(ROOT / "metrics/figures").glob("*.csv")]) == len(figures)
    for figure in figures:
        write_table(tmp_path / "figure.csv", list(figure.rows[0]), figure.rows)
        held = (ROOT / f"metrics/figures/{figure.name}.csv").read_bytes()
        assert (tmp_path / "figure.csv").read_bytes() == held, figure.name


@pytest.mark.parametrize(("adapters", "tests"), [("hf hf recorded", 2), ("synthetic recorded", 2)])
def test_p_values_of_pairs_name_their_family_of_live_models(adapters, tests):
    about = {"identity": {"adapter_version": "1", "model": {}}, "seed": None, "parameters": None}
    models = {
        f"m{n}": {"definition": {"adapter": a}} | about for n, a in enumerate(adapters.split())
    }
    more = {"judges": {}, "suites": {}}
    measured = {"statistics": Statistics(p=0.04)}
    pairs = [rate("refusal_difference_to_pair", 1, 9, model=m, **measured) for m in models]
    page = pages_for(*pairs, provenance={m: {"model": x} | more for m, x in models.items()})[
        "pairs"
    ]
    assert f"| p | p (Holm, {tests}) |" in page
    shown = [cells_of(line)[-2:] for line in page.splitlines() if line.startswith("| s |")]
    assert shown == [*[["0.0400", "0.0800"]] * 2, ["0.0400", "—"]][: len(models)]


def test_groups_of_pairs_that_leave_out_the_difference_of_their_suite_stand_on_the_page():
    def pair(value: float, group: str = "") -> Rate:
        ends = Interval(value - 0.1, value + 0.1)
        return rate("refusal_difference_to_pair", 1, 9, group, value=value, interval=ends)

    page = pages_for(pair(0.1), pair(0.15, "style=a"), pair(0.5, "style=b"))["pairs"]
    groups = [line[2] for line in lines_of(page, "s") if line[2].startswith("style")]
    assert groups == ["style b"]


def test_languages_have_a_page_where_a_suite_has_matched_ones():
    of = {"en": "", "de": "language=de"}
    page = pages_for(*(rate("language_loophole_rate", 1, 3, group) for group in of.values()))
    assert [cells[2:6:3] for cells in lines_of(page["languages"], "s")] == [
        ["language_loophole_rate", "3"]
    ] * 2
    assert [cells[3] for cells in lines_of(page["languages"], "s")] == ["any", "de"]
    assert "languages" not in pages_for(rate("refusal_rate", 1, 3, "language=de"))


def test_errors_are_named_at_the_top_with_what_asks_again():
    assert "Errors" not in pages_for(rate("refusal_rate", 60, 120))["report"]
    report = pages_for(rate("refusal_rate", 60, 120, excluded={"error": 15}))["report"]
    assert "**Errors instead of answers**: s, one (15). `dvc repro` asks again" in report


def test_what_concerns_one_model_is_one_line_with_its_counts():
    def lost(suite: str, **more: object) -> Rate:
        return rate("refusal_rate", 60, 120, suite=suite, **more)

    assert "one: of" not in pages_for(lost("s"))["report"]
    more = {"cut_off": 12, "excluded": {"empty": 3, "degenerate": 1}}
    report = pages_for(lost("s", **more), lost("t", **more))["report"]
    assert (
        "\n- one: of 248 answers to clean prompts 24 cut off at the token limit; not judged: 6 empty, "
        "2 degenerate.\n"
    ) in report
    assert report.count("cut off at the token limit") == 1
    left_out = pages_for(rate("refusal_rate", 6, 12, excluded={"cut_off": 48}))["report"]
    assert "**Cut-off answers left out**: s, one (48). Refusals are short" in left_out


@pytest.mark.parametrize("arithmetic", ["exact", "fast", None])
def test_provenance_says_which_arithmetic_answers_are_of(arithmetic):
    identity = {"adapter_version": "3", "model": {}} | (
        {"arithmetic": arithmetic} if arithmetic else {}
    )
    about = {"definition": {"adapter": "hf"}, "identity": identity, "seed": None}
    facts = {"one": {"model": about | {"parameters": None}, "judges": {}, "suites": {}}}
    pages = pages_for(provenance=facts)
    (header,) = lines_of(pages["provenance"], "model")
    (line,) = lines_of(pages["provenance"], "one")
    shown = dict(zip(header, line, strict=True))
    assert (shown["decoding"], shown.get("arithmetic")) == ("greedy", arithmetic)
    sentence = (
        "answers of one that `refract show` counts as certified are the same on every machine"
    )
    assert (sentence in pages["report"]) == (arithmetic == "exact")


@pytest.mark.parametrize(
    ("value", "labels", "interval", "shown"),
    [
        (0.45, HumanLabels(10, 0, 0), (0.35, 0.55), "0.45 [0.35, 0.55], 10 of 30 labelled"),
        (None, HumanLabels(20, 0, 4), None, "4 drawn and left blank"),
        (None, HumanLabels(0, 2, 0), None, "2 labels are of other answers"),
    ],
)
def test_rates_from_human_labels_stand_beside_the_raw_ones_or_say_why_not(
    value, labels, interval, shown
):
    raw = rate("harmful_refusal_rate", 15, 30, interval=Interval(0.3, 0.7))
    powered = replace(
        rate(f"prediction_powered_{raw.name}", 0, 30, "human_labels=all"),
        counts=Counts(None, 30, labels=labels),
        value=value,
        interval=interval and Interval(*interval),
    )
    (line, *_) = lines_of(pages_for(raw, powered)["judges"], "s")
    assert line == ["s", "one", "harmful", "0.50 [0.30, 0.70]", shown]
    assert "No answer of the grid has a label." in pages_for(raw)["judges"]


def test_the_limits_of_thresholds_stand_beside_the_details(project):
    details = pages_of(project)["details"]
    assert "The limits, each for every model: s\\[sampled 8/9, seed=1\\]: " in details
    assert "`harmful_refusal_rate` at least 0.9." in details


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
    about = {"identity": {"adapter_version": "1"}, "seed": None, "parameters": None}
    provenance = {
        name: {"model": {"definition": {"adapter": adapter}} | about, "judges": {}, "suites": {}}
        for name, adapter in (("one", "hf"), ("two", "hf"), ("synthetic", "synthetic"))
    }
    more = {"answers": answers, "provenance": provenance}
    rates = [rate("refusal_rate", 1, 2, model=model) for model in provenance]
    shown = [cells_of(cell(f"prompt {id_} {HOSTILE}").join(("| ", " |")))[0] for id_ in "cb"]
    page = pages_for(*rates, **more)["over_refusal"]
    assert lines_of(page, "") == []
    lines = [cells_of(line) for line in page.splitlines() if line.startswith("| prompt ")][1:]
    assert lines == [
        [shown[0], "borderline", "2 of 2", "one, two"],
        [shown[1], "helpful", "1 of 1", "one"],
    ]
    # DVC and not git holds this suite: its texts are not in a file for git.
    page = pages_for(*rates, **more, private={"s"})["over_refusal"]
    assert "prompt b" not in page
    assert lines_of(page, "b") == [["b", "helpful", "1 of 1", "one"]]
    assert "over_refusal" not in pages_for(answers=(answers[0],))


def test_pages_of_a_large_grid_are_short_and_begin_with_what_they_answer():
    rates, answers = [], []
    for model in (f"m{n}" for n in range(30)):
        of = {"model": model, "excluded": {"error": 1}}
        rates.append(rate("refusal_rate", 60, 120, **of))
        for kind in CATEGORY_OF:
            rates += [rate(kind, 60, 120, **of), rate(kind, 1, 9, "area=x", **of)]
        rates.append(rate("refusal_difference_to_pair", 60, 120, **of))
        rates.append(rate("refusal_difference_to_pair", 1, 9, "area=x", **of))
        rates.append(rate("typos_fail_rate", 60, 120, perturbation="typos", **of))
        rates += [rate("label_change_rate", 9, 12, f"samples={k}", **of) for k in (2, 3)]
        answers += [answered(f"p{n}", "helpful", "refusal", model=model) for n in range(3)]
    pages = pages_for(*rates, answers=tuple(answers))
    assert {"over_refusal", "details", "fields", "pairs", "robustness", "stability"} <= {*pages}
    for name, page in pages.items():
        if name != "report":
            title, _, part, _, first, *rest = page.splitlines()
            assert (title[:2], part) == ("# ", "A part of the [report](../report.md).")
            assert first[0].isalpha()
            assert len(rest) < 115, name
    assert "The first 45 of 90 rows; all: [../tables](../tables)." in pages["details"]


def test_titles_stand_for_names_on_every_page_and_in_every_figure(project):
    write_outcomes(project, one="rrrrrrrr", two="rrrrcccc")
    params = project / "params.yaml"
    params.write_text(
        "grid: {models: [one, two], suites: [s]}\n"
        "metadata: {one: {title: Model One}, two: {title: Model Two}, s: {title: A Suite}}\n"
    )
    main()
    texts = [path.read_text("utf-8") for path in (project / "metrics/report").glob("*.*")]
    texts.append((project / "metrics/report.md").read_text("utf-8"))
    texts += [path.read_text("utf-8") for path in (project / "metrics/figures").glob("*.csv")]
    named = [line for text in texts for line in text.split("\n") if "odel" in line]
    assert any("Model One" in line for line in named)
    assert any("A Suite[sampled 8/9" in text for text in texts)
    for text in texts:
        assert not re.search(r"(\| |,)(one|two|s)( \||,)", text)
    # Two of one name could not be told apart.
    params.write_text(params.read_text().replace("Model Two", "Model One"))
    with pytest.raises(
        ParamsError, match=r"metadata.two.title must be .* \(got 'Model One', which"
    ):
        main()


def test_the_reference_is_a_model_of_the_grid(project):
    write_outcomes(project, one="rr", two="rc")
    params = project / "params.yaml"
    base = params.read_text()
    params.write_text(base + "decisions: {reference: two}\n")
    assert " two with every other model" in pages_of(project)["comparisons"]
    params.write_text(base + "decisions: {reference: three}\n")
    with pytest.raises(ParamsError, match=r"a model of the grid: one, two \(got 'three'\)"):
        read_view(project)


def test_a_model_without_provenance_is_named_with_what_writes_it(project):
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
    assert (project / "metrics/report/fields.csv").is_file()


def test_hostile_names_are_inert_everywhere_in_the_report(project):
    write_outcomes(project, one="r" * 12, two="c" * 12)
    metadata = {"metadata": {"two": {"title": HOSTILE}, "s": {"title": HOSTILE}}}
    YAML().dump(
        {"grid": {"models": ["one", "two"], "suites": ["s"]}} | metadata, project / "params.yaml"
    )
    for page in pages_of(project).values():
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
    assert "script" in pages_of(project)["fields"]


def outputs(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes()
        for name in (
            "metrics/report.md",
            "metrics/figures/refusal.svg",
            "data/report/report.html",
            "metrics/report/judges.md",
        )
    }


def test_a_report_of_another_process_hash_seed_and_day_is_the_same_to_the_byte(project):
    main()
    first = outputs(project)
    other = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4", "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "stages.report"]
    subprocess.run(command, check=True, env={**os.environ, **other})
    assert outputs(project) == first
