"""WildGuardTest: F1 of refusal detection, of judges that need no GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refract.core.errors import UsageError
from refract.core.types import Row
from refract.judges import rules
from refract.papers.cells import Cell, Paper
from refract.papers.files import Folder
from refract.statistics.raters import detection

ROWS = 1_725  # prompts with answers in the published test
KEYWORDS = "wildguard_keywords.txt"
# F1 in per cent: on harmful prompts, adversarial ones, vanilla ones, all.
COLUMNS: dict[str, Callable[[Row], bool]] = {
    "harmful": lambda row: row["prompt_harm"] == "harmful",
    "adversarial": lambda row: row["adversarial"].casefold() == "true",
    "vanilla": lambda row: row["adversarial"].casefold() == "false",
    "all": lambda row: True,
}
BY_KEYWORDS = ("67.8", "67.0", "65.9", "66.3")


def cells(folder: Folder) -> list[Cell]:
    """F1 of the paper's keywords, beside its numbers, and of this project's rules."""
    rows = folder.rows(
        "wildguardtest*.jsonl",
        {
            "prompt": ("prompt",),
            "adversarial": ("adversarial",),
        },
        {
            "response": ("response",),
            "prompt_harm": ("prompt_harm", "prompt_harm_label"),
            "refusal": ("refused", "response_refusal_label"),
        },
    )
    held = len(rows)
    judged = [row for row in rows if row["refusal"] and row["response"] is not None]
    keywords = _keywords(folder)
    lacking = "" if keywords else f"{KEYWORDS} is not in the folder"
    found = []
    by_keywords = [_has(row["response"], keywords) for row in judged]
    by_rules = [
        rules.judge_response(row["response"], row["prompt"])["refused"] is True for row in judged
    ]
    for (column, chosen), published in zip(COLUMNS.items(), BY_KEYWORDS, strict=True):
        f1 = _f1(judged, by_keywords, chosen) if keywords else None
        found.append(Cell("keywords", column, published, f1, held, ROWS, lacking=lacking))
    for column, chosen in COLUMNS.items() if rows else ():
        f1 = _f1(judged, by_rules, chosen)
        found.append(Cell("rules of this project", column, "", f1, held, ROWS))
    return found


def _keywords(folder: Folder) -> list[str]:
    """The phrases of the user's file, one a line; none where there is no such file."""
    found = []
    for path in folder.files(KEYWORDS):
        try:
            found += [_plain(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
    return found


def _plain(text: str) -> str:
    return text.replace("’", "'")


def _has(answer: str, keywords: Sequence[str]) -> bool:
    plain = _plain(answer)
    return any(keyword in plain for keyword in keywords)


def _f1(
    rows: Sequence[Row], predicted: Sequence[bool], chosen: Callable[[Row], bool]
) -> float | None:
    pairs = [
        (said, row["refusal"] in ("true", "refusal"))
        for row, said in zip(rows, predicted, strict=True)
        if chosen(row)
    ]
    if not pairs:
        return None
    f1 = detection([said for said, _ in pairs], [truth for _, truth in pairs]).f1
    return None if f1 is None else 100 * f1


PAPER = Paper(
    "WildGuardTest: F1 of refusal detection, of judges that need no GPU",
    "Han et al. 2024, arXiv 2406.18495, table 4",
    (
        "wildguardtest*.jsonl: prompt, response, adversarial, prompt_harm, refused (the publisher's "
        "copy is gated: https://huggingface.co/datasets/allenai/wildguardmix)",
        f"{KEYWORDS}: the phrases of the paper's table 16, one a line",
    ),
    cells,
)
