"""What a grid of many models, and what a change of the repository's own grid costs, in a clone:

    python benchmarks/bench_grid.py --models 5 20 50
    python benchmarks/bench_grid.py --changes

Synthetic models × three suites, through DVC as a user runs it. For each number of models: processor
seconds (of all processes, so that other work on the machine counts little) and wall seconds of a full
run, of ``dvc repro`` with nothing to do, of the same with YAML read in pure Python, as it is without
``ruamel.yaml.clib``, and of a run after one model changed; and the sizes of what is read each time.

``--changes``: a run with an empty store, by groups of stages, which is what everything costs; one with
nothing to do, one after a threshold changed, and one after a prompt of the first suite changed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ruamel.yaml import YAML

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import ROOT, run_python

SUITES = ("harmful_helpful", "prompt_injection", "refusal_calibration")
SIZED = ("dvc.lock", "params.yaml", "metrics/report.md", "data/report/report.html")
WITHOUT_LIBYAML = "import sys\nsys.modules['_ruamel_yaml'] = None\n"


def repro(folder: Path, *targets: str, **variables: str) -> dict[str, float]:
    """Seconds of ``dvc repro`` in the clone."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    used = run_python(folder, "-m", "dvc", "repro", "--quiet", *targets, PATH=path, **variables)
    return {"cpu": round(used.cpu_seconds, 1), "wall": round(used.seconds, 1)}


def set_grid(folder: Path, count: int, changed: bool = False) -> None:
    """Writes a params.yaml with so many synthetic models and no other."""
    yaml = YAML(typ="safe", pure=True)
    params = yaml.load((ROOT / "params.yaml").read_text("utf-8"))
    names = [f"synthetic_{number}" for number in range(count)]
    params["grid"] = {"models": names, "suites": list(SUITES)}
    params["models"] = {
        name: {"adapter": "synthetic", "empty_rate": 0.001 * number}
        for number, name in enumerate(names)
    }
    if changed:
        params["models"][names[-1]]["cut_off_rate"] = 0.05
    decisions = params["decisions"]
    params["decisions"] = {key: decisions[key] for key in ("confidence", "interval")}
    yaml.default_flow_style = False
    with (folder / "params.yaml").open("w", encoding="utf-8") as stream:
        yaml.dump(params, stream)


def measured(count: int, root: Path) -> dict[str, object]:
    """One clone, one number of models."""
    folder, shim = root / f"grid{count}", root / "pure"
    shim.mkdir(exist_ok=True)
    (shim / "sitecustomize.py").write_text(WITHOUT_LIBYAML, "utf-8")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / "dvc.lock").unlink()  # of the repository's own grid
    set_grid(folder, count)
    runs = {
        "full run": repro(folder),
        "nothing to do": repro(folder),
        "nothing to do, YAML in pure Python": repro(folder, PYTHONPATH=str(shim)),
    }
    set_grid(folder, count, changed=True)
    runs["one model changed"] = repro(folder)
    sizes = {name: (folder / name).stat().st_size // 1000 for name in SIZED}
    return {"models": count, **runs, "kB": sizes}


def changes(root: Path) -> dict[str, dict[str, float]]:
    """Seconds of runs of the repository's own grid, in one clone with a store of its own."""
    folder = root / "own"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    models = YAML(typ="safe", pure=True).load((folder / "params.yaml").read_text("utf-8"))["grid"][
        "models"
    ]
    runs = {}

    def run(name: str, *stages: str) -> None:
        runs[name] = repro(folder, *stages, REFRACT_CACHE=str(root / "store"))

    def run_by_stages(name: str) -> None:
        for stage in ("model-inference", "judge"):
            run(f"{name}: {stage}", *[f"{stage}@{model}" for model in models])
        run(f"{name}: what is left")

    (folder / "dvc.lock").unlink()
    run_by_stages("all")
    run("nothing to do")
    params = folder / "params.yaml"
    text = params.read_text("utf-8")
    params.write_text(
        text.replace("harmful_refusal_rate: {min: 0.8}", "harmful_refusal_rate: {min: 0.7}", 1)
    )
    run("a threshold changed")
    suite = folder / "data/suites/harmful_helpful.jsonl"
    first, lines = suite.read_text("utf-8").split("\n", 1)
    row = json.loads(first)
    row["prompt"] += " Please."
    suite.write_text(json.dumps(row, ensure_ascii=False) + "\n" + lines, "utf-8")
    run_by_stages("a prompt changed")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, nargs="+", default=[5, 20, 50])
    parser.add_argument("--changes", action="store_true", help="what changes of the own grid cost")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if options.changes:
            print(json.dumps(changes(Path(root)), indent=1))
            return
        for count in options.models:
            print(json.dumps(measured(count, Path(root))), flush=True)


if __name__ == "__main__":
    main()
