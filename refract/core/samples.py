"""Several answers to one prompt: the ids of its samples, and prompt rows with one for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.jsonl import RowError
from refract.core.types import PromptRow, ResponseRow


def sample_id(prompt_id: str, sample: int) -> str:
    """The id of a sample: the first has its prompt's own, the others ``PROMPT_ID~2``, ``~3``, …"""
    return prompt_id if sample == 1 else f"{prompt_id}~{sample}"


def sample_prompts(prompts: Iterable[PromptRow], samples: int) -> Iterable[PromptRow]:
    """Prompt rows with one row for each sample, those of a prompt after one another.

    With one sample they are the rows as they are; else each has its number as ``sample``, and ids
    as :func:`sample_id` makes them, so that a further sample changes no row. Raises
    :class:`RowError` for a prompt whose id is that of another prompt's sample.
    """
    if samples == 1:
        return prompts
    prompts = list(prompts)
    taken = {row["prompt_id"] for row in prompts}
    found: list[PromptRow] = []
    for row in prompts:
        for sample in range(1, samples + 1):
            id_ = sample_id(row["prompt_id"], sample)
            if sample > 1 and id_ in taken:
                raise RowError(
                    f"the id {id_!r} is that of a sample of {row['prompt_id']!r}; give the row "
                    "another id"
                )
            found.append({**row, "prompt_id": id_, "sample": sample})
    return found


def answered_prompts(
    prompts: Sequence[PromptRow], responses: Sequence[ResponseRow]
) -> list[PromptRow]:
    """Prompt rows with as many samples as their response rows have."""
    return list(sample_prompts(prompts, max(1, len(responses) // max(1, len(prompts)))))


def prompt_of_sample(row: PromptRow) -> str:
    """The id of the prompt that a row of :func:`sample_prompts` is a sample of."""
    id_ = row["prompt_id"]
    sample = row.get("sample", 1)
    return id_ if sample == 1 else id_.removesuffix(f"~{sample}")


def clean_id(prompt: PromptRow) -> str:
    """The id of the clean prompt that a variant is compared with: of its own sample."""
    return sample_id(prompt["source_id"], prompt.get("sample", 1))
