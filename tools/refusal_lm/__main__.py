"""Makes the adapter of the judge ``refusal_lm``, from files of labelled answers.

    python -m tools.refusal_lm cache FILES...      what training needs of every answer, to --states
    python -m tools.refusal_lm leave-out FILES...  adapters without each group of sources in turn
    python -m tools.refusal_lm train FILES...      the adapter that is shipped, of all sources

FILES, and what each may be used for, are those of `tools.refusal_encoder`, whose `combine` and `table`
read the logits that these leave in --scores.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from refract.core.jsonl import sha256_file, write_json
from refract.judges.refusal.encoder import FOLDER
from refract.judges.refusal.language_model import FROM, SHA256, TAIL, TO
from tools.refusal_encoder.__main__ import GROUPS, LM_SCORES, OWN
from tools.refusal_encoder.data import Example, cases, is_measured, may_shape_weights, read
from tools.refusal_encoder.training import most_others, quantized
from tools.refusal_lm.caching import cache
from tools.refusal_lm.training import Adapter, Kept, Recipe, adapted, load, scored


def examples_of(files: Sequence[Path]) -> list[Example]:
    """All examples, once each."""
    found = {e.digest: e for path in (*files, OWN) for e in read(path)}
    found |= {e.digest: e for e in cases()}
    return sorted(found.values(), key=lambda e: e.digest)


def split(rows: Sequence[Kept], group: Sequence[str]) -> tuple[list[Kept], list[Kept]]:
    """What is trained on without the sources of a group, and what is then read: they, or without a group
    all sources that may only be measured with."""
    train, test = [], []
    rows = sorted(rows, key=lambda row: row.example.digest)
    refused = Counter(row.example.source for row in rows if row.example.refused)
    complied: Counter[str] = Counter()
    for row in rows:
        source = row.example.source
        shapes = may_shape_weights(source) or source == "cases"
        if source in group or (not group and is_measured(source) and not shapes):
            test.append(row)
        elif shapes:
            complied[source] += not row.example.refused
            few = complied[source] <= most_others(refused[source])
            if row.example.refused or source == "cases" or few:
                train.append(row)
    return train, test


def stored(adapter: Adapter) -> dict[str, Any]:
    """The adapter's matrices by the names of :mod:`refract.judges.refusal.language_model`."""
    found = {
        f"{name}.{part}": adapter.low[f"{name.replace('.', '_')}_{part}"].detach()
        for name in adapter.frozen
        for part in ("in", "out")
    }
    found["classes.weight"] = adapter.classes.weight.detach()
    found["classes.bias"] = adapter.classes.bias.detach()
    return quantized(found)


def store(adapter: Adapter, train: Sequence[Kept]) -> None:
    """The adapter and its description, into the package."""
    path = FOLDER / "adapter.safetensors"
    save_file(stored(adapter), path)
    path.chmod(0o644)
    description = {
        "sha256": sha256_file(path),
        "base": {"name": "SmolLM2-135M-Instruct.Q4_1.gguf", "sha256": SHA256},
        "layers": [FROM, TO],
        "tokens": TAIL,
        "recipe": vars(adapter.recipe),
        "answers": dict(sorted(Counter(row.example.source for row in train).items())),
    }
    write_json(FOLDER / "adapter.json", description)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.refusal_lm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("cache", "leave-out", "train"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--states", type=Path, default=Path(tempfile.gettempdir(), "refusal_lm"))
    parser.add_argument("--scores", type=Path, default=LM_SCORES)
    parser.add_argument("--only", nargs="*", default=[], help="of leave-out: sources")
    given = parser.parse_args()
    examples = examples_of(given.files)
    if given.command == "cache":
        random.Random(1).shuffle(examples)  # so that each file takes about as long
        return cache(examples, given.states)
    given.scores.mkdir(parents=True, exist_ok=True)
    rows = load(given.states, {e.digest: e for e in examples})
    for group in GROUPS if given.command == "leave-out" else ((),):
        if given.only and not {*given.only} & {*group}:
            continue
        began, (train, test) = time.perf_counter(), split(rows, group)
        adapter = adapted(train, Recipe())
        name = "+".join(group) or "none"
        save_file(stored(adapter), given.scores / f"{name}.safetensors")
        if not group:
            store(adapter, train)
        found = zip(test, scored(adapter, test).tolist(), strict=True)
        logits = {row.example.digest: one for row, one in found}
        write_json(given.scores / f"{name}.json", logits)
        took = f"{time.perf_counter() - began:.0f} s"
        print("without", name, len(train), len(test), took, flush=True)
    return None


if __name__ == "__main__":
    main()
