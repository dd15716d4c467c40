"""What a judge is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import BaseModel

from refract.core.settings import Settings
from refract.core.types import Verdict
from refract.judges.cases import Case


class NoSettings(Settings):
    pass


class WithoutSettings:
    """What judges share that have nothing to set."""

    Settings = NoSettings

    def __init__(self, name: str, settings: NoSettings) -> None:
        pass


class Judge(Protocol):
    """A judge: what :data:`refract.judges.JUDGES` names. Any class with these members is one; there
    is nothing to inherit from. One whose ``judges_empty`` is true is given cases with an empty answer
    too.

    An instance is made with the judge's name and its checked settings. That is cheap: it loads no
    weights, imports neither torch nor transformers, opens no connection. It raises
    :class:`refract.core.errors.ParamsError` for settings that cannot be used together.
    """

    def __init__(self, name: str, settings: Any) -> None: ...

    @property
    def Settings(self) -> type[BaseModel]:
        """What a definition in params.yaml may hold besides ``kind`` and ``validate``."""

    @property
    def FAMILY(self) -> str:
        """The name in :data:`refract.core.vocabulary.FAMILIES` of the labels it gives: what its verdicts
        are counted as."""

    @property
    def version(self) -> str:
        """Of its code, and of a prompt or file that decides its verdicts. Bump it when the same
        settings would judge the same answer differently."""

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case, in order. The cases are those of one suite that have a text to
        judge. A verdict depends on its own case alone; where there is none, ``error`` says why, or
        is None for a case that is none of this judge's business (no requirement, no pair).

        Raises :class:`refract.models.protocol.AdapterError` where the judge as a whole cannot work.
        """
