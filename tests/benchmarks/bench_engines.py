"""What each engine costs: one process, actors of Ray, and parts (``refract work``) at the same time.

    .venv/bin/python tests/benchmarks/bench_engines.py [--rows 400] [--counts 1 2 4]

The stage ``model-inference`` on a pocket model and on the synthetic one, as DVC runs it, with an empty
store; parts each as a process of its own, and the stage that merges them after that. Prints one JSON
object, by model and engine:

``start``        seconds of a run of eight rows: Python, libraries, weights, and the start of the cluster
                 where the stage starts one (``own``)
``start_cpu``    processor seconds of that, of all processes together
``rows_s``       rows per second behind that: the other rows over the other seconds
``rows_cpu_s``   rows per processor second behind that; on a machine that does other work, the figure to
                 look at
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.processes import ROOT, Used

FEW = 8
MODELS = {
    "pocket": {"adapter": "hf", "model_id": str(ROOT / "data/pocket/medium"), "max_tokens": 64},
    "synthetic": {"adapter": "synthetic"},
}
STAGE = ["-m", "stages.model_inference", "m"]


def run(folder: Path, *commands: list[str], **variables: str) -> Used:
    """Runs Python so often at the same time, and ends the benchmark where one fails. The processor's
    time is that of every process below this one, those of a cluster included."""
    variables |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    me, used = psutil.Process(), dict[tuple[int, float], float]()

    def look() -> float:
        for process in me.children(recursive=True):
            try:
                times = process.cpu_times()
                used[process.pid, process.create_time()] = times.user + times.system
            except psutil.Error:
                continue
        return sum(used.values())

    before, start = look(), time.perf_counter()
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [
        subprocess.Popen([sys.executable, *line], cwd=folder, env=os.environ | variables, **output)
        for line in commands
    ]
    while None in [process.poll() for process in running]:
        look()
        time.sleep(0.1)
    seconds = time.perf_counter() - start
    if any(process.returncode for process in running):
        sys.exit(f"{commands} failed")
    return Used(seconds, look() - before, 0)


def once(model: dict, rows: int, engine: str, count: int) -> Used:
    """One run of the stage on so many rows, with so many actors or parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = {"file": "data/suites/own.jsonl", "judges": ["rules"]}
        params = {
            "grid": {"models": ["m"], "suites": ["own"]},
            "seed": 1,
            "models": {"m": model | {"actors": count} if engine in ("ray", "own") else model},
            "suites": {"own": suite},
            "judges": {"rules": {"kind": "rules"}},
        }
        (folder / "params.yaml").write_text(json.dumps(params))
        (folder / "data/suites").mkdir(parents=True)
        with open(folder / "data/suites/own.jsonl", "w", encoding="utf-8") as file:
            for n in range(rows):
                prompt = f"How do I make {n} loaves of bread for my neighbour's party?"
                file.write(
                    json.dumps({"id": f"{n}", "prompt": prompt, "category": "helpful"}) + "\n"
                )
        run(folder, ["-m", "stages.generate_perturbations"])
        kind = "ray" if engine in ("ray", "own") else "process"
        variables = {"REFRACT_ENGINE": kind, "REFRACT_CACHE": "off"}
        if engine != "parts":
            return run(folder, STAGE, **variables)
        work = "from refract.cli import main; main()"
        parts = [["-c", work, "work", "m", "--shard", f"{n}/{count}"] for n in range(1, count + 1)]
        both = run(folder, *parts, **variables), run(folder, STAGE, **variables)
        return Used(*map(sum, zip(*both, strict=True)))


def measure(model: dict, rows: int, engine: str, count: int) -> dict[str, float]:
    few, all_ = (once(model, number, engine, count) for number in (FEW * count, rows))
    more = rows - FEW * count
    return {
        "start": round(few.seconds, 1),
        "start_cpu": round(few.cpu_seconds, 1),
        "rows_s": round(more / max(1e-9, all_.seconds - few.seconds), 1),
        "rows_cpu_s": round(more / max(1e-9, all_.cpu_seconds - few.cpu_seconds), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    from ray.cluster_utils import Cluster

    for name, model in MODELS.items():
        rows = options.rows * (1 if name == "pocket" else 50)
        os.environ.pop("RAY_ADDRESS", None)
        runs = [("process", 1), *(("parts", count) for count in options.counts), ("own", 1)]
        for engine, count in runs:
            found[f"{name}, {engine} {count}"] = measure(model, rows, engine, count)
            print(json.dumps(found), file=sys.stderr)
        head = {"num_cpus": max(options.counts), "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        os.environ["RAY_ADDRESS"] = cluster.address
        for count in options.counts:
            found[f"{name}, ray {count}"] = measure(model, rows, "ray", count)
            print(json.dumps(found), file=sys.stderr)
        cluster.shutdown()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
