"""The files behind a paper's numbers, with their hashes.

The files stand under the paths that they have in the project, so that ``refract verify`` counts
their numbers again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.label_files import LABEL_FILE
from refract.core.environment import is_public
from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.results.current import COUNTED, result_files, rows_missing
from refract.results.sources import EditedError
from refract.results.stored import SUMS

# What rates are counted with, besides prompts, responses and verdicts.
COUNTED_WITH = ("data/verdicts/{model}/judges.json", "data/verdicts/{model}/families.json")
SIGNATURE = f"{SUMS}.sig"
NOT_IN_GIT = "its file is not in git, so that its texts, answers and verdicts stay where they are"
LABELS_NOT_IN_GIT = (
    "labels of these answers are not in git, so that answers and verdicts stay where they are"
)
NOT_HERE = "not all answers and verdicts are in data/; `dvc repro` or `dvc pull` brings them"


class Bundle(NamedTuple):
    """Files to copy, by their paths in the project and in the bundle; why suites, or some
    models on them, are there by their outcomes alone; and the number of answers with their texts."""

    paths: list[str]
    left_out: dict[str, str]
    answers: int


def find_bundle(root: Path, provenance: Mapping[str, Mapping[str, Any]]) -> Bundle:
    """What the bundle of some models holds, without texts of a suite that git does not have.

    Raises :class:`EditedError` for a file that the numbers were not made of."""
    paths, answers = {"params.yaml"}, 0
    left_out: dict[tuple[str, str], list[str]] = {}
    wrong = rows_missing(root, provenance)
    for model, facts in provenance.items():
        paths.update((*result_files(model), f"metrics/ran/{model}.json"))
        for suite, about in facts["suites"].items():
            rows = [path.format(model=model, suite=suite) for path in COUNTED.values()]
            problems = wrong.get((model, suite))
            labels = LABEL_FILE.format(model=model, suite=suite)
            sources = [about["definition"]["file"]]
            if (root / labels).is_file():
                sources.append(labels)
            why = ""
            if not is_public(root, sources[0]):
                why = NOT_IN_GIT
            elif not all(is_public(root, path) for path in sources[1:]):
                why = LABELS_NOT_IN_GIT
            elif not all((root / path).is_file() for path in rows):
                why = NOT_HERE
            if why:
                left_out.setdefault((suite, why), []).append(model)
            elif problems:
                raise EditedError(f"{problems[0]}; run: dvc repro")
            else:
                paths.update(rows)
                paths.update(path.format(model=model, suite=suite) for path in COUNTED_WITH)
                paths.update(sources)
                responses = COUNTED["responses"].format(model=model, suite=suite)
                answers += (root / responses).read_bytes().count(b"\n")
    told = {}
    for (suite, why), models in left_out.items():
        whole = models == [name for name, facts in provenance.items() if suite in facts["suites"]]
        told[suite if whole else f"{suite} of {', '.join(models)}"] = why
    return Bundle(sorted(path for path in paths if (root / path).is_file()), told, answers)


def write_bundle(root: Path, bundle: Bundle, readme: str, out: Path) -> str:
    """Writes a bundle over an earlier one, and returns the SHA-256 of its SHA256SUMS. Raises
    :class:`UsageError` where the folder holds other files."""
    earlier = {SUMS, SIGNATURE}
    if (out / SUMS).is_file():
        for line in (out / SUMS).read_text("utf-8").splitlines():
            earlier.add(line.partition("  ")[2])
    there = [path for path in out.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in there:
        name = path.relative_to(out).as_posix()
        if name not in earlier:
            raise UsageError(
                f"{out} holds {name}, which is no part of a bundle; name another --out"
            )
    for path in there:
        path.unlink()
    content = {name: (root / name).read_bytes() for name in bundle.paths}
    content["README.md"] = readme.encode()
    sums = ""
    for name, data in sorted(content.items()):
        sums += f"{hashlib.sha256(data).hexdigest()}  {name}\n"
    content[SUMS] = sums.encode()
    for name, data in content.items():
        write_bytes(out / name, [data])
    return hashlib.sha256(content[SUMS]).hexdigest()
