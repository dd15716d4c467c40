"""``refract did``: two judges as layers of one defense."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refract.cli.kappa import load_pair, report_unjoined, unjoined_numbers
from refract.errors import UsageError
from refract.report.markdown import markdown_table
from refract.rows.jsonl import write_json
from refract.rows.showing import json_text, say
from refract.validation.defense import Defense, Layer, defense, defense_numbers
from refract.validation.verdicts import Verdict

HEADER = ("Layer", "Stopped", "of", "Rate", "95 % interval")


def stops(verdict: Verdict, labels: Sequence[str]) -> bool | None:
    """Whether a layer stops an answer: it refused or, with ``labels``, has one of them.

    None where the judge did not say.
    """
    if not labels:
        return verdict.refused
    return None if verdict.label is None else verdict.label in labels


def defense_in_depth(
    inner: Path,
    outer: Path,
    judges: Sequence[str | None],
    stopping: tuple[Sequence[str], Sequence[str]],
    format_: str,
    out: Path | None,
) -> None:
    """Prints what two layers stop alone and together; ``out`` gets it as JSON."""
    if format_ not in ("md", "json"):
        raise UsageError(f"--format must be md or json (got {format_!r})")
    joined = load_pair(inner, outer, judges)
    report_unjoined(joined)
    for index, labels in enumerate(stopping):
        known = {pair[index].label for pair in joined.pairs} - {None}
        unknown = sorted(set(labels) - known)
        if unknown:
            raise UsageError(
                f"--{('inner', 'outer')[index]}-stops {unknown[0]}: no verdict has that label; "
                f"there are: {', '.join(sorted(known))}"
            )
    decided = [(stops(a, stopping[0]), stops(b, stopping[1])) for a, b in joined.pairs]
    judged = [pair for pair in decided if None not in pair]
    left_out = {
        "inner": sum(a is None and b is not None for a, b in decided),
        "outer": sum(a is not None and b is None for a, b in decided),
        "both": sum(a is None and b is None for a, b in decided),
    }
    found = defense([a for a, _ in judged], [b for _, b in judged])
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
        say(page(found, left_out))


def page(found: Defense, left_out: dict[str, int]) -> str:
    """The defense as Markdown."""
    change = found.difference
    layers = (
        ("inner alone", found.inner),
        ("outer alone", found.outer),
        ("system (either)", found.system),
        ("both", found.both),
    )
    return "\n\n".join(
        [
            markdown_table(HEADER, [_row(name, layer) for name, layer in layers]),
            f"System minus inner alone: {change.difference:+.4f} "
            f"[{change.low:+.4f}, {change.high:+.4f}] (paired Newcombe 95 %, method 10 corrected), "
            f"McNemar p {found.mcnemar_exact:.3g} (exact), {found.mcnemar_midp:.3g} (mid-p); "
            f"{found.pairs.second_only} answers stopped by the outer layer only, "
            f"{found.pairs.first_only} by the inner only.",
            f"Left out as unjudged: {sum(left_out.values())} (by the inner layer "
            f"{left_out['inner']}, by the outer {left_out['outer']}, by both {left_out['both']}).",
        ]
    )


def _row(name: str, layer: Layer) -> list[object]:
    interval = f"{layer.low:.4f} to {layer.high:.4f}"
    return [name, layer.stopped, layer.n, f"{layer.rate:.4f}", interval]
