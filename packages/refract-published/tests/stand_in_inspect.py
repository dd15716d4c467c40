"""What tests need of Inspect's reader of logs where inspect_ai is not installed: the samples of a
log in JSON, with their attachments in their places."""

from __future__ import annotations

import json
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


class StandInLog:
    """A log as Inspect's reader returns it."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def model_dump(self, mode: str, exclude: dict[str, Any]) -> dict[str, Any]:
        """The log as JSON."""
        return self.content


def resolved(value: Any, texts: dict[str, str]) -> Any:
    """A value with its attachments in their places."""
    if isinstance(value, dict):
        return {key: resolved(part, texts) for key, part in value.items()}
    if isinstance(value, list):
        return [resolved(part, texts) for part in value]
    if isinstance(value, str) and value.startswith("attachment://"):
        return texts.get(value.removeprefix("attachment://"), value)
    return value


def read_eval_log(
    log_file: Path | BytesIO, resolve_attachments: bool, exclude_fields: set[str]
) -> StandInLog:
    """The log in a file."""
    log = json.loads(log_file.read() if isinstance(log_file, BytesIO) else log_file.read_bytes())
    samples = log.get("samples") or []
    log["samples"] = [resolved(sample, sample.get("attachments") or {}) for sample in samples]
    return StandInLog({"status": "started", **log})


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the stand-in in the place of inspect_ai."""
    module = ModuleType("inspect_ai.log")
    vars(module)["read_eval_log"] = read_eval_log
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", module)
