"""What tests of several adapters share."""

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the batches that are under way, of a cache folder of the test's own."""
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path))
    return tmp_path / "batches"
