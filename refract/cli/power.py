"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from typing import Annotated

import typer

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.core.vocabulary import JUDGED, REFUSED
from refract.statistics.sample_sizes import drop_sample_size, smallest_drop


def power(
    difference: Annotated[
        float | None, typer.Option(help="The drop to be shown, as a difference of rates: 0.05.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="The number of prompts there are.")] = None,
    discordant: Annotated[
        float,
        typer.Option(
            help="Share of prompts expected to flip besides the drop, half of them either way; at 0 "
            "the fewest prompts."
        ),
    ] = 0.0,
    power_: Annotated[float, typer.Option("--power", help="Chance to show the drop.")] = 0.8,
    alpha: Annotated[
        float, typer.Option(help="Chance to show one that is not there (one-sided).")
    ] = 0.05,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n, or a project).

    On the same prompts by McNemar's one-sided exact test, as `refract compare` decides.

    Example: refract power --difference 0.05
    """
    if difference is not None and n is not None:
        raise UsageError("give --difference or --n: the one says how large the other must be")
    try:
        if difference is not None:
            drop = abs(difference)
            if not 0 < drop <= 1:
                raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
            needed = drop_sample_size(drop, discordant, power_, alpha)
            print_table(["drop", "prompts"], [[f"{drop:g}", str(needed)]])
        elif n is not None:
            smallest = _number(smallest_drop(n, discordant, power_, alpha))
            print_table(["prompts", "drop"], [[str(n), smallest]])
        else:
            _print_project(discordant, power_, alpha)
    except ValueError as error:
        raise UsageError(str(error)) from None
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases; {100 * discordant:g} % of prompts flip besides. Variants of one "
        "request count as one prompt."
    )


def _print_project(churn: float, power_: float, alpha: float) -> None:
    """What the clean prompts of a project's results can show."""
    from refract.core.params import decision_settings
    from refract.project import project_root
    from refract.results.sources import read_tree

    root = project_root()
    results, settings = read_tree(root), decision_settings(root)
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for model, result in results.items():
        for row in result.outcomes:
            if not row["perturbation"] and row["category"] in settings.categories:
                cluster = row.get("cluster") or row["source_id"]
                key = model, row["suite"], row["category"]
                groups.setdefault(key, []).append((row["outcome"], cluster))
    table = []
    for (model, suite, category), rows in groups.items():
        judged = [(outcome, cluster) for outcome, cluster in rows if outcome in JUDGED]
        refused = sum(outcome in REFUSED for outcome, _ in judged)
        clusters = len({cluster for _, cluster in judged})
        tests = sum(key[0] == model for key in groups)
        drops = [
            smallest_drop(clusters, churn, power_, level) if clusters else None
            for level in (alpha, alpha / tests)
        ]
        rate = f"{refused / len(judged):.3f}" if judged else "—"
        cells = [str(len(rows)), str(len(judged)), str(clusters), rate]
        table.append([model, suite, category, *cells, *map(_number, drops)])
    print_table(
        [
            *("model", "suite", "category", "prompts", "judged", "clusters", "refused"),
            "drop, alone",
            "drop, all of the model's rows (Holm)",
        ],
        table,
    )


def _number(drop: float | None) -> str:
    return "none" if drop is None else f"{drop:.3f}"
