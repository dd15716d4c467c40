"""XSTest: compliance and refusals of five models, by people, string match and GPT-4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.types import Row
from refract.papers.cells import Cell, Paper, percent
from refract.papers.files import Folder

LABELS = {
    "1_full_compliance": "compliance",
    "2_full_refusal": "full refusal",
    "3_partial_refusal": "partial refusal",
}
MODELS = {
    "llama2orig": "Llama 2, original prompt",
    "llama2new": "Llama 2, no prompt",
    "mistralinstruct": "Mistral, no prompt",
    "mistralguard": "Mistral, guard prompt",
    "gpt4": "GPT-4",
}
JUDGES = {"people": "people", "strings": "string match", "gpt4": "GPT-4 as judge"}
SAFE, UNSAFE = 250, 200  # prompts

# Percentages in the order of LABELS, of safe and of unsafe prompts; a judge that never found a partial
# refusal has no such column.
BY_JUDGE = {
    "llama2orig": {
        "people": (("40.4", "38.0", "21.6"), ("0.0", "99.5", "0.5")),
        "strings": (("51.6", "48.4"), ("2.0", "98.0")),
        "gpt4": (("64.0", "30.4", "5.6"), ("15.0", "85.0", "0.0")),
    },
    "llama2new": {
        "people": (("70.4", "14.0", "15.6"), ("0.0", "97.5", "2.5")),
        "strings": (("73.2", "26.8"), ("4.5", "95.5")),
        "gpt4": (("84.0", "12.4", "3.6"), ("27.0", "72.5", "0.5")),
    },
    "mistralinstruct": {
        "people": (("98.4", "0.8", "0.8"), ("64.0", "23.5", "12.5")),
        "strings": (("98.4", "1.6"), ("92.5", "7.5")),
        "gpt4": (("100.0", "0.0", "0.0"), ("67.0", "26.5", "1.0")),
    },
    "mistralguard": {
        "people": (("81.2", "9.6", "9.2"), ("3.5", "87.5", "9.0")),
        "strings": (("84.8", "15.2"), ("33.0", "67.0")),
        "gpt4": (("90.4", "9.2", "0.4"), ("31.5", "67.5", "1.0")),
    },
    "gpt4": {
        "people": (("91.6", "6.4", "2.0"), ("0.5", "97.5", "2.0")),
        "strings": (("86.8", "13.2"), ("4.0", "96.0")),
        "gpt4": (("93.6", "6.4"), ("12.0", "88.0")),
    },
}
# Percentages by people, in the order of LABELS, of the 25 prompts of each type.
BY_TYPE = {
    "llama2orig": {
        "homonyms": "48 28 24",
        "contrast_homonyms": "0 100 0",
        "figurative_language": "20 12 68",
        "contrast_figurative_language": "0 100 0",
        "safe_targets": "36 40 24",
        "contrast_safe_targets": "0 100 0",
        "safe_contexts": "0 96 4",
        "contrast_safe_contexts": "0 100 0",
        "definitions": "44 40 16",
        "contrast_definitions": "0 100 0",
        "nons_group_real_discr": "24 60 16",
        "real_group_nons_discr": "60 16 24",
        "contrast_discr": "0 100 0",
        "historical_events": "64 32 4",
        "contrast_historical_events": "0 100 0",
        "privacy_public": "88 12 0",
        "privacy_fictional": "20 44 36",
        "contrast_privacy": "0 96 4",
    },
    "gpt4": {
        "homonyms": "100 0 0",
        "contrast_homonyms": "0 96 4",
        "figurative_language": "100 0 0",
        "contrast_figurative_language": "0 100 0",
        "safe_targets": "100 0 0",
        "contrast_safe_targets": "0 100 0",
        "safe_contexts": "96 0 4",
        "contrast_safe_contexts": "0 100 0",
        "definitions": "96 4 0",
        "contrast_definitions": "0 100 0",
        "nons_group_real_discr": "92 0 8",
        "real_group_nons_discr": "100 0 0",
        "contrast_discr": "4 92 4",
        "historical_events": "100 0 0",
        "contrast_historical_events": "0 100 0",
        "privacy_public": "88 8 4",
        "privacy_fictional": "44 52 4",
        "contrast_privacy": "0 92 8",
    },
}
# Agreement of the two annotators in per cent, and Fleiss' kappa.
AGREEMENT = {
    "llama2orig": ("96.4", "0.93"),
    "llama2new": ("95.8", "0.93"),
    "mistralinstruct": ("97.6", "0.92"),
    "mistralguard": ("93.8", "0.89"),
    "gpt4": ("98.4", "0.97"),
}


def cells(folder: Folder) -> list[Cell]:
    """The published numbers of all models, by judge, by type of prompt, and of annotators."""
    found = []
    for model, name in MODELS.items():
        rows = _rows(folder, model)
        safe = [row for row in rows if not row["type"].startswith("contrast")]
        unsafe = [row for row in rows if row["type"].startswith("contrast")]
        for judge, published in BY_JUDGE[model].items():
            for prompts, held, needed, numbers in (
                ("safe", safe, SAFE, published[0]),
                ("unsafe", unsafe, UNSAFE, published[1]),
            ):
                row = f"{name}, {prompts}, {JUDGES[judge]}"
                found += _shares(row, [one[judge] for one in held], numbers, needed)
        for kind, listed in BY_TYPE.get(model, {}).items():
            labels = [row["people"] for row in rows if row["type"] == kind]
            found += _shares(f"{name}, {kind}, people", labels, listed.split(), 25)
        found += _agreement(name, rows, *AGREEMENT[model])
    return found


def _rows(folder: Folder, model: str) -> list[Row]:
    """The prompts that a model answered, each with its type, labels and the two annotators'."""
    rows: dict[str, Row] = {}
    stem = f"xstest_v2_completions_{model}"
    for row in folder.rows(
        f"{stem}.csv",
        {"id": ("id",), "type": ("type",), "people": ("final_label",)},
        {"first": ("annotation_1",), "second": ("annotation_2",)},
    ):
        rows[row["id"]] = {"strings": None, "gpt4": None, **row}
    for judge, suffix, column in (
        ("strings", "streval", "strmatch_label"),
        ("gpt4", "gpteval", "gpt4_label"),
    ):
        for row in folder.rows(f"{stem}_{suffix}.csv", {"id": ("id",), "label": (column,)}):
            if row["id"] in rows:
                rows[row["id"]][judge] = row["label"]
    for row in _collected(folder, model):
        rows.setdefault(row["id"], row)
        for field, value in row.items():
            if rows[row["id"]][field] is None:
                rows[row["id"]][field] = value
    return list(rows.values())


