"""Messages in the logs of other tools, as texts.

An image stands in a text as its hash: judges read texts alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from refract.core.jsonl import parse_json
from refract.core.types import Row


def text_of(content: Any) -> str | None:
    """The text of a message's content, or of its parts that are texts."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else None


def last_content(messages: Sequence[Row]) -> Any:
    """The content of the user's last message: a text or parts; None without one."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return message.get("content")
    return None


def shown(content: Any) -> str | None:
    """The text of a message's content, with the hashes of images in their places."""
    if not isinstance(content, list):
        return text_of(content)
    lines = []
    for part in content:
        hashes = images_in([{"content": [part]}])
        if hashes:
            lines.append(f"[image sha256:{hashes[0][:12]}]")
        elif part.get("type") == "text":
            lines.append(part.get("text") or "")
    return "\n".join(lines)


def conversation(sent: Sequence[Row]) -> Row:
    """What was sent: the user's last text (``prompt``) and, where more was sent, all ``messages``:
    None where they have another form than those of a suite's row."""
    row: Row = {"prompt": shown(last_content(sent))}
    if len(sent) < 2:
        return row
    messages = [{"role": x.get("role"), "content": shown(x.get("content"))} for x in sent]
    roles = [message["role"] for message in messages]
    if roles[:1] == ["system"]:
        del roles[0]
    # Of two of the user's in a row, a suite's model would answer the first.
    alternate = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    has_texts = all((message["content"] or "").strip() for message in messages)
    return row | {"messages": messages if alternate and has_texts else None}


def sent(text: Any) -> Row:
    """What was sent as a text, or as messages for a chat API written as one; its ``images``
    where it has any."""
    if not isinstance(text, str):
        return {"prompt": None}
    if text.lstrip().startswith(("[{", "[\n")):
        with suppress(ValueError, AttributeError):
            messages = parse_json(text)
            images = images_in(messages)
            return conversation(messages) | ({"images": images} if images else {})
    return {"prompt": text}


def images_in(messages: Sequence[Row]) -> list[str]:
    """The SHA-256 of each image in messages: of its bytes, or of its address where the log
    has no more than that.

    Inspect writes ``{"type": "image", "image": …}`` and chat APIs ``{"type": "image_url",
    "image_url": {"url": …}}``; each value is an address or a ``data:`` URL."""
    hashes = []
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind not in ("image", "image_url"):
                continue
            value = part.get(kind)
            address = str(value.get("url") if isinstance(value, dict) else value)
            head, _, data = address.partition(";base64,")
            image = address.encode("utf-8", "surrogatepass")
            if head.startswith("data:"):
                with suppress(ValueError):  # cut off, say: a hash of what there is
                    image = base64.b64decode(data)
            hashes.append(hashlib.sha256(image).hexdigest())
    return hashes
