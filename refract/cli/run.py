"""``refract run`` and ``refract demo``: the five stages in one process, without DVC."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.cli.project import find_judge, find_params, find_suite, project_root
from refract.errors import UsageError
from refract.inference import Count, answer_prompts
from refract.judges import check_counted, judge_suite, open_judge
from refract.models import identity_of, open_model
from refract.params import definition, grid, load_params
from refract.perturbations import prompt_rows
from refract.progress.runs import say_warnings
from refract.rates import aggregate_suite
from refract.rates.rates import SHARES, suite_metrics
from refract.report.markdown import excluded_counts
from refract.report.summary import MAIN_HEADER, main_rows
from refract.results.environment import code_sha256, library_versions
from refract.results.tables import read_results
from refract.rows.columns import OUTCOME_COLUMNS
from refract.rows.jsonl import Row, dump_row, sha256_file, write_json, write_rows
from refract.rows.showing import printable, say
from refract.rows.suites import load_suite, sample_rows, suite_label
from refract.rows.tables import write_table
from refract.store import ResponseStore, open_store
from stages.aggregate import outcome_lines


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    settings = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        try:
            value = YAML(typ="safe", pure=True).load(text)
        except YAMLError:
            equals = ""
        if not equals or not key:
            raise UsageError(f"--set takes key=value with a YAML value (got {pair!r})")
        settings[key] = value
    return settings


def _model_definition(
    params: Mapping[str, Any], name: str | None, given: dict[str, Any]
) -> dict[str, Any]:
    if name is None and "adapter" not in given:
        raise UsageError("name a model of params.yaml with --model, or an adapter with --adapter")
    if name is None:
        return given
    if name not in params["models"]:
        known = ", ".join(sorted(params["models"]))
        raise UsageError(f"--model: no model {name!r}; params.yaml defines: {known}")
    return definition(dict(params), "models", name) | given


def measure_suites(
    params: Mapping[str, Any],
    model_definition: dict[str, Any],
    suites: Sequence[str],
    seed: int,
    sample: int | None,
    judge: str,
    store: ResponseStore,
    name: str,
) -> tuple[Row, list[Row], list[Row], dict[str, Count]]:
    """Results, outcome rows and full rows of one model on some suites, and how answers came about.

    Only the clean prompts of a suite are asked. Raises the errors of the stages.
    """
    judge_definition = find_judge(judge, dict(params))
    opened = {judge: open_judge(judge, judge_definition)}
    model = open_model(name, model_definition)
    found: dict[str, Row] = {}
    prompts: dict[str, list[Row]] = {}
    for wanted in suites:
        suite, suite_definition = find_suite(wanted, dict(params))
        check_counted(suite, opened, perturbed=False)
        if suite in found:
            raise UsageError(f"--suite: two suites are called {suite!r}")
        rows = load_suite(Path(suite_definition["file"]))
        drawn = sample_rows(rows, sample, seed=seed, suite=suite)
        found[suite] = {
            "definition": {
                "judges": [judge],
                "fields": suite_definition.get("fields"),
                "count_cut_off": suite_definition.get("count_cut_off", False),
            },
            "label": suite_label(suite, sample, len(rows), seed),
            "rows": rows,
        }
        template = suite_definition.get("template")
        prompts[suite] = list(prompt_rows(drawn, suite, seed, template=template))
        found[suite]["provenance"] = {
            "suite": suite,
            "argument": wanted,
            "sha256": sha256_file(Path(suite_definition["file"])),
            "prompts_sha256": hashlib.sha256(b"".join(map(dump_row, prompts[suite]))).hexdigest(),
            "judges": [judge],
            "count_cut_off": bool(suite_definition.get("count_cut_off")),
        }
    responses, counts = answer_prompts(prompts, model, store, seed, name=name)
    results: Row = {
        "schema_version": "1",
        "model": name,
        "metrics": {},
        "tables": [],
        "provenance": {
            "model": {
                "definition": model_definition,
                "identity": identity_of(model),
                "seed": seed if model.samples else None,
                **model.description(),
            },
            "judges": {judge: {**judge_definition, "version": opened[judge].version}},
            "suites": {facts["label"]: facts["provenance"] for facts in found.values()},
            "run": {
                "code_sha256": code_sha256(),
                "libraries": library_versions(),
                "python": ".".join(map(str, sys.version_info[:3])),
                "refract": importlib.metadata.version("refract-eval"),
                "sample": sample,
                "seed": seed,
            },
        },
    }
    outcome_rows: list[Row] = []
    full_rows: list[Row] = []
    for suite, facts in found.items():
        sources = {row["id"]: row for row in facts["rows"]}
        verdicts = judge_suite(prompts[suite], responses[suite], sources, opened)
        aggregated = aggregate_suite(
            facts["rows"],
            prompts[suite],
            responses[suite],
            verdicts,
            facts["definition"],
            {judge: judge_definition},
            {judge: opened[judge].FAMILY},
        )
        results["metrics"][facts["label"]] = suite_metrics(aggregated.table)
        results["tables"] += [{"suite": facts["label"], **row} for row in aggregated.table]
        outcome_rows += outcome_lines(suite, prompts[suite], aggregated)
        for prompt, response, verdict in zip(
            prompts[suite], responses[suite], verdicts, strict=True
        ):
            full_rows.append(
                {
                    **response,
                    "suite": suite,
                    "category": prompt["category"],
                    "prompt": prompt["attempts"][response["attempt"]],
                    "outcome": aggregated.outcomes[prompt["prompt_id"]],
                    **verdict["judges"][judge],
                    "error": response["error"] or verdict["judges"][judge]["error"],
                }
            )
    return results, outcome_rows, full_rows, counts


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
    Console(width=None if console.is_terminal else 200).print(table)


def print_results(results: Row) -> None:
    """The rates of a run."""
    rows = []
    shares: dict[tuple[str, str], dict[str, str]] = {}
    for row in results["tables"]:
        if row["field"] == "category":
            shown = "—" if row["rate"] is None else f"{row['rate']:.3f}"
            shares.setdefault((row["suite"], row["value"]), {})[row["measure"]] = shown
        if row["field"] or row["measure"] == "refusal_difference_to_pair":
            continue
        rate = "—" if row["rate"] is None else f"{row['rate']:.3f}"
        interval = "—" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        left_out = ", ".join(f"{n} {kind}" for kind, n in excluded_counts(row).items())
        counts = f"{row['successes']}/{row['n']}"
        rows.append([row["suite"], row["measure"], rate, interval, counts, left_out or "0"])
    print_table(["suite", "measure", "rate", "95 % interval", "counts", "not judged"], rows)
    print_table(
        ["suite", "category", "compliance", "full refusal", "partial refusal"],
        [[*key, *(found[measure] for measure, _ in SHARES)] for key, found in shares.items()],
    )


def show_report() -> None:
    """Prints the main table of the grid's results and where the report lies."""
    root = project_root()
    models = grid(load_params(root / "params.yaml"), "models")
    tables, _ = read_results(root, models)
    print_table(MAIN_HEADER, main_rows(tables))
    say(f"report: {root / 'metrics/report.md'}")
    page = root / "data/report/report.html"
    if page.is_file():
        say(f"page:   {page}")
    say_warnings(root, models)


