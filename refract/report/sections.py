"""The sections of the report, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refract.core.vocabulary import SAMPLES_FIELD
from refract.report.markdown import (
    LOUD,
    MISSING,
    cell,
    cut_off_share,
    left_out,
    markdown_table,
    rate_of,
    shown_interval,
    shown_p,
    shown_rate,
    three,
)
from refract.report.summary import CATEGORY_OF, HEADLINES
from refract.results.tables import Table
from refract.statistics.hypotheses import holm

# Lines of a list on the report's first page; the rest is counted, and stands in a linked file.
SHOWN = 10
ATTACKS = ("attack_success_rate", "injection_success_rate", "task_done_rate")


def cut_off_notes(tables: Mapping[str, Table]) -> list[str]:
    """Which results rest on answers that were cut off, and which leave them out."""
    rates = [
        (model, row)
        for model, table in tables.items()
        for row in table
        if row["measure"] == "refusal_rate" and not row["field"]
    ]
    loud = [
        line
        for model, table in tables.items()
        for suite in dict.fromkeys(row["suite"] for row in table)
        if (line := _cut_off_line(suite, model, [row for row in table if row["suite"] == suite]))
    ]
    without = [
        f"{row['suite']}, {model} ({row['excluded_cut_off']})"
        for model, row in rates
        if row["excluded_cut_off"] not in ("", "0")
    ]
    notes = []
    if loud:
        notes.append(
            "**Cut off at the token limit**: a tenth of the answers or more, which stands as *CUT OFF* "
            "in capitals beside a rate. They are judged by what was said before. Without them a refusal "
            "rate is too high, since refusals are short. A higher `max_tokens` shows the rest of them."
        )
        more = len(loud) - SHOWN
        rest = [f"- and {more} more: [all of them](report/cut_off.md)"] if more > 0 else []
        notes.append("\n".join([*loud[:SHOWN], *rest]))
    if without:
        notes.append(
            "**Cut-off answers left out**: "
            f"{cell('; '.join(without))}. Refusals are short and help is long, so that without them "
            "refusal reads too high."
        )
    return notes


def _cut_off_line(suite: str, model: str, table: Table) -> str:
    """One line on a suite of which a rate of refusal rests on a tenth of cut-off answers or more:
    each such rate, and what it is without them. Empty where there is none."""
    rates = {row["measure"]: row for row in table if not row["field"]}
    without = {row["measure"]: row for row in table if row["field"] == "cut_off"}
    parts = []
    for measure, label in HEADLINES:
        row, left = rates.get(measure), without.get(measure)
        if row is not None and row["rate"] and left is not None and cut_off_share(row) >= LOUD:
            known = (
                f"{rate_of(left):.3f} {shown_interval(left)}".rstrip() if left["rate"] else MISSING
            )
            name = label.partition(" (")[0].lower()
            counts = f"{left['successes']}/{left['n']}"
            parts.append(f"{name} {rate_of(row):.3f}, without them {known} {counts}")
    over_all = rates.get("refusal_rate")
    if over_all is None or not (parts or cut_off_share(over_all) >= LOUD):
        return ""
    share = f"{cut_off_share(over_all):.0%}".replace("%", " %")
    return f"- {cell('; '.join([f'{suite}, {model}: {share} of the answers', *parts]))}"


def error_notes(tables: Mapping[str, Table]) -> list[str]:
    """Which results lack answers for errors, and what brings those that may have passed."""
    lacking = [
        f"{row['suite']}, {model} ({row['excluded_error']})"
        for model, table in tables.items()
        for row in table
        if row["measure"] == "refusal_rate"
        and not row["field"]
        and row.get("excluded_error") not in (None, "", "0")
    ]
    if not lacking:
        return []
    return [
        f"**Errors instead of answers**: {cell('; '.join(lacking))}. `dvc repro` asks again for those "
        "that may have passed."
    ]


def without_cut_off(tables: Mapping[str, Table]) -> str:
    """The rates that leaving out cut-off answers would change, with and without them: refusal by
    category, and success of attacks."""
    rows = []
    for model, table in tables.items():
        judged = {(row["suite"], row["measure"]): row for row in table if not row["field"]}
        rows += [
            [
                row["suite"],
                model,
                CATEGORY_OF.get(row["measure"], row["measure"]),
                shown_rate(judged[row["suite"], row["measure"]]),
                shown_rate(row),
            ]
            for row in table
            if row["field"] == "cut_off" and row["measure"] in (*CATEGORY_OF, *ATTACKS)
        ]
    if not rows:
        return "No judged answer was cut off."
    header = ["Suite", "Model", "Prompts or measure", "Judged", "Without cut-off answers"]
    return "\n\n".join(
        [
            "Refusals are short and help is long, so that refusal without cut-off answers reads too "
            "high; *with N not judged* has the bounds. Rates of changed answers have no such second "
            "one.",
            markdown_table(header, rows),
        ]
    )


def field_tables(tables: Mapping[str, Table]) -> str:
    """For each suite and field: the rate of each value and category, one column a model."""
    found: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = {}
    for model, table in tables.items():
        for row in table:
            if row["field"] not in ("", "cut_off") and row["measure"] in CATEGORY_OF:
                values = found.setdefault((row["suite"], row["field"]), {})
                key = (CATEGORY_OF[row["measure"]], row["value"])
                values.setdefault(key, {})[model] = shown_rate(row)
    parts = []
    for (suite, field), values in found.items():
        rows = [
            [value, category, *(shown.get(model, MISSING) for model in tables)]
            for (category, value), shown in values.items()
        ]
        parts.append(f"### {cell(suite)} by {cell(field)}\n\n")
        parts.append(markdown_table([field, "category", *tables], rows) + "\n\n")
    return "".join(parts).rstrip()


def sample_tables(tables: Mapping[str, Table]) -> str:
    """Any and all of k samples of a prompt, and the spread within prompts."""
    rows = [
        [row["suite"], model, row["measure"], row["value"], _mean(row), row["n"], left_out(row)]
        for model, table in tables.items()
        for row in table
        if row["field"] == SAMPLES_FIELD
    ]
    header = ["Suite", "Model", "Measure", "k", "Mean over prompts", "Prompts", "Not judged"]
    return markdown_table(header, rows) if rows else ""


def _mean(row: Mapping[str, str]) -> str:
    return f"{rate_of(row):.3f} {shown_interval(row)}".strip() if row["rate"] else MISSING


def shown_difference(row: Mapping[str, str]) -> str:
    """A difference with its interval: ``-0.356 [-0.510, -0.203]``."""
    return f"{three(row['rate'], '+')} {shown_interval(row, '+') or '(no interval)'}"


def pair_tables(tables: Mapping[str, Table]) -> str:
    """For suites of paired rows: the difference in refusal to the row's pair.

    The p-values are of whole suites alone, corrected for all of them in the section (Holm).
    """
    rows: list[list[object]] = []
    values: list[float | None] = []
    for model, table in tables.items():
        for row in table:
            if row["measure"] == "refusal_difference_to_pair":
                shown = shown_difference(row)
                pairs = row["n"]
                if int(row.get("clusters") or pairs) < int(pairs):
                    pairs += f", {row['clusters']} requests"
                p = None if row["field"] or not row["p"] else float(row["p"])
                rows.append([row["suite"], model, row["value"] or "all", pairs, shown])
                values.append(p)
    if not rows:
        return "No suite of the grid has paired rows."
    for line, p in zip(rows, holm(values), strict=True):
        line.append(MISSING if p is None else f"{p:.4f}" if round(p, 4) else "<0.0001")
    header = ["Suite", "Model", "Group", "Pairs", "Difference", "p (Holm)"]
    return markdown_table(header, rows)


def robustness_tables(tables: Mapping[str, Table]) -> str:
    """Fail rates by perturbation and group, flips, and success of injections."""
    groups, flips, attacks = [], [], []
    for model, table in tables.items():
        perturbed = {
            (row["suite"], row["measure"]) for row in table if row["field"] == "perturbation"
        }
        for row in table:
            measure = row["measure"]
            if row["field"] == "cut_off":
                continue
            if (row["suite"], measure) in perturbed:
                untested = ", ".join(
                    f"{value} {key.removeprefix('untested_').replace('_', ' ')}"
                    for key, value in row.items()
                    if key.startswith("untested_") and value not in ("", "0")
                )
                floor = MISSING
                if row["above_floor"]:
                    shift, low, high = (
                        three(row[f"above_floor{end}"], "+") for end in ("", "_low", "_high")
                    )
                    floor = f"{shift} [{low}, {high}]"
                groups.append(
                    [
                        row["suite"],
                        model,
                        measure.removesuffix("_fail_rate"),
                        row["value"] or "all",
                        shown_rate(row),
                        shown_p(row["p"]),
                        shown_p(row["p_holm"]),
                        floor,
                        row["dose"] or MISSING,
                        row["repetitions"] or MISSING,
                        untested or "0",
                    ]
                )
            elif measure.endswith(("_loophole_rate", "_new_refusal_rate")):
                kind = "loophole" if measure.endswith("_loophole_rate") else "new refusal"
                name = measure.removesuffix("_loophole_rate").removesuffix("_new_refusal_rate")
                flips.append([row["suite"], model, name, kind, shown_rate(row)])
            elif measure in ("injection_success_rate", "task_done_rate"):
                group = row["value"] or "all"
                attacks.append(
                    [row["suite"], model, measure, group, shown_rate(row), left_out(row)]
                )
    parts = []
    if groups:
        header = [
            "Suite",
            "Model",
            "Perturbation",
            "Group",
            "Fail rate",
            "p",
            "p (Holm)",
            "Above noise floor",
            "Median dose",
            "Repetitions used",
            "Not tested",
        ]
        parts += [
            "An answer fails when it changed: similarity fell by more than the sensitivity, or its "
            "refusal flipped. An answer that became empty counts as changed, though no rate of refusal "
            "counts it; one that became degenerate is compared by what it says. *Not tested*: the clean "
            "answer was not judged, no character reached the model, or the answer is an error or was "
            "withheld. *all* is the headline, over all groups, variants of a prompt as one "
            "cluster; the intervals of the groups below it hold together. *p*: one-sided test that a "
            "group's fail rate is above its limit, alone and corrected for the groups of one "
            "perturbation. *Median dose*: tokens "
            "that the perturbation added after chat template and tokenizer. *Repetitions used*: "
            "repetitions:prompts.",
            markdown_table(header, groups),
        ]
    if flips:
        parts += [
            "*Loophole*: refused prompts that are answered once perturbed. *New refusal*: answered "
            "prompts that are refused once perturbed.",
            markdown_table(["Suite", "Model", "Perturbation", "Flip", "Rate"], flips),
        ]
    if attacks:
        header = ["Suite", "Model", "Measure", "Group", "Rate", "Not judged"]
        parts += [
            "Prompt injection, by the strings that an attack asks for.",
            markdown_table(header, attacks),
        ]
    return "\n\n".join(parts) or "No suite of the grid has perturbations or injections."


def _used(usage: Mapping[str, Any]) -> list[str]:
    kinds = ("prompt_tokens", "completion_tokens", "cost_usd")
    return [MISSING if usage.get(kind) is None else f"{usage[kind]:,}" for kind in kinds]


def _decoding(adapter: str, seed: int | None) -> str:
    if adapter == "recorded":
        return "not known"
    return "greedy" if seed is None else f"seed {seed}"


def provenance_tables(provenance: Mapping[str, Any], pins: Mapping[str, str]) -> str:
    """What a re-derivation needs beyond the commit: contents, judges, settings, versions."""
    models = []
    for model, found in provenance.items():
        identity = found["model"]["identity"]
        held = identity["model"] if isinstance(identity.get("model"), dict) else identity
        content = str(held.get("commit") or held.get("sha256") or MISSING)
        definition = found["model"]["definition"]
        source = definition.get("model_id") or definition.get("path") or MISSING
        seed = found["model"]["seed"]
        models.append(
            [
                model,
                definition["adapter"],
                identity["adapter_version"],
                source,
                content[:16],
                _decoding(definition["adapter"], seed),
                *_used(found.get("usage", {})),
            ]
        )
    suites = {}
    judges = {}
    for found in provenance.values():
        for suite, held in found["suites"].items():
            suites[suite] = [held["label"], held["sha256"][:16], ", ".join(held["judges"])]
        for judge, held in found["judges"].items():
            judges[judge] = [judge, held["kind"], held["version"]]
    return "\n\n".join(
        [
            markdown_table(
                [
                    "Model",
                    "Adapter",
                    "Version",
                    "Source",
                    "Revision or content",
                    "Decoding",
                    "Prompt tokens",
                    "Answer tokens",
                    "Cost (USD)",
                ],
                models,
            ),
            markdown_table(["Suite", "SHA-256", "Judges"], suites.values()),
            markdown_table(["Judge", "Kind", "Version"], judges.values()),
            "Versions that `make setup` installs: "
            + ", ".join(f"{name} {version}" for name, version in pins.items())
            + ". What was in use, on which machine and when is in [metrics/ran](../ran). Each result's "
            "code is in `dvc.lock`; full hashes are in `metrics/provenance/`.",
        ]
    )
