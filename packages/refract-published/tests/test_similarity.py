"""Similarity of answers: BERTScore from unrelated to equal, and what counts as changed."""

import json
import random

import numpy as np
import pytest

from refract import api
from refract.core.errors import RefractError
from refract.core.jsonl import sha256_file
from refract.core.types import given_prompt, given_response
from refract.judges import open_judge
from refract.judges.bert import in_batches
from refract.judges.cases import Case, unjudged
from refract_published.judges import similarity as encoder
from refract_published.judges.similarity import BASELINE, DEFAULT_ENCODER, Score, encoder_folder
from tools.similarity_baseline import SENTENCES, measure, subjects, unrelated_pairs

# SHA-256 of model.safetensors in sentence-transformers/all-MiniLM-L6-v2, revision 1110a243.
PUBLISHED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def scorer(**settings):
    return open_judge("s", {"kind": "similarity", **settings})


@pytest.fixture(scope="module")
def default():
    return scorer()


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


def test_a_text_in_which_the_encoder_sees_nothing_counts_as_empty(default):
    assert similarity(default, "\x07\x07", "\u200b") == 1.0
    assert similarity(default, "\x07\x07", "Hello there.") == 0.0


def test_unrelated_text_is_about_0_and_a_paraphrase_is_well_above(default):
    scores = [row.similarity for row in default.score(unrelated_pairs(8, seed=99))]
    assert abs(sum(scores) / len(scores)) < 0.08
    assert max(scores) < 0.3
    assert similarity(default, "The cat sat on the mat.", "A cat is sitting on the mat.") > 0.8


def test_a_pair_gets_the_same_score_alone_beside_others_and_in_any_order(default):
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


def test_a_difference_beyond_the_encoders_limit_is_seen_and_the_pair_is_marked(default):
    head = long_text(60)
    different, equal_length = default.score(
        [(head, head + " " + long_text(12)[::-1]), (head + " Yes, do.", head + " No, never.")]
    )
    assert different.truncated is equal_length.truncated is True
    assert different.similarity < 0.95
    assert 0.95 < equal_length.similarity < 1.0


def test_a_lone_surrogate_or_a_null_character_is_scored_and_does_not_fail(default):
    assert 0 < similarity(default, "fine \ud800 text", "fine \0 text") <= 1


def test_a_fresh_measurement_agrees_with_the_stored_baseline():
    stored = json.loads(BASELINE.read_text())
    fresh = measure(DEFAULT_ENCODER, 6, 12, seed=2)
    weights = encoder_folder() / "model.safetensors"
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