def measure(
    name: str | None,
    given: dict[str, Any],
    pairs: Sequence[str],
    suites: Sequence[str],
    seed: int,
    sample: int | None,
    judge: str,
    out: Path,
    outcomes: Path | None,
    rows: Path | None,
) -> None:
    """Writes the results and outcomes of one model; exits with 1 when every answer is an error."""
    params = find_params()
    model_definition = _model_definition(params, name, given | _settings(pairs))
    label = name or Path(str(model_definition.get("model_id", model_definition["adapter"]))).name
    with open_store() as store:
        results, outcome_rows, full_rows, counts = measure_suites(
            params, model_definition, suites, seed, sample, judge, store, label
        )
    write_json(out, results)
    write_table(outcomes or out.with_suffix(".outcomes.csv"), OUTCOME_COLUMNS, outcome_rows)
    if rows is not None:
        write_rows(rows, full_rows)
    for suite, count in counts.items():
        say(f"{label} {suite}: {count}")
    print_results(results)
    errors = [row["error"] for row in full_rows if row["finish_reason"] == "error"]
    if len(errors) == len(full_rows):
        first = errors[0]
        sys.exit(
            printable(
                f"refract: all {len(errors)} answers are errors; the first: "
                f"{first['type']}: {first['message']}"
            )
        )


def demonstrate(sample: int, seed: int) -> None:
    """Prints what the synthetic model does on a sample of the default suite; writes nothing."""
    results, *_ = measure_suites(
        find_params(),
        {"adapter": "synthetic"},
        ["harmful_helpful"],
        seed,
        sample,
        "rules",
        ResponseStore(None),
        "synthetic",
    )
    print_results(results)
