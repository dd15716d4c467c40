"""Answers under other arithmetics of this machine: ``python -m tools.machines``.

Other kernels, instruction sets, threads, batches, types of number and releases of PyTorch and
transformers stand for other machines. Under each, in a process of its own and without stored answers,
local models answer prompts of the default suites and are judged and counted. Prints how much differs
from the first arithmetic, and ends with 1 where an exact answer, verdict or metric does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from refract.core.jsonl import sha256_json
from refract.core.showing import say
from refract.core.types import PromptRow
from refract.project import find_project

# The default pipeline's local models.
MODELS = ("pocket_small", "pocket_medium", "pocket_large", "smollm2_135m:24")
# What begins the names of variables that change arithmetic: the caller's do not count.
VARIABLES = ("ATEN_", "DNNL_", "MKL_", "NPY_", "OMP_", "ONEDNN_", "OPENBLAS_")
KINDS = ("answers", "verdicts", "metrics")
# What is compared of fast answers, whose requests have other hashes under other arithmetics.
SAID = ("prompt_id", "response", "tokens", "finish_reason", "error")

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}


@dataclass(frozen=True)
class Arithmetic:
    """How to compute: variables of the process, settings of the models, ``rows`` of a batch, whether
    oneDNN takes part, and ``package``, a release that an environment of its own has."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    onednn: bool = True
    package: str = ""


