"""The report's page on conversations: what was refused in which turn."""

from __future__ import annotations

from refract.core.decimals import MISSING
from refract.core.vocabulary import REFUSED
from refract.rates.key import CATEGORY_MEASURES
from refract.report.markdown import ShownTable, shown_table
from refract.report.sections import Inputs
from refract.report.view import View
from refract.report.wording import not_judged, short_text
from refract_dialogue.rates import FIRST_MEASURES, REFUSED_UNTIL_END, TURN_FIELD

INTRODUCTION = (
    "Conversations whose turns the user's side fixes and the model answers in its own words; the "
    "tables of the report count the last turn of each. *first refused*, *first answered here*: the "
    "share of conversations in which that is so there and in no turn before (*never*: in none), of "
    "those of which all turns were judged."
)


class Conversations:
    """The page, which there is where some conversation was played."""

    title = "Conversations"

    @staticmethod
    def markdown(inputs: Inputs) -> str:
        """The table of turns, and what it shows; empty without any."""
        table = turns_table(inputs.view)
        return f"{INTRODUCTION}\n\n{table.markdown}" if table.rows else ""


def turns_table(view: View) -> ShownTable:
    """The conversations that were played, by turn: what was refused there, and in which share
    that, or an answer, was there first."""
    columns = dict.fromkeys(CATEGORY_MEASURES.values(), "refused")
    for measure in FIRST_MEASURES:
        kind = "refused" if measure.counted == REFUSED else "answered"
        columns[measure] = f"first {kind} here"
    played = {rate.suite for rate in view.every if rate.measure in FIRST_MEASURES}
    turns: dict[tuple[str, str, str], dict[str, dict[str, object]]] = {}  # rows stand together
    for rate in view.every:
        column, category = columns.get(rate.measure), rate.measure.category or ""
        if rate.group.field != TURN_FIELD or rate.suite not in played or column is None:
            continue
        empty = dict.fromkeys(["refused", "first refused here", "first answered here"], MISSING)
        names = {**view.names(rate), "prompts": category, "turn": rate.group.value}
        rows = turns.setdefault((rate.suite, rate.model, category), {})
        counts = dict.fromkeys(["conversations", "answers", "not judged"])
        row = rows.setdefault(rate.group.value, {**names, **empty, **counts})
        row[column] = short_text(rate)
        if column == "first refused here":
            row["conversations"] = rate.counts.n
        if column == "refused":
            # Those of "refused": conversations that were over before this turn have none.
            row["answers"] = rate.counts.n
            row["not judged"] = not_judged(rate)
    notes = []
    for (suite, model), rates in view.overall.items():
        if REFUSED_UNTIL_END.name in rates:
            where = f"{suite}, {model}"
            share = short_text(rates[REFUSED_UNTIL_END.name])
            notes.append(f"{where}: of harmful conversations refused at every turn {share}")
    return shown_table([row for rows in turns.values() for row in rows.values()], notes)
