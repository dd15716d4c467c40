"""What runs again, and what a model is asked again, after each kind of change."""

from __future__ import annotations

import json
import re
import shutil

from refract.core.jsonl import read_rows, write_rows
from refract.core.tables import read_table
from refract.models.synthetic import REFUSALS
from refract.report.report_files import DATA, PAGE
from tests.agreement.answers import fill_in
from tests.builders import GREEDY, MODELS, SUITES, Project, Reproduction, cells, suite_rows
from tests.fault_server import FaultServer

NOISY = {"noise": {"kind": "typos", "rate": 0.2}}
EVERYTHING = {"generate-perturbations", "report", "validate-judges", *cells(*MODELS)}


def test_the_first_run_computes_everything(computed):
    first = Reproduction((computed.folder.parent / "first").read_text("utf-8"))
    assert first.ran == EVERYTHING
    assert set(first.generated.values()) == {12}


def test_nothing_changed_runs_nothing(project):
    assert project.repro().ran == set()
    assert project.command("git", "status", "--porcelain") == ""


def test_a_changed_prompt_brings_its_variants_and_another_seed_the_texts_that_it_changes(
    rates, capsys
):
    params = rates.params()
    params["perturbations"] = NOISY
    params["suites"]["alpha"]["perturbations"] = ["noise"]
    rates.set_params(params)
    rates.compute_for_dvc()
    assert "greedy alpha: 12 reused, 12 generated" in capsys.readouterr().out
    rates.rewrite("data/suites/alpha.jsonl", "alpha: question 3", "alpha: another question")
    done = rates.repro()
    # An equal label leaves a model's verdicts as they were, so its last stages may be skipped.
    asked = cells(*MODELS, stages=("model-inference", "judge"))
    assert {"generate-perturbations", *asked} <= done.ran
    assert done.generated == {(m, s): 2 * (s == "alpha") for m in MODELS for s in SUITES}
    before = {row["prompt_id"]: row for row in read_rows(rates.folder / "data/prompts/alpha.jsonl")}
    params["seed"] += 1
    rates.set_params(params)
    done = rates.repro()
    after = read_rows(rates.folder / "data/prompts/alpha.jsonl")
    changed = sum(row["attempts"] != before[row["prompt_id"]]["attempts"] for row in after)
    assert 0 < changed <= 12
    assert done.generated["greedy", "alpha"] == changed
    # Models that sample answer anew; for others null answers are drawn anew.
    assert (done.generated["greedy", "beta"], done.generated["sampling", "beta"]) == (0, 12)
    assert cells("greedy", stages=("judge",)) <= done.ran


def test_an_added_suite_model_and_definition_ask_what_is_new_alone(project):
    write_rows(project.folder / "data/suites/gamma.jsonl", suite_rows("gamma", 2, 3))
    params = project.params()
    params["grid"]["suites"].append("gamma")
    params["suites"]["gamma"] = {"file": "data/suites/gamma.jsonl", "judges": ["rules"]}
    params["grid"]["models"].append("third")
    params["models"]["third"] = {**GREEDY, "seed": 3}
    params["models"]["greedy"]["refusal_rate"] = 0.9
    project.set_params(params)
    done = project.repro()
    models = ("third", *MODELS)
    assert done.ran == {"generate-perturbations", "report", *cells(*models)}
    assert done.generated == {
        (model, suite): 5 if suite == "gamma" else 12 * (model != "sampling")
        for model in models
        for suite in ("alpha", "beta", "gamma")
    }


def test_a_comment_in_the_judge_runs_the_judge_and_its_validation_alone(project):
    path = project.folder / "refract/judges/rules/text.py"
    path.write_text(path.read_text("utf-8") + "\n# A remark.\n", "utf-8")
    # Its verdicts and its errors come out the same.
    assert project.repro().ran == {*cells(*MODELS, stages=("judge",)), "validate-judges"}


def test_verdicts_are_kept(project):
    judge = project.run("refract", "stage", "judge", "greedy").stdout
    assert "verdicts reused, 0 judged" in judge


