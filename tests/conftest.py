from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _store_of_its_own(monkeypatch, tmp_path_factory, request):
    """Points every test, and each process it starts, to a store that nobody else uses."""
    folder = tmp_path_factory.getbasetemp() / "stores" / str(abs(hash(request.node.nodeid)))
    monkeypatch.setenv("REFRACT_CACHE", str(folder))
