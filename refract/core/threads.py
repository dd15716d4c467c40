"""How threads of numerical libraries wait."""

from __future__ import annotations

import os


def let_threads_sleep() -> None:
    """Lets a model's threads that wait for each other leave the processor to others soon, unless
    the environment says otherwise. It has to be called before PyTorch and NumPy are loaded."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # They spin for some 30 microseconds first, since waking a thread takes longer than most waits.
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")