def test_labels_of_a_run_give_it_a_rate_in_the_report_and_run_no_judge(project):
    label = ("refract", "label", "--model", "greedy", "--suite", "alpha", "--n", "8")
    project.command(*label)
    labelled = project.folder / "data/labels/greedy/alpha.csv"
    rows = read_table(labelled)
    verdicts = read_rows(project.folder / "data/verdicts/greedy/alpha.jsonl")
    labels = {row["prompt_id"]: row["judges"]["rules"]["label"] for row in verdicts}
    assert len(rows) == 8
    fill_in(labelled, [labels[row["prompt_id"]] for row in rows])
    assert project.repro().ran == {*cells(*MODELS, stages=("aggregate",)), "report"}
    report = (project.folder / "metrics/report/judges.md").read_text("utf-8")
    assert len(re.findall(r"\| alpha \| greedy \|.* \d of 6 labelled \|", report)) == 2
    # The page asks for the same answers in the same order.
    page = (project.folder / PAGE).read_text("utf-8")
    data = json.loads(page.partition(DATA)[2].partition("</script>")[0])
    (drawn,) = (draw for draw in data["draws"] if draw["file"] == "greedy.alpha")
    assert drawn["cells"][:8] == [[row[name] for name in drawn["columns"]] for row in rows]
    assert data["columns"]["id"][drawn["rows"][0]] == rows[0]["prompt_id"]
    # With a new answer the labels no longer hold.
    project.rewrite("data/suites/alpha.jsonl", f"{rows[0]['prompt']}", "alpha: another question")
    project.compute(report=True)
    report = (project.folder / "metrics/report/judges.md").read_text("utf-8")
    assert "label is of a draw from other answers" in report
    assert " labelled |" not in report


def test_a_clone_without_data_knows_what_is_stale(computed, tmp_path):
    clone = computed.clone(tmp_path / "clone")
    clone.command("dvc", "repro", "check-inputs")
    fresh = clone.run("dvc", "repro", "--dry", "--allow-missing")
    assert fresh.returncode == 0, fresh.stderr
    assert re.findall(r"Running stage '(.*)'", fresh.stdout) == ["check-inputs"]
    assert clone.command("git", "status", "--porcelain") == ""
    clone.put({"judges.rules.kind": "refusal"})
    clone.command("dvc", "repro", "check-inputs")
    stale = clone.run("dvc", "repro", "--dry", "--allow-missing")
    assert "Running stage 'judge@greedy'" in stale.stdout or stale.returncode != 0


def test_answers_from_a_pull_count_as_known_and_metrics_diff_shows_what_changed_prompts_moved(
    rates,
):
    """Without a store; one prompt is another and one is gone."""
    answers = read_rows(rates.folder / "data/responses/greedy/alpha.jsonl")
    number = next(n for n, row in enumerate(answers[:6]) if row["response"] not in REFUSALS)
    before = json.loads((rates.folder / "metrics/greedy.json").read_text("utf-8"))["alpha"]
    shutil.rmtree(rates.cache)
    rows = read_rows(rates.folder / "data/suites/alpha.jsonl")
    rows[-1]["prompt"] = "alpha: another question"
    write_rows(rates.folder / "data/suites/alpha.jsonl", rows[:number] + rows[number + 1 :])
    assert rates.repro().generated["greedy", "alpha"] == 1
    after = json.loads((rates.folder / "metrics/greedy.json").read_text("utf-8"))["alpha"]
    shown = [line.split() for line in rates.command("dvc", "metrics", "diff").splitlines()]
    moved = {line[1]: (float(line[2]), float(line[3])) for line in shown if "greedy" in line[0]}
    assert moved == {
        f"alpha.{name}": (before[name], after[name])
        for name in before
        if before[name] != after[name]
    }
    assert moved["alpha.n"] == (12, 11)


# The way out of DVC: each stage as a command of its own, in order


