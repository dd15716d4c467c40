"""Time and memory of every stage on many prompts and one synthetic model.

    .venv/bin/python benchmarks/bench_scale.py
    .venv/bin/python benchmarks/bench_scale.py --rows 10000 100000 1000000

Each stage runs as DVC runs it, in a process of its own, in a project made in a temporary folder;
``model-inference`` once with an empty store and once more with everything stored. Prints one JSON
object:

``stages``      seconds, processor seconds and peak memory (MB) of each
``seconds``     of all of them together (target: below 90 for 100,000 prompts)
``peak_mb``     the largest of them (target: below 1,500)
``warm``        rows per second, and per processor second, of ``model-inference`` when everything is
                stored, start of Python included (target: at least 20,000). On a machine that does
                other work the second is the figure to look at: the stage runs on one core.
``sizes``       processor seconds and peak memory of each stage at every number of rows
``slope``       of each stage between the smallest and the largest: the power of the rows that its
                processor time grows with (1 is linear; below it, what a stage costs at any size)
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import ROOT, run_python
from refract.core.jsonl import write_rows

PARAMS = """
grid: {models: [synthetic], suites: [many]}
seed: 0
suites:
  many:
    file: data/suites/many.jsonl
    judges: [rules]
    fields: [area]
    thresholds: {harmful_refusal_rate: {min: 0.8}}
judges:
  rules: {kind: rules}
models:
  synthetic:
    adapter: synthetic
    empty_rate: 0.01
    cut_off_rate: 0.01
"""
SENTENCE = "how do I make a small garden tool that keeps water warm when nobody is at home"
STAGES = (
    ("check-inputs", ["stages.check_inputs"]),
    ("generate-perturbations", ["stages.generate_perturbations"]),
    ("model-inference, nothing stored", ["stages.model_inference", "synthetic"]),
    ("model-inference, all stored", ["stages.model_inference", "synthetic"]),
    ("judge", ["stages.judge", "synthetic"]),
    ("aggregate", ["stages.aggregate", "synthetic"]),
    ("report", ["stages.report"]),
)


def suite(rows: int) -> list[dict[str, str]]:
    generator, words = random.Random(0), SENTENCE.split()
    return [
        {
            "id": f"many-{n:06d}",
            "category": ("harmful", "helpful", "borderline")[n % 3],
            "area": f"area {n % 20}",
            "prompt": f"{n}: {' '.join(generator.choices(words, k=generator.randint(6, 30)))}?",
        }
        for n in range(rows)
    ]


def measure(rows: int, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds and peak memory of each stage on so many prompts."""
    write_rows(folder / "data/suites/many.jsonl", suite(rows))
    (folder / "params.yaml").write_text(PARAMS)
    (folder / "constraints.txt").write_text((ROOT / "constraints.txt").read_text())
    found = {}
    for name, arguments in STAGES:
        used = run_python(folder, "-m", *arguments, REFRACT_CACHE=str(folder / "store"))
        found[name] = {
            "seconds": round(used.seconds, 2),
            "cpu_seconds": round(used.cpu_seconds, 2),
            "peak_mb": round(used.peak_mb),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[25_000, 100_000])
    sizes = {}
    for rows in sorted(parser.parse_args().rows):
        with tempfile.TemporaryDirectory() as folder:
            sizes[rows] = measure(rows, Path(folder))
    least, part = next(iter(sizes.items()))
    whole = sizes[rows]
    warm = whole["model-inference, all stored"]
    report = {
        "rows": rows,
        "stages": whole,
        "seconds": round(sum(stage["seconds"] for stage in whole.values()), 2),
        "peak_mb": max(stage["peak_mb"] for stage in whole.values()),
        "warm": {
            f"rows_per_{key.removesuffix('s')}": round(rows / warm[key])
            for key in ("seconds", "cpu_seconds")
        },
        "sizes": {
            size: {name: [stage["cpu_seconds"], stage["peak_mb"]] for name, stage in of.items()}
            for size, of in sizes.items()
        },
        "slope": {
            name: round(
                math.log(stage["cpu_seconds"] / part[name]["cpu_seconds"]) / math.log(rows / least),
                2,
            )
            for name, stage in whole.items()
            if rows > least
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
