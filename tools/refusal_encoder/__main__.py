"""Makes what the judge ``refusal`` runs on, from files of labelled answers.

    python -m tools.refusal_encoder leave-out FILES...  encoders without each group of sources in turn
    python -m tools.refusal_encoder train FILES...      the weights that are shipped: the mean of
                                                        encoders of all sources and of those above
    python -m tools.refusal_encoder combine FILES...    the coefficients, from the logits of train
    python -m tools.refusal_encoder table FILES...      how well each judge reads sources it never saw

FILES are JSONL as `data.SOURCES` describes them. The cases in `cases/` are always trained on, and the
pairs in data/validation measured. Files whose licence does not let them shape weights are measured and
nothing else; on one of them the coefficients are fitted. `leave-out` and `train`
keep logits in --scores, so that `combine` and `table` take seconds: run these two again when the
rule judge changes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from refract.agreement.ledger import LEDGER, add_to_ledger
from refract.core.jsonl import sha256_file, write_json
from refract.judges import open_judge
from refract.judges.refusal.encoder import FOLDER, READ, Logits, arranged, scored, tokens_of
from refract.judges.similarity import DEFAULT_ENCODER, encoder_folder
from tools.refusal_encoder import combining, table
from tools.refusal_encoder.data import Example, cases, is_measured, may_shape_weights, read
from tools.refusal_encoder.training import Recipe, mean, quantized, train

OWN = Path("data/validation/validation.jsonl")
SCORES = Path(tempfile.gettempdir(), "encoder")
LM_SCORES = SCORES.with_name("encoder_lm")
# Sources that are left out together, so that one training serves both.
GROUPS = (
    ("xstest", "xstest_extension"),
    ("chatgpt_refusals",),
    ("refusalbench", "pyrit"),
    ("wildguard",),
)
# Runs on all sources. What ships is the mean of them and of those that lack a group, but for the first.
WHOLE = (
    Recipe(),
    Recipe(cases=1.0),
    Recipe(epochs=3, cases=1.0),
    Recipe(read=READ),
    Recipe(read=READ, cases=1.0, seed=14),
    Recipe(read=READ, epochs=3, seed=15),
    Recipe(read=READ, epochs=3, cases=1.0, seed=16),
)
# Of encoders that lack a group of sources, where it is not the usual one.
RECIPES = {("chatgpt_refusals",): Recipe(epochs=3, cases=1.0)}


def logits_of(weights: Any, examples: list[Example]) -> dict[str, Logits]:
    """By digest, through the weights as they are stored."""
    inputs = tokens_of([e.answer for e in examples], [e.prompt for e in examples])
    stored = {name: value.numpy() for name, value in quantized(weights).items()}
    rows = scored(arranged(stored, "float64"), inputs)
    return {example.digest: row for example, row in zip(examples, rows, strict=True)}


def do_train(examples: list[Example], scores: Path) -> None:
    """The mean of runs on all sources that may shape weights, or all but one, into the package."""
    from safetensors.torch import load_file

    shaping = [e for e in examples if may_shape_weights(e.source)]
    base = Path(encoder_folder(DEFAULT_ENCODER))
    runs = [train(shaping, base, recipe) for recipe in WHOLE]
    runs += [load_file(scores / f"{'+'.join(group)}.safetensors") for group in GROUPS[1:]]
    weights = mean(runs)
    store(weights, shaping)
    unseen = [e for e in examples if is_measured(e.source) and not may_shape_weights(e.source)]
    write_json(scores / "none.json", logits_of(weights, unseen))


def store(weights: Any, shaping: list[Example]) -> None:
    """The weights and their description; the vocabulary is the base's."""
    from safetensors.torch import save_file

    base, path = Path(encoder_folder(DEFAULT_ENCODER)), FOLDER / "encoder.safetensors"
    save_file(quantized(weights), path)
    path.chmod(0o644)
    description = {
        "sha256": sha256_file(path),
        "base": {"name": "all-MiniLM-L6-v2", "sha256": sha256_file(base / "model.safetensors")},
        "runs": [
            *({"without": [], **vars(recipe)} for recipe in WHOLE),
            *(
                {"without": list(group), **vars(RECIPES.get(group, Recipe()))}
                for group in GROUPS[1:]
            ),
        ],
        "answers": dict(sorted(Counter(e.source for e in [*shaping, *cases()]).items())),
    }
    write_json(FOLDER / "encoder.json", description)


