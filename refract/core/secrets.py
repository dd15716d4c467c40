"""Keys, passwords and tokens are found and left out of what is written to files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

LEFT_OUT = "[left out]"
# The words of a name: those of apiKey, api_key and API-KEY are equal.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]")
_SECRET = re.compile(
    r"(^|_)(secrets?|passwords?|passwd|passphrase|pwd|credentials?|cookies?|authorization|auth|bearer|jwt"
    r")(_|$)|(^|_)(keys?|token)$|(api|access|secret|private|auth|subscription|session)_?(key|token)s?$"
)
# Tokens of texts, keys that open nothing, and names of the place of a secret.
_HARMLESS = re.compile(
    r"(^|_)((cache|cat|sort|primary|foreign|partition|idempotency|group|routing|column|public)_keys?"
    r"|(eos|bos|pad|unk|sep|cls|mask|image|start|end|stop|special|think|thinking|first|last|next|new"
    r"|per|prompt|input|output)_token|env|variable|field|file|path|column)$"
)
# Keys in the forms that their issuers give them.
_FORMS = re.compile(
    r"\bsk-[\w-]{8,}|\b(?:hf_|gh[pousr]_|gsk_|r8_|xai-|xox[abp]-|glpat-)[A-Za-z0-9-]{16,}"
    r"|\bgithub_pat_\w{16,}|\bA(?:KIA|SIA)[0-9A-Z]{12,}|\bAIza[\w-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|(?<=\b[Bb]earer )\s*\S{8,}",
    re.DOTALL,
)
# What stands before the host of an address; a name with = or : behind it, and its value.
_USER = re.compile(r"(?<=://)\S*@")
_NAME = re.compile(r"""([\w.-]+)["']?\s*[=:]\s*["']?""")
_VALUE = re.compile(r"""(?:(?:basic|bearer|token) )?[^\s"'&,;}\]]+""", re.IGNORECASE)


def names_secret(name: object) -> bool:
    """Whether a name says that its value is a key, a password or a token."""
    if not isinstance(name, str) or re.search(r"\s", name.strip()):
        return False
    words = _WORDS.findall(unicodedata.normalize("NFKC", name))
    plain = "_".join(words).lower()
    return bool(_SECRET.search(plain)) and not _HARMLESS.search(plain)


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """A value as it may be written, and the places of what was left out (``headers.x-api-key``).

    Left out is every text or number under a name that ``names_secret``, also where name and value
    follow each other in a list. Of any other text, these parts are: keys by their form, what stands
    before the host of an address, and what follows such a name and ``=`` or ``:``."""
    places: list[str] = []

    def clean(value: Any, place: str, secret: bool) -> Any:
        if isinstance(value, Mapping):
            # {"name": "x-api-key", "value": …}
            pair_is_secret = names_secret(value.get("name", value.get("header")))
            kept = {}
            for name, inner in value.items():
                shown = clean(name, place, False)
                inside = f"{place}.{shown}".removeprefix(".")
                named = names_secret(name) or (name == "value" and pair_is_secret)
                kept[shown] = clean(inner, inside, secret or named)
            return kept
        if isinstance(value, list | tuple):
            cleaned = []
            before: Any = ""
            for inner in value:
                named = names_secret(before) and (len(value) == 2 or before.startswith("-"))
                cleaned.append(clean(inner, place, secret or named))
                before = inner
            return cleaned
        if value is None or isinstance(value, bool) or value == "":
            return value
        shown = value
        if secret:
            shown = LEFT_OUT
        elif isinstance(value, str):
            shown = _clean_text(value)
        # A number that is none, NaN, differs from itself.
        if secret or (shown is not value and shown != value):
            places.append(place)
        return shown

    try:
        return clean(value, "", False), places
    except RecursionError:
        return LEFT_OUT, ["a value that is nested too deeply"]


def _clean_text(text: str) -> str:
    text = _FORMS.sub(LEFT_OUT, _USER.sub(f"{LEFT_OUT}@", text))
    kept = ""
    end = 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end())
        if value and name.start() >= end and names_secret(name[1]) and LEFT_OUT[:5] not in value[0]:
            kept += text[end : name.end()] + LEFT_OUT
            end = value.end()
    return kept + text[end:]
