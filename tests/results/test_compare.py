"""Two results are compared prompt by prompt, and what else differs between them is said."""

from __future__ import annotations

import json
import re
from math import comb

import pytest

from refract.core.errors import RefractError
from refract.core.jsonl import write_rows
from refract.rates.comparison import DEFAULTS, compare_groups, pair_outcomes
from refract.results.sources import Result, Side, check_conditions, compare_sides
from refract.results.table_rows import difference_to_row
from refract.statistics.paired import tango
from tests.builders import NO, YES, Project, outcome_line, outcome_lines, suite_rows, write_outcomes


def compare_outcomes(first, second, settings=DEFAULTS):
    """Rows of the differences between two tables of outcomes."""
    differences = compare_groups(pair_outcomes(first, second), settings)
    return [difference_to_row(difference) for difference in differences]


def test_pairs_are_counted_and_tested_as_in_the_literature():
    # Newcombe 1998, Statistics in Medicine 17:2635: n11=20, n10=2, n01=12, n00=16. The interval
    # is Tango's, which tests of refract.statistics hold to published values. McNemar: 2 against 12.
    first = outcome_lines("r" * 22 + "c" * 28)
    second = outcome_lines("r" * 20 + "cc" + "p" * 12 + "c" * 16)
    (row,) = compare_outcomes(first, second)
    assert (row["n"], row["rate_a"], row["rate_b"], row["difference"]) == (50, 0.44, 0.64, 0.2)
    expected = tango(20, 12, 2, 16)
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))
    assert row["p"] == pytest.approx(2 * sum(comb(14, k) for k in range(3)) / 2**14)
    assert row["to_compliance"] == ["20", "21"]
    assert row["to_refusal"] == [f"{n}" for n in range(22, 34)]


def test_discrimination_is_compared_on_the_prompts_of_both_categories():
    def side(harmful, helpful):
        lines = outcome_lines(harmful + helpful)
        for line in lines[len(harmful) :]:
            line["category"] = "helpful"
        return lines

    harmful, helpful, row = compare_outcomes(
        side("r" * 12 + "c" * 28, "c" * 40), side("r" * 24 + "c" * 16, "r" * 4 + "c" * 35 + "e")
    )
    assert [harmful["category"], helpful["category"]] == ["harmful", "helpful"]
    assert (row["category"], row["perturbation"], row["n"]) == ("discrimination", "", 79)
    assert (row["rate_a"], row["rate_b"]) == pytest.approx((0.3, 0.6 - 4 / 39))
    assert row["difference"] == pytest.approx(harmful["difference"] - helpful["difference"])
    # Prompts that are no cluster together: the distances of the two intervals add in squares.
    below = harmful["difference"] - harmful["low"], helpful["high"] - helpful["difference"]
    assert row["difference"] - row["low"] == pytest.approx((below[0] ** 2 + below[1] ** 2) ** 0.5)
    assert row["bound_low"] == pytest.approx(0.3 - 5 / 40)
    assert row["bound_high"] == pytest.approx(0.3 - 4 / 40)
    # Of 16 answers that changed 12 are for it: at most 4 of 16 coins, or 12 and more.
    assert (row["p"], row["primary"], row["to_refusal"]) == (5034 / 2**16, False, [])


def test_what_cannot_be_paired_is_named_and_left_out():
    first = [*outcome_lines("rrrrcee"), outcome_line("gone", "refusal")]
    second = [*outcome_lines("creecre"), outcome_line("new", "refusal")]
    second[3]["prompt_sha256"] = "another text"
    (row,) = compare_outcomes(first, second)
    assert {
        key: row[key]
        for key in ("n", "to_unjudged", "to_judged", "not_judged", "only_a", "only_b", "reworded")
    } == {
        "n": 3,
        "to_unjudged": ["02"],
        "to_judged": ["05"],
        "not_judged": ["06"],
        "only_a": ["gone"],
        "only_b": ["new"],
        "reworded": ["03"],
    }
    assert row["to_compliance"] == ["00"]


def test_a_group_without_judged_pairs_has_bounds_alone():
    (row,) = compare_outcomes(outcome_lines("ec"), outcome_lines("re"))
    assert row["n"] == 0
    assert {row[key] for key in ("rate_a", "rate_b", "difference", "low", "high", "p")} == {None}
    assert row["p_holm"] is None
    # The first was 0 or 1 before, the second is 0 or 1 now.
    assert (row["bound_low"], row["bound_high"]) == (0.0, 1.0)
    assert row["outer_low"] < 0.0
    assert row["decision"] == "inconclusive"


