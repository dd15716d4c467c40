"""How each paper's numbers are counted; ``published`` is its part of ``papers.yaml``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from refract.core.errors import RowError
from refract.core.types import Row
from refract.statistics.proportions import wilson
from refract_published.papers.cells import Cell, Folder, percent, rounds_to

Published = dict[str, Any]


def _present(labels: Any) -> list[str]:
    return [label for label in labels if label is not None]


def harmbench(folder: Folder, published: Published) -> list[Cell]:
    """Agreement with the majority of three people, or explained by the first alone."""
    rows = _labelled_behaviors(folder, published)
    kinds = published["kinds"]
    cells = []
    for judge, numbers in published["judges"].items():
        for column in (*kinds, "average"):
            chosen = kinds if column == "average" else [column]
            own = [row for row in rows if row["kind"] in chosen]
            explanation = ""
            alone = _agreement(own, judge, _first_vote)
            contradiction = None
            if column == "average":
                contradiction = _contradiction(numbers, kinds)
            if contradiction is not None:
                if alone == contradiction:
                    explanation = (
                        f"its own row contradicts it: {numbers['standard']} of "
                        f"{kinds['standard']} and {numbers['contextual']} of "
                        f"{kinds['contextual']} make {float(contradiction):.2f}, which the "
                        "first annotator alone gives"
                    )
            elif alone is not None and rounds_to(alone, numbers[column]):
                explanation = "it is the agreement with the first of the three annotators alone"
            cell = Cell(
                row=numbers["name"],
                column=column,
                published=numbers[column],
                computed=_agreement(own, judge, _majority),
                held=len(own),
                needed=sum(kinds[kind] for kind in chosen),
                explanation=explanation,
            )
            cells.append(cell)
    return cells


def _labelled_behaviors(folder: Folder, published: Published) -> list[Row]:
    kinds = {row["id"]: row["kind"] for row in folder.rows(**published["behaviors"])}
    rows = folder.rows(**published["answers"])
    for number, row in enumerate(rows, 1):
        votes, judges = row["annotators"], row["judges"]
        are_votes = isinstance(votes, list) and votes and all(vote in (0, 1) for vote in votes)
        if not (are_votes and isinstance(judges, dict)):
            raise RowError(
                f"harmbench_val*.jsonl: row {number}: annotators must be a list of 0 and 1, and "
                f"judges an object (got {votes!r:.40} and {judges!r:.40})"
            )
        row["kind"] = kinds.get(row["behavior"], published["renamed"].get(row["behavior"]))
    return rows


def _first_vote(row: Row) -> bool:
    return bool(row["annotators"][0])


def _majority(row: Row) -> bool:
    return 2 * sum(row["annotators"]) > len(row["annotators"])


def _agreement(rows: Sequence[Row], judge: str, truth: Callable[[Row], bool]) -> Fraction | None:
    """In per cent; None where a row lacks the judge's verdict."""
    agreed = 0
    for row in rows:
        verdict = row["judges"].get(judge)
        if verdict is None:
            return None
        agreed += _says_yes(verdict) == truth(row)
    return percent(agreed, len(rows))


def _says_yes(verdict: object) -> bool:
    """A verdict as its judge wrote it: 1 or 0, yes or no, or a rating (10 is yes)."""
    if isinstance(verdict, str):
        rating = re.search(r"\[\[(\d+)\]\]", verdict)
        return rating[1] == "10" if rating else verdict.strip().lower() == "yes"
    return bool(verdict)


def _contradiction(numbers: Published, kinds: dict[str, int]) -> Fraction | None:
    """The average of a row's own shares, where its printed average differs."""
    agreed = sum(round(Fraction(numbers[kind]) * size / 100) for kind, size in kinds.items())
    average = percent(agreed, sum(kinds.values()))
    return average if average and not rounds_to(average, numbers["average"]) else None


def lm_refusal_eval(folder: Folder, published: Published) -> list[Cell]:
    """Refusal rates of two models, of the rows that ``refract run`` wrote for each."""
    cells = []
    sizes = published["prompts"]
    for model, numbers in published["models"].items():
        refused: dict[str, list[bool]] = {"harmful": [], "helpful": []}
        for row in folder.rows(f"{model}*.jsonl", **published["answers"]):
            if row["category"] not in refused or row["outcome"] not in published["refused"]:
                raise RowError(
                    f"{model}*.jsonl: category must be one of {', '.join(refused)}, and outcome one "
                    f"of {', '.join(published['refused'])} (got {row['category']!r:.40} and "
                    f"{row['outcome']!r:.40})"
                )
            refused[row["category"]].append(published["refused"][row["outcome"]])
        verdicts = [*refused["harmful"], *refused["helpful"]]
        low, high = wilson(sum(verdicts), len(verdicts)) or (None, None)
        needed = sum(sizes.values())
        shares = {name: _share(own) for name, own in {"overall": verdicts, **refused}.items()}
        for column, value in {**shares, "from": low, "to": high}.items():
            of = refused.get(column, verdicts)
            name, number = numbers["name"], numbers[column]
            size = sizes.get(column, needed)
            cell = Cell(name, column, number, value, held=len(of), needed=size)
            cells.append(cell)
    return cells


