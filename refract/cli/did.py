"""``refract did``: two judges as layers of one defense."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.kappa import say_unjoined
from refract.cli.options import Confidence, NumbersFile
from refract.core.jsonl import write_json
from refract.core.showing import json_text, say
from refract.report.markdown import markdown_table

if TYPE_CHECKING:
    from refract.agreement.two_judges import Defense


def did(
    inner: Annotated[Path, typer.Option(help="Verdicts of the inner layer: a file or a folder.")],
    outer: Annotated[Path, typer.Option(help="Verdicts of the outer layer, on the same answers.")],
    inner_judge: Annotated[
        str | None, typer.Option(help="Which judge of --inner, where rows have several.")
    ] = None,
    outer_judge: Annotated[str | None, typer.Option(help="The same, of --outer.")] = None,
    format_: Annotated[
        Literal["md", "json"], typer.Option("--format", help="How it is printed.")
    ] = "md",
    out: NumbersFile = None,
    confidence: Confidence = None,
) -> None:
    """Defense in depth: what two layers stop alone and together, on the same answers.

    Example: refract did --inner rules.jsonl --outer llm.jsonl
    """
    from refract.agreement.two_judges import defense, join_files

    joined = join_files(inner, outer, (inner_judge, outer_judge))
    say_unjoined(joined)
    level = float(confidence or 0.95)
    layers = defense(
        [a.refused for a, _ in joined.pairs], [b.refused for _, b in joined.pairs], level
    )
    numbers = {**layers.numbers, **joined.numbers}
    if out is not None:
        write_json(out, numbers)
    say(json_text(numbers) if format_ == "json" else page(layers, level))


def page(layers: Defense, confidence: float) -> str:
    """The defense as Markdown."""
    named = (
        ("inner alone", layers.inner),
        ("outer alone", layers.outer),
        ("system (either)", layers.system),
        ("both", layers.both),
        ("gain of the outer (system minus inner)", layers.gain),
    )
    rows = [
        [name, stopped, n, f"{rate:.4f}", f"{low:.4f} to {high:.4f}"]
        for name, (stopped, n, rate, low, high) in named
    ]
    header = ("Layer", "Stopped", "of", "Rate", f"{100 * confidence:g} % interval")
    unjudged = layers.unjudged
    return (
        f"{markdown_table(header, rows)}\n\n"
        "The gain is the share that the outer layer alone stops, with its Wilson interval; "
        "answers to one request count as independent.\n\n"
        f"Left out as unjudged: {sum(unjudged.values())} (by the inner layer "
        f"{unjudged['inner']}, by the outer {unjudged['outer']}, by both {unjudged['both']})."
    )
