"""Two results are compared prompt by prompt, and what else differs between them is said."""

from __future__ import annotations

import json
import re

import pytest

from refract.core.errors import RefractError
from refract.core.jsonl import write_rows
from refract.results.sources import Result, Side, check_conditions, compare_sides
from refract.statistics.paired import tango
from tests.builders import (
    NO,
    RECORDED,
    SAMPLING,
    YES,
    Project,
    outcome_line,
    outcome_lines,
    suite_rows,
    write_outcomes,
)


def provenance(
    judge="rules 1", identity="m", sha="aa", prompts="pp", seed=None, cut="excluded", **decisions
):
    return {
        "decisions": decisions,
        "model": {"identity": {"id": identity, "settings": {"max_tokens": 5}}, "seed": seed},
        "judges": {"j": {"kind": "rules", "version": judge}},
        "suites": {
            "s": {"sha256": sha, "prompts_sha256": prompts, "judges": ["j"], "cut_off": cut}
        },
    }


OTHER_MODEL = "", 'the models differ: id: "m" → "n"'
JUDGED_OTHERWISE = "the judging differs, the model does not"


@pytest.mark.parametrize(
    ("other", "notes", "refused"),
    [
        ({}, [], []),
        ({"sha": "bb"}, [("s", "the suite's file differs: aa → bb")], []),
        ({"prompts": "qq"}, [("s", "drawn or perturbed differently from the same file")], []),
        ({"seed": 7}, [("", "the seeds differ: None → 7")], []),
        ({"identity": "n"}, [OTHER_MODEL], []),
        (
            {"judge": "rules 2"},
            [("s", f'{JUDGED_OTHERWISE}: judge.version: "rules 1" → "rules 2"')],
            [],
        ),
        ({"cut": "judged"}, [("s", f'{JUDGED_OTHERWISE}: cut_off: "excluded" → "judged"')], []),
        ({"cut": "judged", "identity": "n"}, [OTHER_MODEL], ["s"]),
        ({"judge": "rules 2", "identity": "n"}, [OTHER_MODEL], ["s"]),
        # What is not stated is the default.
        ({"content_filters": "excluded", "provider_refusals": "refused"}, [], []),
        (
            {"content_filters": "refused"},
            [("s", f'{JUDGED_OTHERWISE}: content_filters: "excluded" → "refused"')],
            [],
        ),
        (
            {"provider_refusals": "excluded"},
            [("s", f'{JUDGED_OTHERWISE}: provider_refusals: "refused" → "excluded"')],
            [],
        ),
        ({"content_filters": "refused", "identity": "n"}, [OTHER_MODEL], ["s"]),
        ({"provider_refusals": "excluded", "identity": "n"}, [OTHER_MODEL], ["s"]),
        # These move intervals, and no rate.
        ({"interval": "prompts", "labels_ask": "whether it helps", "confidence": 0.9}, [], []),
    ],
)
def test_what_differs_is_said_and_what_means_nothing_is_refused(other, notes, refused):
    found, not_compared = check_conditions(provenance(), provenance(**other))
    assert (found, list(not_compared)) == (notes, refused)
    unknown = ("", "A: no provenance; judges and settings are unknown")
    assert check_conditions(None, provenance()) == ([unknown], {})


@pytest.mark.parametrize(
    ("first", "notes"),
    [
        ("calls", [("s", f'{JUDGED_OTHERWISE}: judge refusal.version: "1" → "2"')]),
        ("rules", []),
    ],
)
def test_a_judge_behind_the_first_counts_where_that_reads_calls_alone(first, notes):
    def facts(version):
        found = provenance()
        found["suites"]["s"]["judges"] = ["first", "refusal"]
        kinds = {"first": {"kind": first}, "refusal": {"kind": "refusal", "version": version}}
        return {**found, "judges": kinds}

    assert check_conditions(facts("1"), facts("2")) == (notes, {})


# Two commits of this repository.

HARMFUL, HELPFUL = 10, 10
UNPAIRED = (
    "changed, sampling on alpha: 1 prompt only in A, 1 only in B, 1 changed in text or category: A and "
    "B are over the 18 that both have"
)


