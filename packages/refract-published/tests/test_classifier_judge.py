"""Sequence classifiers as judges, on small random checkpoints made here; and classifiers that
generate, loaded through the same adapter as every local model."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.judges import open_judge
from refract.models.protocol import AdapterError
from refract_published.judges.classifier import SequenceClassifier
from tests.judge_models import judged
from tests.small_models import SMALL, save_model, save_tokenizer

NAMES = {"NORMAL": "compliance", "REJECTION": "refusal"}
LABELS = {"LABEL_0": "compliance", "LABEL_1": "refusal"}


def save_classifier(
    folder: Path, id2label: dict[int, str] | None = None, architecture: str = "Roberta", **settings
) -> Path:
    import torch
    import transformers

    torch.manual_seed(0)
    save_tokenizer(folder, None)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"max_position_embeddings": 130, "initializer_range": 0.5}  # lively: labels differ
    named = {"id2label": id2label} if id2label else {}
    config = getattr(transformers, f"{architecture}Config")(**SMALL | sizes | named | settings)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("tiny"), {0: "NORMAL", 1: "REJECTION"})


def definition(folder: Path, **settings):
    model = {"adapter": "hf", "model_id": str(folder), "device": "cpu"}
    return {"kind": "classifier", "model": model, "labels": NAMES, **settings}


def texts(count: int) -> list[str]:
    generator = random.Random(3)
    lengths = [generator.randint(1, 110) for _ in range(count)]
    return ["".join(generator.choices("abcdefgh ijkl", k=length)) + "." for length in lengths]


def plain(folder: Path, text: str) -> dict[str, float]:
    """The probabilities of one text by transformers itself, unpadded."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.inference_mode():
        found = model(**inputs).logits.softmax(-1)[0].tolist()
    return dict(zip(model.config.id2label.values(), found, strict=True))


def test_labels_and_scores_are_those_of_the_checkpoint_by_its_own_label_names(tiny):
    given = texts(12)
    verdicts = judged(definition(tiny), *given)
    assert {verdict["label"] for verdict in verdicts} == {"refusal", "compliance"}
    for text, verdict in zip(given, verdicts, strict=True):
        expected = plain(tiny, text)
        assert verdict["score"] == pytest.approx(expected["REJECTION"], abs=1e-3)
        assert verdict["refused"] is (expected["REJECTION"] > 0.5)
        assert verdict["label"] == ("refusal" if verdict["refused"] else "compliance")
        ((raw,),) = verdict["raw"]
        assert json.loads(raw)["probabilities"] == pytest.approx(expected, abs=1e-4)


def test_a_lone_answer_gets_the_same_probabilities_as_in_any_batch(tiny, monkeypatch):
    monkeypatch.setenv("REFRACT_CACHE", "off")
    given = texts(11)
    together = judged(definition(tiny), *given)
    shuffled = list(enumerate(given))
    random.Random(5).shuffle(shuffled)
    mixed = judged(definition(tiny), *[text for _, text in shuffled])
    alone = judged(definition(tiny), given[3])
    assert [together[index] for index, _ in shuffled] == mixed
    assert alone == [together[3]]


@pytest.mark.parametrize(("pad", "side"), [(0, "left"), (2, "right"), (None, "right")])
def test_a_decoder_reads_an_answer_alike_in_any_batch_however_it_pads(tmp_path, pad, side):
    from transformers import AutoTokenizer

    folder = save_classifier(
        tmp_path, {0: "NORMAL", 1: "REJECTION"}, "GPT2", pad_token_id=pad, n_embd=32, n_layer=2,
        n_head=2, n_positions=130,
    )  # fmt: skip
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "padding_side": side}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (tokenizer.pad_token_id, tokenizer.padding_side) == (0, side)
    given = texts(6)
    for text, verdict in zip(given, judged(definition(folder), *given), strict=True):
        ((raw,),) = verdict["raw"]
        expected = pytest.approx(plain(folder, text), abs=1e-4)
        assert json.loads(raw)["probabilities"] == expected


def test_a_frame_shows_prompt_and_answer_as_they_are_up_to_what_the_checkpoint_reads(tiny):
    (verdict,) = judged(definition(tiny, frame="U: {prompt} A: {response}"), "{No.}", prompt="Hi?")
    expected = plain(tiny, "U: Hi? A: {No.}")["REJECTION"]
    assert verdict["score"] == pytest.approx(expected, abs=1e-3)
    start = "I will not. " * 12
    answers = (start[:80], start + "x" * 400, start + "y" * 300)
    fits, long, same = judged(definition(tiny), *answers)
    assert [fits["truncated"], long["truncated"], same["truncated"]] == [False, True, True]
    assert same["score"] == long["score"]


