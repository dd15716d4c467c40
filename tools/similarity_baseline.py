"""Measures what BERTScore gives to unrelated texts: ``python -m tools.similarity_baseline``.

Unrelated texts are one to four sentences on a subject of ``baseline_sentences.txt``, paired with as
many or fewer or more on another subject; the pairs are drawn with a seed. Their mean F1 is the
baseline that similarities are rescaled with.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from pathlib import Path
from typing import Any

from refract.core.errors import RefractError
from refract.core.jsonl import sha256_file, write_json
from refract.core.settings import read_settings
from refract.core.showing import printable, say
from refract_published.judges.bert_score_judge import BertScore, BertScoreSettings, folder_of
from refract_published.judges.similarity import (
    BASELINE,
    DEFAULT_ENCODER,
    DEFAULT_LAYER,
    Similarity,
    SimilaritySettings,
)

SENTENCES = Path(__file__).with_name("baseline_sentences.txt")


def subjects(path: Path = SENTENCES) -> list[list[str]]:
    """The sentences of each subject: paragraphs of the file, a sentence a line."""
    return [block.splitlines() for block in path.read_text(encoding="utf-8").strip().split("\n\n")]


def unrelated_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """``count`` pairs of texts on two different subjects, drawn with the seed."""
    texts = subjects()
    generator = random.Random(seed)

    def below(limit: int) -> int:
        return int(generator.random() * limit)

    pairs = []
    for _ in range(count):
        first = below(len(texts))
        second = (first + 1 + below(len(texts) - 1)) % len(texts)
        pair = []
        for subject in (first, second):
            sentences = texts[subject]
            size = 1 + below(len(sentences))
            start = below(len(sentences) - size + 1)
            pair.append(" ".join(sentences[start : start + size]))
        pairs.append((pair[0], pair[1]))
    return pairs


def measure(encoder: str, layer: int, count: int, seed: int, device: str = "cpu") -> dict[str, Any]:
    """The mean and standard deviation of F1 over unrelated pairs, and what was measured."""
    similarity = Similarity("similarity", SimilaritySettings(baseline=0))
    if (encoder, layer, device) != (DEFAULT_ENCODER, DEFAULT_LAYER, "cpu"):
        settings = {"encoder": encoder, "layer": layer, "device": device, "baseline": 0}
        similarity = BertScore("s", read_settings(BertScoreSettings, "bert_score", settings))
    scores = [found.similarity for found in similarity.score(unrelated_pairs(count, seed))]
    return {
        "baseline": round(statistics.fmean(scores), 4),
        "standard_deviation": round(statistics.stdev(scores), 4),
        "n": count,
        "seed": seed,
        "sentences_sha256": sha256_file(SENTENCES),
        "encoder": encoder,
        "weights_sha256": sha256_file(folder_of(encoder) / "model.safetensors"),
        "layer": layer,
    }


def main() -> None:
    """Writes the measurement to a file; the judge's ``baseline`` is the number of that name in it."""
    parser = argparse.ArgumentParser(prog="python -m tools.similarity_baseline")
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="a package, folder or hub id")
    parser.add_argument("--layer", type=int, default=DEFAULT_LAYER, help="hidden layer, from 1")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs of unrelated texts")
    parser.add_argument("--seed", type=int, default=1, help="seed of the pairing")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, …")
    parser.add_argument("--out", type=Path, default=BASELINE, help="the file to write")
    given = parser.parse_args()
    if given.pairs < 2:
        parser.error(f"--pairs must be at least 2 (got {given.pairs})")
    try:
        measured = measure(given.encoder, given.layer, given.pairs, given.seed, given.device)
    except RefractError as error:
        sys.exit(printable(f"similarity_baseline: {error}", keep="\n"))
    write_json(given.out, measured)
    say(f"baseline {measured['baseline']} (sd {measured['standard_deviation']}): {given.out}")


if __name__ == "__main__":
    main()
