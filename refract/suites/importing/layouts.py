"""Suites that are published in several files: Giskard's prompt injections, and XSafety."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from refract.core.types import Row
from refract.suites.importing.columns import Contents, Options, Origin
from refract.suites.importing.file_formats import read_table
from refract.suites.rows import STRING_FLAGS, SuiteError, field_problems

GISKARD = Origin(
    "Giskard's prompt injections (from garak and promptinject)",
    "https://github.com/Giskard-AI/prompt-injections",
    "Apache-2.0",
    "Every row is harmful: an attack that a model should not follow. The strings judge finds "
    "whether it succeeded.",
)
_PROMPTS = ("index", "prompt", "name", "group", "source", "language")
_META = ("index", "expected_strings", *STRING_FLAGS, "evaluation_method_name", "group_mapping")
XSAFETY = Origin(
    "XSafety (Wang et al. 2023, arXiv 2310.00905)",
    "https://github.com/Jarviswang94/Multilingual_safety_benchmark",
    "Apache-2.0",
    "Every row is harmful, which here means: its answer can be unsafe. Its publisher counts unsafe "
    "answers, and many rows have safe ones that are no refusals: read the refusal rate together with "
    "a judge of harm.",
)
# XSafety's folders that are not called by the code of their language.
CODES = {"sp": "es"}


def giskard(kind: str, path: Path, options: Options) -> Contents:
    """The suite of ``prompt_injections.csv`` and ``giskard_meta_data.csv``, joined on ``index``; the
    second is looked for beside the first.

    ``group`` is the group that results are counted by (``DAN``, ``Hate Speech``, …), ``attack`` the
    kind of attack (``Jailbreak``, ``Hijacking attacks``). Rows are harmful unless the options say
    otherwise: the answer wanted is one that does not follow the attack. Raises :class:`SuiteError`
    with the file, the row and what is wrong with it.
    """
    prompts_csv, meta_csv = path, options.meta or path.with_name("giskard_meta_data.csv")
    category = options.category or "harmful"
    prompts, meta = _by_index(prompts_csv, _PROMPTS), _by_index(meta_csv, _META)
    unpaired = [index for index in [*prompts, *meta] if index not in prompts or index not in meta]
    if unpaired:
        raise SuiteError(
            f"{prompts_csv} and {meta_csv}: these indices stand in one of the two files only: "
            f"{', '.join(map(repr, unpaired[:10]))}"
        )
    rows = []
    for index, prompt in prompts.items():
        detector = meta[index]
        if detector["evaluation_method_name"] != "StringMatchingMethod":
            raise SuiteError(
                f"{meta_csv}: row {index!r}: 'evaluation_method_name' must be StringMatchingMethod "
                f"(got {detector['evaluation_method_name']!r})"
            )
        try:
            strings = ast.literal_eval(detector["expected_strings"])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            strings = None
        if not (isinstance(strings, tuple | list) and strings):
            raise SuiteError(
                f"{meta_csv}: row {index!r}: 'expected_strings' must be a tuple of texts such as "
                f"\"('[DAN]', 'DAN:')\" (got {detector['expected_strings']!r})"
            )
        row = {
            "id": f"giskard-{index}",
            "prompt": prompt["prompt"],
            "category": category,
            "name": prompt["name"],
            "group": detector["group_mapping"],
            "attack": prompt["group"],
            "source": prompt["source"],
            "language": prompt["language"],
            "expected_strings": list(strings),
        }
        for flag in STRING_FLAGS:
            text = detector[flag].strip().lower()
            row[flag] = text == "true" if text in ("true", "false") else detector[flag]
        problems = field_problems(row)
        if problems:
            raise SuiteError(f"{meta_csv}: row {index!r}: {problems[0]}")
        rows.append(row)
    return Contents(rows, GISKARD, [prompts_csv, meta_csv], [])


def _by_index(path: Path, columns: tuple[str, ...]) -> dict[str, Row]:
    table = read_table(path)
    absent = [name for name in columns if name not in table.columns]
    if absent:
        raise SuiteError(f"{path}: lacks the column {', '.join(absent)}")
    rows: dict[str, Row] = {}
    for row in table.rows:
        if row["index"] in rows:
            raise SuiteError(f"{path}: the index {row['index']!r} occurs twice")
        rows[row["index"]] = row
    return rows


def xsafety(kind: str, path: Path, options: Options) -> Contents:
    """The suite of one file, of a language's folder, or of a folder that holds those of several.

    XSafety has a folder for each language, with a headerless file for each area. Rows that are on the
    same line of the same area are translations of each other and have the same ``item``. Raises
    :class:`SuiteError`.
    """
    suffixes = (".csv", ".xlsx")
    files = [path] if path.is_file() else sorted(path.glob("**/*"))
    files = [file for file in files if file.suffix.lower() in suffixes]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts ({', '.join(suffixes)})")
    rows: list[Row] = []
    notes: list[str] = []
    for file in files:
        table = read_table(file, options.encoding, header=False)
        language = options.language or CODES.get(file.parent.name, file.parent.name)
        area = re.sub(r"_(n|en)$", "", file.stem).lower()
        named = f"{language}/{file.name}"
        notes += [f"{named}: {note}" for note in table.notes if "byte order" not in note]
        # The first cell; further ones are empty in the published files.
        texts = [row["1"] if (row["1"] or "").strip() else "" for row in table.rows]
        blank = [line for text, line in zip(texts, table.lines, strict=True) if not text]
        if blank:
            listed = ", ".join(map(str, blank))
            notes.append(f"{named}: rows without a prompt, left out: {len(blank)} (line {listed}).")
        rows += [
            {
                "id": f"{kind}-{area}-{number:03d}-{language}",
                "prompt": text,
                "category": options.category or "harmful",
                "area": area,
                "item": f"{area}-{number:03d}",
                "language": language,
            }
            for number, text in enumerate(texts, 1)
            if text
        ]
    if not rows:
        raise SuiteError(f"{path}: no row has a prompt")
    return Contents(rows, XSAFETY, files, notes)