ARITHMETICS = (
    Arithmetic("1 thread"),
    Arithmetic("PyTorch for AVX2", {"ATEN_CPU_CAPABILITY": "avx2"}),
    Arithmetic(
        "PyTorch for any x86",
        {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"},
    ),
    Arithmetic("oneDNN for AVX2", {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
    Arithmetic("oneDNN for SSE4.1", {"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    Arithmetic("MKL alone", onednn=False),
    Arithmetic("MKL alone, for AVX2", {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}, onednn=False),
    Arithmetic("MKL alone, for any x86", {"MKL_CBWR": "COMPATIBLE"}, onednn=False),
    Arithmetic("2 threads", {"OMP_NUM_THREADS": "2"}),
    Arithmetic("2 threads, MKL alone", {"OMP_NUM_THREADS": "2"}, onednn=False),
    Arithmetic("1 row at a time", rows=1),
    Arithmetic("64 rows at a time", rows=64),
    Arithmetic("bfloat16", settings={"dtype": "bfloat16"}),
    Arithmetic("bfloat16, AVX2, 1 row at a time", AVX2, {"dtype": "bfloat16"}, rows=1),
    Arithmetic("torch 2.9.1", package="torch==2.9.1"),
    Arithmetic("torch 2.15.0", package="torch==2.15.0"),
    Arithmetic("transformers 5.15.1", package="transformers==5.15.1"),
)


@contextlib.contextmanager
def computing(arithmetic: Arithmetic) -> Iterator[None]:
    """Within it, this process computes so, as far as its variables do not decide that."""
    import torch

    from refract_exact import decoding, ladder

    with contextlib.ExitStack() as stack:
        if "dtype" in arithmetic.settings:  # few bits draft, as on a GPU
            stack.enter_context(patch.object(ladder, "WITHOUT_DRAFTS", frozenset()))
        if rows := arithmetic.rows:
            shape = decoding.BatchShape(128 * rows if rows > 1 else 1, rows, 1024 * rows)
            stack.enter_context(patch.object(decoding, "shape_for", return_value=shape))
        if not arithmetic.onednn:
            mkldnn = torch.backends.mkldnn
            stack.enter_context(mkldnn.flags(enabled=False))
            stack.enter_context(patch.object(mkldnn, "is_available", return_value=False))
        yield


def drawn(prompts: Mapping[str, Sequence[PromptRow]], count: int) -> dict[str, list[PromptRow]]:
    """About ``count`` prompts from all over the suites, each with its variants."""
    sources: dict[tuple[str, str], list[PromptRow]] = {}
    for suite, rows in prompts.items():
        for row in rows:
            sources.setdefault((suite, row["source_id"]), []).append(row)
    groups = list(sources.items())
    picked = min(len(groups), -(-len(groups) * count // sum(map(len, sources.values()))))
    kept: dict[str, list[PromptRow]] = {}
    for number in range(picked):
        (suite, _), rows = groups[number * len(groups) // picked]
        kept.setdefault(suite, []).extend(rows)
    return kept


def measured(
    settings: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, int],
    names: Sequence[str],
) -> dict[str, Any]:
    """By ``fast`` and ``exact``: hashes of what came of each kind, CPU seconds, and the largest error
    of a margin that was seen. ``settings`` go over the models' own; each answers about as many prompts
    of the suites ``names`` as ``counts`` says."""
    from refract.evaluate import Suite, evaluate
    from refract.models import open_model
    from refract.models.store import ResponseStore
    from refract.suites.perturbations import suite_prompts
    from refract.suites.rows import load_suite

    folder, params = find_project()
    suites = {name: params["suites"][name] for name in names}
    files = {name: load_suite(folder / of["file"]) for name, of in suites.items()}
    prompts = {name: suite_prompts(params, name, folder).rows for name in suites}
    found: dict[str, Any] = {}
    for way in ("fast", "exact"):
        hashes: dict[str, list[str]] = {kind: [] for kind in KINDS}
        error, began = 0.0, time.process_time()
        for name, given in models.items():
            definition = {**given, **settings, "arithmetic": way}
            some = drawn(prompts, counts[name])
            asked = [Suite(of, files[of], suites[of], prompts=some[of]) for of in some]
            judges = {j: params["judges"][j] for suite in asked for j in suite.definition["judges"]}
            model = open_model(name, definition)
            with ResponseStore(None) as store:
                result = evaluate(asked, model, judges, store, name=name, definition=definition)
            for of in result.suites.values():
                for row in of.responses:
                    kept = dict(row) if way == "exact" else {key: row.get(key) for key in SAID}
                    hashes["answers"].append(sha256_json(kept))
                hashes["verdicts"] += map(sha256_json, of.verdicts)
            results = result.results()
            numbers = [results["metrics"], *results["tables"], *result.outcomes()]
            hashes["metrics"] += map(sha256_json, numbers)
            error = max(error, (model.runtime or {}).get("error", 0))
        found[way] = {**hashes, "seconds": time.process_time() - began, "error": error}
    return found


def interpreter(package: str, folder: Path) -> str:
    """A Python with this release, and with all else that this one has; made where it is not there."""
    if not package:
        return sys.executable
    home = folder.resolve() / package.replace("==", "-")
    if not (home / "made").is_file():
        venv.create(home, with_pip=True, clear=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, package], check=True)
        (own,) = home.glob("lib/python*/site-packages")
        (own / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (home / "made").touch()
    return str(home / "bin" / "python")


def apart(arithmetic: Arithmetic, python: str, *what: object) -> dict[str, Any]:
    """What :func:`measured` gives in a process of its own. Raises RuntimeError."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith(VARIABLES)}
    kept |= {"PYTHONPATH": ".", "OMP_NUM_THREADS": "1", **arithmetic.variables}
    command = [python, "-m", "tools.machines", "--child", json.dumps([asdict(arithmetic), *what])]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arithmetic.name}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def differing(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, int]:
    """How many hashes of each kind differ."""
    pairs = {kind: zip_longest(first[kind], other[kind]) for kind in KINDS}
    return {kind: sum(one != two for one, two in of) for kind, of in pairs.items()}


def main() -> int:
    """Prints the table; gives 1 where anything exact differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=MODELS, help="NAME or NAME:N, for N prompts")
    parser.add_argument("--prompts", type=int, default=240, help="of models without a number")
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of an answer")
    parser.add_argument("--environments", type=Path, help="folder for other releases")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        given, *what = json.loads(asked.child)
        with computing(arithmetic := Arithmetic(**given)):
            print(json.dumps(measured(arithmetic.settings, *what)))
        return 0
    params = find_project().params
    models, counts = {}, {}
    for name, _, count in (text.partition(":") for text in asked.models):
        models[name] = {**params["models"][name], "max_tokens": asked.tokens}
        counts[name] = int(count or asked.prompts)
    wrong, first = 0, None
    for arithmetic in ARITHMETICS:
        if arithmetic.package and not asked.environments:
            continue
        python = interpreter(arithmetic.package, asked.environments)
        found = apart(arithmetic, python, models, counts, params["grid"]["suites"])
        if first is None:
            first = found
            sizes = ", ".join(f"{len(found['exact'][kind]):,} {kind}" for kind in KINDS)
            say(f"Of {sizes} differ from the first row's:\n")
            say("| arithmetic | largest error of a margin | `fast` | `exact` | CPU seconds |")
            say("|---|---|---|---|---|")
        other = {way: differing(first[way], found[way]) for way in found}
        cells = [" / ".join(map(str, other[way].values())) for way in found]
        seconds = " / ".join(f"{found[way]['seconds']:.0f}" for way in found)
        error = f"{found['exact']['error']:.1e}"
        say(f"| {' | '.join([arithmetic.name, error, *cells, seconds])} |")
        wrong += sum(other["exact"].values())
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
