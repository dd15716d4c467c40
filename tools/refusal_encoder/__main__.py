"""Makes what the judge ``refusal`` runs on, from files of labelled answers.

    python -m tools.refusal_encoder train FILES...      the encoders of RUNS, into --runs
    python -m tools.refusal_encoder join FILES...       the weights that ship: their mean, trained for
                                                        one epoch more
    python -m tools.refusal_encoder serve FILES...      the second encoder; the curves
    python -m tools.refusal_encoder table FILES...      how well each judge reads sources it never saw

FILES are JSONL as `data.SOURCES` describes them. The cases in `cases/` are always trained on, and the
pairs in data/validation measured. Files whose licence does not let them shape weights are measured
and nothing else; on some of them the curves are fitted. Each run lacks some sources, and reads these
for the table. `train --only 2` trains the third run alone. `table` takes seconds and no weights, since
`logits/` has what each run made of every answer: run it again when the rule judge changes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refract.agreement.ledger import LEDGER
from refract.core.jsonl import sha256_file, write_json
from refract.judges import open_judge
from refract.judges.bert import Tokens, arranged
from refract.judges.refusal import ToRead, paragraphs_of, served, to_read_again
from refract.judges.refusal.encoder import (
    FOLDER,
    READS_ANSWER,
    READS_BOTH,
    Logits,
    scored,
    tokens_of,
    tokens_of_both,
)
from refract_published.judges.similarity import encoder_folder
from tools.ledger import add_to_ledger
from tools.refusal_encoder import curves, serving, table
from tools.refusal_encoder.base import cross_encoder
from tools.refusal_encoder.data import Example, cases, may_shape_weights, read
from tools.refusal_encoder.training import Recipe, mean, quantized, train

OWN = Path("data/validation/validation.jsonl")
# What each run makes of answers that it lacks, and what ships of those that trained nothing.
LOGITS = Path(__file__).with_name("logits")
WEIGHTS = Path(tempfile.gettempdir(), "encoder")


@dataclass(frozen=True)
class Run:
    """An encoder of those whose mean ships, and the sources that it lacks."""

    without: tuple[str, ...]
    recipe: Recipe


RUNS = (
    Run(("xstest", "refusalbench", "pyrit"), Recipe(seed=13)),
    Run(("chatgpt_refusals", "gptfuzz"), Recipe(seed=14)),
    Run(("wildguard",), Recipe(seed=15)),
)

# Of the epoch on all sources that follows on the mean.
LAST = Recipe(epochs=1, cases=1.0, rate=3e-5, head_rate=1e-4, seed=16)


def by_stored(weights: Mapping[str, Any], inputs: Sequence[Tokens]) -> list[Logits]:
    """What quantized weights make of inputs, in float32 as the judge does."""
    arrays = {name: value.numpy() for name, value in weights.items()}
    return scored(arranged(arrays, "float32"), inputs)


def logits_of(weights: Any, examples: list[Example]) -> dict[str, list[Logits]]:
    """By digest those of the answer and of each of its paragraphs, through the weights as they are
    stored."""
    texts = []
    for example in examples:
        text = curves.text_of(example)
        texts.append([text, *[text[start:end] for start, end in paragraphs_of(text)]])
    inputs = tokens_of([part for text in texts for part in text])
    rows = iter(by_stored(quantized(weights), inputs))
    return {
        example.digest: [next(rows) for _ in text]
        for example, text in zip(examples, texts, strict=True)
    }


def shaping(examples: list[Example], without: tuple[str, ...] = ()) -> list[Example]:
    """The examples that may shape weights, less some sources."""
    return [e for e in examples if may_shape_weights(e.source) and e.source not in without]


def do_train(examples: list[Example], folder: Path, only: list[int]) -> None:
    """The weights of each run."""
    from safetensors.torch import save_file

    base = encoder_folder()
    for number in only or range(len(RUNS)):
        run = RUNS[number]
        print(f"run {number}, without {' and '.join(run.without)}", flush=True)
        weights = train(shaping(examples, run.without), base, run.recipe)
        save_file(weights, folder / f"run{number}.safetensors")


def do_join(examples: list[Example], folder: Path) -> None:
    """The mean of the runs' weights after one epoch more, into the package. Each run's
    logits of the sources that it lacks, and what ships' of what shaped no weight, into ``LOGITS``."""
    from safetensors.torch import load_file

    runs = [load_file(folder / f"run{number}.safetensors") for number in range(len(RUNS))]
    for number, run in enumerate(RUNS):
        sources = {*run.without, *curves.FITTED_ON}
        logits = logits_of(runs[number], [e for e in examples if e.source in sources])
        table.write_logits(LOGITS / f"run{number}.jsonl", logits)
    base = encoder_folder()
    weights = train(shaping(examples), base, LAST, start=mean(runs))
    shapes = [*shaping(examples), *cases()]
    described = {
        "base": {"name": "all-MiniLM-L6-v2", "sha256": sha256_file(base / "model.safetensors")},
        "runs": [{"without": list(run.without), **asdict(run.recipe)} for run in RUNS],
        "last_epoch": asdict(LAST),
        "answers": dict(sorted(Counter(example.source for example in shapes).items())),
    }
    put(READS_ANSWER, quantized(weights), described)
    others = [e for e in examples if not may_shape_weights(e.source)]
    logits = logits_of(weights, [*others, *curves.pairs_apart()])
    table.write_logits(LOGITS / "ships.jsonl", logits)


