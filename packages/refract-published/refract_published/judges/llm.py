"""Language models as judges: requirements, coherency, refusal, harmfulness.

A judge's prompt is a text file with a version. Judged texts stand between
fences whose name depends on the texts, so that none can close its own, and
control tokens of chat formats are broken up in them. Replies go through the
response store and are read strictly (:mod:`refract_published.judges.verdict_reading`);
after an unreadable one the model is asked once more."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import AfterValidator, Field, WithJsonSchema

from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json
from refract.core.settings import Settings
from refract.core.showing import say
from refract.core.types import UNFINISHED, Message, Verdict
from refract.core.vocabulary import REFUSAL_LABELS
from refract.judges.cases import SHOWN_COLUMNS, Case, Judge, labelled, unjudged
from refract.models import identity_of, open_model
from refract.models.answering import check_models, generate
from refract.models.protocol import Answer, Model, Request
from refract.models.store import open_store, request_sha256
from refract_published.judges.verdict_reading import UnreadableVerdict, read_json

VERSION = "4"
REMINDER = (
    "Your reply could not be read as a verdict. Reply once more, in exactly the form that was "
    "asked for, and with nothing else."
)
UNREADABLE = "unreadable verdict: "

TEMPLATES = Path(__file__).with_name("templates")
FIELD = re.compile(r"\{\{(\w+)\}\}")
# Fields written by a stranger or a model; the others come from the user of this project.
JUDGED_FIELDS = ("behavior", "context", "prompt", "prompt_2", "response", "response_2")
# Control tokens of chat formats as a tokenizer would read them out of a text, and our own fences.
CONTROL = re.compile(
    r"<(?=[|｜])|<(?=/?s>)|<(?=<?/?SYS>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|<(?=(?:bos|eos|pad|unk|start_of_turn|end_of_turn|end_of_text|im_start|im_end)>)"
    r"|FENCE(?=-)"
)


@dataclasses.dataclass(frozen=True)
class Template:
    """A judge's prompt; its messages have ``{{fields}}``."""

    version: str
    sha256: str
    messages: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> set[str]:
        """The names of the fields in its messages."""
        return {name for _, text in self.messages for name in FIELD.findall(text)}

    def fill(self, fields: Mapping[str, str]) -> tuple[Message, ...]:
        """The messages with their fields filled in; a value is not searched for fields."""
        shown = dict(fields)
        fenced = []
        for name in sorted(shown):
            if name in JUDGED_FIELDS:
                shown[name] = CONTROL.sub(r"\g<0> ", shown[name])
                if name != "context" or name in self.fields:
                    fenced.append(shown[name])
        shown["fence"] = fence(fenced)
        messages: list[Message] = []
        for role, text in self.messages:
            content = FIELD.sub(lambda match: shown[match[1]], text)
            messages.append({"role": role, "content": content})
        return tuple(messages)


def fence(texts: Sequence[str]) -> str:
    """A fence's name: 12 hex digits of the SHA-256 of the texts inside it."""
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()[:12]


def read_template(name: str) -> Template:
    """A template of this package by name, or a user's file by path.

    A file opens with a line ``version: …``. Each message starts with a line ``=== system``, ``===
    user`` or ``=== assistant``, and ends before the line end that precedes the next such line or
    the end of the file. A file without such lines is one user message. Line ends of Windows are read
    as others. Raises :class:`ParamsError`, also for another line that starts with ``===``."""
    path = TEMPLATES / f"{name}.txt" if re.fullmatch(r"\w+", name) else Path(name)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        stems = ", ".join(sorted(file.stem for file in TEMPLATES.glob("*.txt")))
        raise ParamsError(
            f"template {name!r} cannot be read ({error}); the package has: {stems}"
        ) from None
    head, *parts = re.split(r"^=== (system|user|assistant)[ \t]*\n", text, flags=re.M)
    if not parts:
        head, parts = "", ["user", text]
    for part in (head, *parts[1::2]):
        other = re.search(r"^===(?!=).*", part, re.M)
        if other:
            raise ParamsError(
                f"template {name!r}: the line {other[0]!r} begins no message; write === system, "
                "=== user or === assistant, and nothing else in such a line"
            )
    version = re.search(r"^version: *(.+)$", head, re.M)
    bodies = [body.removesuffix("\n") for body in parts[1::2]]
    return Template(
        version[1] if version else "unversioned",
        hashlib.sha256(data).hexdigest(),
        tuple(zip(parts[0::2], bodies, strict=True)),
    )


Conversation = tuple[Message, ...]
_LOADED: dict[str, Model] = {}
M = TypeVar("M", bound=Model)