def test_what_was_not_judged_bounds_the_difference():
    # Of ten, eight judged twice: one lost. One vanished that was refused, one came that is refused.
    (row,) = compare_outcomes(outcome_lines("rrrrccccre"), outcome_lines("crrrccccer"))
    assert (row["n"], row["difference"]) == (8, -0.125)
    assert row["bound_low"] == pytest.approx((-1 - 1 + 0) / 10)
    assert row["bound_high"] == pytest.approx((-1 + 0 + 1) / 10)
    assert row["outer_low"] < row["bound_low"] < row["bound_high"] < row["outer_high"]


def samples(of: dict[str, str]) -> list[dict[str, str]]:
    """Lines of samples: for each prompt one letter a sample."""
    return [
        row | {"prompt_id": id_ if n == 1 else f"{id_}~{n}", "source_id": id_, "sample": str(n)}
        for id_, outcomes in of.items()
        for n, row in enumerate(outcome_lines(outcomes), 1)
    ]


def with_text(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [row | {"prompt_sha256": f"hash of {row['source_id']}"} for row in rows]


def test_samples_of_a_prompt_are_one_pair_of_means_however_many_each_side_has():
    first = with_text(samples({"a": "rrrr", "b": "rrcc", "c": "cccc", "d": "rree"}))
    second = with_text(samples({"a": "rc", "b": "cc", "c": "cc", "d": "ee"}))
    (row,) = compare_outcomes(first, second)
    assert (row["n"], row["clusters"]) == (3, 3)
    assert (row["rate_a"], row["rate_b"], row["difference"]) == pytest.approx((0.5, 1 / 6, -1 / 3))
    assert row["p"] == pytest.approx(2 / 4)  # a and b fell by a half each
    assert row["to_compliance"] == ["a", "b"]
    assert row["to_unjudged"] == ["d"]
    # d was refused in half to all of its samples, and could now be in none to all.
    assert row["bound_low"] == pytest.approx((-0.5 - 0.5 + 0 - 1) / 4)
    assert row["bound_high"] == pytest.approx((-0.5 - 0.5 + 0 + 0.5) / 4)
    assert row["only_a"] == row["only_b"] == []


def test_variants_of_one_prompt_count_as_one_cluster():
    def variants(flipped: str) -> list[dict[str, str]]:
        return [
            outcome_line(
                f"{source}/v{n}",
                "compliance" if source in flipped else "refusal",
                source_id=source,
                perturbation="noise",
            )
            for source in "abcdef"
            for n in range(5)
        ]

    (row,) = compare_outcomes(variants(""), variants("abc"))
    assert (row["perturbation"], row["n"], row["difference"]) == ("noise", 30, -0.5)
    # Three of six prompts changed: all exchanges of two sides that differ as much, 2 of 8.
    assert row["p"] == pytest.approx(0.25)
    assert row["low"] < -0.8
    (alone,) = compare_outcomes(
        [{**r, "source_id": r["prompt_id"]} for r in variants("")],
        [{**r, "source_id": r["prompt_id"]} for r in variants("abc")],
    )
    assert alone["p"] < 0.001
    assert alone["low"] > row["low"]


def provenance(judge="rules 1", identity="m", sha="aa", prompts="pp", seed=None, cut="excluded"):
    return {
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
    ],
)
def test_what_differs_is_said_and_what_means_nothing_is_refused(other, notes, refused):
    found, not_compared = check_conditions(provenance(), provenance(**other))
    assert (found, list(not_compared)) == (notes, refused)
    unknown = ("", "A: no provenance; judges and settings are unknown")
    assert check_conditions(None, provenance()) == ([unknown], {})


# Two commits of this repository.

HARMFUL, HELPFUL = 10, 10


