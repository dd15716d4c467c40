"""One process of several that share a model: ``python -m refract.models.rank``, started by
:func:`refract.models.processes.generate_in_processes`."""

from __future__ import annotations

import sys
from pathlib import Path

from refract.models.processes import run_rank

if __name__ == "__main__":
    rank, count, port, *path = sys.argv[1:]
    run_rank(int(rank), int(count), int(port), Path(path[0]) if path else None)