def answers(project: Project, refused: set[int]) -> None:
    alpha = [NO if number in refused else YES for number in range(HARMFUL + HELPFUL + 1)]
    project.record(alpha=alpha, beta=[NO] * 4 + [YES] * 4)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Two commits that differ in one suite, one model and the seed; the second is checked out."""
    project = Project.create(
        tmp_path_factory.mktemp("compare") / "project",
        {"changed": RECORDED, "sampling": SAMPLING},
        {"alpha": suite_rows("alpha", HARMFUL, HELPFUL), "beta": suite_rows("beta", 4, 4)},
    )
    answers(project, {*range(8), 10, 11})
    project.compute()
    project.commit("first")
    project.command("git", "tag", "first")
    rows = suite_rows("alpha", HARMFUL, HELPFUL)
    rows[8]["prompt"] = "alpha: in other words"
    rows[19] = {**rows[19], "id": "alpha-20", "prompt": "alpha: a new question"}
    write_rows(project.folder / "data/suites/alpha.jsonl", rows)
    answers(project, {0, 1, 2, 3, 9})
    project.put({"seed": project.params()["seed"] + 1})
    project.compute()
    project.commit("second")
    return project


@pytest.fixture
def refract(project):
    return lambda *arguments: project.refract("compare", *arguments)


def test_two_commits_that_differ_in_a_suite_a_model_and_the_seed(refract, project):
    done = refract("first", "HEAD", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = {(r["model"], r["suite"], r["category"]): r for r in found["rows"]}

    # alpha-08 was reworded; of the other nine, 0 to 3 are refused twice, 4 to 7 no longer, 9 newly.
    # McNemar: 1 against 4, 2 · (1 + 5) / 32.
    harmful = rows["changed", "alpha", "harmful"]
    numbers = ("n", "rate_a", "rate_b", "difference", "p")
    assert [harmful[key] for key in numbers] == [9, 0.8889, 0.5556, -0.3333, 0.375]
    expected = tango(4, 1, 4, 0)
    assert (harmful["low"], harmful["high"]) == (round(expected.low, 4), round(expected.high, 4))
    assert harmful["reworded"] == ["alpha-08"]
    assert harmful["to_compliance"] == ["alpha-04", "alpha-05", "alpha-06", "alpha-07"]
    assert harmful["to_refusal"] == ["alpha-09"]

    # alpha-19 left, alpha-20 came; of the other nine, two are no longer refused: 2 · 1/4.
    helpful = rows["changed", "alpha", "helpful"]
    assert [helpful[key] for key in numbers] == [9, 0.2222, 0.0, -0.2222, 0.5]
    assert (helpful["only_a"], helpful["only_b"]) == (["alpha-19"], ["alpha-20"])

    # On beta nothing differs but the seed: four harmful prompts refused twice, none helpful.
    assert rows["changed", "beta", "harmful"]["rate_a"] == 1.0
    assert [rows["changed", "beta", c]["p"] for c in ("harmful", "helpful")] == [1.0, 1.0]

    seed = project.params()["seed"]
    assert [note.split("differ")[0] for note in found["notes"]] == [
        "changed: the models ",
        "changed, sampling on alpha: the suite's file ",
        "sampling: the seeds ",
        UNPAIRED,
    ]
    assert f"sampling: the seeds differ: {seed - 1} → {seed}" in found["notes"]


def test_every_kind_of_side_gives_the_same_numbers(refract, project, tmp_path):
    def rows(*arguments: object) -> list[dict]:
        done = refract(*arguments, "--format", "json")
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)["rows"]

    expected = rows("first", "HEAD")
    folder = project.folder
    for second in ((), (folder,)):
        assert rows("first", *second) == expected
    # One model at a time: the same pairs, other numbers of tests.
    # What depends on how many there are.
    alone = dict.fromkeys(("p_holm", "p_worse_holm"))
    one = [{**row, **alone} for row in expected if row["model"] == "changed"]
    for second in ("changed", "HEAD:changed", folder / "metrics/outcomes/changed.csv"):
        found = rows("first:changed", second)
        assert [{**row, **alone} for row in found] == one
    assert all(row["n"] and row["difference"] == 0 for row in rows())  # HEAD and the working tree


def test_a_file_of_refract_run_is_compared_with_a_commit(refract, project, tmp_path):
    out = tmp_path / "run.json"
    suites = ("--suite", "alpha", "--suite", "beta")
    done = project.refract(
        *("run", "--model", "changed", *suites, "--judge", "rules", "--out", out)
    )
    assert done.exit_code == 0, done.exception
    done = refract("HEAD:changed", out, "--format", "json")
    found = json.loads(done.stdout)
    assert {row["difference"] for row in found["rows"]} == {0.0}
    assert found["notes"] == []
    done = refract("HEAD", out)
    assert done.exit_code == 0
    assert "- only in HEAD (" in done.stdout
    assert "): sampling" in done.stdout
    out.with_suffix(".outcomes.csv").unlink()
    done = refract("HEAD", out)
    assert done.exception.exit_code == 2
    assert "its outcomes (run.outcomes.csv) are not beside it" in str(done.exception)


def test_answers_that_changed_beside_the_params_keep_the_working_tree_from_passing(
    project, tmp_path
):
    other = project.copy(tmp_path / "other")
    answers(other, {0})
    for sides in (["HEAD"], ["HEAD:changed", "changed"], ["HEAD", "."]):
        done = other.refract("compare", *sides, "--fail-on", "regression")
        assert done.exit_code == 1
        assert "changed.path is another file; run: dvc repro" in done.stderr
    assert "another file" not in other.refract("compare", "first", "HEAD").output


def side(name: str, **models: str) -> Side:
    """Models of which each first letter is its adapter's, with their outcomes."""
    adapters = {"o": "openai", "s": "synthetic", "r": "recorded"}
    results = {}
    for model, given in models.items():
        definition = {"adapter": adapters[model[0]]}
        facts = {"model": {"identity": {}, "definition": definition}, "judges": {}, "suites": {}}
        results[model] = Result(outcome_lines(given), facts)
    return Side(name, results)