def test_all_stages_in_order_make_the_bytes_of_dvc_repro_store_on_or_off(computed, tmp_path):
    """In new interpreters, with hashes of their own."""
    made, models = computed.hashed_files(), computed.params()["grid"]["models"]
    assert any(name.startswith("data/responses/sampling/") for name in made)
    again = computed.clone(tmp_path / "again")
    for path in ("metrics", ".dvc"):
        shutil.rmtree(again.folder / path)
    again.command("git", "checkout", "--", "metrics/ran")  # what ran stands while the rows do
    for path in ("dvc.yaml", "dvc.lock"):
        (again.folder / path).unlink()
    env = {"PYTHONHASHSEED": "1", "REFRACT_CACHE": "off", "SOURCE_DATE_EPOCH": "1"}
    cells = [(stage, m) for m in models for stage in ("model-inference", "judge", "aggregate")]
    before, after = ["check-inputs", "generate-perturbations"], ["validate-judges", "report"]
    for stage in (*((x,) for x in before), *cells, *((x,) for x in after)):
        again.command("refract", "stage", *stage, **env)
    assert again.hashed_files() == made
    assert again.command("git", "status", "--porcelain", "data", "metrics") == ""
    shown = again.refract("show")
    assert shown.exit_code == 0, shown.output


# Errors that may have passed are asked again by the next ``dvc repro``, and nothing else is


FAILING = 4


def errors(project: Project) -> int:
    responses = read_rows(project.folder / "data/responses/api/alpha.jsonl")
    return sum(row["error"] is not None for row in responses)


def test_errors_that_may_pass_are_asked_again_and_those_that_the_prompt_brings_about_are_not(
    tmp_path,
):
    rows = suite_rows("alpha")
    for row in rows[:FAILING]:
        row["prompt"] += " [[crash*2]]"
    for row in rows[-2:]:
        row["prompt"] += " [[too_long]]"
    with FaultServer() as server:
        models = {"api": server.model(max_retries=0)}
        project = Project.create(tmp_path / "project", models, {"alpha": rows}, report=False)
        project.compute_for_dvc()
        assert errors(project) == FAILING + 2
        assert "`dvc repro` asks 4 of them again" in project.command("refract", "show")
        arrived = server.arrived
        # The server still fails: the same rows, so that nothing behind them runs.
        again = project.repro()
        assert again.ran == {"model-inference@api"}
        # Once the stage runs, all that failed is asked.
        assert server.arrived == arrived + FAILING + 2
        mended = project.repro()
        assert {"model-inference@api", "judge@api"} <= mended.ran
        assert (server.arrived, errors(project)) == (arrived + 2 * (FAILING + 2), 2)
        # Nothing is left of it in what DVC keeps.
        names = {path.name for path in (project.folder / "data/responses/api").iterdir()}
        assert names == {"alpha.jsonl", "model.json"}
        lock = (project.folder / "dvc.lock").read_bytes()
        assert project.repro().ran == set()
        assert (project.folder / "dvc.lock").read_bytes() == lock
        assert server.arrived == arrived + 2 * (FAILING + 2)


def test_a_judge_that_failed_is_asked_again(tmp_path):
    with FaultServer() as server:
        rows = suite_rows("alpha")
        for row in rows[:2]:
            row["prompt"] += " [[crash]]"
        models, suites = {"one": {"adapter": "synthetic"}}, {"alpha": rows}
        project = Project.create(tmp_path / "project", models, suites, report=False)
        params = project.params()
        params["judges"]["asked"] = {"kind": "llm_refusal", "model": server.model(max_retries=0)}
        params["suites"]["alpha"]["judges"] = ["rules", "asked"]
        project.set_params(params)
        project.compute_for_dvc()
        verdicts = read_rows(project.folder / "data/verdicts/one/alpha.jsonl")
        failed = ["the judge failed" in str(row["judges"]["asked"]["error"]) for row in verdicts]
        assert failed == [True] * 2 + [False] * 10
        assert project.repro().ran == {"judge@one"}
        names = {path.name for path in (project.folder / "data/verdicts/one").iterdir()}
        assert names == {"alpha.jsonl", "families.json", "judges.json", "unread.json"}