def answers(project: Project, refused: set[int]) -> None:
    write_rows(
        project.folder / "data/recorded/answers.jsonl",
        [
            {"id": f"{suite}-{n:02d}", "response": NO if n in by_suite else YES}
            for suite, by_suite in (("alpha", refused), ("beta", range(4)))
            for n in range(HARMFUL + HELPFUL + 1)
        ],
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Two commits that differ in one suite, one model and the seed; the second is checked out."""
    project = Project.create(
        tmp_path_factory.mktemp("compare") / "project",
        {
            "changed": {"adapter": "recorded", "path": "data/recorded/answers.jsonl"},
            "sampling": {"adapter": "synthetic", "refusal_rate": 0.5, "temperature": 1},
        },
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
    params = project.params()
    params["seed"] += 1
    project.set_params(params)
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
    assert {key: harmful[key] for key in ("n", "rate_a", "rate_b", "difference", "p")} == {
        "n": 9,
        "rate_a": 0.8889,
        "rate_b": 0.5556,
        "difference": -0.3333,
        "p": 0.375,
    }
    expected = tango(4, 1, 4, 0)
    assert (harmful["low"], harmful["high"]) == (round(expected.low, 4), round(expected.high, 4))
    assert harmful["reworded"] == ["alpha-08"]
    assert harmful["to_compliance"] == ["alpha-04", "alpha-05", "alpha-06", "alpha-07"]
    assert harmful["to_refusal"] == ["alpha-09"]

    # alpha-19 left, alpha-20 came; of the other nine, two are no longer refused: 2 · 1/4.
    helpful = rows["changed", "alpha", "helpful"]
    assert {key: helpful[key] for key in ("n", "rate_a", "rate_b", "difference", "p")} == {
        "n": 9,
        "rate_a": 0.2222,
        "rate_b": 0.0,
        "difference": -0.2222,
        "p": 0.5,
    }
    assert (helpful["only_a"], helpful["only_b"]) == (["alpha-19"], ["alpha-20"])

    # On beta nothing differs but the seed: four harmful prompts refused twice, none helpful.
    assert rows["changed", "beta", "harmful"]["rate_a"] == 1.0
    assert [rows["changed", "beta", c]["p"] for c in ("harmful", "helpful")] == [1.0, 1.0]

    seed = project.params()["seed"]
    assert [note.split("differ")[0] for note in found["notes"]] == [
        "changed: the models ",
        "changed, sampling on alpha: the suite's file ",
        "sampling: the seeds ",
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
    alone = dict.fromkeys(("p_holm", "p_worse_holm", "detectable"))
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


def test_the_p_of_a_regression_is_called_what_its_column_is(cli, monkeypatch):
    sides = {"a": side("a", o="r" * 30, s="r" * 30), "b": side("b", o="c" * 30, s="r" * 30)}
    monkeypatch.setattr("refract.results.sources.find_side", lambda _, name: sides[name])
    done = cli("compare", "a", "b", "--fail-on", "regression", "--format", "md", "--wide")
    assert done.code == 1
    (name,) = set(re.findall(r"p worse \([^)]*\)", done.out + done.err))
    assert (f"| {name} |" in done.out, f", {name} " in done.err) == (True, True)
    assert "p (Holm)" not in done.out + done.err


def test_one_reason_is_said_once_and_the_model_above_the_table_alone(cli, monkeypatch):
    sides = {name: side(name, o="rrrr") for name in "ab"}
    for one in sides.values():
        for row in one.results["o"].outcomes[:2]:
            row["category"] = "borderline"
    monkeypatch.setattr("refract.results.sources.find_side", lambda _, name: sides[name])
    done = cli("compare", "a", "b")
    assert done.out.count("too few prompts") == 1
    assert re.search(
        r"(?m)^- s (harmful, s borderline|borderline, s harmful): too few prompts", done.out
    )


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


def test_tables_list_the_flips_and_the_decisions(refract):
    expected = tango(4, 1, 4, 0)
    wide = refract("first", "HEAD:changed", "--flips", "--wide").stdout
    assert f"-0.333 [{expected.low:+.3f}, {expected.high:+.3f}]" in wide
    assert "1 reworded" in wide
    assert wide.count("newly refused") == 2  # heading and alpha-09
    # What a difference is and what is decided of it, the model's name once; nothing else unasked.
    lines = refract("first", "HEAD:changed").stdout.splitlines()
    start = lines.index("changed")
    assert re.split(" {2,}", lines[start + 1].rstrip()) == (
        ["suite, category", "n", "A", "B", "B − A [95 %]", "decision"]
    )
    assert lines[start + 3].strip() == "alpha"
    row = f"  harmful 9 0.89 0.56 -0.33 [{expected.low:+.2f}, {expected.high:+.2f}] inconclusive"
    assert lines[start + 4].startswith("  harmful")
    assert lines[start + 4].split() == row.split()
    markdown = refract("first", "HEAD:changed", "--format", "md", "--flips").stdout
    assert "\n**changed**\n\n| suite | category | n | A | B | B − A " in markdown
    assert "| changed | alpha | harmful |  | alpha-09 | newly refused |" in markdown


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "--wide"),
        ("compare", "first", "HEAD"),
        ("compare", "first", "HEAD", "--wide", "--flips"),
        ("table", "--short"),
        ("estimate",),
        ("power", "--n", "129"),
        ("demo",),
    ],
    ids=" ".join,
)
def test_a_terminal_shows_every_word_that_a_pipe_gets(project, monkeypatch, arguments, width):
    piped = project.refract(*arguments).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    shown = project.refract(*arguments).stdout
    assert shown.count("…") == piped.count("…")  # of hashes in notes
    words = set(re.sub(r"\x1b\[[0-9;]*m", "", shown).replace(":", " ").split())
    lost = set(piped.replace(":", " ").split()) - words
    assert {word for word in lost if set(word) != {"─"}} == set()


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
        ((odd,), "lacks source_id, category"),
        ((other, "HEAD:changed"), "no prompt is on both sides with the same text"),
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
