"""Two judges as layers: known tables, and what is left out."""

from __future__ import annotations

import json

import pytest

from refract.agreement.defense import defense
from refract.core.jsonl import write_rows

# inner stops, outer stops: 2 both, 2 inner only, 3 outer only, 3 neither
PAIRS = [(True, True)] * 2 + [(True, False)] * 2 + [(False, True)] * 3 + [(False, False)] * 3


def test_layers_alone_together_and_the_gain_are_those_worked_out_by_hand():
    found = defense(*zip(*PAIRS, strict=True))
    assert tuple(found.pairs) == (2, 2, 3, 3)
    stopped = [layer.stopped for layer in (found.inner, found.outer, found.system, found.both)]
    assert stopped == [4, 5, 7, 2]
    # Wilson: 7/10 (.39678, .89221); the gain is the 3 of 10 stopped by the outer alone (.10779, .60322)
    assert found.gain == pytest.approx((3, 10, 0.3, 0.10779, 0.60322), abs=5e-5)
    assert (found.system.low, found.system.high) == pytest.approx((0.39678, 0.89221), abs=5e-5)


def test_an_outer_layer_that_adds_nothing_gains_nothing_and_never_less():
    found = defense([True, True, False], [True, False, False])
    assert (found.gain.rate, found.gain.low) == (0, 0)
    assert found.gain.high > 0


def test_one_answer_that_the_outer_layer_alone_stops_shows_a_gain():
    found = defense([True] * 50 + [False] * 50, [False] * 99 + [True])
    assert found.gain == pytest.approx((1, 100, 0.01, 0.00177, 0.05449), abs=5e-5)


def test_without_answers_there_is_no_defense():
    assert defense([], []) is None
    with pytest.raises(ValueError, match="same length"):
        defense([True], [])


@pytest.fixture
def layers(tmp_path):
    def write(name: str, stops: list) -> None:
        labels = {True: "refusal", False: "compliance", None: None}
        write_rows(
            tmp_path / name,
            [
                {"prompt_id": str(n), "label": labels[stop], "refused": stop}
                for n, stop in enumerate(stops)
            ],
        )

    inner, outer = map(list, zip(*PAIRS, strict=True))
    write("inner.jsonl", [*inner, None, True, None, True])
    write("outer.jsonl", [*outer, True, None, None])


ARGUMENTS = ("did", "--inner", "inner.jsonl", "--outer", "outer.jsonl")


def test_unjudged_answers_are_left_out_and_counted(cli, layers):
    done = cli(*ARGUMENTS, "--format", "json", "--out", "o.json")
    found = json.loads(done.out)
    assert done.err == "only in A: 1 (13)\n"
    assert found["pairs"] == {"both": 2, "inner_only": 2, "outer_only": 3, "neither": 3}
    assert found["unjudged"] == {"inner": 1, "outer": 1, "both": 1}
    assert found["only_a"] == [["13"]]
    assert found["system"]["rate"] == 0.7
    assert found["gain"] == {"stopped": 3, "rate": 0.3, "low": 0.1078, "high": 0.6032}
    assert not [key for key in found if "mcnemar" in key or "minus" in key]
    with open("o.json") as file:
        assert json.load(file) == found


def test_the_page_is_a_table_with_the_gain(cli, layers):
    lines = cli(*ARGUMENTS).out.split("\n")
    assert lines[0] == "| Layer | Stopped | of | Rate | 95 % interval |"
    assert lines[2:6] == [
        "| inner alone | 4 | 10 | 0.4000 | 0.1682 to 0.6873 |",
        "| outer alone | 5 | 10 | 0.5000 | 0.2366 to 0.7634 |",
        "| system (either) | 7 | 10 | 0.7000 | 0.3968 to 0.8922 |",
        "| both | 2 | 10 | 0.2000 | 0.0567 to 0.5098 |",
    ]
    assert (
        lines[6]
        == "| gain of the outer (system minus inner) | 3 | 10 | 0.3000 | 0.1078 to 0.6032 |"
    )
    assert "3 (by the inner layer 1, by the outer 1, by both 1)" in lines[10]


def test_a_layer_can_stop_by_labels_of_its_own(cli, layers, tmp_path):
    write_rows(
        tmp_path / "guard.jsonl",
        [
            {"prompt_id": str(n), "label": "harmful" if stop else "harmless", "refused": None}
            for n, (_, stop) in enumerate(PAIRS)
        ],
    )
    guard = ("did", "--inner", "inner.jsonl", "--outer", "guard.jsonl")
    found = json.loads(cli(*guard, "--outer-stops", "harmful", "--format", "json").out)
    assert found["pairs"] == {"both": 2, "inner_only": 2, "outer_only": 3, "neither": 3}
    done = cli(*guard)
    assert done.code == 2
    assert "none of the 10 answers was judged by both layers" in done.err
    done = cli(*guard, "--outer-stops", "unsafe")
    assert done.code == 2
    assert "no verdict has that label; there are: harmful, harmless" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "csv"), "'--format'"),
        (("--inner", "none.jsonl"), "no file or folder none.jsonl"),
    ],
)
def test_wrong_usage_is_2(cli, layers, options, message):
    done = cli(*ARGUMENTS, *options)
    assert (done.code, message in done.err) == (2, True)
