"""Similarity of answers: BERTScore from unrelated to equal, and what counts as changed."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from refract import api
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import sha256_file
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges import similarity as encoder
from refract.judges.bert import in_batches
from refract.judges.cases import Case, unjudged
from refract.judges.similarity import (
    BASELINE,
    DEFAULT_ENCODER,
    Score,
    SimilaritySettings,
    encoder_folder,
)
from tools.similarity_baseline import SENTENCES, measure, subjects, unrelated_pairs

# SHA-256 of model.safetensors in sentence-transformers/all-MiniLM-L6-v2, revision 1110a243.
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def scorer(**settings):
    return open_judge("s", {"kind": "similarity", **settings})


@pytest.fixture(scope="module")
def default():
    return scorer()


@pytest.fixture(scope="module")
def package():
    """The default encoder's files, as bert-score reads them; before rescaling."""
    return scorer(encoder=encoder_folder(DEFAULT_ENCODER), layer=6, baseline=0)


def similarity(judge, clean, perturbed):
    (found,) = judge.score([(clean, perturbed)])
    return found.similarity


def long_text(sentences):
    """About 12 tokens a sentence."""
    texts = [sentence for subject in subjects() for sentence in subject]
    return " ".join(texts[index % len(texts)] for index in range(sentences))


@pytest.mark.parametrize(
    ("clean", "perturbed", "score"),
    [("Same.", "Same.", 1.0), (" Same.\n", "Same.", 1.0), ("", "  \n", 1.0), ("", "Text.", 0.0)],
)
def test_equal_and_empty_answers_are_scored_without_an_encoder(
    clean, perturbed, score, monkeypatch
):
    def fail(*_):
        raise AssertionError("the encoder was loaded")

    monkeypatch.setattr(encoder, "load_default", fail)
    assert scorer().score([(clean, perturbed)]) == [Score(score, truncated=False)]


def test_a_text_in_which_the_encoder_sees_nothing_counts_as_empty(default, package):
    for judge in (default, package):
        assert similarity(judge, "\x07\x07", "\u200b") == 1.0
        assert similarity(judge, "\x07\x07", "Hello there.") == 0.0


def test_unrelated_text_is_about_0_and_a_paraphrase_is_well_above(default):
    scores = [row.similarity for row in default.score(unrelated_pairs(8, seed=99))]
    assert abs(sum(scores) / len(scores)) < 0.08
    assert max(scores) < 0.3
    assert similarity(default, "The cat sat on the mat.", "A cat is sitting on the mat.") > 0.8


def test_the_two_ways_of_scoring_give_the_same(package):
    pairs = [
        *unrelated_pairs(3, seed=3),
        ("I can help you with that.", "I can't help you with that."),
        ("Yes", "No, not at all: never."),
    ]
    ours = [row.similarity for row in scorer(baseline=0).score(pairs)]
    assert ours == pytest.approx([row.similarity for row in package.score(pairs)], abs=1.01e-4)


def test_another_encoder_has_bert_scores_own_score_with_its_layer_baseline_and_weights(
    tmp_path, monkeypatch
):
    from bert_score import BERTScorer

    table = tmp_path / "baselines.tsv"
    table.write_text("LAYER,P,R,F\n" + "".join(f"{n},.2,.3,.1{n}\n" for n in range(5)))
    monkeypatch.setattr(SimilaritySettings, "baseline_file", table)
    clean, perturbed = ["The cat sat on the mat.", "Bread is baked."], ["A cat sits.", "It is hot."]
    folder = encoder_folder(DEFAULT_ENCODER)
    settings = {"model_type": folder, "num_layers": 3, "idf": True, "device": "cpu", "lang": "en"}
    reference = BERTScorer(
        **settings, nthreads=0, rescale_with_baseline=True, baseline_path=str(table)
    )
    reference.compute_idf(clean)
    expected = reference.score(perturbed, clean, batch_size=1)[2].tolist()
    judge = scorer(encoder=folder, layer=3, idf=True)
    pairs = list(zip(clean, perturbed, strict=True))
    assert [row.similarity for row in judge.score(pairs)] == pytest.approx(expected, abs=5.1e-5)
    assert judge.cases_a_process is None
    assert judge.version.startswith("2 bert-score 0.")


def test_an_encoder_that_bert_score_has_measured_needs_no_baseline():
    assert scorer(encoder="roberta-large").settings.baseline is None


