"""The perturbation ``rewrite``: a prompt as a model says it otherwise, from a file that ``refract
rewrite`` writes."""

from __future__ import annotations

import functools
import hashlib
import random
from pathlib import Path

from pydantic import Field

from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, sha256_json
from refract.core.types import Row
from refract.suites.perturbations.variants import (
    FeatureSettings,
    Noisy,
    Perturbation,
    in_each_feature,
)


class RewriteSettings(FeatureSettings):
    file: str = Field(description="the JSONL file that `refract rewrite` writes; it belongs in git")
    model: str = Field(description="who rewrites: a name from `models`")
    instruction: str = Field(
        pattern=r"\{prompt\}",
        description="what the model is asked",
        json_schema_extra={"allowed": "a text with {prompt} in it"},
    )

    @property
    def made_by(self) -> str:
        """A hash of model and instruction, which its rows hold, so that neither changes
        unseen."""
        return sha256_json([self.model, self.instruction, None])


def source_sha256(text: str) -> str:
    """The key of a text in a file of rewritings."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def kept_rewritings(settings: RewriteSettings) -> dict[str, Row]:
    """The rows of the file by this model and instruction, by ``source_sha256``."""
    path = Path(settings.file)
    return _rows_by(path, settings.made_by, path.stat().st_mtime_ns) if path.is_file() else {}


@functools.lru_cache(maxsize=16)
def _rows_by(path: Path, made_by: str, changed_at: int) -> dict[str, Row]:
    return {row["source_sha256"]: row for row in read_rows(path) if row["made_by"] == made_by}


def rewrite(text: str, generator: random.Random, settings: RewriteSettings) -> Noisy:
    """What a model made of the text: a paraphrase, the past tense, a translation.

    ``refract rewrite`` asks the model and keeps its text. A text that it declined to
    rewrite, or returned as it was, has no variant."""
    row = kept_rewritings(settings).get(source_sha256(text))
    if row is None:
        raise ParamsError(
            f"{settings.file} has nothing that {settings.model} made of {text!r:.60} by this "
            "instruction; run: refract rewrite NAME, with the perturbation's name"
        )
    return row["text"] or text, 1


REWRITE = Perturbation(RewriteSettings, in_each_feature("rewrite", rewrite))