def _collected(folder: Folder, model: str) -> Iterable[Row]:
    """The same from a collection: rows of several models with all labels in one file."""
    for row in folder.rows(
        "xstest*.jsonl",
        {},
        {
            "model": ("model",),
            "id": ("source_id",),
            "type": ("prompt_type",),
            "people": ("label",),
            "strings": ("judge_strmatch",),
            "gpt4": ("judge_gpt4",),
        },
        {"annotators": ("annotators",)},
    ):
        if row.pop("model") == model and row["id"] and row["type"]:
            annotators = row.pop("annotators")
            first, second = annotators if _two(annotators) else (None, None)
            yield {**row, "first": first, "second": second}


def _two(value: object) -> bool:
    return isinstance(value, list) and list(map(type, value)) == [str, str]


def _shares(
    row: str, labels: Sequence[str | None], published: Sequence[str], needed: int
) -> list[Cell]:
    given = [label for label in labels if label is not None]
    return [
        Cell(row, name, number, percent(given.count(label), len(given)), len(given), needed)
        for (label, name), number in zip(LABELS.items(), published, strict=False)
    ]


def _agreement(name: str, rows: Sequence[Row], agreement: str, kappa: str) -> list[Cell]:
    pairs = [(row["first"], row["second"]) for row in rows if row["first"] and row["second"]]
    same = sum(first == second for first, second in pairs)
    row, needed = f"{name}, two annotators", SAFE + UNSAFE
    return [
        Cell(row, "agreement", agreement, percent(same, len(pairs)), len(pairs), needed),
        Cell(row, "Fleiss' κ", kappa, fleiss_kappa(pairs), len(pairs), needed),
    ]


def fleiss_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Fleiss' κ of two raters; None where it is undefined. Fleiss 1971, Psychological Bulletin 76:378,
    equations 3 to 6, for two ratings of each item."""
    if not pairs:
        return None
    ratings = [label for pair in pairs for label in pair]
    chance = sum((ratings.count(label) / len(ratings)) ** 2 for label in set(ratings))
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    return None if chance == 1 else (agreed - chance) / (1 - chance)


PAPER = Paper(
    "XSTest: compliance and refusals of five models, by people, string match and GPT-4",
    "Röttger et al. 2024, arXiv 2308.01263; the numbers as printed by evaluation/analysis.ipynb of "
    "https://github.com/paul-rottger/exaggerated-safety at commit "
    "475f10bf0a3d6a9dfb174b6de1a38afbfdff98a5",
    (
        "xstest_v2_completions_MODEL.csv, from model_completions/ of that repository",
        "xstest_v2_completions_MODEL_streval.csv and _gpteval.csv, from "
        "evaluation/automated_evaluation_labels/",
        "or xstest*.jsonl: model, source_id, prompt_type, label, annotators, judge_strmatch, judge_gpt4",
    ),
    cells,
)
