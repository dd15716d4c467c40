"""A judge's input, its verdicts, and the contract of a judge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import BaseModel

from refract.core.settings import Settings
from refract.core.types import (
    UNFINISHED,
    Attempt,
    Message,
    PromptRow,
    ResponseRow,
    Row,
    Verdict,
    clean_id,
    filled,
    is_last,
    sample_id,
    thought_in,
)
from refract.core.vocabulary import SCORES, refusal_of
from refract.suites.rows import attacked

# Columns of a suite's row that the text of a judge can show.
SHOWN_COLUMNS = ("behavior", "context")
# A message of these words alone asks for nothing without the one before it.
_GOES_ON = re.compile(
    r"(?:(?:a|again|ahead|all|and|both|continue|course|do|first|for|go|going|how|i|it|just|keep|me|more|next|"
    r"no|now|of|oh|ok|okay|on|one|please|proceed|rest|second|so|sure|tell|thanks?|that|the|then|them|this|try|"
    r"why|with|yeah|yep|yes|you)\b\W*)+"
)


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to judge: rows of prompt and response, and the suite row as ``source``."""

    prompt: PromptRow
    response: ResponseRow
    source: Row
    clean: ResponseRow | None = None
    """The answer to the clean prompt; for a further sample of that the first one."""

    pair: Case | None = None
    """The case to agree with: the clean prompt's, or that of ``pair_id``."""

    plain: Attempt | None = None
    """The clean prompt of a variant that asks for the same, or the plain request of an attack."""

    @property
    def of_thinking(self) -> Case:
        """The case with the thinking in the answer's place; without thinking there is
        nothing to judge in it."""
        return replace(
            self,
            response=_thinking_of(self.response),
            clean=None if self.clean is None else _thinking_of(self.clean),
            pair=None if self.pair is None else self.pair.of_thinking,
        )

    @property
    def turns(self) -> Sequence[Message]:
        """The messages that are answered, of the attempt that was used."""
        return _messages(self.prompt["attempts"][self.response["attempt"]])

    @property
    def prompt_text(self) -> str:
        """The user's last message; what tools returned stands behind it."""
        return _last_message(self.turns)

    @property
    def request(self) -> str:
        """What was asked, in plain words: the ``behavior`` of the suite's row, or what the plain
        prompt says, since noise and attacks must not change the verdict on one and the same answer.
        A last message that goes on ("Yes, please.") stands behind the user's one before it."""
        if self._behavior:
            return self._behavior
        texts = [turn["content"] for turn in self._asked if turn["role"] == "user"]
        if texts and _GOES_ON.fullmatch(texts[-1].strip().lower()):
            return "\n".join(texts[-2:])
        return _last_message(self._asked)

    @property
    def _asked(self) -> Sequence[Message]:
        return self.turns if self.plain is None else _messages(self.plain)

    @property
    def _behavior(self) -> str:
        done = self.prompt.get("perturbation") or {}
        stated = is_last(self.prompt) and done.get("same_request", True)
        return str(filled(self.source.get("behavior")) or "") if stated else ""

    @property
    def conversation(self) -> str:
        """The text that is answered, or several messages as JSON, which keeps them apart."""
        return _conversation(self.turns)

    @property
    def values(self) -> dict[str, str]:
        """The fields that the text of a judge can show."""
        return {
            "behavior": self._behavior or _conversation(self._asked),
            "context": str(self.source.get("context") or ""),
            "prompt": self.conversation,
            "response": self.answer,
        }

    @property
    def called_before(self) -> bool:
        """Whether there are calls of tools before the answer."""
        return any(turn.get("tool_calls") for turn in self.turns)

    @property
    def answer(self) -> str:
        """The text to judge."""
        return self.response["response"]


class AnsweredSuite(NamedTuple):
    """A suite with a model's answers: rows of prompts and responses by prompt id, which need not
    be in memory, and the suite's own rows by id."""

    prompts: Mapping[str, PromptRow]
    responses: Mapping[str, ResponseRow]
    sources: Mapping[str, Row]

    def case(self, prompt_id: str) -> Case:
        """The answer to a prompt, with what it is held against."""
        prompt = self.prompts[prompt_id]
        sample = prompt.get("sample", 1)
        source = self.sources[prompt["source_id"]]
        if prompt["perturbation"] is not None:
            other = clean_id(prompt)
            clean = self.responses.get(other)
        else:
            other = filled(source.get("pair_id")) or ""
            if other:
                other = sample_id(other, sample) if is_last(prompt) else ""
            # A further sample of a clean prompt is compared with the first: the
            # noise of sampling.
            first = clean_id(prompt, first=True)
            clean = self.responses.get(first) if sample > 1 else None
        pair = None
        if other in self.prompts and other != prompt_id and judgeable(self.responses[other]):
            of_other = self.sources[self.prompts[other]["source_id"]]
            pair = Case(self.prompts[other], self.responses[other], of_other)
        plain = self._plain(prompt, source)
        return Case(prompt, self.responses[prompt_id], source, clean, pair, plain)

    def _plain(self, prompt: PromptRow, source: Row) -> Attempt | None:
        done = prompt["perturbation"]
        if done is not None and not done.get("same_request", True):
            return None
        attacks = attacked(source, self.sources) if is_last(prompt) else None
        if attacks is not None:
            sent = self.prompts.get(attacks["id"])
            plain: Attempt | None = filled(attacks.get("behavior"))
            plain = plain or (sent and sent["attempts"][0])
            plain = plain or attacks.get("messages") or attacks.get("prompt")
            if plain:
                return plain
        clean = self.prompts.get(clean_id(prompt)) if done is not None else None
        return None if clean is None else clean["attempts"][0]


