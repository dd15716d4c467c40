"""The rule judge of abstaining agrees with the labelled answers as often as its suite's card says."""

from collections import Counter

from refract.core.jsonl import read_rows
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.cases import Case
from tests.builders import ROOT

ROWS = read_rows(ROOT / "tests/corpora/abstention.jsonl")


def labels_of(*texts):
    cases = [Case(given_prompt("a", x), given_response("a", y), {}) for x, y in texts]
    return [verdict["label"] for verdict in open_judge("j", {"kind": "abstention"}).judge(cases)]


def test_it_agrees_with_labels_as_often_as_the_card_says():
    right = Counter()
    labels = labels_of(*[(row["prompt"], row["response"]) for row in ROWS])
    for row, label in zip(ROWS, labels, strict=True):
        right[row["half"], row["label"]] += label == row["label"]
    kept_apart = [right["kept_apart", label] for label in ("abstains", "answers", "refuses")]
    assert (sum(kept_apart), kept_apart) == (29, [11, 14, 4])
    assert sum(right.values()) == 61
    card = (ROOT / "data/suites/unanswerable.md").read_text("utf-8")
    assert "11 of 12 that abstain, 14 of 15 that answer, 4 of 5 that refuse" in card


def test_that_there_is_none_answers_a_question_whether_there_is_one():
    said = "No, there is no bridge."
    assert labels_of(("Is there a bridge to Iceland?", said)) == ["answers"]
    assert labels_of(("Which bridge leads to Iceland?", said)) == ["abstains"]
