"""``refract power``: how many prompts a difference needs, and what a number of prompts can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from refract.cli.options import listed
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.core.vocabulary import JUDGED, REFUSED
from refract.statistics.sample_sizes import (
    detectable_independent,
    drop_sample_size,
    sample_size_independent,
    smallest_drop,
)


def power(
    difference: Annotated[
        float | None, typer.Option(help="The drop to be shown, as a difference of rates: 0.05.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="The number of prompts there are.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="The rate before, for two sets of prompts that are not the same."),
    ] = None,
    discordant: Annotated[
        float | None,
        typer.Option(
            help="Share of prompts expected to flip besides the drop, half of them either way. "
            "Default: 0, the fewest prompts."
        ),
    ] = None,
    power_: Annotated[float, typer.Option("--power", help="Chance to show the drop.")] = 0.8,
    alpha: Annotated[
        float, typer.Option(help="Chance to show one that is not there (one-sided).")
    ] = 0.05,
    suite: Annotated[
        list[str] | None, typer.Option(help="Suites of this project, instead of --n.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Models of this project.")] = None,
) -> None:
    """How many prompts a drop needs (--difference), or what drop prompts can show (--n, or a project).

    On the same prompts by McNemar's exact test, on different ones by the z-test; both one-sided, as
    `refract compare` decides.

    Example: refract power --difference 0.05 --rate 0.9
    """
    if difference is not None and n is not None:
        raise UsageError("give --difference or --n: the one says how large the other must be")
    churn = 0.0 if discordant is None else discordant
    try:
        if difference is not None:
            rows = _needed(difference, rate, churn, power_, alpha)
            print_table(["design", "drop", "prompts"], rows)
        elif n is not None:
            print_table(["design", "prompts", "drop"], _shown(n, rate, churn, power_, alpha))
        else:
            _project(listed(suite), listed(model), churn, power_, alpha)
    except ValueError as error:
        raise UsageError(str(error)) from None
    say(
        f"A drop that is there is shown in {100 * power_:g} %, one that is not in at most "
        f"{100 * alpha:g} % of cases; {100 * churn:g} % of prompts flip besides. Variants of one "
        "request count as one prompt."
    )


def _needed(
    difference: float, rate: float | None, churn: float, power_: float, alpha: float
) -> list[list[str]]:
    drop = abs(difference)
    if not 0 < drop <= 1:
        raise UsageError(f"--difference must be above 0 and at most 1 (got {difference})")
    needed = drop_sample_size(drop, churn, power_, alpha)
    rows = [["same prompts", f"{drop:g}", str(needed)]]
    if rate is not None and not drop <= rate <= 1:
        raise UsageError(f"--rate must be at most 1 and no less than the difference (got {rate})")
    if rate is not None:
        needed = sample_size_independent(rate, rate - drop, power_, 2 * alpha)
        rows.append(["other prompts", f"{rate:g} → {rate - drop:g}", f"{needed} each"])
    return rows


def _shown(
    n: int, rate: float | None, churn: float, power_: float, alpha: float
) -> list[list[str]]:
    rows = [["same prompts", str(n), _number(smallest_drop(n, churn, power_, alpha))]]
    if rate is not None:
        lower = detectable_independent(rate, n, n, power_, 2 * alpha).lower
        shown = "—" if lower is None else f"{rate - lower:.3f} ({rate:g} → {lower:.3f})"
        rows.append(["other prompts", f"{n} each", shown])
    return rows


def _project(
    suites: Sequence[str], models: Sequence[str], churn: float, power_: float, alpha: float
) -> None:
    """What the clean prompts of a project's results can show."""
    from refract.core.params import decision_settings
    from refract.project import project_root
    from refract.results.sources import read_tree

    root = project_root()
    results, settings = read_tree(root), decision_settings(root)
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, result in results.items():
        for row in result.outcomes:
            if not row["perturbation"] and row["category"] in settings.categories:
                cluster = row.get("cluster") or row["source_id"]
                key = name, row["suite"], row["category"]
                groups.setdefault(key, []).append((row["outcome"], cluster))
    for kind, wanted, place in (("model", models, 0), ("suite", suites, 1)):
        known = list(dict.fromkeys(key[place] for key in groups))
        strange = sorted(set(wanted) - set(known))
        if strange:
            raise UsageError(f"no {kind} {', '.join(strange)} here; there are {', '.join(known)}")
        groups = {key: rows for key, rows in groups.items() if not wanted or key[place] in wanted}
    tests = {name: sum(key[0] == name for key in groups) for name, *_ in groups}
    table = []
    for (name, label, category), rows in groups.items():
        judged = [(outcome, cluster) for outcome, cluster in rows if outcome in JUDGED]
        refused = sum(outcome in REFUSED for outcome, _ in judged)
        clusters = len({cluster for _, cluster in judged})
        drops = [
            smallest_drop(clusters, churn, power_, level) if clusters else None
            for level in (alpha, alpha / tests[name])
        ]
        rate = f"{refused / len(judged):.3f}" if judged else "—"
        cells = [str(len(rows)), str(len(judged)), str(clusters), rate]
        table.append([name, label, category, *cells, *map(_number, drops)])
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
