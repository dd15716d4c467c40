"""The bundle of an appendix: what it holds, what it leaves out, and what checks of it find."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from refract.core.errors import RefractError, UsageError
from refract.core.jsonl import parse_json
from refract.core.tables import read_table, write_table
from refract.results.sources import EditedError
from refract.results.stored import number_problems
from refract_paper.bundle import (
    LABELS_NOT_IN_GIT,
    NOT_HERE,
    NOT_IN_GIT,
    find_bundle,
    write_bundle,
)
from tests.builders import GREEDY, SAMPLING, SUITES, Project, suite_rows


def found(root: Path):
    files = sorted((root / "metrics/provenance").glob("*.json"))
    return find_bundle(root, {path.stem: parse_json(path.read_bytes()) for path in files})


def written(root: Path, out: Path) -> Path:
    write_bundle(root, found(root), "How to check it.\n", out)
    return out


def differing(folder: Path) -> list[str]:
    """The files that have another hash than SHA256SUMS says."""
    sums = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for _, name in sums}
    return [name for digest, name in sums if hashes[name] != digest]


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Project:
    """Two models on two suites, one of them with a second judge, computed without DVC."""
    suites = {name: suite_rows(name) for name in SUITES}
    models = {"greedy": dict(GREEDY), "sampling": dict(SAMPLING)}
    project = Project.create(tmp_path_factory.mktemp("bundle") / "project", models, suites)
    params = project.params()
    params["judges"] = {"rules": {"kind": "rules"}, "second": {"kind": "refusal"}}
    params["suites"]["alpha"]["judges"] = ["rules", "second"]
    project.set_params(params)
    project.compute()
    return project


@pytest.fixture
def project(computed, tmp_path) -> Project:
    return computed.copy(tmp_path / "project")


@pytest.fixture
def bundle(computed: Project, tmp_path) -> Path:
    return written(computed.folder, tmp_path / "bundle")


def problems(folder: Path) -> list[str]:
    try:
        return list(number_problems(folder))
    except (RefractError, OSError) as error:
        return [str(error)]


def test_a_bundle_holds_and_is_the_same_twice(computed, bundle, tmp_path):
    assert differing(bundle) == []
    kinds = ("prompts/alpha", "responses/greedy/alpha", "verdicts/sampling/beta")
    assert {f"data/{kind}.jsonl" for kind in kinds} <= names(bundle)
    again = written(computed.folder, tmp_path / "again")
    assert names(again) == names(bundle)
    assert all((again / name).read_bytes() == (bundle / name).read_bytes() for name in names(again))
    assert problems(bundle) == []
    # It replaces an earlier one and nothing else.
    (bundle / "data/prompts/notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds data/prompts/notes.txt, .* name another --out"):
        written(computed.folder, bundle)
    (bundle / "data/prompts/notes.txt").unlink()
    (bundle / "params.yaml").write_text("")
    assert differing(bundle) == ["params.yaml"]
    assert differing(written(computed.folder, bundle)) == []


def hidden(folder: Path) -> None:
    """Provenance and SHA256SUMS as whoever hides a change would write them."""
    for path in (folder / "metrics/provenance").glob("*.json"):
        facts = json.loads(path.read_text())
        for name in facts["files"]:
            facts["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for suite, about in facts["suites"].items():
            for kind in ("responses", "verdicts"):
                file = folder / f"data/{kind}/{path.stem}/{suite}.jsonl"
                if file.is_file():
                    about[f"{kind}_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        path.write_text(json.dumps(facts))
    (folder / "SHA256SUMS").unlink()
    lines = [
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in names(folder)
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def changed(file: str, pattern: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        text, count = re.subn(pattern, new, (folder / file).read_text(), count=1)
        assert count == 1
        (folder / file).write_text(text)

    return change


VERDICTS, TABLE = "data/verdicts/greedy/alpha.jsonl", "metrics/tables/greedy.csv"
PROVENANCE = "metrics/provenance/greedy.json"
SECOND = r"(?<=alpha,harmful_refusal_rate,second,,,,)(.*?),0\.\d+,"
CHANGES = {
    "an answer": changed(
        "data/responses/greedy/alpha.jsonl", '"response": "', '"response": "Well. '
    ),
    "a prompt": changed("data/prompts/alpha.jsonl", "question 3", "question 4"),
    "a metric": changed("metrics/greedy.json", r"(?<=: )0\.\d+", "0.9"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_a_file_is_found_by_its_hash(bundle, what):
    CHANGES[what](bundle)
    assert differing(bundle)
    (bundle / "SHA256SUMS").unlink()
    assert ".json" in str(problems(bundle))


def table_edited(edit: Callable[[list[dict[str, str]]], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        rows = read_table(folder / TABLE)
        columns = list(rows[0])
        edit(rows)
        write_table(folder / TABLE, columns, rows)

    return change


def set_in_table(measure: str, column: str, cell: str) -> Callable[[Path], None]:
    def edit(rows: list[dict[str, str]]) -> None:
        for row in rows:
            if row["measure"] == measure and not row["field"]:
                row[column] = cell

    return table_edited(edit)


def renamed(column: str) -> Callable[[Path], None]:
    return table_edited(lambda rows: [row.update({column: row[column] + "_"}) for row in rows])


def without(*folders: str) -> Callable[[Path], object]:
    return lambda bundle: [shutil.rmtree(bundle / folder) for folder in folders]


def without_data(folder: Path) -> None:
    shutil.rmtree(folder / "data")
    path = folder / "metrics/outcomes/greedy.csv"
    path.write_text(path.read_text().replace(",refusal,", ",compliance,"))


FORGERIES: dict[str, Callable[[Path], object]] = {
    "a verdict": changed(VERDICTS, '"label": "refusal"', '"label": "compliance"'),
    "a verdict of the second judge": changed(
        VERDICTS, r'(?<="second": {)(.*?)"label": "refusal"', r'\1"label": "compliance"'
    ),
    "a rate": changed(TABLE, r"(?<=,)0\.5\d*(?=,)", "0.1234"),
    "a rate of the second judge": changed(TABLE, SECOND, r"\1,0.1234,"),
    "an outcome": changed("metrics/outcomes/greedy.csv", ",refusal,", ",compliance,"),
    "a rate of nan": set_in_table("harmful_refusal_rate", "rate", "nan"),
    "a count of nan": set_in_table("harmful_refusal_rate", "n", "nan"),
    "discrimination": set_in_table("discrimination", "rate", "0.99"),
    "bounds": set_in_table("harmful_refusal_rate", "outer_low", "0.999"),
    "a decision": set_in_table("over_refusal_rate", "decision", "met"),
    "suites renamed": renamed("suite"),
    "measures renamed": renamed("measure"),
    "a table of one row": table_edited(lambda rows: rows.__delitem__(slice(1, None))),
    "a row twice": table_edited(lambda rows: rows.append(rows[0])),
    "no provenance": without("metrics/provenance"),
    "one provenance taken out": lambda bundle: (bundle / PROVENANCE).unlink(),
    "a verdict's judge": changed("data/verdicts/greedy/judges.json", "second", "third"),
    "a judge's family": changed("data/verdicts/greedy/families.json", "rules", "rulez"),
    "a row of the suite": changed("data/suites/alpha.jsonl", r"\A.*\n", ""),
    "nothing but params.yaml": without("metrics", "data"),
    "outcomes turned, answers gone": without_data,
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forgery_with_every_hash_written_anew_is_found(bundle, what):
    FORGERIES[what](bundle)
    hidden(bundle)
    assert problems(bundle)


JUDGES = "data/verdicts/greedy/judges.json"


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, "\xff"])
@pytest.mark.parametrize("file", [VERDICTS, TABLE, PROVENANCE, JUDGES])
def test_what_is_no_file_of_a_bundle_ends_in_a_sentence(bundle, file, text, cli):
    (bundle / file).write_text(text)
    done = cli("verify", bundle)
    assert done.code in (1, 2)
    assert "Traceback" not in done.err
    assert (done.out + done.err).strip()


def test_files_that_are_gone_or_came_are_found_by_the_list_of_hashes(bundle):
    (bundle / VERDICTS).unlink()
    (bundle / PROVENANCE).unlink()
    (bundle / "data/labels/greedy").mkdir(parents=True)
    (bundle / "data/labels/greedy/beta.csv").touch()
    for name in ("SHA256SUMS.sig", ".DS_Store"):  # whoever signs or opens it leaves these
        (bundle / name).touch()
    assert problems(bundle) == [
        f"{VERDICTS} is not here, which SHA256SUMS names",
        f"{PROVENANCE} is not here, which SHA256SUMS names",
        "data/labels/greedy/beta.csv is not among the files that SHA256SUMS names",
        "greedy: metrics/provenance/MODEL.json is missing, or of an earlier version",
    ]


def test_what_a_project_lacks_is_said_and_the_rest_is_counted(project, cli):
    params = project.params()
    params["grid"]["models"] = ["sampling"]
    project.set_params(params)
    (project.folder / JUDGES).unlink()  # no number of the grid needs it
    done = cli("verify", project.folder)
    left = "the grid of params.yaml does not name them: greedy"
    assert (done.code, done.out.splitlines()[0]) == (0, f"note: not checked, since {left}")
    provenance = (project.folder / PROVENANCE).rename(project.folder / "away.json")
    assert problems(project.folder) == [
        f"{PROVENANCE} is not here, by which {TABLE} could be checked"
    ]
    provenance.rename(project.folder / PROVENANCE)
    params["grid"]["models"] = ["greedy", "sampling"]
    project.set_params(params)
    (project.folder / "data/verdicts/greedy/beta.jsonl").unlink()
    changed(TABLE.replace("greedy", "sampling"), r"(?<=,)0\.\d+(?=,)", "0.1234")(project.folder)
    done = cli("verify", project.folder)
    assert done.code == 1
    outcomes = (
        "counted again from outcomes alone, since the verdicts are not in data/verdicts/greedy"
    )
    lines = done.out.splitlines()
    assert f"note: greedy, beta: {outcomes}" in lines
    assert lines[0].startswith("greedy, alpha: cannot be counted again: ")
    assert lines[0].endswith(
        "judges.json cannot be read (No such file or directory); run: dvc checkout (or dvc repro)"
    )
    assert any(line.startswith("sampling, alpha: refusal_rate: ") for line in lines)


def test_texts_of_a_suite_that_git_does_not_have_stay_at_home(project, tmp_path):
    (project.folder / "data/suites/.gitignore").write_text("/beta.jsonl\n")
    project.command("git", "rm", "--quiet", "--cached", "data/suites/beta.jsonl")
    assert found(project.folder).left_out == {"beta": NOT_IN_GIT}
    bundle = written(project.folder, tmp_path / "bundle")
    assert problems(bundle) == []
    held = b"".join((bundle / name).read_bytes() for name in names(bundle))
    assert b"alpha: question" in held
    assert b"beta: question" not in held
    assert not [name for name in names(bundle) if name.startswith("data/") and "beta" in name]


def test_what_one_model_lacks_is_said_of_that_model_and_of_no_other(project):
    (project.folder / "data/responses/sampling/alpha.jsonl").unlink()
    labels = project.folder / "data/labels/greedy/beta.csv"
    labels.parent.mkdir(parents=True)
    labels.write_text("")
    (labels.parent / ".gitignore").write_text("*\n")
    bundle = found(project.folder)
    left_out = {"beta of greedy": LABELS_NOT_IN_GIT, "alpha of sampling": NOT_HERE}
    assert bundle.left_out == left_out
    held = {path for path in bundle.paths if path.startswith("data/responses/")}
    assert held == {f"data/responses/{name}.jsonl" for name in ("greedy/alpha", "sampling/beta")}


@pytest.mark.parametrize(("gone", "reason"), [(".git", NOT_IN_GIT), ("data/responses", NOT_HERE)])
def test_without_git_or_answers_the_outcomes_stand_for_them(project, gone, reason):
    shutil.rmtree(project.folder / gone)
    bundle = found(project.folder)
    assert bundle.left_out == dict.fromkeys(("alpha", "beta"), reason)
    assert not [path for path in bundle.paths if path.startswith("data/")]


def test_answers_that_the_numbers_were_not_made_of_are_refused(project, tmp_path, cli, monkeypatch):
    changed("data/verdicts/greedy/beta.jsonl", "refusal", "compliance")(project.folder)
    with pytest.raises(EditedError, match=r"greedy/beta.jsonl is not what .* run: dvc repro"):
        found(project.folder)
    # Results that are missing are said with what to run.
    (project.folder / "metrics/provenance/greedy.json").unlink()
    monkeypatch.chdir(project.folder)
    done = cli("export", "--as", "appendix", "--out", tmp_path / "paper")
    assert (done.code, done.out) == (2, "")
    assert "no provenance of greedy in metrics/provenance/" in done.err
    assert done.err.endswith("run: dvc repro\n")
    assert not (tmp_path / "paper").exists()
