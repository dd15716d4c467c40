"""The teacher of the second encoder: all-mpnet-base-v2 (Apache-2.0), four times as large, trained on the
same texts. The second encoder learns its chances, of answers under requests that no label pairs, too.

MPNet (Song et al. 2020, arXiv 2004.09297) is a BERT whose attention adds a learnt number for each
distance of two tokens. Here it has the mean of all tokens classified, and its word vectors stand in
the order of the encoders' vocabulary, so that both read the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.judges.bert import Tokens
from refract.judges.refusal.encoder import FOLDER
from tools.refusal_encoder.training import LAYER_NAMES, layers_of, logits, padded, with_classes

LAYERS = 12
_NAMES = {
    **{f"attention.attn.{name[0]}": name for name in ("query", "key", "value")},
    "attention.attn.o": "mixed",
    "attention.LayerNorm": "mixed",
    **{
        name: LAYER_NAMES[name]
        for name in ("intermediate.dense", "output.dense", "output.LayerNorm")
    },
}
_SPECIAL = {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[MASK]": "<mask>"}
_UNKNOWN = 3
_AT_ONCE = 64


def mpnet(folder: Path, classes: int) -> dict[str, Any]:
    """The weights of a checkpoint in the Hugging Face format by the names of our network, and classes
    drawn at random."""
    from safetensors.torch import load_file

    given = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    theirs = (folder / "vocab.txt").read_text("utf-8").rstrip("\n").split("\n")
    places = {word: place for place, word in enumerate(theirs)}
    ours = (FOLDER / "vocabulary.txt").read_text("utf-8").rstrip("\n").split("\n")
    rows = [places.get(_SPECIAL.get(word, word), _UNKNOWN) for word in ours]
    weights = {
        "word": given["embeddings.word_embeddings.weight"][rows],
        # The first two are of padding.
        "position": given["embeddings.position_embeddings.weight"][2:258],
        "relative": given["encoder.relative_attention_bias.weight"],
        "embedded.scale": given["embeddings.LayerNorm.weight"],
        "embedded.shift": given["embeddings.LayerNorm.bias"],
    }
    return with_classes(weights | layers_of(given, _NAMES, LAYERS), classes)


def chances(weights: Mapping[str, Any], inputs: Sequence[Tokens]) -> list[list[float]]:
    """How likely each class of each input is."""
    import torch

    found: dict[int, list[float]] = {}
    order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
    for at in range(0, len(order), _AT_ONCE):
        group = order[at : at + _AT_ONCE]
        with torch.no_grad():
            scores = logits(weights, *padded([inputs[i] for i in group]))
        likely = torch.softmax(scores, -1).tolist()
        found.update(zip(group, likely, strict=True))
    return [found[i] for i in range(len(inputs))]
