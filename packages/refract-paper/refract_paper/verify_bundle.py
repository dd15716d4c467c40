"""Checks this bundle: ``python verify.py``, with Python 3.11 or later.

Python alone compares the SHA-256 of every file with SHA256SUMS and with the provenance of the
results. Where Refract is installed, every number of every rate, with intervals and decisions, is
counted again from answers and verdicts, as ``refract verify`` does. It exits with 0 if all is as it
was written, with 1 if anything differs, and with 2 if nothing differs but numbers were not counted.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"
ROWS = ("responses", "verdicts")


def sha256(name: str) -> str:
    """The hash of a file of the bundle, "" of anything else."""
    path = ROOT / name
    inside = path.resolve().is_relative_to(ROOT) and not path.is_symlink()
    return hashlib.sha256(path.read_bytes()).hexdigest() if inside and path.is_file() else ""


def problems(alone: list[str]) -> Iterator[str]:
    """Where files are not those that SHA256SUMS and the provenance name; ``alone`` gets suites
    whose answers are not here."""
    sums = {line[66:]: line[:64] for line in (ROOT / SUMS).read_text("utf-8").splitlines()}
    paths = [path for path in ROOT.rglob("*") if path.is_symlink() or not path.is_dir()]
    here = {path.relative_to(ROOT).as_posix() for path in paths}
    for name in sorted({*sums, *here} - {SUMS, f"{SUMS}.sig"}):
        if name not in sums or name not in here:
            yield f"{name}: not both here and in {SUMS}"
        elif sha256(name) != sums[name]:
            yield f"{name}: SHA-256 differs from {SUMS}"
    models = sorted((ROOT / "metrics/provenance").glob("*.json"))
    if not models:
        yield "metrics/provenance: no results are here"
    for path in models:
        facts = json.loads(path.read_text("utf-8"))
        named = dict(facts["files"])
        for suite, about in facts["suites"].items():
            files = {kind: f"data/{kind}/{path.stem}/{suite}.jsonl" for kind in ROWS}
            if files["verdicts"] in here:
                named |= {file: about[f"{kind}_sha256"] for kind, file in files.items()}
                named[f"data/prompts/{suite}.jsonl"] = about["prompts_sha256"]
            else:
                alone.append(f"{path.stem}, {suite}")
        for name, digest in named.items():
            if sha256(name) != digest:
                yield f"{name}: not the file that {path.name} names"


def main() -> int:
    alone: list[str] = []
    counted = ""
    try:
        wrong = list(problems(alone))
        if not wrong:
            from refract.results.stored import number_problems

            counted = ", and all numbers"
            wrong = list(number_problems(ROOT))
    except ImportError:
        print("numbers were not counted again; run: pip install refract-eval")
    except Exception as error:  # whatever a file that is not as Refract writes it can raise
        wrong = [f"{error} ({type(error).__name__})"]
    for line in wrong:
        print("".join(char if char.isprintable() else ascii(char)[1:-1] for char in line))
    if wrong:
        return 1
    print(f"all files are as they were written{counted}")
    if counted and alone:
        print(f"counted from outcomes alone, since answers are not here: {'; '.join(alone)}")
    return 0 if counted and not alone else 2


if __name__ == "__main__":
    sys.exit(main())
