"""A plain function as a model: it takes a DataFrame of features and returns one text for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refract.core.settings import Settings as NoSettings
from refract.core.types import Row
from refract.models.protocol import Answer, Model, Request
from refract.models.replies import says_too_long

if TYPE_CHECKING:
    import pandas as pd


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


def cell_text(value: Any) -> str:
    """A cell of a dataset as text; None and NaN, which alone differs from itself, are empty."""
    return "" if value is None or value != value else str(value)


class FunctionModel(Model):
    """The function on prompt rows whose attempts are features, by prompt id.

    ``values`` holds the dataset's own cells by source id: the function gets those, but for the
    features that were perturbed.
    """

    adapter = "functionmodel"
    version = "1"
    USES = ("prompt_id",)
    Settings = NoSettings

    def __init__(
        self,
        function: Callable[[pd.DataFrame], Sequence[str]],
        features: Mapping[str, Row],
        values: Mapping[str, Mapping[Any, Any]],
    ) -> None:
        self._function, self._features, self._values = function, features, values

    def identity(self) -> dict[str, Any]:
        return {}

    def description(self) -> dict[str, Any]:
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """All rows in one call where that succeeds, else each alone; then the next attempt of those
        that were too long."""
        rows = [self._features[request.metadata["prompt_id"]] for request in requests]
        waiting = list(range(len(rows)))
        attempt = 0
        while waiting:
            too_long = []
            for index, answer in self._attempt(rows, waiting, attempt):
                if answer is not None:
                    yield index, answer
                elif attempt + 1 < len(rows[index]["attempts"]):
                    too_long.append(index)
                else:
                    message = "the function rejected every attempt as too long"
                    yield index, Answer.failed("PromptTooLong", message, attempt)
            waiting = too_long
            attempt += 1

    def _attempt(
        self, rows: Sequence[Row], indices: Sequence[int], attempt: int
    ) -> list[tuple[int, Answer | None]]:
        """The answers to one attempt of some rows; None where it was too long."""
        try:
            texts = self._function(self._frame([rows[index] for index in indices], attempt))
        except Exception:  # whatever it was, it concerns one row; each row is tried alone
            return [(index, self._alone(rows[index], attempt)) for index in indices]
        found = _texts(texts, len(indices))
        return [(index, _answer(text, attempt)) for index, text in zip(indices, found, strict=True)]

    def _alone(self, row: Row, attempt: int) -> Answer | None:
        try:
            texts = self._function(self._frame([row], attempt))
        except PromptTooLong:
            return None
        except Exception as error:
            status = getattr(error, "status_code", None)
            if says_too_long(status if isinstance(status, int) else None, str(error)):
                return None
            return Answer.failed(type(error).__name__, str(error), attempt)
        return _answer(_texts(texts, 1)[0], attempt)

    def _frame(self, rows: Sequence[Row], attempt: int) -> pd.DataFrame:
        import pandas as pd

        lines = []
        for row in rows:
            sent = row["attempts"][attempt]
            lines.append(
                {
                    column: value if sent[str(column)] == cell_text(value) else sent[str(column)]
                    for column, value in self._values[row["source_id"]].items()
                }
            )
        return pd.DataFrame(lines)


def _texts(found: Any, count: int) -> list[Any]:
    texts = [found] if isinstance(found, str) or not hasattr(found, "__iter__") else list(found)
    if isinstance(found, str) or len(texts) != count:
        got = f"the text {found!r:.40}" if isinstance(found, str) else f"{len(texts)} for {count}"
        raise ValueError(f"the model function must return one text for each row (got {got})")
    return texts


def _answer(text: Any, attempt: int) -> Answer:
    if isinstance(text, str):
        return Answer(str(text), "stop", attempt)
    return Answer.failed(
        "NoText", f"the function returned {text!r:.40}, which is not a text", attempt
    )
