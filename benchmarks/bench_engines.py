"""What each engine costs: one process, and so many actors of Ray.

    .venv/bin/python benchmarks/bench_engines.py [--rows 1000] [--counts 1 2 4]

A pocket model answers eight rows for each actor, which is the start (libraries, weights; that of the
cluster stands by itself), and then so many rows. Prints seconds of both kinds of the start, and rows for
a second and for a processor second behind it, of all processes together, the cluster's own too. On a
machine that does other work the processor's are the figures to look at. Nothing is stored. A part
(``refract work``) costs what the process costs, each its own start.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from refract.models import open_model
from refract.models.protocol import Answer, Request
from refract_engines import ray_engine
from tests.builders import ROOT, ask

FEW = 8
POCKET = {"adapter": "hf", "model_id": str(ROOT / "data/pocket/medium"), "max_tokens": 64}
Answering = Callable[[list[Request]], Iterator[tuple[int, Answer]]]


def used() -> float:
    """Processor seconds of this process and those below it that are alive."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def measure(start: Callable[[], Answering], count: int, rows: int) -> dict[str, float]:
    prompts = [f"How do I make {n} loaves of bread for my neighbour?" for n in range(rows)]
    points = [(time.perf_counter(), used())]
    answering = start()
    for texts in (prompts[: FEW * count], prompts[FEW * count :]):
        assert len(list(answering([ask(text) for text in texts]))) == len(texts)
        points.append((time.perf_counter(), used()))
    (began, before), (ready, then), (ended, after) = points
    more = rows - FEW * count
    return {
        "start_s": round(ready - began, 1),
        "start_cpu_s": round(then - before, 1),
        "rows_s": round(more / (ended - ready), 1),
        "rows_cpu_s": round(more / (after - then), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray

    began, before = time.perf_counter(), used()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    spent = {"start_s": time.perf_counter() - began, "start_cpu_s": used() - before}
    print("cluster", json.dumps(spent), flush=True)
    for count in options.counts:
        model = open_model("m", POCKET | {"actors": count, "cpus": 0.1})
        found = measure(lambda model=model: ray_engine.actors_of(model).answer, count, options.rows)
        ray_engine._open.pop().close()
        time.sleep(5)  # what is ended is not counted as of the next
        print(f"ray, actors: {count}", json.dumps(found), flush=True)
    model = open_model("m", POCKET)
    found = measure(lambda: model.answer, 1, options.rows)
    print("one process", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