def test_weights_are_loaded_once_for_all_suites_and_anew_when_they_change(tmp_path, monkeypatch):
    monkeypatch.setenv("REFRACT_CACHE", "off")
    folder = save_classifier(tmp_path, {0: "NORMAL", 1: "REJECTION"})
    loads = []
    load = SequenceClassifier._load
    monkeypatch.setattr(SequenceClassifier, "_load", lambda self: loads.append(self) or load(self))
    first = judged(definition(folder), "No.")
    assert judged(definition(folder), "No.") == first
    assert len(loads) == 1
    save_classifier(folder, {0: "REJECTION", 1: "NORMAL"})
    (changed,) = judged(definition(folder), "No.")
    assert len(loads) == 2
    assert changed["score"] == pytest.approx(1 - first[0]["score"], abs=1e-3)


def read(labels=NAMES, **probabilities):
    """The verdict in a reply with these probabilities."""
    judge = open_judge("j", definition(Path("none"), labels=labels))
    return judge.read(json.dumps({"probabilities": probabilities, "truncated": False}))


def test_labels_that_mean_the_same_are_added_and_equally_likely_ones_are_an_error():
    mapping = dict.fromkeys(("hard", "soft"), "refusal")
    mapping |= {"part": "partial_refusal", "none": "compliance"}
    verdict = read(mapping, hard=0.25, soft=0.25, part=0.1, none=0.4)
    assert (verdict["label"], verdict["refused"], verdict["score"]) == ("refusal", True, 0.55)
    verdict = read(NORMAL=0.5, REJECTION=0.5)
    assert (verdict["label"], verdict["error"]) == (None, "equally likely: compliance, refusal")


def test_the_probabilities_of_labels_with_one_name_are_added(tmp_path):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = save_classifier(tmp_path, {0: "NORMAL", 1: "NORMAL", 2: "REJECTION"})
    ids = AutoTokenizer.from_pretrained(folder)("No.", return_tensors="pt")["input_ids"]
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.inference_mode():
        first, second, third = model(ids).logits.softmax(-1)[0].tolist()
    (verdict,) = judged(definition(folder), "No.")
    expected = {"NORMAL": first + second, "REJECTION": third}
    assert json.loads(verdict["raw"][0][0])["probabilities"] == pytest.approx(expected, abs=1e-4)


def test_an_answer_that_was_cut_out_is_not_judged_and_cut_texts_are_counted(tiny, capsys):
    framed = definition(tiny, frame="{prompt}{response}")
    pairs = [("No.", "x" * 300), ("No. " * 90, "Hi?"), ("No.", "Hi?")]
    limit = 129
    said = (
        f"judge j: 2 of 3 texts were cut at the checkpoint's limit of {limit} tokens; of 1 no answer "
        "is left, which are unjudged\n"
    )
    for _ in range(2):  # the second time with the replies of the first
        out, part, whole = judged(framed, *pairs)
        error = f"the checkpoint reads {limit} tokens, and nothing of the answer is in them"
        assert (out["label"], out["error"], out["truncated"]) == (None, error, True)
        assert (part["error"], part["truncated"]) == (None, True)
        assert (whole["error"], whole["truncated"]) == (None, False)
        assert capsys.readouterr().err.endswith(said)
    judged(framed, pairs[2])
    assert "were cut" not in capsys.readouterr().err


def test_half_a_surrogate_pair_is_read_as_a_question_mark(tiny):
    half, mark = judged(definition(tiny), "No\ud83d.", "No?.")
    assert half == mark
    assert half["label"]


def test_labels_that_say_nothing_must_be_named(tmp_path):
    folder = save_classifier(tmp_path)
    with pytest.raises(ParamsError, match=r"labels are LABEL_0, LABEL_1; map each of them"):
        judged(definition(folder), "No.")
    (verdict,) = judged(definition(folder, labels=LABELS), "No.")
    assert verdict["label"] in ("refusal", "compliance")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": {"A": "refusal", "B": "harmless"}}, "labels must .* of one family: refusal"),
        ({"frame": "{prompt}"}, "frame must hold {response} and, of braces, nothing but"),
        ({"model": "x"}, "model must be {adapter: hf, model_id: FOLDER}.* .got 'x'."),
        ({"model": {"adapter": "openai", "model_id": "x"}}, "adapter must be hf .got 'openai'."),
    ],
)
def test_a_definition_that_cannot_be_used_says_why(tiny, change, message):
    with pytest.raises(ParamsError, match=rf"judges\.j(\.model)?: {message}"):
        judged(definition(tiny) | change, "No.")


def test_a_checkpoint_without_a_trained_head_of_two_labels_is_refused(tmp_path):
    save_tokenizer(tmp_path / "language_model")
    save_model(tmp_path / "language_model")
    pickled = save_classifier(tmp_path / "pickled", {0: "NORMAL", 1: "REJECTION"})
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    for folder, why in (
        (pickled, "which can run code when loaded"),
        (tmp_path / "language_model", "lacks 1 weights, first score.weight"),
        (save_classifier(tmp_path / "one", num_labels=1), "gives 1 labels"),
    ):
        with pytest.raises(AdapterError, match=why):
            judged(definition(folder, labels=LABELS), "No.")
