"""What tests of several adapters share."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A random Llama of 95,000 numbers."""
    from tests.models.test_hf import save_model, save_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    save_tokenizer(folder)
    save_model(folder)
    return folder


@pytest.fixture
def copy(tiny, tmp_path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the batches that are under way, of a cache folder of the test's own."""
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path))
    return tmp_path / "batches"


@pytest.fixture
def few_bits(monkeypatch):
    """Few bits draft tokens, as on a GPU."""
    monkeypatch.setattr("refract.models.ladder.WITHOUT_DRAFTS", frozenset())