def do_serve(examples: list[Example]) -> None:
    """The second encoder into the package; the log-odds of the answers that it reads into ``LOGITS``, of
    those of ``LACKING`` by the weights before they learnt these; and the curves."""
    taught = [example for example in examples if example.source in serving.TAUGHT]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        hashes = cross_encoder(base)
        before, ships = map(quantized, serving.train(base, taught))
    described = {
        "serving_base": {"name": "ms-marco-MiniLM-L-12-v2", **hashes},
        "courses": [asdict(course) for course in serving.COURSES],
        "pairs": serving.counts(),
        "serving_answers": dict(sorted(Counter(example.source for example in taught).items())),
    }
    put(READS_BOTH, ships, described)
    kept = [example for example in examples if example.source in serving.LACKING]
    others = [example for example in examples if example.source not in serving.LACKING]
    log_odds = serving_of([*others, *curves.pairs_apart()], ships) | serving_of(kept, before)
    table.write_serving(LOGITS / table.SERVING, log_odds)
    fit_curves(examples)


def put(name: str, weights: Any, described: dict[str, Any]) -> None:
    """The weights of an encoder into the package, and their hash beside how they were trained."""
    from safetensors.torch import save_file

    path, description = FOLDER / f"{name}.safetensors", FOLDER / "encoder.json"
    save_file(weights, path)
    path.chmod(0o644)
    before = json.loads(description.read_text("utf-8"))
    hashes = {**before["sha256"], name: sha256_file(path)}
    write_json(description, {**before, **described, "sha256": hashes})


def serving_of(examples: list[Example], stored: Mapping[str, Any]) -> dict[str, float]:
    """By digest the log-odds of answers that the second encoder reads in one of the runs or in what
    ships."""
    by_digest = {example.digest: example for example in examples}
    open_ = {}
    for path in (*sorted(LOGITS.glob("run*.jsonl")), LOGITS / "ships.jsonl"):
        for digest, (alone, *_) in table.read_logits(path).items():
            example = by_digest.get(digest)
            if example is None:
                continue
            each = ToRead(curves.text_of(example), example.prompt)
            if to_read_again(each, alone):
                open_[digest] = each
    pairs = [(each.prompt, each.text) for each in open_.values()]
    rows = by_stored(stored, tokens_of_both(pairs))
    return {
        digest: served(each, row) for (digest, each), row in zip(open_.items(), rows, strict=True)
    }


def fit_curves(examples: list[Example]) -> None:
    """The curves of what ships, on the answers of ``curves.FITTED_ON``."""
    fitting = [example for example in examples if example.source in curves.FITTED_ON]
    logits = table.read_logits(LOGITS / "ships.jsonl")
    serves = table.read_serving(LOGITS / table.SERVING)
    rows, pairs = curves.scored(fitting, logits, serves), table.read_pairs(LOGITS)
    fitted = curves.fit(rows, pairs)
    fitted_on = dict(sorted(Counter(row.example.source for row in (*rows, *pairs)).items()))
    write_json(FOLDER / "curves.json", {**fitted, "fitted_on": fitted_on})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.refusal_encoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("train", "join", "serve", "table"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path, default=WEIGHTS, help="folder of the runs' weights")
    parser.add_argument("--only", nargs="*", type=int, default=[], help="of train: runs by number")
    parser.add_argument("--into", type=Path, help="of table: a file whose table is replaced")
    parser.add_argument(
        "--ledger", action="store_true", help="of table: write the ledger's rows too"
    )
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    examples = [example for path in (*given.files, OWN) for example in read(path)]
    if given.command == "train":
        return do_train(examples, given.runs, given.only)
    if given.command == "join":
        return do_join(examples, given.runs)
    if given.command == "serve":
        return do_serve(examples)
    lines = table.read_by(examples, LOGITS, [run.without for run in RUNS])
    text = table.markdown(lines)
    if given.into:
        table.write_into(given.into, text)
    if given.ledger:
        version = open_judge("refusal", {"kind": "refusal"}).version
        add_to_ledger(LEDGER, table.entries(lines, version))
    print(text)
    return None


if __name__ == "__main__":
    main()
