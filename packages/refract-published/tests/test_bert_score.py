"""BERTScore by any encoder: bert-score's own scores, one pair at a time."""

from __future__ import annotations

import random

import pytest

from refract import api
from refract.core.errors import ParamsError
from refract.judges import open_judge
from refract_published.judges.bert_score_judge import EncoderSettings
from refract_published.judges.similarity import DEFAULT_ENCODER, encoder_folder
from test_similarity import similarity
from tools.similarity_baseline import unrelated_pairs

pytest.importorskip("bert_score")
OURS = {"encoder": DEFAULT_ENCODER, "layer": 6, "baseline": 0}


def scorer(**settings):
    return open_judge("s", {"kind": "bert_score", **settings})


@pytest.fixture(scope="module")
def package():
    """The files of the encoder of ``similarity``, as bert-score reads them; before rescaling."""
    return scorer(**OURS)


def test_the_two_ways_of_scoring_give_the_same(package):
    pairs = [
        *unrelated_pairs(3, seed=3),
        ("I can help you with that.", "I can't help you with that."),
        ("Yes", "No, not at all: never."),
    ]
    ours = open_judge("o", {"kind": "similarity", "baseline": 0})
    scores = [row.similarity for row in ours.score(pairs)]
    assert scores == pytest.approx([row.similarity for row in package.score(pairs)], abs=1.01e-4)


def test_another_encoder_has_bert_scores_own_score_with_its_layer_and_baseline(
    tmp_path, monkeypatch
):
    from bert_score import BERTScorer

    table = tmp_path / "baselines.tsv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{n},.2,.3,.1{n}\n" for n in range(5)))
    monkeypatch.setattr(EncoderSettings, "baseline_file", table)
    clean, perturbed = ["The cat sat on the mat.", "Bread is baked."], ["A cat sits.", "It is hot."]
    folder = str(encoder_folder())
    settings = {"model_type": folder, "num_layers": 3, "device": "cpu", "lang": "en"}
    reference = BERTScorer(
        **settings, nthreads=0, rescale_with_baseline=True, baseline_path=str(table)
    )
    expected = reference.score(perturbed, clean, batch_size=1)[2].tolist()
    judge = scorer(encoder=folder, layer=3)
    pairs = list(zip(clean, perturbed, strict=True))
    assert [row.similarity for row in judge.score(pairs)] == pytest.approx(expected, abs=5.1e-5)
    assert judge.version.startswith("2 bert-score 0.")


def test_an_encoder_that_bert_score_has_measured_needs_no_baseline():
    assert scorer(encoder="roberta-large").settings.baseline is None


def test_a_pair_gets_the_same_score_alone_beside_others_and_in_any_order(package):
    pairs = unrelated_pairs(4, seed=5)
    shuffled = random.Random(1).sample(pairs, len(pairs))
    together = package.score(pairs)
    assert package.score(shuffled) == [together[pairs.index(pair)] for pair in shuffled]
    assert [package.score([pair])[0] for pair in pairs[::3]] == together[::3]


def test_answers_are_compared_with_the_references_of_their_rows(package):
    row = {"response": "A cat is sitting.", "reference": "The cat sat on the mat."}
    (verdict,) = api.judge([row], {"kind": "bert_score_reference", **OURS})
    assert verdict["score"] == similarity(package, row["reference"], row["response"])


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"encoder": "x", "layer": 4}, "baseline must be given for encoder 'x': .*similarity_bas"),
        ({"encoder": None, "baseline": 0}, "encoder must be .*a folder, a hub id, .*got None"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_in_a_full_sentence(definition, message):
    with pytest.raises(ParamsError, match=rf"judges\.s: .*{message}"):
        scorer(**definition)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"encoder": DEFAULT_ENCODER, "layer": 7}, "layer 7 and device 'cpu': Invalid num_layers"),
        ({"encoder": DEFAULT_ENCODER, "device": "no_such"}, "device 'no_such': "),
        ({"encoder": "{folder}"}, "layer must be given for encoder"),
        ({"encoder": "{folder}", "layer": 1}, "has no weights in safetensors"),
    ],
)
def test_what_bert_score_cannot_use_is_refused_in_a_full_sentence(tmp_path, definition, message):
    definition = {**definition, "encoder": definition["encoder"].format(folder=tmp_path)}
    with pytest.raises(ParamsError, match=message):
        scorer(**definition, baseline=0).score([("a", "b")])
