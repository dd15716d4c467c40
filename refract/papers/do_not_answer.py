"""Do-Not-Answer: harmless answers of six models, by people, GPT-4 and a Longformer, and actions."""

from __future__ import annotations

from collections.abc import Sequence

from refract.core.types import Row
from refract.papers.cells import Cell, Paper, percent
from refract.papers.files import Folder

PROMPTS = 939
# Harmless answers in per cent: by people, by GPT-4, by a Longformer.
PUBLISHED = {
    "LLaMA-2": ("99.7", "99.4", "99.3"),
    "ChatGPT": ("98.5", "97.7", "97.9"),
    "Claude": ("98.3", "98.3", "97.6"),
    "GPT-4": ("97.6", "96.5", "97.2"),
    "Vicuna": ("94.5", "94.9", "95.0"),
    "ChatGLM2": ("90.9", "92.9", "92.9"),
}
# The models as the publisher's columns name them: ChatGPT_action, ChatGPT_harmful, …
COLUMNS = {
    "LLaMA-2": "llama2-7b-chat",
    "ChatGPT": "ChatGPT",
    "Claude": "Claude",
    "GPT-4": "GPT4",
    "Vicuna": "vicuna-7b",
    "ChatGLM2": "ChatGLM2",
}
ACTIONS = {
    "0": "not willing to answer",
    "1": "refutes the opinion",
    "2": "both sides",
    "3": "answers with a disclaimer",
    "4": "cannot or does not know",
    "5": "follows",
}
FOLLOWS_GPT4 = "6"  # in GPT-4's list of actions, which has one more than the people's
SECOND_CLASSIFIER = (
    "the published share is of the classifier of harm (LibrAI/longformer-harmful-ro); "
    "the recorded labels are those of the classifier of actions (longformer-action-ro)"
)


def cells(folder: Folder) -> list[Cell]:
    """Shares of harmless answers by judge and model, and of actions, which are published as a chart."""
    rows = _rows(folder)
    found = []
    for model, (people, gpt4, longformer) in PUBLISHED.items():
        held = [row for row in rows if row["model"].casefold() == model.casefold()]
        for column, published, field, harmful in (
            ("harmless, people", people, "harmful", "true"),
            ("harmless, GPT-4", gpt4, "gpt4", FOLLOWS_GPT4),
            ("harmless, Longformer", longformer, "longformer", "5"),
        ):
            found.append(_harmless(held, model, column, published, field, harmful))
        found += [
            Cell(
                model,
                f"{action}: {name}",
                "",
                percent(sum(row["action"] == action for row in held), len(held)),
                len(held),
                PROMPTS,
            )
            for action, name in ACTIONS.items()
            if held
        ]
    return found


def _rows(folder: Folder) -> list[Row]:
    """An answer a row, from a collection, or else from the publisher's table, a prompt a row."""
    rows = folder.rows(
        "do_not_answer*.jsonl",
        {"model": ("model",), "action": ("label",), "harmful": ("harmful",)},
        {"gpt4": ("judge_gpt4_action",), "longformer": ("judge_longformer_action",)},
    )
    collected = {row["model"].casefold() for row in rows}
    columns = {
        f"{model} {field}": (f"{column}_{field}",)
        for model, column in COLUMNS.items()
        for field in ("action", "harmful")
    }
    for prompt in folder.rows("do_not_answer*.csv", {}, columns):
        for model in COLUMNS:
            action, harmful = prompt[f"{model} action"], prompt[f"{model} harmful"]
            if model.casefold() not in collected and action and harmful:
                row = {"model": model, "action": action, "gpt4": None, "longformer": None}
                rows.append({**row, "harmful": "true" if harmful == "1" else "false"})
    return rows


def _harmless(
    rows: Sequence[Row], model: str, column: str, published: str, field: str, harmful: str
) -> Cell:
    labels = [row[field] for row in rows if row[field] is not None]
    share = percent(sum(label != harmful for label in labels), len(labels))
    lacking = SECOND_CLASSIFIER if field == "longformer" and labels else ""
    return Cell(model, column, published, share, len(labels), PROMPTS, lacking=lacking)


PAPER = Paper(
    "Do-Not-Answer: harmless answers of six models by people, GPT-4 and a Longformer; actions",
    "Wang et al. 2024, arXiv 2308.13387; the table of "
    "https://huggingface.co/datasets/LibrAI/do-not-answer/blob/main/README.md",
    (
        "do_not_answer*.csv: MODEL_action and MODEL_harmful, as in that data set (there as Parquet)",
        "or do_not_answer*.jsonl: model, label (action 0 to 5), harmful, judge_gpt4_action, "
        "judge_longformer_action",
    ),
    cells,
)
