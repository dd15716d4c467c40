"""An engine is named: one of this package, or a function of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from refract.core.errors import ParamsError
from refract.core.registry import find
from refract.models import ENGINES, open_model
from refract.models.answering import generate
from refract.models.protocol import Answer, Engine, Model, Request
from refract.models.store import ResponseStore
from tests.builders import ask


def loud(model: Model, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
    """An engine of another package."""
    for index, request in enumerate(requests):
        yield index, Answer(request.attempts[0][0]["content"].upper())


@pytest.mark.parametrize(("portable", "text"), [(True, "HELLO"), (False, "here: hello")])
def test_the_engine_that_is_named_answers_for_models_that_can_be_moved(portable, text, monkeypatch):
    class Here:
        adapter, version, USES = "here", "1", ()
        samples, runs_here, runtime, usage = False, True, None, {}

        def identity(self):
            return {}

        def answer(self, requests):
            for index, request in enumerate(requests):
                yield index, Answer(f"here: {request.attempts[0][0]['content']}")

    model = Here()
    model.portable, model.opened = portable, ("m", {}, "")
    monkeypatch.setenv("REFRACT_ENGINE", f"{__name__}:loud")
    with ResponseStore(None) as store:
        answers, generated = generate(model, {"k": ask("hello")}, store)
    assert (answers["k"].response, generated) == (text, {"k"})


def test_this_process_is_an_engine_too():
    model = open_model("m", {"adapter": "tests.gate:Gate", "folder": "."})
    here: Engine = find(ENGINES, "process", "engine")
    assert here.__name__ == "answer_here"
    assert model.opened == ("m", {"adapter": "tests.gate:Gate", "folder": "."}, "")


def test_an_engine_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv("REFRACT_ENGINE", "tests.engines.nowhere:answer")
    model = open_model("m", {"adapter": "tests.gate:Gate", "folder": "."})
    with ResponseStore(None) as store, pytest.raises(ParamsError, match="cannot be imported"):
        generate(model, {"k": ask("hello")}, store)
