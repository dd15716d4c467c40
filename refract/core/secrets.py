"""Keys, passwords and tokens in what is written to files: found and left out, at every depth."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

LEFT_OUT = "[left out]"
# The words of a name: apiKey, api_key and API-KEY have the same.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]")
_SECRET = re.compile(
    r"(^|_)(secrets?|passwords?|passwd|passphrase|pwd|credentials?|cookies?|authorization|auth|bearer|jwt"
    r")(_|$)|(^|_)(keys?|token)$|(api|access|secret|private|auth|subscription|session)_?(key|token)s?$"
)
# Names of tokens of texts and of keys that open nothing, and of where a secret stands.
_HARMLESS = re.compile(
    r"(^|_)((cache|cat|sort|primary|foreign|partition|idempotency|group|routing|column|public)_keys?"
    r"|(eos|bos|pad|unk|sep|cls|mask|image|start|end|stop|special|think|thinking|first|last|next|new"
    r"|per|prompt|input|output)_token|env|variable|field|file|path|column)$"
)
# Keys by the form that their issuers give them; the words of an address before its host; a pair.
_FORMS = re.compile(
    r"\bsk-[\w-]{8,}|\b(?:hf_|gh[pousr]_|gsk_|r8_|xai-|xox[abp]-|glpat-)[A-Za-z0-9-]{16,}"
    r"|\bgithub_pat_\w{16,}|\bA(?:KIA|SIA)[0-9A-Z]{12,}|\bAIza[\w-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|(?<=\b[Bb]earer )\s*\S{8,}",
    re.DOTALL,
)
_USER = re.compile(r"(?<=://)\S*@")
_NAME = re.compile(r"""([\w.-]+)["']?\s*[=:]\s*["']?""")
_VALUE = re.compile(r"""(?:(?:basic|bearer|token) )?[^\s"'&,;}\]]+""", re.IGNORECASE)


def names_secret(name: object) -> bool:
    """Whether what stands under a name is by that name a key, a password or a token."""
    if not isinstance(name, str) or re.search(r"\s", name.strip()):
        return False
    words = _WORDS.findall(unicodedata.normalize("NFKC", name))
    plain = "_".join(words).lower()
    return bool(_SECRET.search(plain)) and not _HARMLESS.search(plain)


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """A value as it may be written, and the places of what was left out of it (``headers.x-api-key``).

    Left out is every text or number under a name that :func:`names_secret`, also where name and value
    follow each other in a list, and of any text what has the form of a key, stands before the host of an
    address, or behind such a name and ``=`` or ``:``."""
    found: list[str] = []

    def clean(value: Any, place: str, secret: bool) -> Any:
        if isinstance(value, Mapping):
            said = value.get("name", value.get("header"))
            return {
                (shown := clean(name, place, False)): clean(
                    inner,
                    f"{place}.{shown}".removeprefix("."),
                    secret or names_secret(name) or (name == "value" and names_secret(said)),
                )
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            pair = len(value) == 2
            before = ["", *value][: len(value)]
            return [
                clean(
                    inner, place, secret or (names_secret(name) and (pair or name.startswith("-")))
                )
                for name, inner in zip(before, value, strict=True)
            ]
        if value is None or isinstance(value, bool) or value == "":
            return value
        kept: Any = LEFT_OUT if secret else _of_text(value) if isinstance(value, str) else value
        if secret or (isinstance(value, str) and kept != value):
            found.append(place)
        return kept

    try:
        return clean(value, "", False), found
    except RecursionError:
        return LEFT_OUT, ["a value that is nested too deeply"]


def _of_text(text: str) -> str:
    text = _FORMS.sub(LEFT_OUT, _USER.sub(f"{LEFT_OUT}@", text))
    kept, at = "", 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end())
        if value and name.start() >= at and names_secret(name[1]) and LEFT_OUT[:5] not in value[0]:
            kept, at = kept + text[at : name.end()] + LEFT_OUT, value.end()
    return kept + text[at:]
