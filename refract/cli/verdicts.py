"""``refract judge``, ``kappa`` and ``did``: verdicts on recorded answers, and two judges compared."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from refract.agreement.two_judges import Join, defense, join_files, judge_agreement
from refract.api import judge_rows
from refract.cli.options import (
    AsJson,
    NoStore,
    NumbersFile,
    judge_base_url,
    judge_model,
    keep_inputs,
    one_of,
)
from refract.cli.printing import estimate_cell, print_confusion, print_table
from refract.core.errors import UsageError
from refract.core.file_formats import read_log
from refract.core.jsonl import write_json, write_rows
from refract.core.params import DecisionSettings, decision_settings
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.evaluate.judged_rows import category_notes, refused_rates, repeat_notes
from refract.judges import open_judges, reading_warnings, with_calls_judged
from refract.models.answer_rows import named_answers
from refract.project import MODEL_JUDGE, find_judge, find_project
from refract.project.inputs import files_named
from refract.rates.rate import Rate
from refract.report.view import View
from refract.report.wording import clusters_text, percent, short_text
from refract.statistics.raters import more_labels

SHOWN_KEYS = 10  # of verdicts that did not join
LAYERS = {
    "inner": "inner alone",
    "outer": "outer alone",
    "system": "system (either)",
    "both": "both",
    "gain": "gain of the outer (system minus inner)",
}


def judge(
    in_: Annotated[
        Path,
        Option(
            "--in",
            help="Rows with id or prompt_id, prompt and response (JSONL), or a log of Inspect "
            "or lm-evaluation-harness.",
        ),
    ],
    out: Annotated[Path, Option(help="Where the verdict rows go (JSONL).")],
    judge: Annotated[
        str | None,
        Option(
            help="A judge of params.yaml, a kind of judge, or llm (refusal, by --judge-model); "
            "default: refusal."
        ),
    ] = None,
    judge_model: Annotated[list[str] | None, judge_model()] = None,
    judge_base_url: Annotated[str | None, judge_base_url()] = None,
    no_store: NoStore = False,
) -> None:
    """Judge answers that already exist: one verdict row for each row, in order, and the share refused
    with its interval; exit with 1 if none of them has a label, or all are degenerate.

    Example: refract judge --judge refusal --in answers.jsonl --out verdicts.jsonl
    """
    if no_store:
        os.environ["REFRACT_CACHE"] = "off"
    if not in_.is_file():
        raise UsageError(f"--in: no file {in_}")
    model = one_of("--judge-model", judge_model)
    name = judge or ("refusal" if model is None else MODEL_JUDGE)
    definition = find_judge(name, find_project(), model, judge_base_url)
    keep_inputs({"--out": out}, [in_, *files_named(definition)])
    log = read_log(in_)
    rows, notes = named_answers(log.rows, f"--in: {in_}")
    for warning in (*log.notes, *notes, *reading_warnings(rows, {name: definition})):
        say(f"{in_}: {warning}", file=sys.stderr)
    judges = open_judges(with_calls_judged({name: definition}, ()))
    verdicts = judge_rows(rows, name, definition, where=f"{in_}: row", judges=judges)
    write_rows(out, verdicts)
    unjudged = [verdict["error"] for verdict in verdicts if verdict["error"]]
    if unjudged:
        say(
            f"{in_}: {len(unjudged)} of {len(rows)} answers have no verdict, the first: {unjudged[0]}",
            file=sys.stderr,
        )
    counts = Counter(verdict["label"] for verdict in verdicts if verdict["label"] is not None)
    labels = [f"{count} {label}" for label, count in counts.most_common()]
    say(f"{out}: of {len(rows)} answers {', '.join(labels) or 'none has a label'}")
    decisions = decision_settings(find_project().folder)
    rates = refused_rates(rows, verdicts, name, definition, decisions, judges[name])
    for note in (*category_notes(rows), *repeat_notes(rows, verdicts)) if rates else ():
        say(f"{in_}: {note}", file=sys.stderr)
    _print_rates(rates, decisions)
    raise typer.Exit(int({*counts} <= {"degenerate"}))


def _print_rates(rates: Sequence[Rate], settings: DecisionSettings) -> None:
    """Prints shares refused with their intervals, and what these allow for."""
    several = len({rate.model for rate in rates}) > 1
    for rate in rates:
        about = [rate.model or "no model"] if several else []
        about += [rate.group.value] if rate.group else []
        interval = "" if rate.shown else " (no interval)"
        counted = f"{short_text(rate)}{interval} of {rate.counts.n}{clusters_text(rate)}"
        say(", ".join([f"refused [{percent(settings.confidence)}]", *about]) + f": {counted}")
    if any(rate.shown for rate in rates):
        decisions = {"interval": settings.interval, "labels_ask": settings.labels_ask}
        provenance = {"": {"decisions": decisions, "suites": {}}}
        say(View({"": rates}, provenance).interval_note)


def kappa(
    a: Annotated[
        Path,
        typer.Argument(
            help="Verdicts: a JSONL file, or a folder of them; or a person's CSV of `refract label`."
        ),
    ],
    b: Annotated[Path, typer.Argument(help="The same, of another judge or person.")],
    judge_a: Annotated[
        str | None, Option(help="Which judge of A, where rows have several.")
    ] = None,
    judge_b: Annotated[str | None, Option(help="The same, of B.")] = None,
    strict: Annotated[
        bool, Option("--strict", help="Exit with 1 unless every verdict joined.")
    ] = False,
    format_: AsJson = "table",
) -> None:
    """Compare two judges' verdicts, or two people's labels, on the same answers: Cohen's κ.

    Example: refract judge kappa data/verdicts/m/s.jsonl other.jsonl --judge-a rules
    """
    joined = join_files(a, b, (judge_a, judge_b))
    _print_unjoined(joined)
    level = decision_settings(Path.cwd()).confidence
    numbers = judge_agreement(joined.pairs, level)
    if format_ == "json":
        say(json_text({**joined.numbers, "joined": len(joined.pairs), **numbers}))
    else:
        _print_agreement(joined, numbers, f"[{100 * level:g} %]")
    raise typer.Exit(int(strict and bool(joined.only_first or joined.only_second)))


def _print_agreement(joined: Join, numbers: Row, percent: str) -> None:
    undecided = "{a} in A, {b} in B".format(**numbers["undecided"])
    keys = ", ".join(joined.by)
    say(f"{len(joined.pairs)} answers joined by {keys}; refusal undecided: {undecided}")
    rows = []
    for title, field in (("refused or not", "refusal"), ("all labels", "labels")):
        row = numbers[field]
        agree = estimate_cell(row, "agreement", "agreement_")
        chance = estimate_cell(row, "chance_agreement", "chance_agreement_")
        rows.append([title, str(row["n"]), agree, chance, estimate_cell(row, "kappa")])
    print_table(["on", "n", "agree", "by chance", f"κ {percent}"], rows)
    few = more_labels(numbers["refusal"]["n"])
    if few:
        say(f"κ{few}")
    print_confusion("A \\ B", numbers["labels"]["confusion"])
    _print_shared(
        joined.prompts,
        "each taken as an item of its own: where answers to one prompt are alike, the intervals are "
        "too short",
    )


def did(
    inner: Annotated[Path, Option(help="Verdicts of the inner layer: a file or a folder.")],
    outer: Annotated[Path, Option(help="Verdicts of the outer layer, on the same answers.")],
    inner_judge: Annotated[
        str | None, Option(help="Which judge of --inner, where rows have several.")
    ] = None,
    outer_judge: Annotated[str | None, Option(help="The same, of --outer.")] = None,
    format_: AsJson = "table",
    out: NumbersFile = None,
) -> None:
    """Defense in depth: what two layers stop alone and together, on the same answers.

    Example: refract judge did --inner rules.jsonl --outer llm.jsonl
    """
    keep_inputs({"--out": out}, [inner, outer])
    joined = join_files(inner, outer, (inner_judge, outer_judge))
    _print_unjoined(joined)
    level = decision_settings(Path.cwd()).confidence
    stopped_inner = [pair[0].refused for pair in joined.pairs]
    stopped_outer = [pair[1].refused for pair in joined.pairs]
    prompts = joined.prompts
    numbers = {**defense(stopped_inner, stopped_outer, level, prompts), **joined.numbers}
    if out is not None:
        write_json(out, numbers)
    if format_ == "json":
        say(json_text(numbers))
        return
    rows = []
    for layer, title in LAYERS.items():
        row = numbers[layer]
        stopped = f"{row['stopped']} of {numbers['n']}"
        rows.append([title, stopped, estimate_cell(row, "rate")])
    print_table(["layer", "stopped", f"rate [{100 * level:g} %]"], rows)
    unjudged = numbers["unjudged"]
    say(
        f"Left out as unjudged: {sum(unjudged.values())} (by the inner layer "
        f"{unjudged['inner']}, by the outer {unjudged['outer']}, by both {unjudged['both']})"
    )
    alone = ": one cluster leaves no interval" if len({*prompts}) == 1 else ""
    _print_shared(prompts, f"of which each is a cluster{alone}")


def _print_shared(prompts: Sequence[Hashable], how: str) -> None:
    """Prints how answers count of which several are to one of the prompts, given for each answer."""
    answers, distinct = len(prompts), len({*prompts})
    if distinct < answers:
        say(f"{answers} answers to {distinct} prompt{'s' * (distinct > 1)}, {how}")


def _print_unjoined(joined: Join) -> None:
    """Prints on standard error how many verdicts did not join, and which."""
    for name, keys in (("A", joined.only_first), ("B", joined.only_second)):
        if keys:
            shown = ", ".join(" ".join(key) for key in keys[:SHOWN_KEYS])
            if len(keys) > SHOWN_KEYS:
                shown += f" and {len(keys) - SHOWN_KEYS} more"
            say(f"only in {name}: {len(keys)} ({shown})", file=sys.stderr)
