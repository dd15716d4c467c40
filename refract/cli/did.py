"""``refract did``: two judges as layers of one defense."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.agreement.defense import Defense, Layer, defense, defense_numbers
from refract.agreement.verdicts import Verdict
from refract.cli.kappa import load_pair, report_unjoined, unjoined_numbers
from refract.cli.options import Confidence, listed
from refract.cli.output import or_standard_output
from refract.core.errors import UsageError
from refract.core.jsonl import write_json
from refract.core.showing import json_text, say
from refract.report.markdown import markdown_table


def stops(verdict: Verdict, labels: Sequence[str]) -> bool | None:
    """Whether a layer stops an answer: it refused or, with ``labels``, has one of them.

    None where the judge did not say.
    """
    if not labels:
        return verdict.refused
    return None if verdict.label is None else verdict.label in labels


def did(
    inner: Annotated[Path, typer.Option(help="Verdicts of the inner layer: a file or a folder.")],
    outer: Annotated[Path, typer.Option(help="Verdicts of the outer layer, on the same answers.")],
    inner_judge: Annotated[
        str | None, typer.Option(help="Which judge of --inner, where rows have several.")
    ] = None,
    outer_judge: Annotated[str | None, typer.Option(help="The same, of --outer.")] = None,
    inner_stops: Annotated[
        list[str] | None,
        typer.Option(help="Labels with which it stops an answer: LABEL,...; default: refusals."),
    ] = None,
    outer_stops: Annotated[list[str] | None, typer.Option(help="The same, of --outer.")] = None,
    format_: Annotated[
        Literal["md", "json"], typer.Option("--format", help="How it is printed.")
    ] = "md",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write the numbers here (JSON); - is standard output.",
            callback=or_standard_output,
        ),
    ] = None,
    confidence: Confidence = None,
) -> None:
    """Defense in depth: what two layers stop alone and together, on the same answers.

    Example: refract did --inner rules.jsonl --outer llm.jsonl
    """
    stopping = listed(inner_stops), listed(outer_stops)
    joined = load_pair(inner, outer, (inner_judge, outer_judge))
    report_unjoined(joined)
    for index, labels in enumerate(stopping):
        known = {label for pair in joined.pairs if (label := pair[index].label) is not None}
        unknown = sorted(set(labels) - known)
        if unknown:
            raise UsageError(
                f"--{('inner', 'outer')[index]}-stops {unknown[0]}: no verdict has that label; "
                f"there are: {', '.join(sorted(known))}"
            )
    decided = [(stops(a, stopping[0]), stops(b, stopping[1])) for a, b in joined.pairs]
    judged = [(a, b) for a, b in decided if a is not None and b is not None]
    left_out = {
        "inner": sum(a is None and b is not None for a, b in decided),
        "outer": sum(a is not None and b is None for a, b in decided),
        "both": sum(a is None and b is None for a, b in decided),
    }
    level = float(confidence or 0.95)
    found = defense([a for a, _ in judged], [b for _, b in judged], level)
    if found is None:
        raise UsageError(
            f"none of the {len(decided)} answers was judged by both layers (unjudged by the inner "
            f"alone {left_out['inner']}, by the outer alone {left_out['outer']}, by both "
            f"{left_out['both']})"
        )
    numbers = {**defense_numbers(found), "unjudged": left_out, **unjoined_numbers(joined)}
    if out is not None:
        write_json(out, numbers)
    if format_ == "json":
        say(json_text(numbers))
    else:
        say(page(found, left_out, level))


def page(found: Defense, left_out: dict[str, int], confidence: float = 0.95) -> str:
    """The defense as Markdown."""
    layers = (
        ("inner alone", found.inner),
        ("outer alone", found.outer),
        ("system (either)", found.system),
        ("both", found.both),
        ("gain of the outer (system minus inner)", found.gain),
    )
    header = ("Layer", "Stopped", "of", "Rate", f"{100 * confidence:g} % interval")
    return "\n\n".join(
        [
            markdown_table(header, [_row(name, layer) for name, layer in layers]),
            "The gain is the share that the outer layer alone stops, with its Wilson interval; "
            "answers to one request count as independent.",
            f"Left out as unjudged: {sum(left_out.values())} (by the inner layer "
            f"{left_out['inner']}, by the outer {left_out['outer']}, by both {left_out['both']}).",
        ]
    )


def _row(name: str, layer: Layer) -> list[object]:
    interval = f"{layer.low:.4f} to {layer.high:.4f}"
    return [name, layer.stopped, layer.n, f"{layer.rate:.4f}", interval]
