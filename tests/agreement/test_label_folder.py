"""The folder of human labels: no file in it is passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from refract.agreement.label_folder import unlabelled_files, unread_label_files
from refract.core.errors import RowError
from tests.agreement.answers import judged_answers, written_labels

GRID = (["one", "two"], ["alpha", "beta"])


def written(root: Path, *places: str) -> None:
    for place in places:
        file = root / "data/labels" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x", "utf-8")


def test_files_that_belong_to_no_model_and_suite_are_named_with_the_reason(tmp_path):
    written(
        tmp_path,
        *("one/alpha.csv", "two/beta.csv"),
        *("one/alpha.xlsx", "one/beta.CSV", "one/Beta.csv", "one/alpha.ada.csv", "one/gamma.csv"),
        *("On/alpha.csv", "later/alpha.csv", "alpha.csv", "one/old/alpha.csv"),
    )
    (tmp_path / "data/labels/one/folder.csv").mkdir()
    at = "data/labels"
    wanted = {
        ("On", "On/alpha.csv"): "grid.models has no 'On'; did you mean 'one'?",
        ("", "alpha.csv"): "labels belong in data/labels/MODEL/SUITE.csv",
        ("later", "later/alpha.csv"): "grid.models has no 'later'",
        ("one", "one/Beta.csv"): "grid.suites has no 'Beta'; did you mean 'beta'?",
        ("one", "one/alpha.ada.csv"): "grid.suites has no 'alpha.ada'; did you mean 'alpha'?",
        ("one", "one/alpha.xlsx"): f"labels of this suite belong in {at}/one/alpha.csv",
        ("one", "one/beta.CSV"): f"labels of this suite belong in {at}/one/beta.csv",
        ("one", "one/gamma.csv"): "grid.suites has no 'gamma'",
        ("one", "one/old/alpha.csv"): "labels belong in data/labels/MODEL/SUITE.csv",
    }
    assert dict.fromkeys(unread_label_files(tmp_path, *GRID)) == {
        (model, f"{at}/{place} is not read: {reason}"): None
        for (model, place), reason in wanted.items()
    }


def test_what_nobody_takes_for_labels_is_not_named(tmp_path):
    assert list(unread_label_files(tmp_path, *GRID)) == []  # no folder
    written(
        tmp_path, "README.md", "none", "one/.gitignore", "one/~$alpha.xlsx", "one/.~lock.a.csv#"
    )
    written(tmp_path, "one/notes.md", "one/alpha.csv.dvc")
    assert list(unread_label_files(tmp_path, *GRID)) == []


def test_a_file_that_a_file_system_takes_for_that_of_a_suite_is_read(tmp_path):
    written(tmp_path, "one/alpha.csv")
    (tmp_path / "data/labels/one/alpha.CSV").symlink_to("alpha.csv")
    assert list(unread_label_files(tmp_path, *GRID)) == []


def test_a_file_without_a_label_is_named_and_one_that_cannot_be_read_is_an_error(tmp_path):
    folder = tmp_path / "data/labels/one"
    folder.mkdir(parents=True)
    file = written_labels(folder / "alpha.csv", judged_answers())
    said = ["data/labels/one/alpha.csv: no drawn answer has a label yet"]
    assert list(unlabelled_files(tmp_path, *GRID)) == said
    written_labels(folder / "beta.csv", judged_answers(), ["refusal"])
    assert list(unlabelled_files(tmp_path, *GRID)) == said
    written_labels(file, judged_answers(), ["refusal", "yes"])
    with pytest.raises(RowError, match=r"^data/labels/one/alpha.csv: row 2: label must be one of"):
        list(unlabelled_files(tmp_path, *GRID))
    file.write_text("", "utf-8")
    with pytest.raises(RowError, match=r"alpha.csv: holds no row: draw answers with"):
        list(unlabelled_files(tmp_path, *GRID))
