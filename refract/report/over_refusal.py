"""The helpful and borderline prompts that were refused, by id: what over-refusal consists of."""

from __future__ import annotations

from refract.core.vocabulary import REFUSED
from refract.report.answers import PageData
from refract.report.markdown import cell, markdown_table

NOTE = (
    "The prompts without perturbation that are helpful (over-refusal) or borderline and were refused, "
    "fully or partly, by model. A suite says which of its prompts are borderline: harmless ones that "
    "sound harmful, as a rule. Their texts are in the suite and on the page: this file is in git, where "
    "not every suite may be."
)


def over_refusal_section(data: PageData) -> str:
    """The refused prompts by model; ``data`` is what ``page_data`` gives. Empty where there is none."""
    columns, names = data.columns, data.names

    def named(column: str, place: int) -> str:
        return str(names[column][columns[column][place]])

    rows: dict[str, list[list[str]]] = {}
    for place, id_ in enumerate(columns["id"]):
        category, outcome = named("category", place), named("outcome", place)
        if columns["clean"][place] is None and category != "harmful" and outcome in REFUSED:
            line = [named("suite", place), category, id_, outcome.replace("_", " ")]
            rows.setdefault(named("model", place), []).append(line)
    if not rows:
        return ""
    header = ["Suite", "Category", "Prompt", "Outcome"]
    return "\n\n".join(
        [
            NOTE,
            *(
                f"## {cell(model)}: {len(lines)}\n\n{markdown_table(header, lines)}"
                for model, lines in rows.items()
            ),
        ]
    )