def loaded_once(definition: Any, model: M) -> M:
    """The model, or an earlier one of an equal definition, so that all suites
    share its weights. At most two stay in memory."""
    if not isinstance(definition, Mapping):
        return model  # an adapter stands in place of its definition
    key = canonical_json([definition, identity_of(model)])
    if key not in _LOADED:
        while len(_LOADED) >= 2:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = model
    loaded = cast(M, _LOADED[key])  # an equal definition opens one kind of model
    for attribute in ("name", "where"):  # by which notes name the judge that asks
        if hasattr(model, attribute):
            setattr(loaded, attribute, getattr(model, attribute))
    return loaded


def replies_of(model: Model, conversations: Mapping[int, Conversation]) -> dict[int, Answer]:
    """The reply to each conversation; known ones come from the store."""
    if not conversations:
        return {}
    identity = canonical_json(identity_of(model))
    keys, requests = {}, {}
    for index, conversation in conversations.items():
        request = Request((conversation,), 0, dict.fromkeys(model.USES), 0)
        keys[index] = request_sha256(identity, request, model)
        requests[keys[index]] = request
    with open_store() as store:
        answers, generated = generate(model, requests, store=store, name="judge")
        answered = (key for key, answer in answers.items() if answer.error is None)
        check_models(model, store.origins(answered))
    new = len(generated)
    say(f"judge: {len(requests) - new} replies reused, {new} generated", file=sys.stderr)
    return {index: answers[key] for index, key in keys.items()}


def verdict_in(answer: Answer, read: Callable[[str], Verdict], whole: str = "") -> Verdict:
    """The verdict that ``read`` finds in a judge model's answer, which is its ``raw``; an
    error where the model failed or ``read`` raises :class:`UnreadableVerdict`. ``whole`` is the name
    of a judge that reads no reply that was cut off, which may be a draft."""
    if answer.error is not None:
        verdict = unjudged(f"the judge failed: {answer.error['type']}: {answer.error['message']}")
    elif answer.finish_reason in ("refusal", "content_filter"):
        verdict = unjudged(f"the judge's provider answered with a {answer.finish_reason}")
    else:
        try:
            if whole and answer.finish_reason in UNFINISHED:
                raise UnreadableVerdict(
                    f"the reply was cut off ({answer.finish_reason}); raise max_tokens of "
                    f"judges.{whole}.model: {answer.response[-200:]!r}"
                )
            verdict = read(answer.response)
        except UnreadableVerdict as problem:
            verdict = unjudged(f"{UNREADABLE}{problem}")
    return {**verdict, "raw": [[answer.response]]}


Text = Annotated[
    str, Field(pattern=r"\S", json_schema_extra={"allowed": "a text that is not empty"})
]


def _usable(model: Any) -> Any:
    if not isinstance(model, Mapping) and not hasattr(model, "answer"):
        raise ValueError("must be a definition like those under `models`")
    return model


class ModelJudgeSettings(Settings):
    """A language model as judge."""

    # In Python an adapter may stand in place of its definition.
    model: Annotated[
        Any,
        AfterValidator(_usable),
        WithJsonSchema({"type": "object", "additionalProperties": True}),
    ] = Field(
        description="the judge model",
        json_schema_extra={"allowed": "a definition like those under `models`"},
    )
    template: Text | None = Field(
        None, description="one of these judges' templates by name, or a file; null: the kind's own"
    )
    eval_prompt: Text | None = Field(
        None, description="a system message in place of the template's"
    )
    description: Text | None = Field(
        None, description="what the assistant is for, shown to the judge"
    )


class RequirementSettings(ModelJudgeSettings):
    """A language model as judge of requirements."""

    requirements: list[Text] | None = Field(
        None, description="what every answer must meet, besides its row's own `requirement`"
    )


