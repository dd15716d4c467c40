"""Published data that the tests use and the repository does not hold.

`REFRACT_TEST_DATA` names the folder with `data/labelled`, `data/raw` and `models`. Tests that need
a file of it are skipped where the variable is not set or the file is not there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "REFRACT_TEST_DATA"
_NAMED = os.environ.get(VARIABLE)
FOLDER = Path(_NAMED).resolve() if _NAMED else None  # before a test changes the working directory


def outside(path: str) -> Path:
    """A file or folder of the published data, or the test is skipped."""
    if FOLDER is None:
        pytest.skip(f"needs {path}, which is not in the repository; set {VARIABLE}")
    if not (FOLDER / path).exists():
        pytest.skip(f"needs {path}, which is not in {FOLDER} ({VARIABLE})")
    return FOLDER / path