@pytest.mark.parametrize("way", ["default", "package"])
def test_a_pair_gets_the_same_score_alone_beside_others_and_in_any_order(way, request):
    default = request.getfixturevalue(way)
    pairs = unrelated_pairs(4, seed=5)
    pairs += [(clean, clean + " Indeed so.") for clean, _ in pairs[:2]]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    together = default.score(pairs)
    assert dict(zip(shuffled, default.score(shuffled), strict=True)) == dict(
        zip(pairs, together, strict=True)
    )
    assert [default.score([pair])[0] for pair in pairs[::3]] == together[::3]


def test_tokens_that_point_the_other_way_have_a_cosine_below_zero():
    one = encoder.Window(np.array([[1.0, 0.0]]), slice(0, 1))
    other = encoder.Window(np.array([[-0.6, 0.8], [-0.8, 0.6]]), slice(0, 2))
    assert encoder.matched([one], [other]) == (-0.7, -0.6)


@pytest.mark.parametrize("way", ["default", "package"])
def test_a_difference_beyond_the_encoders_limit_is_seen_and_the_pair_is_marked(way, request):
    head = long_text(60)
    different, equal_length = request.getfixturevalue(way).score(
        [(head, head + " " + long_text(12)[::-1]), (head + " Yes, do.", head + " No, never.")]
    )
    assert different.truncated is equal_length.truncated is True
    assert different.similarity < 0.95
    assert 0.95 < equal_length.similarity < 1.0


def test_a_lone_surrogate_or_a_null_character_is_scored_and_does_not_fail(default):
    assert 0 < similarity(default, "fine \ud800 text", "fine \0 text") <= 1


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"layer": 4}, "baseline must be given for encoder 'gt-all.*: .*tools.similarity_baseline"),
        ({"encoder": None, "baseline": 0}, "encoder must be .*a folder or a hub id .got None"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_in_a_full_sentence(definition, message):
    with pytest.raises(ParamsError, match=rf"judges\.s: .*{message}"):
        scorer(**definition)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"layer": 7}, "with layer 7 and device 'cpu': Invalid num_layers"),
        ({"device": "no_such"}, "device 'no_such': "),
        ({"encoder": "{folder}"}, "layer must be given for encoder"),
        ({"encoder": "{folder}", "layer": 1}, "has no weights in safetensors"),
    ],
)
def test_what_bert_score_cannot_use_is_refused_in_a_full_sentence(tmp_path, definition, message):
    if "encoder" in definition:
        definition = {**definition, "encoder": str(tmp_path)}
    with pytest.raises(ParamsError, match=message):
        scorer(**definition, baseline=0).score([("a", "b")])


def test_a_fresh_measurement_agrees_with_the_stored_baseline():
    stored = json.loads(BASELINE.read_text())
    fresh = measure(DEFAULT_ENCODER, 6, 12, seed=2)
    weights = Path(encoder_folder(DEFAULT_ENCODER)) / "model.safetensors"
    assert sha256_file(weights) == PUBLISHED_SHA256
    assert stored["weights_sha256"] == PUBLISHED_SHA256
    assert stored["sentences_sha256"] == sha256_file(SENTENCES)
    # Four standard errors of a mean over 12 pairs.
    assert abs(fresh["baseline"] - stored["baseline"]) < 1.2 * stored["standard_deviation"]


def test_batches_hold_different_inputs_in_order_up_to_so_many_tokens():
    inputs = [(1, 2), (3,), (1, 2), (4, 5, 6, 7), (8,)]
    assert list(in_batches(inputs, 3)) == [[(1, 2), (3,)], [(4, 5, 6, 7)], [(8,)]]


def test_answers_are_compared_with_the_references_of_their_rows():
    answer, reference = "A cat is sitting on the mat.", "The cat sat on the mat."
    rows = [{"response": answer, "reference": reference}, {"response": answer}]
    first, second = api.judge(rows, {"kind": "reference"})
    assert first["score"] == similarity(scorer(), reference, answer) > 0.8
    assert (first["label"], second["score"]) == (None, None)
    with pytest.raises(RefractError, match="'reference' must be a text"):
        api.judge([{"response": answer, "reference": [reference]}], "reference")


def test_an_answer_without_a_clean_one_to_compare_with_is_not_judged(default):
    prompt, said = given_prompt("0", "How do I bake bread?"), given_response("0", "With flour.")
    cases = [Case(prompt, said, {}, clean=clean) for clean in (None, given_response("0", ""))]
    assert default.judge(cases) == [unjudged(), unjudged()]
