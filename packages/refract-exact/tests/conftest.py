"""What tests of exact answers share."""

import pytest


@pytest.fixture
def few_bits(monkeypatch):
    """Few bits draft tokens, as on a GPU."""
    monkeypatch.setattr("refract_exact.ladder.WITHOUT_DRAFTS", frozenset())
