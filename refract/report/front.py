"""``metrics/report.md``: what is asked first of the results, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refract.report.comparisons import (
    HEADER,
    Compared,
    beyond_chance,
    comparison_lines,
    live_first,
    near_pairs,
    tested,
)
from refract.report.corrected import judges_summary
from refract.report.gaps import Near, gap_above, nearest
from refract.report.inputs import Inputs
from refract.report.markdown import MISSING, cell, markdown_table, percent, shown_rate
from refract.report.protocols import HEADER as PROTOCOL_HEADER
from refract.report.protocols import protocol_rows
from refract.report.sections import (
    ATTACKS,
    SHOWN,
    cut_off_notes,
    error_notes,
    shown_difference,
)
from refract.report.summary import (
    MAIN_HEADER,
    limit_decision,
    main_rows,
    model_notes,
    summaries,
)
from refract.results.tables import Table

# Lines of a list of differences by field; the rest is counted, and stands in a linked file.
SHOWN_FIELDS = 8
# Lines of the page: the list of thresholds that are not met is cut to it, to ``SHOWN`` at least.
MOST_LINES = 150
# Columns of a table with a column for each model.
ACROSS = 8
ATTACK_ENDS = ("_fail_rate", "_loophole_rate")


def report_page(found: Inputs, pages: Mapping[str, str]) -> str:
    """The whole page; ``pages`` are the titles of those behind it, by name."""
    level = percent(found.confidence)
    near = nearest(found.tables, found.provenance, found.entries)
    protocols = protocol_rows(found.tables, found.provenance)
    head, unmet, limits = _thresholds(found.tables)
    parts = [
        "# Refusal report",
        *(
            f"**{title}.** {cell(note)}"
            for title, note in model_notes(found.provenance, found.tables)
        ),
        *error_notes(found.tables),
        *cut_off_notes(found.tables),
        "## Results",
        f"Share of the judged answers that refuse, fully or *partly* (so many of the refusals), with "
        f"its {level} interval over prompts like these and counts. Answers cut off at the token limit "
        "are judged by what was said; *CUT OFF*, in capitals: they are a tenth or more. What was not "
        "judged is in no rate of refusal: *with N not judged* gives the rates if none and if all of "
        "them counted. A threshold is met, or missed, where the whole interval is on that side of it, "
        "and else inconclusive; *met (N)*: all N that the suite has."
        + (" *Judge's gap*: see [the judge](#the-judge)." if near else ""),
        _results(found.tables, near),
        *(
            [
                "[The helpful and borderline prompts that were refused](report/over_refusal.md), by "
                "model."
            ]
            if "over_refusal" in pages
            else []
        ),
        f"![Refusal by category with {level} intervals](figures/refusal.svg)",
        *([head] if head else []),
        *([UNMET] if unmet else []),
        *([limits] if limits else []),
        *(
            ["## Published protocols", markdown_table(PROTOCOL_HEADER, protocols)]
            if protocols
            else []
        ),
        "## What moved",
        "`refract show` and the page, [data/report/report.html](../data/report/report.html) (`refract "
        "page` makes it, git does not hold it), say what moved since the last commit with other "
        "numbers; `refract compare COMMIT` compares with any. This file is the same in every clone and "
        "holds nothing of its history. Which versions, on which machine, generated and judged a model's "
        "answers is in MODEL.json under [metrics/ran](ran): it differs from machine to machine and is "
        "not hashed, so that this file cannot say it.",
        "## The judge",
        *judges_summary(found, near),
        "## Models compared",
        *_compared(found),
        *_by_field(found),
        *_attacks(found.tables),
        "## More",
        "\n".join(
            [
                *(f"- [{cell(title)}](report/{name}.md)" for name, title in pages.items()),
                "- Tables: [every rate](tables), [every outcome](outcomes), "
                "[all comparisons](report/comparisons.csv), [by field](report/fields.csv); "
                "[figures](figures)",
            ]
        ),
    ]
    return _with_unmet("\n\n".join(parts) + "\n", unmet)


# Where the list of unmet thresholds goes, once it is known how many lines the rest has.
UNMET = "\0"


def _with_unmet(page: str, lines: Sequence[str]) -> str:
    """The page with as many of the unmet thresholds as it has room for."""
    room = max(SHOWN, MOST_LINES - page.count("\n") + 1)
    more = len(lines) - room
    # The one that counts the rest is a line too.
    shown = (
        [*lines[: room - 1], f"- and {more + 1} more, in the table above"] if more > 0 else lines
    )
    return page.replace(UNMET, "\n".join(shown))


def _results(tables: Mapping[str, Table], near: Mapping[tuple[str, str], Near]) -> str:
    header, rows = list(MAIN_HEADER), main_rows(tables)
    if near:
        header.insert(-1, "Judge's gap")
        for row in rows:
            known = near.get((row[0], row[1]))
            row.insert(-1, known.gaps if known else MISSING)
    return markdown_table(header, rows)


def _thresholds(tables: Mapping[str, Table]) -> tuple[str, list[str], str]:
    """How many thresholds are not met, a line for each of those, missed ones first, and the limits of
    all suites."""
    limits = [(line, row) for line in summaries(tables) for row in line.limits]
    if not limits:
        return "", [], ""
    by_suite: dict[str, dict[str, None]] = {}
    for line, row in limits:
        limit = f"`{row['measure']}` {_limit(row)}"
        by_suite.setdefault(line.suite, {})[limit] = None
    every = "; ".join(f"{cell(suite)}: {', '.join(held)}" for suite, held in by_suite.items())
    failed = [(line, row) for line, row in limits if limit_decision(row) != "met"]
    failed.sort(key=lambda held: limit_decision(held[1]) != "missed")
    said = [
        f"- {limit_decision(row)}: {cell(line.suite)}, {cell(line.model)}: `{row['measure']}` "
        + (f"{cell(shown_rate(row))}" if row["rate"] else "not measured")
        + f", should be {_limit(row)}"
        for line, row in failed
    ]
    head = f"**{len(failed)} of {len(limits)} thresholds not met:**"
    if not failed:
        head = f"All {len(limits)} thresholds are met."
    return head, said, f"The limits, each for every model: {every}."


WORDS = {">=": "at least", "<=": "at most"}


def _limit(row: Mapping[str, str]) -> str:
    """A threshold in words: ``at least 0.8``."""
    kind, _, value = row["threshold"].partition(" ")
    return f"{WORDS.get(kind, cell(kind))} {cell(value)}"


def _compared(found: Inputs) -> list[str]:
    """The differences between models that are more than chance."""
    models = list(found.tables)
    if len(models) < 2:
        return ["One model alone has nothing to be compared with."]
    near = set(near_pairs(models, found.reference))
    compared = [held for held in found.compared if held[:2] in near]
    telling = live_first(beyond_chance(compared, "p_holm", found.confidence), found.provenance)
    below = [gap_above(found.provenance, found.entries, held) for held in telling]
    lines = [
        [*line[:-1], f"{line[-1]}{' ‡' if gap is not None else ''}"]
        for line, gap in zip(comparison_lines(telling, "p_holm"), below, strict=True)
    ]
    said = (
        f"{cell(found.reference)} with every other model, and neighbours of the grid, prompt by prompt: "
        f"{len(telling)} of {tested(compared, 'p_holm')} differences are more than chance (McNemar; "
        f"corrected by Holm for all {tested(found.compared, 'p_holm')} tests of "
        "[comparisons.csv](report/comparisons.csv))"
    )
    if len(telling) > SHOWN:
        said += f"; {SHOWN} of them, [all](report/comparisons.md)"
    said += (
        ". Differences between two models that answered for themselves come first, then those with "
        "recorded answers or a synthetic model, which are no live models; within each, those with the "
        "smallest *p*, and of equal ones the largest difference."
    )
    if any(gap is not None for gap in below[:SHOWN]):
        said += " ‡: smaller than the judge's gap can be; labels of both models decide."
    return [said, *([markdown_table(HEADER, lines[:SHOWN])] if lines else [])]


def _by_field(found: Inputs) -> list[str]:
    """The differences between models on the prompts of one value of a field."""
    count = tested(found.by_field, "p_fdr")
    if not count:
        return []
    telling = live_first(beyond_chance(found.by_field, "p_fdr", found.confidence), found.provenance)
    sizes = [row["n"] for *_, row in found.by_field if row["n"]]
    said = (
        f"{len(telling)} of {count} differences on the prompts of one value, {min(sizes)} to "
        f"{max(sizes)} of them, are more than chance (McNemar, corrected by Benjamini and Hochberg)"
    )
    if len(telling) > SHOWN_FIELDS:
        said += f"; {SHOWN_FIELDS} of them, live models first, then by *p*"
    said += ". [Every rate by field, and all tests](report/fields.md)."
    table = _lines(telling[:SHOWN_FIELDS])
    return ["## By field", said, *([table] if table else [])]


def _lines(compared: Sequence[Compared]) -> str:
    lines = comparison_lines(compared, "p_fdr")
    return markdown_table(HEADER, lines) if lines else ""


def _attacks(tables: Mapping[str, Table]) -> list[str]:
    """Attacks, pairs and perturbations of whole suites: a line for each measure, a column a model."""
    shown: dict[tuple[str, str], dict[str, str]] = {}
    for model, table in tables.items():
        for row in table:
            measure = row["measure"]
            if row["field"]:
                continue
            if measure == "refusal_difference_to_pair":
                held = shown_difference(row)
            elif measure in ATTACKS or measure.endswith(ATTACK_ENDS):
                held = shown_rate(row)
            else:
                continue
            shown.setdefault((row["suite"], measure), {})[model] = held
    if not shown:
        return []
    parts = ["## Attacks and perturbations"]
    models = list(tables)
    for start in range(0, len(models), ACROSS):
        some = models[start : start + ACROSS]
        rows = [
            [suite, measure, *(held.get(model, MISSING) for model in some)]
            for (suite, measure), held in shown.items()
        ]
        parts.append(markdown_table(["Suite", "Measure", *some], rows))
    parts.append(
        "*fail*: the answer changed under the perturbation. Unlike in a rate of refusal, an answer "
        "that became empty is counted, as changed, and one that became degenerate is, by what it says; "
        "not counted are errors, withheld answers, prompts whose clean answer was not judged, and "
        "characters that did not reach the model. *loophole*: a refused prompt was answered; *attack "
        "success*: refused plain, answered under the attack; *difference to pair*: refusal minus that "
        "of the paired prompt. By group: [perturbations and "
        "injections](report/robustness.md), [pairs](report/pairs.md)."
    )
    return parts
