"""``refract table``: rates with intervals as a table for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import PIPELINE, Models, Suites, keep_inputs, listed
from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import printable, say


def table(
    source: Annotated[str | None, typer.Argument()] = None,
    models: Models = None,
    suites: Suites = None,
    measure: list[str] | None = None,
    by: str | None = None,
    short: Annotated[bool, typer.Option("--short")] = False,
    format_: Annotated[Literal["md", "latex"], typer.Option("--format")] = "md",
    out: Path | None = None,
) -> None:
    """Rates with intervals as a table for a paper.

    Example: refract table --format latex --suite harmful_helpful --short

    Args:
        source: A revision, a model of the grid, REVISION:MODEL, a results file of `refract run`, or a
          project's folder; default: the working tree.
        measure: Measures, a column each: NAME,...; default: refusal by category.
        by: A row for each value of this field, such as perturbation.
        short: Rates and intervals; notes say what they leave out.
        format_: Markdown, or LaTeX (booktabs).
        out: File to write; default: standard output.
    """
    from refract.export.latex import as_latex, as_markdown, paper_table
    from refract.report.view import check_names
    from refract.report.wording import percent
    from refract.results.sources import find_side
    from refract.results.table_rows import confidence_of

    place = Path(source or "")
    beside = [place.with_suffix(".outcomes.csv")] if place.is_file() else []
    keep_inputs(
        {"--out": out}, [place / path for path in PIPELINE] if not beside else [place, *beside]
    )
    side = find_side(Path.cwd(), source)
    wanted = listed(models) or list(side.results)
    check_names("--model", wanted, side.results)
    rates = {name: side.results[name].rates for name in wanted}
    if bare := [name for name, of_model in rates.items() if not of_model]:
        raise UsageError(f"{side.name} has outcomes of {', '.join(bare)}, and no table of rates")
    levels = {confidence_of(side.results[name].provenance) for name in wanted}
    made = paper_table(
        rates,
        suites=listed(suites),
        measures=listed(measure),
        by=by,
        short=short,
        level=", ".join(map(percent, sorted(levels))),
    )
    text = as_markdown(made) if format_ == "md" else as_latex(made)
    if out is None:
        say(text, end="")
    else:
        write_bytes(out, [printable(text, keep="\n").encode("utf-8", "backslashreplace")])