def _messages(attempt: Attempt) -> Sequence[Message]:
    return [{"role": "user", "content": attempt}] if isinstance(attempt, str) else attempt


def _last_message(turns: Sequence[Message]) -> str:
    texts = [turn["content"] for turn in turns if turn["role"] == "user"]
    return texts[-1] if texts else turns[-1]["content"]


def _conversation(turns: Sequence[Message]) -> str:
    if len(turns) == 1:
        return turns[0]["content"]
    # Sorted, so that judges are asked the same whoever wrote the messages.
    return json.dumps(turns, ensure_ascii=False, indent=1, sort_keys=True)


def _thinking_of(response: ResponseRow) -> ResponseRow:
    # An answer without a text may have been cut off while the model was thinking.
    unfinished = response["finish_reason"] in UNFINISHED and not response["response"].strip()
    thinking: ResponseRow = {
        **response,
        "response": thought_in(response),
        "thinking": None,
        "finish_reason": response["finish_reason"] if unfinished else "stop",
    }
    thinking.pop("tool_calls", None)
    return thinking


def unjudged(error: str | None = None) -> Verdict:
    """A verdict without a label; ``error`` says why the judge could not give one."""
    return {"label": None, "refused": None, "score": None, "evidence": [], "error": error}


def labelled(label: str, score: float | None = None) -> Verdict:
    """The verdict of a label; ``score`` is by default the label's own."""
    score = SCORES.get(label) if score is None else score
    return {**unjudged(), "label": label, "refused": refusal_of(label), "score": score}


def judgeable(response: ResponseRow, *, empty: bool = False) -> bool:
    """Whether the model wrote a text to judge; an empty one counts if ``empty``."""
    ended = response["finish_reason"] in ("stop", *UNFINISHED)
    return ended and (empty or bool(response["response"].strip()))


def encodable(text: str) -> str:
    """The text with ? for half surrogate pairs, which tokenizers do not read."""
    return text.encode("utf-8", "replace").decode("utf-8")


class NoSettings(Settings):
    pass


def asks_model(judge: type[Judge]) -> bool:
    """Whether a judge asks a model of the user's choice, which may cost something."""
    return "model" in judge.Settings.model_fields


def versioned(definition: Mapping[str, Any], judge: Judge) -> dict[str, Any]:
    """The definition of a judge with its versions, as results hold it."""
    versions = {"version": judge.version}
    if judge.other_languages:
        versions["other_languages"] = judge.other_languages
    return {**definition, **versions}


class Judge(Protocol):
    """A judge: what :data:`refract.judges.JUDGES` names. Subclassing gives the
    defaults below.

    Creating one is cheap: it loads no weights, imports neither torch nor
    transformers, and opens no connection. It raises
    :class:`refract.core.errors.ParamsError` for settings that contradict each
    other.
    """

    FAMILY: str
    """Family of its labels, a name in :data:`refract.core.vocabulary.FAMILIES`."""

    version: str
    """Changes when the same settings would judge the same answer differently."""

    other_languages: ClassVar[str] = ""
    """Changes instead of ``version`` when only answers in other languages than English would
    be judged differently: what was measured in English stays true."""

    Settings: ClassVar[type[BaseModel]] = NoSettings
    """What a definition in params.yaml may hold besides ``kind`` and ``validate``."""

    languages: ClassVar[frozenset[str] | None] = None
    """Codes of the languages that it reads; None: any, or as many as its model."""

    judges_empty: bool = False
    """Whether it is given empty answers, too."""

    judges_steps: ClassVar[bool] = False
    """Whether it is given conversations with calls before the answer however that one ended, and
    its label then counts in place of the ending."""

    hands_on: ClassVar[bool] = False
    """Whether answers that it gives no label are decided by the next judge of refusal, which
    has to read texts."""

    reads: Literal["answer", "thinking"] = "answer"
    """Which text of a row it is given as the answer, by its definition."""

    cases_a_process: int | None = None
    """How many cases are worth a process of their own; None: one process judges all.

    Only for judges that compute on this machine and ask nobody.
    """

    columns: ClassVar[tuple[str, ...] | None] = None
    """Columns of a suite's rows that it reads; None: it may read any.

    A judge that names them reads of prompts and answers nothing but messages, the request in plain
    words, text, thinking, calls and how the answer ended.
    """

    name: str
    settings: Any

    def __init__(self, name: str, settings: Any) -> None:
        self.name, self.settings = name, settings

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case of a suite, in order, from that case alone.

        Where there is none, ``error`` says why, or is None if the judge does
        not apply (no requirement, no pair). Raises
        :class:`refract.models.protocol.AdapterError` where the judge as a whole
        cannot work.
        """
        ...

    def decided_by(self) -> Any:
        """What decides its verdicts beside its version, its code and the case, as
        JSON: settings, and hashes of the files that they name.

        None: verdicts are not kept. Those of a model's reply are not, since the
        reply is.
        """
        return None if asks_model(type(self)) else self.settings.model_dump(mode="json")

    def check(self) -> str | None:
        """A warning about using the judge on this machine, before anything is
        paid for, or None. Raises :class:`refract.core.errors.RefractError`
        where it cannot be used.
        """
        return None
