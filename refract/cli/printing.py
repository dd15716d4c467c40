"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refract.core.showing import printable, say
from refract.core.types import Row


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


def print_results(results: Row) -> None:
    """The rates of a run, and the shares of outcomes by category."""
    from refract.core.vocabulary import SAMPLES_FIELD
    from refract.rates.clean_prompts import SHARES
    from refract.rates.counting import WITHOUT_CUT_OFF

    rows = []
    shares: dict[tuple[str, str], dict[str, str]] = {}
    for row in results["tables"]:
        rate = "—" if row["rate"] is None else f"{row['rate']:.3f}"
        if row["field"] == "category":
            shares.setdefault((row["suite"], row["value"]), {})[row["measure"]] = rate
        finished = row["field"] == WITHOUT_CUT_OFF.field
        sampled = row["field"] == SAMPLES_FIELD
        if (row["field"] and not (finished or sampled)) or row[
            "measure"
        ] == "refusal_difference_to_pair":
            continue
        interval = "—" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        counts = str(row["n"]) if row["successes"] is None else f"{row['successes']}/{row['n']}"
        if 0 < row["clusters"] < row["n"]:
            counts += f" in {row['clusters']} cluster{'s' if row['clusters'] > 1 else ''}"
        measure = row["measure"] + (", without cut-off answers" if finished else "")
        measure += f", k = {row['value']}" if sampled else ""
        cells = [row["suite"], measure, rate, interval, counts, _left_out(row)]
        rows.append([*cells, str(row["cut_off"])])
    level = results["provenance"]["run"].get("confidence", 0.95)
    interval = f"{100 * level:g} % interval"
    header = ["suite", "measure", "rate", interval, "counts", "not judged", "cut off"]
    # The last column where there is something in it.
    columns = len(header) - all(row[-1] == "0" for row in rows)
    print_table(header[:columns], [row[:columns] for row in rows])
    print_table(
        ["suite", "category", "compliance", "full refusal", "partial refusal"],
        [[*key, *(found[measure] for measure, _ in SHARES)] for key, found in shares.items()],
    )


def _left_out(row: Row) -> str:
    from refract.report.wording import kinds_text

    kinds = {key: n for key, n in row.items() if key.startswith("excluded_")}
    return kinds_text({key.removeprefix("excluded_"): n for key, n in kinds.items()})


def print_protocol(held: Row) -> None:
    """What a run by a protocol has otherwise than the protocol, and what nobody states of it."""
    say(f"protocol {held['name']}: {held['of']}")
    for label, part in held["parts"].items():
        say(
            f"  {label}: judged by {part['judge']}; deviations: {len(part['deviations']) or 'none'}"
        )
        for phrase in part["deviations"]:
            say(f"    deviation: {phrase}")
        for phrase in part["unknown"]:
            say(f"    unknown: {phrase}")
    for limit in held["limits"]:
        say(f"  limit: {limit}")