@pytest.mark.parametrize(
    ("models", "family"), [(["o", "o2", "s", "r"], {"o", "o2"}), (["s", "r"], {"s", "r"})]
)
def test_live_models_alone_are_in_the_family_of_tests_where_there_are_such(models, family):
    before, after = (dict.fromkeys(models, given) for given in ("r" * 30, "r" * 22 + "c" * 8))
    compared = compare_sides(side("A", **before), side("B", **after)).differences
    assert {row.model for row in compared if row.p_adjusted is not None} == family
    assert {round(row.p_adjusted / row.p, 9) for row in compared if row.p_adjusted} == {2}


@pytest.mark.parametrize(
    ("gone", "category", "undecided"),
    [("o", "harmful", 1), ("s", "harmful", 1), ("o", "other", 0), ("", "harmful", 0)],
)
def test_a_model_with_primary_measures_that_is_gone_does_not_pass(gone, category, undecided):
    both = {"o": "rrr", "s": "rrr", "r": "rrr"}
    b = side("B", **{model: given for model, given in both.items() if model != gone})
    a = side("A", **both)
    for row in a.results[gone].outcomes if gone else ():
        row["category"] = category
    said = [f"B has no primary measure of {gone}, which A has"] * undecided
    assert compare_sides(a, b).undecided == said
    assert compare_sides(b, a).undecided == []  # one that is new is no regression


def test_prompts_that_count_in_another_suite_are_said_to_and_not_that_nothing_changed():
    a, b = side("A", o="rrr"), side("B", o="rrc")
    for each in (a, b):
        rows = each.results["o"].outcomes
        rows += [{**row, "suite": "t"} for row in rows[1:]]
    notes = [note.line() for note in compare_sides(a, b).notes]
    assert "o on t: the clean prompts count in s alone" in notes


def test_what_cannot_be_compared_is_refused_with_the_reason(refract, project, tmp_path):
    odd = tmp_path / "odd.csv"
    odd.write_text("suite,prompt_id,outcome\na,b,refusal\n")
    other = tmp_path / "other.csv"
    write_outcomes(other, [outcome_line("a", "refusal")])
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    for arguments, message in (
        (
            ("nowhere",),
            "'nowhere' is not a file, a folder, a model of the grid .changed, sampling.",
        ),
        (
            ("HEAD:pocket",),
            "no results of pocket of commit .*; metrics/ was not committed after dvc repro",
        ),
        (("HEAD~2",), "no results of changed, sampling of commit"),
        ((tmp_path,), "holds no params.yaml"),
        ((odd,), "not an outcomes table: it lacks source_id, category.*NAME.outcomes.csv"),
        ((other, "HEAD:changed"), "no prompt has the same suite, id, text and category"),
        ((other, "HEAD"), "no model is on both sides: A has other, B has changed, sampling"),
        ((broken,), "not a results file of refract run"),
        ((tmp_path / "other",), "is not a file"),
    ):
        done = refract(*arguments)
        assert isinstance(done.exception, RefractError), (arguments, done.output)
        assert done.exception.exit_code == 2
        assert re.search(message, str(done.exception)), str(done.exception)
    for option, wrong, allowed in (("--format", "pdf", "table"), ("--fail-on", "x", "regression")):
        done = refract(option, wrong)
        assert done.exit_code == 2
        assert f"'{wrong}'" in done.stderr
        assert f"'{allowed}'" in done.stderr


def test_models_judged_differently_are_not_compared(refract, project, tmp_path):
    copy = project.copy(tmp_path / "copy")
    path = copy.folder / "metrics/provenance/changed.json"
    facts = json.loads(path.read_text("utf-8"))
    facts["judges"]["rules"]["version"] = "other"
    path.write_text(json.dumps(facts), "utf-8")
    done = refract("first:changed", copy.folder)
    assert done.exception.exit_code == 2
    assert "both the models and the judging differ" in str(done.exception)
    done = refract("HEAD:changed", copy.folder)
    assert done.exit_code == 0
    assert "the judging differs, the model does not" in done.stdout
