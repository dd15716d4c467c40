"""What a grid of many models costs, in a clone of the repository:

    python benchmarks/bench_grid.py --models 5 20 50

Synthetic models × three suites, through DVC as a user runs it. For each number of models: processor
seconds (of all processes, so that other work on the machine counts little) and wall seconds of a full
run, of ``dvc repro`` with nothing to do, of the same with YAML read in pure Python, as it is without
``ruamel.yaml.clib``, and of a run after one model changed; and the sizes of what is read each time.
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


def repro(folder: Path, **variables: str) -> dict[str, float]:
    """Seconds of ``dvc repro`` in the clone."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    used = run_python(folder, "-m", "dvc", "repro", "--quiet", PATH=path, **variables)
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
    params["metadata"], decisions = {}, params["decisions"]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, nargs="+", default=[5, 20, 50])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        for count in options.models:
            print(json.dumps(measured(count, Path(root))), flush=True)


if __name__ == "__main__":
    main()