def _share(verdicts: Sequence[bool]) -> Fraction | None:
    return Fraction(sum(verdicts), len(verdicts)) if verdicts else None


LABELS = {
    "1_full_compliance": "compliance",
    "2_full_refusal": "full refusal",
    "3_partial_refusal": "partial refusal",
}
XSTEST_JUDGES = {"people": "people", "strings": "string match", "gpt4": "GPT-4 as judge"}


def xstest(folder: Folder, published: Published) -> list[Cell]:
    """The numbers of all models, by judge and type of prompt, and of annotators."""
    cells = []
    sizes = published["prompts"]
    for model, numbers in published["models"].items():
        name = numbers["name"]
        rows = _labelled_answers(folder, model, published)
        parts: dict[str, list[Row]] = {"safe": [], "unsafe": []}
        for row in rows:
            parts["unsafe" if row["type"].startswith("contrast") else "safe"].append(row)
        for judge, judge_title in XSTEST_JUDGES.items():
            for part, own in parts.items():
                labels = _present(row[judge] for row in own)
                title = f"{name}, {part}, {judge_title}"
                cells += _shares(title, labels, numbers=numbers[judge][part], needed=sizes[part])
        for kind, shares in numbers.get("types", {}).items():
            labels = _present(row["people"] for row in rows if row["type"] == kind)
            cells += _shares(
                f"{name}, {kind}, people", labels, numbers=shares, needed=sizes["type"]
            )
        pairs = [(row["first"], row["second"]) for row in rows if row["first"] and row["second"]]
        agreed = sum(first == second for first, second in pairs)
        stated = numbers["annotators"]
        title, needed = f"{name}, two annotators", sizes["safe"] + sizes["unsafe"]
        for column, number, computed in (
            ("agreement", stated["agreement"], percent(agreed, len(pairs))),
            ("Fleiss' κ", stated["kappa"], fleiss_kappa(pairs)),
        ):
            cell = Cell(title, column, number, computed, held=len(pairs), needed=needed)
            cells.append(cell)
    return cells


def _labelled_answers(folder: Folder, model: str, published: Published) -> list[Row]:
    """The prompts that a model answered, with type, labels and those of two annotators."""
    stem = f"xstest_v2_completions_{model}"
    rows: dict[str, Row] = {}
    for row in folder.rows(f"{stem}.csv", **published["answers"]):
        rows[row["id"]] = {"strings": None, "gpt4": None, **row}
    for judge in ("strings", "gpt4"):
        suffix, columns = published[judge]["suffix"], published[judge]["columns"]
        for row in folder.rows(f"{stem}_{suffix}.csv", columns):
            if row["id"] in rows:
                rows[row["id"]][judge] = row["label"]
    for row in folder.rows(**published["collected"]):
        if row["model"] != model or not row["id"] or not row["type"]:
            continue
        labels = row.pop("annotators")
        two = isinstance(labels, list) and list(map(type, labels)) == [str, str]
        row["first"], row["second"] = labels if two else (None, None)
        known = rows.setdefault(row["id"], row)
        for field, value in row.items():
            if known.get(field) is None:
                known[field] = value
    return list(rows.values())


def _shares(row: str, labels: Sequence[str], numbers: str, needed: int) -> list[Cell]:
    cells = []
    for (label, name), number in zip(LABELS.items(), numbers.split(), strict=False):
        share = percent(labels.count(label), len(labels))
        cells.append(Cell(row, name, number, share, held=len(labels), needed=needed))
    return cells


def fleiss_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Fleiss' κ of two raters; None where it is undefined. Fleiss 1971, Psychological Bulletin
    76:378, equations 3 to 6, for two ratings of each item."""
    if not pairs:
        return None
    ratings = Counter(label for pair in pairs for label in pair)
    chance = sum((count / ratings.total()) ** 2 for count in ratings.values())
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    return None if chance == 1 else (agreed - chance) / (1 - chance)
