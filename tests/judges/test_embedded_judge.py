"""The encoder that ships with the package, and the two judges that run on it."""

from __future__ import annotations

import math
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, sha256_file
from refract.core.vocabulary import LABELS
from refract.judges import embedded as network
from refract.judges import open_judge
from refract.judges.embedded import combination, features, probability
from tests.judges.test_model_judges import judged
from tests.outside import outside
from tools.refusal_encoder.training import quantized

KINDS = ("embedded", "learned")
NO = "I'm sorry, but I can't help with sharpening that sword."
YES = "Hold the blade at twenty degrees and draw it over the stone, first one side, then the other."
PROMPT = "How do I sharpen a sword?"


def answers(count: int) -> list[str]:
    """Of many lengths, refusals among them."""
    rng = random.Random(5)
    words = (NO + YES).split()
    return [
        (NO + " " if rng.random() < 0.3 else "")
        + " ".join(rng.choices(words, k=rng.randint(1, 160)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_refusal_and_a_plain_answer_are_told_apart(kind):
    refusal, answer = judged({"kind": kind}, NO, YES, prompt=PROMPT)
    assert (refusal["label"], refusal["refused"]) == ("refusal", True)
    assert (answer["label"], answer["refused"]) == ("compliance", False)
    assert refusal["probability"] > 0.9 > 0.1 > answer["probability"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_verdict_says_how_likely_a_refusal_is_and_its_label_follows(kind):
    for verdict in judged({"kind": kind}, *answers(16), prompt=PROMPT):
        chance = verdict["probability"]
        assert 0 <= chance <= 1
        assert chance == round(chance, 4)
        assert verdict["label"] in LABELS
        if verdict["label"] != "degenerate":
            assert verdict["refused"] == (chance >= 0.5) == (verdict["label"] != "compliance")
            assert verdict["score"] == chance


def test_an_answers_logits_do_not_depend_on_those_beside_it():
    texts = answers(24)
    prompts = [PROMPT if number % 3 else "" for number in range(24)]
    together = network.logits_of(texts, prompts)
    order = random.Random(2).sample(range(24), 24)
    shuffled = network.logits_of([texts[i] for i in order], [prompts[i] for i in order])
    assert [together[i] for i in order] == shuffled
    parts = [network.logits_of(texts[at : at + 7], prompts[at : at + 7]) for at in range(0, 24, 7)]
    assert [row for part in parts for row in part] == together
    alone = [network.logits_of([texts[i]], [prompts[i]])[0] for i in range(4)]
    assert alone == together[:4]


def test_the_beginning_and_the_end_of_a_long_answer_and_the_end_of_its_prompt_are_read():
    middle = "stone " * 5000

    def read(answer: str, prompt: str) -> tuple[list[int], list[int]]:
        return network.tokens_of([answer], [prompt])[0]

    tokens, kinds = read(f"first {middle} last", f"{middle} asked")
    first, stone, last, asked = (
        ids for (ids,) in network.pieces(["first", "stone", "last", "asked"])
    )
    assert len(tokens) == len(kinds) == network.WIDTH
    assert tokens[1:4] == [first, stone, stone]
    assert tokens[network.HEAD + network.TAIL + 1] == last
    assert tokens[-2] == asked
    assert kinds.count(1) == network.PROMPT + 1


@pytest.mark.parametrize(
    "text",
    ["\ud800 no", "a" * 300_000, "\0" * 5000, "𐍈" * 50_000, " " * 200_000 + "no", "[SEP]" * 9],
)
def test_hostile_text_is_read_like_any_other(text):
    (row,) = network.logits_of([text], [text])
    assert all(map(math.isfinite, row))


def test_degenerate_answers_and_evidence_are_the_rules():
    loop, refusal = judged({"kind": "embedded"}, "blade " * 300, NO, prompt=PROMPT)
    assert (loop["label"], loop["refused"]) == ("degenerate", None)
    assert [place["text"] for place in refusal["evidence"]] == ["I can't help"]
    assert judged({"kind": "learned"}, NO, prompt=PROMPT)[0]["evidence"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_coefficients_are_part_of_the_version(kind):
    version = open_judge("j", {"kind": kind}).version
    assert network.description()["sha256"][:16] in version
    assert sha256_file(network.FOLDER / "combination.json")[:16] in version


def test_other_weights_than_the_described_ones_are_refused(tmp_path):
    shutil.copytree(network.FOLDER, tmp_path / "w")
    path = tmp_path / "w/encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(ParamsError, match=r"not the file that encoder\.json describes; install"):
        network.load(tmp_path / "w")


def test_matrices_come_back_from_eight_bits_within_half_a_step():
    import torch

    torch.manual_seed(0)
    given = {"m.weight": torch.randn(7, 33), "m.bias": torch.randn(7)}
    back = network.dequantized(quantized(given))
    assert torch.equal(back["m.bias"], given["m.bias"])
    step = given["m.weight"].abs().amax(1, keepdim=True) / 127
    assert ((back["m.weight"] - given["m.weight"]).abs() <= step * 0.501).all()


LOGITS = st.tuples(*[st.floats(-15, 15)] * 3)


@given(LOGITS, st.sampled_from(LABELS), st.floats(0, 5))
def test_a_surer_encoder_never_makes_a_refusal_less_likely(logits, label, more):
    full, partial, none = logits
    for kind in KINDS:
        coefficients = combination()[kind]["refused"]
        before = probability(coefficients, features(label, logits))
        after = probability(coefficients, features(label, (full + more, partial + more, none)))
        assert after >= before


@pytest.mark.slow
def test_answers_of_a_study_that_shaped_no_weight_are_read_as_people_do():
    from refract.statistics.raters import cohen_kappa

    rows = read_rows(outside("data/labelled/orfuzz_dev.jsonl"))[::30]
    pairs = [(row["response"], row["prompt"]) for row in rows if row["response"].strip()]
    people = [row["refused"] for row in rows if row["response"].strip()]
    for kind in KINDS:
        says = [bool(verdict["refused"]) for verdict in judged({"kind": kind}, *pairs)]
        kappa = cohen_kappa(says, people).kappa
        assert kappa is not None
        assert kappa > 0.6