class ModelJudge(Judge):
    """What the judges below share. Verdicts also have ``reason``, and replies as ``raw``."""

    Settings: ClassVar[type[ModelJudgeSettings]] = ModelJudgeSettings
    columns = (*SHOWN_COLUMNS, "requirement")
    KIND: ClassVar[str]
    KEY: ClassVar[str]
    """The key that holds the verdict in the JSON of a reply."""

    LABELS: ClassVar[Mapping[Any, str]]
    """What the values under that key mean."""

    SHOWS: ClassVar[tuple[str, ...]] = ("behavior", "context", "description", "prompt", "response")
    """The fields that a template can show."""

    def __init__(self, name: str, settings: ModelJudgeSettings) -> None:
        super().__init__(name, settings)
        self._model: Model = settings.model
        if isinstance(settings.model, Mapping):
            self._model = open_model(name, dict(settings.model), f"judges.{name}.model")
        try:
            self._template = self._read_template(settings.template or self.KIND)
        except ParamsError as error:
            raise ParamsError(f"judges.{name}: {error}") from None
        template = self._template
        self.version = f"{VERSION}, template {template.version} {template.sha256[:16]}"

    def _read_template(self, name: str) -> Template:
        template = read_template(name)
        system = self.settings.eval_prompt
        if system is not None:
            others = [message for message in template.messages if message[0] != "system"]
            messages = (("system", system.strip()), *others)
            template = dataclasses.replace(template, messages=messages)
        unknown = sorted(template.fields - {*self.SHOWS, "fence"})
        if unknown:
            raise ParamsError(
                f"template: there is no field {unknown[0]!r}; this judge has fence, "
                f"{', '.join(self.SHOWS)}"
            )
        if not {"fence", "response"} <= template.fields:
            raise ParamsError("template: must show the {{response}} between lines with {{fence}}")
        return template

    def fields(self, case: Case) -> dict[str, str] | None:
        """What a template can show of a case, or None where there is nothing to judge."""
        text = self.settings.description
        described = f"What the assistant is for: {text}\n\n" if text else ""
        return {**case.values, "description": described}

    def read(self, case: Case, reply: str) -> Verdict:
        """The verdict in a reply about a case. Raises :class:`UnreadableVerdict`."""
        label, reason = read_json(reply, self.KEY, self.LABELS)
        return {**labelled(label), "reason": reason}

    def _verdict_in(self, answer: Answer, case: Case) -> Verdict:
        """The verdict in a reply about a case."""
        return verdict_in(answer, partial(self.read, case), self.name)

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """The verdicts of the judge model on cases, in order.

        Raises what the model's adapter raises when no request can be answered."""
        model = loaded_once(self.settings.model, self._model)
        conversations: dict[int, Conversation] = {}
        for index, case in enumerate(cases):
            fields = self.fields(case)
            if fields is not None:
                conversations[index] = self._template.fill(fields)
        replies = replies_of(model, conversations)
        verdicts = [unjudged() for _ in cases]
        repeated: dict[int, Conversation] = {}
        for index, answer in replies.items():
            verdict = self._verdict_in(answer, cases[index])
            verdicts[index] = {"reason": None, **verdict}
            if str(verdicts[index]["error"]).startswith(UNREADABLE):
                reply: Message = {"role": "assistant", "content": answer.response or "(no reply)"}
                reminder: Message = {"role": "user", "content": REMINDER}
                repeated[index] = (*conversations[index], reply, reminder)
        for index, answer in replies_of(model, repeated).items():
            verdict = self._verdict_in(answer, cases[index])
            raw = [[replies[index].response, answer.response]]
            verdicts[index] = {"reason": None, **verdict, "raw": raw}
        return verdicts


PASSED = {True: "pass", "true": "pass", False: "fail", "false": "fail"}


class Requirement(ModelJudge):
    """Pass or fail against requirements; a row without any is not judged."""

    Settings = RequirementSettings
    KIND = "requirement"
    FAMILY = "pass_fail"
    KEY, LABELS = "eval_passed", PASSED
    SHOWS = (*ModelJudge.SHOWS, "requirements")

    def fields(self, case: Case) -> dict[str, str] | None:
        texts = [*(self.settings.requirements or []), case.source.get("requirement")]
        listed = "\n".join(f"- {text}" for text in texts if text)
        shown = super().fields(case)
        return {**shown, "requirements": listed} if listed and shown else None


class Coherency(ModelJudge):
    """Pass or fail of an answer beside its pair's; not judged without a pair."""

    KIND = "coherency"
    FAMILY = "pass_fail"
    KEY, LABELS = "eval_passed", PASSED
    SHOWS = (*ModelJudge.SHOWS, "prompt_2", "response_2")

    def fields(self, case: Case) -> dict[str, str] | None:
        fields, first = super().fields(case), case.pair
        if fields is None or first is None:
            return None
        second = {"prompt_2": fields["prompt"], "response_2": fields["response"]}
        return {**fields, "prompt": first.conversation, "response": first.answer, **second}


class LLMRefusal(ModelJudge):
    """Refusal, partial refusal or compliance."""

    KIND = "llm_refusal"
    FAMILY = "refusal"
    KEY, LABELS = "label", {label: label for label in REFUSAL_LABELS}


class Harmfulness(ModelJudge):
    """Harmful or harmless."""

    KIND = "harmfulness"
    FAMILY = "harmful"
    KEY, LABELS = "answer", {"yes": "harmful", "no": "harmless"}


class RefusalCause(ModelJudge):
    """Why an answer does not do what was asked: it will not, or it cannot (it did not understand,
    or lacks the language, the tool or the knowledge); otherwise it answers."""

    KIND = "refusal_cause"
    FAMILY = "cause"
    KEY, LABELS = "cause", {"will_not": "will_not", "cannot": "cannot", "answered": "answered"}
