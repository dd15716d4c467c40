"""``python -m tools.pocket``: retrain all pocket models and write them to data/pocket/."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from refract.core.showing import say
from tools.pocket.training import SIZES, save, train_model, train_tokenizer

ROOT = Path(__file__).resolve().parents[2] / "data" / "pocket"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.pocket",
        description="Retrain the pocket models; the same seed gives the same files.",
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT, help="output folder (default: %(default)s)"
    )
    parser.add_argument(
        "--size",
        action="append",
        choices=tuple(SIZES),
        help="train this size only; can be given more than once (default: all)",
    )
    options = parser.parse_args()
    tokenizer = train_tokenizer()
    for name in options.size or SIZES:
        started = time.perf_counter()
        model = train_model(name, tokenizer)
        written = save(model, tokenizer, options.out / name)
        parameters = sum(weight.numel() for weight in model.parameters())
        say(
            f"{name}: {parameters:,} parameters, {written:,} bytes, "
            f"{time.perf_counter() - started:.0f} s of training"
        )


if __name__ == "__main__":
    main()
