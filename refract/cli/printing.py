"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from refract.core.showing import printable, say
from refract.core.types import Row

if TYPE_CHECKING:
    from refract.rates.rate import Rate


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table for people: Rich on a terminal, uncut when piped."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in header:
        table.add_column(Text(printable(name)))
    for row in rows:
        table.add_row(*(Text(printable(value)) for value in row))
    console = Console()
    # A pipe has no width: nothing is cut or wrapped there.
    Console(width=None if console.is_terminal else 1000).print(table)


def print_results(rates: Sequence[Rate], confidence: float) -> None:
    """The rates of a run, and the shares of outcomes by category."""
    from refract.core.vocabulary import SAMPLES_FIELD
    from refract.rates.clean_prompts import SHARES
    from refract.rates.counting import WITHOUT_CUT_OFF
    from refract.report.wording import MISSING, kinds_text, percent, three

    shown = {"": "", WITHOUT_CUT_OFF.field: ", without cut-off answers", SAMPLES_FIELD: ", k = {}"}
    rows = []
    shares: dict[tuple[str, str], dict[str, str]] = {}
    for rate in rates:
        counts, group = rate.counts, rate.group
        share = MISSING if rate.value is None else three(rate.value)
        if group.field == "category":
            shares.setdefault((rate.suite, group.value), {})[rate.measure] = share
        if group.field in shown and rate.measure != "refusal_difference_to_pair":
            measure = rate.measure + shown[group.field].format(group.value)
            of = str(counts.n) if counts.successes is None else f"{counts.successes}/{counts.n}"
            if counts.clusters and counts.clusters < counts.n:
                of += f" in {counts.clusters} cluster{'s' if counts.clusters > 1 else ''}"
            ends = " to ".join(map(three, rate.interval or ())) or MISSING
            cells = [rate.suite, measure, share, ends, of, kinds_text(counts.excluded)]
            rows.append([*cells, str(counts.cut_off or 0)])
    interval = f"{percent(confidence)} interval"
    header = ["suite", "measure", "rate", interval, "counts", "not judged", "cut off"]
    # The last column where there is something in it.
    columns = len(header) - all(row[-1] == "0" for row in rows)
    print_table(header[:columns], [row[:columns] for row in rows])
    print_table(
        ["suite", "category", "compliance", "full refusal", "partial refusal"],
        [[*key, *(measured[measure] for measure, _ in SHARES)] for key, measured in shares.items()],
    )


def print_protocol(protocol: Row) -> None:
    """A run's deviations from its protocol, and what is not known of it."""
    say(f"protocol {protocol['name']}: {protocol['of']}")
    for label, part in protocol["parts"].items():
        say(
            f"  {label}: judged by {part['judge']}; deviations: {len(part['deviations']) or 'none'}"
        )
        for phrase in part["deviations"]:
            say(f"    deviation: {phrase}")
        for phrase in part["unknown"]:
            say(f"    unknown: {phrase}")
    for limit in protocol["limits"]:
        say(f"  limit: {limit}")
