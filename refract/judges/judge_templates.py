"""The prompts of judge models: text files with a version, filled so that no text can leave its place.

A template's judged texts stand between fences whose name depends on the texts themselves, so that
none can close its own. Control tokens of chat formats are broken up in them; where a classifier's
format has no place for a fence, lines that imitate the format are marked as quoted.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json
from refract.core.types import Message
from refract.judges.verdict_reading import Reading, parse_reading

TEMPLATES = Path(__file__).with_name("templates")
FIELD = re.compile(r"\{\{(\w+)\}\}")
# Fields that hold what a stranger or a model wrote; all else comes from the user of this project.
JUDGED_FIELDS = ("behavior", "context", "prompt", "prompt_2", "response", "response_2")
# Control tokens of chat formats as a tokenizer would read them out of a text, and our own fences.
CONTROL = re.compile(
    r"<(?=[|｜])|<(?=/?s>)|<(?=<?/?SYS>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])"
    r"|<(?=(?:bos|eos|pad|unk|start_of_turn|end_of_turn|end_of_text|im_start|im_end)>)"
    r"|FENCE(?=-)"
)


@dataclass(frozen=True)
class Template:
    """A judge's prompt: its messages with ``{{fields}}``, its version, the SHA-256 of its file.

    ``readings`` holds how replies are read by kind of judge, under "" for every kind.
    """

    name: str
    version: str
    sha256: str
    messages: tuple[tuple[str, str], ...]
    readings: Mapping[str, Reading]

    @property
    def fields(self) -> set[str]:
        """The names of the fields in its messages."""
        return {name for _, text in self.messages for name in FIELD.findall(text)}

    def fill(self, fields: Mapping[str, str], *, raw: bool = False) -> tuple[Message, ...]:
        """The messages with their fields filled in; what is filled in is not searched again.

        ``raw``: judged texts as they are, without protection against forged frames.
        """
        heads = set() if "fence" in self.fields else self._heads()
        shown = {
            name: _quoted(CONTROL.sub(r"\g<0> ", text), heads)
            if name in JUDGED_FIELDS and not raw
            else text
            for name, text in fields.items()
        }
        fenced = {*JUDGED_FIELDS} - ({"context"} - self.fields)
        shown["fence"] = fence(*(shown[name] for name in sorted(shown) if name in fenced))
        return tuple(
            {"role": role, "content": FIELD.sub(lambda match: shown[match[1]], text)}
            for role, text in self.messages
        )

    def _heads(self) -> set[str]:
        """How the lines of the frame begin: up to a colon, or whole for rules and brackets."""
        lines = (line.strip() for _, text in self.messages for line in text.splitlines())
        heads = (re.match(r"[\w \[\]/]{1,40}:|\W{3,}\Z", line) for line in lines)
        return {head[0].casefold() for head in heads if head}


def _quoted(text: str, heads: set[str]) -> str:
    """The text, each line of it that begins like a line of the frame marked by ``> ``."""
    if not heads:
        return text
    return "".join(
        f"> {line}" if line.strip().casefold().startswith(tuple(heads)) else line
        for line in text.splitlines(keepends=True)
    )


def fence(*texts: str) -> str:
    """A fence's name: 12 hex digits of the SHA-256 of what stands inside it."""
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()[:12]


@functools.cache
def read_template(name: str) -> Template:
    """A template of the project by name, or a user's file by path.

    A file opens with lines ``key: value``: ``version``, ``source``, and ``reads`` (or
    ``reads.KIND``) where replies are not the JSON that its kind expects; see
    :func:`refract.judges.verdict_reading.parse_reading`. Each message starts with a line ``=== system``,
    ``=== user`` or ``=== assistant``, and ends before the line end that precedes the next such line
    or the end of the file: further line ends are part of it. A file without such lines is one user
    message. Raises :class:`ParamsError`.
    """
    path = TEMPLATES / f"{name}.txt" if re.fullmatch(r"\w+", name) else Path(name)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(sorted(p.stem for p in TEMPLATES.glob("*.txt")))
        raise ParamsError(
            f"template {name!r} cannot be read ({error}); the project has: {known}"
        ) from None
    head, *parts = re.split(r"^=== (system|user|assistant)\n", text, flags=re.M)
    if not parts:
        head, parts = "", ["user", text]
    header = dict(re.findall(r"^([\w.]+): *(.+)$", head, re.M))
    try:
        readings = {
            key.partition(".")[2]: parse_reading(value)
            for key, value in header.items()
            if key.partition(".")[0] == "reads"
        }
    except ValueError as error:
        raise ParamsError(f"template {name!r}: reads: {error}") from None
    messages = zip(parts[0::2], (body.removesuffix("\n") for body in parts[1::2]), strict=True)
    return Template(
        name,
        header.get("version", "unversioned"),
        hashlib.sha256(data).hexdigest(),
        tuple(messages),
        readings,
    )
