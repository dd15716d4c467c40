"""Checks this bundle: ``python verify.py``, with Python 3.11 or later.

Python alone compares the SHA-256 of every file with SHA256SUMS. Where refract-paper is installed, every
rate, with all intervals and decisions, is computed again from answers and verdicts. It exits with 0 if
all is as it was written, with 1 if anything differs, and with 2 if nothing differs but not all numbers
were computed again.
"""

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"


def listing_problems() -> list[str]:
    """Where the files that are here are not those of SHA256SUMS. A link is none of them."""
    here = {}
    for path in ROOT.rglob("*"):
        name = path.relative_to(ROOT).as_posix()
        if path.is_symlink() or not path.is_dir():
            here[name] = path.is_file() and not path.is_symlink()
    problems = []
    sums = {}
    if here.get(SUMS):
        lines = (ROOT / SUMS).read_text("utf-8", "replace").splitlines()
        sums = {line[66:]: line[:64] for line in lines}
    for name in sorted({*sums, *here} - {SUMS, f"{SUMS}.sig"}):
        if name not in sums or not here.get(name):
            problems.append(f"{name}: not both here and in {SUMS}")
        elif hashlib.sha256((ROOT / name).read_bytes()).hexdigest() != sums[name]:
            problems.append(f"{name}: SHA-256 differs from {SUMS}")
    return problems or ([] if sums else [f"{SUMS} names no file"])


def show(*lines: str) -> None:
    """Prints lines, with characters that do not show as their escapes."""
    text = "\n".join(lines)
    print("".join(x if x == "\n" or x.isprintable() else ascii(x)[1:-1] for x in text))


def main() -> int:
    problems = listing_problems()
    if problems:
        show(*problems)
        return 1
    try:
        from refract_paper.bundle import recounted
    except ImportError:
        show(
            f"every file is as {SUMS} says; no number was computed again: "
            "pip install 'refract-eval[paper]' computes all"
        )
        return 2
    problems, alone = recounted(ROOT)
    if problems:
        show(*problems)
        return 1
    if alone:
        show(f"not computed again, since answers are not here: {'; '.join(alone)}")
        return 2
    show("all rates computed again: all as they were written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
