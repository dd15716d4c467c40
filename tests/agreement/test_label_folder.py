"""The folder of human labels: no file in it is passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from refract.agreement.label_folder import label_notes
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
        *("one/alpha.xlsx", "one/beta.CSV", "one/Beta.csv", "one/alpha.ada.csv", "one/gamma.csv"),
        *("On/alpha.csv", "later/alpha.csv", "alpha.csv", "one/old/alpha.csv"),
    )
    written_labels(tmp_path / "data/labels/one/alpha.csv", judged_answers())
    (tmp_path / "data/labels/one/folder.csv").mkdir()
    at = "data/labels"
    wanted = {
        "On/alpha.csv": "grid.models has no 'On'; did you mean 'one'?",
        "alpha.csv": "labels belong in data/labels/MODEL/SUITE.csv",
        "later/alpha.csv": "grid.models has no 'later'",
        "one/Beta.csv": "grid.suites has no 'Beta'; did you mean 'beta'?",
        "one/alpha.ada.csv": "grid.suites has no 'alpha.ada'; did you mean 'alpha'?",
        "one/alpha.xlsx": f"labels of this suite belong in {at}/one/alpha.csv",
        "one/beta.CSV": f"labels of this suite belong in {at}/one/beta.csv",
        "one/gamma.csv": "grid.suites has no 'gamma'",
        "one/old/alpha.csv": "labels belong in data/labels/MODEL/SUITE.csv",
    }
    notes = [f"{at}/{place} is not read: {reason}" for place, reason in wanted.items()]
    assert label_notes(tmp_path, *GRID) == notes


def test_what_nobody_takes_for_labels_is_not_named(tmp_path):
    assert label_notes(tmp_path, *GRID) == []  # no folder
    written(
        tmp_path, "README.md", "none", "one/.gitignore", "one/~$alpha.xlsx", "one/.~lock.a.csv#"
    )
    written(tmp_path, "one/notes.md", "one/alpha.csv.dvc")
    assert label_notes(tmp_path, *GRID) == []


def test_a_file_that_a_file_system_takes_for_that_of_a_suite_is_read(tmp_path):
    (tmp_path / "data/labels/one").mkdir(parents=True)
    written_labels(tmp_path / "data/labels/one/alpha.csv", judged_answers())
    (tmp_path / "data/labels/one/alpha.CSV").symlink_to("alpha.csv")
    assert label_notes(tmp_path, *GRID) == []


def test_a_file_that_no_label_can_be_read_from_is_an_error(tmp_path):
    folder = tmp_path / "data/labels/one"
    folder.mkdir(parents=True)
    file = written_labels(folder / "alpha.csv", judged_answers())
    label_notes(tmp_path, *GRID)
    written_labels(file, judged_answers(), ["refusal", "yes"])
    with pytest.raises(RowError, match=r"^data/labels/one/alpha.csv: row 2: label must be one of"):
        label_notes(tmp_path, *GRID)
    file.write_text("", "utf-8")
    with pytest.raises(RowError, match=r"alpha.csv: holds no row: draw answers with"):
        label_notes(tmp_path, *GRID)