def do_leave_out(examples: list[Example], scores: Path, only: list[str]) -> None:
    from safetensors.torch import save_file

    for group in GROUPS:
        if only and not {*only} & {*group}:
            continue
        print(f"without {' and '.join(group)}", flush=True)
        seen = [e for e in examples if may_shape_weights(e.source) and e.source not in group]
        recipe = RECIPES.get(group, Recipe())
        weights = train(seen, Path(encoder_folder(DEFAULT_ENCODER)), recipe)
        save_file(weights, scores / f"{'+'.join(group)}.safetensors")
        left_out = [e for e in examples if e.source in group]
        write_json(scores / f"{'+'.join(group)}.json", logits_of(weights, left_out))


def read_logits(scores: Path) -> dict[str, Logits]:
    """Of every source by encoders that had not seen it."""
    files = [scores / f"{name}.json" for name in ("none", *map("+".join, GROUPS))]
    lacking = [str(path) for path in files if not path.is_file()]
    if lacking:
        raise SystemExit(
            f"no logits in {', '.join(lacking)}; run leave-out FILES..., then train FILES..., of "
            "tools.refusal_encoder and tools.refusal_lm"
        )
    found: dict[str, Logits] = {}
    for path in files:
        found |= json.loads(path.read_text("utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.refusal_encoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("train", "leave-out", "combine", "table"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--scores", type=Path, default=SCORES)
    parser.add_argument(
        "--lm-scores", type=Path, default=LM_SCORES, help="what tools.refusal_lm left"
    )
    parser.add_argument("--only", nargs="*", default=[], help="of leave-out: sources")
    parser.add_argument("--into", type=Path, help="of table: a file whose table is replaced")
    parser.add_argument(
        "--ledger", action="store_true", help="of table: write the ledger's rows too"
    )
    given = parser.parse_args()
    given.scores.mkdir(parents=True, exist_ok=True)
    examples = [example for path in (*given.files, OWN) for example in read(path)]
    if given.command == "train":
        return do_train(examples, given.scores)
    if given.command == "leave-out":
        return do_leave_out(examples, given.scores, given.only)
    both = [
        json.loads((scores / "none.json").read_text("utf-8"))
        for scores in (given.scores, given.lm_scores)
    ]
    chosen = [e for e in examples if e.source == combining.CHOSEN_ON]
    shipped = combining.scored(chosen, *both)
    if given.command == "combine":
        for judge, name in (("refusal", "combination"), ("refusal_lm", "combination_lm")):
            write_json(FOLDER / f"{name}.json", fitted := combining.fitted(shipped, judge))
            print(json.dumps(fitted, indent=1))
        return None
    logits, by_lm = read_logits(given.scores), read_logits(given.lm_scores)
    # Do-Not-Answer alone counts what redirects as an answer.
    settings = {"do_not_answer": "compliance"}
    rows = [
        row
        for source in dict.fromkeys(e.source for e in examples)
        for row in combining.scored(
            [e for e in examples if e.source == source and e.digest in logits],
            logits,
            by_lm,
            settings.get(source, "refusal"),
        )
    ]
    text = table.markdown(rows, shipped)
    if given.into:
        table.write_into(given.into, text)
    if given.ledger:
        for judge in combining.READS:
            version = open_judge(judge, {"kind": judge}).version
            add_to_ledger(LEDGER, table.entries(rows, shipped, judge, version, GROUPS))
    print(text)
    return None


if __name__ == "__main__":
    main()
