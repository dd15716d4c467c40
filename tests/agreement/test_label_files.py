"""The file that people label: what is drawn, and how its labels come back."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from refract.agreement.label_files import (
    NO_LABEL,
    NO_SIZES,
    JoinedLabels,
    JudgedAnswer,
    draw,
    labels_sha256,
    read_labels,
    write_sample,
)
from refract.agreement.label_folder import label_notes
from refract.core.errors import RowError
from refract.core.file_formats import read_row_file
from refract.core.jsonl import write_rows
from refract.core.tables import read_table, write_table
from tests.agreement.answers import (
    answers_with_doubt,
    as_rows,
    fill_in,
    judged_answers,
    written_labels,
)


def drawn_ids(run: list[JudgedAnswer], size: int, seed: int) -> list[str]:
    return [row["prompt_id"] for row in draw(run, size, seed)]


def test_a_draw_is_seeded_and_its_start_is_a_smaller_draw():
    run = judged_answers(40)
    ids = drawn_ids(run, 20, 1)
    assert len(set(ids)) == 20
    assert ids == drawn_ids(run[::-1], 20, 1)
    assert ids[:5] == drawn_ids(run, 5, 1)
    assert ids != drawn_ids(run, 20, 2)
    assert ids != sorted(ids)


def test_labels_come_back_to_the_answers_they_are_of(tmp_path):
    run = judged_answers()
    odd = {"prompt_id": "=odd,id", "response": '=HYPERLINK("x")\r\nlast', "suite": "+s"}
    run[0] = run[0]._replace(**odd)
    run[5:] = run[:4:-1]
    path = written_labels(tmp_path / "l.csv", run)
    rows = read_table(path)
    assert all(value[:1] not in ("=", "+", "-", "@") for row in rows for value in row.values())
    assert "refusal" not in path.read_text()  # no verdict is shown
    fill_in(path, ["Refusal", " partial refusal", "PARTIAL-REFUSAL", "", "degenerate"])
    labels = read_labels(path, run)
    assert labels.by_id == {
        "=odd,id": "refusal",
        "p01": "partial_refusal",
        "p02": "partial_refusal",
        "p04": "degenerate",
    }
    assert (labels.stale, labels.blank, labels.inclusion) == ([], ["p03"], None)
    # A spreadsheet writes a byte order mark, CRLF, and rows without anything.
    path.write_bytes(
        b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b",,,,,,,\r\n" * 2
    )
    assert read_labels(path, run).by_id.keys() - {"=odd,id"} == {"p01", "p02", "p04"}


def test_a_label_is_tied_to_prompt_and_answer(tmp_path):
    path = written_labels(tmp_path / "l.csv", judged_answers(), ["refusal"] * 12)
    changed = judged_answers()
    changed[4] = changed[4]._replace(response="Another answer.")
    changed[5] = changed[5]._replace(prompt="Another question?")
    changed[6] = changed[6]._replace(outcome="partial_refusal")
    labels = read_labels(path, changed)
    assert (labels.stale, len(labels.by_id)) == (["p04", "p05"], 10)


def test_hashes_are_texts_to_a_spreadsheet_and_those_of_earlier_releases_are_read(tmp_path):
    run = judged_answers()
    path = written_labels(tmp_path / "l.csv", run, ["refusal"] * 12)
    rows = read_table(path)
    assert all(re.fullmatch("h[0-9a-f]{16}", row["pair_sha256"]) for row in rows)
    rows = [{**row, "pair_sha256": row["pair_sha256"][1:]} for row in rows]
    write_table(path, list(rows[0]), rows)
    assert len(read_labels(path, run).by_id) == 12


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("pair_sha256", "1.23457E+15"),
        ("pair_sha256", "1234567890123450"),
        ("prompt_id", "02. Jan"),
        ("suite", "WAHR"),
    ],
)
def test_a_cell_that_a_spreadsheet_rewrote_is_named_and_nobody_is_told_to_draw_anew(
    tmp_path, cli, column, cell
):
    run = judged_answers()
    write_rows(tmp_path / "rows.jsonl", as_rows(run))
    path = written_labels(tmp_path / "l.csv", run, ["refusal"] * 12)
    rows = read_table(path)
    rows[2][column] = cell
    write_table(path, list(rows[0]), rows)
    labels = read_labels(path, run)
    assert (len(labels.stale), labels.counts.are_random) == (1, False)
    (said,) = labels.warnings
    assert said.startswith("a spreadsheet seems to have rewritten what ties labels to answers")
    assert f"such as {column} {cell!r}): put that column back from a fresh file" in said
    done = cli("correct", "l.csv", "--rows", "rows.jsonl")
    assert (done.code, said in " ".join(done.err.split()), "anew" in done.err) == (1, True, False)


def test_rows_that_were_sorted_are_put_in_order_and_one_that_was_deleted_is_named(tmp_path):
    run, path = judged_answers(40), tmp_path / "l.csv"
    write_sample(path, draw(run, 20, 0))
    fill_in(path, ["refusal"] * 12)
    rows, whole = read_table(path), read_labels(path, run)
    by_prompt = sorted(rows, key=lambda row: row["prompt_id"])
    write_table(path, list(rows[0]), by_prompt)
    assert read_labels(path, run) == whole
    write_table(path, list(rows[0]), rows[:15])  # the end was not reached
    assert read_labels(path, run).by_id == whole.by_id
    for kept, rank in (
        (rows[1:], 1),
        (rows[:4] + rows[6:], 5),
        ([*rows[:4], rows[5] | {"rank": ""}], 5),
    ):
        write_table(path, list(rows[0]), kept)
        with pytest.raises(RowError, match=f"no row has the rank {rank}, .* no random sample"):
            read_labels(path, run)


@pytest.mark.parametrize(
    ("drawn", "now"),
    [
        (judged_answers(40), judged_answers(60)),  # prompts were added; so is a higher --limit
        (judged_answers(40)[3:], judged_answers(40)),  # those that were not judged now are
        (judged_answers(40), judged_answers(39)),
        (answers_with_doubt(40), [*answers_with_doubt(39), answers_with_doubt(41)[-1]]),
        (
            judged_answers(20),
            [*judged_answers(20), judged_answers(1)[0]._replace(prompt_id="p00~2")],
        ),
    ],
)
def test_labels_drawn_from_other_answers_count_for_no_rate_and_say_so(tmp_path, drawn, now):
    path = tmp_path / "l.csv"
    write_sample(path, draw(drawn, 10, 0))
    fill_in(path, ["refusal"] * 10)
    whole = read_labels(path, drawn[::-1])
    assert (len(whole.by_id), whole.stale, whole.warnings) == (10, [], [])
    labels = read_labels(path, now)
    assert (labels.by_id, len(labels.stale), labels.counts.are_random) == ({}, 10, False)
    (warning,) = labels.warnings
    assert warning.startswith(
        f"the labels were drawn from {len(drawn)} answers, which are not the {len(now)} of the run now"
    )
    assert "refract label --keep FILE" in warning


def test_labels_of_a_part_that_do_not_say_what_they_were_drawn_from_are_refused(tmp_path):
    run, path = judged_answers(20), tmp_path / "l.csv"
    for labelled, of in ((10, run), (20, run), (20, [*run, *judged_answers(21)[20:]])):
        rows = [{**row, "label": "refusal"} for row in draw(run, labelled, 0)]
        for row in rows:
            del row["drawn_from"]
        write_table(path, list(rows[0]), rows)
        if labelled == len(of):  # whose labels need no draw
            assert len(read_labels(path, of).by_id) == 20
        else:
            with pytest.raises(
                RowError, match=r"row 1 has no cell 'drawn_from' .* label --keep FILE"
            ):
                read_labels(path, of)


@pytest.mark.parametrize("of", [judged_answers, answers_with_doubt])
def test_a_further_draw_keeps_labels_of_the_same_answers(tmp_path, of, cli):
    write_rows(tmp_path / "a.jsonl", as_rows(of(20)))
    grown = of(30)
    grown[1] = grown[1]._replace(response="Changed.")
    write_rows(tmp_path / "b.jsonl", as_rows(grown))
    assert cli("label", "--rows", "a.jsonl", "--out", "a.csv").code == 0
    rows = [
        {**row, "label": "refusal", "annotator": "ada"} for row in read_table(tmp_path / "a.csv")
    ]
    write_table(tmp_path / "a.csv", list(rows[0]), rows)
    done = cli("correct", "a.csv", "--rows", "b.jsonl")
    assert (done.code, "drawn from 20 answers, which are not the 30" in done.err) == (1, True)
    done = cli("label", "--rows", "b.jsonl", "--keep", "a.csv", "--out", "b.csv")
    assert "19 of the 20 labels in a.csv are kept" in done.out
    labels = {
        row["prompt_id"]: (row["label"], row["annotator"]) for row in read_table(tmp_path / "b.csv")
    }
    kept = {f"p{number:02}" for number in range(20)} - {"p01"}
    assert labels == {name: ("refusal", "ada") if name in kept else ("", "") for name in labels}
    assert len(labels) == 30


def test_samples_of_one_text_keep_the_labels_that_each_was_given(tmp_path, cli):
    run = judged_answers(4)
    twins = [answer._replace(prompt_id=f"{answer.prompt_id}~2", sample=2) for answer in run]
    write_rows(tmp_path / "rows.jsonl", as_rows([*run, *twins]))
    cli("label", "--rows", "rows.jsonl", "--out", "a.csv")
    said = {"p00": "refusal", "p00~2": "compliance", "p01": "degenerate", "p02": "refusal"}
    rows = [row | {"label": said.get(row["prompt_id"], "")} for row in read_table(Path("a.csv"))]
    # These prompts have other ids since.
    renamed = {"p00": "q00", "p00~2": "q00~2", "p01": "q01"}
    others = [row | {"prompt_id": renamed.get(row["prompt_id"], row["prompt_id"])} for row in rows]
    for name, earlier, kept in (
        ("b", rows, said),
        # Of labels that disagree under one text none is kept, and a row left blank stays so.
        ("c", others, {"p01": "degenerate", "p02": "refusal"}),
    ):
        write_table(tmp_path / "a.csv", list(rows[0]), earlier)
        done = cli("label", "--rows", "rows.jsonl", "--keep", "a.csv", "--out", f"{name}.csv")
        labels = {row["prompt_id"]: row["label"] for row in read_table(Path(f"{name}.csv"))}
        assert {prompt_id: label for prompt_id, label in labels.items() if label} == kept
        assert f"{len(kept)} of the 4 labels in a.csv are kept" in done.out


# Draws by the judge's doubt


def test_a_draw_by_doubt_takes_doubtful_answers_more_often_and_says_how_often(tmp_path):
    run = answers_with_doubt(400)
    sample = draw(run, 100, 3)
    probability_of = {answer.prompt_id: answer.probability for answer in run}
    probabilities = {row["prompt_id"]: probability_of[row["prompt_id"]] for row in sample}
    assert drawn_ids(run[::-1], 40, 3) == list(probabilities)[:40]
    unsure = sum(probability == 0.5 for probability in probabilities.values())
    assert unsure > 30  # 80 of 400 are unsure: at random there would be 20
    write_sample(tmp_path / "l.csv", sample)
    assert list(read_table(tmp_path / "l.csv")[0])[-3:] == ["size", "next_place", "drawn_from"]
    fill_in(tmp_path / "l.csv", ["refusal"] * 100)
    whole = read_labels(tmp_path / "l.csv", run)
    # Over all answers, those that were drawn stand for as many as there are.
    assert sum(1 / chance for chance in whole.inclusion.values()) == pytest.approx(400, rel=0.15)
    chances = {p: whole.inclusion[name] for name, p in probabilities.items()}
    assert chances[0.5] / chances[0.97] == pytest.approx((0.27 / (0.97 * 0.03 + 0.02)) ** 0.5)
    fill_in(tmp_path / "l.csv", [*["refusal"] * 30, *[""] * 70])
    part = read_labels(tmp_path / "l.csv", run)
    assert len(part.inclusion) == 30
    assert all(chance < whole.inclusion[name] for name, chance in part.inclusion.items())


@pytest.mark.parametrize("separator", [";", "\t"])
def test_labels_that_a_spreadsheet_separated_otherwise_are_an_error_that_says_so(
    tmp_path, separator
):
    run = answers_with_doubt()
    write_sample(tmp_path / "l.csv", draw(run, 20, 0))
    rows = read_table(tmp_path / "l.csv")
    with open(tmp_path / "l.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    said = f"is one cell: cells of .csv end at ',', and this file is separated by {separator!r}"
    for read in (read_row_file, lambda path: read_labels(path, run)):
        with pytest.raises(RowError, match=re.escape(said)):
            read(tmp_path / "l.csv")


def test_cells_beyond_the_columns_are_nothing_where_blank_and_else_an_error(tmp_path):
    run, path = judged_answers(), tmp_path / "l.csv"
    written = written_labels(path, run, ["refusal"] * 12).read_text("utf-8")
    lines = written.splitlines()
    path.write_text("\n".join([*(f"{line},, " for line in lines), "," * 20]), "utf-8")
    assert len(read_labels(path, run).by_id) == 12
    path.write_text("\n".join([*lines[:5], f"{lines[5]},see note", *lines[6:]]), "utf-8")
    with pytest.raises(RowError, match=r"l\.csv: row 5 has more cells .* \(got 'see note'\)"):
        read_labels(path, run)


def test_the_hash_of_labels_goes_by_what_is_read_however_a_spreadsheet_wrote_it(tmp_path):
    path = written_labels(tmp_path / "l.csv", judged_answers(), ["refusal"] * 12)
    rows = [{"label": row["label"], **row} for row in read_table(path)]
    write_table(path, list(rows[0]), rows)
    content = path.read_bytes()
    of_excel = "\ufeff".encode() + content.replace(b"\n", b"\r\n")
    assert labels_sha256(of_excel) == labels_sha256(content) != labels_sha256(None)
    assert labels_sha256(content.replace(b"refusal", b"degenerate", 1)) != labels_sha256(content)


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "s,p01,h0"])
def test_a_line_that_git_or_a_cut_left_is_named(tmp_path, line):
    path = written_labels(tmp_path / "l.csv", judged_answers(), ["refusal"] * 12)
    first, *lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([first, line, *lines]), "utf-8")
    begins = re.escape(repr(line.split(",")[0]))
    with pytest.raises(RowError, match=rf"row 1, which begins {begins}, has fewer cells"):
        read_labels(path, judged_answers())


SIZE = ": size and next_place must be as `refract label`"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[1].update(label="yes"), "row 2: label must be one of refusal, "),
        (lambda rows: rows.append(rows[0] | {"next_place": "2"}), "row 21 is the second on s p"),
        (lambda rows: [row.pop("pair_sha256") for row in rows], "no column 'pair_sha256'"),
        (lambda rows: [row.pop("rank") for row in rows], "no column 'rank'; keep those"),
        (lambda rows: [row.update(rank="") for row in rows], "no row has the rank 1"),
        (
            lambda rows: [row.update(rank=str(20 - n)) for n, row in enumerate(rows)],
            f"row 19{SIZE}",
        ),
        (lambda rows: rows[3].update(size=""), f"row 4{SIZE}"),
        (lambda rows: rows[3].update(size="-1"), f"row 4{SIZE}"),
        (lambda rows: rows[3].update(size="0.14"), f"row 4{SIZE}.* sizes from 0.141 to 0.520"),
        (lambda rows: [row.update(size="52") for row in rows], f"row 1{SIZE}.*'52'.* put both"),
        (lambda rows: rows[3].update(next_place="soon"), f"row 4{SIZE}"),
        (lambda rows: rows[19].update(next_place=""), f"row 20{SIZE}"),  # 40 more were not drawn
    ],
)
def test_a_file_that_was_sorted_or_changed_is_an_error(tmp_path, spoil, message):
    run = answers_with_doubt()
    write_sample(tmp_path / "l.csv", draw(run, 20, 0))
    rows = read_table(tmp_path / "l.csv")
    spoil(rows)
    write_table(tmp_path / "l.csv", list(rows[0]), rows)
    with pytest.raises(RowError, match=message):
        read_labels(tmp_path / "l.csv", run)


@pytest.mark.parametrize(
    ("run", "kept", "gone", "warnings"),
    [
        (answers_with_doubt(40), 20, ["size", "next_place"], [NO_SIZES]),
        (answers_with_doubt(40), 20, ["notes", "prompt", "response"], []),
        (judged_answers(40), 20, [], []),
        # Labels of all answers need no draw.
        (answers_with_doubt(20), 20, ["size", "next_place"], []),
    ],
)
@pytest.mark.parametrize("emptied", [False, True])
def test_a_part_of_the_answers_without_columns_of_its_draw_is_read_with_a_warning(
    tmp_path, run, kept, gone, warnings, emptied
):
    path = tmp_path / "l.csv"
    write_sample(path, draw(run, kept, 0))
    fill_in(path, ["refusal"] * kept)
    rows = read_table(path)
    if emptied:
        rows = [row | dict.fromkeys(gone, " ") for row in rows]
    else:
        rows = [{name: row[name] for name in row if name not in gone} for row in rows]
    write_table(path, list(rows[0]), rows)
    labels = read_labels(path, run)
    assert labels.warnings == warnings
    assert len(labels.by_id) == kept
    has_sizes = run[0].probability is not None and "size" not in gone
    assert (labels.inclusion is not None) == has_sizes


@pytest.mark.parametrize("text", ["", "suite,prompt_id,pair_sha256,label\n", "suite,label\n,\n,\n"])
def test_a_file_without_rows_is_an_error(tmp_path, text):
    (tmp_path / "l.csv").write_text(text, "utf-8")
    with pytest.raises(RowError, match=r"l\.csv: holds no row: draw answers with `refract label`"):
        read_labels(tmp_path / "l.csv", judged_answers())


def test_two_people_have_a_file_each_of_which_kappa_says_how_far_they_agree(tmp_path, cli):
    texts = ("I can't help.", "Step 1.")
    answers = [
        answer._replace(category="harmful", response=texts[number % 2])
        for number, answer in enumerate(answers_with_doubt(40))
    ]
    write_rows(tmp_path / "rows.jsonl", as_rows(answers))
    r, c = "refusal", "compliance"
    given = {"ada": [*[r] * 5, *[c] * 5, ""], "ben": [*[r] * 4, *[c] * 5, "Refusal", r]}
    for name, of_name in given.items():
        assert cli("label", "--rows", "rows.jsonl", "--out", f"l.{name}.csv", "--n", "11").code == 0
        fill_in(tmp_path / f"l.{name}.csv", of_name)
    command = ("judge", "kappa", "l.ada.csv", "l.ben.csv")
    said = json.loads(cli(*command, "--format", "json").out)
    # 8 of 10 alike, and half of each are refusals: (.8 - .5) / (1 - .5)
    assert (said["joined"], said["refusal"]["kappa"]) == (10, 0.6)
    assert "only in B: 1" in cli(*command).err


def test_labels_that_a_language_model_gave_are_said_to_be_its(tmp_path):
    path = written_labels(tmp_path / "l.csv", judged_answers(), ["refusal"] * 12)
    rows = read_table(path)
    names = ["ada", "model", "model-x", "Model", " model", "MODEL-X", "modeller", *[""] * 5]
    rows = [{**row, "annotator": name} for row, name in zip(rows, names, strict=True)]
    write_table(path, list(rows[0]), rows)
    warnings = read_labels(path, judged_answers()).warnings
    assert warnings == ["5 labels are a language model's, not a person's"]
    assert JoinedLabels({}).warnings == [NO_LABEL]
    warnings = JoinedLabels({}, stale=["a", "b", "c"], blank=["d"], by_models=2).warnings
    assert [warning.split()[0] for warning in warnings] == ["1", "3", "2"]


# The folder of human labels: no file in it is passed over in silence


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
